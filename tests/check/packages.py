"""Small packages and graphs to check: a good one, and ways to spoil it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from mmref.probes import PackageConfig, write_package
from mmref.probes.graphs import Graph

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
