"""transformers' own ``get_rope_index`` of the Omni families, without weights."""

from __future__ import annotations

import importlib
from functools import cache
from types import MethodType, SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from mmref import families
from mmref.case import Case

__all__ = ["answer", "order"]

Array = npt.NDArray[Any]

_CLASSES = {"qwen2_5_omni": "Qwen2_5Omni", "qwen3_omni_moe": "Qwen3OmniMoe"}
_BOUND = ("get_rope_index", "get_llm_pos_ids_for_vision", "get_chunked_index")


def answer(case: Case) -> dict[str, Array]:
    """Positions of a prompt.

    Parameters
    ----------
    case : Case
        A case of the subject ``omni``.

    Returns
    -------
    dict of str to numpy.ndarray
        ``position_ids`` (3, batch, seq) and ``rope_deltas`` (batch,).
    """
    import torch

    stub = _stub(families.get(case.family).name)
    row = families.get(case.family)
    ids = case.ids or row.token_ids
    stub.spatial_merge_size = row.spatial_merge_size
    rate = float(row.tokens_per_second or 0)
    stub.config = SimpleNamespace(
        image_token_id=ids.image,
        video_token_id=ids.video,
        audio_token_id=ids.audio,
        vision_start_token_id=ids.vision_start,
        audio_start_token_id=ids.audio_start,
        position_id_per_seconds=int(rate),
        seconds_per_chunk=2,
        audio_config=SimpleNamespace(n_window=50),
    )
    given = {name: torch.from_numpy(np.array(value)) for name, value in case.arrays.items()}
    positions, deltas = stub.get_rope_index(
        given["input_ids"],
        given.get("image_grid_thw"),
        given.get("video_grid_thw"),
        given.get("attention_mask"),
        use_audio_in_video=bool(case.scalars.get("use_audio_in_video", 0)),
        audio_seqlens=given.get("audio_lengths"),
        second_per_grids=given.get("second_per_grid_ts"),
    )
    return {
        "position_ids": np.asarray(positions.numpy()),
        "rope_deltas": np.asarray(deltas.reshape(-1).numpy()),
    }


def order(family: str, grid: Any, audio_tokens: int, seconds: float) -> list[bool]:
    """Which tokens of a video with its sound are audio, as the family's processor writes them.

    Parameters
    ----------
    family : str
        A family of ``families.names("omni")``.
    grid : sequence of int
        (t, h, w) before merging.
    audio_tokens : int
        Tokens of the sound.
    seconds : float
        Seconds of a grid step.

    Returns
    -------
    list of bool
        True for audio.
    """
    from mmref.engines.source import load

    owner = f"{_CLASSES[family]}Processor"
    functions = load(
        f"transformers.models.{family}.processing_{family}",
        f"{owner}.replace_video_with_audio_token",
        f"{owner}.get_chunked_index",
    )
    row = families.get(family)
    processor = SimpleNamespace(
        video_processor=SimpleNamespace(merge_size=row.spatial_merge_size),
        audio_bos_token="",
        audio_eos_token="",
        video_token="v",
        audio_token="a",
    )
    chunked = functions[f"{owner}.get_chunked_index"]
    processor.get_chunked_index = MethodType(chunked, processor)
    text = functions[f"{owner}.replace_video_with_audio_token"](
        processor,
        {"video_grid_thw": np.array([grid]), "video_second_per_grid": [seconds]},
        0,
        {"num_audio_tokens": [audio_tokens]},
        0,
        position_id_per_seconds=row.tokens_per_second,
        seconds_per_chunk=2.0,
    )
    return [character == "a" for character in text]


@cache
def _stub(family: str) -> Any:
    module = importlib.import_module(f"transformers.models.{family}.modeling_{family}")
    owner = getattr(module, f"{_CLASSES[family]}PreTrainedModelForConditionalGeneration")
    stub = SimpleNamespace()
    for name in _BOUND:
        setattr(stub, name, MethodType(getattr(owner, name), stub))
    return stub
