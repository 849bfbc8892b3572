"""Cases of the fusion subject: placeholders in any interleaving, and rows of features."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from mmref import families
from mmref.case import Case, Scalar
from mmref.differences.base import fusion_case
from mmref.families import Family
from mmref.fusion import FORMS

__all__ = ["FAULTS", "accepted", "refused"]

Draw = Callable[[st.SearchStrategy[Any]], Any]

_IDS = {"image": 10, "video": 11, "audio": 16}
_TEXT = (20, 21)
_VIDEO_START, _VIDEO_END = 14, 15
_LENGTHS = st.integers(1, 7)
_ROWS = st.sampled_from([1, 1, 2, 3])
# the form that exporters write most, and every other one
_FORMS = st.sampled_from([None, None, None, *FORMS])
_ONE_IN_FOUR = st.sampled_from([False, False, False, True])
_FEW = st.integers(1, 3)


def accepted(names: Sequence[str]) -> st.SearchStrategy[Case]:
    """Cases that the reference accepts.

    Parameters
    ----------
    names : sequence of str
        Families of ``families.names("fusion")``.

    Returns
    -------
    SearchStrategy
        Of `mmref.case.Case`: one to three rows of up to seven tokens, media of every kind that
        the family has, in any interleaving or none; videos between markers where the family
        needs them; every form of graph; tokens that come in a second turn.
    """
    return _accepted([families.get(name) for name in names])


def refused(names: Sequence[str], kind: str | None = None) -> st.SearchStrategy[Case]:
    """Cases that the reference refuses, each made from an accepted one by one fault.

    Parameters
    ----------
    names : sequence of str
        Families of ``families.names("fusion")``.
    kind : str, optional
        A name of ``FAULTS``. Default: any.

    Returns
    -------
    SearchStrategy
        Of `mmref.case.Case`.
    """
    rows = [families.get(name) for name in names]
    return st.one_of([_refused(rows, fault) for fault in ([kind] if kind else FAULTS)])


@st.composite
def _accepted(draw: Draw, rows: Sequence[Family]) -> Case:
    # more of those that a third engine can be asked about
    row = draw(st.sampled_from([*rows, *(row for row in rows if row.genai_type)]))
    batch = draw(_ROWS)
    lines = _lines(draw, row, batch)
    ids = np.array(lines, np.int64)
    scalars: dict[str, Scalar] = {
        f"{kind}_rows": count for kind, count in _counts(row, ids).items() if count
    }
    form = draw(_FORMS)
    if form is not None:
        scalars["form"] = form
    if batch == 1 and row.genai_type and ids.shape[1] > 1 and draw(_ONE_IN_FOUR):
        scalars["turn_start"] = draw(st.integers(1, ids.shape[1] - 1))
    return fusion_case(lines, row.name, **scalars)


def _lines(draw: Draw, row: Family, batch: int) -> list[list[int]]:
    kinds = list(row.fusing.kinds)
    if row.genai_type and not draw(_ONE_IN_FOUR):
        kinds = ["image"]
    placeholders = [_IDS[kind] for kind in kinds]
    if row.fusing.shared_id:
        placeholders = [_IDS["image"], _VIDEO_START, _VIDEO_END]
    token = st.sampled_from([*_TEXT, *placeholders, *placeholders[:1]])
    length = draw(_LENGTHS)
    return [draw(st.lists(token, min_size=length, max_size=length)) for _ in range(batch)]


def _counts(row: Family, ids: Any) -> dict[str, int]:
    """Placeholders of each kind, told apart by the markers where they share an id."""
    if not row.fusing.shared_id:
        return {kind: int((ids == _IDS[kind]).sum()) for kind in row.fusing.kinds}
    counts = {"image": 0, "video": 0}
    for line in ids.tolist():
        opened = 0
        for token in line:
            opened += (token == _VIDEO_START) - (token == _VIDEO_END)
            counts["video" if opened > 0 else "image"] += token == _IDS["image"]
    return counts


def _changed(case: Case, **scalars: Scalar | None) -> Case:
    merged = {**case.scalars, **scalars}
    kept = {name: value for name, value in merged.items() if value is not None}
    return Case(case.family, case.arrays, kept, subject="fusion")


def _with_media(draw: Draw, row: Family, case: Case) -> tuple[Case, str]:
    """The case, with a placeholder more if it has none; and a kind that it has."""
    for kind in row.fusing.kinds:
        if case.scalars.get(f"{kind}_rows"):
            return case, kind
    kind = row.fusing.kinds[0]
    ids = case.arrays["input_ids"].copy()
    ids[0, draw(st.integers(0, ids.shape[1] - 1))] = _IDS[kind]
    counts = {f"{name}_rows": count or None for name, count in _counts(row, ids).items()}
    made = Case(case.family, {"input_ids": ids}, case.scalars, subject="fusion")
    made = _changed(made, **counts)
    return made, next(name for name in row.fusing.kinds if made.scalars.get(f"{name}_rows"))


def _too_few(draw: Draw, row: Family, case: Case) -> Case:
    case, kind = _with_media(draw, row, case)
    rows = int(case.scalars[f"{kind}_rows"])  # type: ignore[arg-type]
    fewer = draw(st.integers(0, rows - 1))
    return _changed(case, **{f"{kind}_rows": fewer or None})


def _left_over(draw: Draw, row: Family, case: Case) -> Case:
    kind = draw(st.sampled_from(row.fusing.kinds))
    rows = int(case.scalars.get(f"{kind}_rows", 0))  # type: ignore[arg-type]
    return _changed(case, **{f"{kind}_rows": rows + draw(_FEW)})


def _other_width(draw: Draw, row: Family, case: Case) -> Case:
    case, kind = _with_media(draw, row, case)
    width = draw(st.sampled_from([2, 1, 8, 3]))
    rows = int(case.scalars[f"{kind}_rows"])  # type: ignore[arg-type]
    if width < 4 and 4 % width == 0 and draw(st.booleans()):  # as many elements as before
        rows *= 4 // width
    return _changed(case, **{f"{kind}_rows": rows, "feature_width": width})


FAULTS: dict[str, Callable[[Draw, Family, Case], Case]] = {
    "features-too-few": _too_few,
    "features-left-over": _left_over,
    "features-hidden-size": _other_width,
}
"""Code of the refusal to how it is made."""


@st.composite
def _refused(draw: Draw, rows: Sequence[Family], fault: str) -> Case:
    case = draw(_accepted(rows))
    return FAULTS[fault](draw, families.get(case.family), case)
