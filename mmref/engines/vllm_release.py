"""vLLM's position code, out of its wheel.

It is told where items stand, one request at a time: rows are put to it without what is
masked, with the items of the reference's own layout, as vLLM's processors would point at
them.
"""

from __future__ import annotations

import types
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mmref import families
from mmref.case import Case, Outcome
from mmref.engines import source, wheels
from mmref.engines.transformers import skip_reason
from mmref.errors import MissingExtra
from mmref.families import Family

__all__ = ["VLLMRelease"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class _Code:
    """Where the code of some families stands.

    Parameters
    ----------
    file : str
        Module under ``vllm/model_executor/models``.
    owner : str
        The class.
    names : tuple of str
        The methods: the one that lists items, the one that places them.
    """

    file: str
    owner: str
    names: tuple[str, str] = ("iter_mm_grid_thw", "get_mrope_input_positions")


_STATIC = ("_iter_mm_grid_hw", "_get_mrope_input_positions")
_QWEN3 = _Code("qwen3_vl", "Qwen3VLForConditionalGeneration", _STATIC)
_GLM = _Code("glm4_1v", "Glm4vForConditionalGeneration")
_CODE = {
    "qwen2_vl": _Code("qwen2_vl", "Qwen2VLForConditionalGeneration"),
    "qwen2_5_vl": _Code("qwen2_5_vl", "Qwen2_5_VLForConditionalGeneration"),
    "paddleocr_vl": _Code("paddleocr_vl", "PaddleOCRVLForConditionalGeneration"),
    "qwen3_vl": _QWEN3,
    "qwen3_vl_moe": _QWEN3,
    "qwen3_5": _QWEN3,
    "qwen3_5_moe": _QWEN3,
    "glm4v": _GLM,
    "glm4v_moe": _GLM,
    "glm46v": _GLM,
    "glm_ocr": _GLM,
}
_RANGES = ("vllm/multimodal/inputs.py", "PlaceholderRange.extract_embeds_range")


class VLLMRelease:
    """A release of vLLM that was fetched with ``mmref engines add``.

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

    def __init__(self, version: str) -> None:
        try:
            import torch
        except ImportError as error:
            raise MissingExtra(error.name or "torch", "transformers") from error
        self._torch = torch
        self.version = version
        wheel = wheels.find(self.name, version)
        self._methods: dict[_Code, dict[str, Any]] = {}
        for code in dict.fromkeys(_CODE.values()):
            owner = types.SimpleNamespace()
            file = f"vllm/model_executor/models/{code.file}.py"
            loaded = source.load_text(
                wheels.read(wheel, file),
                file,
                *(f"{code.owner}.{name}" for name in code.names),
                scope={"torch": torch, "np": np, code.owner: owner},
            )
            methods = {name: loaded[f"{code.owner}.{name}"] for name in code.names}
            vars(owner).update(methods)  # static ones call each other by the class
            self._methods[code] = methods
        file, name = _RANGES
        self._ranges = source.load_text(
            wheels.read(wheel, file), file, name, scope={"torch": torch}
        )[name]

    def skip(self, case: Case) -> str | None:
        """Families whose models were not read, and prompts in which no items can be pointed at."""
        from mmref.errors import RefusedPrompt

        family = families.get(case.family)
        if family.name not in _CODE:
            return "the family's model was not read"
        if case.steps:
            return "what follows a prompt is the caller's to feed"
        reason = skip_reason(case)
        if reason is not None:
            return reason
        try:
            items = self._items(case)
        except RefusedPrompt:
            return "a prompt in which no items can be pointed at"
        if family.video_frames == "split":
            return self._unlike_a_processor(case, family, items)
        return None

    def run(self, case: Case) -> Outcome:
        """Positions and deltas of the prompt, row by row."""
        try:
            return Outcome("answer", self._answer(case))
        except Exception as error:
            # whatever a library raises on a prompt is its refusal; nothing else is known of it
            return Outcome.refusal(error)

    def _items(self, case: Case) -> list[list[Any]]:
        """The spans of each item, frame by frame, in the order of the prompt."""
        from mmref.mrope import position_ids

        items: dict[tuple[str, int], list[Any]] = {}
        for span in position_ids(**case.arguments()).layout:
            if span.kind != "text":
                items.setdefault((span.kind, span.item), []).append(span)
        return list(items.values())

    def _unlike_a_processor(
        self, case: Case, family: Family, items: Sequence[Sequence[Any]]
    ) -> str | None:
        """vLLM's own processors write what stands between frames."""
        ids = case.ids or family.token_ids
        mask = _kept(case)
        for spans in items:
            for number, span in enumerate(spans if spans[0].kind == "video" else ()):
                columns = np.flatnonzero(mask[span.row])
                row = case.arrays["input_ids"][span.row]
                before = columns[columns < span.start][-1:]
                after = columns[columns >= span.stop][:1]
                if family.media_kinds == "by_video_markers":
                    if number and spans[number - 1].stop > (before[-1] if before.size else -1):
                        return "frames side by side, which its processor does not write"
                elif row[before].tolist() != [ids.vision_start] or row[after].tolist() != [
                    ids.vision_end
                ]:
                    return "frames without their markers, which its processor writes"
        return None

    def _answer(self, case: Case) -> dict[str, Array]:
        family = families.get(case.family)
        code = _CODE[family.name]
        lister, placer = (self._methods[code][name] for name in code.names)
        config = self._config(case, family)
        model = types.SimpleNamespace(config=config)
        model.iter_mm_grid_thw = types.MethodType(lister, model)
        ids, mask = case.arrays["input_ids"], _kept(case)
        items = self._items(case)
        out = np.zeros((3, *ids.shape), np.int64)
        deltas = np.zeros(len(ids), np.int64)
        for row, line in enumerate(ids):
            kept = line[mask[row]].tolist()
            if not kept:
                continue
            here = [self._feature(case, spans, mask[row]) for spans in items if spans[0].row == row]
            if code is _QWEN3:
                positions, deltas[row] = placer(kept, here, config)
            else:
                positions, deltas[row] = placer(model, kept, here)
            out[:, row, mask[row]] = positions.numpy()
        return {"position_ids": out, "rope_deltas": deltas}

    def _config(self, case: Case, family: Family) -> Any:
        ids = case.ids or family.token_ids
        rate = case.scalars.get("tokens_per_second", family.tokens_per_second)
        merge = int(case.scalars.get("spatial_merge_size", family.spatial_merge_size))  # type: ignore[arg-type]
        vision = types.SimpleNamespace(spatial_merge_size=merge)
        if rate is not None:
            vision.tokens_per_second = rate
        return types.SimpleNamespace(
            vision_config=vision,
            video_token_id=ids.video,
            vision_start_token_id=ids.vision_start,
            vision_end_token_id=ids.vision_end,
        )

    def _feature(self, case: Case, spans: Sequence[Any], kept: Array) -> Any:
        """What vLLM knows of an item: its grid, and where its tokens stand."""
        torch, first, last = self._torch, spans[0], spans[-1]
        grid = torch.tensor(case.arrays[f"{first.kind}_grid_thw"][first.item].tolist())
        data = {f"{first.kind}_grid_thw": types.SimpleNamespace(data=grid)}
        seconds = case.arrays.get("second_per_grid_ts")
        if first.kind == "video" and seconds is not None:
            value = torch.tensor(float(seconds[first.item]), dtype=torch.float32)
            data["second_per_grid_ts"] = types.SimpleNamespace(data=value)
        ours = np.zeros(len(kept), bool)
        for span in spans:
            ours[span.start : span.stop] = True
        marked = ours[first.start : last.stop][kept[first.start : last.stop]]
        offset = int(kept[: first.start].sum())
        if first.kind == "video" and _CODE[families.get(case.family).name] is _QWEN3:
            offset -= 1  # the item starts at the marker of its first frame
        place = types.SimpleNamespace(
            offset=offset, length=len(marked), is_embed=torch.from_numpy(marked)
        )
        place.extract_embeds_range = types.MethodType(self._ranges, place)
        return types.SimpleNamespace(modality=first.kind, mm_position=place, data=data)


def _kept(case: Case) -> Array:
    ids = case.arrays["input_ids"]
    mask: Array = case.arrays.get("attention_mask", np.ones(ids.shape, np.int64))
    return np.not_equal(mask, 0)
