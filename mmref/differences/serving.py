"""Where SGLang and vLLM part from the reference."""

from __future__ import annotations

import numpy as np

from mmref.differences.base import Difference, small_case

__all__ = ["DIFFERENCES"]

_SGLANG = "srt/layers/rotary_embedding/mrope_rope_index.py, get_rope_index"
_VLLM = "model_executor/models/qwen2_5_vl.py, get_mrope_input_positions"

DIFFERENCES: tuple[Difference, ...] = (
    Difference(
        id="sglang-media-by-vision-start",
        engine="sglang",
        since="0.5.23",
        meaning="As many items are placed as a vision_start stands before.",
        consequence="An image without vision_start, and the second of two side by side, are "
        "numbered like text; a vision_start at the end of a row is an IndexError.",
        source=f"{_SGLANG}: image_nums = (vision_tokens == image_token_id).sum()",
        case=small_case([[10, 10]], "qwen2_vl", images=[[1, 2, 4]]),
        # without grids it does not look for media at all
        sets={"find_media": "as_many_as_starts", "text_only": "by_the_mask"},
    ),
    Difference(
        id="sglang-seconds-before-rate",
        engine="sglang",
        since="0.5.23",
        meaning="A grid step is multiplied by the seconds first, in float32, and then by the rate.",
        consequence="Some frames are one position earlier or later than elsewhere.",
        source=f"{_SGLANG}: expanded_range * second_per_grid_t * tokens_per_second",
        case=small_case(
            [[12, *[11] * 6, 13]],
            videos=[[6, 2, 2]],
            seconds=np.array([1.4], np.float32),
            tokens_per_second=25.0,
        ),
        sets={"seconds": "before_rate"},
    ),
    Difference(
        id="sglang-takes-what-it-is-given",
        engine="sglang",
        since="0.5.23",
        meaning="Grids, seconds, ids and configuration are not checked; what a run has beyond its "
        "item is text, and an item longer than its run covers what follows.",
        consequence="A truncated prompt, another prompt's grids or a wrong configuration are "
        "answered with plausible positions.",
        source=_SGLANG,
        case=small_case([[12, 10, 10]], "qwen2_vl", images=[[1, 2, 2]]),
        on_refused=frozenset(
            {
                "grid-dtype",
                "grid-not-divisible",
                "grid-not-positive",
                "grid-shape",
                "image-with-frames",
                "input-ids-dtype",
                "input-ids-empty",
                "merge-not-positive",
                "placeholder-without-item",
                "position-too-large",
                "rate-not-positive",
                "rate-not-used",
                "run-longer-than-items",
                "run-shorter-than-item",
                "seconds-length",
                "seconds-not-used",
                "seconds-value",
                "token-ids-equal",
                "unused-item",
            }
        ),
    ),
    Difference(
        id="vllm-seconds-in-float64",
        engine="vllm",
        since="0.33.0",
        meaning="Grid steps, seconds and rate are multiplied in float64.",
        consequence="Some frames are one position earlier or later than in float32.",
        source=f"{_VLLM}: (grid_indices[0] * t_factor).astype(np.int64)",
        case=small_case(
            [[11, 11]],
            videos=[[2, 2, 2]],
            seconds=np.array([1.16], np.float32),
            tokens_per_second=25.0,
        ),
        sets={"seconds": "float64"},
    ),
)
