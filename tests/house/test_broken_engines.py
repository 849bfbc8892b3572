"""The checker can fail: every broken port is found, and the correct one never."""

from __future__ import annotations

import pytest
from house.broken_engines import BROKEN, Port

from mmref.case import Case
from mmref.differences import Release
from mmref.differential import judge, subjects
from mmref.differential.generate import generate_cases
from mmref.differential.run import run

EXAMPLES = 2000


def drawn(count: int, seed: int) -> list[Case]:
    from mmref import families

    return list(
        generate_cases(
            [subjects.get("positions")], sorted(families.names("positions")), count, seed
        )
    )


@pytest.fixture(scope="module")
def examples() -> list[Case]:
    return drawn(EXAMPLES, 0)


@pytest.mark.parametrize("broken", BROKEN, ids=lambda engine: engine.__name__)
def test_a_broken_port_is_found(broken: type[Port], examples: list[Case]) -> None:
    engine = broken()
    alone = Release(engine.name, engine.version, ())
    kinds = (judge(case, engine.run(case), alone).kind for case in examples)
    assert "new" in kinds


def test_the_correct_port_is_not(examples: list[Case]) -> None:
    engine = Port()
    alone = Release(engine.name, engine.version, ())
    found = [case for case in examples if judge(case, engine.run(case), alone).kind != "equal"]
    assert not found


def test_a_run_counts_and_shrinks_what_a_broken_port_does() -> None:
    broken = next(engine for engine in BROKEN if engine.__name__ == "SwappedSides")
    report = run(engine=[broken()], cases=200, subject=["positions"])
    assert report.total("new") > 0
    assert report.total("compared") == report.total("new") + report.total("equal")
    smallest = min(finding.case.arrays["input_ids"].size for finding in report.findings)
    assert smallest <= 3


@pytest.mark.slow
def test_nothing_is_found_in_twenty_thousand_examples_of_the_correct_port() -> None:
    report = run(engine=[Port()], cases=20_000, seed=1, subject=["positions"])
    assert report.total("compared") >= 20_000
    assert report.findings == []
