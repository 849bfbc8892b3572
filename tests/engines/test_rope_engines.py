"""1-D positions on the real engines: every answer is what the release is predicted to give."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings

from mmref import differences, engines, families
from mmref.case import Case, Outcome
from mmref.differences.rope import rope_case
from mmref.differential import judge
from mmref.engines import Engine
from mmref.errors import MissingExtra
from mmref.testing.strategies import rope as strategies

pytestmark = pytest.mark.engine
NAMES = [name for name in engines.names() if name != "onnxruntime"]


@pytest.fixture(scope="module", params=NAMES)
def engine(request: pytest.FixtureRequest) -> Engine:
    try:
        return engines.get(request.param)
    except MissingExtra as error:
        pytest.skip(str(error))


def agree(engine: Engine, count: int) -> Counter[str]:
    release = differences.nearest_release(engine.name, engine.version)
    names = families.names("rope")
    seen: Counter[str] = Counter()

    @settings(max_examples=count)
    @given(strategies.accepted(names) | strategies.refused(names))
    def check(case: Case) -> None:
        if engine.skip(case) is not None:
            seen["skipped"] += 1
            return
        verdict = judge(case, engine.run(case), release)
        assert verdict.kind != "new", verdict.where
        seen[verdict.kind] += 1
        seen[verdict.actual.status] += 1
        seen["windows"] += "window" in case.scalars
        seen["steps"] += bool(case.steps)

    check()
    return seen


def test_every_answer_has_a_name(engine: Engine) -> None:
    seen = agree(engine, 400)
    assert seen["equal"] > 50
    assert seen["known"] > 5
    if engine.name == "onnxruntime-genai":
        assert min(seen["windows"], seen["steps"], seen["refusal"]) > 15


@pytest.mark.slow
def test_every_answer_of_many_has_a_name(engine: Engine) -> None:
    assert agree(engine, 1500)["answer"] > 250


def test_every_difference_is_shown_by_its_smallest_case(engine: Engine) -> None:
    release = differences.nearest_release(engine.name, engine.version)
    own = [entry for entry in release.differences if entry.subject == "rope"]
    assert own
    for entry in own:
        verdict = judge(entry.case, engine.run(entry.case), release)
        assert entry in verdict.differences, entry.id


def test_a_wrong_answer_is_noticed(engine: Engine) -> None:
    case = rope_case([[20, 21]], decode_steps=1)
    right = engine.run(case)
    release = differences.nearest_release(engine.name, engine.version)
    assert judge(case, right, release).kind == "equal"
    for name, array in right.arrays.items():
        wrong = Outcome("answer", {**right.arrays, name: array + 1})
        assert judge(case, wrong, release).kind == "new", name


def test_models_of_every_type_answer() -> None:
    try:
        engine = engines.get("onnxruntime-genai")
    except MissingExtra as error:
        pytest.skip(str(error))
    asked = 0
    for name in families.names("rope"):
        case = rope_case([[20, 21]], name, decode_steps=1)
        if engine.skip(case) is None:
            asked += 1
            assert engine.run(case).status == "answer", name
    assert asked >= 8
