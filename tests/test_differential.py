"""The differential on engines that are made for it: it can tell, name, shrink and fail."""

from __future__ import annotations

import importlib
from dataclasses import replace

import numpy as np
import pytest

from mmref import differences, engines
from mmref.case import Case, Outcome
from mmref.differences.base import small_case, version_key
from mmref.differential import judge, reference
from mmref.differential.run import run, run_case

RUN = importlib.import_module("mmref.differential.run")  # the package has a function of that name


class Ideal:
    """An engine that is the reference; the others below part from it."""

    name = "transformers"
    version = "5.24.0"
    provider = "cpu"
    subjects = ("positions",)

    def skip(self, case: Case) -> str | None:
        return None

    def run(self, case: Case) -> Outcome:
        outcome = reference(case)
        arrays = {
            name: array.copy()
            for name, array in outcome.arrays.items()
            if name in ("position_ids", "next_position_ids")
        }
        return replace(outcome, arrays=arrays)


class Swapped(Ideal):
    def run(self, case: Case) -> Outcome:
        outcome = super().run(case)
        if outcome.status == "answer":
            outcome.arrays["position_ids"][1:] = outcome.arrays["position_ids"][:0:-1].copy()
        return outcome


class Crashing(Ideal):
    def run(self, case: Case) -> Outcome:
        if case.arrays["input_ids"].size > 3:
            return Outcome("crash", {}, "signal 11", "the process was killed")
        return super().run(case)


class Newer(Ideal):
    version = "5.31.2"


class Shy(Ideal):
    def skip(self, case: Case) -> str | None:
        return "shy"


@pytest.fixture
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Ideal:
    made: Ideal = request.param()
    monkeypatch.setattr(engines, "get", lambda name, provider: made)
    # the described release without a difference: the reference itself
    monkeypatch.setattr(
        RUN,
        "nearest_release",
        lambda name, version: differences.Release(name, "5.24", ()),
    )
    return made


@pytest.mark.parametrize("engine", [Ideal], indirect=True)
def test_an_ideal_engine_is_equal_everywhere(engine: Ideal) -> None:
    report = run(subject=["positions"], engine=["transformers"], cases=300)
    assert report.total("compared") == report.total("equal") > 300
    assert report.findings == []


@pytest.mark.parametrize("engine", [Swapped], indirect=True)
def test_a_fault_is_new_and_shrunk(engine: Ideal) -> None:
    report = run(subject=["positions"], engine=["transformers"], cases=150)
    assert report.total("new") > 10
    finding = next(entry for entry in report.findings if entry.kind == "new")
    # the smallest prompt on which h and w differ: one image of two tokens
    assert finding.case.arrays["input_ids"].size == 2
    assert finding.where == ("position_ids",)
    assert finding.predicted is not None
    again = run_case(finding.case, engine=["transformers"])
    assert again.total("new") == 1


@pytest.mark.parametrize("engine", [Crashing], indirect=True)
def test_a_crash_is_counted_and_new(engine: Ideal) -> None:
    report = run(subject=["positions"], engine=["transformers"], cases=100)
    assert report.total("crashed") > 10
    assert report.total("new") >= report.total("crashed")
    crash = next(entry for entry in report.findings if entry.actual.status == "crash")
    assert crash.actual.error == "signal 11"


@pytest.mark.parametrize("engine", [Newer], indirect=True)
def test_a_version_without_an_entry_is_said(engine: Ideal) -> None:
    report = run(subject=["positions"], engine=["transformers"], cases=0)
    assert not report.engines[0].described
    assert report.to_builtins()["engines"][0]["compared_as"] == "transformers-5.24"


@pytest.mark.parametrize("engine", [Shy], indirect=True)
def test_what_is_skipped_is_counted(engine: Ideal) -> None:
    report = run(subject=["positions"], engine=["transformers"], cases=20)
    assert report.total("compared") == 0
    assert report.total("skipped") > 20
    assert set(report.engines[0].skipped) == {"shy"}


def test_a_mended_engine_makes_its_difference_vanish(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "get", lambda name, provider: Ideal())
    entry = differences.get("transformers-text-resumes-inside-video")
    monkeypatch.setattr(
        RUN,
        "nearest_release",
        lambda name, version: differences.Release(name, "5.24", (entry,)),
    )
    report = run(subject=["positions"], engine=["transformers"], cases=0)
    assert report.total("vanished") == 1
    assert report.total("new") >= 1


def test_what_took_part_is_found_by_taking_it_away() -> None:
    release = differences.release("onnxruntime-genai", "0.18")
    case = small_case(
        [[20, 20, 20], [12, 11, 11]], videos=[[2, 2, 2]], seconds=np.array([0.25], np.float32)
    )
    arrays = {
        "position_ids": np.array(
            [[[0, 1, 2], [1, 2, 3]], [[0, 1, 2], [1, 2, 2]], [[0, 1, 2], [1, 2, 2]]]
        )
    }
    verdict = judge(case, Outcome("answer", arrays), release)
    assert verdict.kind == "known"
    assert {entry.id for entry in verdict.differences} == {
        "genai-rows-start-at-one",
        "genai-time-rounded",
    }


def test_versions_compare_in_order() -> None:
    ordered = ["4.49.0", "4.57", "5.0", "5.0.1", "5.3.0rc1", "5.17", "5.24.0"]
    assert [version_key(entry) for entry in ordered] == sorted(map(version_key, ordered))
    assert version_key("5.24") == version_key("5.24.0")
    assert version_key("2.0+cpu") == (2,)
    assert differences.nearest_release("transformers", "4.1").version == "4.49"
