"""The mask path of exported audio encoders, in the two forms that exporters write."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from mmref.families.audio import Stage
from mmref.probes.graphs import Graph

__all__ = ["mask_graph"]

_INT64 = 7  # onnx.TensorProto.INT64


def mask_graph(form: Literal["slice", "length"], stages: Sequence[Stage]) -> Graph:
    """A graph from ``mask`` (batch, frames) to ``output_mask`` (batch, outputs), both bool.

    Parameters
    ----------
    form : {"slice", "length"}
        A Slice with the stride for each layer; or the sum of the mask through integer
        arithmetic, compared with a range.
    stages : sequence of Stage
        The layers. The slice form stands for layers that make ceil(frames / stride).

    Returns
    -------
    Graph
        The graph; `mmref.probes.fusion.model_bytes` makes it a model.

    Examples
    --------
    >>> len(mask_graph("slice", [Stage(3, 2, 1)]).nodes)
    2
    """
    graph = Graph()
    mask = graph.input("mask", "BOOL", ["batch", "frames"])
    if form == "slice":
        found = _slices(graph, mask, stages)
    else:
        found = _compared(graph, mask, stages)
    graph.output(found, "output_mask", "BOOL", ["batch", "outputs"])
    return graph


def _slices(graph: Graph, mask: object, stages: Sequence[Stage]) -> object:
    first, last, axis = ([0], [np.iinfo(np.int64).max], [1])
    bounds = [graph.constant(np.array(value, np.int64)) for value in (first, last, axis)]
    for stage in stages:
        step = graph.constant(np.array([stage.stride], np.int64))
        mask = graph.node("Slice", mask, *bounds, step)
    return mask


def _compared(graph: Graph, mask: object, stages: Sequence[Stage]) -> object:
    axis = graph.constant(np.array([1], np.int64))
    numbers = graph.node("Cast", mask, to=_INT64)
    valid = graph.node("ReduceSum", numbers, axis, keepdims=1)
    shape = graph.node("Shape", mask)
    width = graph.node("Gather", shape, graph.constant(np.int64(1)))
    for stage in stages:
        valid, width = _through(graph, valid, stage), _through(graph, width, stage)
    zero, one = graph.constant(np.int64(0)), graph.constant(np.int64(1))
    return graph.node("Less", graph.node("Range", zero, width, one), valid)


def _through(graph: Graph, frames: object, stage: Stage) -> object:
    """ONNX's Div of integers cuts toward zero, so a length below zero is raised to it first."""
    room = graph.node("Add", frames, graph.constant(np.int64(stage.padded - stage.span)))
    room = graph.node("Add", room, graph.constant(np.int64(stage.stride)))
    room = graph.node("Max", room, graph.constant(np.int64(0)))
    made = graph.node("Div", room, graph.constant(np.int64(stage.stride)))
    # padding alone has room for an output in some layers; a clip without frames has none
    return graph.node("Mul", made, graph.node("Sign", frames))
