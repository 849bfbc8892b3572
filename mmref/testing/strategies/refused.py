"""Prompts of the positions subject that the reference refuses, each made by one fault."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from mmref.case import Case, Scalar, Step
from mmref.families import Family
from mmref.testing.strategies.positions import (
    IMAGE,
    VIDEO,
    VISION_END,
    VISION_START,
    Draw,
    accepted,
)

__all__ = ["FAULTS", "Fault", "refused"]

Array = npt.NDArray[Any]


def refused(rows: Sequence[Family], kind: str | None) -> list[st.SearchStrategy[Case]]:
    """One strategy for each fault that some of these families can have.

    Parameters
    ----------
    rows : sequence of Family
        The families.
    kind : str or None
        A name of `FAULTS`; None for all.

    Returns
    -------
    list of SearchStrategy
        Perhaps empty.
    """
    strategies = []
    for name, fault in FAULTS.items():
        fitting = [row for row in rows if fault.time in (None, row.time)]
        if fitting and kind in (None, name):
            base = accepted(fitting, 4, fault.images, fault.videos)
            strategies.append(_spoiled(base, fault.spoil))
    return strategies


@st.composite
def _spoiled(
    draw: Draw, base: st.SearchStrategy[Case], spoil: Callable[[Draw, Case], Case]
) -> Case:
    return spoil(draw, draw(base))


class Fault:
    """One way to spoil a case, and what the case must hold for it."""

    def __init__(
        self,
        spoil: Callable[[Draw, Case], Case],
        *,
        images: int = 0,
        videos: int = 0,
        time: str | None = None,
    ) -> None:
        self.spoil = spoil
        self.images = images
        self.videos = videos
        self.time = time


def _with(case: Case, name: str, array: Array | None) -> Case:
    arrays = {key: value for key, value in case.arrays.items() if key != name}
    if array is not None:
        arrays[name] = array
    return replace(case, arrays=arrays)


def _grid_value(values: st.SearchStrategy[int], axes: Sequence[int] = (0, 1, 2)) -> Any:
    def spoil(draw: Draw, case: Case) -> Case:
        grid = case.arrays["image_grid_thw"].copy()
        item = draw(st.integers(0, len(grid) - 1))
        grid[item, draw(st.sampled_from(axes))] = draw(values)
        return _with(case, "image_grid_thw", grid)

    return spoil


def _not_divisible(draw: Draw, case: Case) -> Case:
    grid = case.arrays["image_grid_thw"].copy()
    merge = int(case.scalars.get("spatial_merge_size", 2))  # type: ignore[arg-type]
    if merge == 1:  # everything is divisible by 1
        grid[:, 1:] *= 2
        case = case.with_scalars(spatial_merge_size=2)
        if "video_grid_thw" in case.arrays:
            videos = case.arrays["video_grid_thw"] * np.array([1, 2, 2])
            case = _with(case, "video_grid_thw", videos)
    grid[draw(st.integers(0, len(grid) - 1)), draw(st.sampled_from([1, 2]))] += 1
    return _with(case, "image_grid_thw", grid)


def _grid_shape(draw: Draw, case: Case) -> Case:
    grid = case.arrays["image_grid_thw"]
    shapes = [grid[0], grid[:, :2], grid[None], grid.ravel()]
    return _with(case, "image_grid_thw", draw(st.sampled_from(shapes)).copy())


def _grid_dtype(draw: Draw, case: Case) -> Case:
    part = draw(st.sampled_from([0.0, 0.5]))
    return _with(case, "image_grid_thw", case.arrays["image_grid_thw"] + part)


def _extra_item(draw: Draw, case: Case) -> Case:
    merge = int(case.scalars.get("spatial_merge_size", 2))  # type: ignore[arg-type]
    name = draw(st.sampled_from(["image_grid_thw", "video_grid_thw"]))
    grid = case.arrays.get(name, np.empty((0, 3), np.int64))
    seconds = case.arrays.get("second_per_grid_ts")
    if name == "video_grid_thw" and seconds is not None:  # one fault, not two
        case = _with(case, "second_per_grid_ts", np.append(seconds, seconds[:1]))
    return _with(case, name, np.vstack([grid, [[1, merge, merge]]]))


def _no_items(draw: Draw, case: Case) -> Case:
    return _with(case, "image_grid_thw", None)


def _larger_item(draw: Draw, case: Case) -> Case:
    merge = int(case.scalars.get("spatial_merge_size", 2))  # type: ignore[arg-type]
    grid = case.arrays["image_grid_thw"].copy()
    grid[-1, draw(st.sampled_from([1, 2]))] += merge * draw(st.integers(1, 3))
    return _with(case, "image_grid_thw", grid)


def _smaller_item(draw: Draw, case: Case) -> Case:
    """One more placeholder of the kind of the last one, and a column more of nothing."""
    ids = case.arrays["input_ids"]
    mask = case.arrays.get("attention_mask")
    kept = np.ones(ids.shape, bool) if mask is None else np.asarray(mask) != 0
    rows, columns = np.nonzero((ids == IMAGE) & kept)
    row, column = int(rows[-1]), int(columns[-1])
    pad = (case.token_ids or {})["pad"]
    longer = np.full((ids.shape[0], ids.shape[1] + 1), pad, np.int64)
    longer_mask = np.zeros(longer.shape, np.int64)
    longer[:, :-1], longer_mask[:, :-1] = ids, kept
    longer[row, column + 2 :], longer_mask[row, column + 2 :] = (
        ids[row, column + 1 :],
        kept[row, column + 1 :],
    )
    longer[row, column + 1], longer_mask[row, column + 1] = IMAGE, 1
    return _with(_with(case, "input_ids", longer), "attention_mask", longer_mask)


def _mask_shape(draw: Draw, case: Case) -> Case:
    batch, length = case.arrays["input_ids"].shape
    shapes = [(batch, length + 1), (batch + 1, length), (batch, length, 1)]
    return _with(case, "attention_mask", np.ones(draw(st.sampled_from(shapes)), np.int64))


def _mask_value(draw: Draw, case: Case) -> Case:
    mask: Array = np.ones(case.arrays["input_ids"].shape, np.int64)
    given = case.arrays.get("attention_mask")
    if given is not None:
        mask[:] = given
    row = draw(st.integers(0, mask.shape[0] - 1))
    mask[row, draw(st.integers(0, mask.shape[1] - 1))] = draw(st.sampled_from([2, -1]))
    return _with(case, "attention_mask", mask)


def _seconds_length(draw: Draw, case: Case) -> Case:
    count = len(case.arrays["video_grid_thw"]) + draw(st.sampled_from([-1, 1]))
    return _with(case, "second_per_grid_ts", np.ones(count, np.float32))


def _seconds_value(value: st.SearchStrategy[float]) -> Any:
    def spoil(draw: Draw, case: Case) -> Case:
        seconds = np.ones(len(case.arrays["video_grid_thw"]), np.float32)
        seconds[draw(st.integers(0, len(seconds) - 1))] = draw(value)
        return _with(case, "second_per_grid_ts", seconds)

    return spoil


def _long_video(draw: Draw, case: Case) -> Case:
    """A video of two grid steps with so many seconds that the second is out of reach."""
    merge = int(case.scalars.get("spatial_merge_size", 2))  # type: ignore[arg-type]
    arrays: dict[str, Array] = {
        "input_ids": np.array([[VISION_START, VIDEO, VIDEO, VISION_END]]),
        "video_grid_thw": np.array([[2, merge, merge]]),
        "second_per_grid_ts": np.array([draw(st.sampled_from([1e10, 1e30]))], np.float32),
    }
    return replace(case, arrays=arrays)


def _seconds_not_used(draw: Draw, case: Case) -> Case:
    return _with(case, "second_per_grid_ts", np.ones(len(case.arrays["video_grid_thw"])))


def _scalar(name: str, values: Sequence[Scalar]) -> Any:
    def spoil(draw: Draw, case: Case) -> Case:
        return case.with_scalars(**{name: draw(st.sampled_from(values))})

    return spoil


def _empty_ids(draw: Draw, case: Case) -> Case:
    shape = draw(st.sampled_from([(1, 0), (0, 4)]))
    return replace(case, arrays={"input_ids": np.empty(shape, np.int64)})


def _ids_rank(draw: Draw, case: Case) -> Case:
    return _with(case, "input_ids", case.arrays["input_ids"][None])


def _ids_dtype(draw: Draw, case: Case) -> Case:
    part = draw(st.sampled_from([0.0, 0.5]))
    return _with(case, "input_ids", case.arrays["input_ids"] + part)


def _equal_ids(draw: Draw, case: Case) -> Case:
    return replace(case, token_ids={**(case.token_ids or {}), "video": IMAGE})


def _steps(*steps: Step) -> Any:
    def follow(draw: Draw, case: Case) -> Case:
        merge = int(case.scalars.get("spatial_merge_size", 2))  # type: ignore[arg-type]
        arrays: dict[str, Array] = {
            "input_ids": np.array([[VISION_START, IMAGE, IMAGE, VISION_END]]),
            "image_grid_thw": np.array([[1, merge, 2 * merge]]),
        }
        scalars = {key: value for key, value in case.scalars.items() if key != "decode_steps"}
        return replace(case, arrays=arrays, scalars=scalars, steps=steps)

    return follow


_TEXT = Step("append", 0, {"input_ids": np.array([[20]])})

FAULTS: dict[str, Fault] = {
    "rewind-inside-item": Fault(_steps(Step("rewind", 2), _TEXT)),
    "slot-outside": Fault(_steps(Step("generate", 1), Step("rewind", 6))),
    "generate-from-nothing": Fault(_steps(Step("rewind", 0), Step("generate", 1))),
    "extend-batch": Fault(_steps(Step("append", 0, {"input_ids": np.array([[20], [20]])}))),
    "unused-item": Fault(_extra_item),
    "placeholder-without-item": Fault(_no_items, images=1),
    "run-shorter-than-item": Fault(_larger_item, images=1),
    "run-longer-than-items": Fault(_smaller_item, images=1),
    "image-with-frames": Fault(_grid_value(st.integers(2, 3), (0,)), images=1),
    "grid-not-positive": Fault(_grid_value(st.sampled_from([0, -1, -2])), images=1),
    "grid-not-divisible": Fault(_not_divisible, images=1),
    "grid-too-large": Fault(_grid_value(st.sampled_from([2**31, 2**62])), images=1),
    "grid-shape": Fault(_grid_shape, images=1),
    "grid-dtype": Fault(_grid_dtype, images=1),
    "mask-shape": Fault(_mask_shape),
    "mask-value": Fault(_mask_value),
    "seconds-length": Fault(_seconds_length, videos=1, time="seconds"),
    "seconds-value": Fault(
        _seconds_value(st.sampled_from([-1.0, np.nan, np.inf])), videos=1, time="seconds"
    ),
    "seconds-not-used": Fault(_seconds_not_used, videos=1, time="index"),
    "position-too-large": Fault(_long_video, time="seconds"),
    "rate-not-positive": Fault(_scalar("tokens_per_second", [0.0, -2.0]), time="seconds"),
    "rate-not-used": Fault(_scalar("tokens_per_second", [2.0]), time="index"),
    "merge-not-positive": Fault(_scalar("spatial_merge_size", [-2, -1, 0])),
    "input-ids-empty": Fault(_empty_ids),
    "input-ids-rank": Fault(_ids_rank),
    "input-ids-dtype": Fault(_ids_dtype),
    "token-ids-equal": Fault(_equal_ids),
}
