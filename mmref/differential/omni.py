"""The omni subject: positions of prompts with audio, by the reference and by a release."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mmref import families, omni
from mmref.case import Case, Outcome
from mmref.differences import OmniRules, Release
from mmref.errors import MmrefError

__all__ = ["predict", "reference"]


def reference(case: Case) -> Outcome:
    """The reference's outcome of a case.

    Parameters
    ----------
    case : Case
        The case.

    Returns
    -------
    Outcome
        ``position_ids`` and ``rope_deltas``, or a refusal.
    """
    try:
        return _answer(_read(case), OmniRules())
    except MmrefError as error:
        return Outcome.refusal(error)


def predict(case: Case, release: Release) -> Outcome:
    """The outcome of a release, as the reference plus its differences.

    Parameters
    ----------
    case : Case
        A case that the reference accepts.
    release : Release
        The release, or one with some of its differences taken away.

    Returns
    -------
    Outcome
        An answer, or a refusal where the release refuses.
    """
    prompt = _read(case)
    refused = release.refuses("omni", prompt, case.scalars)
    if refused is not None:
        return Outcome("refusal", {}, refused.id, refused.meaning)
    return _answer(prompt, replace(OmniRules(), **release.changes("omni")))


def _read(case: Case) -> omni.OmniPrompt:
    arguments: dict[str, Any] = case.omni_arguments()
    row = families.get(arguments.pop("family"))
    return omni.read(arguments.pop("input_ids"), row=row, **arguments)


def _answer(prompt: omni.OmniPrompt, rules: OmniRules) -> Outcome:
    found = omni.positions(prompt, rules)
    return Outcome("answer", {"position_ids": found.position_ids, "rope_deltas": found.deltas})
