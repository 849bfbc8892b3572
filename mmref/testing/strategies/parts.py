"""The parts of a prompt, for suites that put their own prompts together."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from mmref.testing.strategies.positions import Draw

__all__ = ["grids", "masks"]

IntArray = npt.NDArray[np.int64]
_SIDES = ("left", "right", "both", "any", "none")


def grids(
    *,
    min_items: int = 1,
    max_items: int = 4,
    max_frames: int = 1,
    max_side: int = 4,
    spatial_merge_size: int = 2,
) -> st.SearchStrategy[IntArray]:
    """Grids of images or videos, in patches before merging.

    Parameters
    ----------
    min_items, max_items : int
        How many items.
    max_frames : int
        Largest t; 1 for images.
    max_side : int
        Largest height and width in tokens, after merging.
    spatial_merge_size : int
        Patches merged into one token along each side.

    Returns
    -------
    SearchStrategy
        Of int64 arrays (items, 3): t, h, w; h and w are divisible by the merge
        size. Shrinks to the fewest items of one token each.

    Raises
    ------
    ValueError
        If a number is out of range.

    Examples
    --------
    >>> from hypothesis import find
    >>> find(grids(), lambda grid: True).tolist()
    [[1, 2, 2]]
    """
    if not 0 <= min_items <= max_items:
        raise ValueError(f"min_items: {min_items}, expected 0 to max_items ({max_items})")
    if min(max_frames, max_side, spatial_merge_size) < 1:
        raise ValueError("max_frames, max_side and spatial_merge_size: at least 1")
    merge = spatial_merge_size
    side = st.integers(1, max_side).map(lambda value: value * merge)
    item = st.tuples(st.integers(1, max_frames), side, side)
    items = st.lists(item, min_size=min_items, max_size=max_items)
    return items.map(lambda rows: np.array(rows, np.int64).reshape(-1, 3))


def masks(
    shape: tuple[int, int],
    *,
    padding: Literal["left", "right", "both", "any", "none"] = "any",
    holes: bool = False,
    empty_rows: bool = False,
) -> st.SearchStrategy[IntArray]:
    """Attention masks of a given shape.

    Parameters
    ----------
    shape : tuple of int
        (batch, seq).
    padding : {"left", "right", "both", "any", "none"}
        The side that zeros stand on; ``"any"`` draws it for each row.
    holes : bool
        Whether zeros may also stand between ones.
    empty_rows : bool
        Whether a row may hold no ones at all.

    Returns
    -------
    SearchStrategy
        Of int64 arrays (batch, seq) of 0 and 1. Shrinks to all ones.

    Raises
    ------
    ValueError
        If the shape or the padding is none.

    Examples
    --------
    >>> from hypothesis import find
    >>> find(masks((1, 3), padding="left"), lambda mask: mask.sum() == 2).tolist()
    [[0, 1, 1]]
    """
    if len(shape) != 2 or min(shape) < 1:
        raise ValueError(f"shape: {shape}, expected (batch, seq), each at least 1")
    if padding not in _SIDES:
        raise ValueError(f"padding: {padding!r}, expected one of {', '.join(_SIDES)}")
    return _masks(shape, padding, holes, empty_rows)


@st.composite
def _masks(
    draw: Draw, shape: tuple[int, int], padding: str, holes: bool, empty_rows: bool
) -> IntArray:
    length = shape[1]
    mask = np.ones(shape, np.int64)
    least = 0 if empty_rows else 1
    for row in mask:
        side = draw(st.sampled_from(["right", "left", "both"])) if padding == "any" else padding
        missing = 0 if side == "none" else draw(st.integers(0, length - least))
        left: Any = {"left": missing, "both": draw(st.integers(0, missing))}.get(side, 0)
        row[:left] = 0
        row[length - (missing - left) :] = 0
        if holes and length > 2:  # drawn for every row alike, so that full rows are the simplest
            hidden = draw(st.lists(st.integers(1, length - 2), max_size=3, unique=True))
            ends = np.flatnonzero(row)[[0, -1]] if row.any() else (0, 0)
            row[[column for column in hidden if ends[0] < column < ends[1]]] = 0
    return mask
