"""Checks of audio encoders, and of how features are merged in exported graphs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mmref.check.base import Problem, Target, check
from mmref.check.graph import ancestors, kind_of
from mmref.package import Package

__all__: list[str] = []

Named = tuple[str, Any]  # a part's name and its onnx_ir.Model

_INTEGERS = frozenset({"INT64", "INT32"})
_FRAMES = frozenset({"input_features", "audio_embeds", "input_values"})


@check(
    "graph/clipped-linears",
    consequence="wrong answer",
    meaning="An audio encoder of Gemma 4 clips nothing.",
    happens="Activations that the model was trained to clip run free: the sound is misheard.",
    fix="Export its linear layers with their input and output limits.",
    source="use_clipped_linears of Gemma 4's audio configuration; an export with one layer has 29 "
    "Clip nodes",
)
def clipped_linears(package: Package, target: Target) -> Iterator[Problem]:
    speech = package.graphs.get("speech")
    if speech is None or not str(package.model.get("type")).startswith("gemma4"):
        return
    operators = [node.op_type for node in speech.graph.all_nodes()]
    if "Clip" not in operators:
        yield Problem("speech", f"{operators.count('MatMul')} MatMul and no Clip")


@check(
    "graph/audio-mask-late",
    scope="graph",
    consequence="wrong answer",
    meaning="A strided convolution of an audio encoder is not masked.",
    happens="Padded frames leak into the last valid output of every clip of a batch.",
    fix="Multiply by the mask, shortened by as many strides, before each of them.",
    source="encoders with strided convolutions mask before each of them (Gemma 4, Parakeet)",
)
def audio_mask_late(named: Named, target: Target) -> Iterator[Problem]:
    part, model = named
    inputs = {value.name: value for value in model.graph.inputs}
    masks = [v for name, v in inputs.items() if name and "mask" in name and kind_of(v) == "BOOL"]
    if not masks or not _FRAMES & set(inputs):
        return
    for node in model.graph.all_nodes():
        strides = node.attributes.get("strides")
        if node.op_type != "Conv" or strides is None or max(strides.value) < 2:
            continue
        before = {id(value) for value in ancestors(node.inputs[0])}
        if not any(id(mask) in before for mask in masks):
            yield Problem(f"{part}: Conv {node.name or ''}".rstrip(), f"without {masks[0].name!r}")


@check(
    "graph/audio-mask-floor",
    scope="graph",
    consequence="wrong answer",
    meaning="The mask that an audio encoder returns is as long as a floor division says.",
    happens="A clip whose length no stride divides loses its last feature, or the lengths do not "
    "match.",
    fix="Take every second entry (Slice), or divide with rounding up: strided convolutions with "
    "padding make ceil(T / 2).",
    source="docs/explanation/audio.md: what convolutions of kernel 3, stride 2, padding 1 make",
)
def audio_mask_floor(named: Named, target: Target) -> Iterator[Problem]:
    part, model = named
    if not _FRAMES & {value.name for value in model.graph.inputs}:
        return
    for value in model.graph.outputs:
        if "mask" not in str(value.name) and "length" not in str(value.name):
            continue
        for before in ancestors(value):
            node = before.producer()
            if node is None or node.op_type != "Div" or kind_of(node.inputs[0]) not in _INTEGERS:
                continue
            made_by = node.inputs[0].producer()
            if made_by is None or made_by.op_type not in ("Add", "Sub", "Neg"):
                yield Problem(f"{part}: {value.name}", f"through Div {node.name or ''}".rstrip())


@check(
    "graph/fusion-swapped",
    scope="graph",
    consequence="wrong answer",
    meaning="Features go where the tokens are text, and text where they are placeholders.",
    happens="Every token but the placeholders is replaced.",
    fix="Where(is placeholder, features, text).",
    source="the operands of a Where whose condition compares input_ids",
)
def fusion_swapped(named: Named, target: Target) -> Iterator[Problem]:
    part, model = named
    for node, ids in _merges(model):
        features = [_features(value, ids) for value in node.inputs[1:3]]
        if features[1] and not features[0]:
            where = f"{part}: Where {node.name or ''}".rstrip()
            yield Problem(where, f"{features[1][0]!r} where the comparison is false")


@check(
    "graph/fusion-other-mask",
    scope="graph",
    consequence="wrong answer",
    meaning="Placeholders are counted by one comparison and replaced by another.",
    happens="A placeholder takes another's features, or the row for text.",
    fix="Count and replace by one mask.",
    source="the Equal nodes before the condition and before the index of the features",
)
def fusion_other_mask(named: Named, target: Target) -> Iterator[Problem]:
    part, model = named
    for node, ids in _merges(model):
        if not _features(node.inputs[1], ids):
            continue
        counted = set()
        for value in ancestors(node.inputs[1]):
            made = value.producer()
            if made is not None and made.op_type == "CumSum":
                counted |= _compared(made.inputs[0])
        if counted and counted.isdisjoint(_compared(node.inputs[0])):
            where = f"{part}: Where {node.name or ''}".rstrip()
            yield Problem(where, "its condition is not what the index counts")


def _merges(model: Any) -> Iterator[tuple[Any, Any]]:
    """Every Where that chooses by the token ids, with the ids."""
    ids = next((v for v in model.graph.inputs if v.name == "input_ids"), None)
    if ids is None:
        return
    for node in model.graph.all_nodes():
        if node.op_type != "Where" or len(node.inputs) != 3 or kind_of(node.inputs[2]) in _INTEGERS:
            continue
        if _compared(node.inputs[0]):
            yield node, ids


def _compared(value: Any) -> set[str]:
    """The comparisons before a value, by what they compare with."""
    found = set()
    for before in ancestors(value):
        node = before.producer()
        if node is None or node.op_type != "Equal":
            continue
        constants = [v.const_value for v in node.inputs if v is not None and v.const_value]
        if constants and constants[0].size == 1:
            found.add(str(constants[0].numpy().item()))
        else:
            found.add(str(node.name))
    return found


def _features(value: Any, ids: Any) -> list[str]:
    """The float inputs of the graph before a value."""
    return [
        str(v.name)
        for v in ancestors(value)
        if v.is_graph_input() and v is not ids and kind_of(v) not in (*_INTEGERS, "BOOL")
    ]
