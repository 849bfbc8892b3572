"""The positions subject: what the reference, and a release of an engine, make of a case."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mmref.case import Case, Outcome
from mmref.differences import REFERENCE, Release
from mmref.differential import steps as later
from mmref.differential.generated import by_generate
from mmref.errors import EngineRefusal, RefusedPrompt
from mmref.positions import Positions, by_reference
from mmref.prompt import Prompt, read_prompt
from mmref.releases import by_release

__all__ = ["predict", "prompt_arguments", "reference"]

_ARRAYS = (
    "input_ids",
    "image_grid_thw",
    "video_grid_thw",
    "second_per_grid_ts",
    "attention_mask",
)
_SCALARS = ("spatial_merge_size", "tokens_per_second")


def reference(case: Case) -> Outcome:
    """The reference's outcome of a case.

    Parameters
    ----------
    case : Case
        The case.

    Returns
    -------
    Outcome
        An answer with every array that an engine might show, or a refusal.
    """
    try:
        prompt = _prompt(case)
        return _outcome(by_reference(prompt), case, None)
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
        An answer, or a refusal where the release refuses.
    """
    try:
        positions = by_release(_prompt(case), release, case.scalars)
    except (EngineRefusal, RefusedPrompt) as error:
        return Outcome.refusal(error)
    try:
        return _outcome(positions, case, release)
    except EngineRefusal as error:  # of the prompt that a later turn makes
        return Outcome.refusal(error)


def prompt_arguments(case: Case) -> dict[str, Any]:
    """The arguments of `mmref.mrope.position_ids` that a case stands for.

    Parameters
    ----------
    case : Case
        The case.

    Returns
    -------
    dict
        By name; ``rules`` is not among them.
    """
    arguments: dict[str, Any] = {name: case.arrays.get(name) for name in _ARRAYS}
    arguments |= {name: case.scalars.get(name) for name in _SCALARS}
    arguments |= {"family": case.family, "token_ids": case.ids}
    return arguments


def _prompt(case: Case) -> Prompt:
    return read_prompt(**prompt_arguments(case))


def _outcome(positions: Positions, case: Case, release: Release | None) -> Outcome:
    rules = REFERENCE if release is None else release.rules
    arrays = {
        "position_ids": positions.position_ids,
        "rope_deltas": positions.deltas,
        "attention_mask": positions.attention_mask(),
    }
    steps = case.decode_steps
    if steps:
        arrays["next_position_ids"] = positions.next_positions(steps)
        arrays["next_attention_mask"] = positions.attention_mask(steps)
        arrays["cached_position_ids"] = _cached(positions, rules.cached_decode)
        arrays["masked_position_ids"] = _masked(positions, rules.masked_decode)
    if case.steps:
        if release is None:
            arrays |= later.reference(positions, case)
        elif release.engine == "transformers":  # its calls are given the whole conversation
            arrays |= by_generate(positions, case, release)
        else:
            arrays |= later.by_rules(positions, case, rules)
    beams = int(case.scalars.get("num_beams", 1))  # type: ignore[arg-type]
    if beams > 1:
        arrays = {name: _repeat_rows(array, beams) for name, array in arrays.items()}
    return Outcome("answer", arrays)


def _cached(positions: Positions, rule: str) -> npt.NDArray[np.int64]:
    """The next position in a forward that knows only the cache's length."""
    _, batch, length = positions.position_ids.shape
    following = positions._largest + 1
    if rule == "cache_length":
        following = length + positions.deltas
    return np.broadcast_to(following[:, None], (3, batch, 1))


def _masked(positions: Positions, rule: str) -> npt.NDArray[np.int64]:
    """The next position in a forward that is given the mask of all tokens so far."""
    if rule != "every_column":
        return _cached(positions, "max")
    mask = positions.attention_mask(1)
    counted = np.where(mask != 0, mask.cumsum(-1) - 1, 0) + positions.deltas[:, None]
    return np.broadcast_to(counted, (3, *counted.shape))


def _repeat_rows(array: npt.NDArray[Any], beams: int) -> npt.NDArray[Any]:
    return np.repeat(array, beams, axis=1 if array.ndim == 3 else 0)
