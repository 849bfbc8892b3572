"""Any release of transformers: its ``get_rope_index``, out of its wheel, under the installed torch.

The functions are taken out of the wheel's own text and compiled unchanged
(`mmref.engines.source`); nothing of the release is installed or imported.
Releases up to 5.2 look for media in the token ids; later ones are handed
``mm_token_type_ids``, which their processors make by comparing ids.
"""

from __future__ import annotations

import ast
import itertools
import types
import typing
from typing import Any

import numpy as np
import numpy.typing as npt

from mmref import families
from mmref.case import Case, Outcome
from mmref.differences import version_key
from mmref.engines import source, wheels
from mmref.engines.transformers import skip_reason, tensors
from mmref.errors import EngineFault, MissingExtra
from mmref.families import Family, TokenIds

__all__ = ["TransformersRelease"]

Array = npt.NDArray[Any]
_METHODS = ("get_rope_index", "get_vision_position_ids")
_WHOLE_RATE = ((5, 3), (5, 19))  # these truncate only when a row is written: a float row is no use


class TransformersRelease:
    """A release of transformers that was fetched with ``mmref engines add``.

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
        If it holds no function that computes positions.
    """

    name = "transformers"
    provider = "cpu"
    subjects: tuple[str, ...] = ("positions",)

    def __init__(self, version: str) -> None:
        try:
            import torch
        except ImportError as error:
            raise MissingExtra(error.name or "torch", "transformers") from error
        self._torch = torch
        self._wheel = wheels.find(self.name, version)
        self.version = version
        self._methods: dict[str, dict[str, Any] | None] = {}
        if self._load(families.get("qwen2_vl")) is None:
            raise EngineFault(
                "source-missing",
                where=self._wheel.name,
                got="no get_rope_index",
                expected="transformers 4.45 or later",
            )

    def skip(self, case: Case) -> str | None:
        """Families that the release does not have, and what it cannot be told."""
        family = families.get(case.family)
        if self._load(family) is None:
            return f"the release has no {family.name}"
        rate = float(case.scalars.get("tokens_per_second", 1))  # type: ignore[arg-type]
        first, behind = _WHOLE_RATE
        if not rate.is_integer() and first <= version_key(self.version) < behind:
            return "a fractional tokens_per_second, which the release's configuration cannot hold"
        if case.steps:
            return "what follows a prompt is the caller's to feed"
        return skip_reason(case)

    def run(self, case: Case) -> Outcome:
        """Positions and deltas of the prompt."""
        try:
            return Outcome("answer", self._answer(case))
        except Exception as error:
            # whatever a library raises on a prompt is its refusal; nothing else is known of it
            return Outcome.refusal(error)

    def _answer(self, case: Case) -> dict[str, Array]:
        family = families.get(case.family)
        token_ids = case.ids or family.token_ids
        methods = self._load(family)
        assert methods is not None
        stub = _stub(family, token_ids, case)
        for name, method in methods.items():
            setattr(stub, name, types.MethodType(method, stub))
        arguments = tensors(self._torch, case)
        if "get_vision_position_ids" in methods:
            ids = case.arrays["input_ids"]
            arguments["mm_token_type_ids"] = self._torch.from_numpy(
                _token_types(ids, family, token_ids)
            )
        positions, deltas = stub.get_rope_index(**arguments)
        return {
            "position_ids": positions.numpy().astype(np.int64),
            "rope_deltas": deltas.reshape(-1).numpy().astype(np.int64),
        }

    def _load(self, family: Family) -> dict[str, Any] | None:
        """The methods of the family's class; None if the release has no such family."""
        if family.name in self._methods:
            return self._methods[family.name]
        member = f"transformers/models/{family.name}/modeling_{family.name}.py"
        methods: dict[str, Any] | None = None
        try:
            text = wheels.read(self._wheel, member) if family.transformers_class else ""
        except EngineFault as error:
            if error.code != "source-missing":
                raise
            text = ""
        owner = _owner(text, family.transformers_class)
        if owner is not None:
            names = [name for name in _METHODS if name in owner[1]]
            scope = {"torch": self._torch, "itertools": itertools, **vars(typing)}
            loaded = source.load_text(
                text, member, *(f"{owner[0]}.{name}" for name in names), scope=scope
            )
            methods = dict(zip(names, loaded.values(), strict=True))
        self._methods[family.name] = methods
        return methods


def _owner(text: str, preferred: str) -> tuple[str, set[str]] | None:
    """The class that has ``get_rope_index``, and the names of its methods."""
    found: dict[str, set[str]] = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.ClassDef):
            names = {entry.name for entry in node.body if isinstance(entry, ast.FunctionDef)}
            if "get_rope_index" in names:
                found[node.name] = names
    for name in (preferred, *found):
        if name in found:
            return name, found[name]
    return None


def _stub(family: Family, token_ids: TokenIds, case: Case) -> Any:
    """What the functions read of a model."""
    rate = case.scalars.get("tokens_per_second", family.tokens_per_second)
    if isinstance(rate, float) and rate.is_integer():
        rate = int(rate)  # configurations carry an integer
    vision = types.SimpleNamespace(
        spatial_merge_size=int(case.scalars.get("spatial_merge_size", family.spatial_merge_size)),  # type: ignore[arg-type]
        tokens_per_second=rate,
    )
    config = types.SimpleNamespace(
        vision_config=vision,
        image_token_id=token_ids.image,
        video_token_id=token_ids.video,
        vision_start_token_id=token_ids.vision_start,
        video_start_token_id=token_ids.video_start,
        video_end_token_id=token_ids.video_end,
    )
    return types.SimpleNamespace(config=config)


def _token_types(ids: Array, family: Family, token_ids: TokenIds) -> Array:
    """1 for images and 2 for videos, as the processors of these releases write them."""
    found = np.zeros(ids.shape, np.int32)
    found[ids == token_ids.image] = 1
    if family.media_kinds == "by_video_markers":
        starts = np.cumsum(ids == token_ids.video_start, axis=-1)
        ends = np.cumsum(ids == token_ids.video_end, axis=-1)
        found[(ids == token_ids.image) & (starts > ends)] = 2
    else:
        found[ids == token_ids.video] = 2
    return found
