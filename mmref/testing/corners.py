"""Curated cases: corners that a generator reaches seldom or never."""

from __future__ import annotations

import numpy as np

from mmref.case import Case
from mmref.differences.base import small_case

__all__ = ["corners"]

_REAL_IDS = {"image": 151655, "video": 151656, "vision_start": 151652, "vision_end": 151653}


def corners() -> dict[str, Case]:
    """Named corner cases of the positions subject.

    Returns
    -------
    dict of str to Case
        Name to case.

    Examples
    --------
    >>> corners()["one-token"].arrays["input_ids"].shape
    (1, 1)
    """
    second = [[1, 4, 4], [1, 4, 6]]
    long_text = [[20] * 20_000]
    images = [12, *[10] * 4, 13, 20] * 100
    found: dict[str, Case] = {
        "one-token": small_case([[20]], decode_steps=2),
        "text-only-batch": small_case([[20, 21, 22], [0, 0, 23]], mask=[[1, 1, 1], [0, 0, 1]]),
        "twenty-thousand-tokens": small_case(long_text, decode_steps=1),
        "hundred-images": small_case([images], images=[[1, 4, 4]] * 100, decode_steps=1),
        "long-video": small_case(
            [[12, *[11] * 2000, 13, 20]],
            videos=[[500, 4, 4]],
            seconds=np.array([0.7], np.float32),
            tokens_per_second=25.0,
        ),
        "wide-image": small_case([[12, *[10] * 8192, 13]], images=[[1, 2, 16384]]),
        "over-the-largest-grid": small_case([[12, *[10] * 8193, 13]], images=[[1, 2, 16386]]),
        "ends-in-image": small_case([[20, 12, *[10] * 6]], images=[[1, 4, 6]], decode_steps=2),
        "ends-in-vision-start": small_case([[20, 12]], decode_steps=1),
        "image-video-image": small_case(
            [[12, *[10] * 4, 13, 12, *[11] * 8, 13, 20, 12, *[10] * 6, 13]],
            images=second,
            videos=[[2, 4, 4]],
            decode_steps=2,
        ),
        "adjacent-images-one-block": small_case([[12, *[10] * 10, 13, 20]], images=second),
        "adjacent-images-own-blocks": small_case(
            [[12, *[10] * 4, 13, 12, *[10] * 6, 13]], images=second
        ),
        "no-boundary": small_case([[20, *[10] * 4, 21]], images=[[1, 4, 4]]),
        "text-after-vision-start": small_case([[12, 20, *[10] * 4, 13]], images=[[1, 4, 4]]),
        "pad-equals-eos-in-text": small_case([[20, 2, 21]], token_ids={"pad": 2}),
        "pad-equals-image": small_case(
            [[12, *[10] * 4, 13]], images=[[1, 4, 4]], token_ids={"pad": 10}
        ),
        "unset-pad": small_case([[20, 0, 21]], token_ids={"pad": 9}, unset=["pad"]),
        "unset-image": small_case([[12, 10, 10, 13]], images=[[1, 2, 4]], unset=["image"]),
        "real-token-ids": small_case(
            [[9707, 151652, *[151655] * 4, 151653, 374]], images=[[1, 4, 4]], token_ids=_REAL_IDS
        ),
        "hole-in-image": small_case(
            [[20, 12, 10, 0, 10, 10, 10, 13]],
            images=[[1, 4, 4]],
            mask=[[1, 1, 1, 0, 1, 1, 1, 1]],
            decode_steps=1,
        ),
        "hole-at-vision-start": small_case(
            [[20, 0, 10, 10, 13]], images=[[1, 2, 4]], mask=[[1, 0, 1, 1, 1]]
        ),
        "all-rows-masked": small_case([[0, 0], [0, 0]], mask=[[0, 0], [0, 0]], decode_steps=1),
        "frames-already-split": small_case(
            [[20, 12, 11, 13, 21, 12, 11, 13]], "qwen3_vl", videos=[[1, 2, 2], [1, 2, 2]]
        ),
        "frames-in-one-block": small_case(
            [[12, 11, 11, 13, 20, 20, 20]], "qwen3_vl", videos=[[2, 2, 2]]
        ),
        "image-between-videos": small_case(
            [[14, 12, 10, 13, 12, 10, 13, 15, 12, *[10] * 4, 13, 14, 12, 10, 13, 15]],
            "glm4v",
            images=[[1, 4, 4]],
            videos=[[2, 2, 2], [1, 2, 2]],
            token_ids={"video_start": 14, "video_end": 15},
        ),
        "alias": small_case([[20, 12, *[10] * 4, 13]], "fara", images=[[1, 4, 4]]),
        "seconds-of-many-videos": small_case(
            [[12, 11, 11, 13] * 5],
            videos=[[2, 2, 2]] * 5,
            seconds=np.array([0.25, 0.5, 0.74, 1.0, 1.26], np.float32),
        ),
        "batch-of-twenty": small_case(
            [[20, 12, 10, 10, 13]] * 20, images=[[1, 2, 4]] * 20, decode_steps=1
        ),
    }
    return found
