"""Checks of genai_config.json: what is missing, of the wrong kind, or does not fit the graphs."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any

from mmref.check.base import Problem, Target, check
from mmref.check.keys import KEYS, MROPE_TYPES, TEXT_TYPES, TOKEN_IDS, TYPES
from mmref.package import Package

__all__: list[str] = []

_FILE = "genai_config.json"
_PROBED = "probed on ONNX Runtime GenAI 0.18.0"
_POSITIONS = f"{_PROBED}: positions read back from packages that differ in this key alone"


def _integer(value: Any) -> bool:
    return type(value) is int or (isinstance(value, float) and value.is_integer())


@check(
    "config/unknown-key",
    consequence="refusal",
    meaning="The configuration has a key that the engine does not know.",
    happens="The model does not load: JSON Error, Unknown value.",
    fix="Remove the key, or put it where it belongs.",
    source=_PROBED,
)
def unknown_key(package: Package, target: Target) -> Iterator[Problem]:
    for path, known in KEYS.items():
        found: Any = package.config
        for key in path.split("."):
            found = found.get(key) if isinstance(found, dict) else None
        for key in found if isinstance(found, dict) else ():
            if key in known:
                continue
            elsewhere = [place for place, keys in KEYS.items() if key in keys]
            closest = difflib.get_close_matches(key, known, n=1)
            fix = f"did you mean {closest[0]}?" if closest else ""
            if elsewhere:
                fix = f"It belongs under {elsewhere[0]}."
            yield Problem(f"{_FILE}: {path}.{key}", "not a key of this object", fix=fix)


@check(
    "config/wrong-kind",
    consequence="refusal",
    meaning="A value is of another kind than the engine reads there.",
    happens="The model does not load: JSON Error, Expected.",
    fix="Names are text, numbers are whole, and inputs and outputs are objects.",
    source=_PROBED,
)
def wrong_kind(package: Package, target: Target) -> Iterator[Problem]:
    for path in KEYS:
        part: Any = package.config
        for key in path.split("."):
            part = part.get(key) if isinstance(part, dict) else None
        for key, value in part.items() if isinstance(part, dict) else ():
            expected = _kind_of(path, key)
            good = {
                "text": isinstance(value, str),
                "a whole number": _integer(value),
                "a number": type(value) in (int, float),
                "an object": isinstance(value, dict),
                "a whole number or a list of them": _integer(value)
                or (isinstance(value, list) and all(map(_integer, value))),
            }
            if expected and not good[expected]:
                got = f"{str(value)[:40]!r}, expected {expected}"
                yield Problem(f"{_FILE}: {path}.{key}", got)


def _kind_of(path: str, key: str) -> str:
    if path.endswith((".inputs", ".outputs")):
        return "text"
    if key in ("inputs", "outputs"):
        return "an object"
    if key == "config_filename":
        return "text"
    if key == "eos_token_id":
        return "a whole number or a list of them"
    if key == "tokens_per_second":
        return "a number"
    if key.startswith("num_") or key in ("hidden_size", "head_size", "patch_size", "window_size"):
        return "a whole number"
    return ""


@check(
    "config/model-type",
    consequence="refusal",
    meaning="model.type is none that the engine knows, or none that it runs with media.",
    happens="Unsupported model_type, or a package with a vision graph is run as text alone.",
    fix="Give the multimodal type; exporters write the text model's.",
    source=f"{_PROBED}; mobius-onnx writes qwen2_5_vl_text",
)
def model_type(package: Package, target: Target) -> Iterator[Problem]:
    kind = package.model.get("type")
    has_media = any(package.part(name) for name in ("vision", "speech"))
    known = TYPES if has_media else TYPES | TEXT_TYPES
    if not isinstance(kind, str) or kind not in known:
        closest = difflib.get_close_matches(str(kind), known, n=1)
        fix = f"did you mean {closest[0]!r}?" if closest else ""
        yield Problem(f"{_FILE}: model.type", repr(kind), fix=fix)


@check(
    "config/token-id-missing",
    consequence="wrong answer",
    meaning="A token id that 3-D positions need is not given.",
    happens="It is 0, images are not found, and their tokens are numbered like text, without an "
    "error.",
    fix="Add it under model (not under model.vision), from the model's own config.json.",
    source=_POSITIONS,
)
def token_id_missing(package: Package, target: Target) -> Iterator[Problem]:
    if not _is_mrope(package):
        return
    for name in ("image_token_id", "vision_start_token_id"):
        if name not in package.model:
            yield Problem(f"{_FILE}: model.{name}", "missing")


@check(
    "config/token-id-value",
    consequence="refusal",
    meaning="A token id is no integer, negative, or not below vocab_size.",
    happens="What is no integer does not load; another is never found in a prompt.",
    fix="Give the id that the tokenizer has for the token.",
    source=_PROBED,
)
def token_id_value(package: Package, target: Target) -> Iterator[Problem]:
    vocabulary = _integer_of(package, "vocab_size") or 0
    for name in ("pad_token_id", "bos_token_id", *TOKEN_IDS):
        if name not in package.model:
            continue
        value = package.model[name]
        where = f"{_FILE}: model.{name}"
        if not _integer(value):
            yield Problem(where, repr(value), "The configuration does not load.")
        elif value < 0 or value >= vocabulary > 0:
            happens = "The token is never found: its media are numbered like text."
            got = f"{value}, vocab_size {vocabulary}"
            used = name in TOKEN_IDS
            yield Problem(where, got, happens, consequence="wrong answer" if used else "refusal")


@check(
    "config/token-ids-equal",
    consequence="wrong answer",
    meaning="Two tokens that must be told apart have one id.",
    happens="One of them is taken for the other.",
    fix="Give each the id that the tokenizer has for it.",
    source=_POSITIONS,
)
def token_ids_equal(package: Package, target: Target) -> Iterator[Problem]:
    seen: dict[Any, str] = {}
    for name in TOKEN_IDS:
        value = package.model.get(name)
        if not _integer(value):
            continue
        if value in seen:
            yield Problem(f"{_FILE}: model.{name}", f"{value}, which is also {seen[value]}")
        seen.setdefault(value, name)


@check(
    "config/pad-token",
    consequence="wrong answer",
    meaning="The engine takes an ordinary or a media token for padding.",
    happens="Padding is recognised by id, wherever it stands: such a token gets position 0, is "
    "masked, and counts for nothing.",
    fix="Give a pad_token_id that stands nowhere in a prompt.",
    source=_POSITIONS,
)
def pad_token(package: Package, target: Target) -> Iterator[Problem]:
    if not _is_mrope(package):
        return
    pad = package.model.get("pad_token_id")
    where = f"{_FILE}: model.pad_token_id"
    if pad is None:
        yield Problem(where, "missing, so 0", "Every token 0 of a prompt is taken for padding.")
        return
    for name in TOKEN_IDS:
        if _integer(pad) and package.model.get(name) == pad:
            yield Problem(where, f"{pad}, which is also {name}")
    ends = package.model.get("eos_token_id")
    if pad == ends or (isinstance(ends, list) and pad in ends):
        happens = "An end-of-turn token inside a prompt is taken for padding."
        yield Problem(where, f"{pad}, which is also eos_token_id", happens)


@check(
    "config/merge-size",
    consequence="wrong answer",
    meaning="vision.spatial_merge_size is missing, no positive integer, or not what the processor "
    "merges by.",
    happens="Grids and placeholders no longer fit, and images are numbered like text or refused.",
    fix="Give the model's own merge size.",
    source=_POSITIONS,
)
def merge_size(package: Package, target: Target) -> Iterator[Problem]:
    where = f"{_FILE}: model.vision.spatial_merge_size"
    merge = package.part("vision").get("spatial_merge_size")
    if not _is_mrope(package):
        if merge is not None and not _integer(merge):
            happens = "The configuration does not load."
            yield Problem(where, repr(merge), happens, consequence="refusal")
        return
    if merge is None:
        for other in _processor_values(package, "merge_size"):
            if other != 2:
                yield Problem(where, f"missing, so 2, and the processor merges by {other}")
        return
    if not _integer(merge):
        yield Problem(where, repr(merge), "The configuration does not load.", consequence="refusal")
    elif merge == 0:
        happens = "The process is killed (division by zero) at the first image."
        yield Problem(where, "0", happens, consequence="crash")
    elif merge < 0:
        yield Problem(where, str(merge), "Images are refused, or placed by accident.")
    else:
        for other in _processor_values(package, "merge_size"):
            if other != merge:
                yield Problem(where, f"{merge}, and the processor merges by {other}")


@check(
    "config/sizes",
    consequence="refusal",
    meaning="vocab_size or context_length is missing, not positive, or not the graph's.",
    happens="The model does not load, no generator can be made, or the first run fails.",
    fix="Give the model's own values.",
    source=_PROBED,
)
def sizes(package: Package, target: Target) -> Iterator[Problem]:
    for name in ("vocab_size", "context_length"):
        value = _integer_of(package, name)
        if value is None or value < 1:
            given = package.model.get(name)
            yield Problem(f"{_FILE}: model.{name}", "missing" if given is None else repr(given))
        elif name == "vocab_size":
            logits = _decoder_value(package, "outputs", "logits")
            width = logits.shape[-1] if logits is not None and logits.shape else None
            if type(width) is int and width != value:
                yield Problem(f"{_FILE}: model.{name}", f"{value}, and the graph has {width}")


@check(
    "config/file-missing",
    consequence="refusal",
    meaning="A graph that the configuration names, or must name, is not in the folder.",
    happens="The model does not load; where a part is missing altogether, the engine says that the "
    "model path is a directory.",
    fix="Give the file's name, relative to the folder and inside it.",
    source=_PROBED,
)
def file_missing(package: Package, target: Target) -> Iterator[Problem]:
    for name, file in package.missing.items():
        yield Problem(f"{_FILE}: model.{name}.filename", f"{file!r} is not a file of the folder")
    kind = package.model.get("type")
    needed = ["decoder"]
    if _is_mrope(package) or (isinstance(kind, str) and kind in TYPES - {"whisper"}):
        needed += ["embedding", "vision"]
    if kind in ("gemma4", "phi4mm"):
        needed += ["speech"]
    for name in needed:
        if not {"filename", "pipeline"} & set(package.part(name)):
            yield Problem(f"{_FILE}: model.{name}.filename", "missing")


@check(
    "config/name-not-in-graph",
    consequence="refusal",
    meaning="An input or output that the configuration names is not one of the graph.",
    happens="The model may load; the first run fails: Missing Input.",
    fix="Name the graph's own input or output.",
    source=_PROBED,
)
def name_not_in_graph(package: Package, target: Target) -> Iterator[Problem]:
    for part, graph in package.graphs.items():
        for side, known in (("inputs", graph.graph.inputs), ("outputs", graph.graph.outputs)):
            names = {value.name for value in known}
            given = package.part(part).get(side)
            for key, value in given.items() if isinstance(given, dict) else ():
                name = _layer_zero(value)
                if name is None or name in names or (part, key) == ("embedding", "input_ids"):
                    continue  # the engine does not go by the last one
                if _some_layer(value, names):
                    continue  # of hybrid models some layers have no cache of keys
                closest = difflib.get_close_matches(name, [str(n) for n in names], n=1)
                fix = f"did you mean {closest[0]!r}?" if closest else ""
                yield Problem(f"{_FILE}: model.{part}.{side}.{key}", f"{name!r}", fix=fix)


def _layer_zero(name: Any) -> str | None:
    """The name of the first layer, for keys that name one a layer."""
    return name.replace("%d", "0") if isinstance(name, str) else None


def _some_layer(name: str, names: set[Any]) -> bool:
    before, sign, after = name.partition("%d")
    return bool(sign) and any(
        str(known).startswith(before)
        and str(known).endswith(after)
        and str(known)[len(before) : len(str(known)) - len(after)].isdigit()
        for known in names
    )


@check(
    "config/position-ids-rank",
    consequence="wrong answer",
    meaning="The rank of the decoder's position_ids does not fit the model type.",
    happens="A rank of 2 under an M-RoPE type is fed text positions; a rank of 3 under another "
    "type is refused.",
    fix="Export the decoder with position_ids (3, batch, sequence) for M-RoPE, or mend the type.",
    source=f"{_PROBED}: both were run",
)
def position_rank(package: Package, target: Target) -> Iterator[Problem]:
    value = _decoder_input(package, "position_ids")
    kind = str(package.model.get("type", ""))
    if value is None or value.shape is None:
        return
    rank = len(value.shape)
    where = "decoder: position_ids"
    if kind in MROPE_TYPES and rank == 2:
        yield Problem(where, f"rank 2 for {kind}")
    elif kind in MROPE_TYPES and (rank != 3 or value.shape[0] not in (3, "3")):
        got = f"shape {[str(side) for side in value.shape]} for {kind}"
        yield Problem(where, got, "The run fails.", consequence="refusal")
    elif kind and kind not in MROPE_TYPES and rank == 3:
        happens = "The run fails: Invalid rank for input, Got: 2 Expected: 3."
        yield Problem(where, f"rank 3 for {kind}", happens, consequence="refusal")


@check(
    "config/position-ids-dtype",
    consequence="refusal",
    meaning="position_ids and attention_mask of the decoder have different types.",
    happens="Positions are made in the type of the mask: Unexpected input data type.",
    fix="Export both as int64.",
    source=_PROBED,
)
def position_dtype(package: Package, target: Target) -> Iterator[Problem]:
    positions = _decoder_input(package, "position_ids")
    mask = _decoder_input(package, "attention_mask")
    if positions is not None and mask is not None and positions.dtype != mask.dtype:
        got = f"{positions.dtype.name}, attention_mask {mask.dtype.name}"
        yield Problem("decoder: position_ids", got)


@check(
    "config/shared-buffer",
    consequence="refusal",
    meaning="past_present_share_buffer is on and the decoder has no GroupQueryAttention.",
    happens="Past and present are one buffer that such a decoder cannot write to in place.",
    fix="Set search.past_present_share_buffer to false.",
    source="ONNX Runtime GenAI's own exporter sets it for that operator alone",
)
def shared_buffer(package: Package, target: Target) -> Iterator[Problem]:
    search = package.config.get("search")
    shared = isinstance(search, dict) and search.get("past_present_share_buffer") is True
    decoder = package.graphs.get("decoder")
    if shared and decoder is not None:
        kinds = {node.op_type for node in decoder.graph.all_nodes()}
        if "GroupQueryAttention" not in kinds:
            yield Problem(f"{_FILE}: search.past_present_share_buffer", "true")


@check(
    "config/decoder-sizes",
    consequence="refusal",
    meaning="decoder.hidden_size is missing or not the graph's.",
    happens="Buffers of another size are made: Got invalid dimensions.",
    fix="Give the graph's own size. (head_size and the number of heads are read off the graph.)",
    source=_PROBED,
)
def decoder_sizes(package: Package, target: Target) -> Iterator[Problem]:
    given = package.part("decoder").get("hidden_size")
    embeds = _decoder_input(package, "inputs_embeds")
    if embeds is None or embeds.shape is None or len(embeds.shape) != 3:
        return
    width = embeds.shape[2]
    if type(width) is int and given != width:
        got = "missing" if given is None else repr(given)
        yield Problem(f"{_FILE}: model.decoder.hidden_size", f"{got}, and the graph has {width}")


def _is_mrope(package: Package) -> bool:
    """Whether the model has 3-D positions, also where its type is given wrongly."""
    kind = str(package.model.get("type"))
    positions = _decoder_input(package, "position_ids")
    rank = len(positions.shape) if positions is not None and positions.shape is not None else 0
    return kind in MROPE_TYPES or kind.removesuffix("_text") in MROPE_TYPES or rank == 3


def _integer_of(package: Package, name: str) -> int | None:
    value = package.model.get(name)
    return int(value) if value is not None and _integer(value) else None


def _processor_values(package: Package, name: str) -> list[Any]:
    """The values of a name in the processor's configuration, wherever in it."""
    found = []
    stack: list[Any] = list(package.processors.values())
    while stack:
        entry = stack.pop()
        if isinstance(entry, dict):
            if name in entry:
                found.append(entry[name])
            stack += entry.values()
        elif isinstance(entry, list):
            stack += entry
    return found


def _decoder_input(package: Package, name: str) -> Any:
    return _decoder_value(package, "inputs", name)


def _decoder_value(package: Package, side: str, name: str) -> Any:
    """An input or output of the decoder, by what the engine calls it."""
    graph = package.graphs.get("decoder")
    if graph is None:
        return None
    names = package.part("decoder").get(side)
    called = names.get(name, name) if isinstance(names, dict) else name
    return next((value for value in getattr(graph.graph, side) if value.name == called), None)
