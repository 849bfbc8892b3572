"""1-D positions: by hand, refusals, rules of a release, the JSON form of cases."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mmref import families, mrope, rope
from mmref.case import Case
from mmref.differences.rope import rope_case
from mmref.differential import predict, reference
from mmref.errors import BadCase, MmrefError, RefusedPrompt, UnknownName
from mmref.testing.corners import rope_corners

GENAI = "onnxruntime-genai-0.18"


def test_by_hand() -> None:
    found = rope.position_ids([[0, 5, 0, 6]], attention_mask=[[0, 1, 0, 1]])
    assert found.position_ids.tolist() == [[0, 0, 0, 1]]
    assert found.position_ids.dtype == np.int64
    assert found.next_positions(2).tolist() == [[2, 3]]
    assert found.attention_mask(1).tolist() == [[0, 1, 0, 1, 1]]
    assert repr(found) == "<RopePositions 1 x 4, slots 0..3>"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"input_ids": [[1.5]]}, "input-ids-dtype"),
        ({"input_ids": [[[1]]]}, "input-ids-rank"),
        ({"input_ids": [[1, 2]], "attention_mask": [[1]]}, "mask-shape"),
        ({"input_ids": [[1]], "attention_mask": [[2]]}, "mask-value"),
        ({"input_ids": [[1]], "attention_mask": [[0.5]]}, "mask-value"),
    ],
)
@pytest.mark.parametrize("rules", ["reference", GENAI, "transformers-5.24"])
def test_what_is_no_prompt_is_refused(arguments: dict[str, Any], code: str, rules: str) -> None:
    for ask in (
        lambda: rope.position_ids(**arguments, rules=rules),
        lambda: rope.windows(**arguments, size=2, rules=rules),
    ):
        with pytest.raises(MmrefError) as caught:
            ask()
        assert caught.value.code == code


@pytest.mark.parametrize("size", [0, -1, 2.5, "two", None])
def test_a_window_is_a_number_of_tokens(size: Any) -> None:
    with pytest.raises(RefusedPrompt) as caught:
        rope.windows([1, 2], size=size)
    assert caught.value.code == "window-size"


def test_tokens_stand_left_or_right() -> None:
    with pytest.raises(RefusedPrompt) as caught:
        rope.windows([1, 2], size=2, alignment="middle")  # type: ignore[arg-type]
    assert caught.value.code == "window-alignment"
    assert rope.windows([1], size=2, alignment="right").position_ids.tolist() == [[[0, 0]]]


def test_rules_of_a_release() -> None:
    ids = [[7, 0], [7, 8]]
    assert rope.position_ids(ids, rules=GENAI).attention_mask().tolist() == [[1, 0], [1, 1]]
    assert rope.position_ids(ids, rules=GENAI, pad=8).attention_mask().tolist() == [[1, 1], [1, 0]]
    padded = rope.position_ids([[7, 8]], attention_mask=[[1, 0]], rules="transformers-5.24")
    assert padded.next_positions(1).tolist() == [[1]]
    with pytest.raises(UnknownName):
        rope.position_ids(ids, rules="transformers-4.49")
    for ask in (lambda: padded.extend([[1]]), lambda: padded.rewind(1)):
        with pytest.raises(RefusedPrompt) as caught:
            ask()
        assert caught.value.code == "rules-after-prompt"


def test_an_undefined_position_is_refused_not_invented() -> None:
    found = rope.position_ids([[0, 0], [7, 8]], rules=GENAI)
    assert found.position_ids.tolist() == [[0, 0], [0, 1]]
    with pytest.raises(RefusedPrompt) as caught:
        found.next_positions(1)
    assert caught.value.code == "row-undefined"
    assert found.next_positions(0).shape == (2, 0)


def test_what_is_not_there_is_refused() -> None:
    found = rope.position_ids([5, 6])
    for ask in (
        lambda: found.rewind(3),
        lambda: found.chunk(1, 3),
        lambda: found.extend([[1], [2]]),
        lambda: found.take_rows([1]),
    ):
        with pytest.raises(RefusedPrompt):
            ask()


def test_the_door_of_3d_positions_names_this_one() -> None:
    with pytest.raises(RefusedPrompt) as caught:
        mrope.position_ids([1], family="gemma3")
    assert "mmref.rope.position_ids" in str(caught.value)


def test_which_families_are_numbered_like_text() -> None:
    names = families.names("rope")
    assert {"gemma3", "gemma4", "phi4_multimodal", "mistral3", "llama"} <= set(names)
    assert not {"qwen2_vl", "qwen2_5_omni", "whisper", "wav2vec2"} & set(names)


def test_cases_survive_their_json_form() -> None:
    for case in rope_corners().values():
        again = Case.from_json(case.to_json())
        assert again.to_json() == case.to_json()
        assert reference(again).status == "answer"
    ids = {"input_ids": [[1]]}
    for broken in (
        {"arrays": {}},
        {"arrays": {**ids, "image_grid_thw": [[1, 2, 2]]}},
        {"arrays": ids, "scalars": {"window": 0}},
        {"arrays": ids, "scalars": {"window": 1.5}},
        {"arrays": ids, "scalars": {"window_alignment": "middle"}},
        {"arrays": ids, "scalars": {"num_beams": 2}},
        {"arrays": ids, "steps": [{"append": {**ids, "image_grid_thw": [[1, 2, 2]]}}]},
        {"arrays": ids, "steps": [{"rewind": -1}]},
    ):
        with pytest.raises(BadCase):
            Case.from_builtins({"subject": "rope", "family": "llama", **broken})


def test_a_prediction_without_differences_is_the_reference() -> None:
    from mmref.differences import Release

    bare = Release("onnxruntime-genai", "0.18", ())
    for case in rope_corners().values():
        expected, predicted = reference(case), predict(case, bare)
        assert list(expected.arrays) == list(predicted.arrays)
        for name, array in expected.arrays.items():
            assert array.tolist() == predicted.arrays[name].tolist(), name
    assert reference(rope_case([[20]], steps=())).status == "answer"
