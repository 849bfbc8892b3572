"""What ``generate`` of transformers feeds the language model, in a prompt and in later turns.

A tiny model of random weights runs; what it generates is set, what it is given
is read. The whole conversation goes into each call together with the cache of
the last one, which is how a turn is continued. Positions depend on grids alone,
so none of the media has pixels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mmref import families, mrope
from mmref.case import Case, Step
from mmref.probes.models import FAMILIES, VOCABULARY, tiny_model

__all__ = ["Conversations", "first_tokens"]

Array = npt.NDArray[Any]
Tensors = Callable[[Any, Case], dict[str, Any]]
Types = Callable[[Case], Array]


class Conversations:
    """The models, one a family, and what they were given."""

    def __init__(self) -> None:
        self._models: dict[str, Any] = {}
        self._seen: list[tuple[Array, int]] = []

    def skip(self, case: Case) -> str | None:
        """Why no model is run on a case, or None.

        Parameters
        ----------
        case : Case
            A case with steps.

        Returns
        -------
        str or None
            A reason that holds for a whole kind of case.
        """
        if families.get(case.family).name not in FAMILIES:
            return "no tiny model of the family"
        if not float(case.scalars.get("tokens_per_second", 2.0)).is_integer():  # type: ignore[arg-type]
            return "a rate that no configuration takes: it must be whole"
        if _rewinds_ahead(case):
            return "a rewind to beyond the end: a cache is cropped, not enlarged"
        stretches = [case.arrays, *(step.arrays for step in case.steps if step.arrays)]
        if any(len(arrays["input_ids"]) != 1 for arrays in stretches):
            return "steps of several rows: turns end at different lengths"
        if any(
            ((arrays["input_ids"] < 0) | (arrays["input_ids"] >= VOCABULARY)).any()
            for arrays in stretches
        ):
            return "token ids beyond the vocabulary of a tiny model"
        return None

    def answer(self, case: Case, tensors: Tensors, types: Types) -> dict[str, Array]:
        """Positions that the language model was given in each step.

        Parameters
        ----------
        case : Case
            A case with steps that `skip` says nothing against.
        tensors : callable
            (torch, case) -> the arguments of the prompt.
        types : callable
            (case) -> its token types.

        Returns
        -------
        dict of str to numpy.ndarray
            ``step_N_position_ids`` and ``step_N_cached``.
        """
        import torch

        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # for layers this small, several only wait for each other
        try:
            return self._answer(torch, case, tensors, types)
        finally:
            torch.set_num_threads(threads)

    def _answer(self, torch: Any, case: Case, tensors: Tensors, types: Types) -> dict[str, Array]:
        model = self._model(case)
        force = _force(torch, _generated_token(case))
        cache: Any = None
        arrays: dict[str, Array] = {}
        whole = replace(case, steps=())
        number = 0
        while number <= len(case.steps):  # step 0 is the prompt
            if number and case.steps[number - 1].action == "rewind":
                whole, cache = _rewound(whole, cache, case.steps[number - 1].count)
                number += 1
                continue
            if number and case.steps[number - 1].arrays:
                whole = whole.followed_by(case.steps[number - 1])
            feeds = number == 0 or bool(case.steps[number - 1].arrays)
            # tokens that are appended go in with the call that generates after them
            goes_on = number + feeds
            generates = goes_on <= len(case.steps) and case.steps[goes_on - 1].action == "generate"
            count = case.steps[goes_on - 1].count if generates else 0
            length = whole.arrays["input_ids"].shape[1]
            again = cache is not None and cache.get_seq_length() == length
            if again:  # after a rewind nothing is left to feed but the last token
                _, cache = _rewound(whole, cache, length - 1)
            given = tensors(torch, whole)
            if given["attention_mask"] is None:
                given["attention_mask"] = torch.ones_like(given["input_ids"])
            given = {name: value for name, value in given.items() if value is not None}
            self._seen.clear()
            done = model.generate(
                **given,
                mm_token_type_ids=torch.from_numpy(types(whole)),
                cache=cache,
                max_new_tokens=max(count, 1),
                do_sample=False,
                logits_processor=[force],
                return_dict_in_generate=True,
            )
            cache = done.cache if "cache" in done else done.past_key_values
            seen = list(self._seen)
            if feeds and number:
                _show(arrays, number, seen[:1])
            if feeds or again:
                del seen[:1]
            if generates:
                _show(arrays, goes_on, seen)
                new = np.full((1, count), _generated_token(case))
                whole = whole.followed_by(Step("append", 0, {"input_ids": new}))
            number = goes_on + generates if feeds else number + 1
        return arrays

    def _model(self, case: Case) -> Any:
        family = families.get(case.family)
        model = self._models.get(family.name)
        if model is None:
            model = self._models[family.name] = tiny_model(family.name)
            language = model.model.language_model
            language.register_forward_pre_hook(self._look, with_kwargs=True)
        token_ids = case.ids or family.token_ids
        config = model.config
        config.image_token_id, config.video_token_id = token_ids.image, token_ids.video
        config.vision_start_token_id = token_ids.vision_start
        vision = config.vision_config
        vision.spatial_merge_size = case.scalars.get(
            "spatial_merge_size", family.spatial_merge_size
        )
        rate = case.scalars.get("tokens_per_second", family.tokens_per_second)
        if isinstance(rate, float) and rate.is_integer():
            rate = int(rate)  # configurations carry an integer
        vision.tokens_per_second = rate
        return model

    def _look(self, module: Any, arguments: Any, named: dict[str, Any]) -> None:
        positions = named["position_ids"].numpy().astype(np.int64)[-3:]  # rope's, after text's own
        cache: Any = named.get("cache", named.get("past_key_values"))
        shape = (3, *positions.shape[1:])
        self._seen.append((np.broadcast_to(positions, shape).copy(), cache.get_seq_length()))


def first_tokens(case: Case, count: int) -> Case:
    """The case whose prompt ends after some tokens, with the grids of whole items alone.

    Parameters
    ----------
    case : Case
        A case of one row.
    count : int
        How many tokens.

    Returns
    -------
    Case
        The copy.
    """
    arrays = dict(case.arrays)
    spans = mrope.position_ids(**case.arguments()).layout if count else ()
    split = families.get(case.family).video_frames == "split"
    for kind in ("image", "video"):
        name = f"{kind}_grid_thw"
        kept = Counter(span.item for span in spans if span.kind == kind and span.stop <= count)
        if name in arrays:
            grids = arrays[name][: len(kept)].copy()
            if kind == "video" and split:  # the cut may be between two frames
                grids[:, 0] = [kept[item] for item in range(len(grids))]
            arrays[name] = grids
            if not kept:
                del arrays[name]
        if kind == "video" and "second_per_grid_ts" in arrays:
            arrays["second_per_grid_ts"] = arrays["second_per_grid_ts"][: len(kept)]
    for name in ("input_ids", "attention_mask"):
        if name in arrays:
            arrays[name] = arrays[name][:, :count]
    return replace(case, arrays=arrays)


def _rewinds_ahead(case: Case) -> bool:
    total = int(case.arrays["input_ids"].shape[-1])
    for step in case.steps:
        if step.action == "rewind":
            if step.count > total:
                return True
            total = step.count
        else:
            total += step.count + (step.arrays["input_ids"].shape[-1] if step.arrays else 0)
    return False


def _rewound(case: Case, cache: Any, count: int) -> tuple[Case, Any]:
    """The first tokens, and the cache of so many at most."""
    if cache is not None and count == 0:
        return first_tokens(case, count), None
    if cache is not None and cache.get_seq_length() > count:
        cache.crop(count - cache.get_seq_length())
    return first_tokens(case, count), cache


def _generated_token(case: Case) -> int:
    """A token that stands for no media and no padding."""
    taken = set((case.ids or families.get(case.family).token_ids).as_dict().values())
    return next(token for token in range(3, VOCABULARY) if token not in taken)


def _force(torch: Any, token: int) -> Callable[[Any, Any], Any]:
    def only(input_ids: Any, scores: Any) -> Any:
        forced = torch.full_like(scores, -torch.inf)
        forced[:, token] = 0
        return forced

    return only


def _show(arrays: dict[str, Array], number: int, seen: list[tuple[Array, int]]) -> None:
    if seen:
        arrays[f"step_{number}_position_ids"] = np.concatenate([part for part, _ in seen], axis=2)
        arrays[f"step_{number}_cached"] = np.array([seen[0][1]], np.int64)
