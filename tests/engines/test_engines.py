"""The rules of a release against the release itself."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from support import compute

from mmref import differences, engines, families
from mmref.case import Case, Outcome
from mmref.differences.base import small_case
from mmref.differential import judge, predict, unlike
from mmref.differential.run import run
from mmref.engines import Engine
from mmref.errors import EngineFault, EngineRefusal, MissingExtra, MissingRelease, UnknownName
from mmref.testing.strategies import cases, conversations

GENAI_FAMILIES = [name for name in families.names() if families.get(name).genai_type]


@pytest.fixture(scope="module", params=["transformers", "onnxruntime-genai"])
def engine(request: pytest.FixtureRequest) -> Engine:
    try:
        return engines.get(request.param)
    except MissingExtra as error:
        pytest.skip(str(error))


def shipped(engine: Engine) -> list[str]:
    return GENAI_FAMILIES if engine.name == "onnxruntime-genai" else list(families.names())


def test_follows_the_protocol(engine: Engine) -> None:
    assert isinstance(engine, Engine)
    assert engine.provider == "cpu"
    assert differences.version_key(engine.version)


def test_rules_equal_the_engine_on_every_accepted_prompt(engine: Engine) -> None:
    release = differences.nearest_release(engine.name, engine.version)
    answered = 0

    @settings(max_examples=2000)
    @given(cases(family=shipped(engine)))
    def check(case: Case) -> None:
        nonlocal answered
        assert engine.skip(case) is None
        actual = engine.run(case)
        assert unlike(predict(case, release), actual) == (), actual.message
        if actual.status == "answer":
            answered += 1
            positions = compute(case, rules=release.name)
            assert np.array_equal(positions.position_ids, actual.arrays["position_ids"])
        else:
            with pytest.raises(EngineRefusal):
                compute(case, rules=release.name)

    check()
    assert answered > 1000  # most prompts are answered, so that positions were compared


@pytest.mark.parametrize(
    "difference",
    [entry for entry in differences.ALL if entry.engine in engines.names()],  # the others: releases
    ids=lambda entry: entry.id,
)
def test_every_difference_is_shown_by_its_smallest_case(
    difference: differences.Difference,
) -> None:
    try:
        engine = engines.get(difference.engine)
    except MissingExtra as error:
        pytest.skip(str(error))
    release = differences.nearest_release(engine.name, engine.version)
    if not difference.holds_for(release.version):
        pytest.skip(f"{engine.version} is outside its range")
    verdict = judge(difference.case, engine.run(difference.case), release)
    assert verdict.kind == "known"
    assert difference in verdict.differences


def test_random_conversations_show_nothing_new() -> None:
    engine = _genai()
    release = differences.nearest_release(engine.name, engine.version)
    kinds: Counter[str] = Counter()

    @settings(max_examples=600)
    @given(conversations(family=GENAI_FAMILIES, max_steps=6))
    def check(case: Case) -> None:
        assert engine.skip(case) is None
        verdict = judge(case, engine.run(case), release)
        kinds[verdict.kind] += 1
        assert verdict.kind != "new", verdict.where

    check()
    assert kinds["known"] > 100
    assert kinds["equal"] > 20


def test_genai_crash_is_an_outcome_and_not_the_end() -> None:
    case = small_case([[12, 10]], images=[[1, 2, 2]], spatial_merge_size=0)
    outcome = _genai().run(case)
    assert outcome.status == "crash"
    assert outcome.error.startswith("signal")


def test_genai_reads_positions_of_tokens_after_the_prompt() -> None:
    outcome = _genai().run(small_case([[20, 12, *[10] * 4]], images=[[1, 4, 4]], decode_steps=3))
    assert outcome.arrays["next_position_ids"].tolist() == [[[4, 5, 6]]] * 3
    assert outcome.arrays["next_attention_mask"].shape == (1, 9)


def test_genai_keeps_one_package_for_each_set_of_values() -> None:
    engine = _genai()
    same = small_case([[20]]), small_case([[21, 22]])
    other = small_case([[20]], spatial_merge_size=4)
    packages = {engine.package(case) for case in (*same, other)}
    assert len(packages) == 2


def test_genai_takes_token_ids_of_real_checkpoints() -> None:
    ids = [[9707, 151652, *[151655] * 4, 151653, 151643]]
    case = Case("qwen2_5_vl", {"input_ids": np.array(ids), "image_grid_thw": np.array([[1, 4, 4]])})
    positions = _genai().run(case).arrays["position_ids"]
    assert positions[:, 0].tolist() == [
        [0, 1, 2, 2, 2, 2, 4, 0],
        [0, 1, 2, 2, 3, 3, 4, 0],
        [0, 1, 2, 3, 2, 3, 4, 0],
    ]


def test_transformers_refuses_large_grids_before_allocating_them() -> None:
    engine = engines.get("transformers")
    case = small_case([[10]], "qwen2_vl", images=[[1, 2**31, 2]])
    assert "allocate" in str(engine.skip(case))


def test_run_compares_and_names_everything() -> None:
    report = run(cases=200, seed=3)
    assert report.total("new") == report.total("vanished") == 0
    assert report.total("compared") == sum(report.total(kind) for kind in ("equal", "known", "new"))
    assert {finding.kind for finding in report.findings} == {"known"}


def test_run_draws_the_same_cases_for_the_same_seed() -> None:
    def counted(seed: int) -> dict[str, int]:
        report = run(engine=["transformers"], subject=["positions"], cases=60, seed=seed)
        return {finding.id: finding.count for finding in report.findings}

    counts = [counted(seed) for seed in (5, 5, 6)]
    assert counts[0] == counts[1] != counts[2]


def test_unknown_engine_and_version() -> None:
    with pytest.raises(UnknownName, match="did you mean 'transformers'"):
        engines.get("transformer")
    with pytest.raises(MissingRelease, match=r"mmref engines add transformers==4\.1"):
        engines.get("transformers==4.1")


def test_a_version_that_is_not_read_from_a_wheel_must_be_installed() -> None:
    pytest.importorskip("onnxruntime")
    with pytest.raises(EngineFault, match=r'pip install "onnxruntime==0\.1"'):
        engines.get("onnxruntime==0.1")


def test_missing_engine_names_the_pip_line() -> None:
    code = (
        "import sys\n"
        "for name in ('torch', 'onnxruntime_genai', 'onnxruntime'): sys.modules[name] = None\n"
        "from mmref import engines\n"
        "for name in engines.names():\n"
        "    try: engines.get(name)\n"
        "    except Exception as error: print(type(error).__name__, error.pip_line)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        'MissingExtra pip install "mmref[transformers]"',
        'MissingExtra pip install "mmref[genai]"',
        'MissingExtra pip install "mmref[onnx]"',
    ]


def test_outcomes_without_a_common_array_are_an_error() -> None:
    one = Outcome("answer", {"position_ids": np.zeros((3, 1, 1))})
    other = Outcome("answer", {"inputs_embeds": np.zeros((1, 1, 4))})
    with pytest.raises(EngineFault, match="nothing-in-common"):
        unlike(one, other)


def _genai() -> Engine:
    try:
        return engines.get("onnxruntime-genai")
    except MissingExtra as error:
        pytest.skip(str(error))
