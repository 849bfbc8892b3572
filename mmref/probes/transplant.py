"""A user's configuration on probe graphs: the same names, types and ranks, and no weights.

So a package of any size is driven through the real engine in well under a second,
and what is seen is what the engine does with this configuration.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from mmref.package import GRAPHS, Package
from mmref.probes.graphs import Graph

__all__ = ["transplant"]

_SESSION = {"log_severity_level": 4, "intra_op_num_threads": 1, "inter_op_num_threads": 1}


def transplant(package: Package, folder: Path) -> None:
    """Write a package of probes.

    Parameters
    ----------
    package : Package
        What was read of the user's.
    folder : Path
        An existing empty folder.
    """
    config = copy.deepcopy(package.config)
    model = config.get("model")
    search = config.get("search")
    if isinstance(search, dict):
        search["past_present_share_buffer"] = False
    for name in GRAPHS:
        part = model.get(name) if isinstance(model, dict) else None
        if not isinstance(part, dict) or name not in package.graphs:
            continue
        part["filename"] = f"{name}.onnx"
        part["session_options"] = _SESSION
        part.pop("pipeline", None)
        _Probe(package.graphs[name].graph).save(folder / f"{name}.onnx")
    (folder / "genai_config.json").write_bytes(msgspec.json.encode(config))


class _Probe:
    """A graph with the inputs and outputs of another, whose outputs are zeros of their shapes."""

    def __init__(self, original: Any) -> None:
        self.graph = Graph()
        self.sides: dict[str, tuple[Any, int]] = {}
        self.mask: Any = None
        inputs = []
        for value in original.inputs:
            shape = [_side(side) for side in value.shape or ()]
            made = self.graph.input(value.name, value.dtype.name, shape)
            inputs.append(made)
            if value.name == "attention_mask":
                self.mask = made
            for axis, side in enumerate(shape):
                if isinstance(side, str):
                    self.sides.setdefault(side, (made, axis))
        floats = [made for made in inputs if made.dtype.name != "STRING"]
        for value in original.outputs:
            self._output(value, floats)

    def save(self, path: Path) -> None:
        self.graph.save(str(path))

    def _output(self, value: Any, inputs: list[Any]) -> None:
        graph = self.graph
        shape = [_side(side) for side in value.shape or ()]
        zero = graph.constant(np.zeros(1, np.float32))
        for made in inputs:  # an input that nothing reads would be dropped
            zero = graph.node("Add", zero, graph.nothing_of(made))
        present = value.name.startswith("present") and self.mask is not None
        parts = []
        for axis, side in enumerate(shape):
            if present and axis == 2 and len(shape) == 4 and isinstance(side, str):
                parts.append(graph.node("Shape", self.mask, start=1, end=2))
            elif isinstance(side, str) and side in self.sides:
                made, at = self.sides[side]
                parts.append(graph.node("Shape", made, start=at, end=at + 1))
            else:
                number = side if isinstance(side, int) else 1
                parts.append(graph.constant(np.array([number], np.int64)))
        filled = zero
        if parts:
            filled = graph.node("Expand", zero, graph.node("Concat", *parts, axis=0))
        kind = value.dtype
        filled = graph.node("Cast", filled, to=int(kind.value))
        graph.output(filled, value.name, kind.name, shape)


def _side(side: Any) -> int | str:
    if isinstance(side, int):
        return side
    return str(side.value) if getattr(side, "value", None) else f"free_{id(side)}"
