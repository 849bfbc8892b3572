"""Packages for ONNX Runtime GenAI's own image processors, and pictures for them."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import msgspec

from mmref.families import Family
from mmref.probes import vocabulary
from mmref.probes.genai import PackageConfig, write_package

__all__ = ["png", "write_processor_package"]


def png(height: int, width: int) -> bytes:
    """A grey picture.

    Parameters
    ----------
    height, width : int
        Pixels.

    Returns
    -------
    bytes
        A PNG file.
    """

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = (b"\0" + b"\x80" * (3 * width)) * height
    parts = (chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(rows, 1)), chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def write_processor_package(folder: Path, row: Family, model_type: str) -> None:
    """A package whose processor the engine can make: graphs, tokenizer, transforms.

    Parameters
    ----------
    folder : Path
        An existing empty folder.
    row : Family
        A family of the Qwen line.
    model_type : str
        ``model.type``.
    """
    words = vocabulary.of(row)
    ids = words.token_ids
    keys = ("image", "video", "vision_start", "pad")
    given = tuple((f"{name}_token_id", getattr(ids, name)) for name in keys)
    write_package(folder, PackageConfig(model_type, (*given, ("eos_token_id", 0))))
    words.write(folder)
    path = folder / "genai_config.json"
    config: dict[str, Any] = msgspec.json.decode(path.read_bytes())
    rule = row.media.image_resize
    assert rule is not None
    config["model"]["vision"] |= {
        "config_filename": "processor_config.json",
        "patch_size": rule.patch_size,
    }
    path.write_bytes(msgspec.json.encode(config))
    sides = {"patch_size": rule.patch_size, "merge_size": rule.merge_size}
    limits = {"min_pixels": rule.min_pixels, "max_pixels": rule.max_pixels}
    unused = {"width": 1, "height": 1}  # asked for, but smart_resize goes by the limits
    norm = {"mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5], "qwen2_5_vl": 1}
    steps: list[tuple[str, dict[str, Any]]] = [
        ("DecodeImage", {"color_space": "RGB"}),
        ("ConvertRGB", {}),
        ("Resize", {"smart_resize": 1, **unused, **limits, **sides}),
        ("Rescale", {"rescale_factor": 1 / 255}),
        ("Normalize", norm),
        ("PatchImage", {"temporal_patch_size": rule.temporal_patch_size, **sides}),
    ]
    transforms = []
    for kind, attributes in steps:
        operation: dict[str, Any] = {"name": kind.lower(), "type": kind}
        if attributes:
            operation["attrs"] = attributes
        transforms.append({"operation": operation})
    content = {"processor": {"name": "image_processor", "transforms": transforms}}
    (folder / "processor_config.json").write_bytes(msgspec.json.encode(content))
