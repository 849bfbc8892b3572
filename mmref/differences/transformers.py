"""Where Hugging Face transformers parts from the reference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from mmref.case import Scalar, Step
from mmref.differences.base import Difference, append, small_case

__all__ = ["DIFFERENCES"]

_FILE = "models/qwen2_5_vl/modeling_qwen2_5_vl.py, get_rope_index"
_DECODE = "models/qwen2_5_vl/modeling_qwen2_5_vl.py, compute_3d_position_ids"
_SPAN_ROW = 0  # a column of the span table that is handed in


def _row_without_tokens(prompt: Any, spans: Any, scalars: Mapping[str, Scalar]) -> bool:
    return len(np.unique(spans[:, _SPAN_ROW])) < len(prompt.ids)


DIFFERENCES: tuple[Difference, ...] = (
    Difference(
        id="transformers-text-resumes-inside-video",
        engine="transformers",
        since="5.3.0",
        meaning="Text after a video resumes at its start plus max(h, w); its time is ignored.",
        consequence="Text and later media overlap the video in time, and the first generated "
        "token jumps ahead of the prompt. Prompts computed by 4.x, vLLM or GenAI differ.",
        source=f"{_FILE}: current_pos += max(grid_thw[1], grid_thw[2]) // merge",
        case=small_case([[20, 11, 11, 20]], videos=[[2, 2, 2]]),
        sets={"resume": "spatial"},
    ),
    Difference(
        id="transformers-seconds-list-in-float64",
        engine="transformers",
        since="5.19.0",
        meaning="Seconds given as a Python list are multiplied by the rate in float64.",
        consequence="The same video gets other time positions when its seconds come as a "
        "list (as the processor makes them) than when they come as a float32 tensor.",
        source=f"{_FILE}: tokens_per_second * next(second_per_grid_ts)",
        case=small_case(
            [[11, 11, 11, 11]],
            videos=[[4, 2, 2]],
            seconds=np.array([5 / 3]),
            tokens_per_second=25.0,
        ),
        sets={"seconds": "float64_product"},
    ),
    Difference(
        id="transformers-generate-continues-from-last-column",
        engine="transformers",
        since="5.24",
        meaning="generate continues from the last column of the prompt plus one, on each axis.",
        consequence="After a prompt that ends in an image, in a video, or in padding, generated "
        "tokens start too low and overlap the prompt; the deltas are never used.",
        source="generation/utils.py, _update_model_kwargs_for_generation",
        case=small_case([[20, 20, 0]], mask=[[1, 1, 0]], decode_steps=1),
        sets={"decode": "last_column"},
    ),
    Difference(
        id="transformers-rewind-keeps-delta",
        engine="transformers",
        since="5.24",
        meaning="After the cache is cropped, generate still adds the delta of the whole prompt.",
        consequence="Going back to before an image makes positions of new text too low, down to "
        "negative ones.",
        source="models/qwen2_5_vl, _prepare_position_ids_for_generation: the model keeps "
        "rope_deltas, the cache knows nothing of them",
        case=small_case(
            [[20, 12, *[10] * 4]],
            images=[[1, 4, 4]],
            steps=(Step("rewind", 1), append([[20]])),
        ),
        sets={"after_rewind": "same_delta"},
    ),
    Difference(
        id="transformers-rewind-inside-item",
        engine="transformers",
        since="5.24",
        meaning="A cache cropped to the middle of an item is continued with text.",
        consequence="Half an image stays in the conversation, and what follows it has positions "
        "that belong to no grid.",
        source="Cache.crop knows no items",
        case=small_case(
            [[20, 12, *[10] * 4]],
            images=[[1, 4, 4]],
            steps=(Step("rewind", 4), append([[20]])),
        ),
        on_refused=frozenset({"rewind-inside-item"}),
    ),
    Difference(
        id="transformers-cached-forward-counts-padding",
        engine="transformers",
        since="5.24",
        meaning="A forward with a cache and no mask takes the cache's length plus the delta.",
        consequence="In padded batches the decode position is too high by the number of masked "
        "tokens, because the delta counts only unmasked ones.",
        source=_DECODE,
        case=small_case([[0, 20]], mask=[[0, 1]], decode_steps=1),
        sets={"cached_decode": "cache_length"},
    ),
    Difference(
        id="transformers-masked-forward-returns-every-column",
        engine="transformers",
        since="5.24",
        meaning="A forward with a cache and the whole mask makes positions for every column, "
        "not for the new ones.",
        consequence="A hand-written decode loop that passes the mask crashes in the rotary "
        "embedding with a shape mismatch.",
        source=_DECODE,
        case=small_case([[20]], decode_steps=1),
        sets={"masked_decode": "every_column"},
    ),
    Difference(
        id="transformers-adjacent-media-count-as-one",
        engine="transformers",
        since="5.3.0",
        meaning="Items of one kind with no token between them count as one item.",
        consequence="A RuntimeError about shapes for prompts whose images or frames stand side "
        "by side (4.x accepted them); a row of single-token items alone silently gets position 0.",
        source=f"{_FILE}: one run of equal mm_token_type_ids takes one grid row",
        case=small_case([[10, 10]], "qwen2_vl", images=[[1, 2, 2], [1, 2, 2]]),
        sets={"find_media": "one_item_a_run"},
    ),
    Difference(
        id="transformers-row-without-tokens-refused",
        engine="transformers",
        since="5.2.0",
        meaning="A row whose tokens are all masked raises ValueError.",
        consequence="A batch with an empty row fails as a whole.",
        source=f"{_FILE}: torch.cat of an empty list",
        case=small_case([[0]], "qwen2_vl", mask=[[0]]),
        refuses=_row_without_tokens,
    ),
    Difference(
        id="transformers-default-seconds-run-out",
        engine="transformers",
        since="5.3.0",
        meaning="Without seconds, the default has one entry for each column, not each video.",
        consequence="A bare StopIteration when a batch holds more videos than a row has tokens.",
        source=f"{_FILE}: iter([1] * input_ids.shape[1])",
        case=small_case([[11], [11]], videos=[[1, 2, 2], [1, 2, 2]]),
        sets={"default_seconds": "each_column"},
    ),
    Difference(
        id="transformers-unused-items-ignored",
        engine="transformers",
        since="4.49.0",
        meaning="Grid rows without placeholders are ignored when they come last.",
        consequence="A truncated prompt is answered as if its image had never been given.",
        source=_FILE,
        case=small_case([[20]], "qwen2_vl", images=[[1, 2, 2]]),
        on_refused=frozenset({"unused-item"}),
    ),
    Difference(
        id="transformers-unread-grid-of-any-kind",
        engine="transformers",
        since="5.3.0",
        meaning="A grid of any shape and type passes as long as no item reads it.",
        consequence="A broken processor works for text and fails at the first image.",
        source=_FILE,
        case=small_case([[20]], "qwen2_vl", images=[[1, 2]]),
        on_refused=frozenset({"grid-shape", "grid-dtype"}),
    ),
    Difference(
        id="transformers-grid-floored",
        engine="transformers",
        since="4.49.0",
        meaning="A height or width that the merge size does not divide is floored.",
        consequence="A wrong grid passes as long as the number of placeholders happens to fit.",
        source="get_vision_position_ids: grid_thw[1].item() // spatial_merge_size",
        case=small_case([[10]], "qwen2_vl", images=[[1, 3, 2]]),
        on_refused=frozenset({"grid-not-divisible"}),
    ),
    Difference(
        id="transformers-image-frames-answered",
        engine="transformers",
        since="4.49.0",
        meaning="An image grid with t > 1 is placed like a video of grid steps.",
        consequence="A video passed as an image gets plausible positions without its seconds.",
        source=_FILE,
        case=small_case([[10, 10]], "qwen2_vl", images=[[2, 2, 2]]),
        on_refused=frozenset({"image-with-frames"}),
    ),
    Difference(
        id="transformers-opposite-errors-cancel",
        engine="transformers",
        since="5.3.0",
        meaning="Only a row's total is checked: one run too long and one too short cancel.",
        consequence="Grids in the wrong order are answered with wrong positions and no error.",
        source=f"{_FILE}: no run is compared with its grid",
        case=small_case([[10, 10, 20, 10]], "qwen2_vl", images=[[1, 2, 2], [1, 2, 4]]),
        on_refused=frozenset(
            {"run-longer-than-items", "run-shorter-than-item", "placeholder-without-item"}
        ),
    ),
    Difference(
        id="transformers-zero-grid-answered",
        engine="transformers",
        since="4.49.0",
        meaning="A grid value of zero or less is used as it is.",
        consequence="Without placeholders for it the item is skipped and later items shift.",
        source="get_vision_position_ids",
        case=small_case([[20]], "qwen2_vl", images=[[1, 0, 2]]),
        on_refused=frozenset({"grid-not-positive"}),
    ),
    Difference(
        id="transformers-float-ids-answered",
        engine="transformers",
        since="5.2.0",
        meaning="Token ids of a floating type are accepted: only their number matters.",
        consequence="The positions come back as floats.",
        source=_FILE,
        case=replace(small_case([[20]]), arrays={"input_ids": np.array([[20.5]])}),
        on_refused=frozenset({"input-ids-dtype"}),
    ),
    Difference(
        id="transformers-empty-batch-answered",
        engine="transformers",
        since="5.2.0",
        meaning="A batch of no rows is answered with no positions.",
        consequence="An empty request passes unnoticed.",
        source=_FILE,
        case=replace(
            small_case([[20]], "qwen2_vl"), arrays={"input_ids": np.empty((0, 4), np.int64)}
        ),
        on_refused=frozenset({"input-ids-empty"}),
    ),
    Difference(
        id="transformers-larger-mask-answered",
        engine="transformers",
        since="4.49.0",
        meaning="A mask with more rows than the prompt is read row by row.",
        consequence="Another batch's mask passes unnoticed.",
        source=_FILE,
        case=small_case([[20]], "qwen2_vl", mask=[[1], [1]]),
        on_refused=frozenset({"mask-shape"}),
    ),
    Difference(
        id="transformers-mask-value-as-bool",
        engine="transformers",
        since="5.3.0",
        meaning="Any mask value but 0 counts as unmasked.",
        consequence="A packed mask (1 1 2 2) makes one prompt of two samples.",
        source=f"{_FILE}: attention_mask[batch_idx].bool()",
        case=small_case([[20]], "qwen2_vl", mask=[[2]]),
        on_refused=frozenset({"mask-value"}),
    ),
    Difference(
        id="transformers-merge-not-checked",
        engine="transformers",
        since="4.49.0",
        meaning="A merge size of zero or less is only noticed when an item is placed.",
        consequence="A broken configuration works for text and fails at the first image.",
        source=_FILE,
        case=small_case([[20]], "qwen2_vl", spatial_merge_size=-1),
        on_refused=frozenset({"merge-not-positive"}),
    ),
    Difference(
        id="transformers-position-beyond-int32",
        engine="transformers",
        since="4.49.0",
        meaning="Positions beyond int32 are computed; beyond int64 they wrap.",
        consequence="Wrong seconds are answered with positions that no rotary table holds.",
        source="get_vision_position_ids: (arange * time_interval).long()",
        case=small_case([[11, 11]], videos=[[2, 2, 2]], seconds=np.array([1e10], np.float32)),
        on_refused=frozenset({"position-too-large"}),
    ),
    Difference(
        id="transformers-rate-not-checked",
        engine="transformers",
        since="4.49.0",
        meaning="A tokens_per_second of zero or less is used as it is.",
        consequence="All frames of a video share one time, or time runs backwards.",
        source=_FILE,
        case=small_case([[20]], tokens_per_second=0.0),
        on_refused=frozenset({"rate-not-positive"}),
    ),
    Difference(
        id="transformers-rate-ignored",
        engine="transformers",
        since="4.49.0",
        meaning="Families that count grid steps ignore tokens_per_second.",
        consequence="A configuration value that looks as if it mattered has no effect.",
        source="models/qwen2_vl/modeling_qwen2_vl.py, get_rope_index",
        case=small_case([[20]], "qwen2_vl", tokens_per_second=2.0),
        on_refused=frozenset({"rate-not-used"}),
    ),
    Difference(
        id="transformers-extra-seconds-ignored",
        engine="transformers",
        since="4.49.0",
        meaning="Seconds beyond the number of videos are ignored.",
        consequence="Seconds of another prompt pass unnoticed.",
        source=_FILE,
        case=small_case([[20]], seconds=np.ones(1)),
        on_refused=frozenset({"seconds-length"}),
    ),
    Difference(
        id="transformers-seconds-ignored",
        engine="transformers",
        since="5.2.0",
        meaning="Families that count grid steps swallow second_per_grid_ts.",
        consequence="A caller believes that the frame rate reached the model.",
        source="models/qwen2_vl/modeling_qwen2_vl.py, get_rope_index: **kwargs",
        case=small_case([[11]], "qwen2_vl", videos=[[1, 2, 2]], seconds=np.ones(1)),
        on_refused=frozenset({"seconds-not-used"}),
    ),
    Difference(
        id="transformers-seconds-not-checked",
        engine="transformers",
        since="4.49.0",
        meaning="Negative, infinite and NaN seconds are used as they are.",
        consequence="Positions below zero or at the edge of int64, without an error.",
        source="get_vision_position_ids: (arange * time_interval).long()",
        case=small_case([[11]], videos=[[1, 2, 2]], seconds=np.array([-1.0], np.float32)),
        on_refused=frozenset({"seconds-value"}),
    ),
    Difference(
        id="transformers-equal-placeholder-ids",
        engine="transformers",
        since="4.49.0",
        meaning="With one id for both kinds, every placeholder is a video's.",
        consequence="Images fail with a bare TypeError; text passes.",
        source="processing_utils.py, create_mm_token_type_ids",
        case=small_case([[20]], "qwen2_vl", token_ids={"video": 10}),
        on_refused=frozenset({"token-ids-equal"}),
    ),
)
