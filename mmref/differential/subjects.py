"""The subjects that engines are compared on.

To add a subject: a module here with its reference and its prediction, its
strategies and corners in `mmref.testing`, and a row in `_SUBJECTS`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mmref import families as family_table
from mmref.case import SUBJECTS, Case, Outcome
from mmref.differences import Release
from mmref.differential import audio, fusion, omni, positions, rope, tokens
from mmref.errors import UnknownName

__all__ = ["Subject", "get", "predict", "reference"]


def _position_cases(families: Sequence[str]) -> tuple[Any, Any]:
    from hypothesis import strategies as st

    from mmref.testing.strategies import cases, conversations, refused_cases

    prompts = cases(family=families)
    talks = conversations(family=families)
    # one in ten goes on after the prompt
    accepted = st.integers(0, 9).flatmap(lambda number: talks if number == 9 else prompts)
    return accepted, refused_cases(family=families)


def _position_corners() -> dict[str, Case]:
    from mmref.testing.corners import corners

    return corners()


def _token_cases(families: Sequence[str]) -> tuple[Any, Any]:
    from mmref.testing.strategies import tokens as strategies

    return strategies.accepted(families), strategies.refused(families)


def _token_corners() -> dict[str, Case]:
    from mmref.testing.corners import token_corners

    return token_corners()


def _fusion_cases(families: Sequence[str]) -> tuple[Any, Any]:
    from mmref.testing.strategies import fusion as strategies

    return strategies.accepted(families), strategies.refused(families)


def _audio_cases(families: Sequence[str]) -> tuple[Any, Any]:
    from mmref.testing.strategies import audio as strategies

    return strategies.accepted(families), strategies.refused(families)


def _fusion_corners() -> dict[str, Case]:
    from mmref.testing.corners import fusion_corners

    return fusion_corners()


def _audio_corners() -> dict[str, Case]:
    from mmref.testing.corners import audio_corners

    return audio_corners()


def _omni_cases(families: Sequence[str]) -> tuple[Any, Any]:
    from mmref.testing.strategies import omni as strategies

    return strategies.accepted(families), strategies.refused(families)


def _omni_corners() -> dict[str, Case]:
    from mmref.testing.corners import omni_corners

    return omni_corners()


def _rope_cases(families: Sequence[str]) -> tuple[Any, Any]:
    from mmref.testing.strategies import rope as strategies

    return strategies.accepted(families), strategies.refused(families)


def _rope_corners() -> dict[str, Case]:
    from mmref.testing.corners import rope_corners

    return rope_corners()


@dataclass(frozen=True, slots=True)
class Subject:
    """What one subject needs to be compared.

    Parameters
    ----------
    name : str
        A name of `mmref.case.SUBJECTS`.
    reference : callable
        (case) -> the reference's outcome.
    predict : callable
        (case, release) -> the outcome of a release, for cases the reference accepts.
    strategies : callable
        (family names) -> the strategies of accepted and of refused cases.
    corners : callable
        () -> curated cases by name.
    families : callable
        () -> names of the families that it covers.
    predicts_refused : bool
        Whether ``predict`` also says what a release makes of cases the reference refuses.
    """

    name: str
    reference: Callable[[Case], Outcome]
    predict: Callable[[Case, Release], Outcome]
    strategies: Callable[[Sequence[str]], tuple[Any, Any]]
    corners: Callable[[], dict[str, Case]]
    families: Callable[[], tuple[str, ...]]
    predicts_refused: bool = False


_SUBJECTS = {
    "positions": Subject(
        "positions",
        positions.reference,
        positions.predict,
        _position_cases,
        _position_corners,
        lambda: family_table.names("positions"),
    ),
    "tokens": Subject(
        "tokens",
        tokens.reference,
        tokens.predict,
        _token_cases,
        _token_corners,
        lambda: family_table.names("tokens"),
    ),
    "fusion": Subject(
        "fusion",
        fusion.reference,
        fusion.predict,
        _fusion_cases,
        _fusion_corners,
        lambda: family_table.names("fusion"),
        predicts_refused=True,
    ),
    "audio": Subject(
        "audio",
        audio.reference,
        audio.predict,
        _audio_cases,
        _audio_corners,
        lambda: family_table.names("audio"),
    ),
    "omni": Subject(
        "omni",
        omni.reference,
        omni.predict,
        _omni_cases,
        _omni_corners,
        lambda: family_table.names("omni"),
    ),
    "rope": Subject(
        "rope",
        rope.reference,
        rope.predict,
        _rope_cases,
        _rope_corners,
        lambda: family_table.names("rope"),
    ),
}


def get(name: str) -> Subject:
    """A subject by its name.

    Parameters
    ----------
    name : str
        A name of `mmref.case.SUBJECTS`.

    Returns
    -------
    Subject
        The row.

    Raises
    ------
    UnknownName
        If there is none.
    """
    try:
        return _SUBJECTS[name]
    except KeyError:
        raise UnknownName("subject", name, SUBJECTS) from None


def reference(case: Case) -> Outcome:
    """The reference's outcome of a case of any subject.

    Parameters
    ----------
    case : Case
        The case.

    Returns
    -------
    Outcome
        An answer or a refusal.
    """
    return get(case.subject).reference(case)


def predict(case: Case, release: Release) -> Outcome:
    """A release's outcome of a case of any subject.

    Parameters
    ----------
    case : Case
        A case that the reference accepts, or any if the subject predicts the others too.
    release : Release
        The release.

    Returns
    -------
    Outcome
        An answer or a refusal.
    """
    return get(case.subject).predict(case, release)
