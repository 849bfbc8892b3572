"""Prompts of the rope subject: rows with padding anywhere, windows, and what follows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st

from mmref.case import Case, Step
from mmref.differences.rope import rope_append, rope_case

__all__ = ["FAULTS", "accepted", "refused"]

Draw = Callable[[st.SearchStrategy[Any]], Any]

_LENGTH, _BATCH = st.integers(1, 9), st.sampled_from([1, 1, 2, 3])
_TOKEN = st.sampled_from([20, 21, 22, 10, 0, 2])  # text, an image's placeholder, pad, eos
_PADDING = st.sampled_from(["none", "none", "left", "right", "holes"])
_FORM = st.sampled_from(["prompt", "prompt", "windows", "steps", "both"])
_ACTIONS = st.sampled_from(["append", "generate", "append", "rewind"])
_FEW = st.integers(1, 3)
_WINDOW = st.integers(2, 5)  # of one token: a corner that costs a process
_UP_TO_THREE = st.integers(0, 3)
_SIDES = st.sampled_from(["left", "right"])


def accepted(names: Sequence[str]) -> st.SearchStrategy[Case]:
    """Cases that the reference accepts.

    Parameters
    ----------
    names : sequence of str
        Families of ``families.names("rope")``.

    Returns
    -------
    SearchStrategy
        Of `mmref.case.Case`: up to three rows, padded on either side or with holes; or one row
        that goes in by windows, or goes on with up to five steps.
    """
    return _accepted(tuple(names))


def refused(names: Sequence[str]) -> st.SearchStrategy[Case]:
    """Cases that the reference refuses, one fault each.

    Parameters
    ----------
    names : sequence of str
        Families of ``families.names("rope")``.

    Returns
    -------
    SearchStrategy
        Of `mmref.case.Case`.
    """
    return st.builds(
        lambda fault, name: FAULTS[fault](name),
        st.sampled_from(list(FAULTS)),
        st.sampled_from(list(names)),
    )


@st.composite
def _accepted(draw: Draw, names: tuple[str, ...]) -> Case:
    form = draw(_FORM)
    width = draw(_LENGTH)
    rows = 1 if form in ("steps", "both") else draw(_BATCH)
    ids = [draw(st.lists(_TOKEN, min_size=width, max_size=width)) for _ in range(rows)]
    mask = None
    padding = "none" if form in ("steps", "both") else draw(_PADDING)
    if padding != "none":
        mask = [_mask(draw, padding, width) for _ in ids]
    scalars: dict[str, Any] = {}
    if form in ("windows", "both"):
        scalars = {"window": draw(_WINDOW), "window_alignment": draw(_SIDES)}
    steps: tuple[Step, ...] = ()
    if form in ("steps", "both"):
        steps = _steps(draw, width)
    else:
        scalars["decode_steps"] = draw(_UP_TO_THREE)
    # engines die of a first window without tokens, and read what they never wrote after such a
    # row: corners that cost a process each
    for row in range(rows):
        there = [
            token for at, token in enumerate(ids[row]) if token and (not mask or mask[row][at])
        ]
        if "window" in scalars or not there:
            ids[row][0] = 20
            if mask:
                mask[row][0] = 1
    return rope_case(ids, draw(st.sampled_from(names)), mask=mask, steps=steps, **scalars)


def _mask(draw: Draw, padding: str, width: int) -> list[int]:
    if padding == "holes":
        return list(draw(st.lists(st.integers(0, 1), min_size=width, max_size=width)))
    kept = draw(st.integers(0, width))
    ones, zeros = [1] * kept, [0] * (width - kept)
    return zeros + ones if padding == "left" else ones + zeros


def _steps(draw: Draw, total: int) -> tuple[Step, ...]:
    steps: list[Step] = []
    for action in draw(st.lists(_ACTIONS, min_size=1, max_size=5)):
        if action == "generate" and total:
            steps.append(Step("generate", draw(_FEW)))
            total += steps[-1].count
        elif action == "rewind":
            total = draw(st.integers(0, total))
            steps.append(Step("rewind", total))
        else:  # also where there is nothing to generate from
            new = draw(st.lists(_TOKEN, min_size=1, max_size=4))
            steps.append(rope_append(new))
            total += len(new)
    return tuple(steps)


def _rewind_ahead(family: str) -> Case:
    return rope_case([[20, 21]], family, steps=(Step("rewind", 3), rope_append([20])))


def _generate_from_nothing(family: str) -> Case:
    return rope_case([[20]], family, steps=(Step("rewind", 0), Step("generate", 1)))


FAULTS: dict[str, Callable[[str], Case]] = {
    "generate-from-nothing": _generate_from_nothing,
    "rewind-ahead": _rewind_ahead,
}
"""Kind of fault to what makes it."""
