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
from mmref.probes import pictures
from mmref.testing.strategies import tokens as strategies

BLOCK = "<|vision_start|><|image_pad|><|vision_end|>"


@pytest.fixture(scope="module", params=["transformers", "onnxruntime-genai"])
def engine(request: pytest.FixtureRequest) -> Engine:
    try:
        return engines.get(request.param)
    except MissingExtra as error:
        pytest.skip(str(error))


def genai() -> Engine:
    try:
        return engines.get("onnxruntime-genai")
    except MissingExtra as error:
        pytest.skip(str(error))


def agree(engine: Engine, count: int) -> Counter[str]:
    release = differences.nearest_release(engine.name, engine.version)
    genai = engine.name == "onnxruntime-genai"
    names = [name for name in families.names("tokens") if pictures.model_type(name) or not genai]
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
    assert agree(engine, 1500)["answer"] > 250


@pytest.mark.parametrize("count", range(9))
def test_up_to_eight_items(engine: Engine, count: int) -> None:
    """Equal to the reference; sizes away from halves and limits, where GenAI differs."""
    case = token_case(f"a{BLOCK}" * count, images=[[112 + 28 * at, 140] for at in range(count)])
    release = differences.nearest_release(engine.name, engine.version)
    assert judge(case, engine.run(case), release).kind == "equal"


PLACEHOLDERS = {
    "gemma3": "<start_of_image>",
    "gemma4": "<|image|>",
    "mistral3": "[IMG]",
    "pixtral": "[IMG]",
    "phi4_multimodal": "<|image|>",
    "llava": "<image>",
    "llava_next": "<image>",
    "internvl": "<IMG_CONTEXT>",
}


@pytest.mark.parametrize("family", PLACEHOLDERS)
def test_up_to_eight_items_of_other_families(engine: Engine, family: str) -> None:
    """Each image at its own place; where GenAI differs, by named differences alone."""
    release = differences.nearest_release(engine.name, engine.version)
    sizes = [[112 + 28 * at, 140] for at in range(8)]
    for count in (0, 1, 2, 8):
        text = f"a{PLACEHOLDERS[family]}" * count
        case = token_case(text + "b", family, images=sizes[:count])
        if pictures.model_type(family) is None and engine.name == "onnxruntime-genai":
            assert "no package is generated" in str(engine.skip(case))
            continue
        verdict = judge(case, engine.run(case), release)
        assert verdict.actual.status == "answer"
        exact = engine.name == "transformers" or family == "phi4_multimodal" or not count
        assert verdict.kind == "equal" if exact else verdict.kind in ("equal", "known")


def test_pictures_of_mistral_change_their_order() -> None:
    engine = genai()
    case = token_case("b[IMG][IMG]", "mistral3", images=[[56, 28], [28, 28]])
    image, row_break, end = 257, 258, 259
    first, second = [image, row_break, image, end], [image, end]
    assert engine.run(case).arrays["tokens"].tolist() == [*second, ord("b"), *first]
    turn = 260
    case = token_case("b[INST][IMG][IMG]", "mistral3", images=[[56, 28], [28, 28]])
    expected = [ord("b"), turn, *second, *first]
    assert engine.run(case).arrays["tokens"].tolist() == expected


def test_an_empty_prompt_of_gemma3_ends_a_child_and_not_this_process() -> None:
    engine = genai()
    assert engine.run(token_case("", "gemma3")).status == "crash"
    assert engine.run(token_case("a", "gemma3")).status == "answer"


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        (token_case("<|video|>", "gemma4", videos=[[2, 56, 56]]), "takes no videos"),
        (token_case("<|image_pad|>", "qwen2_vl", images=[[56, 56]]), "no package is generated"),
        (token_case("<|image|>", "gemma4", images=[[0, 56]]), "without pixels"),
        (Case("gemma4", {}, {"texts": ["a", "b"]}, subject="tokens"), "takes one prompt"),
    ],
)
def test_what_a_processor_cannot_be_asked(case: Case, reason: str) -> None:
    assert reason in str(genai().skip(case))


def test_differences_of_one_processor_are_not_named_for_another() -> None:
    engine = genai()
    release = differences.nearest_release(engine.name, engine.version)
    case = token_case("a", "gemma4", images=[[48, 48]])
    named = judge(case, engine.run(case), release).differences
    assert [entry.id for entry in named] == ["genai-gemma4-placeholders-not-counted"]


def test_a_wrong_answer_is_noticed(engine: Engine) -> None:
    case = token_case(f"a{BLOCK}", images=[[112, 140]])
    right = engine.run(case)
    wrong = Outcome("answer", {**right.arrays, "tokens": right.arrays["tokens"] + 1})
    release = differences.nearest_release(engine.name, engine.version)
    assert judge(case, wrong, release).kind == "new"
