"""Checks of the processor's configuration and of the tokenizer, against the configuration."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mmref.check.base import Problem, Target, check
from mmref.check.keys import MROPE_TYPES
from mmref.package import PROCESSORS, Package, is_file

__all__: list[str] = []

_STEPS = ("DecodeImage", "ConvertRGB", "Resize", "Rescale", "Normalize", "PatchImage")
_TOKENS = {
    "image_token_id": ("<|image_pad|>", "<image_soft_token>", "<|image|>", "[IMG]", "<|image_1|>"),
    "video_token_id": ("<|video_pad|>", "<|video|>"),
    "vision_start_token_id": ("<|vision_start|>",),
    "audio_token_id": ("<|audio_pad|>", "<|AUDIO|>", "<|audio|>", "<audio_soft_token>"),
}


@check(
    "processor/file-missing",
    consequence="refusal",
    meaning="The processor's configuration is not in the folder.",
    happens="No processor can be made: prompts with pictures are refused.",
    fix="Write the processor's configuration, and name it in vision.config_filename.",
    source="ONNX Runtime GenAI: create_multimodal_processor reads the file",
)
def file_missing(package: Package, target: Target) -> Iterator[Problem]:
    for part, default in PROCESSORS.items():
        if not package.part(part):
            continue
        file = package.part(part).get("config_filename", default)
        if str(file) not in package.processors and not is_file(package.folder / str(file)):
            where = f"genai_config.json: model.{part}.config_filename"
            yield Problem(where, f"{file!r} is not in the folder")


@check(
    "processor/layout",
    consequence="refusal",
    meaning="The processor's configuration has not the layout that the engine reads.",
    happens="No processor can be made.",
    fix="It needs the key 'processor' (for audio 'feature_extraction') with a list of steps; "
    "Hugging Face's preprocessor_config.json is another format.",
    source="ONNX Runtime extensions' processor files",
)
def layout(package: Package, target: Target) -> Iterator[Problem]:
    for file, data in package.processors.items():
        if not any(key in data for key in ("processor", "feature_extraction")):
            found = ", ".join(list(data)[:4]) or "nothing"
            yield Problem(f"{file}: processor", f"missing; there is {found}")


@check(
    "processor/steps",
    consequence="wrong answer",
    meaning="A step of the image processor is missing or stands in the wrong place.",
    happens="Pixels arrive in another range, order or layout than the encoder was trained on.",
    fix="The order is " + ", ".join(_STEPS) + ".",
    source="the processors that ONNX Runtime GenAI ships for the Qwen-VL line",
)
def steps(package: Package, target: Target) -> Iterator[Problem]:
    if str(package.model.get("type")) not in MROPE_TYPES:
        return
    for file, data in package.processors.items():
        found = [kind for kind, _ in _operations(data)]
        if not found:
            continue
        for step in _STEPS:
            if step not in found:
                yield Problem(f"{file}: transforms", f"no {step}")
        order = [_STEPS.index(step) for step in found if step in _STEPS]
        if order != sorted(order):
            yield Problem(f"{file}: transforms", ", ".join(found))


@check(
    "processor/patch-size",
    consequence="wrong answer",
    meaning="The processor's patch size is not the model's.",
    happens="The number of patches does not fit the encoder, or pictures are cut elsewhere.",
    fix="Give both the model's own patch_size.",
    source="vision.patch_size against the steps Resize and PatchImage",
)
def patch_size(package: Package, target: Target) -> Iterator[Problem]:
    expected = package.part("vision").get("patch_size")
    for file, data in package.processors.items():
        sizes = {}
        for kind, attributes in _operations(data):
            if "patch_size" in attributes:
                sizes[kind] = attributes["patch_size"]
        if expected is not None:
            sizes["vision.patch_size"] = expected
        if len(set(map(str, sizes.values()))) > 1:
            got = ", ".join(f"{kind} {size}" for kind, size in sizes.items())
            yield Problem(f"{file}: patch_size", got)


@check(
    "processor/normalise",
    consequence="wrong answer",
    meaning="Mean or deviation of the normalisation are not three numbers in the range of pixels.",
    happens="Pixels arrive in another range than the encoder was trained on.",
    fix="Give the model's image_mean and image_std, for pixels from 0 to 1.",
    source="means and deviations of pixels from 0 to 1 lie between 0 and 1",
)
def normalise(package: Package, target: Target) -> Iterator[Problem]:
    for file, data in package.processors.items():
        for kind, attributes in _operations(data):
            if kind != "Normalize":
                continue
            for name, least in (("mean", 0.0), ("std", 1e-3)):
                value = attributes.get(name)
                if value is None:
                    continue
                numbers = value if isinstance(value, list) else [value]
                if len(numbers) != 3 or not all(
                    isinstance(n, int | float) and least <= n <= 1 for n in numbers
                ):
                    yield Problem(f"{file}: Normalize.{name}", repr(value)[:80])


@check(
    "tokens/id-differs",
    consequence="wrong answer",
    meaning="A token id of the configuration is not the one that the tokenizer gives the token.",
    happens="Placeholders in a prompt are not found, or text is taken for them.",
    fix="Give the tokenizer's id.",
    source="added_tokens of tokenizer.json",
)
def id_differs(package: Package, target: Target) -> Iterator[Problem]:
    added = package.tokenizer.get("added_tokens") if package.tokenizer else None
    if not isinstance(added, list):
        return
    ids = {
        entry["content"]: entry["id"]
        for entry in added
        if isinstance(entry, dict) and isinstance(entry.get("content"), str) and "id" in entry
    }
    for key, contents in _TOKENS.items():
        given = package.model.get(key)
        known = {content: ids[content] for content in contents if content in ids}
        if given is not None and known and given not in known.values():
            content, actual = next(iter(known.items()))
            where = f"genai_config.json: model.{key}"
            yield Problem(where, f"{given}, and the tokenizer's {content} is {actual}")


@check(
    "tokens/graph-constant",
    consequence="wrong answer",
    meaning="The embedding graph looks for another token than the configuration names.",
    happens="Features land on no token, or on text, while positions are those of an image.",
    fix="Export the graph with the id of the configuration; an id of 0 is an exporter's default.",
    source="the constants that the graph compares input_ids with",
)
def graph_constant(package: Package, target: Target) -> Iterator[Problem]:
    embedding = package.graphs.get("embedding")
    if embedding is None:
        return
    given = {
        package.model[name]
        for name in ("image_token_id", "video_token_id", "audio_token_id")
        if isinstance(package.model.get(name), int | float)
    }
    for node in embedding.graph.all_nodes():
        if node.op_type != "Equal" or not any(_is_ids(value) for value in node.inputs):
            continue
        for value in node.inputs:
            constant = _scalar(value)
            if constant is not None and given and constant not in given:
                where = f"embedding: Equal {node.name or ''}".rstrip()
                named = ", ".join(map(str, sorted(given, key=str)))
                yield Problem(where, f"compares with {constant}; the configuration has {named}")


def _is_ids(value: Any) -> bool:
    """Whether a value is the token ids, or made of them by casts and reshapes."""
    seen: set[Any] = set()
    while value is not None and value not in seen:  # a damaged graph may go in circles
        seen.add(value)
        if value.name == "input_ids":
            return True
        node = value.producer()
        if node is None or node.op_type not in ("Cast", "Identity", "Unsqueeze", "Reshape"):
            return False
        value = node.inputs[0]
    return False


def _scalar(value: Any) -> int | None:
    """A constant of one element, if a value is one and small enough to be looked at."""
    if value is None:
        return None
    tensor = value.const_value
    node = value.producer()
    if tensor is None and node is not None and node.op_type == "Constant":
        attribute = next(iter(node.attributes.values()), None)
        if attribute is None:
            return None
        if attribute.type.name == "INT":
            return int(attribute.value)
        tensor = attribute.value if attribute.type.name == "TENSOR" else None
    if tensor is None or tensor.size != 1 or hasattr(tensor, "location"):
        return None
    array = tensor.numpy().ravel()
    return int(array[0]) if array.dtype.kind in "iu" else None


def _operations(data: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The steps of a processor: type and attributes."""
    processor = data.get("processor")
    transforms = processor.get("transforms") if isinstance(processor, dict) else None
    found = []
    for entry in transforms if isinstance(transforms, list) else ():
        operation = entry.get("operation") if isinstance(entry, dict) else None
        if isinstance(operation, dict):
            attributes = operation.get("attrs")
            kept = attributes if isinstance(attributes, dict) else {}
            found.append((str(operation.get("type")), kept))
    return found
