"""What ``generate`` of transformers feeds, step by step, by the rules of a release.

Each call is given the whole conversation and a cache. Where what is not cached
holds media, the positions of the whole are computed anew; where it is text, a
token's position is the number of tokens before it plus the delta of the last
computation; what is generated counts up from the last column. Under the
reference's rules all three are one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mmref.case import Array, Case, Step
from mmref.differences import Release
from mmref.differential.steps import text_token
from mmref.positions import Positions
from mmref.prompt import read_prompt
from mmref.releases import by_release

__all__ = ["by_generate"]


def by_generate(positions: Positions, case: Case, release: Release) -> dict[str, Array]:
    """The arrays of every step.

    Parameters
    ----------
    positions : Positions
        Of the prompt, by the release's rules.
    case : Case
        The case, whose steps the reference accepts.
    release : Release
        The release.

    Returns
    -------
    dict of str to numpy.ndarray
        By name; without masks.

    Raises
    ------
    EngineRefusal
        If the release refuses the prompt that a later turn makes.
    """
    arrays: dict[str, Array] = {}
    whole = Case(case.family, case.arrays, case.scalars, case.token_ids)
    following, delta = _following(positions), positions.deltas
    cached = _length(whole)
    pending = False  # a generated token that has not gone in yet
    for number, step in enumerate(case.steps, start=1):
        if step.action == "rewind":
            return {}
        if step.action == "append":
            whole = whole.followed_by(step)
            first = cached
            if any(len(array) for name, array in step.arrays.items() if name.endswith("thw")):
                positions = _positions(whole, release)
                following, delta = _following(positions), positions.deltas
                new = positions.position_ids[:, :, first:]
            else:
                new = _counted(whole, delta)[:, :, first:]
                following = new[:, :, -1:] + 1 if new.shape[2] else following
        else:
            first = cached
            generated = np.full((1, step.count), text_token(case))
            whole = whole.followed_by(Step("append", 0, {"input_ids": generated}))
            if pending:  # a call of its own
                following = _counted(whole, delta)[:, :, first : first + 1]
            new = following + np.arange(step.count - 1 + pending)
        if new.shape[2]:
            arrays[f"step_{number}_position_ids"] = new
            arrays[f"step_{number}_cached"] = np.array([first], np.int64)
        pending = step.action == "generate"
        cached = _length(whole) - pending
    return arrays


def _length(case: Case) -> int:
    return int(case.arrays["input_ids"].shape[1])


def _following(positions: Positions) -> npt.NDArray[np.int64]:
    return positions.next_positions(1)


def _counted(whole: Case, delta: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    mask = whole.arrays["attention_mask"]
    counted = np.where(mask != 0, np.cumsum(mask != 0, axis=1) - 1, 0) + delta[:, None]
    return np.broadcast_to(counted, (3, *counted.shape))


def _positions(whole: Case, release: Release) -> Positions:
    arguments: dict[str, Any] = whole.arguments()
    return by_release(read_prompt(**arguments), release, whole.scalars)
