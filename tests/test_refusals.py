"""Every refusal: an error that says where, got, expected and hint; never an answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from mmref import layout, mrope
from mmref.case import Case
from mmref.differential import reference
from mmref.errors import MmrefError, RefusedPrompt, UnknownName
from mmref.families import TokenIds
from mmref.testing.strategies import REFUSED_KINDS, refused_cases

IDS = TokenIds(image=10, video=11)
IMAGE = {"input_ids": [5, 10, 10, 10, 10, 6], "image_grid_thw": [[1, 4, 4]]}
VIDEO = {"input_ids": [5, 11, 11, 6], "video_grid_thw": [[2, 2, 2]], "family": "qwen2_5_vl"}


class GpuTensor:
    """What a torch tensor on a GPU shows of itself; reading it must not be tried."""

    class device:
        type = "cuda"

        def __str__(self) -> str:
            return "cuda:0"

    device = device()

    def __array__(self, *args: object, **kwargs: object) -> Any:
        raise AssertionError("a GPU tensor was read")


REFUSALS: list[tuple[str, str, dict[str, Any]]] = [
    ("text positions", "family-without-3d-positions", {"input_ids": [5], "family": "gemma3"}),
    ("ragged ids", "array-ragged", {"input_ids": [[5, 6], [7]]}),
    ("float ids", "input-ids-dtype", {"input_ids": [[5.0, 6.0]]}),
    ("boolean ids", "input-ids-dtype", {"input_ids": [[True]]}),
    ("string ids", "array-type", {"input_ids": [["a", "b"]]}),
    ("object ids", "array-type", {"input_ids": [[None, 5]]}),
    ("ids beyond int64", "array-type", {"input_ids": [[2**70]]}),
    ("unsigned ids beyond int64", "input-ids-dtype", {"input_ids": np.array([[2**63]], "u8")}),
    ("rank 3", "input-ids-rank", {"input_ids": [[[5]]]}),
    ("a scalar", "input-ids-rank", {"input_ids": 5}),
    ("an empty row", "input-ids-empty", {"input_ids": []}),
    ("an empty batch", "input-ids-empty", {"input_ids": np.empty((0, 4), int)}),
    ("a GPU tensor", "array-device", {"input_ids": GpuTensor()}),
    ("a grid of rank 1", "grid-shape", IMAGE | {"image_grid_thw": [1, 4, 4]}),
    ("a grid of two columns", "grid-shape", IMAGE | {"image_grid_thw": [[4, 4]]}),
    ("a negative grid", "grid-not-positive", IMAGE | {"image_grid_thw": [[1, -4, 4]]}),
    ("a zero grid", "grid-not-positive", IMAGE | {"image_grid_thw": [[0, 4, 4]]}),
    ("a fractional grid", "grid-dtype", IMAGE | {"image_grid_thw": [[1, 4.5, 4]]}),
    ("a grid of floats", "grid-dtype", IMAGE | {"image_grid_thw": [[1.0, 4.0, 4.0]]}),
    ("not divisible by merge", "grid-not-divisible", IMAGE | {"image_grid_thw": [[1, 5, 4]]}),
    ("an overflowing grid", "grid-too-large", IMAGE | {"image_grid_thw": [[1, 2**40, 4]]}),
    (
        "a grid whose product overflows",
        "run-shorter-than-item",
        IMAGE | {"image_grid_thw": [[1, 2**31 - 2, 2**31 - 2]]},
    ),
    (
        "a grid beyond int64",
        "grid-too-large",
        IMAGE | {"image_grid_thw": np.array([[1, 2**63 + 2, 2]], np.uint64)},
    ),
    ("more grids than items", "unused-item", IMAGE | {"image_grid_thw": [[1, 4, 4]] * 2}),
    ("grids without an item", "unused-item", {"input_ids": [5], "image_grid_thw": [[1, 2, 2]]}),
    (
        "fewer grids than items",
        "placeholder-without-item",
        IMAGE | {"input_ids": [10, 10, 10, 10, 5, 10]},
    ),
    ("placeholders without a grid", "placeholder-without-item", {"input_ids": [5, 10]}),
    ("a run shorter than its item", "run-shorter-than-item", IMAGE | {"input_ids": [10, 10, 5]}),
    ("a run longer than its items", "run-longer-than-items", IMAGE | {"input_ids": [10] * 5}),
    (
        "a run longer than two items",
        "run-longer-than-items",
        {"input_ids": [10, 10, 10], "image_grid_thw": [[1, 2, 2], [1, 4, 4]]},
    ),
    ("an image with frames", "image-with-frames", IMAGE | {"image_grid_thw": [[2, 4, 2]]}),
    ("a mask of another shape", "mask-shape", IMAGE | {"attention_mask": [[1, 1]]}),
    ("a mask for generated tokens too", "mask-shape", IMAGE | {"attention_mask": [[1] * 7]}),
    ("a mask with a 2", "mask-value", IMAGE | {"attention_mask": [[1, 1, 1, 1, 1, 2]]}),
    ("a mask with a -1", "mask-value", IMAGE | {"attention_mask": [[1, 1, 1, 1, 1, -1]]}),
    (
        "a mask of uint8 with a 2",
        "mask-value",
        {"input_ids": [5, 6], "attention_mask": np.array([[1, 2]], np.uint8)},
    ),
    ("an additive mask", "mask-value", {"input_ids": [5, 6], "attention_mask": [[0.0, -np.inf]]}),
    ("too few seconds", "seconds-length", VIDEO | {"second_per_grid_ts": []}),
    ("too many seconds", "seconds-length", VIDEO | {"second_per_grid_ts": [1.0, 1.0]}),
    ("NaN seconds", "seconds-value", VIDEO | {"second_per_grid_ts": [np.nan]}),
    ("infinite seconds", "seconds-value", VIDEO | {"second_per_grid_ts": [np.inf]}),
    ("negative seconds", "seconds-value", VIDEO | {"second_per_grid_ts": [-0.5]}),
    ("seconds beyond float32", "seconds-value", VIDEO | {"second_per_grid_ts": [1e300]}),
    (
        "seconds for a family without them",
        "seconds-not-used",
        VIDEO | {"family": "qwen2_vl", "second_per_grid_ts": [1.0]},
    ),
    ("a rate for a family without it", "rate-not-used", IMAGE | {"tokens_per_second": 2.0}),
    ("a rate of zero", "rate-not-positive", VIDEO | {"tokens_per_second": 0}),
    ("a NaN rate", "rate-not-positive", VIDEO | {"tokens_per_second": np.nan}),
    ("a rate that is no number", "rate-not-positive", VIDEO | {"tokens_per_second": "fast"}),
    ("a position beyond int32", "position-too-large", VIDEO | {"second_per_grid_ts": [1e10]}),
    ("merge 0", "merge-not-positive", IMAGE | {"spatial_merge_size": 0}),
    ("negative merge", "merge-not-positive", IMAGE | {"spatial_merge_size": -2}),
    ("fractional merge", "merge-not-positive", IMAGE | {"spatial_merge_size": 2.0}),
    ("one id for both kinds", "token-ids-equal", IMAGE | {"token_ids": TokenIds(10, 10)}),
    ("a masked array", "array-type", {"input_ids": np.ma.array([5, 6], mask=[0, 1])}),
    ("boolean seconds", "array-type", VIDEO | {"second_per_grid_ts": [True]}),
    (
        "an empty grid of five columns",
        "grid-shape",
        {"input_ids": [5], "image_grid_thw": np.empty((0, 5), int)},
    ),
    ("a rate as text", "rate-not-positive", VIDEO | {"tokens_per_second": "2"}),
    ("ids as a dict", "token-ids-type", IMAGE | {"token_ids": {"image": 10}}),
    ("no id for images", "token-ids-missing", IMAGE | {"token_ids": TokenIds(video=11)}),
    ("no markers for videos", "token-ids-missing", VIDEO | {"family": "glm4v"}),
]


@pytest.mark.parametrize(
    ("code", "arguments"), [entry[1:] for entry in REFUSALS], ids=[entry[0] for entry in REFUSALS]
)
def test_refused(code: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(RefusedPrompt) as caught:
        mrope.position_ids(**{"family": "qwen2_vl", "token_ids": IDS} | arguments)
    error = caught.value
    assert error.code == code
    assert error.where
    assert error.got
    assert isinstance(error, ValueError)
    assert code in layout.REFUSALS
    text = str(error)
    assert error.where in text
    assert error.got in text
    assert "\n" not in text


def test_every_code_has_a_test() -> None:
    tested = {code for _, code, _ in REFUSALS}
    elsewhere = {  # tests/properties/test_following.py
        "extend-batch",
        "slot-outside",
        "rewind-inside-item",
        "rows-outside",
        "rules-after-prompt",
        "cumulative-lengths",
        "generate-from-nothing",  # of a case's steps; in REFUSED_KINDS
    }
    assert tested | elsewhere | {"mask-dtype"} == set(layout.REFUSALS)


@pytest.mark.parametrize("kind", REFUSED_KINDS)
def test_generated_refusals_are_refused(kind: str) -> None:
    @settings(max_examples=100)
    @given(refused_cases(kind=kind))
    def check(case: Case) -> None:
        outcome = reference(case)
        if kind == "token-ids-equal" and case.family.startswith("glm"):
            return  # the GLM line tells videos by markers: one id for both is how it works
        assert outcome.status == "refusal"
        assert outcome.error in {kind, *ALSO.get(kind, ())}

    check()


# one fault can show itself first as another, depending on what stands around it
ALSO = {
    "run-shorter-than-item": ("run-longer-than-items",),
    "run-longer-than-items": ("run-shorter-than-item", "placeholder-without-item"),
    "placeholder-without-item": ("run-longer-than-items",),
    "unused-item": ("run-longer-than-items",),
    "token-ids-equal": ("token-ids-missing",),
}


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"family": "qwen2_5_v"}, "did you mean 'qwen2_5_vl'"),
        ({"family": None}, "one of "),
        ({"family": "qwen2_vl", "rules": "transformers-5.25"}, "did you mean 'transformers-5.2"),
        ({"family": "qwen2_vl", "rules": "reference "}, "did you mean 'reference'"),
    ],
)
def test_unknown_names_list_the_known_and_the_closest(
    arguments: dict[str, Any], named: str
) -> None:
    with pytest.raises(UnknownName) as caught:
        mrope.position_ids([5], **arguments)
    assert named in str(caught.value)
    assert caught.value.known


@pytest.mark.parametrize("family", ["qwen2_vl", "glm4v", "qwen3_vl_moe"])
def test_a_release_that_never_shipped_the_family_is_refused(family: str) -> None:
    with pytest.raises(UnknownName, match=f"has no {family} with 3-D positions"):
        mrope.position_ids([5], family=family, rules="onnxruntime-genai-0.18")


def test_all_tokens_masked_is_fine() -> None:
    result = mrope.position_ids(
        [[5, 6], [7, 8]], family="qwen2_vl", attention_mask=[[0, 0], [1, 1]]
    )
    assert result.position_ids[0].tolist() == [[0, 0], [0, 1]]
    assert result.deltas.tolist() == [0, 0]
    assert result.next_positions(1)[0].tolist() == [[0], [2]]
    nothing = mrope.position_ids([[5, 6]], family="qwen2_vl", attention_mask=[[0, 0]])
    assert not nothing.position_ids.any()
    assert nothing.next_positions(1)[0].tolist() == [[0]]


def test_the_message_of_the_style_guide() -> None:
    with pytest.raises(RefusedPrompt) as caught:
        mrope.position_ids(
            [[20] * 4, [5, 10, 10, 6]], family="qwen2_vl", image_grid_thw=[[1, 4, 4]], token_ids=IDS
        )
    assert str(caught.value) == (
        "row 1, image 0 (tokens 1..2): 2 placeholders, expected as many as the item has: "
        "grid (1, 4, 4) with merge 2 makes 4; was the prompt truncated? [run-shorter-than-item]"
    )


@pytest.mark.parametrize("value", ["10", 10.0, True, 2**63, -(2**63)])
def test_token_ids_are_integers(value: Any) -> None:
    with pytest.raises(RefusedPrompt, match="token-ids-type"):
        TokenIds(image=value)
    assert TokenIds(image=np.int32(10)) == TokenIds(image=10)


def test_a_family_without_a_video_id_takes_any_token() -> None:
    lowest = np.iinfo(np.int64).min
    ids = TokenIds(image=10)
    result = mrope.position_ids([lowest, 5], family="qwen2_vl", token_ids=ids)
    assert result.position_ids[0].tolist() == [[0, 1]]


def test_negative_count_of_next_positions() -> None:
    result = mrope.position_ids([5], family="qwen2_vl")
    assert result.next_positions(0).shape == (3, 1, 0)
    with pytest.raises(ValueError, match="at least 0"):
        result.next_positions(-1)


def test_base_of_all_errors() -> None:
    assert issubclass(RefusedPrompt, MmrefError)
