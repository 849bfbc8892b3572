"""Hypothesis strategies for prompts: the one generator of cases.

`cases` makes prompts the reference accepts, `refused_cases` prompts it refuses; `embeddings`,
`features` and `merges` the arrays of a merge.
`mmref diff` and the suite draw from here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from mmref import families
from mmref.case import Case
from mmref.errors import MissingExtra, UnknownName
from mmref.families import Family

try:
    from hypothesis import strategies as st
except ImportError as error:
    raise MissingExtra("hypothesis", "testing") from error

from mmref.testing.strategies import fusion, positions, refused, steps
from mmref.testing.strategies.merges import Merge, embeddings, features, merges
from mmref.testing.strategies.parts import grids, masks

__all__ = [
    "REFUSED_KINDS",
    "REFUSED_MERGES",
    "Merge",
    "cases",
    "conversations",
    "embeddings",
    "features",
    "grids",
    "masks",
    "merges",
    "prompts",
    "refused_cases",
]

REFUSED_KINDS: tuple[str, ...] = tuple(refused.FAULTS)
"""The faults of `refused_cases`, by the code of the refusal they lead to."""

REFUSED_MERGES: tuple[str, ...] = tuple(fusion.FAULTS)
"""The same for the subject ``"fusion"``."""


_SUBJECTS = ("positions", "fusion")


def cases(
    *,
    family: str | Sequence[str] | None = None,
    subject: str = "positions",
    max_rows: int = 4,
    min_images: int = 0,
    min_videos: int = 0,
) -> st.SearchStrategy[Case]:
    """Prompts that the reference accepts.

    Parameters
    ----------
    family : str or sequence of str, optional
        Families to draw from. Default: all.
    subject : str
        ``"positions"`` or ``"fusion"``; the numbers are for positions.
    max_rows : int
        Largest batch.
    min_images, min_videos : int
        Items that the first row holds at least.

    Returns
    -------
    SearchStrategy
        Of `mmref.case.Case`: several images and videos in mixed order, adjacent
        media, missing boundaries, batches, padding on either side and within, pad
        ids in text, pad equal to eos, fractional seconds, text only, rows without
        tokens, and tokens generated after the prompt. Shrinks to one text token.

    Raises
    ------
    UnknownName
        If a family or the subject is not known.
    ValueError
        If a number is out of range.

    Examples
    --------
    >>> from hypothesis import find
    >>> find(cases(family="qwen2_vl"), lambda case: True).arrays["input_ids"].tolist()
    [[20]]
    """
    _check(subject)
    if subject == "fusion":
        if (max_rows, min_images, min_videos) != (4, 0, 0):
            raise ValueError("max_rows, min_images, min_videos: for positions only")
        return fusion.accepted([row.name for row in _rows(family, "fusion")])
    if max_rows < 1 or min_images < 0 or min_videos < 0:
        raise ValueError("max_rows: at least 1; min_images and min_videos: at least 0")
    return positions.accepted(_rows(family), max_rows, min_images, min_videos)


def conversations(
    *, family: str | Sequence[str] | None = None, max_steps: int = 6
) -> st.SearchStrategy[Case]:
    """Prompts of one row with what follows: later turns, generated tokens, rewinds.

    Parameters
    ----------
    family : str or sequence of str, optional
        Families to draw from. Default: all.
    max_steps : int
        Most steps after the prompt.

    Returns
    -------
    SearchStrategy
        Of `mmref.case.Case` with ``steps`` that the reference accepts: turns of text and
        of media, tokens generated once and again, rewinds to any place between items,
        also to the start. Shrinks to one text token and one step of one text token.

    Raises
    ------
    UnknownName
        If a family is not known.
    ValueError
        If there could be no step.

    Examples
    --------
    >>> from hypothesis import find
    >>> find(conversations(family="qwen2_vl"), lambda case: True).to_builtins()["steps"]
    [{'append': {'input_ids': [[20]]}}]
    """
    if max_steps < 1:
        raise ValueError(f"max_steps: {max_steps}, expected at least 1")
    return steps.conversation(_rows(family), max_steps)


def prompts(
    *,
    family: str | Sequence[str] | None = None,
    max_rows: int = 4,
    min_images: int = 0,
    min_videos: int = 0,
) -> st.SearchStrategy[dict[str, Any]]:
    """Prompts as keyword arguments of `mmref.mrope.position_ids`.

    Parameters
    ----------
    family : str or sequence of str, optional
        Families to draw from. Default: all.
    max_rows : int
        Largest batch.
    min_images, min_videos : int
        Items that the first row holds at least.

    Returns
    -------
    SearchStrategy
        Of dict, as `mmref.case.Case.arguments` makes them from `cases`.

    Raises
    ------
    UnknownName
        If a family is not known.
    ValueError
        If a number is out of range.

    Examples
    --------
    >>> from hypothesis import find
    >>> find(prompts(family="qwen2_vl"), lambda prompt: True)["input_ids"].tolist()
    [[20]]
    """
    drawn = cases(family=family, max_rows=max_rows, min_images=min_images, min_videos=min_videos)
    return drawn.map(Case.arguments)


def refused_cases(
    *,
    kind: str | None = None,
    family: str | Sequence[str] | None = None,
    subject: str = "positions",
) -> st.SearchStrategy[Case]:
    """Prompts that the reference refuses, each made from an accepted one by one fault.

    Parameters
    ----------
    kind : str, optional
        A name of `REFUSED_KINDS` or `REFUSED_MERGES`, the code of the refusal. Default: any.
    family : str or sequence of str, optional
        Families to draw from. Default: all.
    subject : str
        ``"positions"`` or ``"fusion"``.

    Returns
    -------
    SearchStrategy
        Of `mmref.case.Case`.

    Raises
    ------
    UnknownName
        If the subject, the kind or a family is not known.
    ValueError
        If no family of those given can have that fault.

    Examples
    --------
    >>> from hypothesis import find
    >>> case = find(refused_cases(kind="unused-item", family="qwen2_vl"), lambda case: True)
    >>> len(case.arrays["image_grid_thw"])
    1
    """
    _check(subject)
    rows = _rows(family, "fusion" if subject == "fusion" else "positions")
    known = REFUSED_MERGES if subject == "fusion" else REFUSED_KINDS
    if kind is not None and kind not in known:
        raise UnknownName("kind", kind, known)
    if subject == "fusion":
        return fusion.refused([row.name for row in rows], kind)
    strategies = refused.refused(rows, kind)
    if not strategies:
        raise ValueError(f"kind: {kind} cannot happen to {', '.join(row.name for row in rows)}")
    return st.one_of(strategies)


def _check(subject: str) -> None:
    if subject not in _SUBJECTS:
        raise UnknownName("subject", subject, _SUBJECTS)


def _rows(
    family: str | Sequence[str] | None, subject: Literal["positions", "fusion"] = "positions"
) -> list[Family]:
    names = families.names(subject) if family is None else family
    rows = [families.get(name) for name in ([names] if isinstance(names, str) else names)]
    if not rows:
        raise ValueError("family: expected at least one name")
    return rows
