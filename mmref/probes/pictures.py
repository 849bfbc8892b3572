"""Packages for ONNX Runtime GenAI's own image processors, and pictures for them."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import msgspec

from mmref import families
from mmref.families import Resize
from mmref.probes import graphs, vocabulary
from mmref.probes.genai import PackageConfig, write_package

__all__ = [
    "PHI4_IMAGE",
    "PHI4_IMAGE_ID",
    "area_limits",
    "model_type",
    "png",
    "write_processor_package",
]

# what Phi-4's processor makes of <|image_1|>, and the only id that it takes for it
PHI4_IMAGE, PHI4_IMAGE_ID = "<|endoftext10|>", 200010
_MODEL_TYPES = {
    "gemma3": "gemma3",
    "gemma4": "gemma4",
    "mistral3": "mistral3",
    "pixtral": "mistral3",  # the same processor, by other sides
    "phi4_multimodal": "phi4mm",
}
_INPUTS = {
    "gemma4": {"pixel_position_ids": "pixel_position_ids"},
    "phi4mm": {"attention_mask": "image_attention_mask", "image_sizes": "image_sizes"},
}


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


def model_type(family: str) -> str | None:
    """The engine's model type whose processor serves a family.

    Parameters
    ----------
    family : str
        A family's name, or an alias.

    Returns
    -------
    str or None
        ``model.type``; None if no package is generated for it.
    """
    row = families.get(family)
    if row.genai_type is not None and row.media.image_form == "run":
        return family if family == "fara" else row.genai_type
    return _MODEL_TYPES.get(row.name)


def write_processor_package(folder: Path, family: str) -> None:
    """A package whose processor the engine can make: graphs, tokenizer, transforms.

    Parameters
    ----------
    folder : Path
        An existing empty folder.
    family : str
        A family that has a `model_type`.
    """
    row, kind = families.get(family), model_type(family)
    assert kind is not None
    words = vocabulary.of(row)
    ids = words.token_ids
    given = tuple(
        (f"{name}_token_id", value)
        for name in ("image", "video", "vision_start", "pad")
        if (value := getattr(ids, name)) is not None
    )
    write_package(folder, PackageConfig(kind, (*given, ("eos_token_id", 0))))
    if kind == "phi4mm":
        graphs.tiled_vision(str(folder / "vision.onnx"))
    words.write(folder, {PHI4_IMAGE: PHI4_IMAGE_ID} if kind == "phi4mm" else None)
    path = folder / "genai_config.json"
    config: dict[str, Any] = msgspec.json.decode(path.read_bytes())
    rule = row.media.image_resize
    assert rule is not None
    vision = config["model"]["vision"]
    vision |= {
        "config_filename": "processor_config.json",
        "patch_size": rule.patch_size,
        "spatial_merge_size": rule.merge_size,
    }
    if kind in _INPUTS:
        vision["inputs"] |= _INPUTS[kind]
        config["model"]["speech"] = {"filename": "", "config_filename": ""}  # without audio
    path.write_bytes(msgspec.json.encode(config))
    content: dict[str, Any] = {"name": "image_processor", "transforms": _transforms(kind, rule)}
    if kind == "phi4mm":
        content["output_aligner"] = "phi4-vision-aligner"
    (folder / "processor_config.json").write_bytes(msgspec.json.encode({"processor": content}))


def area_limits(rule: Resize) -> dict[str, int]:
    """The limits of the area that packages of Mistral's models give the engine.

    Parameters
    ----------
    rule : Resize
        The family's own rule, which goes by the longest edge.

    Returns
    -------
    dict of str to int
        ``min_pixels``, one token, and ``max_pixels``, a square of the longest edge.
    """
    return {
        "min_pixels": (rule.patch_size * rule.merge_size) ** 2,
        "max_pixels": rule.max_pixels**2,
    }


def _transforms(kind: str, rule: Resize) -> list[dict[str, Any]]:
    """The steps of onnxruntime-extensions, as exports write them for a model type."""
    norm = {"mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]}
    decode = ("DecodeImage", {"color_space": "RGB"})
    scale = ("Rescale", {"rescale_factor": 1 / 255})
    to_planes = ("Permute3D", {"dims": [2, 0, 1]})
    sides = {"patch_size": rule.patch_size, "merge_size": rule.merge_size}
    unused = {"width": 1, "height": 1}  # asked for, but smart_resize goes by the limits
    smart = {"smart_resize": 1, **unused, **sides}
    steps: list[tuple[Any, ...]]
    if kind == "gemma3":
        # tokens do not depend on the side: small, since every picture is brought to it
        small = {"width": 56, "height": 56, "keep_aspect_ratio": 0, "interpolation": "LINEAR"}
        steps = [decode, ("Resize", small), scale, ("Normalize", norm), to_planes]
    elif kind == "gemma4":
        budget = {"patch_size": rule.patch_size, "pooling_kernel_size": rule.merge_size}
        steps = [
            decode,
            ("Gemma4ImageTransform", {**budget, "max_soft_tokens": rule.max_tokens}),
        ]
    elif kind == "phi4mm":
        side = {"dyhd_base_resolution": rule.max_pixels}
        steps = [
            decode,
            ("Phi4VisionDynamicPreprocess", {"dynamic_hd": rule.max_tokens, **side}),
            ("Rescale", {}, [":0"]),
            ("Normalize", norm),
            (
                "Phi4VisionProcessor",
                {**side, "interpolation": "CUBIC"},
                [":0", "phi4visiondynamicpreprocess:1"],
            ),
        ]
    elif kind == "mistral3":
        resize = ("Resize", {**smart, **area_limits(rule)})
        steps = [
            decode,
            ("ConvertRGB", {}),
            resize,
            scale,
            ("Normalize", norm),
            to_planes,
            ("PixtralImageSizes", {}),
        ]
    else:
        limits = {"min_pixels": rule.min_pixels, "max_pixels": rule.max_pixels}
        steps = [
            decode,
            ("ConvertRGB", {}),
            ("Resize", {**smart, **limits}),
            scale,
            ("Normalize", {**norm, "qwen2_5_vl": 1}),
            ("PatchImage", {"temporal_patch_size": rule.temporal_patch_size, **sides}),
        ]
    return [_operation(*step) for step in steps]


def _operation(kind: str, attributes: dict[str, Any], inputs: Any = None) -> dict[str, Any]:
    operation: dict[str, Any] = {"name": kind.lower(), "type": kind}
    if attributes:
        operation["attrs"] = attributes
    if inputs:
        operation["inputs"] = inputs
    return {"operation": operation}
