"""What a release does to the merge, predicted and seen; also of cases the reference refuses."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from mmref import differences, engines, families
from mmref.case import Case, Outcome
from mmref.differences.base import fusion_case
from mmref.differential import judge, predict, unlike
from mmref.engines import Engine
from mmref.errors import MissingExtra
from mmref.probes.fusion import token_ids
from mmref.testing.strategies import fusion as strategies

pytestmark = pytest.mark.engine
LEAST = {"transformers": 100, "onnxruntime-genai": 20, "onnxruntime": 50}


@pytest.fixture(scope="module", params=engines.names())
def engine(request: pytest.FixtureRequest) -> Engine:
    try:
        return engines.get(request.param)
    except MissingExtra as error:
        pytest.skip(str(error))


def release_of(engine: Engine) -> differences.Release:
    return differences.nearest_release(engine.name, engine.version)


def agree(engine: Engine, count: int) -> Counter[str]:
    release = release_of(engine)
    genai = engine.name == "onnxruntime-genai"
    names = [
        name for name in families.names("fusion") if families.get(name).genai_type or not genai
    ]
    seen: Counter[str] = Counter()

    @settings(max_examples=count)
    @given(strategies.accepted(names) | strategies.refused(names))
    def check(case: Case) -> None:
        if engine.skip(case) is not None:
            seen["skipped"] += 1
            return
        actual = engine.run(case)
        assert unlike(predict(case, release), actual) == (), actual.message
        seen[actual.status] += 1

    check()
    return seen


def test_predictions_equal_the_engine(engine: Engine) -> None:
    seen = agree(engine, 400)
    assert seen["answer"] > LEAST[engine.name]
    assert seen["refusal"] > 2


@pytest.mark.slow
def test_predictions_equal_the_engine_on_many_prompts(engine: Engine) -> None:
    assert agree(engine, 2500)["answer"] > 5 * LEAST[engine.name]


def test_a_wrong_answer_is_noticed(engine: Engine) -> None:
    case = fusion_case([[20, 10, 10]], image_rows=2)
    right = engine.run(case)
    assert judge(case, right, release_of(engine)).kind == "equal"
    swapped = Outcome("answer", {"inputs_embeds": right.arrays["inputs_embeds"][:, [0, 2, 1]]})
    assert judge(case, swapped, release_of(engine)).kind == "new"


def test_a_wrong_answer_to_what_is_refused_is_noticed(engine: Engine) -> None:
    """Where the reference refuses, an engine's answer must be the one that has a name."""
    case = fusion_case([[20, 10]])
    actual = engine.run(case)
    assert judge(case, actual, release_of(engine)).kind == "known"
    other = Outcome("answer", {"inputs_embeds": actual.arrays["inputs_embeds"] + 1})
    assert judge(case, other, release_of(engine)).kind == "new"
    assert judge(case, Outcome("crash"), release_of(engine)).kind == "new"


def test_several_images_and_a_batch_without_a_difference(engine: Engine) -> None:
    form = "scatter_nd" if engine.name == "onnxruntime" else "gather"
    case = fusion_case([[10, 20, 10, 10]], image_rows=3, form=form)
    assert judge(case, engine.run(case), release_of(engine)).kind == "equal"
    batch = replace(case, arrays={"input_ids": np.array([[10, 20], [20, 20], [10, 10]])})
    verdict = judge(batch, engine.run(batch), release_of(engine))
    assert verdict.kind == ("known" if engine.name == "onnxruntime-genai" else "equal")


def test_a_second_turn_of_text_is_merged_in_the_first() -> None:
    try:
        engine = engines.get("onnxruntime-genai")
    except MissingExtra as error:
        pytest.skip(str(error))
    text = fusion_case([[10, 10, 20]], image_rows=2, turn_start=2)
    assert judge(text, engine.run(text), release_of(engine)).kind == "equal"
    image = fusion_case([[20, 10]], image_rows=1, turn_start=1)
    assert not engine.run(image).arrays["inputs_embeds"][0, 1].any()
    two = fusion_case([[20, 10, 10]], image_rows=2, turn_start=1)
    assert engine.run(two).status == "refusal"


@pytest.mark.parametrize("name", families.names("fusion"))
def test_every_family_merges_every_kind(name: str, engine: Engine) -> None:
    row = families.get(name)
    ids = token_ids(fusion_case([[20]])).as_dict()
    kinds = row.fusing.kinds[:1] if row.fusing.shared_id else row.fusing.kinds
    line = [20, *(ids[kind] for kind in kinds for _ in range(2)), 21]
    case = fusion_case([line], name, **{f"{kind}_rows": 2 for kind in kinds})
    if engine.skip(case) is not None:
        assert engine.name != "transformers"
        return
    assert judge(case, engine.run(case), release_of(engine)).kind == "equal"
