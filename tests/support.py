"""What several test modules use."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from definitions import mrope as definition

from mmref import families
from mmref.case import Case
from mmref.differential.positions import prompt_arguments
from mmref.mrope import Positions, position_ids


def assert_same(expected: npt.NDArray[Any], actual: npt.NDArray[Any]) -> None:
    """Equal in dtype, shape and every value."""
    assert actual.dtype == expected.dtype, f"dtype {actual.dtype}, expected {expected.dtype}"
    assert actual.shape == expected.shape, f"shape {actual.shape}, expected {expected.shape}"
    if not np.array_equal(expected, actual):
        place = tuple(int(axis[0]) for axis in np.nonzero(expected != actual))
        raise AssertionError(
            f"at {place}: {actual[place]}, expected {expected[place]}\n"
            f"expected\n{expected}\nactual\n{actual}"
        )


def compute(case: Case, rules: str = "reference") -> Positions:
    """Positions of a case through the public door."""
    return position_ids(**prompt_arguments(case), rules=rules)


def define(case: Case) -> definition.Answer:
    """Positions of a case by the plain definition."""
    family = families.get(case.family)
    ids = case.arrays["input_ids"]
    mask = case.arrays.get("attention_mask", np.ones(ids.shape, int))
    videos = case.arrays.get("video_grid_thw", np.empty((0, 3), int)).tolist()
    seconds = case.arrays.get("second_per_grid_ts", np.ones(len(videos)))
    tokens = case.ids or family.token_ids
    return definition.positions(
        ids.tolist(),
        mask.tolist(),
        case.arrays.get("image_grid_thw", np.empty((0, 3), int)).tolist(),
        videos,
        seconds.tolist(),
        case.scalars.get("tokens_per_second", family.tokens_per_second),
        case.scalars.get("spatial_merge_size", family.spatial_merge_size),
        tokens.image,
        tokens.video,
        family.video_frames == "split",
        family.time == "seconds",
        family.media_kinds == "by_video_markers",
        tokens.video_start,
        tokens.video_end,
    )


def single_row(case: Case, row: int) -> Case:
    """One row of a batch as a batch of its own, with the items that are its."""
    layout = compute(case).layout
    arrays = {"input_ids": case.arrays["input_ids"][row : row + 1]}
    if "attention_mask" in case.arrays:
        arrays["attention_mask"] = case.arrays["attention_mask"][row : row + 1]
    for kind in ("image", "video"):
        items = sorted({span.item for span in layout if span.row == row and span.kind == kind})
        if items:
            arrays[f"{kind}_grid_thw"] = case.arrays[f"{kind}_grid_thw"][items]
            if kind == "video" and "second_per_grid_ts" in case.arrays:
                arrays["second_per_grid_ts"] = case.arrays["second_per_grid_ts"][items]
    return replace(case, arrays=arrays)


def padded(case: Case, left: int, right: int) -> Case:
    """The same prompt with more masked places on both sides."""
    ids = case.arrays["input_ids"]
    mask = case.arrays.get("attention_mask", np.ones(ids.shape, np.int64)).astype(np.int64)
    pad = (case.token_ids or {})["pad"]
    sides = ((0, 0), (left, right))
    arrays = dict(case.arrays)
    arrays["input_ids"] = np.pad(ids, sides, constant_values=pad)
    arrays["attention_mask"] = np.pad(mask, sides)
    return replace(case, arrays=arrays)
