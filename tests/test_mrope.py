"""Examples that can be checked by hand; the properties are in tests/properties."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from mmref import families, mrope
from mmref.families import TokenIds

IDS = TokenIds(image=10, video=11, vision_start=12, vision_end=13, video_start=14, video_end=15)


def positions(ids: list[int], family: str, **arguments: object) -> list[list[int]]:
    result = mrope.position_ids(ids, family=family, token_ids=IDS, **arguments)  # type: ignore[arg-type]
    assert result.position_ids.dtype == np.int64
    return result.position_ids[:, 0].tolist()  # type: ignore[no-any-return]


def test_one_image_between_text() -> None:
    assert positions([5, 10, 10, 10, 10, 6], "qwen2_vl", image_grid_thw=[[1, 4, 4]]) == [
        [0, 1, 1, 1, 1, 3],
        [0, 1, 1, 2, 2, 3],
        [0, 1, 2, 1, 2, 3],
    ]


def test_text_resumes_after_the_longest_axis_of_a_video() -> None:
    ids = [12, *[11] * 3, 13, 8]
    assert positions(ids, "qwen2_5_vl", video_grid_thw=[[3, 2, 2]]) == [
        [0, 1, 3, 5, 6, 7],
        [0, 1, 1, 1, 6, 7],
        [0, 1, 1, 1, 6, 7],
    ]


def test_fractional_seconds_are_multiplied_before_truncation() -> None:
    ids = [11] * 4
    arguments = {"video_grid_thw": [[4, 2, 2]], "second_per_grid_ts": [0.5]}
    assert positions(ids, "qwen2_5_vl", **arguments)[0] == [0, 1, 2, 3]


def test_time_is_float32() -> None:
    # float64 gives 125 for the last step
    arguments = {
        "video_grid_thw": [[4, 2, 2]],
        "second_per_grid_ts": [5 / 3],
        "tokens_per_second": 25,
    }
    assert positions([11] * 4, "qwen2_5_vl", **arguments)[0] == [0, 41, 83, 124]


def test_frames_of_a_split_family_stand_apart() -> None:
    ids = [12, 11, 13, 7, 12, 11, 13]
    assert positions(ids, "qwen3_vl", video_grid_thw=[[2, 2, 2]])[0] == [0, 1, 2, 3, 4, 5, 6]


def test_glm_tells_videos_from_images_by_their_markers() -> None:
    ids = [14, 12, 10, 13, 15, 12, *[10] * 4, 13]
    found = positions(ids, "glm4v", image_grid_thw=[[1, 4, 4]], video_grid_thw=[[1, 2, 2]])
    assert found[2] == [0, 1, 2, 3, 4, 5, 6, 7, 6, 7, 8]


def test_items_run_on_through_the_batch() -> None:
    result = mrope.position_ids(
        [[10, 10, 5], [5, 10, 6]],
        family="qwen2_vl",
        image_grid_thw=[[1, 2, 4], [1, 2, 2]],
        token_ids=IDS,
    )
    assert result.position_ids[2].tolist() == [[0, 1, 2], [0, 1, 2]]
    assert result.deltas.tolist() == [0, 0]


def test_masked_places_hold_zero_and_take_no_position() -> None:
    result = mrope.position_ids(
        [[0, 5, 10, 0, 10, 6]],
        family="qwen2_vl",
        image_grid_thw=[[1, 2, 4]],
        token_ids=IDS,
        attention_mask=[[0, 1, 1, 0, 1, 1]],
    )
    assert result.position_ids[2].tolist() == [[0, 0, 1, 0, 2, 3]]
    assert result.attention_mask(1).tolist() == [[0, 1, 1, 0, 1, 1, 1]]


def test_the_alias_is_the_family() -> None:
    assert families.get("fara") is families.get("qwen2_5_vl")
    assert mrope.position_ids([5], family="fara").position_ids.tolist() == [[[0]]] * 3


def test_defaults_are_the_family_s() -> None:
    ids = families.get("qwen3_5").token_ids
    result = mrope.position_ids(
        [ids.vision_start, ids.image, ids.image, ids.vision_end],
        family="qwen3_5",
        image_grid_thw=[[1, 2, 4]],
    )
    assert result.position_ids[2].tolist() == [[0, 1, 2, 3]]


def test_a_cpu_torch_tensor_is_an_array() -> None:
    torch = pytest.importorskip("torch")
    ids = torch.tensor([[5, 10, 10, 6]])
    grid = torch.tensor([[1, 2, 4]])
    result = mrope.position_ids(ids, family="qwen2_vl", image_grid_thw=grid, token_ids=IDS)
    assert result.position_ids[2].tolist() == [[0, 1, 2, 3]]


def test_an_ort_value_is_an_array() -> None:
    ort = pytest.importorskip("onnxruntime")
    ids = ort.OrtValue.ortvalue_from_numpy(np.array([[5, 6]]))
    assert mrope.position_ids(ids, family="qwen2_vl").position_ids[0].tolist() == [[0, 1]]


def test_inputs_are_left_as_they_were() -> None:
    ids, grid = np.array([[10, 10]]), np.array([[2, 2, 2]])
    mrope.position_ids(
        ids, family="qwen3_vl", video_grid_thw=grid, token_ids=TokenIds(image=9, video=10)
    )
    assert grid.tolist() == [[2, 2, 2]]
    assert ids.tolist() == [[10, 10]]


def test_the_library_needs_numpy_and_numba_alone() -> None:
    heavy = [
        "torch",
        "transformers",
        "onnx",
        "onnxruntime",
        "hypothesis",
        "rich",
        "matplotlib",
        "cyclopts",
        "msgspec",
        "onnx_ir",
    ]
    code = (
        "import sys, json\n"
        f"for name in {heavy!r}: sys.modules[name] = None\n"
        "from mmref import mrope\n"
        "print(json.dumps(mrope.position_ids([5, 6], family='qwen2_vl').position_ids.tolist()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [[[0, 1]]] * 3


def test_a_hostile_grid_costs_nothing() -> None:
    with pytest.raises(ValueError, match="run-shorter-than-item"):
        mrope.position_ids(
            [11], family="qwen3_vl", video_grid_thw=[[2**31 - 1, 2**30, 2**30]] * 3, token_ids=IDS
        )
