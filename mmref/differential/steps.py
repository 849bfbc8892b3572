"""What follows a prompt, step by step: by the reference, and by the rules of a release.

What an engine shows of a step: the positions and the mask that its decoder
receives for the tokens of the step, and how many tokens its cache holds before
them. The last token that is generated has no position yet: it goes in with what
follows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mmref.case import Array, Case, Step
from mmref.differences import PositionRules
from mmref.errors import RefusedPrompt
from mmref.positions import Positions, by_reference
from mmref.prompt import Prompt, read_prompt

__all__ = ["by_rules", "reference"]


def reference(positions: Positions, case: Case) -> dict[str, Array]:
    """The arrays of every step, by the reference.

    Parameters
    ----------
    positions : Positions
        Of the prompt.
    case : Case
        The case.

    Returns
    -------
    dict of str to numpy.ndarray
        By name.

    Raises
    ------
    RefusedPrompt
        If a step is not consistent with what came before.
    """
    arrays: dict[str, Array] = {}
    mask = positions.attention_mask()
    pending = False
    for number, step in enumerate(case.steps, start=1):
        total = positions.next_slot
        if step.action == "rewind":
            positions = positions.rewind(step.count)
            mask = mask[:, : step.count]
            pending = pending and step.count == total
            continue
        if step.action == "generate":
            if total == 0:
                raise RefusedPrompt(
                    "generate-from-nothing",
                    where=f"steps[{number - 1}]",
                    got="no token before it",
                    expected="at least one token to generate from",
                )
            positions = positions.extend(np.full((len(mask), step.count), text_token(case)))
        else:
            positions = positions.extend(**step.arrays)
        mask = np.concatenate([mask, positions.attention_mask()], axis=1)
        first, last = total - pending, positions.next_slot - (step.action == "generate")
        arrays |= _shown(number, positions.chunk(first, last), mask[:, :last], first)
        pending = step.action == "generate"
    return arrays


def by_rules(positions: Positions, case: Case, rules: PositionRules) -> dict[str, Array]:
    """The arrays of every step, by the rules of a release.

    Parameters
    ----------
    positions : Positions
        Of the prompt, by the same rules.
    case : Case
        The case, whose steps the reference accepts.
    rules : PositionRules
        The rules.

    Returns
    -------
    dict of str to numpy.ndarray
        By name.
    """
    arrays: dict[str, Array] = {}
    given = positions.attention_mask()
    if rules.decode_mask == "ones":
        given = np.ones_like(given)
    counted = by_reference(positions._prompt)  # what a rewind that recounts goes back to
    following = positions.next_positions(1)[0, :, 0]
    total = cached = given.shape[1]
    pending = rewound = False
    for number, step in enumerate(case.steps, start=1):
        if step.action == "rewind":
            counted = counted.rewind(step.count)
            following = following - total + step.count
            if rules.after_rewind == "recounted":
                following = counted.next_positions(1)[0, :, 0]
            if rules.rewound_cache == "cut":
                cached = min(cached, step.count)
            pending = pending and step.count == total
            rewound = rewound or step.count < total
            given = given[:, : step.count]
            total = step.count
            continue
        if step.action == "generate" and rewound and rules.generate_after_rewind == "repeats_last":
            following = following + 1  # the last token that was kept goes in once more
            total += 1
            cached = total
        rewound = False
        prompt = _prompt_of(step, positions._prompt, text_token(case), len(given))
        counted = counted.extend(prompt.ids, **_media(step))
        alone = by_reference(prompt)
        relative, length = alone.position_ids, prompt.ids.shape[1]
        if rules.later_media == "as_text":
            relative = np.broadcast_to(np.arange(length), relative.shape)
        else:
            length = alone.next_positions(1)[0, :, 0]
        new = following[None, :, None] + relative
        if pending and (step.action == "generate" or rules.last_generated == "cached"):
            new = np.concatenate([np.broadcast_to(following - 1, (3, 1, 1)), new], axis=2)
        pending = step.action == "generate"
        new = new[:, :, : new.shape[2] - pending]
        total += prompt.ids.shape[1]
        mask = np.ones((len(given), total - pending), np.int64)
        seen = given[:, : total - pending]
        mask[:, : seen.shape[1]] = seen
        arrays |= _shown(number, new, mask, cached)
        following = following + length
        cached = total - pending
    return arrays


def text_token(case: Case) -> int:
    """A token that stands for no media and no padding, for what is generated.

    Parameters
    ----------
    case : Case
        The case.

    Returns
    -------
    int
        The lowest such token from 3 on, which is what probe packages generate.
    """
    taken = set((case.token_ids or {}).values())
    return next(token for token in range(3, 64) if token not in taken)


def _media(step: Step) -> dict[str, Array]:
    return {name: array for name, array in step.arrays.items() if name != "input_ids"}


def _prompt_of(step: Step, before: Prompt, token: int, rows: int) -> Prompt:
    arrays: dict[str, Any] = dict(step.arrays)
    if step.action == "generate":
        arrays = {"input_ids": np.full((rows, step.count), token)}
    return read_prompt(
        **arrays,
        family=before.family.name,
        token_ids=before.token_ids,
        spatial_merge_size=before.merge,
        tokens_per_second=before.rate if before.family.time == "seconds" else None,
    )


def _shown(
    number: int, positions: npt.NDArray[np.int64], mask: npt.NDArray[np.int64], cached: int
) -> dict[str, Array]:
    if positions.shape[2] == 0:  # one generated token, which has not gone in yet
        return {}
    return {
        f"step_{number}_position_ids": positions,
        f"step_{number}_mask": mask,
        f"step_{number}_cached": np.array([cached], np.int64),
    }
