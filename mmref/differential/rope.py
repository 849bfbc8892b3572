"""The rope subject: 1-D positions, by the reference and by a release; also by windows.

What an engine shows of a prompt that goes in by windows: the positions of the last window,
and how many tokens its mask shows. Where in the mask they stand is the engine's own affair.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from mmref import families, rope
from mmref.case import Array, Case, Outcome
from mmref.differences import PositionRules, Release, RopeRules
from mmref.differential import steps
from mmref.errors import EngineRefusal, RefusedPrompt

__all__ = ["pad_of", "predict", "reference"]

_OF_STEPS = ("generate_after_rewind", "last_generated")


def reference(case: Case) -> Outcome:
    """The reference's outcome of a case.

    Parameters
    ----------
    case : Case
        The case.

    Returns
    -------
    Outcome
        Positions and mask, and those of what follows; or a refusal.
    """
    try:
        return Outcome("answer", _answer(case, None))
    except RefusedPrompt as error:
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
        An answer, a refusal where the release refuses, or the crash that it ends in.
    """
    refused = release.refuses("rope", case, case.scalars)
    if refused is not None:
        return Outcome("refusal", {}, refused.id, refused.meaning)
    rules = replace(RopeRules(), **release.changes("rope"))
    try:
        return Outcome("answer", _answer(case, rules))
    except _Crash as error:
        return Outcome("crash", {}, "crash", str(error))
    except (EngineRefusal, RefusedPrompt) as error:
        return Outcome.refusal(error)


def pad_of(case: Case) -> int:
    """The pad id that an engine is told.

    Parameters
    ----------
    case : Case
        The case.

    Returns
    -------
    int
        The case's, else the family's, else 0.
    """
    return (case.ids or families.get(case.family).token_ids).pad or 0


class _Crash(Exception):
    """The release ends the process."""


def _answer(case: Case, rules: RopeRules | None) -> dict[str, Array]:
    if "window" in case.scalars:
        return _by_windows(case, rules)
    ids, mask = case.arrays["input_ids"], case.arrays.get("attention_mask")
    if rules is None:
        found = rope.position_ids(ids, attention_mask=mask)
    else:
        found = rope.by_rules(ids, mask, pad_of(case), rules)
    arrays = {"position_ids": found.position_ids, "attention_mask": found.attention_mask()}
    arrays["forward_position_ids"] = found.position_ids
    if rules is not None and rules.forward == "columns":
        columns = np.arange(ids.shape[1])
        arrays["forward_position_ids"] = np.where(found.attention_mask() != 0, columns, 0)
    if case.decode_steps:
        arrays["next_attention_mask"] = found.attention_mask(case.decode_steps)
        undefined = rules is not None and rules.empty_row == "undefined"
        if not undefined or found.attention_mask().any(axis=1).all():
            arrays["next_position_ids"] = found.next_positions(case.decode_steps)
    if case.steps:
        arrays |= _steps(found, case, rules)
    return arrays


def _steps(found: rope.RopePositions, case: Case, rules: RopeRules | None) -> dict[str, Array]:
    """Steps are those of 3-D positions whose axes are equal."""
    whole = found._whole
    if rules is None:
        arrays = steps.reference(whole, case)
    else:
        multimodal = families.get(case.family).fusing.kinds
        kept = rules.rewound_cache == "kept_if_multimodal" and multimodal
        if rules.rewind_to_cache == "refused_for_text" and not multimodal:
            _refuse_rewinds_to_the_cache(case, rules)
        changed: dict[str, Any] = {name: getattr(rules, name) for name in _OF_STEPS}
        changed["rewound_cache"] = "kept" if kept else "cut"
        arrays = steps.by_rules(whole, case, replace(PositionRules(), **changed))
    return {
        name: array[0] if name.endswith("_position_ids") else array
        for name, array in arrays.items()
    }


def _refuse_rewinds_to_the_cache(case: Case, rules: RopeRules) -> None:
    total = cached = case.arrays["input_ids"].shape[1]
    repeats = False
    for number, step in enumerate(case.steps, start=1):
        if step.action == "rewind":
            if step.count == cached < total:
                raise EngineRefusal(
                    "rewind-to-cache",
                    where=f"steps[{number - 1}]",
                    got=f"{cached} tokens in the cache, and one that is not",
                    hint="genai-text-rewind-to-cache-refused",
                )
            repeats = repeats or step.count < total
            total, cached = step.count, min(cached, step.count)
            continue
        if step.action == "append":
            total = cached = total + step.arrays["input_ids"].shape[1]
        else:
            # the token that goes in once more counts
            again = int(repeats and rules.generate_after_rewind == "repeats_last")
            total += again + step.count
            cached = total - 1
        repeats = False


def _by_windows(case: Case, rules: RopeRules | None) -> dict[str, Array]:
    size = int(case.scalars["window"])  # type: ignore[arg-type]
    alignment = str(case.scalars.get("window_alignment", "left"))
    ids = case.arrays["input_ids"]
    # refuses what is no prompt
    exists = (
        rope.position_ids(ids, attention_mask=case.arrays.get("attention_mask")).attention_mask()
        != 0
    )
    windows = rope.by_windows(ids, exists, size, alignment, pad_of(case), rules)
    if rules is not None and rules.empty_window == "crash":
        given = np.where(exists, ids, pad_of(case)) != pad_of(case)
        there = given if rules.window_padding == "ids" else exists
        first = there[:, : size - (-ids.shape[1] % size if alignment == "right" else 0)]
        if not first.any(axis=1).all():
            raise _Crash("a first window without any token")
    single = size == 1 and ids.shape[1] == 1 and any(step.arrays for step in case.steps)
    if single and rules is not None and rules.single_window == "crash":
        raise _Crash("tokens are appended to one window of one token")
    following, attended = windows.following[:, None], windows.attended
    arrays = {"window_position_ids": windows.position_ids[:, -1], "window_attended": attended}
    if case.decode_steps:
        arrays["next_position_ids"] = following + np.arange(case.decode_steps)
        arrays["next_attended"] = attended + case.decode_steps
    pending = False
    tokens = [exists]
    for number, step in enumerate(case.steps, start=1):
        if step.action == "rewind":
            following, attended, tokens = _rewound(tokens, step.count, rules)
            pending = False
            continue
        new = step.arrays["input_ids"].shape[1] if step.arrays else step.count
        if step.action == "generate" and sum(part.shape[1] for part in tokens) == 0:
            raise RefusedPrompt(
                "generate-from-nothing", where=f"steps[{number - 1}]", got="no token before it"
            )
        tokens.append(np.ones((len(ids), new), bool))
        fed = new + pending
        if step.action == "generate":
            fed -= 1
        elif rules is not None and rules.appended_window == "one":
            fed += -(-new // size) - new
        if pending and step.action == "append" and rules and rules.last_generated == "lost":
            fed -= 1
        shown = following + np.arange(fed)
        if step.action == "append" and rules is not None and rules.appended_window == "one":
            shown = shown[:, -1:]  # of the last window
        following, attended = following + fed, attended + fed
        if fed:
            arrays[f"step_{number}_position_ids"] = shown
            arrays[f"step_{number}_attended"] = attended
        pending = step.action == "generate"
    return arrays


def _rewound(
    tokens: list[Array], count: int, rules: RopeRules | None
) -> tuple[Array, Array, list[Array]]:
    if rules is not None and rules.window_rewind == "refused":
        hint = "genai-windowed-rewind-refused"
        raise EngineRefusal("rewind-refused", where="rewind", got=f"{count} tokens", hint=hint)
    joined = np.concatenate(tokens, axis=1)
    if count > joined.shape[1]:
        raise RefusedPrompt(
            "slot-outside",
            where="rewind",
            got=f"{count} tokens",
            expected=f"from 0 to {joined.shape[1]}",
        )
    kept = joined[:, :count]
    there = kept.sum(axis=1)
    return there[:, None], there, [kept]
