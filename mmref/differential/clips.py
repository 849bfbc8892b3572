"""Clips in a case of tokens: what the reference is asked, and what a release makes of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from mmref import families
from mmref.case import Array, Case
from mmref.differences.rules import TokenRules
from mmref.families import Family
from mmref.probes import vocabulary

__all__ = ["DEFAULT_RATES", "arguments", "changed", "types"]

DEFAULT_RATES = {"qwen2_5_omni": 2.0, "qwen3_omni_moe": 1.0}
"""Frames a second that the processors with audio assume where nobody says."""

_TO_THE_LONGEST = ("qwen3_omni_moe", "qwen3_asr")
_LISTED = ("musicflamingo", "qwen3_asr")


def changed(rules: TokenRules) -> bool:
    """Whether rules are other than the reference's where clips are concerned.

    Parameters
    ----------
    rules : TokenRules
        The rules.

    Returns
    -------
    bool
        Whether they are.
    """
    return (rules.clips, rules.audio_types) != ("alone", "placeholders")


def arguments(case: Case, rules: TokenRules) -> dict[str, Any]:
    """Clips, and videos with their own sound, as `mmref.tokens.expand` takes them.

    Parameters
    ----------
    case : Case
        A case of the subject ``tokens``.
    rules : TokenRules
        The rules.

    Returns
    -------
    dict
        Arguments by name.
    """
    row = families.get(case.family)
    found: dict[str, Any] = {}
    if "audio_sizes" in case.arrays:
        samples = case.arrays["audio_sizes"][:, 0]
        found["audio"] = samples.tolist()
        if rules.clips == "in_batch" and row.name in _TO_THE_LONGEST and len(samples):
            assert row.audio is not None
            assert row.audio.framing is not None
            framing = row.audio.framing
            filled = np.maximum(samples, framing.shortest)
            whole = int(filled.max()) // framing.hop
            found["audio"] = None
            frames = np.minimum(-(-samples // framing.hop), whole)
            if framing.shortest:
                frames = np.minimum(-(-filled // framing.hop), whole)
            found["audio_lengths"] = frames.tolist()
    if case.scalars.get("use_audio_in_video"):
        rate = case.scalars.get("video_fps", DEFAULT_RATES.get(row.name, 1.0))
        resize = row.media.video_resize
        steps = resize.temporal_patch_size if resize is not None else 1
        films = len(case.arrays.get("video_sizes", ()))
        found["use_audio_in_video"] = True
        found["second_per_grid_ts"] = [steps / float(rate)] * films  # type: ignore[arg-type]
    return found


def types(row: Family, ids: Array, kinds: Array, rules: TokenRules) -> Array:
    """Token types of expanded prompts.

    Parameters
    ----------
    row : Family
        The family.
    ids, kinds : numpy.ndarray
        Token ids and the reference's types, of the same shape.
    rules : TokenRules
        The rules.

    Returns
    -------
    numpy.ndarray
        The types under the rules.
    """
    if rules.audio_types == "placeholders" or row.name not in _LISTED:
        return kinds
    names = vocabulary.of(row).token_ids
    marks = (ids == names.audio_start) | (ids == names.audio_end)
    return np.where(marks, 3, kinds)
