"""Checks of one ONNX graph, by its nodes, names and shapes; no tensor is loaded."""

from __future__ import annotations

import math
import re
from collections.abc import Container, Iterator
from pathlib import Path
from typing import Any

from mmref.check.base import Problem, Target, check
from mmref.package import inside, is_file

__all__ = ["ancestors", "kind_of", "sizes_of"]

Named = tuple[str, Any]  # a part's name and its onnx_ir.Model

_INT32 = 2**31 - 1
_GENERIC = re.compile(r"(weight|bias)(_\d+)?")
_DOUBLED = re.compile(r"(?:^|\.)((?:\w+\.)*\w+)\.\1(?:\.|$)")
_WEIGHTS: dict[str, tuple[int, ...]] = {
    "Conv": (1, 2),
    "ConvTranspose": (1, 2),
    "Gemm": (1, 2),
    "LayerNormalization": (1, 2),
    "RMSNormalization": (1,),
    "BatchNormalization": (1, 2, 3, 4),
    "MatMulNBits": (1, 2),
}
_FLOATS = frozenset({"FLOAT", "FLOAT16", "BFLOAT16", "DOUBLE"})
_ELEMENTWISE = frozenset(
    {"Add", "Sub", "Mul", "Div", "Pow", "MatMul", "Gemm", "Where", "Max", "Min"}
)


def _values(graph: Any) -> Iterator[tuple[Any, int, Any]]:
    """Every value that a node reads: node, number of the input, value."""
    for node in graph.all_nodes():
        for number, value in enumerate(node.inputs):
            if value is not None:
                yield node, number, value


def _place(part: str, node: Any) -> str:
    return f"{part}: {node.op_type} {node.name or ''}".rstrip()


@check(
    "graph/dangling-input",
    scope="graph",
    consequence="refusal",
    meaning="A node reads a value that nothing makes: no node, no initializer, no graph input.",
    happens="ONNX Runtime refuses the model.",
    fix="A layer was called around its forward(), so that its weights were never registered.",
    source="ONNX: a value has a producer; run on ONNX Runtime 1.32",
)
def dangling(named: Named, target: Target) -> Iterator[Problem]:
    part, model = named
    known = {id(value) for value in (*model.graph.inputs, *model.graph.initializers.values())}
    scopes = [model.graph, *(g for node in model.graph.all_nodes() for g in _subgraphs(node))]
    for scope in scopes[1:]:
        known |= {id(value) for value in (*scope.inputs, *scope.initializers.values())}
    for node, number, value in _values(model.graph):
        if value.producer() is None and id(value) not in known and value.name:
            yield Problem(_place(part, node), f"input {number}, {value.name!r}")


def _subgraphs(node: Any) -> Iterator[Any]:
    for attribute in node.attributes.values():
        if attribute.type.name == "GRAPH":
            yield attribute.value
        elif attribute.type.name == "GRAPHS":
            yield from attribute.value


@check(
    "graph/weight-is-input",
    scope="graph",
    consequence="refusal",
    meaning="A weight is an input of the graph.",
    happens="The engine does not know the name: Missing Input at the first run.",
    fix="Export it as an initializer.",
    source="the slots of ONNX's operators that hold weights",
)
def weight_is_input(named: Named, target: Target) -> Iterator[Problem]:
    part, model = named
    inputs = {id(value) for value in model.graph.inputs}
    for node, number, value in _values(model.graph):
        if number in _WEIGHTS.get(node.op_type, ()) and id(value) in inputs:
            yield Problem(_place(part, node), f"input {number} is the graph input {value.name!r}")


@check(
    "graph/weight-name",
    scope="graph",
    consequence="wrong answer",
    meaning="A weight has a name that says no layer, or the same layer twice.",
    happens="Weights are matched to names: this one may have been left as it was made.",
    fix="Give the module its path, once.",
    source="names that exporters leave when a module is registered twice or not at all",
)
def weight_name(named: Named, target: Target) -> Iterator[Problem]:
    part, model = named
    for name, value in model.graph.initializers.items():
        if math.prod(sizes_of(value)) < 2:
            continue
        if _GENERIC.fullmatch(name):
            yield Problem(f"{part}: {name}", "a name without a layer")
        elif _DOUBLED.search(name):
            yield Problem(f"{part}: {name}", "a layer's name twice in a row")


@check(
    "graph/missing-data",
    scope="graph",
    consequence="refusal",
    meaning="A weight has no data, or its file is missing, too short, or outside the folder.",
    happens="ONNX Runtime refuses the model, or reads past the end of the file.",
    fix="Copy the data file beside the graph, whole.",
    source="ONNX's external data: location, offset and length",
)
def missing_data(named: Named, target: Target) -> Iterator[Problem]:
    part, model = named
    for name, value in model.graph.initializers.items():
        tensor = value.const_value
        if tensor is None:
            yield Problem(f"{part}: {name}", "no data")
            continue
        if not hasattr(tensor, "location"):
            continue
        folder = Path(str(tensor.base_dir) or ".")
        path = inside(folder, str(tensor.location))
        if path is None:
            got = f"{str(tensor.location)!r} leads out of the folder"
            yield Problem(f"{part}: {name}", got)
        elif not is_file(path):
            yield Problem(f"{part}: {name}", f"{str(tensor.location)!r} is not there")
        else:
            need = (tensor.offset or 0) + (tensor.length or tensor.nbytes)
            size = path.stat().st_size
            if size < need:
                yield Problem(f"{part}: {name}", f"{size} bytes, and it ends at {need}")
            elif tensor.length is not None and tensor.length != tensor.nbytes:
                got = f"{tensor.length} bytes for a shape of {tensor.nbytes}"
                yield Problem(f"{part}: {name}", got)


@check(
    "graph/float64",
    scope="graph",
    consequence="refusal",
    meaning="A float64 value is mixed with the floats of the graph.",
    happens="ONNX Runtime refuses the model: bound to different types.",
    fix="Make the constant in the graph's own float type.",
    source="run on ONNX Runtime 1.32",
)
def float64(named: Named, target: Target) -> Iterator[Problem]:
    part, model = named
    for node in model.graph.all_nodes():
        if node.op_type not in _ELEMENTWISE:
            continue
        floats = {kind for kind in map(kind_of, node.inputs) if kind in _FLOATS}
        if len(floats) > 1:
            where = _place(part, node)
            yield Problem(where, f"inputs of {' and '.join(sorted(floats))}")


@check(
    "graph/gather-too-large",
    scope="graph",
    consequence="wrong answer",
    meaning="A table that is gathered from has more than 2^31 - 1 elements.",
    happens="On CUDA, releases that index with int32 read other rows, from the named one on.",
    fix="Split the table, or run a release with the 64-bit index.",
    source="ONNX Runtime issue 28107, mended by 28108; which release has it first is not known",
)
def gather_too_large(named: Named, target: Target) -> Iterator[Problem]:
    part, model = named
    if target.provider == "cpu":
        return
    for node, number, value in _values(model.graph):
        if number or not node.op_type.startswith("Gather"):
            continue
        sizes = sizes_of(value)
        if math.prod(sizes) > _INT32 and len(sizes) > 1:
            columns = math.prod(sizes[1:])
            row = (_INT32 - (columns - 1)) // columns + 1
            yield Problem(_place(part, node), f"{sizes} elements; the first unsafe row is {row}")


@check(
    "graph/fusion-without-pad",
    scope="graph",
    consequence="refusal",
    meaning="Features are gathered as they come in, without a row for text.",
    happens="A prompt without media has no features to gather from and fails.",
    fix="Concatenate a row of zeros to the features before the Gather.",
    source="the graph form without a pad row, run on ONNX Runtime (docs/explanation/fusion.md)",
)
def fusion_without_pad(named: Named, target: Target) -> Iterator[Problem]:
    part, model = named
    inputs = {id(value) for value in model.graph.inputs}
    for node in model.graph.all_nodes():
        if not node.op_type.startswith("Gather") or len(node.inputs) < 2:
            continue
        data, index = node.inputs[0], node.inputs[1]
        if data is not None and id(data) in inputs and _comes_from(index, "CumSum"):
            yield Problem(_place(part, node), f"gathers from the graph input {data.name!r}")


def _comes_from(value: Any, operator: str) -> bool:
    """Whether an operator stands somewhere before a value."""
    made = (before.producer() for before in ancestors(value))
    return any(node is not None and node.op_type == operator for node in made)


@check(
    "graph/opset",
    scope="graph",
    consequence="refusal",
    meaning="The graph needs operators that its opset, or the runtime, does not have.",
    happens="ONNX Runtime refuses the model.",
    fix="Declare opset 24 for them; before ONNX Runtime 1.25 other providers than the CPU's need "
    "an opset up to 23.",
    source="ONNX's operator sets; ONNX Runtime 1.24 on CUDA from reports",
)
def opset(named: Named, target: Target) -> Iterator[Problem]:
    part, model = named
    version = model.graph.opset_imports.get("", 0)
    for node in model.graph.all_nodes():
        needs = node.op_type == "TensorScatter" or (
            node.op_type == "Attention" and len(node.inputs) > 6 and node.inputs[6] is not None
        )
        if needs and not node.domain and version < 24:
            yield Problem(_place(part, node), f"needs opset 24, and {version} is declared")
    if version > 23 and target.provider != "cpu" and (0,) < target.ort < (1, 25):
        asked = ".".join(map(str, target.ort))
        yield Problem(f"{part}: opset {version}", f"ONNX Runtime {asked} on {target.provider}")


@check(
    "graph/attention-nonpad-with-past",
    scope="graph",
    consequence="refusal",
    meaning="An Attention has nonpad_kv_seqlen and a past.",
    happens="The run fails, on every provider: should not be used together.",
    fix="Use the one or the other.",
    source="run on ONNX Runtime 1.32",
)
def attention(named: Named, target: Target) -> Iterator[Problem]:
    part, model = named
    for node in model.graph.all_nodes():
        if node.op_type != "Attention" or node.domain or len(node.inputs) < 7:
            continue
        given = [value is not None for value in node.inputs]
        if given[6] and (given[4] or given[5]):
            yield Problem(_place(part, node), "inputs 6 and 4 or 5")


@check(
    "graph/head-size",
    scope="graph",
    consequence="wrong answer",
    meaning="Heads are wider than 256.",
    happens="On CUDA, flash kernels of some releases answer NaN or crash.",
    fix="Check the answer on the CPU provider, or turn flash attention off.",
    source="ONNX Runtime issues 28195, 28196, 28388",
)
def head_size(named: Named, target: Target) -> Iterator[Problem]:
    part, model = named
    if target.provider == "cpu":
        return
    for value in model.graph.inputs:
        shape = value.shape
        if value.name and "past" in value.name and shape is not None and len(shape) == 4:
            width = shape[3]
            if type(width) is int and width > 256:
                yield Problem(f"{part}: {value.name}", f"a head size of {width}")
                return


@check(
    "graph/unused-input",
    scope="graph",
    consequence="wrong answer",
    meaning="An input that says where or how much is not used by any node.",
    happens="Whatever the engine feeds has no effect: positions, sizes or masks are ignored.",
    fix="The exported module does not read it: look at its forward().",
    source="a graph input without a consumer",
)
def unused_input(named: Named, target: Target) -> Iterator[Problem]:
    part, model = named
    outputs = {id(value) for value in model.graph.outputs}
    for value in model.graph.inputs:
        kept = value.name and value.name.startswith("past_")
        if not kept and not value.uses() and id(value) not in outputs:
            yield Problem(f"{part}: {value.name}", "no node reads it")


@check(
    "graph/scalar-input",
    scope="graph",
    consequence="refusal",
    meaning="An input is a scalar.",
    happens="GenAI feeds tensors of shape [1]: Invalid rank for input.",
    fix="Declare the shape [1].",
    source="ONNX Runtime GenAI feeds audio_projection_mode and the like as [1]",
)
def scalar_input(named: Named, target: Target) -> Iterator[Problem]:
    part, model = named
    for value in model.graph.inputs:
        if value.shape is not None and len(value.shape) == 0:
            yield Problem(f"{part}: {value.name}", "rank 0")


@check(
    "graph/audio-mask",
    scope="graph",
    consequence="wrong answer",
    meaning="An audio encoder has no mask of its frames.",
    happens="Padded frames leak into the valid ones through strides and attention.",
    fix="Export the mask (batch, frames) as a boolean input.",
    source="encoders with strided convolutions mask before each of them",
)
def audio_mask(named: Named, target: Target) -> Iterator[Problem]:
    part, model = named
    inputs = model.graph.inputs
    frames = [v for v in inputs if v.name in ("input_features", "audio_embeds", "input_values")]
    strided = any(node.op_type == "Conv" for node in model.graph.all_nodes())
    masked = any(v.name and ("mask" in v.name or "length" in v.name) for v in inputs)
    if frames and strided and not masked:
        yield Problem(f"{part}: {frames[0].name}", "no input named like a mask or a length")


def ancestors(value: Any, *, stop: Container[str] = ()) -> Iterator[Any]:
    """A value and every value that it is made from.

    Parameters
    ----------
    value : onnx_ir.Value or None
        A value.
    stop : container of str
        Operators that end the walk: what they make is yielded, what they take is not.

    Yields
    ------
    onnx_ir.Value
        Each once.
    """
    seen: set[int] = set()
    stack = [value]
    while stack:
        found = stack.pop()
        if found is None or id(found) in seen:
            continue
        seen.add(id(found))
        yield found
        node = found.producer()
        if node is not None and node.op_type not in stop:
            stack += node.inputs


def sizes_of(value: Any) -> list[int]:
    """The sides of a value, free ones as 1; an initializer's are those of its tensor.

    Parameters
    ----------
    value : onnx_ir.Value or None
        A value.

    Returns
    -------
    list of int
        Empty if nothing is known of it.
    """
    if value is None:
        return []
    shape = value.shape
    if shape is None and value.const_value is not None:
        shape = value.const_value.shape
    return [side if type(side) is int else 1 for side in shape or ()]


def kind_of(value: Any) -> str:
    """The name of a value's type.

    Parameters
    ----------
    value : onnx_ir.Value or None
        A value.

    Returns
    -------
    str
        As onnx-ir calls it; empty if it is not known.
    """
    if value is None:
        return ""
    kind = value.dtype
    if kind is None and value.const_value is not None:
        kind = value.const_value.dtype
    return str(kind.name) if kind is not None else ""
