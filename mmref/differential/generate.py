"""Drawing cases from the strategies: so many, and the same for the same seed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from mmref.case import Case
from mmref.differential.subjects import Subject

__all__ = ["draw", "generate_cases", "generation_settings"]

_REFUSED_SHARE = 5  # one generated case in so many is one that the reference refuses
_TOGETHER = 50  # one run of the generator favours some choices; several runs even that out


def generate_cases(
    subjects: Sequence[Subject], names: list[str], count: int, seed: int
) -> Iterable[Case]:
    """Accepted and refused cases of several subjects.

    Parameters
    ----------
    subjects : sequence of Subject
        They share the count.
    names : list of str
        Families.
    count : int
        How many in all.
    seed : int
        Of the generator.

    Yields
    ------
    Case
        One in five is a case that the reference refuses.
    """
    for number, subject in enumerate(subjects):
        share = count // len(subjects) + (number < count % len(subjects))
        refused = share // _REFUSED_SHARE
        covered = [name for name in names if name in subject.families()]
        if not covered:
            continue
        accepted_cases, refused_cases = subject.strategies(covered)
        yield from draw(accepted_cases, share - refused, seed)
        yield from draw(refused_cases, refused, seed)


def draw(strategy: Any, count: int, seed: int) -> list[Case]:
    """Exactly ``count`` cases, the same for the same seed.

    Parameters
    ----------
    strategy : SearchStrategy
        Of `mmref.case.Case`.
    count : int
        How many.
    seed : int
        Of the generator.

    Returns
    -------
    list of Case
        As drawn.
    """
    import hypothesis

    drawn: list[Case] = []
    while len(drawn) < count:

        def collect(case: Case) -> None:
            drawn.append(case)

        before = len(drawn)
        examples = min(_TOGETHER, count - before)
        settings = generation_settings(examples, [hypothesis.Phase.generate])
        given: Any = hypothesis.given(strategy)
        hypothesis.seed(seed + before)(settings(given(collect)))()
        if len(drawn) == before:  # pragma: no cover - a strategy that yields nothing
            break
    return drawn[:count]


def generation_settings(examples: int, phases: Sequence[Any]) -> Any:
    """Hypothesis settings of ours alone: CI=true must not change what a run draws.

    Parameters
    ----------
    examples : int
        Most examples.
    phases : sequence of hypothesis.Phase
        What to do.

    Returns
    -------
    hypothesis.settings
        Without database, deadline and health checks.
    """
    import hypothesis

    return hypothesis.settings(
        max_examples=max(1, examples),
        phases=list(phases),
        database=None,
        deadline=None,
        derandomize=False,
        print_blob=False,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
