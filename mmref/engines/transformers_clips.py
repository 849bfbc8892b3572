"""transformers' own numbers of placeholders for clips: its processors and feature extractors.

Everything but the spectrogram runs: padding, masks, windows, the processor's ``_process_audio``
and ``replace_audio_token``. Clips are silence.
"""

from __future__ import annotations

import re
import types
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from mmref.engines import source
from mmref.families import Family

__all__ = ["METHODS", "bind_clips", "process_clips", "processed_films", "slots"]

Array = npt.NDArray[Any]

METHODS = (
    *("replace_audio_token", "_process_audio", "_get_audio_token_length"),
    *("_process_videos", "replace_video_with_audio_token", "get_chunked_index"),
)
"""Methods of processors, for those that have them."""

_HALF_MINUTE = 480_000
_MODELS = "transformers.models"


class _Films:
    """A video processor for films that are measured already."""

    def __init__(self, merge_size: int, temporal_patch_size: int) -> None:
        self.merge_size, self.temporal_patch_size = merge_size, temporal_patch_size
        self.grids: Array = np.empty((0, 3), np.int64)

    def __call__(self, videos: Any, **_: Any) -> dict[str, Any]:
        return {"video_grid_thw": self.grids}


def bind_clips(processor: Any, row: Family, ids: Any) -> None:
    """Give a stub of a processor what its methods for clips read.

    Parameters
    ----------
    processor : object
        The stub; its ``audio_token`` is set already.
    row : Family
        A family whose clips are expanded.
    ids : TokenIds
        The ids of its vocabulary.
    """
    texts = dict(row.media.texts)
    start, end = texts.get("audio_start"), texts.get("audio_end")
    values = {
        "audio_token_id": ids.audio,
        "audio_token_ids": [ids.audio],
        "boa_token": start,
        "eoa_token": end,
        "audio_bos_token": start,
        "audio_eos_token": end,
        "audio_bos_token_id": ids.audio_start,
        "audio_eos_token_id": ids.audio_end,
        "max_audio_len": 1200 if row.name == "musicflamingo" else 600,
        "n_window": 50,
    }
    for name, value in values.items():
        setattr(processor, name, value)
    if row.media.audio_form == "paragraph":
        # written as the constructor does, which cannot run without a tokenizer
        processor.full_audio_sequence = f"\n\n{start}{texts['audio'] * 188}{end}\n\n"
    if row.positions == "omni":
        rule = row.media.video_resize
        assert rule is not None
        processor.video_processor = _Films(rule.merge_size, rule.temporal_patch_size)
    module, _, owner = row.media.processor.partition(":")
    values_of_class = source.class_of(f"{_MODELS}.{module}", owner)
    processor.video_arguments = {
        name: values_of_class[name]
        for name in ("seconds_per_chunk", "position_id_per_seconds")
        if name in values_of_class
    }
    if row.name in ("musicflamingo", "qwen3_asr"):
        own = source.load(f"{_MODELS}.{module}", f"{owner}.audio_token_ids")
        processor.audio_token_ids = own[f"{owner}.audio_token_ids"](processor)


def process_clips(processor: Any, row: Family, clips: list[Array]) -> tuple[dict[str, Any], Any]:
    """What the processor makes of clips, and what it writes for each.

    Parameters
    ----------
    processor : object
        From `bind_clips`.
    row : Family
        The family.
    clips : list of numpy.ndarray
        Samples.

    Returns
    -------
    tuple of dict and list of str
        The processed audio and the replacements.
    """
    if not clips:
        return {}, []
    name = row.name
    if name in ("gemma3n", "gemma4", "phi4_multimodal"):
        inputs = _by_frames(name, [len(clip) for clip in clips])
        return inputs, [processor.replace_audio_token(inputs, at) for at in range(len(clips))]
    if name == "granite_speech":
        processor.audio_processor = _granite
        found = processor._process_audio(clips, device="cpu")
    else:
        long = max(map(len, clips)) > _HALF_MINUTE and name == "qwen2_5_omni"
        processor.feature_extractor = _extractor(name, 300 if long else 30)
        arguments: dict[str, Any] = {"sampling_rate": 16_000, "return_attention_mask": True}
        if name in ("qwen3_omni_moe", "qwen3_asr"):
            arguments |= {"padding": True, "truncation": False}
        elif name != "qwen2_5_omni":
            arguments["padding"] = "max_length"
        if name != "qwen2_audio":
            arguments["return_tensors"] = "pt"
        found = processor._process_audio(clips, **arguments)
    inputs, texts = found
    return inputs, texts


def processed_films(
    processor: Any, grids: Array, rate: Any, audio: dict[str, Any], clips: Any
) -> list[str]:
    """What a processor of the Omni families writes for videos.

    Parameters
    ----------
    processor : object
        From `bind_clips`.
    grids : numpy.ndarray
        (videos, 3) before merging.
    rate : float or None
        Frames a second.
    audio : dict
        The processed audio.
    clips : list or None
        For each video the number of its clip; None if videos come without sound.

    Returns
    -------
    list of str
        The replacements.
    """
    processor.video_processor.grids = grids
    found: list[str] = processor._process_videos(
        [None] * len(grids),
        processed_audio=audio,
        video_to_audio_indices=clips,
        load_audio_from_video=clips is not None,
        videos_kwargs={} if rate is None else {"fps": rate},
        **processor.video_arguments,
    )[1]
    return found


def _by_frames(name: str, clips: list[int]) -> dict[str, Any]:
    """Gemma's and Phi-4's processors look at frames alone: of the extractors' own formulas."""
    import torch

    from mmref import audio

    if name == "gemma3n":
        return {}
    lengths = audio.frames(clips, family=name)
    if name == "gemma4":
        return {"input_features_mask": [np.ones(max(count, 0), bool) for count in lengths]}
    from mmref.engines.transformers_audio import phi4_sizes

    return {"audio_embed_sizes": phi4_sizes(torch.from_numpy(lengths)).tolist()}


def _granite(clips: list[Array], device: str) -> dict[str, Any]:
    from mmref.engines.transformers_audio import count_tokens

    return {"audio_embed_sizes": [count_tokens("granite_speech", len(clip)) for clip in clips]}


@cache
def _extractor(name: str, seconds: int) -> Any:
    """The family's feature extractor, with a spectrogram of zeros."""
    if name == "qwen3_asr":
        from transformers.models.qwen3_asr import feature_extraction_qwen3_asr as module

        made = module.Qwen3ASRFeatureExtractor()
    else:
        from transformers import WhisperFeatureExtractor

        made = WhisperFeatureExtractor(chunk_length=seconds)
    hop = made.hop_length

    def silent(self: Any, waveforms: Array, device: str = "cpu") -> Array:
        return np.zeros((len(waveforms), 1, waveforms.shape[-1] // hop), np.float32)

    made._torch_extract_fbank_features = types.MethodType(silent, made)
    made.fetch_audio = lambda audio, **_: audio
    return made


def slots(texts: list[str], processor: Any) -> list[int | None]:
    """Whose sound each clip is, in the order of the prompt: a video's number, or None.

    Parameters
    ----------
    texts : list of str
        The prompts.
    processor : object
        With ``video_token`` and ``audio_token``.

    Returns
    -------
    list of int or None
        As ``audio_from_video_indices`` of transformers.
    """
    found: list[int | None] = []
    videos = 0
    pattern = f"{re.escape(processor.video_token)}|{re.escape(processor.audio_token)}"
    for match in re.finditer(pattern, "\n".join(texts)):
        if match.group() == processor.audio_token:
            found.append(None)
            continue
        found.append(videos)
        videos += 1
    return found
