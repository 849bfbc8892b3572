"""Frames that are taken: by hand, and every refusal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mmref import families, frames
from mmref.errors import RefusedMedia, UnknownName


def test_by_hand() -> None:
    found = frames.sample(100, 10.0, family="qwen2_5_vl", target_fps=1)
    assert found.indices.tolist() == list(range(0, 100, 10))
    assert found.indices.dtype == np.int64
    assert found.second_per_grid == 2.0
    assert frames.sample(5, 1.0, family="glm4v").indices.tolist() == [0, 1, 2, 3, 4, 4]
    assert frames.sample(9, 3.0, family="qwen2_vl").indices.tolist() == list(range(9))


def test_seconds_lead_to_the_positions_of_the_video() -> None:
    from mmref import mrope, vision

    found = frames.sample(120, 30.0, family="qwen2_5_vl", target_fps=2)
    made = vision.resize(56, 56, family="qwen2_5_vl", frames=len(found.indices), min_pixels=1)
    ids = [151656] * made.tokens
    positions = mrope.position_ids(
        ids,
        family="qwen2_5_vl",
        video_grid_thw=[made.grid_thw],
        second_per_grid_ts=[found.second_per_grid],
    )
    assert positions.position_ids[0, 0, ::4].tolist() == [0, 2, 4, 6]


@pytest.mark.parametrize(
    ("code", "arguments"),
    [
        ("frames-not-sampled", {"family": "gemma3"}),
        ("frames-value", {"frames": 0}),
        ("frames-value", {"frames": 2.5}),
        ("frames-value", {"frames": True}),
        ("frames-value", {"fps": 0}),
        ("frames-value", {"fps": float("nan")}),
        ("frames-value", {"fps": "fast"}),
        ("frames-value", {"target_fps": -1}),
        ("frames-value", {"count": 0}),
        ("frames-value", {"family": "glm4v", "duration": 0}),
        ("frames-both", {"count": 2, "target_fps": 1}),
        ("frames-too-many", {"count": 100}),
        ("frames-too-many", {"frames": 1, "target_fps": 1}),
        ("frames-setting", {"duration": 2.0}),
        ("frames-setting", {"family": "glm4v", "count": 2}),
        ("frames-setting", {"family": "glm46v", "target_fps": 2}),
        ("frames-setting", {"family": "glm46v", "max_frames": 2}),
    ],
)
def test_refusals(code: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(RefusedMedia) as caught:
        frames.sample(**{"frames": 10, "fps": 5.0, "family": "qwen2_5_vl", **arguments})
    assert caught.value.code == code
    assert code in frames.REFUSALS


def test_an_unknown_family_is_named() -> None:
    with pytest.raises(UnknownName):
        frames.sample(10, 5.0, family="qwen9")


def test_every_family_that_samples_keeps_to_the_video() -> None:
    named = [name for name in families.names("all") if families.get(name).media.sampling]
    assert len(named) >= 10
    for name in named:
        for total in (4, 31, 500, 100_000):
            found = frames.sample(total, 24.0, family=name).indices
            assert found.min() >= 0
            assert found.max() < total
            assert (np.diff(found) >= 0).all()
