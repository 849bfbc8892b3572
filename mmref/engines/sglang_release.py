"""SGLang's position code, out of its wheel.

A request is one row without padding; media are found in the token ids.
"""

from __future__ import annotations

import itertools
import types
import typing
from typing import Any

import numpy as np
import numpy.typing as npt

from mmref import families
from mmref.case import Case, Outcome
from mmref.differences import RELEASES, rules_names
from mmref.engines import source, wheels
from mmref.engines.transformers import skip_reason, tensors
from mmref.errors import MissingExtra

__all__ = ["SGLangRelease"]

Array = npt.NDArray[Any]
_FILE = "sglang/srt/layers/rotary_embedding/mrope_rope_index.py"
_BY_ID, _BY_MARKERS = "get_rope_index", "get_rope_index_glm4v"


class SGLangRelease:
    """A release of SGLang that was fetched with ``mmref engines add``.

    Parameters
    ----------
    version : str
        As on PyPI.

    Raises
    ------
    MissingExtra
        If torch is not installed.
    MissingRelease
        If the wheel was not fetched.
    EngineFault
        If it does not hold the function.
    """

    name = "sglang"
    provider = "cpu"
    subjects: tuple[str, ...] = ("positions",)

    def __init__(self, version: str) -> None:
        try:
            import torch
        except ImportError as error:
            raise MissingExtra(error.name or "torch", "transformers") from error
        self._torch = torch
        self.version = version
        text = wheels.read(wheels.find(self.name, version), _FILE)
        scope = {"torch": torch, "itertools": itertools, **vars(typing)}
        self._functions = source.load_text(text, _FILE, _BY_ID, _BY_MARKERS, scope=scope)

    def skip(self, case: Case) -> str | None:
        """Families that it asks other functions about, and padding, of which it knows nothing."""
        if f"sglang-{RELEASES['sglang'][-1]}" not in rules_names(families.get(case.family)):
            return "the family has a function of its own, or none"
        ids, mask = case.arrays["input_ids"], case.arrays.get("attention_mask")
        whole = mask is None or (mask.shape == ids.shape and (mask == 1).all())
        if ids.ndim != 2 or len(ids) != 1 or not whole:
            return "a request is one row without padding"
        return "what follows a prompt is the caller's to feed" if case.steps else skip_reason(case)

    def run(self, case: Case) -> Outcome:
        """Positions and deltas of the prompt."""
        try:
            return Outcome("answer", self._answer(case))
        except Exception as error:
            # whatever a library raises on a prompt is its refusal; nothing else is known of it
            return Outcome.refusal(error)

    def _answer(self, case: Case) -> dict[str, Array]:
        family = families.get(case.family)
        ids = case.ids or family.token_ids
        arguments = tensors(self._torch, case)
        merge = int(case.scalars.get("spatial_merge_size", family.spatial_merge_size))  # type: ignore[arg-type]
        if family.media_kinds == "by_video_markers":
            config = types.SimpleNamespace(
                image_token_id=ids.image,
                video_start_token_id=ids.video_start,
                video_end_token_id=ids.video_end,
                vision_config=types.SimpleNamespace(spatial_merge_size=merge),
            )
            arguments.pop("second_per_grid_ts", None)
            return _numbers(*self._functions[_BY_MARKERS](hf_config=config, **arguments))
        del arguments["attention_mask"]
        rate = case.scalars.get("tokens_per_second", family.tokens_per_second)
        positions, deltas = self._functions[_BY_ID](
            merge,
            ids.image,
            ids.video,
            ids.vision_start,
            family.name,
            rate,
            **arguments,
        )
        return _numbers(positions, deltas)


def _numbers(positions: Any, deltas: Any) -> dict[str, Array]:
    return {
        "position_ids": positions.numpy().astype(np.int64),
        "rope_deltas": deltas.reshape(-1).numpy().astype(np.int64),
    }
