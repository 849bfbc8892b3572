"""Hugging Face transformers: its own ``get_rope_index``, without weights.

The functions of the model class are bound to a stub that has the few
configuration values they read. ``mm_token_type_ids`` are made by the family's
own processor function, from the tokens that exist (a processor runs before
padding).
"""

from __future__ import annotations

import importlib
import types
from typing import Any

import numpy as np
import numpy.typing as npt

from mmref import families
from mmref.case import Case, Outcome
from mmref.engines import (
    transformers_audio,
    transformers_fusion,
    transformers_omni,
    transformers_rope,
    transformers_tokens,
)
from mmref.engines.transformers_generate import Conversations
from mmref.errors import MissingExtra
from mmref.families import Family, TokenIds

__all__ = ["Transformers"]

Array = npt.NDArray[Any]
_LARGEST_GRID = 1_000_000
_BOUND = ("get_rope_index", "get_vision_position_ids", "compute_3d_position_ids")


def skip_reason(case: Case) -> str | None:
    """Why a case is put to no release of transformers, or None.

    Parameters
    ----------
    case : Case
        The case.

    Returns
    -------
    str or None
        A reason that holds for a whole kind of case.
    """
    if "unset" in case.scalars:
        return "a case about ids that a GenAI configuration leaves out"
    if int(case.scalars.get("num_beams", 1)) != 1:  # type: ignore[arg-type]
        return "beams repeat rows before positions are computed"
    for name in ("image_grid_thw", "video_grid_thw"):
        grid = case.arrays.get(name)
        if grid is not None and grid.size and float(np.abs(grid).max()) > _LARGEST_GRID:
            return f"transformers would allocate what a grid value over {_LARGEST_GRID} asks for"
    return None


def tensors(torch: Any, case: Case) -> dict[str, Any]:
    """The arguments of ``get_rope_index`` that a case holds.

    Parameters
    ----------
    torch : module
        The torch to make tensors with.
    case : Case
        The case; seconds in float64 stand for a Python list.

    Returns
    -------
    dict of str to torch.Tensor
        By name; what the case does not give is None, but for the seconds, which are left out.
    """
    arguments: dict[str, Any] = {}
    for name in ("input_ids", "attention_mask", "image_grid_thw", "video_grid_thw"):
        value = case.arrays.get(name)
        arguments[name] = None if value is None else torch.from_numpy(np.array(value))
    seconds = case.arrays.get("second_per_grid_ts")
    if seconds is not None:
        as_list = seconds.dtype == np.float64
        arguments["second_per_grid_ts"] = (
            seconds.tolist() if as_list else torch.from_numpy(np.array(seconds))
        )
    return arguments


class Transformers:
    """The installed transformers.

    Raises
    ------
    MissingExtra
        If transformers or torch is not installed.
    """

    name = "transformers"
    provider = "cpu"
    subjects: tuple[str, ...] = ("positions", "tokens", "fusion", "audio", "omni", "rope")

    def __init__(self) -> None:
        try:
            import torch
            import transformers
        except ImportError as error:
            raise MissingExtra(error.name or "transformers", "transformers") from error
        self.version: str = transformers.__version__
        self._torch = torch
        self._stubs: dict[str, Any] = {}
        self._conversations = Conversations()
        self._processors: dict[str, transformers_tokens.TokenProcessor] = {}
        self._models = transformers_fusion.Models()

    def skip(self, case: Case) -> str | None:
        """Cases about an exported model's configuration are not about transformers."""
        if case.subject == "audio":
            return transformers_audio.skip(case)
        if case.subject == "fusion":
            return self._models.skip(case)
        if case.subject == "rope":
            return transformers_rope.skip(case)
        reason = skip_reason(case)
        if reason is None and case.steps:
            return self._conversations.skip(case)
        return reason

    def run(self, case: Case) -> Outcome:
        """Positions and what follows, the tokens its processor makes, or merged embeddings."""
        try:
            if case.subject == "tokens":
                return Outcome("answer", transformers_tokens.answer(case, self._processors))
            if case.subject == "fusion":
                return Outcome("answer", self._models.answer(case))
            if case.subject == "omni":
                return Outcome("answer", transformers_omni.answer(case))
            if case.subject == "audio":
                return Outcome("answer", transformers_audio.answer(case))
            if case.subject == "rope":
                return Outcome("answer", transformers_rope.answer(case))
            return Outcome("answer", self._answer(case))
        except Exception as error:
            # whatever a library raises on a prompt is its refusal; nothing else is known of it
            return Outcome.refusal(error)

    def _answer(self, case: Case) -> dict[str, Array]:
        torch = self._torch
        family = families.get(case.family)
        token_ids = case.ids or family.token_ids
        stub = self._stub(family, case)
        arguments = tensors(torch, case)
        types_ = torch.from_numpy(self._token_types(family, token_ids, case))
        positions, deltas = stub.get_rope_index(mm_token_type_ids=types_, **arguments)
        arrays = {
            "position_ids": positions.numpy().astype(np.int64),
            "rope_deltas": deltas.reshape(-1).numpy().astype(np.int64),
        }
        if case.decode_steps:
            arrays |= self._decode(
                stub, positions, deltas, arguments["attention_mask"], case.decode_steps
            )
        if case.steps:
            arrays |= self._conversations.answer(
                case,
                tensors,
                lambda whole: self._token_types(family, token_ids, whole),
            )
        return arrays

    def _decode(
        self, stub: Any, positions: Any, deltas: Any, mask: Any, steps: int
    ) -> dict[str, Array]:
        """What ``generate`` feeds, and what a forward with a cache computes for itself."""
        torch = self._torch
        from transformers.generation.utils import GenerationMixin

        generated = []
        kwargs: dict[str, Any] = {"position_ids": positions}
        for _ in range(steps):
            kwargs = GenerationMixin._update_model_kwargs_for_generation(stub, {}, kwargs)
            generated.append(kwargs["position_ids"][..., -1:])
        _, batch, length = positions.shape
        stub.rope_deltas = deltas
        cache = types.SimpleNamespace(get_seq_length=lambda: length)
        forward = {
            "input_ids": torch.zeros(batch, 1, dtype=torch.long),
            "image_grid_thw": None,
            "video_grid_thw": None,
            "inputs_embeds": torch.zeros(batch, 1, 1),
            "cache": cache,
        }
        cached = stub.compute_3d_position_ids(attention_mask=None, **forward)
        if mask is None:
            mask = torch.ones(batch, length, dtype=torch.long)
        longer = torch.cat([mask.long(), torch.ones(batch, 1, dtype=torch.long)], dim=1)
        masked = stub.compute_3d_position_ids(attention_mask=longer, **forward)
        return {
            "next_position_ids": torch.cat(generated, dim=-1).numpy().astype(np.int64),
            "cached_position_ids": cached.numpy().astype(np.int64),
            "masked_position_ids": masked.numpy().astype(np.int64),
        }

    def _stub(self, family: Family, case: Case) -> Any:
        merge = int(case.scalars.get("spatial_merge_size", family.spatial_merge_size))  # type: ignore[arg-type]
        rate = case.scalars.get("tokens_per_second", family.tokens_per_second)
        if isinstance(rate, float) and rate.is_integer():
            rate = int(rate)  # configurations carry an integer
        stub = self._stubs.get(family.name)
        if stub is None:
            module = f"transformers.models.{family.name}.modeling_{family.name}"
            owner = getattr(importlib.import_module(module), family.transformers_class)
            stub = types.SimpleNamespace()
            for name in _BOUND:
                setattr(stub, name, types.MethodType(getattr(owner, name), stub))
            self._stubs[family.name] = stub
        vision = types.SimpleNamespace(spatial_merge_size=merge, tokens_per_second=rate)
        stub.config = types.SimpleNamespace(vision_config=vision)
        stub.rope_deltas = None
        return stub

    def _token_types(self, family: Family, token_ids: TokenIds, case: Case) -> Array:
        """The processor's own token types, computed before padding is put in."""
        ids = case.arrays["input_ids"]
        mask = case.arrays.get("attention_mask")
        keep = np.ones(ids.shape, bool) if mask is None else np.asarray(mask) != 0
        if keep.shape != ids.shape:
            keep = np.ones(ids.shape, bool)
        processor = types.SimpleNamespace(
            image_token_id=token_ids.image,
            video_token_id=token_ids.video,
            image_token_ids=[token_ids.image],
            video_token_ids=[token_ids.video],
            audio_token_ids=[None],
            video_start_id=token_ids.video_start,
            video_end_id=token_ids.video_end,
        )
        if family.media_kinds == "by_video_markers":
            from transformers.models.glm4v.processing_glm4v import Glm4vProcessor as Processor
        else:
            from transformers.processing_utils import ProcessorMixin as Processor
        token_types = np.zeros(ids.shape, np.int32)
        rows = [ids[row][keep[row]].tolist() for row in range(len(ids))]
        for row, found in enumerate(Processor.create_mm_token_type_ids(processor, rows)):
            token_types[row, keep[row]] = found
        return token_types
