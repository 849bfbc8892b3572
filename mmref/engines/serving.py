"""Engines that serve requests: SGLang's and vLLM's position code, out of their wheels.

A request is one row without padding. SGLang finds media in the token ids, vLLM is told
where they stand.
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

__all__ = ["SGLangRelease", "VLLMRelease"]

Array = npt.NDArray[Any]
_FILE = "sglang/srt/layers/rotary_embedding/mrope_rope_index.py"


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
        self._positions = source.load_text(text, _FILE, "get_rope_index", scope=scope)[
            "get_rope_index"
        ]

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
        del arguments["attention_mask"]
        rate = case.scalars.get("tokens_per_second", family.tokens_per_second)
        positions, deltas = self._positions(
            int(case.scalars.get("spatial_merge_size", family.spatial_merge_size)),  # type: ignore[arg-type]
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


class VLLMRelease:
    """A release of vLLM that was fetched with ``mmref engines add``.

    It is told where items stand, one request at a time: rows are put to it without what is
    masked, with the items of the reference's own layout.

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
        If it does not hold the functions.
    """

    name = "vllm"
    provider = "cpu"
    subjects: tuple[str, ...] = ("positions",)
    _CLASSES = types.MappingProxyType(
        {
            "qwen2_vl": "Qwen2VLForConditionalGeneration",
            "qwen2_5_vl": "Qwen2_5_VLForConditionalGeneration",
        }
    )

    def __init__(self, version: str) -> None:
        try:
            import torch
        except ImportError as error:
            raise MissingExtra(error.name or "torch", "transformers") from error
        self._torch = torch
        self.version = version
        wheel = wheels.find(self.name, version)
        self._methods: dict[str, dict[str, Any]] = {}
        for family, owner in self._CLASSES.items():
            file = f"vllm/model_executor/models/{family}.py"
            names = [f"{owner}.iter_mm_grid_thw", f"{owner}.get_mrope_input_positions"]
            scope = {"torch": torch, "np": np}
            loaded = source.load_text(wheels.read(wheel, file), file, *names, scope=scope)
            self._methods[family] = {name.rpartition(".")[2]: loaded[name] for name in names}

    def skip(self, case: Case) -> str | None:
        """Families whose models were not read, and prompts in which no items can be pointed at."""
        from mmref.errors import RefusedPrompt

        if families.get(case.family).name not in self._CLASSES:
            return "the family's model was not read"
        if case.steps:
            return "what follows a prompt is the caller's to feed"
        reason = skip_reason(case)
        if reason is None:
            try:
                self._layout(case)
            except RefusedPrompt:
                return "a prompt in which no items can be pointed at"
        return reason

    def run(self, case: Case) -> Outcome:
        """Positions and deltas of the prompt, row by row."""
        try:
            return Outcome("answer", self._answer(case))
        except Exception as error:
            # whatever a library raises on a prompt is its refusal; nothing else is known of it
            return Outcome.refusal(error)

    def _layout(self, case: Case) -> Any:
        from mmref.mrope import position_ids

        return position_ids(**case.arguments()).layout

    def _answer(self, case: Case) -> dict[str, Array]:
        family = families.get(case.family)
        ids = case.arrays["input_ids"]
        mask = case.arrays.get("attention_mask", np.ones(ids.shape, np.int64)) != 0
        layout = list(self._layout(case))
        rate = case.scalars.get("tokens_per_second", family.tokens_per_second)
        vision: dict[str, Any] = {
            "spatial_merge_size": int(
                case.scalars.get("spatial_merge_size", family.spatial_merge_size)  # type: ignore[arg-type]
            )
        }
        if rate is not None:
            vision["tokens_per_second"] = rate
        config = types.SimpleNamespace(vision_config=types.SimpleNamespace(**vision))
        model = types.SimpleNamespace(config=config)
        for name, method in self._methods[family.name].items():
            setattr(model, name, types.MethodType(method, model))
        out = np.zeros((3, *ids.shape), np.int64)
        deltas = np.zeros(len(ids), np.int64)
        for row, line in enumerate(ids):
            kept = line[mask[row]].tolist()
            if not kept:
                continue
            items = [
                self._feature(case, span, int(mask[row, : span.start].sum()))
                for span in layout
                if span.row == row and span.kind != "text"
            ]
            positions, deltas[row] = model.get_mrope_input_positions(kept, items)
            out[:, row, mask[row]] = positions.numpy()
        return {"position_ids": out, "rope_deltas": deltas}

    def _feature(self, case: Case, span: Any, offset: int) -> Any:
        grid = self._torch.tensor(case.arrays[f"{span.kind}_grid_thw"][span.item].tolist())
        data = {f"{span.kind}_grid_thw": types.SimpleNamespace(data=grid)}
        seconds = case.arrays.get("second_per_grid_ts")
        if span.kind == "video" and seconds is not None:
            value = self._torch.tensor(float(seconds[span.item]), dtype=self._torch.float32)
            data["second_per_grid_ts"] = types.SimpleNamespace(data=value)
        place = types.SimpleNamespace(offset=offset)
        return types.SimpleNamespace(modality=span.kind, mm_position=place, data=data)
