"""Folders made to break the reader: an error or findings, never a traceback or a wait."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from check import packages

from mmref.check import Report, Target, check_path, chosen
from mmref.errors import BadPackage

onnx = pytest.importorskip("onnx")

CONFIG = "genai_config.json"


def _checked(folder: Path) -> Report:
    return check_path(folder, chosen(["config", "graph", "processor", "tokens"]), Target())


def _spoilt(folder: Path, name: str, spoil: Callable[[Any], object]) -> Report:
    """What is found once a graph of a good package was changed."""
    packages.good(folder)
    packages.embedding(folder)
    model = onnx.load(str(folder / name))
    spoil(model.graph)
    onnx.save(model, str(folder / name))
    return _checked(folder)


def _put(folder: Path, name: str, path: tuple[Any, ...], value: object) -> None:
    def spoil(data: dict[str, Any]) -> None:
        found: Any = data
        for key in path[:-1]:
            found = found[key]
        found[path[-1]] = value

    packages.change(folder, name, spoil)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        (CONFIG, ("model", "type")),
        (CONFIG, ("model", "image_token_id")),
        (CONFIG, ("model", "vision", "filename")),
        (CONFIG, ("model", "vision", "config_filename")),
        ("tokenizer.json", ("added_tokens", 0, "content")),
    ],
)
@pytest.mark.parametrize("value", [[1], {"a": 1}, "\ud800", "\0", "a" * 5000, 1e308, float("nan")])
def test_strange_values_are_checked(
    tmp_path: Path, name: str, path: tuple[Any, ...], value: object
) -> None:
    folder = packages.good(tmp_path / "package")
    packages.embedding(folder)
    packages.vision(folder)
    _put(folder, name, path, value)
    report = _checked(folder)
    json.dumps(report.to_builtins(), ensure_ascii=False).encode()


@pytest.mark.parametrize("name", [CONFIG, "decoder.onnx", "tokenizer.json"])
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_regular_file_is_not_opened(tmp_path: Path, name: str, make: Any) -> None:
    folder = packages.good(tmp_path / "package")
    (folder / name).unlink()
    make(folder / name)
    if name == CONFIG:
        with pytest.raises(BadPackage, match="not a regular file"):
            _checked(folder)
    else:
        _checked(folder)


@pytest.mark.parametrize("name", [CONFIG, "tokenizer.json"])
def test_more_values_than_memory_has_room_for_are_not_parsed(tmp_path: Path, name: str) -> None:
    folder = packages.good(tmp_path / "package")
    (folder / name).write_bytes(b'{"a": [' + b"[]," * 3_100_000 + b"1]}")
    with pytest.raises(BadPackage) as caught:
        _checked(folder)
    assert caught.value.code == "file-too-large"
    assert name in caught.value.where


@pytest.mark.parametrize("kind", ["Reshape", "Cast", "Concat", "Where", "Attention"])
def test_a_graph_that_goes_in_circles_is_checked(tmp_path: Path, kind: str) -> None:
    def circle(graph: Any) -> None:
        node = onnx.helper.make_node
        graph.node.append(node(kind, ["b", "b", "b"], ["a"]))
        graph.node.append(node("Cast", ["a"], ["b"]))
        graph.node.append(node("Equal", ["a", "b"], ["same"]))
        graph.node.append(node("Where", ["same", "a", "b"], ["out"]))

    assert _spoilt(tmp_path / "package", "embedding.onnx", circle).checks


@pytest.mark.parametrize("inputs", [[], [""], ["input_ids"]])
def test_nodes_without_their_inputs_are_checked(tmp_path: Path, inputs: list[str]) -> None:
    kinds = "Equal Gather MatMul Conv Cast Attention CumSum Where Clip Concat Reshape Constant"

    def add(graph: Any) -> None:
        for kind in [*kinds.split(), "GroupQueryAttention", "TensorScatter", "ConstantOfShape"]:
            graph.node.append(onnx.helper.make_node(kind, inputs, [f"of {kind}"]))

    assert _spoilt(tmp_path / "package", "embedding.onnx", add).checks


@pytest.mark.parametrize("location", ["../x", "/dev/zero", "a" * 5000, "", ".", "\0"])
def test_data_outside_the_folder_is_not_looked_at(tmp_path: Path, location: str) -> None:
    def add(graph: Any) -> None:
        tensor = onnx.TensorProto(name="w.x", data_type=1, dims=[4], data_location=1)
        tensor.external_data.add(key="location", value=location)
        graph.initializer.append(tensor)

    found = _spoilt(tmp_path / "package", "vision.onnx", add).findings
    assert any(f.check == "graph/missing-data" and "w.x" in f.where for f in found)


@pytest.mark.parametrize("name", ["x" * 5000, "a/" * 3000 + "genai_config.json", "\ud800"])
def test_a_path_that_cannot_be_one_is_named(name: str) -> None:
    with pytest.raises(BadPackage) as caught:
        _checked(Path(name))
    assert caught.value.where
