"""Releases of transformers out of their wheels, against the rules that are said to be theirs."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from support import compute

from mmref import differences, engines, families
from mmref.case import Case
from mmref.cli import main
from mmref.differences.base import small_case
from mmref.differential import judge, predict, unlike
from mmref.differential.generate import draw
from mmref.differential.run import run
from mmref.engines import Engine, wheels
from mmref.errors import EngineFault, EngineRefusal, MissingExtra, MissingRelease, UnknownName
from mmref.testing.strategies import cases

VERSIONS = ("4.49.0", "4.52.4", "4.57.1", "5.0.0", "5.2.0", "5.3.0", "5.6.0", "5.17.0", "5.19.0")
OFTEN = ("4.57.1", "5.2.0", "5.3.0")  # each has accidents that no other has
EVERY_FAMILY = [
    (version, name)
    for version in VERSIONS
    for name in families.names()
    if differences.version_key(families.get(name).transformers_since)
    <= differences.version_key(version)
]


def release(version: str, name: str = "transformers") -> Engine:
    """The engine, fetched if need be; without a network and a wheel, the test is skipped."""
    specification = f"{name}=={version}"
    try:
        return engines.get(specification)
    except MissingExtra as error:
        pytest.skip(str(error))
    except MissingRelease:
        pass
    try:
        return engines.add(specification)
    except EngineFault as error:
        if error.code != "release-not-found":
            raise
        pytest.skip(str(error))


@cache
def prompts(family: str, count: int) -> list[Case]:
    """Drawn once, put to every release."""
    return draw(cases(family=family), count, 1)


def check_rules(version: str, family: str, count: int) -> None:
    engine = release(version)
    rules = differences.nearest_release(engine.name, engine.version)
    answered = 0
    for case in prompts(family, count):
        if engine.skip(case) is not None:
            continue
        actual = engine.run(case)
        assert unlike(predict(case, rules), actual) == (), (version, case)
        answered += actual.status == "answer"
        if count > 100:
            continue  # the door is the same for every case
        if actual.status == "answer":
            found = compute(case, rules=rules.name)
            assert np.array_equal(found.position_ids, actual.arrays["position_ids"])
        else:
            with pytest.raises(EngineRefusal):
                compute(case, rules=rules.name)
    assert answered > count / 5


@pytest.mark.parametrize("version", OFTEN)
def test_rules_equal_the_release(version: str) -> None:
    for family in [name for known, name in EVERY_FAMILY if known == version]:
        check_rules(version, family, 100)


@pytest.mark.slow
@pytest.mark.parametrize("family", families.names())
def test_rules_equal_every_release_that_has_the_family(family: str) -> None:
    for version in [known for known, name in EVERY_FAMILY if name == family]:
        check_rules(version, family, 1000)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_family_is_there_from_the_release_on_that_its_row_says(version: str) -> None:
    if version not in OFTEN and f"transformers=={version}" not in engines.added():
        pytest.skip("fetched by the long campaigns")
    engine = release(version)
    for name in families.names():
        case = small_case([[20]], name)
        since = families.get(name).transformers_since
        there = differences.version_key(since) <= differences.version_key(version)
        assert (engine.skip(case) is None) == there, name
        assert (
            f"transformers-{_described(version)}" in differences.rules_names(families.get(name))
        ) == there


@pytest.mark.parametrize("version", OFTEN)
def test_every_difference_is_shown_by_its_smallest_case(version: str) -> None:
    engine = release(version)
    rules = differences.nearest_release("transformers", version)
    for difference in rules.differences:
        if difference.subject != "positions" or engine.skip(difference.case) is not None:
            continue
        verdict = judge(difference.case, engine.run(difference.case), rules)
        assert difference in verdict.differences, difference.id


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_nothing_is_new_and_nothing_has_vanished(version: str) -> None:
    engine = release(version)
    report = run(engine=[engine], subject=["positions"], cases=0)
    unlike_expected = [f.id for f in report.findings if f.kind != "known"]
    assert unlike_expected == []


@pytest.mark.slow
def test_an_older_genai_in_a_child_does_as_its_rules_say() -> None:
    pytest.importorskip("onnxruntime_genai")
    engine = release("0.16.0", "onnxruntime-genai")
    report = run(engine=[engine], subject=["positions"], cases=1500, seed=16)
    assert [f.id for f in report.findings if f.kind != "known"] == []
    assert report.total("compared") > 300
    assert {f.version for f in report.findings} == {"0.16.0"}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "version"), [("sglang", "0.5.23"), ("vllm", "0.33.0")])
def test_engines_that_serve_requests_do_as_their_rules_say(name: str, version: str) -> None:
    if name == "vllm" and f"vllm=={version}" not in engines.added():
        pytest.skip("its wheel has 336 MB: run mmref engines add vllm==0.33.0 to test it")
    engine = release(version, name)
    rules = differences.nearest_release(name, version)
    shipped = [
        family
        for family in families.names()
        if rules.name in differences.rules_names(families.get(family))
    ]
    report = run(engine=[engine], subject=["positions"], cases=1500, seed=7)
    assert [f.id for f in report.findings if f.kind != "known"] == []
    prompts = [
        case for case in draw(cases(family=shipped, max_rows=1), 600, 3) if not engine.skip(case)
    ]
    assert len(prompts) > 100
    for case in prompts:
        assert unlike(predict(case, rules), engine.run(case)) == (), case


def test_two_releases_of_one_engine_are_told_apart() -> None:
    old, new = release("5.2.0"), release("5.3.0")
    report = run(engine=[old, new], subject=["positions"], cases=0, family=["qwen2_vl"])
    seen = {(finding.version, finding.id) for finding in report.findings}
    assert ("5.2.0", "transformers-delta-not-negative") in seen
    assert ("5.3.0", "transformers-grid-steps-collapsed") in seen
    assert ("5.3.0", "transformers-delta-not-negative") not in seen


def test_a_release_that_is_not_fetched_is_skipped_with_the_line_that_fetches_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MMREF_CACHE", str(tmp_path))
    with pytest.raises(SystemExit) as caught:
        main(["diff", "--engine", "transformers==4.57.1", "--cases", "0"])
    assert caught.value.code == 3
    assert "mmref engines add transformers==4.57.1" in capsys.readouterr().err


def pip_that(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pip that runs some code, with the folder it is to download to as `folder`."""
    real = subprocess.run

    def fake(command: list[str], **named: object) -> object:
        folder = command[command.index("--dest") + 1]
        return real([sys.executable, "-c", f"folder = {folder!r}\n{code}"], **named)  # type: ignore[call-overload]

    monkeypatch.setattr(wheels.subprocess, "run", fake)


@pytest.mark.parametrize(
    ("specification", "error"),
    [
        ("transformers", "release-unclear"),
        ("transformers==", "release-unclear"),
        ("transformers==4.57.1; print()", "release-unclear"),
        ("transformers>=4", "unknown-engine"),
        ("vllm", "release-unclear"),
        ("llama.cpp==1", "unknown-engine"),
    ],
)
def test_an_unclear_specification_is_refused(specification: str, error: str) -> None:
    with pytest.raises((EngineFault, UnknownName)) as caught:
        engines.add(specification)
    assert caught.value.code == error


def test_what_pip_cannot_satisfy_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MMREF_CACHE", str(tmp_path))
    pip_that("import sys; sys.exit('ERROR: No matching distribution found')", monkeypatch)
    with pytest.raises(EngineFault, match=r"No matching distribution found.*release-not-found"):
        engines.add("transformers==4.57.1")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("files", "code"),
    [
        ({}, "source-missing"),
        ({"transformers/models/qwen2_vl/modeling_qwen2_vl.py": "x = 1"}, "source-missing"),
        (None, "wheel-damaged"),
    ],
)
def test_a_wheel_without_the_function_is_refused_and_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str] | None, code: str
) -> None:
    wheel = tmp_path / "made.whl"
    if files is None:
        wheel.write_bytes(b"PK")
    else:
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr("empty", "")
            for name, text in files.items():
                archive.writestr(name, text)
    cache = tmp_path / "cache"
    monkeypatch.setenv("MMREF_CACHE", str(cache))
    name = "transformers-4.57.1-py3-none-any.whl"
    pip_that(f"import shutil; shutil.copy({str(wheel)!r}, folder + '/{name}')", monkeypatch)
    with pytest.raises(EngineFault) as caught:
        engines.add("transformers==4.57.1")
    assert caught.value.code == code
    assert engines.added() == ()


def test_a_cache_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MMREF_CACHE", str(tmp_path / "file"))
    with pytest.raises(EngineFault, match="cache-unwritable"):
        engines.add("transformers==4.57.1")


def _described(version: str) -> str:
    return differences.nearest_release("transformers", version).version
