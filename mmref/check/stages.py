"""Checks of graphs against each other, and of what depends on the version of the runtime."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator
from typing import Any

from mmref.check.base import Problem, Target, check
from mmref.check.graph import kind_of, sizes_of
from mmref.package import Package

__all__ = ["lacks_bfloat16"]

Named = tuple[str, Any]  # a part's name and its onnx_ir.Model

_WITHOUT_BFLOAT16 = frozenset({"Where", "Conv", "Compress"})  # of ONNX Runtime 1.32 on the CPU


@check(
    "graph/stage-types",
    consequence="refusal",
    meaning="What one graph makes and the next one takes have different types.",
    happens="The run fails: Unexpected input data type.",
    fix="Export all stages in one float type, or cast at the end of the first.",
    source="the declared types of outputs and inputs that have one name",
)
def stage_types(package: Package, target: Target) -> Iterator[Problem]:
    made: dict[str, tuple[str, str]] = {}
    for part in ("vision", "speech", "embedding", "decoder"):
        graph = package.graphs.get(part)
        if graph is None:
            continue
        for value in graph.graph.inputs:
            before, kind = made.get(value.name, ("", ""))
            if before and kind_of(value) != kind:
                where = f"{part}: {value.name}"
                yield Problem(where, f"{kind_of(value)}, and {before} makes {kind}")
        for value in graph.graph.outputs:
            made[value.name] = (part, kind_of(value))


@check(
    "graph/placeholder-beyond-table",
    consequence="refusal",
    meaning="A placeholder's id is not a row of the table that all tokens are looked up in.",
    happens="Gather fails on the CPU; on CUDA it reads zeros or nothing.",
    fix="Replace placeholders by an id of the table (Where) before the lookup.",
    source="the ids of the configuration against the table's rows",
)
def placeholder_beyond_table(package: Package, target: Target) -> Iterator[Problem]:
    embedding = package.graphs.get("embedding")
    if embedding is None:
        return
    for node in embedding.graph.all_nodes():
        if node.op_type != "Gather" or len(node.inputs) < 2 or node.inputs[1] is None:
            continue
        rows = sizes_of(node.inputs[0])
        if node.inputs[1].name != "input_ids" or len(rows) < 2 or rows[0] < 2:
            continue
        for name in ("image_token_id", "video_token_id", "audio_token_id"):
            value = package.model.get(name)
            if type(value) is int and value >= rows[0]:
                where = f"embedding: Gather {node.name or ''}".rstrip()
                yield Problem(where, f"{rows[0]} rows, and {name} is {value}")


@check(
    "graph/rotary-table",
    consequence="crash",
    meaning="A table of rotary positions has fewer rows than context_length.",
    happens="A long prompt reads past its end: an error, or another position's angles.",
    fix="Export the table for the whole context, or lower context_length.",
    source="initializers that are named cos_cache and sin_cache",
)
def rotary_table(package: Package, target: Target) -> Iterator[Problem]:
    decoder, length = package.graphs.get("decoder"), package.model.get("context_length")
    if decoder is None or type(length) is not int:
        return
    for name, value in decoder.graph.initializers.items():
        rows = sizes_of(value)
        if name.rpartition(".")[2] in ("cos_cache", "sin_cache") and 1 < rows[0] < length:
            yield Problem(f"decoder: {name}", f"{rows[0]} rows, context_length {length}")


@check(
    "graph/past-and-present",
    scope="graph",
    consequence="refusal",
    meaning="A past and its present are declared with different heads or widths.",
    happens="The second step is fed what the first one made: Got invalid dimensions.",
    fix="Declare both with the sizes of the model.",
    source="the declared shapes of past_key_values.N and present.N",
)
def past_and_present(named: Named, target: Target) -> Iterator[Problem]:
    part, model = named
    presents = {value.name: value for value in model.graph.outputs}
    for value in model.graph.inputs:
        name = str(value.name)
        present = presents.get(name.replace("past_key_values", "present"))
        if not name.startswith("past_key_values") or present is None:
            continue
        past, now = value.shape, present.shape
        if past is None or now is None or len(past) != 4 or len(now) != 4:
            continue
        for axis in (1, 3):
            sides = past[axis], now[axis]
            if all(type(side) is int for side in sides) and sides[0] != sides[1]:
                yield Problem(
                    f"{part}: {present.name}", f"{sides[1]} on axis {axis}, past {sides[0]}"
                )


@check(
    "graph/shared-kv",
    scope="graph",
    consequence="refusal",
    meaning="A GroupQueryAttention has no keys and values of its own.",
    happens="ONNX Runtime 1.25.0 refuses the model; 1.32.0 runs it on the CPU.",
    fix="Run a release that was seen to take it.",
    source="ONNX Runtime issues 28242 and 28318; 1.32.0 was run",
)
def shared_kv(named: Named, target: Target) -> Iterator[Problem]:
    part, model = named
    if target.ort >= (1, 32) or not target.ort:
        return
    for node in model.graph.all_nodes():
        if node.op_type != "GroupQueryAttention" or len(node.inputs) < 3:
            continue
        if node.inputs[1] is None or node.inputs[2] is None:
            asked = ".".join(map(str, target.ort))
            yield Problem(f"{part}: {node.op_type} {node.name or ''}", f"ONNX Runtime {asked}")


@check(
    "graph/bfloat16-on-cpu",
    scope="graph",
    consequence="refusal",
    meaning="An operator that has no bfloat16 kernel on the CPU is used in bfloat16.",
    happens="The CPU provider refuses the model.",
    fix="Run it on another provider, or export float32 for the CPU.",
    source="one node of the operator on the installed ONNX Runtime; where another release is asked "
    "for or none is installed, what 1.32 was seen to lack",
)
def bfloat16(named: Named, target: Target) -> Iterator[Problem]:
    part, model = named
    if target.provider != "cpu":
        return
    counts: Counter[str] = Counter()
    for node in model.graph.all_nodes():
        if not node.domain and "BFLOAT16" in map(kind_of, node.inputs):
            counts[node.op_type] += 1
    for operator, count in counts.items():
        if lacks_bfloat16(operator, target.ort):
            yield Problem(f"{part}: {operator}", f"{count} of them in bfloat16")


@functools.cache
def lacks_bfloat16(operator: str, ort: tuple[int, ...]) -> bool:
    """Whether an operator has no bfloat16 kernel on the CPU.

    Parameters
    ----------
    operator : str
        Its name.
    ort : tuple of int
        Version of ONNX Runtime; empty for the installed one.

    Returns
    -------
    bool
        Seen on the installed release if that is the one, else as 1.32 was seen.
    """
    from mmref.differences import version_key

    if operator not in _PROBES:
        return False
    try:
        import onnxruntime
    except ImportError:
        return operator in _WITHOUT_BFLOAT16
    if ort and ort != version_key(onnxruntime.__version__):
        return operator in _WITHOUT_BFLOAT16
    from mmref.probes.fusion import model_bytes
    from mmref.probes.graphs import Graph

    graph = Graph()
    result = graph.node(operator, *_PROBES[operator](graph))
    graph.output(result, "out", "BFLOAT16", ["rows", "columns", "width"][: _RANKS[operator]])
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        onnxruntime.InferenceSession(
            model_bytes(graph), options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:
        return "implement" in str(error)
    return False


def _where(graph: Any) -> tuple[Any, ...]:
    x = graph.input("x", "BFLOAT16", ["n"])
    return graph.input("c", "BOOL", ["n"]), x, x


def _conv(graph: Any) -> tuple[Any, ...]:
    kernel = graph.input("k", "BFLOAT16", [2, 3, 3])
    return graph.input("x", "BFLOAT16", ["b", 3, "n"]), kernel


def _compress(graph: Any) -> tuple[Any, ...]:
    return graph.input("x", "BFLOAT16", ["n"]), graph.input("c", "BOOL", ["n"])


_PROBES = {"Where": _where, "Conv": _conv, "Compress": _compress}
_RANKS = {"Where": 1, "Conv": 3, "Compress": 1}
