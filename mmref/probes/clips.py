"""A package for ONNX Runtime GenAI's own audio processor, and clips for it."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from mmref import families
from mmref.probes import graphs, vocabulary
from mmref.probes.genai import PackageConfig, write_package

__all__ = ["wav", "write_audio_package"]

_RATE = 16_000


def wav(samples: int) -> bytes:
    """A clip of a quiet tone.

    Parameters
    ----------
    samples : int
        Its length, at 16 kHz.

    Returns
    -------
    bytes
        A WAV file: one channel, 16 bits.
    """
    data: bytes = (np.sin(np.arange(samples) * 0.1) * 3000).astype("<i2").tobytes()
    form = struct.pack("<IHHIIHH", 16, 1, 1, _RATE, 2 * _RATE, 2, 16)
    body = b"WAVEfmt " + form + b"data" + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", len(body)) + body


def write_audio_package(folder: Path) -> None:
    """A Gemma 4 package whose audio processor the engine can make.

    Parameters
    ----------
    folder : Path
        An existing empty folder.
    """
    words = vocabulary.of(families.get("gemma4"))
    ids = words.token_ids
    given = (("image_token_id", ids.image), ("pad_token_id", ids.pad), ("eos_token_id", 0))
    write_package(folder, PackageConfig("gemma4", given))  # type: ignore[arg-type]
    words.write(folder)
    graphs.masked_speech(str(folder / "speech.onnx"))
    path = folder / "genai_config.json"
    config: dict[str, Any] = msgspec.json.decode(path.read_bytes())
    model = config["model"]
    model |= {"audio_token_id": ids.audio, "boa_token_id": ids.audio_start}
    model["vision"]["inputs"]["pixel_position_ids"] = "pixel_position_ids"
    model["vision"]["config_filename"] = "image.json"
    model["speech"] = {
        "filename": "speech.onnx",
        "config_filename": "audio.json",
        "session_options": model["vision"]["session_options"],
        "inputs": {"audio_embeds": "audio_embeds", "attention_mask": "audio_mask"},
        "outputs": {"audio_features": "audio_features"},
    }
    path.write_bytes(msgspec.json.encode(config))
    picture = {"patch_size": 16, "pooling_kernel_size": 3, "max_soft_tokens": 280}
    sound = {"feature_size": 128, "sampling_rate": _RATE}
    for name, content in (
        (
            "image",
            {"processor": _steps("transforms", DecodeImage={}, Gemma4ImageTransform=picture)},
        ),
        ("audio", {"feature_extraction": _steps("sequence", AudioDecoder={}, Gemma4LogMel=sound)}),
    ):
        (folder / f"{name}.json").write_bytes(msgspec.json.encode(content))


def _steps(key: str, **kinds: dict[str, Any]) -> dict[str, Any]:
    steps = []
    for kind, attributes in kinds.items():
        step: dict[str, Any] = {"name": kind.lower(), "type": kind}
        given = {"color_space": "RGB"} if kind == "DecodeImage" else attributes
        if given:
            step["attrs"] = given
        steps.append({"operation": step})
    return {"name": "processor", key: steps}
