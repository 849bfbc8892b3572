"""Embedding graphs as exporters write them, built with onnx-ir and small enough to read.

Token ids and features in, embeddings out. The embedding table is a known one
(`table`), so that every output row says where it came from.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mmref.errors import UnknownName
from mmref.fusion.forms import FORMS
from mmref.probes.graphs import Graph

__all__ = ["embedding_graph", "model_bytes", "table", "write"]

_INT64 = 7


def table(vocabulary: int, hidden: int) -> npt.NDArray[np.float32]:
    """The embedding table of the probes: row t holds t + j / hidden.

    Parameters
    ----------
    vocabulary, hidden : int
        Its shape.

    Returns
    -------
    numpy.ndarray
        float32, shape (vocabulary, hidden).

    Examples
    --------
    >>> table(2, 2).tolist()
    [[0.0, 0.5], [1.0, 1.5]]
    """
    rows = np.arange(vocabulary, dtype=np.float32)[:, None]
    return rows + np.arange(hidden, dtype=np.float32) / np.float32(hidden)


def embedding_graph(
    form: str,
    streams: Sequence[tuple[str, int]],
    *,
    vocabulary: int = 32,
    hidden: int = 4,
    pad: float = 0.0,
    safe_ids: bool = True,
) -> Graph:
    """An embedding model of one form.

    Parameters
    ----------
    form : str
        A name of `mmref.fusion.FORMS`.
    streams : sequence of (str, int)
        Name of the features' input and placeholder id, in the order of the passes.
        Each pass takes the output of the one before it as its text.
    vocabulary, hidden : int
        Shape of the table.
    pad : float
        What the form's pad row holds; exporters write 0.
    safe_ids : bool
        Whether placeholder ids are replaced by 0 before the table is read.

    Returns
    -------
    Graph
        Inputs ``input_ids`` int64 (batch, seq) and features float32 (rows, hidden);
        output ``inputs_embeds`` float32 (batch, seq, hidden).

    Raises
    ------
    UnknownName
        If there is no such form.
    """
    if form not in FORMS:
        raise UnknownName("form", form, FORMS)
    graph = Graph()
    ids = graph.input("input_ids", "INT64", ["batch", "seq"])
    lookup = ids
    if safe_ids:
        for _, token in streams:
            mask = graph.node("Equal", ids, graph.constant(np.int64(token)))
            lookup = graph.node("Where", mask, graph.constant(np.int64(0)), lookup)
    value = graph.node("Gather", graph.constant(table(vocabulary, hidden)), lookup, axis=0)
    insert = {
        "gather_elements": _gather_elements,
        "gather": _gather,
        "gather_unpadded": _gather_unpadded,
        "gather_front_pad": _gather_front_pad,
        "scatter_nd": _scatter_nd,
    }[form]
    for number, (name, token) in enumerate(streams):
        features = graph.input(name, "FLOAT", [f"rows_{number}", hidden])
        mask = graph.node("Equal", ids, graph.constant(np.int64(token)))
        value = insert(graph, value, mask, features, np.full((1, hidden), pad, np.float32))
    graph.output(value, "inputs_embeds", "FLOAT", ["batch", "seq", hidden])
    return graph


def model_bytes(graph: Graph) -> bytes:
    """A model as ONNX Runtime and `onnx.reference` take it.

    Parameters
    ----------
    graph : Graph
        Of `embedding_graph`.

    Returns
    -------
    bytes
        The serialized model.
    """
    import onnx_ir

    data: bytes = onnx_ir.to_proto(graph.model()).SerializeToString()
    return data


def write(path: Path, form: str, streams: Sequence[tuple[str, int]], **options: Any) -> None:
    """Write an embedding model to a file.

    Parameters
    ----------
    path : Path
        The file.
    form, streams, **options
        As for `embedding_graph`.
    """
    embedding_graph(form, streams, **options).save(str(path))


def _axes(graph: Graph, *axes: int) -> Any:
    return graph.constant(np.array(axes, np.int64))


def _index(graph: Graph, mask: Any) -> Any:
    """The number of each placeholder in its batch row, from 0, as int64."""
    counted = graph.node("Cast", mask, to=_INT64)
    summed = graph.node("CumSum", counted, graph.constant(np.int64(1)))
    below = graph.node("Sub", summed, graph.constant(np.int64(1)))
    return graph.node("Clip", below, graph.constant(np.int64(0)))


def _select(graph: Graph, mask: Any, chosen: Any, text: Any) -> Any:
    return graph.node("Where", graph.node("Unsqueeze", mask, _axes(graph, 2)), chosen, text)


def _gather_elements(graph: Graph, text: Any, mask: Any, features: Any, pad: Any) -> Any:
    one_row = graph.node("Unsqueeze", features, _axes(graph, 0))
    padded = graph.node("Concat", one_row, graph.constant(pad[None]), axis=1)
    index = graph.node("Unsqueeze", _index(graph, mask), _axes(graph, 2))
    wide = graph.node("Expand", index, graph.node("Shape", text))
    return _select(graph, mask, graph.node("GatherElements", padded, wide, axis=1), text)


def _gather(graph: Graph, text: Any, mask: Any, features: Any, pad: Any) -> Any:
    padded = graph.node("Concat", features, graph.constant(pad), axis=0)
    chosen = graph.node("Gather", padded, _index(graph, mask), axis=0)
    return _select(graph, mask, chosen, text)


def _gather_unpadded(graph: Graph, text: Any, mask: Any, features: Any, pad: Any) -> Any:
    chosen = graph.node("Gather", features, _index(graph, mask), axis=0)
    return _select(graph, mask, chosen, text)


def _gather_front_pad(graph: Graph, text: Any, mask: Any, features: Any, pad: Any) -> Any:
    padded = graph.node("Concat", graph.constant(pad), features, axis=0)
    counted = graph.node("Cast", mask, to=_INT64)
    summed = graph.node("CumSum", counted, graph.constant(np.int64(1)))
    index = graph.node("Mul", summed, counted)
    return _select(graph, mask, graph.node("Gather", padded, index, axis=0), text)


def _scatter_nd(graph: Graph, text: Any, mask: Any, features: Any, pad: Any) -> Any:
    wide = graph.node("Unsqueeze", mask, _axes(graph, 2))
    wide = graph.node("Expand", wide, graph.node("Shape", text))
    places = graph.node("Transpose", graph.node("NonZero", wide), perm=[1, 0])
    flat = graph.node("Reshape", features, _axes(graph, -1))
    number = graph.node("Gather", graph.node("Shape", places), _axes(graph, 0), axis=0)
    cut = graph.node("Slice", flat, _axes(graph, 0), number, _axes(graph, 0))
    return graph.node("ScatterND", text, places, cut)
