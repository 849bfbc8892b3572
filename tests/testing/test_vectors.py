"""The vectors: what they say is what the reference, the definition and the engines say."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from support import assert_same, compute, define

from mmref import differences, engines
from mmref.differences import version_key
from mmref.differential import reference
from mmref.errors import EngineFault, EngineRefusal, RefusedPrompt, Unavailable
from mmref.testing import vectors
from mmref.testing.vectors import generate

VECTORS = vectors.load()
ANSWERED = [vector for vector in VECTORS if vector.expected is not None]
RELEASED = [(vector, name) for vector in VECTORS for name in vector.releases]


def test_the_files_are_what_the_reports_make(capsys: pytest.CaptureFixture[str]) -> None:
    assert generate.main(["--check"]) == 0, capsys.readouterr().err


def test_a_stale_file_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generate, "contents", lambda: {"vectors.json": b"{}"})
    assert generate.main(["--check"]) == 1


def test_every_vector_is_whole() -> None:
    assert len({vector.id for vector in VECTORS}) == len(VECTORS) >= 30
    for vector in VECTORS:
        assert (vector.expected is None) == (vector.flag == "refused") == bool(vector.refusal)
        assert vector.sources
        assert vector.single_source == (len(vector.sources) == 1)
        assert not any("mmref" in source for source in vector.sources)
        if vector.flag == "engine-dependent":
            assert vector.releases, "names no release that differs"


def test_what_is_left_out_has_a_reason() -> None:
    text = (generate._FOLDER / "reports.json").read_bytes()
    left_out = msgspec.json.decode(text, type=generate.Reports).left_out
    assert all(entry.reason for entry in left_out)
    assert len({entry.id for entry in left_out}) == len(left_out) == 39


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.id)
def test_the_reference_agrees(vector: vectors.Vector) -> None:
    actual = reference(vector.as_case())
    if vector.expected is None:
        assert (actual.status, actual.error) == ("refusal", vector.refusal)
        return
    assert actual.status == "answer"
    for name, expected in vector.expected.arrays().items():
        assert_same(expected, actual.arrays[name])


@pytest.mark.parametrize("vector", ANSWERED, ids=lambda vector: vector.id)
def test_the_second_source_agrees(vector: vectors.Vector) -> None:
    assert vector.expected is not None
    answer = define(vector.as_case())
    assert_same(np.array(vector.expected.position_ids), np.array(answer.positions))
    assert list(answer.deltas) == vector.expected.rope_deltas


@pytest.mark.parametrize(
    ("vector", "name"), RELEASED, ids=lambda value: getattr(value, "id", value)
)
def test_what_a_release_was_seen_to_do_is_what_its_rules_say(
    vector: vectors.Vector, name: str
) -> None:
    engine, _, version = name.rpartition("-")
    described = [
        known
        for known in differences.RELEASES[engine]
        if version_key(version)[:2] == version_key(known)[:2]
    ]
    if not described:
        pytest.skip(f"{name} is not described")
    seen = vector.releases[name]
    case = vector.as_case()
    try:
        positions = compute(case, rules=f"{engine}-{described[0]}").position_ids
    except RefusedPrompt:
        assert vector.flag == "refused"  # what a release makes of those is not predicted
        return
    except EngineRefusal:
        assert seen.error
        return
    kept = np.asarray(case.arrays.get("attention_mask", np.ones(positions.shape[1:]))) != 0
    assert_same(np.array(seen.position_ids)[:, kept], positions[:, kept])


@pytest.mark.engine
@pytest.mark.parametrize(
    ("vector", "name"), RELEASED, ids=lambda value: getattr(value, "id", value)
)
def test_the_installed_release_still_does_it(vector: vectors.Vector, name: str) -> None:
    version = name.rpartition("-")[2]
    try:
        engine = engines.get(name.replace("-" + version, "==" + version))
    except (Unavailable, EngineFault) as error:
        pytest.skip(str(error))
    seen, actual = vector.releases[name], engine.run(vector.as_case())
    if seen.error:
        assert (actual.status, actual.error) == ("refusal", seen.error)
    else:
        assert_same(np.array(seen.position_ids), actual.arrays["position_ids"])
