"""Prompts of the omni subject: text, images, videos, clips, and videos with their own sound."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from mmref import audio, families
from mmref.case import Case
from mmref.differences.omni import omni_case
from mmref.families import Family

__all__ = ["FAULTS", "accepted", "refused", "turn"]

Draw = Callable[[st.SearchStrategy[Any]], Any]

_SIDES = st.sampled_from([2, 4, 6])
# seconds of a grid step: two frames at common rates; those of 6.5, 7, 15 and 30 round differently
_SECONDS = st.sampled_from(
    [0.5, 1.0, 2.0, 2 / 6.5, 2 / 7, 2 / 15, 2 / 30, 2 / 2.6, 2 / 1.3, 0.2, 0.04]
)


def accepted(names: Sequence[str]) -> st.SearchStrategy[Case]:
    """Cases that the reference accepts.

    Parameters
    ----------
    names : sequence of str
        Families of ``families.names("omni")``.

    Returns
    -------
    SearchStrategy
        Of `mmref.case.Case`: up to three rows, padded on either side, up to three blocks each.
    """
    return _accepted([families.get(name) for name in names])


def refused(names: Sequence[str]) -> st.SearchStrategy[Case]:
    """Cases that the reference refuses, one fault each.

    Parameters
    ----------
    names : sequence of str
        Families of ``families.names("omni")``.

    Returns
    -------
    SearchStrategy
        Of `mmref.case.Case`.
    """
    rows = [families.get(name) for name in names]
    return st.one_of([_refused(rows, fault) for fault in FAULTS])


@st.composite
def _accepted(draw: Draw, rows: Sequence[Family]) -> Case:
    row = draw(st.sampled_from(rows))
    in_video = draw(st.booleans())
    items: dict[str, list[Any]] = {"images": [], "videos": [], "seconds": [], "lengths": []}
    kinds = ["image", "clip", "mixed" if in_video else "video"]
    if draw(st.integers(0, 5)) == 0:
        kinds = ["clip"]
    lines = []
    for _ in range(draw(st.integers(1, 3))):
        line = _text(draw, 0)
        for kind in draw(st.lists(st.sampled_from(kinds), max_size=3)):
            line += _block(draw, row, kind, items) + _text(draw, 0)
        lines.append(line)
    width = max(1, *map(len, lines))
    left = draw(st.booleans())
    ids, mask = [], []
    for line in lines:
        pad = [0] * (width - len(line))
        ids.append(pad + line if left else line + pad)
        ones = [1] * len(line)
        mask.append(pad + ones if left else ones + pad)
    given = {name: value or None for name, value in items.items()}
    case = omni_case(ids, row.name, mask=mask, in_video=in_video, **given)
    if all(len(line) == width for line in lines) and draw(st.integers(0, 3)) == 0:
        arrays = {name: value for name, value in case.arrays.items() if name != "attention_mask"}
        return Case(case.family, arrays, case.scalars, case.token_ids, "omni")
    return case


@st.composite
def turn(draw: Draw, row: Family, in_video: bool) -> Case:
    """One row of text and blocks, to stand alone or to follow another.

    Parameters
    ----------
    row : Family
        The family.
    in_video : bool
        Whether videos come with their own sound.

    Returns
    -------
    Case
        A case of omni without a mask.
    """
    items: dict[str, list[Any]] = {"images": [], "videos": [], "seconds": [], "lengths": []}
    kinds = ["image", "clip", "mixed" if in_video else "video"]
    line = _text(draw, 1)
    for kind in draw(st.lists(st.sampled_from(kinds), max_size=2)):
        line += _block(draw, row, kind, items) + _text(draw, 0)
    given = {name: value or None for name, value in items.items()}
    case = omni_case([line], row.name, in_video=in_video, **given)
    arrays = {name: value for name, value in case.arrays.items() if name != "attention_mask"}
    return Case(case.family, arrays, case.scalars, case.token_ids, "omni")


def _text(draw: Draw, least: int) -> list[int]:
    return [20 + at for at in range(draw(st.integers(least, 3)))]


def _block(draw: Draw, row: Family, kind: str, items: dict[str, list[Any]]) -> list[int]:
    if kind == "image":
        grid = [1, draw(_SIDES), draw(_SIDES)]
        items["images"].append(grid)
        return [12, *[10] * (grid[1] * grid[2] // 4), 13]
    if kind == "clip":
        return [15, *[14] * _clip(draw, row, items, 40), 16]
    grid = [draw(st.integers(1, 9)), draw(_SIDES), draw(_SIDES)]
    seconds = draw(_SECONDS)
    items["videos"].append(grid)
    items["seconds"].append(seconds)
    if kind == "video":
        return [12, *[11] * (grid[0] * grid[1] * grid[2] // 4), 13]
    sound = _clip(draw, row, items, 500)
    order = audio.interleave(grid, sound, family=row.name, seconds=seconds)
    return [12, 15, *np.where(order, 14, 11).tolist(), 16, 13]


def _clip(draw: Draw, row: Family, items: dict[str, list[Any]], most: int) -> int:
    frames = draw(st.integers(3, most))
    items["lengths"].append(frames)
    return int(audio.output_lengths(frames, family=row.name)[0])


@st.composite
def _refused(draw: Draw, rows: Sequence[Family], fault: str) -> Case:
    row = draw(st.sampled_from(rows))
    return FAULTS[fault](row)


def _one_too_few(row: Family) -> Case:
    return omni_case([[12, 10, 13, 20]], row.name, images=[[1, 2, 4]])


def _clip_without_tokens(row: Family) -> Case:
    return omni_case([[12, 10, 13, 15, 14, 16]], row.name, images=[[1, 2, 2]], lengths=[0])


def _no_seconds(row: Family) -> Case:
    return omni_case([[12, 11, 13]], row.name, videos=[[1, 2, 2]])


def _clip_left_out(row: Family) -> Case:
    return omni_case([[12, 10, 13, 15, 14, 16]], row.name, images=[[1, 2, 2]])


FAULTS: dict[str, Callable[[Family], Case]] = {
    "one-too-few": _one_too_few,
    "clip-without-tokens": _clip_without_tokens,
    "no-seconds": _no_seconds,
    "clip-left-out": _clip_left_out,
}
"""Kind of fault to what makes it."""
