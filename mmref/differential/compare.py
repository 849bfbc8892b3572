"""Comparing outcomes, and naming what took part where they part."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from mmref.case import Case, Outcome
from mmref.differences import Difference, Release
from mmref.differential.subjects import get, predict, reference
from mmref.errors import EngineFault

__all__ = ["Verdict", "judge", "unlike"]


def unlike(expected: Outcome, actual: Outcome) -> tuple[str, ...]:
    """Where two outcomes part, on what both have.

    Parameters
    ----------
    expected, actual : Outcome
        Two outcomes of one case.

    Returns
    -------
    tuple of str
        ``("status",)``, or the names of the arrays that are not equal; empty if alike.

    Raises
    ------
    EngineFault
        If both answered and no array is in common: nothing would be compared.
    """
    if expected.status != actual.status:
        return ("status",)
    if expected.status != "answer":
        return ()
    common = [name for name in expected.arrays if name in actual.arrays]
    if not common:
        raise EngineFault(
            "nothing-in-common",
            where="outcomes",
            got=f"arrays {sorted(actual.arrays)}",
            expected=f"at least one of {sorted(expected.arrays)}",
        )
    return tuple(
        name for name in common if not np.array_equal(expected.arrays[name], actual.arrays[name])
    )


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a comparison of one case on one engine came to.

    Parameters
    ----------
    kind : {"equal", "known", "new"}
        Like the reference; unlike it in ways that have a name; or unexplained.
    differences : tuple of Difference
        Those that took part, for ``known``.
    where : tuple of str
        Where the engine parts from the reference, or for ``new`` from the prediction.
    reference, predicted, actual : Outcome
        The outcomes; ``predicted`` is the reference's where it refuses.
    """

    kind: Literal["equal", "known", "new"]
    differences: tuple[Difference, ...]
    where: tuple[str, ...]
    reference: Outcome
    predicted: Outcome
    actual: Outcome


def judge(case: Case, actual: Outcome, release: Release) -> Verdict:
    """Compare an engine's outcome with the reference and with the release's prediction.

    Parameters
    ----------
    case : Case
        The case.
    actual : Outcome
        What the engine made of it.
    release : Release
        The release that the engine is compared as.

    Returns
    -------
    Verdict
        ``known`` only if the prediction equals the outcome exactly (for prompts the
        reference accepts), or if a difference says that such a prompt is answered.
    """
    if case.steps and actual.status == "answer" and not any(map(_of_a_step, actual.arrays)):
        case = replace(case, steps=())  # an engine that answers prompts alone is asked no more
    expected = reference(case)
    where = unlike(expected, actual)
    if expected.status == "refusal" and not get(case.subject).predicts_refused:
        if not where:
            return Verdict("equal", (), (), expected, expected, actual)
        named = tuple(
            entry
            for entry in release.differences
            if entry.subject == case.subject
            and entry.is_about(case.family)
            and expected.error in entry.on_refused
            and entry.then == actual.status
        )
        kind: Literal["known", "new"] = "known" if named else "new"
        return Verdict(kind, named, where, expected, expected, actual)
    predicted = predict(case, release)
    off = unlike(predicted, actual)
    if off:
        return Verdict("new", (), off, expected, predicted, actual)
    if not where:
        return Verdict("equal", (), (), expected, predicted, actual)
    named = _took_part(case, actual, release)
    return Verdict("known", named, where, expected, predicted, actual)


def _of_a_step(name: str) -> bool:
    return name.startswith("step_")


def _took_part(case: Case, actual: Outcome, release: Release) -> tuple[Difference, ...]:
    """Take one difference away at a time; those without which the outcome is another."""
    able = [
        entry
        for entry in release.differences
        if entry.subject == case.subject and not entry.on_refused
    ]
    named = tuple(entry for entry in able if unlike(predict(case, release.without(entry)), actual))
    if named:
        return named
    # several lead to the same outcome: name each that, alone, already ends that way
    expected = reference(case)
    alone = (
        (entry, predict(case, Release(release.engine, release.version, (entry,)))) for entry in able
    )
    return tuple(
        entry
        for entry, outcome in alone
        if outcome.status == actual.status and unlike(expected, outcome)
    )
