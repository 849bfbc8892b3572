"""What follows a prompt, step by step, against prompts that are computed afresh."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from support import assert_same, compute

from mmref import differences
from mmref.case import Case, Step
from mmref.differences.base import append, small_case
from mmref.differential import predict, reference
from mmref.differential.steps import text_token
from mmref.errors import EngineRefusal
from mmref.testing.strategies import conversations


def joined(case: Case) -> Case:
    """One prompt that holds what the conversation comes to; there must be no rewind."""
    arrays = {name: [array] for name, array in case.arrays.items()}
    first = case.arrays["input_ids"]
    arrays.setdefault("attention_mask", [np.ones_like(first)])
    for step in case.steps:
        new = dict(step.arrays) or {"input_ids": np.full((1, step.count), text_token(case))}
        new["attention_mask"] = np.ones_like(new["input_ids"])
        for name, array in new.items():
            arrays.setdefault(name, []).append(array)
    videos = sum(len(array) for array in arrays.get("video_grid_thw", ()))
    whole = {
        name: np.concatenate(parts, axis=0 if name.endswith("thw") else -1)
        for name, parts in arrays.items()
    }
    if "second_per_grid_ts" in whole:
        given_seconds = whole["second_per_grid_ts"]
        whole["second_per_grid_ts"] = np.append(
            given_seconds, np.ones(videos - len(given_seconds), given_seconds.dtype)
        )
    return replace(case, arrays=whole, steps=())


@settings(max_examples=500)
@given(conversations())
def test_without_rewinds_the_steps_are_the_tail_of_the_joined_prompt(case: Case) -> None:
    assume(all(step.action != "rewind" for step in case.steps))
    outcome = reference(case)
    whole = compute(joined(case)).position_ids
    for number, step in enumerate(case.steps, start=1):
        if f"step_{number}_position_ids" not in outcome.arrays:
            assert (step.action, step.count) == ("generate", 1)
            continue
        actual = outcome.arrays[f"step_{number}_position_ids"]
        start = int(outcome.arrays[f"step_{number}_cached"][0])
        assert_same(whole[:, :, start : start + actual.shape[2]], actual)
        assert outcome.arrays[f"step_{number}_mask"].shape[1] == start + actual.shape[2]


@settings(max_examples=300)
@given(conversations())
def test_a_rewind_to_the_start_forgets_everything(case: Case) -> None:
    new = append([[20, 12, 10, 13]], images=[[1, 2, 2]])
    merge = int(case.scalars.get("spatial_merge_size", 2))
    new.arrays["image_grid_thw"][:, 1:] = merge  # type: ignore[index]
    number = len(case.steps) + 2
    talk = replace(case, steps=(*case.steps, Step("rewind", 0), new))
    fresh = replace(case, arrays=new.arrays, steps=())
    assert_same(compute(fresh).position_ids, reference(talk).arrays[f"step_{number}_position_ids"])


@settings(max_examples=200)
@given(conversations())
def test_the_rules_of_a_release_without_differences_are_the_reference(case: Case) -> None:
    plain = differences.Release("onnxruntime-genai", "0.18", ())
    expected, actual = reference(case), predict(case, plain)
    assert expected.arrays.keys() == actual.arrays.keys()
    for name, array in expected.arrays.items():
        assert_same(array, np.asarray(actual.arrays[name]))


@settings(max_examples=200)
@given(conversations())
def test_whole_prompts_with_a_cache_come_to_the_same(case: Case) -> None:
    plain = differences.Release("transformers", "5.24", ())
    expected, actual = reference(case).arrays, predict(case, plain).arrays
    shown = [name for name in expected if name.startswith("step_") and not name.endswith("_mask")]
    assert shown == [name for name in actual if name.startswith("step_")]
    for name in shown:
        assert_same(expected[name], actual[name])


@settings(max_examples=200)
@given(conversations(family=["qwen2_5_vl", "qwen3_vl"]))
def test_the_rules_of_genai_answer_or_refuse(case: Case) -> None:
    release = differences.release("onnxruntime-genai", "0.18")
    outcome = predict(case, release)
    assert outcome.status in ("answer", "refusal")


def test_the_second_image_of_a_conversation() -> None:
    case = small_case(
        [[20, 12, 10, 10, 10, 10, 13]],
        images=[[1, 4, 4]],
        steps=(append([[12, 10, 10, 13]], images=[[1, 2, 4]]), Step("rewind", 7), append([[21]])),
    )
    arrays = reference(case).arrays
    assert arrays["step_1_position_ids"][:, 0].tolist() == [
        [5, 6, 6, 8],
        [5, 6, 6, 8],
        [5, 6, 7, 8],
    ]
    assert arrays["step_1_cached"].tolist() == [7]
    assert arrays["step_3_position_ids"].ravel().tolist() == [5, 5, 5]
    assert arrays["step_3_mask"].tolist() == [[1] * 8]


def test_a_release_that_refuses_the_prompt_refuses_the_conversation() -> None:
    case = small_case([[0]], "qwen2_vl", mask=[[0]], steps=(append([[20]]),))
    assert reference(case).status == "answer"
    assert predict(case, differences.release("transformers", "5.24")).status == "refusal"
    with pytest.raises(EngineRefusal):
        compute(case, rules="transformers-5.24")
