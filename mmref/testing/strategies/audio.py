"""Cases of the audio subject: lengths, masks and samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from mmref import families
from mmref.case import Case
from mmref.families import Family

__all__ = ["FAULTS", "accepted", "masks", "refused"]

Draw = Callable[[st.SearchStrategy[Any]], Any]

# lengths where layers, windows and blocks begin and end
_CORNERS = (0, 1, 2, 3, 8, 9, 16, 17, 99, 100, 101, 200, 399, 400, 574, 575, 719, 720, 2999, 3000)
_LENGTHS = st.one_of(st.integers(0, 6400), st.sampled_from(_CORNERS))
_COUNTED = ("granite_speech", "gemma4", "gemma3n", "qwen2_5_omni", "qwen3_omni_moe")


def masks(*, rows: int = 4, frames: int = 64, step: int = 1) -> st.SearchStrategy[Any]:
    """Masks of a batch, padded on the right, some with holes, some rows all padding.

    Parameters
    ----------
    rows : int
        Most rows.
    frames : int
        Most frames.
    step : int
        Frames are a multiple of it.

    Returns
    -------
    SearchStrategy
        Of int64 arrays (batch, frames) of 0 and 1; no row has padding on the left.
    """
    return _masks(rows, frames, step)


@st.composite
def _masks(draw: Draw, rows: int, frames: int, step: int) -> Any:
    width = step * draw(st.integers(1, max(1, frames // step)))
    batch = draw(st.integers(1, rows))
    stops = draw(st.lists(st.integers(0, width), min_size=batch, max_size=batch))
    mask = (np.arange(width)[None, :] < np.array(stops)[:, None]).astype(np.int64)
    if draw(st.booleans()):
        holes = draw(st.lists(st.integers(1, max(1, width - 1)), max_size=6))
        row = draw(st.integers(0, batch - 1))
        mask[row, [hole for hole in holes if hole < width]] = 0
    return mask


def accepted(names: Sequence[str]) -> st.SearchStrategy[Case]:
    """Cases that the reference accepts.

    Parameters
    ----------
    names : sequence of str
        Families of ``families.names("audio")``.

    Returns
    -------
    SearchStrategy
        Of `mmref.case.Case`: lengths up to 6,400, masks of one to four rows, samples.
    """
    return _accepted([families.get(name) for name in names])


def refused(names: Sequence[str]) -> st.SearchStrategy[Case]:
    """Cases that the reference refuses, one fault each.

    Parameters
    ----------
    names : sequence of str
        Families of ``families.names("audio")``.

    Returns
    -------
    SearchStrategy
        Of `mmref.case.Case`.
    """
    rows = [families.get(name) for name in names]
    made = []
    for fault, (possible, _) in FAULTS.items():
        able = [row for row in rows if possible(row)]
        if able:
            made.append(_refused(able, fault))
    return st.one_of(made)


@st.composite
def _accepted(draw: Draw, rows: Sequence[Family]) -> Case:
    row = draw(st.sampled_from(rows))
    kinds = ["lengths", "mask", "mask", *(["samples"] if row.name in _COUNTED else [])]
    kind = draw(st.sampled_from(kinds))
    if kind == "mask":
        array = draw(_of_family(row))
    else:
        array = np.array(draw(st.lists(_LENGTHS, min_size=1, max_size=6)), np.int64)
    return Case(row.name, {kind: array}, subject="audio")


@st.composite
def _refused(draw: Draw, rows: Sequence[Family], fault: str) -> Case:
    row = draw(st.sampled_from(rows))
    name, array = FAULTS[fault][1](draw, row)
    return Case(row.name, {name: array}, subject="audio")


def _of_family(row: Family) -> st.SearchStrategy[Any]:
    """Encoders of waveforms need hundreds of samples for one output."""
    assert row.audio is not None
    if row.audio.framing is None or row.audio.framing.hop > 1:
        return masks()
    step = 80 if row.audio.code == "dilated" else 100
    return st.one_of(masks(frames=2400, step=step), masks(frames=700))


def _left(draw: Draw, row: Family) -> tuple[str, Any]:
    mask = draw(_of_family(row))
    padding = draw(st.integers(1, 5))
    return "mask", np.concatenate(
        [np.zeros((len(mask), padding), np.int64), np.ones_like(mask[:, :1]), mask], axis=1
    )


def _negative(draw: Draw, row: Family) -> tuple[str, Any]:
    lengths = draw(st.lists(_LENGTHS, max_size=3))
    return "lengths", np.array([*lengths, -draw(st.integers(1, 1000))], np.int64)


def _empty(draw: Draw, row: Family) -> tuple[str, Any]:
    return "mask", np.empty((draw(st.integers(1, 3)), 0), np.int64)


def _by_length(row: Family) -> bool:
    return row.audio is not None and row.audio.mask == "length"


FAULTS: dict[str, tuple[Callable[[Family], bool], Callable[[Draw, Family], tuple[str, Any]]]] = {
    "left-padded": (_by_length, _left),
    "negative-length": (lambda row: True, _negative),
    "no-frames": (lambda row: True, _empty),
}
"""Kind of fault to (whether a family can have it, what makes it)."""
