"""Checks of attention and of its rotary tables, in decoders and vision encoders."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from mmref.check.base import Problem, Target, check
from mmref.check.graph import ancestors, kind_of, sizes_of
from mmref.check.keys import MROPE_TYPES
from mmref.package import Package

__all__: list[str] = []

Named = tuple[str, Any]  # a part's name and its onnx_ir.Model

_BLOCK = re.compile(r"\b(?:blocks|layers)[./]\d+")
_AXIS_TABLES = frozenset({"freq_table", "inv_freq", "cos_table", "sin_table"})
_FLOATS = frozenset({"FLOAT", "FLOAT16", "BFLOAT16"})
_MASK_INPUT = {"Attention": 3, "MultiHeadAttention": 5}
# what these make is no longer the tokens' own keys: a past behind them belongs to another layer
_MIXERS = frozenset(
    {"Attention", "MultiHeadAttention", "GroupQueryAttention"} | {"MatMul", "Gemm", "MatMulNBits"}
)
_OF_HIDDEN_STATES = frozenset({"Add", "MatMul", "Gemm", "Mul"})
_WINDOWED = frozenset({"fara", "qwen2_5_vl"})
_LARGEST_MASK = 4096  # elements of a table of dimensions that are looked at


@check(
    "graph/causal-alignment",
    scope="graph",
    consequence="wrong answer",
    meaning="A causal Attention without a past has more keys than queries.",
    happens="On the CPU the first query is taken for the first token: in decode steps the new one "
    "sees the first key and nothing else.",
    fix="Give it its past (inputs 4 and 5), or a mask in place of is_causal.",
    source="run on ONNX Runtime 1.32: with one query over four keys only the first key counts",
)
def causal_alignment(named: Named, target: Target) -> Iterator[Problem]:
    part, model = named
    for node in model.graph.all_nodes():
        if node.op_type != "Attention" or node.domain or not _flag(node, "is_causal"):
            continue
        if any(value is not None for value in node.inputs[4:7]):
            continue
        queries, keys = (_length(value) for value in node.inputs[:2])
        before = ancestors(node.inputs[1], stop=_MIXERS)
        pasts = [value for value in before if str(value.name).startswith("past_")]
        if pasts or (queries is not None and keys is not None and queries != keys):
            got = f"{queries} queries, {keys} keys"
            if pasts:
                got += f", which come from {pasts[0].name}"
            yield Problem(f"{part}: {node.op_type} {node.name or ''}".rstrip(), got)


def _flag(node: Any, name: str) -> bool:
    attribute = node.attributes.get(name)
    return attribute is not None and attribute.value == 1


def _length(value: Any) -> str | None:
    """The side that counts tokens: the second of three, the third of four."""
    if value is None or value.shape is None or len(value.shape) not in (3, 4):
        return None
    side = value.shape[len(value.shape) - 2]
    text = str(side) if isinstance(side, int) else getattr(side, "value", None)
    return None if text is None else str(text)


@check(
    "graph/rotary-sections",
    scope="graph",
    consequence="wrong answer",
    meaning="The dimensions that turn with height and with width overlap, or do not fit the table.",
    happens="Some dimensions are turned twice or never: pictures lose their layout.",
    fix="h_mask and w_mask each have the table's width and no dimension in common.",
    source="M-RoPE gives every rotary dimension one axis (mrope_section)",
)
def rotary_sections(named: Named, target: Target) -> Iterator[Problem]:
    part, model = named
    found: dict[str, Any] = {}
    for name, value in model.graph.initializers.items():
        found.setdefault(name.rpartition(".")[2], (name, value))
    if "h_mask" not in found or "w_mask" not in found:
        return
    masks = []
    for key in ("h_mask", "w_mask"):
        name, value = found[key]
        sizes = sizes_of(value)
        width = sizes_of(found["cos_cache"][1])[-1:] if "cos_cache" in found else sizes[-1:]
        if sizes[-1:] != width:
            yield Problem(f"{part}: {name}", f"{sizes[-1:]} dimensions, and the table has {width}")
            return
        tensor = value.const_value
        if tensor is None or tensor.size > _LARGEST_MASK or hasattr(tensor, "location"):
            return
        masks.append(tensor.numpy().ravel() != 0)
    both = int((masks[0] & masks[1]).sum())
    if both:
        yield Problem(f"{part}: {found['h_mask'][0]}", f"{both} dimensions are also in w_mask")
    for (name, _), mask in zip((found["h_mask"], found["w_mask"]), masks, strict=True):
        if not mask.any():
            yield Problem(f"{part}: {name}", "no dimension")


@check(
    "graph/vision-rotary-size",
    consequence="wrong answer",
    meaning="The vision encoder's rotary table has other frequencies than two axes need.",
    happens="Patches are turned by the wrong angles: pictures lose their layout.",
    fix="Half of each head turns with height, half with width: a quarter of its size each.",
    source="VisionRotaryEmbedding(head_dim // 2) of the Qwen-VL line in transformers",
)
def vision_rotary_size(package: Package, target: Target) -> Iterator[Problem]:
    vision = package.graphs.get("vision")
    if vision is None or str(package.model.get("type")) not in MROPE_TYPES:
        return
    heads = {size for node in vision.graph.all_nodes() if (size := _head_size(node)) is not None}
    if len(heads) != 1:
        return
    (head,) = heads
    for name, value in vision.graph.initializers.items():
        sizes = sizes_of(value)
        if name.rpartition(".")[2] in _AXIS_TABLES and sizes and sizes[-1] != head // 4:
            got = f"{sizes[-1]} frequencies an axis for heads of {head}"
            yield Problem(f"vision: {name}", got, fix=f"{head // 4} frequencies an axis.")


def _head_size(node: Any) -> int | None:
    """The size of an attention's heads, where it is declared."""
    if node.op_type not in ("Attention", "MultiHeadAttention") or not node.inputs:
        return None
    shape = node.inputs[0].shape if node.inputs[0] is not None else None
    if shape is None or type(shape[len(shape) - 1]) is not int:
        return None
    last = int(shape[len(shape) - 1])
    if len(shape) == 4:
        return last
    for name in ("q_num_heads", "num_heads"):
        attribute = node.attributes.get(name)
        if attribute is not None and attribute.value:
            return last // int(attribute.value)
    return None


@check(
    "graph/full-attention-blocks",
    consequence="wrong answer",
    meaning="All attention blocks of a vision encoder share one mask, where some see windows and "
    "some the whole picture.",
    happens="Features part from the model's from the first full (or windowed) block on.",
    fix="Export fullatt_block_indexes: blocks named there take the whole picture's mask.",
    source="Qwen2.5-VL alternates windowed and full attention; an export with and one "
    "without full blocks were compared",
)
def full_attention_blocks(package: Package, target: Target) -> Iterator[Problem]:
    vision = package.graphs.get("vision")
    if vision is None or str(package.model.get("type")) not in _WINDOWED:
        return
    masks = []
    for node in vision.graph.all_nodes():
        index = _MASK_INPUT.get(node.op_type)
        if index is not None and len(node.inputs) > index and node.inputs[index] is not None:
            masks.append(frozenset(_lengths_of(node.inputs[index])))
    if len(masks) > 1 and masks[0] and len(set(masks)) == 1:
        yield Problem("vision: attention masks", f"{len(masks)} blocks, one mask")


def _lengths_of(mask: Any) -> Iterator[str]:
    """The integers outside all blocks that a mask is made from: the lengths of its stretches."""
    seen: set[int] = set()
    stack = [mask]
    while stack:
        value = stack.pop()
        if value is None or id(value) in seen:
            continue
        seen.add(id(value))
        node = value.producer()
        inside = _BLOCK.search(str(value.name)) is not None
        if not inside:
            made = node is not None and node.op_type != "Constant"
            if kind_of(value) == "INT64" and (made or value.is_graph_input()):
                yield str(value.name)
        elif node is not None:
            hidden = kind_of(value) in _FLOATS and node.op_type in _OF_HIDDEN_STATES
            if value is mask or not hidden:
                stack += node.inputs
