"""What ``generate`` of transformers feeds, step by step, by the rules of a release.

Each call is given the whole conversation and a cache. Where what is not cached
holds media, the positions of the whole are computed anew; where it is text, a
token's position is the number of tokens before it plus the delta of the last
computation, which no rewind changes; what is generated counts up from the last
column. Under the reference's rules all are one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mmref import families
from mmref.case import Array, Case, Step
from mmref.differences import Release
from mmref.differential.steps import text_token
from mmref.engines.transformers_generate import first_tokens
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
        By name; without masks. Empty for several rows, on which the engine runs no steps.

    Raises
    ------
    EngineRefusal
        If the release refuses the prompt that a later turn makes.
    """
    arrays: dict[str, Array] = {}
    if len(case.arrays["input_ids"]) != 1:
        return arrays
    whole = Case(case.family, case.arrays, case.scalars, case.token_ids)
    following, delta = positions.next_positions(1), positions.deltas
    cached = _length(whole)
    pending = False  # a generated token that has not gone in yet
    for number, step in enumerate(case.steps, start=1):
        total = _length(whole)
        if step.action == "rewind":
            pending = pending and step.count == total
            cached = min(cached, step.count)
            whole = first_tokens(whole, step.count)
            if release.rules.after_rewind == "recounted" and step.count:
                delta = _delta(whole, release)
            continue
        first = cached
        start = cached  # of what the call feeds: the last token again where none is left
        if step.action == "append":
            whole = whole.followed_by(step)
        elif number > 1 and case.steps[number - 2].action == "rewind" and not pending:
            start -= 1
        if _has_grids(whole) and (start == 0 or _holds_media(whole, start)):
            positions = _positions(whole, release)
            delta = positions.deltas
            fed, following = positions.position_ids, positions.next_positions(1)
        elif step.action == "append" or start < first or pending:
            if start == 0:
                delta = np.zeros_like(delta)
            fed = _counted(whole, delta)
            following = fed[:, :, -1:] + 1
            if release.rules.decode == "max":
                following = _unmasked(whole) + delta + np.zeros((3, 1, 1), np.int64)
        if step.action == "append":
            new = fed[:, :, first:]
        else:
            new = following + np.arange(step.count - 1)
            if pending:  # a call of its own
                new = np.concatenate([fed[:, :, first:], new], axis=2)
            generated = np.full((1, step.count), text_token(case))
            whole = whole.followed_by(Step("append", 0, {"input_ids": generated}))
        if new.shape[2]:
            arrays[f"step_{number}_position_ids"] = new
            arrays[f"step_{number}_cached"] = np.array([first], np.int64)
        pending = step.action == "generate"
        cached = _length(whole) - pending
    return arrays


def _length(case: Case) -> int:
    return int(case.arrays["input_ids"].shape[1])


def _counted(whole: Case, delta: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    mask = whole.arrays.get("attention_mask", np.ones_like(whole.arrays["input_ids"]))
    counted = np.where(mask != 0, np.cumsum(mask != 0, axis=1) - 1, 0) + delta[:, None]
    return np.broadcast_to(counted, (3, *counted.shape))


def _has_grids(whole: Case) -> bool:
    return "image_grid_thw" in whole.arrays or "video_grid_thw" in whole.arrays


def _delta(whole: Case, release: Release) -> npt.NDArray[np.int64]:
    if not _has_grids(whole):
        return np.zeros(1, np.int64)
    return _positions(whole, release).deltas


def _holds_media(whole: Case, start: int) -> bool:
    token_ids = whole.ids or families.get(whole.family).token_ids
    kept = np.asarray(whole.arrays.get("attention_mask", 1)) != 0
    ids = whole.arrays["input_ids"]
    media = (ids == token_ids.image) | (ids == token_ids.video)
    return bool((media & kept)[:, start:].any())


def _unmasked(whole: Case) -> int:
    mask = whole.arrays.get("attention_mask")
    return _length(whole) if mask is None else int((mask != 0).sum())


def _positions(whole: Case, release: Release) -> Positions:
    arguments: dict[str, Any] = whole.arguments()
    return by_release(read_prompt(**arguments), release, whole.scalars)
