"""Scripts that show a case on an engine without mmref: what one pastes into an issue."""

from __future__ import annotations

import base64
import tempfile
from pathlib import Path

from mmref import families
from mmref.case import Array, Case
from mmref.differential.subjects import reference
from mmref.errors import UnknownName

__all__ = ["script_for"]

_HEAD = '''"""Positions of one prompt: what {engine} computes, and what is expected."""

import numpy as np

input_ids = {ids}
attention_mask = {mask}
image_grid_thw = {images}
video_grid_thw = {videos}
second_per_grid_ts = {seconds}
expected = {expected}

'''
_TRANSFORMERS = """
import types

import torch
import transformers
from transformers.models.{family}.modeling_{family} import {owner} as Model
{processor}

image_id, video_id = {image_id}, {video_id}
stub = types.SimpleNamespace(rope_deltas=None)
vision = types.SimpleNamespace(spatial_merge_size={merge}, tokens_per_second={rate})
stub.config = types.SimpleNamespace(vision_config=vision)
for name in ("get_rope_index", "get_vision_position_ids"):
    setattr(stub, name, types.MethodType(getattr(Model, name), stub))
processor = types.SimpleNamespace(
    image_token_id=image_id, video_token_id=video_id, image_token_ids=[image_id],
    video_token_ids=[video_id], audio_token_ids=[None],
    video_start_id={video_start}, video_end_id={video_end},
)
ids = np.array(input_ids)
kept = np.ones(ids.shape, bool) if attention_mask is None else np.array(attention_mask) != 0
token_types = np.zeros(ids.shape, np.int32)
rows = [ids[row][kept[row]].tolist() for row in range(len(ids))]
for row, found in enumerate(Processor.create_mm_token_type_ids(processor, rows)):
    token_types[row, kept[row]] = found


def tensor(value):
    return None if value is None else torch.tensor(value)


extra = {{}} if second_per_grid_ts is None else {{"second_per_grid_ts": second_per_grid_ts}}
try:
    positions, deltas = stub.get_rope_index(
        torch.tensor(input_ids), mm_token_type_ids=torch.from_numpy(token_types),
        image_grid_thw=tensor(image_grid_thw), video_grid_thw=tensor(video_grid_thw),
        attention_mask=tensor(attention_mask), **extra,
    )
    actual = positions.numpy().astype(int).tolist()
except Exception as error:
    actual = f"{{type(error).__name__}}: {{error}}"
print("transformers", transformers.__version__)
"""
_GENAI = """
import base64
import pathlib
import tempfile

import onnxruntime_genai as og

# a configuration and three graphs without weights
FILES = {files}
folder = tempfile.mkdtemp()
for name, content in FILES.items():
    (pathlib.Path(folder) / name).write_bytes(base64.b64decode(content))
model = og.Model(folder)
ids = np.array(input_ids, np.int32)
if attention_mask is not None:
    ids = np.where(np.array(attention_mask) != 0, ids, {pad}).astype(np.int32)
parameters = og.GeneratorParams(model)
parameters.set_search_options(max_length=ids.shape[1] + 1, batch_size=len(ids), do_sample=False)
generator = og.Generator(model, parameters)
tensors = og.NamedTensors()
if image_grid_thw is not None:
    tensors["image_grid_thw"] = np.array(image_grid_thw, np.int64)
if video_grid_thw is not None:
    tensors["video_grid_thw"] = np.array(video_grid_thw, np.int64)
if second_per_grid_ts is not None:
    tensors["second_per_grid_ts"] = np.array(second_per_grid_ts, np.float32)
tensors["input_ids"] = ids
try:
    generator.set_inputs(tensors)
    actual = np.array(generator.get_input("position_ids")).tolist()
except Exception as error:
    actual = f"{{type(error).__name__}}: {{error}}"
print("onnxruntime-genai", og.__version__)
"""
_TAIL = """
print("actual  ", actual)
print("expected", expected)
print("the same" if actual == expected else "DIFFERENT")
"""
_KNOWN = ("transformers", "onnxruntime-genai")


def script_for(case: Case, engine: str) -> str:
    """A stand-alone script for a case of positions.

    Parameters
    ----------
    case : Case
        The case.
    engine : str
        ``"transformers"`` or ``"onnxruntime-genai"``.

    Returns
    -------
    str
        Python; it imports NumPy and the engine only, and prints whether they agree.

    Raises
    ------
    UnknownName
        If there is no script for the engine.
    """
    if engine not in _KNOWN:
        raise UnknownName("engine", engine, _KNOWN)
    answer = reference(case)
    expected = "'a refusal: " + answer.error + "'"
    if answer.status == "answer":
        expected = repr(answer.arrays["position_ids"].tolist())
    head = _HEAD.format(
        engine=engine,
        expected=expected,
        ids=_literal(case.arrays["input_ids"]),
        mask=_literal(case.arrays.get("attention_mask")),
        images=_literal(case.arrays.get("image_grid_thw")),
        videos=_literal(case.arrays.get("video_grid_thw")),
        seconds=_seconds(case.arrays.get("second_per_grid_ts"), engine),
    )
    body = _transformers(case) if engine == "transformers" else _genai(case)
    return head + body.lstrip("\n") + _TAIL


def _literal(array: Array | None) -> str:
    return "None" if array is None else repr(array.tolist())


def _seconds(array: Array | None, engine: str) -> str:
    if array is None or engine != "transformers" or array.dtype.kind != "f":
        return _literal(array)
    # a list and a float32 tensor are computed differently
    text = repr(array.tolist()).replace("nan", "float('nan')").replace("inf", "float('inf')")
    return text if array.dtype.itemsize == 8 else f"__import__('torch').tensor({text})"


def _transformers(case: Case) -> str:
    family = families.get(case.family)
    token_ids = case.ids or family.token_ids
    rate = case.scalars.get("tokens_per_second", family.tokens_per_second)
    if isinstance(rate, float) and rate.is_integer():
        rate = int(rate)
    processor = "from transformers.processing_utils import ProcessorMixin as Processor"
    if family.media_kinds == "by_video_markers":
        module = "transformers.models.glm4v.processing_glm4v"
        processor = f"from {module} import Glm4vProcessor as Processor"
    return _TRANSFORMERS.format(
        family=family.name,
        owner=family.transformers_class,
        processor=processor,
        image_id=token_ids.image,
        video_id=token_ids.video,
        video_start=token_ids.video_start,
        video_end=token_ids.video_end,
        merge=case.scalars.get("spatial_merge_size", family.spatial_merge_size),
        rate=rate,
    )


def _genai(case: Case) -> str:
    from mmref.engines.genai import GenAI
    from mmref.probes import write_package

    with tempfile.TemporaryDirectory() as folder:
        write_package(Path(folder), GenAI().package(case))
        files = {
            path.name: base64.b64encode(path.read_bytes()).decode()
            for path in sorted(Path(folder).iterdir())
        }
    pad = (case.ids or families.get(case.family).token_ids).pad or 0
    lines = ",\n".join(f"    {name!r}: {text!r}" for name, text in files.items())
    return _GENAI.format(files="{\n" + lines + ",\n}", pad=pad)
