"""Where ONNX Runtime GenAI parts from the reference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from mmref.case import Scalar
from mmref.differences.base import Difference, small_case

__all__ = ["DIFFERENCES"]

_FILE = "src/models/position_inputs.cpp, Qwen2VLPositionInputs"
_LARGEST_GRID = 16384


def _grid_over_limit(prompt: Any, spans: Any, scalars: Mapping[str, Scalar]) -> bool:
    return any(
        grid.size and int(grid.max()) > _LARGEST_GRID
        for grid in (prompt.image_grid, prompt.video_grid)
    )


def _beams(prompt: Any, spans: Any, scalars: Mapping[str, Scalar]) -> bool:
    return int(scalars.get("num_beams", 1)) > 1  # type: ignore[arg-type]


DIFFERENCES: tuple[Difference, ...] = (
    Difference(
        id="genai-media-only-after-vision-start",
        engine="onnxruntime-genai",
        since="0.14",
        meaning="Only a placeholder directly after vision_start begins an item, which is laid "
        "over the tokens that follow.",
        consequence="Media without that boundary, and a second item in one block, silently get "
        "text positions; masked tokens inside an item shift it.",
        source=_FILE,
        case=small_case([[10, 10]], images=[[1, 2, 4]]),
        sets={"find_media": "after_vision_start"},
    ),
    Difference(
        id="genai-video-grid-not-split",
        engine="onnxruntime-genai",
        since="0.14",
        meaning="The video grid of families with timestamps is not split into frames.",
        consequence="The second frame throws 'Not enough video_grid_thw data', or the first is "
        "laid over all frames and their timestamps. Split the grid yourself.",
        source=_FILE,
        case=small_case([[12, 11, 20, 12, 11]], "qwen3_vl", videos=[[2, 2, 2]]),
        sets={"frames": "joined"},
    ),
    Difference(
        id="genai-padding-by-token-id",
        engine="onnxruntime-genai",
        since="0.14",
        meaning="A token equal to pad_token_id is padding, wherever it stands.",
        consequence="A pad id inside text (or eos, or an ordinary token, where they share the "
        "id) is masked out and takes no position, also without any padding.",
        source=_FILE,
        case=small_case([[0, 20]]),
        sets={"padding": "pad_id"},
    ),
    Difference(
        id="genai-unset-ids-are-zero",
        engine="onnxruntime-genai",
        since="0.14",
        meaning="A token id missing from genai_config.json is 0.",
        consequence="Without vision_start_token_id or image_token_id images silently get text "
        "positions; without pad_token_id token 0 is padding.",
        source="src/config.h",
        case=small_case([[12, 10, 10]], images=[[1, 2, 4]], unset=["vision_start"]),
        sets={"unset_ids": "zero"},
    ),
    Difference(
        id="genai-rows-start-at-one",
        engine="onnxruntime-genai",
        since="0.14",
        meaning="Rows after the first that hold media start at position 1.",
        consequence="The same prompt gets other positions, in the prompt and in decode, "
        "depending on its place in the batch.",
        source=_FILE,
        case=small_case([[20, 20], [12, 10]], images=[[1, 2, 2]]),
        sets={"row_start": "one_after_first"},
    ),
    Difference(
        id="genai-time-rounded",
        engine="onnxruntime-genai",
        since="0.14",
        meaning="Time is round((step * seconds) * tokens_per_second) in float32, not truncated.",
        consequence="Frames of videos with fractional seconds are up to one position late.",
        source=_FILE,
        case=small_case([[12, 11, 11]], videos=[[2, 2, 2]], seconds=np.array([0.25], np.float32)),
        sets={"seconds": "rounded"},
    ),
    Difference(
        id="genai-decode-mask-all-ones",
        engine="onnxruntime-genai",
        since="0.14",
        meaning="From the first generated token on, the attention mask is all ones.",
        consequence="Padding becomes visible to every generated token of a padded batch.",
        source=_FILE,
        case=small_case([[0, 20]], mask=[[0, 1]], decode_steps=1),
        sets={"decode_mask": "ones"},
    ),
    Difference(
        id="genai-empty-row-decodes-from-one",
        engine="onnxruntime-genai",
        since="0.14",
        meaning="A row without tokens is continued at position 1, as if it held one token.",
        consequence="Generated tokens of an empty row are one position late.",
        source=_FILE,
        case=small_case([[0]], mask=[[0]], decode_steps=1),
        sets={"decode": "empty_row_is_zero"},
    ),
    Difference(
        id="genai-grid-over-16384-refused",
        engine="onnxruntime-genai",
        since="0.16",
        meaning="A grid value over 16384 is refused.",
        consequence="Very long panoramas or videos need splitting.",
        source="the engine's message: values must be <= 16384",
        case=small_case([[12, 10]], images=[[1, 16385, 16385]], spatial_merge_size=16385),
        refuses=_grid_over_limit,
    ),
    Difference(
        id="genai-beams-refused",
        engine="onnxruntime-genai",
        since="0.16",
        meaning="Beam search over a multimodal prompt throws.",
        consequence="num_beams above 1 does not work for these model types.",
        source="the engine's message about the shape of inputs_embeds",
        case=small_case([[20, 20]], num_beams=2),
        refuses=_beams,
    ),
    Difference(
        id="genai-unused-items-ignored",
        engine="onnxruntime-genai",
        since="0.14",
        meaning="Grid rows without placeholders are ignored.",
        consequence="A truncated prompt is answered as if its image had never been given.",
        source=_FILE,
        case=small_case([[20]], images=[[1, 2, 2]]),
        on_refused=frozenset({"unused-item"}),
    ),
    Difference(
        id="genai-stray-placeholder-is-text",
        engine="onnxruntime-genai",
        since="0.14",
        meaning="A placeholder without vision_start before it needs no item: it is text.",
        consequence="A literal placeholder in user text takes the image's features, and the "
        "image none, while positions look right.",
        source=_FILE,
        case=small_case([[10]]),
        on_refused=frozenset({"placeholder-without-item"}),
    ),
    Difference(
        id="genai-longer-run-is-text",
        engine="onnxruntime-genai",
        since="0.14",
        meaning="Placeholders beyond the item's size are text.",
        consequence="A wrong grid, or one placeholder too many, is answered without an error.",
        source=_FILE,
        case=small_case([[12, 10, 10]], images=[[1, 2, 2]]),
        on_refused=frozenset({"run-longer-than-items"}),
    ),
    Difference(
        id="genai-shorter-run-overwrites-text",
        engine="onnxruntime-genai",
        since="0.14",
        meaning="An item larger than its run is laid over the text that follows, if it fits.",
        consequence="Text after the image silently gets image positions.",
        source=_FILE,
        case=small_case([[12, 10, 20]], images=[[1, 2, 4]]),
        on_refused=frozenset({"run-shorter-than-item"}),
    ),
    Difference(
        id="genai-grid-floored",
        engine="onnxruntime-genai",
        since="0.14",
        meaning="A height or width that the merge size does not divide is floored.",
        consequence="A wrong grid passes.",
        source=_FILE,
        case=small_case([[12, 10]], images=[[1, 3, 2]]),
        on_refused=frozenset({"grid-not-divisible"}),
    ),
    Difference(
        id="genai-image-frames-share-time",
        engine="onnxruntime-genai",
        since="0.14",
        meaning="An image grid with t > 1 is placed with one time for all its frames.",
        consequence="A video passed as an image has no order in time.",
        source=_FILE,
        case=small_case([[12, 10, 10]], images=[[2, 2, 2]]),
        on_refused=frozenset({"image-with-frames"}),
    ),
    Difference(
        id="genai-zero-grid-is-text",
        engine="onnxruntime-genai",
        since="0.14",
        meaning="An item with a grid value of zero covers nothing; its placeholders are text.",
        consequence="A broken grid is answered without an error.",
        source=_FILE,
        case=small_case([[12, 10]], images=[[1, 0, 2]]),
        on_refused=frozenset({"grid-not-positive"}),
    ),
    Difference(
        id="genai-merge-zero-crashes",
        engine="onnxruntime-genai",
        since="0.16",
        meaning="A spatial_merge_size of 0 divides by zero and kills the process.",
        consequence="One value in a configuration file takes the host application down.",
        source=_FILE,
        case=small_case([[12, 10]], images=[[1, 2, 2]], spatial_merge_size=0),
        on_refused=frozenset({"merge-not-positive"}),
        then="crash",
    ),
    Difference(
        id="genai-merge-not-checked",
        engine="onnxruntime-genai",
        since="0.16",
        meaning="A merge size below zero is used (two minus signs cancel), and zero where no "
        "item is placed.",
        consequence="A broken configuration is answered without an error.",
        source=_FILE,
        case=small_case([[12, 10]], images=[[1, 2, 2]], spatial_merge_size=-2),
        on_refused=frozenset({"merge-not-positive"}),
    ),
    Difference(
        id="genai-seconds-missing-are-one",
        engine="onnxruntime-genai",
        since="0.14",
        meaning="Missing seconds are 1.0, extra ones are ignored.",
        consequence="The frame rate of later videos is silently lost.",
        source=_FILE,
        case=small_case(
            [[12, 11, 20, 12, 11]],
            videos=[[1, 2, 2], [1, 2, 2]],
            seconds=np.array([3.0], np.float32),
        ),
        on_refused=frozenset({"seconds-length"}),
    ),
    Difference(
        id="genai-seconds-used-by-every-type",
        engine="onnxruntime-genai",
        since="0.14",
        meaning="second_per_grid_ts is taken for types whose family counts grid steps.",
        consequence="Positions of a Qwen3-VL video depend on a value that its model never saw.",
        source=_FILE,
        case=small_case(
            [[12, 11]], "qwen3_vl", videos=[[1, 2, 2]], seconds=np.array([3.0], np.float32)
        ),
        on_refused=frozenset({"seconds-not-used"}),
    ),
    Difference(
        id="genai-rate-used-by-every-type",
        engine="onnxruntime-genai",
        since="0.14",
        meaning="tokens_per_second is taken for types whose family counts grid steps.",
        consequence="A configuration value changes positions that should not depend on it.",
        source=_FILE,
        case=small_case([[20]], "qwen3_vl", tokens_per_second=2.0),
        on_refused=frozenset({"rate-not-used"}),
    ),
    Difference(
        id="genai-seconds-not-checked",
        engine="onnxruntime-genai",
        since="0.14",
        meaning="Negative, infinite and NaN seconds are used as they are.",
        consequence="Positions below zero or at the edge of int64, without an error.",
        source=_FILE,
        case=small_case([[12, 11]], videos=[[1, 2, 2]], seconds=np.array([-1.0], np.float32)),
        on_refused=frozenset({"seconds-value"}),
    ),
    Difference(
        id="genai-position-beyond-int32",
        engine="onnxruntime-genai",
        since="0.14",
        meaning="Positions beyond int32 are computed; beyond int64 they wrap.",
        consequence="Wrong seconds are answered with positions that no rotary table holds.",
        source=_FILE,
        case=small_case([[12, 11, 11]], videos=[[2, 2, 2]], seconds=np.array([1e10], np.float32)),
        on_refused=frozenset({"position-too-large"}),
    ),
    Difference(
        id="genai-rate-not-checked",
        engine="onnxruntime-genai",
        since="0.14",
        meaning="A tokens_per_second of zero or less is used as it is.",
        consequence="All frames of a video share one time, or time runs backwards.",
        source=_FILE,
        case=small_case([[20]], tokens_per_second=0.0),
        on_refused=frozenset({"rate-not-positive"}),
    ),
    Difference(
        id="genai-equal-placeholder-ids",
        engine="onnxruntime-genai",
        since="0.14",
        meaning="With one id for both kinds, every placeholder is an image's.",
        consequence="Videos are placed as images, without an error.",
        source=_FILE,
        case=small_case([[20]], token_ids={"video": 10}),
        on_refused=frozenset({"token-ids-equal"}),
    ),
    Difference(
        id="genai-ids-type-not-checked",
        engine="onnxruntime-genai",
        since="0.16",
        meaning="Token ids of another type than int32 are read as if they were int32.",
        consequence="Ids as int64 or float become other tokens, often padding, without an error.",
        source="NamedTensors input_ids, shown by its answer",
        case=replace(small_case([[20]]), arrays={"input_ids": np.array([[20.0]])}),
        on_refused=frozenset({"input-ids-dtype"}),
    ),
    Difference(
        id="genai-ids-rank-not-checked",
        engine="onnxruntime-genai",
        since="0.16",
        meaning="Token ids of rank 3 are flattened and read with the batch size of the search.",
        consequence="A nested batch is answered as another prompt, without an error.",
        source="NamedTensors input_ids, shown by its answer",
        case=replace(small_case([[20]]), arrays={"input_ids": np.array([[[20]]])}),
        on_refused=frozenset({"input-ids-rank"}),
    ),
)
