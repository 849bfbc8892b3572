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

from mmref.case import Case
from mmref.case_form import FUSION_TABLE_ROWS, FUSION_TOKEN_IDS
from mmref.errors import UnknownName
from mmref.families import TokenIds
from mmref.fusion.forms import FORMS
from mmref.probes.graphs import Graph

__all__ = [
    "HIDDEN",
    "VOCABULARY",
    "embedding_graph",
    "feature_rows",
    "model_bytes",
    "passed_features",
    "table",
    "token_ids",
    "write",
]

HIDDEN, VOCABULARY = 4, FUSION_TABLE_ROWS
"""The hidden size and the table of cases of fusion."""

_INT64 = 7
_FIRST = {"image": 1, "video": 10_000, "audio": 20_000}


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


def feature_rows(kind: str, rows: int, width: int = HIDDEN) -> npt.NDArray[np.float32]:
    """The features of a case of fusion: no two values alike, and none that text has.

    Parameters
    ----------
    kind : {"image", "video", "audio"}
        What they are of.
    rows, width : int
        Their shape.

    Returns
    -------
    numpy.ndarray
        float32, shape (rows, width): from -1, -10000 or -20000 on downwards, in whole numbers.

    Examples
    --------
    >>> feature_rows("video", 2, 2).tolist()
    [[-10000.0, -10001.0], [-10002.0, -10003.0]]
    """
    return -np.float32(_FIRST[kind]) - np.arange(rows * width, dtype=np.float32).reshape(
        rows, width
    )


def token_ids(case: Case) -> TokenIds:
    """The placeholders of a case of fusion: small ones where it gives none, as its table is small.

    Parameters
    ----------
    case : Case
        The case.

    Returns
    -------
    TokenIds
        By default 10 image, 11 video, 16 audio, 14 and 15 around a video.
    """
    return TokenIds(**{**FUSION_TOKEN_IDS, **(case.token_ids or {})})


def passed_features(case: Case) -> dict[str, npt.NDArray[np.float32]]:
    """The features that a case of fusion passes.

    Parameters
    ----------
    case : Case
        The case.

    Returns
    -------
    dict of str to numpy.ndarray
        Of the kinds whose number of rows the case gives, by kind.

    Examples
    --------
    >>> case = Case("llava", {"input_ids": np.array([[10]])}, {"image_rows": 1}, subject="fusion")
    >>> passed_features(case)["image"].tolist()
    [[-1.0, -2.0, -3.0, -4.0]]
    """
    width = int(case.scalars.get("feature_width", HIDDEN))  # type: ignore[arg-type]
    return {
        kind: feature_rows(kind, int(case.scalars[f"{kind}_rows"]), width)  # type: ignore[arg-type]
        for kind in _FIRST
        if f"{kind}_rows" in case.scalars
    }


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
