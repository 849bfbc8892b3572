"""Small packages and graphs to check: a good one, and ways to spoil it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mmref.probes import PackageConfig, write_package
from mmref.probes.graphs import Graph, speech

ir = pytest.importorskip("onnx_ir")

IDS = {
    "image_token_id": 10,
    "video_token_id": 11,
    "vision_start_token_id": 12,
    "pad_token_id": 0,
    "eos_token_id": 2,
}
PROCESSOR = {
    "processor": {
        "name": "image_processor",
        "transforms": [
            {"operation": {"name": kind.lower(), "type": kind, "attrs": attributes}}
            for kind, attributes in [
                ("DecodeImage", {"color_space": "RGB"}),
                ("ConvertRGB", {}),
                ("Resize", {"patch_size": 14, "merge_size": 2}),
                ("Rescale", {"rescale_factor": 1 / 255}),
                ("Normalize", {"mean": [0.48, 0.46, 0.41], "std": [0.27, 0.26, 0.28]}),
                ("PatchImage", {"patch_size": 14, "merge_size": 2}),
            ]
        ],
    }
}
TOKENIZER = {
    "added_tokens": [
        {"id": 10, "content": "<|image_pad|>"},
        {"id": 11, "content": "<|video_pad|>"},
        {"id": 12, "content": "<|vision_start|>"},
    ]
}

Spoil = Callable[[dict[str, Any]], None]


def good(folder: Path, **config: Any) -> Path:
    """A package that the engine runs right."""
    folder.mkdir(parents=True, exist_ok=True)
    values = {"model_type": "qwen2_5_vl", "token_ids": tuple(IDS.items()), **config}
    write_package(folder, PackageConfig(**values))
    write(folder, "processor_config.json", PROCESSOR)
    write(folder, "tokenizer.json", TOKENIZER)
    return folder


def write(folder: Path, name: str, data: Any) -> None:
    (folder / name).write_text(json.dumps(data))


def change(folder: Path, name: str, spoil: Spoil) -> None:
    """Spoil one JSON file of a package."""
    data = json.loads((folder / name).read_text())
    spoil(data)
    write(folder, name, data)


def decoder(folder: Path, rank: int = 3, kind: str = "INT64", rotary_rows: int = 0) -> None:
    """Another decoder: position_ids of a rank and a type, a rotary table of so many rows."""
    graph = Graph()
    embeds = graph.input("inputs_embeds", "FLOAT", ["batch", "seq", 4])
    mask = graph.input("attention_mask", "INT64", ["batch", "total"])
    shape = ([3, "batch", "seq"], ["batch", "seq"])[rank == 2]
    positions = graph.input("position_ids", kind, shape)
    past = [
        graph.input(f"past_key_values.0.{part}", "FLOAT", ["batch", 1, "past", 4])
        for part in ("key", "value")
    ]
    logits = graph.node("MatMul", embeds, graph.constant(np.zeros((4, 64), np.float32)))
    for value in (mask, positions, *past):
        logits = graph.node("Add", logits, graph.nothing_of(value))
    if rotary_rows:
        table = graph.constant(np.zeros((rotary_rows, 2), np.float32))
        table.name = table.const_value.name = "model.rotary_emb.cos_cache"
        logits = graph.node("Add", logits, graph.nothing_of(table))
    graph.output(logits, "logits", "FLOAT", ["batch", "seq", 64])
    for value, part in zip(past, ("key", "value"), strict=True):
        graph.output(value, f"present.0.{part}", "FLOAT", ["batch", 1, "total", 4])
    graph.save(str(folder / "decoder.onnx"))


def embedding(folder: Path, constant: int = 10, kind: str = "FLOAT") -> None:
    """An embedding graph that compares ids with a constant, and the type of its output."""
    graph = Graph()
    ids = graph.input("input_ids", "INT64", ["batch", "seq"])
    features = graph.input("image_features", "FLOAT", ["images", 4])
    found = graph.node("Equal", ids, graph.constant(np.array(constant, np.int64)))
    zero = graph.node("Add", graph.nothing_of(found), graph.nothing_of(features))
    rows = graph.node("Gather", graph.constant(np.zeros((64, 4), np.float32)), ids)
    made = graph.node("Cast", graph.node("Add", rows, zero), to={"FLOAT": 1, "FLOAT16": 10}[kind])
    graph.output(made, "inputs_embeds", kind, ["batch", "seq", 4])
    graph.save(str(folder / "embedding.onnx"))


def vision(folder: Path, frequencies: int = 2, masks: int = 2) -> None:
    """A vision encoder of two blocks with heads of eight, and one mask or one for each."""
    graph = Graph()
    pixels = graph.input("pixel_values", "FLOAT", ["patches", 4])
    grid = graph.input("image_grid_thw", "INT64", ["images", 3])
    four = graph.node("Reshape", pixels, graph.constant(np.array([-1, 4, 4], np.int64)))
    features = graph.node("ReduceSum", four, graph.constant(np.array([1], np.int64)), keepdims=0)
    table = graph.constant(np.zeros((16, frequencies), np.float32))
    table.name = table.const_value.name = "visual.rotary_pos_emb.freq_table"
    features = graph.node("Add", features, graph.nothing_of(table))
    ends = [graph.node("CumSum", grid, graph.constant(np.array(axis))) for axis in range(masks)]
    for block in range(2):
        heads = graph.node("Expand", features, graph.constant(np.array([1, 1, 1, 8], np.int64)))
        heads.shape, heads.dtype = ir.Shape([1, 1, "s", 8]), ir.DataType.FLOAT
        mask = graph.node("Cast", ends[block % masks], to=1)
        mask.name, mask.dtype = f"visual.blocks.{block}.attn.mask", ir.DataType.FLOAT
        ends[block % masks].dtype = ir.DataType.INT64
        seen = graph.node("Attention", heads, heads, heads, mask)
        features = graph.node("Add", features, graph.nothing_of(seen))
    graph.output(features, "image_features", "FLOAT", ["features", 4])
    graph.save(str(folder / "vision.onnx"))


def unclipped_speech(folder: Path) -> None:
    """A package of Gemma 4 whose audio encoder clips nothing."""
    speech(str(folder / "speech.onnx"))

    def add(data: dict[str, Any]) -> None:
        data["model"] |= {"type": "gemma4", "speech": {"filename": "speech.onnx"}}

    change(folder, "genai_config.json", add)


def hybrid_decoder(folder: Path) -> None:
    """A decoder whose first layer has a state of fixed size, and whose second has keys."""
    graph = Graph()
    embeds = graph.input("inputs_embeds", "FLOAT", ["batch", "seq", 4])
    mask = graph.input("attention_mask", "INT64", ["batch", "total"])
    positions = graph.input("position_ids", "INT64", [3, "batch", "seq"])
    states = {
        name: graph.input(f"past_key_values.0.{name}", "FLOAT", ["batch", *sides])
        for name, sides in (("conv_state", (8, 3)), ("recurrent_state", (2, 4, 4)))
    }
    past = [
        graph.input(f"past_key_values.1.{part}", "FLOAT", ["batch", 1, "past", 4])
        for part in ("key", "value")
    ]
    logits = graph.node("MatMul", embeds, graph.constant(np.zeros((4, 64), np.float32)))
    for value in (mask, positions, *states.values(), *past):
        logits = graph.node("Add", logits, graph.nothing_of(value))
    graph.output(logits, "logits", "FLOAT", ["batch", "seq", 64])
    for name, value in states.items():
        graph.output(value, f"present.0.{name}", "FLOAT", list(value.shape))
    new = graph.node("Unsqueeze", embeds, graph.constant(np.array([1], np.int64)))
    for value, part in zip(past, ("key", "value"), strict=True):
        grown = graph.node("Concat", value, new, axis=2)
        graph.output(grown, f"present.1.{part}", "FLOAT", ["batch", 1, "total", 4])
    graph.save(str(folder / "decoder.onnx"))

    def layers(data: dict[str, Any]) -> None:
        data["model"]["decoder"]["num_hidden_layers"] = 2

    change(folder, "genai_config.json", layers)
