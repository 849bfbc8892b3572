"""The audio subject: what the reference, and a release of an engine, make of a case."""

from __future__ import annotations

from dataclasses import replace

from mmref import audio
from mmref.audio import arguments, masks
from mmref.case import Array, Case, Outcome
from mmref.differences import AudioRules, Release
from mmref.errors import RefusedMedia

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
        ``output_lengths``, ``output_mask`` or ``tokens``, or a refusal.
    """
    return _outcome(case, AudioRules())


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
    if "mask" in case.arrays:
        request = (arguments.row_of(case.family), arguments.read_mask(case.arrays["mask"]))
        refused = release.refuses("audio", request, case.scalars)
        if refused is not None:
            return Outcome("refusal", {}, refused.id, refused.meaning)
    rules = replace(AudioRules(), **release.changes("audio"))
    if rules.frameless == "crash" and "samples" in case.arrays:
        framed = audio.frames(case.arrays["samples"], family=case.family)
        if not framed.all():
            return Outcome("crash", {}, "crash", "a clip without a frame")
    return _outcome(case, rules)


def _outcome(case: Case, rules: AudioRules) -> Outcome:
    family, arrays = case.family, case.arrays
    found: dict[str, Array]
    try:
        if "mask" in arrays:
            found = {
                "output_mask": masks.downsample_mask(arrays["mask"], family=family, rules=rules)
            }
        elif "samples" in arrays:
            found = {"tokens": audio.token_count(arrays["samples"], family=family)}
        else:
            lengths = audio.output_lengths(arrays["lengths"], family=family, rules=rules)
            found = {"output_lengths": lengths}
    except RefusedMedia as error:
        return Outcome.refusal(error)
    return Outcome("answer", found)
