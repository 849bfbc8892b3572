"""Frames that are taken, against the video processors of transformers themselves."""

from __future__ import annotations

import random
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mmref import families, frames

pytestmark = pytest.mark.engine
pytest.importorskip("torch")
pytest.importorskip("transformers")

from transformers.video_utils import VideoMetadata  # noqa: E402

_CLASSES = {
    "qwen2_vl": ("qwen2_vl", "Qwen2VLVideoProcessor"),
    "qwen2_5_vl": ("qwen2_vl", "Qwen2VLVideoProcessor"),
    "qwen3_vl": ("qwen3_vl", "Qwen3VLVideoProcessor"),
    "qwen3_5": ("qwen3_vl", "Qwen3VLVideoProcessor"),
    "glm4v": ("glm4v", "Glm4vVideoProcessor"),
    "glm46v": ("glm46v", "Glm46VVideoProcessor"),
}
_RATES = [1.0, 5.0, 12.5, 15.0, 23.976, 24.0, 25.0, 29.97, 30.0, 59.94, 60.0, 1 / 3]


@cache
def processor(family: str) -> Any:
    """The class's function, with the class's own values and no processor behind it."""
    from mmref.engines.source import load

    module, name = _CLASSES[family]
    file = f"transformers.models.{module}.video_processing_{module}"
    import torch

    scope = {"torch": torch, "VideoMetadata": VideoMetadata}
    function = load(file, f"{name}.sample_frames", scope=scope)[f"{name}.sample_frames"]
    values = {"num_frames": None, "fps": None, **defaults(file, name)}
    assert values["do_sample_frames"] == (module != "qwen2_vl")
    return lambda **asked: function(SimpleNamespace(**values), **asked)


def defaults(module: str, name: str) -> dict[str, Any]:
    """Plain values that the class body sets, read and not run."""
    import ast
    from pathlib import Path

    from mmref.engines.source import _path

    tree = ast.parse(Path(_path(module)).read_text(encoding="utf-8"))
    body = next(n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == name).body
    found = {}
    for statement in body:
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant):
            found[statement.targets[0].id] = statement.value.value  # type: ignore[attr-defined]
    return found


def compare(family: str, total: int, fps: float, **asked: Any) -> bool:
    """Whether both take the same frames, or both refuse."""
    metadata = VideoMetadata(total_num_frames=total, fps=fps, duration=asked.pop("duration", None))
    renamed = {"target_fps": "fps", "count": "num_frames"}
    theirs = {renamed.get(name, name): value for name, value in asked.items()}
    try:
        expected = np.asarray(processor(family)(metadata=metadata, **theirs)).tolist()
    except (ValueError, ZeroDivisionError):
        expected = None
    except TypeError:  # its function needs to be told; the processor then takes every frame
        assert not {"fps", "num_frames"} & set(theirs)
        expected = list(range(total))
    if metadata.duration is not None:
        asked["duration"] = metadata.duration
    try:
        found = frames.sample(total, fps, family=family, **asked)
    except frames.RefusedMedia:
        assert expected is None, (family, total, fps, asked)
        return False
    assert found.indices.tolist() == expected, (family, total, fps, asked)
    metadata.frames_indices = expected
    assert found.seconds.tolist() == [float(time) for time in metadata.timestamps]
    assert found.second_per_grid == 2 / metadata.sampled_fps
    return True


@pytest.mark.parametrize("family", _CLASSES)
def test_every_length_is_sampled_as_the_processor_does(family: str) -> None:
    answered = 0
    for total in range(1, 120):
        for fps in (24.0, 29.97):
            answered += compare(family, total, fps)
    assert answered > 200


@pytest.mark.parametrize("family", _CLASSES)
def test_settings_are_followed_as_the_processor_does(family: str) -> None:
    drawn = random.Random(family)
    answered = 0
    for _ in range(400):
        total = int(10 ** drawn.uniform(0, 5.3))
        asked: dict[str, Any] = {}
        if families.get(family).media.sampling.rule in ("by_step", "spread"):  # type: ignore[union-attr]
            if drawn.random() < 0.4:
                asked["count"] = drawn.randint(1, 900)
            elif drawn.random() < 0.7:
                asked["target_fps"] = drawn.choice([0.5, 1.0, 2.0, 3.0, 24.0, 1.7])
        elif drawn.random() < 0.5:
            asked["duration"] = drawn.choice([0.4, 3.0, 29.9, 30.5, 299.0, 301.0, 2400.5, 5000.0])
        if family == "glm4v" and drawn.random() < 0.5:
            asked["target_fps"] = drawn.choice([0.5, 1.0, 2.0, 3.0])
        if family.startswith("qwen2") and drawn.random() < 0.3:
            asked |= {"min_frames": drawn.randint(1, 8), "max_frames": drawn.randint(8, 900)}
        answered += compare(family, total, drawn.choice(_RATES), **asked)
    assert answered > 150
