"""Every check of a graph finds its smallest mistake; nothing in the graphs of a good package."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mmref.check import Report, Target, check_path, chosen
from mmref.probes.graphs import Graph

ir = pytest.importorskip("onnx_ir")

CPU, CUDA = Target(), Target("cuda")


def checked(path: Path, target: Target = CPU) -> Report:
    return check_path(path, chosen(["graph"]), target)


def value(name: str, kind: str = "FLOAT", shape: Any = ("n", 4)) -> Any:
    return ir.Value(
        name=name, type=ir.TensorType(getattr(ir.DataType, kind)), shape=ir.Shape(shape)
    )


def out(graph: Graph, made: Any, kind: str = "FLOAT", shape: Any = ("n", 4)) -> None:
    graph.output(made, "out", kind, shape)


def dangling(graph: Graph) -> None:
    out(graph, graph.node("Add", graph.input("x", "FLOAT", ["n", 4]), value("weight")))


def weight_is_input(graph: Graph) -> None:
    x, w = graph.input("x", "FLOAT", ["n", 4]), graph.input("w", "FLOAT", [4, 4])
    out(graph, graph.node("Gemm", x, w))


def _with_weight(graph: Graph, name: str) -> None:
    weight = graph.constant(np.zeros((4, 4), np.float32))
    weight.name = weight.const_value.name = name
    out(graph, graph.node("MatMul", graph.input("x", "FLOAT", ["n", 4]), weight))


def generic_name(graph: Graph) -> None:
    _with_weight(graph, "weight")


def doubled_name(graph: Graph) -> None:
    _with_weight(graph, "model.layers.model.layers.0.weight")


def float64(graph: Graph) -> None:
    out(graph, graph.node("Mul", graph.input("x", "FLOAT", ["n", 4]), value_of(graph, np.float64)))


def value_of(graph: Graph, kind: Any) -> Any:
    made = graph.constant(np.ones(1, kind))
    made.type = ir.TensorType(ir.DataType.from_numpy(np.dtype(kind)))
    return made


def large_gather(graph: Graph) -> None:
    table = graph.input("table", "FLOAT", [262_144, 8960])
    out(graph, graph.node("Gather", table, graph.input("i", "INT64", ["n"])), shape=["n", 8960])


def no_pad(graph: Graph) -> None:
    ids, features = graph.input("ids", "INT64", ["n"]), graph.input("f", "FLOAT", ["m", 4])
    axis = graph.constant(np.array(0, np.int64))
    index = graph.node("CumSum", ids, axis)
    out(graph, graph.node("Gather", features, index))


def old_opset(graph: Graph) -> None:
    x = [graph.input(name, "FLOAT", ["b", 1, "s", 4]) for name in "qkv"]
    length = graph.input("nonpad", "INT64", ["b"])
    out(graph, graph.node("Attention", *x, None, None, None, length), shape=["b", 1, "s", 4])


def with_past(graph: Graph) -> None:
    x = [graph.input(name, "FLOAT", ["b", 1, "s", 4]) for name in ("q", "k", "v", "pk", "pv")]
    length = graph.input("nonpad", "INT64", ["b"])
    out(graph, graph.node("Attention", *x[:3], None, *x[3:], length), shape=["b", 1, "s", 4])


def wide_head(graph: Graph) -> None:
    past = graph.input("past_key_values.0.key", "FLOAT", ["b", 1, "p", 512])
    out(graph, past, shape=["b", 1, "p", 512])


def other_present(graph: Graph) -> None:
    past = graph.input("past_key_values.0.key", "FLOAT", ["b", 2, "p", 16])
    graph.output(past, "present.0.key", "FLOAT", ["b", 2, "p", 8])


def no_own_keys(graph: Graph) -> None:
    x = [graph.input(name, "FLOAT", ["b", "s", 8]) for name in ("q", "pk", "pv")]
    attention = graph.node("GroupQueryAttention", x[0], None, None, x[1], x[2])
    out(graph, attention, shape=["b", "s", 8])


def bfloat16(graph: Graph) -> None:
    x = graph.input("x", "BFLOAT16", ["n"])
    out(graph, graph.node("Where", graph.input("c", "BOOL", ["n"]), x, x), "BFLOAT16", ["n"])


def unused(graph: Graph) -> None:
    graph.input("position_ids", "INT64", [3, "b", "s"])
    out(graph, graph.node("Relu", graph.input("x", "FLOAT", ["n", 4])))


def scalar(graph: Graph) -> None:
    mode = graph.input("audio_projection_mode", "INT64", [])
    out(graph, graph.node("Cast", mode, to=1), shape=[])


def no_audio_mask(graph: Graph) -> None:
    x = graph.input("input_features", "FLOAT", ["b", 80, "t"])
    weight = graph.constant(np.zeros((4, 80, 3), np.float32))
    out(graph, graph.node("Conv", x, weight, strides=[2]), shape=["b", 4, "u"])


MISTAKES: dict[str, list[tuple[Callable[[Graph], None], Target]]] = {
    "graph/dangling-input": [(dangling, CPU)],
    "graph/weight-is-input": [(weight_is_input, CPU)],
    "graph/weight-name": [(generic_name, CPU), (doubled_name, CPU)],
    "graph/missing-data": [],  # data lies in files: see below
    "graph/float64": [(float64, CPU)],
    "graph/gather-too-large": [(large_gather, CUDA)],
    "graph/fusion-without-pad": [(no_pad, CPU)],
    "graph/opset": [(old_opset, CPU), (unused, Target("cuda", (1, 24)))],
    "graph/attention-nonpad-with-past": [(with_past, CPU)],
    "graph/head-size": [(wide_head, CUDA)],
    "graph/bfloat16-on-cpu": [(bfloat16, CPU), (bfloat16, Target("cpu", (1, 20)))],
    "graph/past-and-present": [(other_present, CPU)],
    "graph/shared-kv": [(no_own_keys, Target("cpu", (1, 25)))],
    "graph/unused-input": [(unused, CPU)],
    "graph/scalar-input": [(scalar, CPU)],
    "graph/audio-mask": [(no_audio_mask, CPU)],
}


def made(make: Callable[[Graph], None], path: Path, opset: int = 20) -> Path:
    graph = Graph()
    make(graph)
    model = graph.model()
    model.graph.opset_imports[""] = opset
    ir.save(model, path)
    return path


@pytest.mark.parametrize(
    ("identifier", "make", "target"),
    [(name, *entry) for name, entries in MISTAKES.items() for entry in entries],
)
def test_the_mistake_is_found(
    tmp_path: Path, identifier: str, make: Callable[[Graph], None], target: Target
) -> None:
    path = made(make, tmp_path / "graph.onnx", 24 if target.ort else 20)
    assert identifier in {finding.check for finding in checked(path, target).findings}


def test_every_check_of_a_graph_has_a_mistake() -> None:
    checks = {entry.id for entry in chosen(["graph"]) if entry.scope == "graph"}
    assert checks == set(MISTAKES)


def test_a_kernel_that_is_there_is_seen_on_the_installed_runtime() -> None:
    runtime = pytest.importorskip("onnxruntime")
    from mmref.check.stages import lacks_bfloat16

    installed = tuple(int(part) for part in runtime.__version__.split(".")[:2])
    assert [lacks_bfloat16(name, ()) for name in ("Where", "Conv", "Compress")] == [
        lacks_bfloat16(name, installed) for name in ("Where", "Conv", "Compress")
    ]
    assert not lacks_bfloat16("Add", ())


def fine(graph: Graph) -> None:
    x = graph.input("x", "FLOAT", ["n", 4])
    weight = graph.constant(np.zeros((4, 4), np.float32))
    weight.name = weight.const_value.name = "model.layers.0.mlp.weight"
    rows = graph.node("Gather", weight, graph.input("ids", "INT64", ["n"]))
    out(graph, graph.node("Add", graph.node("MatMul", x, weight), rows))


@pytest.mark.parametrize("target", [CPU, CUDA, Target("cuda", (1, 24))])
def test_nothing_is_found_in_a_good_graph(tmp_path: Path, target: Target) -> None:
    assert checked(made(fine, tmp_path / "graph.onnx"), target).findings == []


def test_the_first_unsafe_row_of_a_large_table_is_named(tmp_path: Path) -> None:
    path = made(large_gather, tmp_path / "graph.onnx")
    assert "239674" in checked(path, CUDA).findings[0].got


def external(tmp_path: Path, location: str, size: int, shape: tuple[int, ...]) -> Path:
    """A graph whose one weight lies in another file."""
    graph = Graph()
    fine(graph)
    model = graph.model()
    tensor = ir.ExternalTensor(
        location,
        0,
        int(np.prod(shape)) * 4,
        ir.DataType.FLOAT,
        shape=ir.Shape(shape),
        name="model.layers.0.mlp.weight",
        base_dir=str(tmp_path),
    )
    weight = model.graph.initializers["model.layers.0.mlp.weight"]
    weight.const_value = tensor
    weight.shape = ir.Shape(shape)
    if size:
        with open(tmp_path / location, "wb") as file:
            os.truncate(file.fileno(), size)  # sparse: it takes no room
    ir.save(model, tmp_path / "graph.onnx")
    return tmp_path / "graph.onnx"


@pytest.mark.parametrize(
    ("location", "size", "found"),
    [
        ("weights.bin", 64, None),
        ("weights.bin", 0, "is not there"),
        ("weights.bin", 63, "63 bytes, and it ends at 64"),
        ("../weights.bin", 0, "leads out"),
        ("/etc/passwd", 0, "leads out"),
    ],
)
def test_data_outside_the_file_is_looked_at_and_not_loaded(
    tmp_path: Path, location: str, size: int, found: str | None
) -> None:
    path = external(tmp_path, location, size, (4, 4))
    findings = [f for f in checked(path).findings if f.check == "graph/missing-data"]
    if found is None:
        assert findings == []
    else:
        assert found in findings[0].got


@pytest.mark.slow
def test_seventy_gigabytes_are_checked_without_being_read(tmp_path: Path) -> None:
    """Memory is that of a fresh process; time is not asserted."""
    import subprocess
    import sys

    shape = (1_000_000, 18_000)
    try:
        path = external(tmp_path, "weights.bin", 72_000_000_000, shape)
    except OSError as error:
        pytest.skip(f"no sparse files here: {error}")
    code = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from mmref.check import Target, check_path, chosen\n"
        "report = check_path(Path(sys.argv[1]), chosen(['graph']), Target('cuda'))\n"
        "print([f.check for f in report.findings])\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True
    )
    found, megabytes = done.stdout.splitlines()
    assert "graph/gather-too-large" in found
    assert int(megabytes) < 500
