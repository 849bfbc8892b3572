"""What older releases of Hugging Face transformers did, and the newest no longer does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from mmref.case import Scalar
from mmref.differences.base import Difference, small_case

__all__ = ["DIFFERENCES"]

_QWEN2 = "models/qwen2_vl/modeling_qwen2_vl.py, get_rope_index"
_QWEN2_5 = "models/qwen2_5_vl/modeling_qwen2_5_vl.py, get_rope_index"
_QWEN3 = "models/qwen3_vl/modeling_qwen3_vl.py, get_rope_index"
_GLM = "models/glm4v/modeling_glm4v.py, get_rope_index"
_SPAN_ROW = 0  # a column of the span table that is handed in


def _row_without_tokens(prompt: Any, spans: Any, scalars: Mapping[str, Scalar]) -> bool:
    return prompt.any_grid and len(np.unique(spans[:, _SPAN_ROW])) < len(prompt.ids)


DIFFERENCES: tuple[Difference, ...] = (
    Difference(
        id="transformers-media-by-vision-start",
        engine="transformers",
        since="4.49.0",
        before="5.3.0",
        meaning="As many items are placed as a vision_start stands before; the GLM-4V line takes "
        "one item for each run.",
        consequence="An image without vision_start, and the second of two side by side, are "
        "numbered like text; a vision_start at the end of a row is an IndexError.",
        source=f"{_QWEN2}: image_nums = (vision_tokens == image_token_id).sum(); {_GLM}",
        case=small_case([[10, 10]], "qwen2_vl", images=[[1, 2, 4]]),
        sets={"find_media": "as_many_as_starts"},
    ),
    Difference(
        id="transformers-seconds-before-rate",
        engine="transformers",
        since="4.49.0",
        before="4.52.0",
        meaning="A grid step is multiplied by the seconds first, in float32, and then by the rate.",
        consequence="Some frames are one position earlier or later than where the rate is "
        "multiplied by the seconds first.",
        source=f"{_QWEN2_5}: expanded_range * second_per_grid_t * tokens_per_second",
        case=small_case(
            [[12, *[11] * 6, 13]],
            videos=[[6, 2, 2]],
            seconds=np.array([1.4], np.float32),
            tokens_per_second=25.0,
        ),
        sets={"seconds": "before_rate"},
    ),
    Difference(
        id="transformers-seconds-cut-to-whole",
        engine="transformers",
        since="4.52.0",
        before="5.19.0",
        meaning="Seconds are cut to whole ones before they are multiplied.",
        consequence="At half a second a grid step every frame of a video has the same time; at "
        "one and a half they are as close as at one.",
        source=f"{_QWEN2_5}: torch.as_tensor(second_per_grid_t, dtype=range_tensor.dtype); from "
        "5.3.0 on int(next(second_per_grid_ts))",
        case=small_case(
            [[12, 11, 11, 13]], videos=[[2, 2, 2]], seconds=np.array([0.5], np.float32)
        ),
        sets={"seconds": "whole"},
    ),
    Difference(
        id="transformers-masked-places-hold-one",
        engine="transformers",
        since="4.49.0",
        before="5.2.0",
        meaning="Masked places hold position 1.",
        consequence="None for a model that masks them; a comparison of whole tensors fails.",
        source=f"{_QWEN2}: position_ids = torch.ones(...)",
        case=small_case([[0, 20]], "qwen2_vl", mask=[[0, 1]]),
        sets={"padding_holds": "one"},
    ),
    Difference(
        id="transformers-masked-places-hold-one-in-glm",
        engine="transformers",
        since="5.2.0",
        before="5.3.0",
        meaning="Masked places hold position 1 in the GLM-4V line, and 0 elsewhere.",
        consequence="None for a model that masks them; a comparison of whole tensors fails.",
        source=f"{_GLM}: position_ids = torch.ones(...)",
        case=small_case(
            [[0, 20]], "glm4v", mask=[[0, 1]], token_ids={"video_start": 14, "video_end": 15}
        ),
        sets={"padding_holds": "one_if_marked"},
    ),
    Difference(
        id="transformers-delta-counts-padding",
        engine="transformers",
        since="4.49.0",
        before="5.3.0",
        meaning="rope_deltas subtract the padded length, not the number of tokens.",
        consequence="Whoever adds the delta to the number of tokens decodes too low by the "
        "padding; 5.2 does so itself in padded batches.",
        source=f"{_QWEN2}: llm_positions.max() + 1 - len(total_input_ids[i])",
        case=small_case([[0, 20]], mask=[[0, 1]]),
        sets={"delta": "padded"},
    ),
    Difference(
        id="transformers-delta-not-negative",
        engine="transformers",
        since="5.2.0",
        before="5.3.0",
        meaning="Qwen2-VL and PaddleOCR-VL cut a negative rope_delta to 0.",
        consequence="After any image the first generated token jumps ahead by as many positions "
        "as the image saved.",
        source=f"{_QWEN2}: max(llm_positions.max() + 1 - len(total_input_ids[i]), 0)",
        case=small_case([[12, 10, 10, 10, 10, 13]], "qwen2_vl", images=[[1, 4, 4]]),
        sets={"delta": "padded_not_negative"},
    ),
    Difference(
        id="transformers-text-only-by-the-mask",
        engine="transformers",
        since="4.49.0",
        before="5.2.0",
        meaning="Without grids, the 1 at masked places counts among a row's positions.",
        consequence="The delta of a padded row of one token or none is too high, and decoding "
        "starts at 2.",
        source=f"{_QWEN2}: position_ids.masked_fill_(attention_mask == 0, 1), then max",
        case=small_case([[0, 20]], "qwen2_vl", mask=[[0, 1]]),
        sets={"text_only": "by_the_mask"},
    ),
    Difference(
        id="transformers-row-without-tokens-beside-media",
        engine="transformers",
        since="4.49.0",
        before="5.2.0",
        meaning="A row whose tokens are all masked is refused where any row has media.",
        consequence="A batch with an empty row works for text and fails with the first image.",
        source=f"{_QWEN2}: torch.cat of an empty list",
        case=small_case([[12, 10], [0, 0]], "qwen2_vl", images=[[1, 2, 2]], mask=[[1, 1], [0, 0]]),
        refuses=_row_without_tokens,
    ),
    Difference(
        id="transformers-frames-not-split",
        engine="transformers",
        since="5.3.0",
        before="5.5.0",
        meaning="In the Qwen3-VL line a video's grid is not split into frames.",
        consequence="Every prompt that the processor makes of a video of more than one step "
        "fails with StopIteration or a shape error.",
        source=f"{_QWEN3}: grid_thw = next(grid_iters[modality_type])",
        case=small_case([[11, 20, 11]], "qwen3_vl", videos=[[2, 2, 2]]),
        sets={"frames": "split_if_marked"},
    ),
    Difference(
        id="transformers-grid-steps-collapsed",
        engine="transformers",
        since="5.3.0",
        before="5.6.0",
        meaning="All grid steps of an item have one time, its start times the interval, and the "
        "heights of all steps stand in one block.",
        consequence="Videos lose their time, and in Qwen2.5-VL images late in a prompt jump far "
        "ahead in time.",
        source="models/qwen2_5_vl/modeling_qwen2_5_vl.py, get_vision_position_ids: "
        "torch.full((image_seq_length,), start_position) * time_interval",
        case=small_case([[11, 11]], "qwen2_vl", videos=[[2, 2, 2]]),
        sets={"grid_steps": "collapsed"},
    ),
    Difference(
        id="transformers-images-use-up-seconds",
        engine="transformers",
        since="5.3.0",
        before="5.6.0",
        meaning="Every image takes one of the seconds that are the videos'.",
        consequence="A video after an image has another video's seconds, or a StopIteration; "
        "images are scaled by tokens_per_second.",
        source=f"{_QWEN2_5}: next(second_per_grid_ts) for every modality",
        case=small_case([[20, 10]], images=[[1, 2, 2]]),
        sets={"seconds_for": "all_media"},
    ),
    Difference(
        id="transformers-rest-of-run-is-text",
        engine="transformers",
        since="4.49.0",
        before="5.3.0",
        meaning="What a run has beyond its item is text; an item longer than its run covers what "
        "follows.",
        consequence="A grid of another size is answered with plausible positions.",
        source=f"{_QWEN2}: st = ed + llm_grid_t * llm_grid_h * llm_grid_w",
        case=small_case([[12, 10, 10]], "qwen2_vl", images=[[1, 2, 2]]),
        on_refused=frozenset(
            {"run-longer-than-items", "run-shorter-than-item", "placeholder-without-item"}
        ),
    ),
    Difference(
        id="transformers-mask-value-not-one",
        engine="transformers",
        since="4.49.0",
        before="5.3.0",
        meaning="Any mask value but 1 counts as masked.",
        consequence="Of a packed mask (1 1 2 2) only the first sample is placed.",
        source=f"{_QWEN2}: attention_mask[i] == 1",
        case=small_case([[12, 10, 20]], "qwen2_vl", images=[[1, 2, 2]], mask=[[1, 1, 2]]),
        on_refused=frozenset({"mask-value"}),
    ),
    Difference(
        id="transformers-no-columns-answered",
        engine="transformers",
        since="4.49.0",
        before="5.2.0",
        meaning="A prompt without rows or columns is answered with no positions.",
        consequence="An empty request passes unnoticed.",
        source=f"{_QWEN2}: torch.arange(input_ids.shape[1])",
        case=replace(
            small_case([[20]], "qwen2_vl"), arrays={"input_ids": np.empty((1, 0), np.int64)}
        ),
        on_refused=frozenset({"input-ids-empty"}),
    ),
    Difference(
        id="transformers-float-text-answered",
        engine="transformers",
        since="4.49.0",
        before="5.2.0",
        meaning="Without grids, token ids are not looked at and may be of a floating type.",
        consequence="A mistake in the caller passes until the first image.",
        source=f"{_QWEN2}: torch.arange(input_ids.shape[1])",
        case=replace(small_case([[20]], "qwen2_vl"), arrays={"input_ids": np.array([[20.5]])}),
        on_refused=frozenset({"input-ids-dtype"}),
    ),
    Difference(
        id="transformers-ids-rank-not-checked",
        engine="transformers",
        since="4.49.0",
        before="5.3.0",
        meaning="Token ids of rank 3 are answered as if the third axis were not there.",
        consequence="A mistake in the caller passes unnoticed.",
        source=f"{_QWEN2}: input_ids.shape[0], input_ids.shape[1]",
        case=replace(small_case([[20]]), arrays={"input_ids": np.array([[[20]]])}),
        on_refused=frozenset({"input-ids-rank"}),
    ),
    Difference(
        id="transformers-unread-grid-not-checked",
        engine="transformers",
        since="4.49.0",
        before="5.3.0",
        meaning="A grid that no vision_start asks for is not read and may be of any type or shape.",
        consequence="A mistake in the caller passes until a vision_start stands before the image.",
        source=f"{_QWEN2}: image_nums = (vision_tokens == image_token_id).sum()",
        case=replace(
            small_case([[10]], "qwen2_vl"),
            arrays={"input_ids": np.array([[10]]), "image_grid_thw": np.array([[1.0, 2.0, 2.0]])},
        ),
        on_refused=frozenset({"grid-dtype", "grid-shape"}),
    ),
    Difference(
        id="transformers-float-grid-answered",
        engine="transformers",
        since="5.17.0",
        before="5.19.0",
        meaning="A grid of a floating type is used as it is.",
        consequence="A mistake in the caller passes unnoticed.",
        source="get_vision_position_ids: torch.meshgrid of three float axes",
        case=replace(
            small_case([[10]], "qwen2_vl"),
            arrays={"input_ids": np.array([[10]]), "image_grid_thw": np.array([[1.0, 2.0, 2.0]])},
        ),
        on_refused=frozenset({"grid-dtype"}),
    ),
)
