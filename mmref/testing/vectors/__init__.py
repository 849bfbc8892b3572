"""Test vectors: prompts from public bug reports, with expected values from two sources.

`vectors.json` is generated from `reports.json` by ``python -m
mmref.testing.vectors.generate`` and never edited. Ids never change. No expected
value was made by mmref.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any, Literal

import msgspec
import numpy as np

from mmref.case import Array, Case

__all__ = ["Release", "Vector", "load"]

Numbers = list[list[list[int]]]


class Expected(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What the reference answers: nested lists of positions and deltas."""

    position_ids: Numbers
    rope_deltas: list[int]
    next_position_ids: Numbers | None = None

    def arrays(self) -> dict[str, Array]:
        """The expected arrays by name, int64."""
        values = msgspec.to_builtins(self)
        return {name: np.array(value, np.int64) for name, value in values.items() if value}


class Release(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What a release was seen to do: its positions, or the error it raised."""

    position_ids: Numbers | None = None
    error: str | None = None


class Vector(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One prompt with what is right, and what releases made of it.

    Parameters
    ----------
    id : str
        Never changes.
    about : str
        What the prompt is about, in one sentence.
    flag : {"valid", "refused", "engine-dependent"}
        All agree; the reference refuses it; or the reference answers it and
        some release otherwise.
    sources : list of str
        Where the expected values come from; one alone is a ``single source``.
    case : dict
        The JSON form of the case.
    reports : list of str
        Public reports, as repository and number.
    expected : Expected or None
        The reference's answer.
    refusal : str or None
        The code of the reference's refusal.
    releases : dict of str to Release
        By engine and version.
    single_source : bool
        Whether no second source confirms it.
    """

    id: str
    about: str
    flag: Literal["valid", "refused", "engine-dependent"]
    sources: list[str]
    case: dict[str, Any]
    reports: list[str] = []
    expected: Expected | None = None
    refusal: str | None = None
    releases: dict[str, Release] = {}
    single_source: bool = False

    def as_case(self) -> Case:
        """The case.

        Returns
        -------
        Case
            Ready to run.
        """
        return Case.from_builtins(self.case)


class File(msgspec.Struct, forbid_unknown_fields=True):
    """The content of vectors.json."""

    vectors: list[Vector]


def load() -> list[Vector]:
    """All vectors.

    Returns
    -------
    list of Vector
        In the order of the file.

    Examples
    --------
    >>> load()[0].id
    'reported-b01'
    """
    text = (files(__name__) / "vectors.json").read_bytes()
    return msgspec.json.decode(text, type=File).vectors
