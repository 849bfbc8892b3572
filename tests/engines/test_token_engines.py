"""What a release does to tokens and sizes, predicted and seen."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings

from mmref import differences, engines, families
from mmref.case import Case, Outcome
from mmref.differences.base import token_case
from mmref.differential import judge, predict, unlike
from mmref.engines import Engine
from mmref.errors import MissingExtra
from mmref.testing.strategies import tokens as strategies

BLOCK = "<|vision_start|><|image_pad|><|vision_end|>"


@pytest.fixture(scope="module", params=["transformers", "onnxruntime-genai"])
def engine(request: pytest.FixtureRequest) -> Engine:
    try:
        return engines.get(request.param)
    except MissingExtra as error:
        pytest.skip(str(error))


def agree(engine: Engine, count: int) -> Counter[str]:
    release = differences.nearest_release(engine.name, engine.version)
    genai = engine.name == "onnxruntime-genai"
    names = [
        name for name in families.names("tokens") if families.get(name).genai_type or not genai
    ]
    seen: Counter[str] = Counter()

    @settings(max_examples=count)
    @given(strategies.accepted(names))
    def check(case: Case) -> None:
        if engine.skip(case) is not None:
            seen["skipped"] += 1
            return
        actual = engine.run(case)
        assert unlike(predict(case, release), actual) == ()
        seen[actual.status] += 1

    check()
    return seen


def test_predictions_equal_the_engine(engine: Engine) -> None:
    assert agree(engine, 250)["answer"] > 40


@pytest.mark.slow
def test_predictions_equal_the_engine_on_many_prompts(engine: Engine) -> None:
    assert agree(engine, 3000)["answer"] > 500


@pytest.mark.parametrize("count", range(9))
def test_up_to_eight_items(engine: Engine, count: int) -> None:
    """Equal to the reference; sizes away from halves and limits, where GenAI differs."""
    case = token_case(f"a{BLOCK}" * count, images=[[112 + 28 * at, 140] for at in range(count)])
    release = differences.nearest_release(engine.name, engine.version)
    assert judge(case, engine.run(case), release).kind == "equal"


def test_a_wrong_answer_is_noticed(engine: Engine) -> None:
    case = token_case(f"a{BLOCK}", images=[[112, 140]])
    right = engine.run(case)
    wrong = Outcome("answer", {**right.arrays, "tokens": right.arrays["tokens"] + 1})
    release = differences.nearest_release(engine.name, engine.version)
    assert judge(case, wrong, release).kind == "new"
