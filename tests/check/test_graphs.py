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


def causal_queries(graph: Graph) -> None:
    q, k, v = (graph.input(n, "FLOAT", ["b", 1, s, 4]) for n, s in zip("qkv", "stt", strict=True))
    out(graph, graph.node("Attention", q, k, v, is_causal=1), shape=["b", 1, "s", 4])


def causal_over_a_cache(graph: Graph) -> None:
    """The keys come from a cache that the Attention is not told of."""
    q, new = (graph.input(name, "FLOAT", ["b", 1, "s", 4]) for name in ("q", "k"))
    past = graph.input("past_key_values.0.key", "FLOAT", ["b", 1, "p", 4])
    keys = graph.node("Concat", past, new, axis=2)
    out(graph, graph.node("Attention", q, keys, keys, is_causal=1), shape=["b", 1, "s", 4])


def _sections(graph: Graph, height: list[int], width: list[int]) -> None:
    masks = []
    for name, dimensions in (("h_mask", height), ("w_mask", width)):
        mask = graph.constant(np.array(dimensions, bool))
        mask.name = mask.const_value.name = f"rotary_emb.{name}"
        masks.append(graph.node("Cast", mask, to=1))
    table = graph.constant(np.zeros((8, 4), np.float32))
    table.name = table.const_value.name = "rotary_emb.cos_cache"
    x = graph.node("Add", graph.input("x", "FLOAT", ["n", 4]), graph.nothing_of(table))
    for mask in masks:
        x = graph.node("Add", x, graph.nothing_of(mask))
    out(graph, x)


def sections_overlap(graph: Graph) -> None:
    _sections(graph, [0, 1, 1, 0], [0, 0, 1, 1])


def sections_of_another_width(graph: Graph) -> None:
    _sections(graph, [0, 1], [0, 0])


def sections_without_width(graph: Graph) -> None:
    _sections(graph, [0, 1, 0, 0], [0, 0, 0, 0])


def _encoder(graph: Graph, *, masked: bool = True, floored: bool = False) -> None:
    x = graph.input("input_features", "FLOAT", ["b", 8, "t"])
    mask = graph.input("input_features_mask", "BOOL", ["b", 1, "t"])
    if masked:
        x = graph.node("Mul", x, graph.node("Cast", mask, to=1))
    weight = graph.constant(np.zeros((4, 8, 3), np.float32))
    made = graph.node("Conv", x, weight, strides=[2], pads=[1, 1])
    out(graph, graph.node("Add", made, graph.nothing_of(mask)), shape=["b", 4, "u"])
    counts = graph.node("ReduceSum", graph.node("Cast", mask, to=7), keepdims=0)
    counts.dtype = ir.DataType.INT64
    two = graph.constant(np.array(2, np.int64))
    if not floored:
        counts = graph.node("Add", counts, graph.constant(np.array(1, np.int64)))
    counts.dtype = ir.DataType.INT64
    graph.output(graph.node("Div", counts, two), "audio_features_mask", "INT64", [])


def audio_mask_late(graph: Graph) -> None:
    _encoder(graph, masked=False)


def audio_mask_floor(graph: Graph) -> None:
    _encoder(graph, floored=True)


def _merge(graph: Graph, *, swapped: bool = False, counted: int = 10) -> None:
    ids = graph.input("input_ids", "INT64", ["b", "s"])
    features = graph.input("image_features", "FLOAT", ["n", 4])
    table = graph.constant(np.zeros((64, 4), np.float32))
    table.name = table.const_value.name = "embed_tokens.weight"
    text = graph.node("Gather", table, ids)
    found = graph.node("Equal", ids, graph.constant(np.array(10, np.int64)))
    count = graph.node("Equal", ids, graph.constant(np.array(counted, np.int64)))
    index = graph.node("CumSum", graph.node("Cast", count, to=7), graph.constant(np.array(1)))
    pad = graph.constant(np.zeros((1, 4), np.float32))
    pad.name = pad.const_value.name = "pad.row"
    rows = graph.node("Gather", graph.node("Concat", pad, features, axis=0), index)
    choices = (text, rows) if swapped else (rows, text)
    mask = graph.node("Unsqueeze", found, graph.constant(np.array([2], np.int64)))
    out(graph, graph.node("Where", mask, *choices), shape=["b", "s", 4])


def fusion_swapped(graph: Graph) -> None:
    _merge(graph, swapped=True)


def fusion_other_mask(graph: Graph) -> None:
    _merge(graph, counted=11)


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
    "graph/causal-alignment": [(causal_queries, CPU), (causal_over_a_cache, CPU)],
    "graph/rotary-sections": [
        (sections_overlap, CPU),
        (sections_of_another_width, CPU),
        (sections_without_width, CPU),
    ],
    "graph/audio-mask-late": [(audio_mask_late, CPU)],
    "graph/audio-mask-floor": [(audio_mask_floor, CPU)],
    "graph/fusion-swapped": [(fusion_swapped, CPU)],
    "graph/fusion-other-mask": [(fusion_other_mask, CPU)],
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


def causal_with_its_past(graph: Graph) -> None:
    q, k = (graph.input(name, "FLOAT", ["b", 1, "s", 4]) for name in ("q", "k"))
    past = [graph.input(f"past_key_values.0.{n}", "FLOAT", ["b", 1, "p", 4]) for n in ("key", "v")]
    made = graph.node("Attention", q, k, k, None, *past, is_causal=1)
    made = graph.node("Attention", made, q, q, is_causal=1)
    # the next layer's keys come out of attention with a past, and have none of their own
    out(graph, graph.node("Attention", made, made, made, is_causal=1), shape=["b", 1, "s", 4])


def sections(graph: Graph) -> None:
    _sections(graph, [0, 1, 0, 0], [0, 0, 1, 1])


@pytest.mark.parametrize("target", [CPU, CUDA, Target("cuda", (1, 24))])
@pytest.mark.parametrize("make", [fine, causal_with_its_past, sections, _encoder, _merge])
def test_nothing_is_found_in_a_good_graph(
    tmp_path: Path, target: Target, make: Callable[[Graph], None]
) -> None:
    assert checked(made(make, tmp_path / "graph.onnx"), target).findings == []


def test_a_causal_attention_is_aligned_as_the_check_says() -> None:
    """One query over four keys sees the first alone, on the installed runtime."""
    runtime = pytest.importorskip("onnxruntime")
    graph = Graph()
    q, k, v = (graph.input(n, "FLOAT", ["b", 1, s, 4]) for n, s in zip("qkv", "stt", strict=True))
    out(graph, graph.node("Attention", q, k, v, is_causal=1), shape=["b", 1, "s", 4])
    model = graph.model()
    model.graph.opset_imports[""] = 23
    session = runtime.InferenceSession(
        ir.to_proto(model).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    values = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    feed = {"q": np.zeros((1, 1, 1, 4), np.float32), "k": np.zeros_like(values), "v": values}
    assert session.run(None, feed)[0].ravel().tolist() == values[0, 0, 0].tolist()


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
    """Memory is that above a bare interpreter; time is not asserted."""
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
    bare = subprocess.run(
        [sys.executable, "-c", code.splitlines()[0] + "\n" + code.splitlines()[-1]],
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(megabytes) - int(bare.stdout) < 300
