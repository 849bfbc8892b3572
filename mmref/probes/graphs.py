"""The graphs of a probe package, built with onnx-ir.

They hold no weights: every output is made from the shapes of the inputs, so
that any token id is accepted and each graph runs in microseconds. What matters
is what the engine hands to the decoder.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mmref.errors import MissingExtra

__all__ = [
    "HIDDEN",
    "Graph",
    "decoder",
    "embedding",
    "masked_speech",
    "speech",
    "tiled_vision",
    "vision",
]

HIDDEN = 4
_OPSET = 20
_IR_VERSION = 10


def _ir() -> Any:
    try:
        import onnx_ir
    except ImportError as error:
        raise MissingExtra("onnx-ir", "onnx") from error
    return onnx_ir


class Graph:
    """A graph under construction: inputs, constants and nodes in order."""

    def __init__(self) -> None:
        self.ir = _ir()
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def input(self, name: str, dtype: str, shape: Sequence[int | str]) -> Any:
        """A graph input.

        Parameters
        ----------
        name : str
            Its name.
        dtype : str
            A name of onnx-ir's data types.
        shape : sequence of int or str
            Sizes, and names of free ones.

        Returns
        -------
        onnx_ir.Value
            The value.
        """
        ir = self.ir
        value = ir.Value(
            name=name,
            type=ir.TensorType(getattr(ir.DataType, dtype)),
            shape=ir.Shape(shape),
        )
        self.inputs.append(value)
        return value

    def constant(self, array: Any) -> Any:
        """An initializer.

        Parameters
        ----------
        array : array_like
            Its value; NumPy's dtype is kept.

        Returns
        -------
        onnx_ir.Value
            The value.
        """
        ir = self.ir
        name = f"constant_{len(self.constants)}"
        value = ir.Value(name=name, const_value=ir.tensor(np.asarray(array), name=name))
        self.constants.append(value)
        return value

    def node(self, operator: str, *inputs: Any, **attributes: Any) -> Any:
        """One operator with one output.

        Parameters
        ----------
        operator : str
            ONNX's name of it.
        *inputs : onnx_ir.Value
            In order.
        **attributes : object
            By name.

        Returns
        -------
        onnx_ir.Value
            The output.
        """
        ir = self.ir
        name = f"{operator}_{len(self.nodes)}"
        node = ir.node(operator, inputs, attributes=attributes, name=name)
        node.outputs[0].name = name
        self.nodes.append(node)
        return node.outputs[0]

    def output(self, value: Any, name: str, dtype: str, shape: Sequence[int | str]) -> None:
        """A graph output.

        Parameters
        ----------
        value : onnx_ir.Value
            What it shows.
        name : str
            Its name.
        dtype : str
            A name of onnx-ir's data types.
        shape : sequence of int or str
            Sizes, and names of free ones.
        """
        ir = self.ir
        result = self.node("Identity", value)
        result.name = name
        result.type = ir.TensorType(getattr(ir.DataType, dtype))
        result.shape = ir.Shape(shape)
        self.outputs.append(result)

    def nothing_of(self, value: Any) -> Any:
        """A float scalar 0 that depends on a value, so that the input is not dropped.

        Parameters
        ----------
        value : onnx_ir.Value
            The value.

        Returns
        -------
        onnx_ir.Value
            The scalar.
        """
        total = self.node("ReduceSum", self.node("Cast", value, to=1), keepdims=0)
        return self.node("Mul", total, self.constant(np.float32(0)))

    def model(self) -> Any:
        """The finished model, of onnx-ir."""
        ir = self.ir
        graph = ir.Graph(
            self.inputs,
            self.outputs,
            nodes=self.nodes,
            initializers=self.constants,
            opset_imports={"": _OPSET},
            name="probe",
        )
        return ir.Model(graph, ir_version=_IR_VERSION)

    def save(self, path: str) -> None:
        """Write the finished model.

        Parameters
        ----------
        path : str
            The file.
        """
        self.ir.save(self.model(), path)


def vision(path: str) -> None:
    """Pixels and grid to features: zeros, four patches a feature.

    Parameters
    ----------
    path : str
        The file to write.
    """
    graph = Graph()
    pixels = graph.input("pixel_values", "FLOAT", ["patches", HIDDEN])
    grid = graph.input("image_grid_thw", "INT64", ["images", 3])
    four = graph.node("Reshape", pixels, graph.constant(np.array([-1, 4, HIDDEN], np.int64)))
    features = graph.node("ReduceSum", four, graph.constant(np.array([1], np.int64)), keepdims=0)
    features = graph.node("Add", features, graph.nothing_of(grid))
    graph.output(features, "image_features", "FLOAT", ["features", HIDDEN])
    graph.save(path)


def tiled_vision(path: str) -> None:
    """The inputs of Phi-4's vision graph, for a processor that asks for their types.

    Parameters
    ----------
    path : str
        The file to write.
    """
    graph = Graph()
    tiles = graph.input("pixel_values", "FLOAT", ["images", "tiles", 3, "height", "width"])
    mask = graph.input("image_attention_mask", "FLOAT", ["images", "tiles", "rows", "columns"])
    sizes = graph.input("image_sizes", "INT64", ["images", 2])
    features = graph.node("Add", graph.nothing_of(tiles), graph.nothing_of(mask))
    features = graph.node("Add", features, graph.nothing_of(sizes))
    graph.output(features, "image_features", "FLOAT", [])
    # inputs that are asked for even in packages without audio
    for name in ("audio_embeds", "audio_attention_mask"):
        graph.input(name, "FLOAT", [f"{name}_0", f"{name}_1", f"{name}_2"])
    for name in ("audio_sizes", "audio_projection_mode"):
        graph.input(name, "INT64", [name])
    graph.save(path)


def embedding(path: str, features: Sequence[str] = ("image_features",)) -> None:
    """Ids and features to embeddings: zeros for any id.

    Parameters
    ----------
    path : str
        The file to write.
    features : sequence of str
        Names of its inputs of features.
    """
    graph = Graph()
    ids = graph.input("input_ids", "INT64", ["batch", "seq"])
    inputs = [graph.input(name, "FLOAT", [f"{name}_rows", HIDDEN]) for name in features]
    wide = _embedded(graph, ids)
    for value in inputs:
        wide = graph.node("Add", wide, graph.nothing_of(value))
    graph.output(wide, "inputs_embeds", "FLOAT", ["batch", "seq", HIDDEN])
    graph.save(path)


def speech(path: str) -> None:
    """Frames and sizes of clips to features: the frames.

    Parameters
    ----------
    path : str
        The file to write.
    """
    graph = Graph()
    frames = graph.input("audio_embeds", "FLOAT", ["clips", "frames", HIDDEN])
    sizes = graph.input("audio_sizes", "INT64", ["sizes"])
    rows = graph.node("Reshape", frames, graph.constant(np.array([-1, HIDDEN], np.int64)))
    rows = graph.node("Add", rows, graph.nothing_of(sizes))
    graph.output(rows, "audio_features", "FLOAT", ["features", HIDDEN])
    graph.save(path)


def masked_speech(path: str) -> None:
    """The inputs of Gemma 4's audio graph, for a processor that asks for their types.

    Parameters
    ----------
    path : str
        The file to write.
    """
    graph = Graph()
    frames = graph.input("audio_embeds", "FLOAT", ["clips", "frames", "bins"])
    mask = graph.input("audio_mask", "BOOL", ["clips", "frames"])
    nothing = graph.node("Add", graph.nothing_of(frames), graph.nothing_of(mask))
    graph.output(nothing, "audio_features", "FLOAT", [])
    graph.save(path)


def _embedded(graph: Graph, ids: Any) -> Any:
    """Zeros for every id."""
    zero = graph.node("Mul", graph.node("Cast", ids, to=1), graph.constant(np.float32(0)))
    zero = graph.node("Unsqueeze", zero, graph.constant(np.array([2], np.int64)))
    return graph.node("Mul", zero, graph.constant(np.zeros((1, 1, HIDDEN), np.float32)))


def decoder(
    path: str,
    vocabulary: int,
    favourite: int,
    *,
    axes: int = 3,
    from_ids: bool = False,
    cache: bool = True,
) -> None:
    """Embeddings, mask and positions to logits that always favour one token.

    Parameters
    ----------
    path : str
        The file to write.
    vocabulary : int
        Width of the logits.
    favourite : int
        The token that greedy search generates.
    axes : int
        Rows of positions: 3, or 1 for positions (batch, seq).
    from_ids : bool
        Whether it takes token ids, as text models do, and not embeddings.
    cache : bool
        Whether it has a cache.
    """
    graph = Graph()
    if from_ids:
        embeds = _embedded(graph, graph.input("input_ids", "INT64", ["batch", "seq"]))
    else:
        embeds = graph.input("inputs_embeds", "FLOAT", ["batch", "seq", HIDDEN])
    mask = graph.input("attention_mask", "INT64", ["batch", "total"])
    # the places of a window may be more than the tokens of a call
    shape: list[int | str] = ["batch", "places"] if axes == 1 else [axes, "batch", "seq"]
    positions = graph.input("position_ids", "INT64", shape)
    past = [
        graph.input(f"past_key_values.0.{part}", "FLOAT", ["batch", 1, "past", HIDDEN])
        for part in (("key", "value") if cache else ())
    ]
    weights = np.zeros((HIDDEN, vocabulary), np.float32)
    bias = np.zeros(vocabulary, np.float32)
    bias[favourite] = 1
    logits = graph.node("MatMul", embeds, graph.constant(weights))
    logits = graph.node("Add", logits, graph.constant(bias))
    logits = graph.node("Add", logits, graph.nothing_of(mask))
    logits = graph.node("Add", logits, graph.nothing_of(positions))
    graph.output(logits, "logits", "FLOAT", ["batch", "seq", vocabulary])
    if not cache:
        graph.save(path)
        return
    # the cache grows with the mask and not with what is in it, so that a cache that has gone
    # wrong is seen (its length can be read back) instead of ending the run
    rows = graph.node("Shape", mask, start=0, end=1)
    total = graph.node("Shape", mask, start=1, end=2)
    heads, width = (graph.constant(np.array([n], np.int64)) for n in (1, HIDDEN))
    shape = graph.node("Concat", rows, heads, total, width, axis=0)
    empty = graph.node("Expand", graph.constant(np.zeros(1, np.float32)), shape)
    for value, part in zip(past, ("key", "value"), strict=True):
        present = graph.node("Add", empty, graph.nothing_of(value))
        graph.output(present, f"present.0.{part}", "FLOAT", ["batch", 1, "total", HIDDEN])
    graph.save(path)
