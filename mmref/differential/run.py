"""The main job: many cases on the real engines, every outcome accounted for."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from mmref import engines, families
from mmref.case import SUBJECTS, Case, Outcome
from mmref.differences import ALL, RELEASES, Release, nearest_release, version_key
from mmref.differential import subjects as subject_table
from mmref.differential.compare import Verdict, judge
from mmref.differential.generate import generate_cases, generation_settings
from mmref.differential.subjects import Subject
from mmref.engines import Engine
from mmref.errors import MissingRelease, Unavailable

__all__ = ["EngineReport", "Finding", "Report", "run", "run_case"]

Progress = Callable[[int, int], None]
_SHRUNK_KINDS = 5  # so many kinds of new difference are shrunk for each engine


@dataclass(slots=True)
class EngineReport:
    """What came of one engine."""

    engine: Engine
    release: Release
    compared: int = 0
    equal: int = 0
    known: int = 0
    new: int = 0
    crashed: int = 0
    skipped: Counter[str] = field(default_factory=Counter)

    @property
    def label(self) -> str:
        """What tells two releases of one engine apart."""
        return f"{self.engine.name} {self.engine.version}"

    @property
    def described(self) -> bool:
        """Whether the version that ran has an entry of its own."""
        depth = self.release.version.count(".") + 1
        numbers = [*version_key(self.engine.version), 0, 0, 0][:depth]
        return version_key(".".join(map(str, numbers))) == version_key(self.release.version)


@dataclass(slots=True)
class Finding:
    """A difference, with its smallest case."""

    kind: Literal["known", "new", "vanished"]
    id: str
    engine: str
    version: str
    count: int
    meaning: str
    case: Case
    where: tuple[str, ...]
    reference: Outcome
    actual: Outcome
    predicted: Outcome | None = None


@dataclass(slots=True)
class Report:
    """What came of a run."""

    engines: list[EngineReport]
    findings: list[Finding]
    missing: list[Unavailable]
    seed: int
    seconds: float = 0.0

    def total(self, name: str) -> int:
        """A count over all engines.

        Parameters
        ----------
        name : str
            ``compared``, ``equal``, ``known``, ``new``, ``crashed``, ``skipped`` or ``vanished``.

        Returns
        -------
        int
            Pairs of case and engine; for ``vanished`` differences.
        """
        if name == "vanished":
            return sum(finding.kind == "vanished" for finding in self.findings)
        if name == "skipped":
            return sum(sum(report.skipped.values()) for report in self.engines)
        return sum(getattr(report, name) for report in self.engines)

    def matrix(self) -> tuple[list[str], list[list[str]]]:
        """Differences against engines: how often each was met.

        Returns
        -------
        tuple
            Titles (difference, then a label for each engine), and rows of text: a
            count, ``vanished``, or nothing where the release does not have it.
        """
        oldest_first = sorted(
            self.engines, key=lambda entry: (entry.engine.name, version_key(entry.engine.version))
        )
        labels = [entry.label for entry in oldest_first]
        cells: dict[str, dict[str, str]] = {}
        for finding in self.findings:
            text = "vanished" if finding.kind == "vanished" else str(finding.count)
            identifier = "(new)" if finding.kind == "new" else finding.id
            cells.setdefault(identifier, {})[f"{finding.engine} {finding.version}"] = text
        rows = [
            [name, *(found.get(label, "") for label in labels)]
            for name, found in sorted(cells.items())
        ]
        return ["difference", *labels], rows

    def to_builtins(self) -> dict[str, Any]:
        """The JSON form.

        Returns
        -------
        dict
            ``engines``, ``totals``, ``differences``, ``missing``, ``seed``, ``seconds``.
        """
        names = ("compared", "equal", "known", "new", "vanished", "skipped", "crashed")
        return {
            "engines": [
                {
                    "name": report.engine.name,
                    "version": report.engine.version,
                    "provider": report.engine.provider,
                    "compared_as": report.release.name,
                    "compared": report.compared,
                    "equal": report.equal,
                    "known": report.known,
                    "new": report.new,
                    "crashed": report.crashed,
                    "skipped": dict(report.skipped),
                }
                for report in self.engines
            ],
            "totals": {name: self.total(name) for name in names},
            "differences": [
                {
                    "id": finding.id,
                    "kind": finding.kind,
                    "engine": finding.engine,
                    "version": finding.version,
                    "count": finding.count,
                    "meaning": finding.meaning,
                    "case": finding.case.to_builtins(),
                    "reference": finding.reference.to_builtins(),
                    "engine_outcome": finding.actual.to_builtins(),
                }
                for finding in self.findings
            ],
            "missing": [
                {"name": error.library, "reason": str(error), "pip": error.pip_line}
                for error in self.missing
            ],
            "seed": self.seed,
            "seconds": round(self.seconds, 3),
        }


def run(
    *,
    subject: Sequence[str] = (),
    family: Sequence[str] = (),
    engine: Sequence[str | Engine] = (),
    provider: str = "cpu",
    cases: int = 4000,
    seed: int = 0,
    progress: Progress | None = None,
) -> Report:
    """Compare engines with the reference on stored, curated and generated cases.

    Parameters
    ----------
    subject : sequence of str
        Subjects, names of `mmref.case.SUBJECTS`. Default: all.
    family : sequence of str
        Families to restrict to. Default: all.
    engine : sequence of str or Engine
        Engines, as for `mmref.engines.get`, or your own. Default: all that are installed.
    provider : str
        What they shall compute on, as for `mmref.engines.get`.
    cases : int
        How many cases to generate, shared out over the subjects.
    seed : int
        Of the generator.
    progress : callable, optional
        Called with (cases done, cases in all).

    Returns
    -------
    Report
        Counts, and every difference with its smallest case.

    Raises
    ------
    UnknownName
        If a subject, a family or an engine is not known.
    Unavailable
        If an engine that was asked for, or Hypothesis, is not installed.
    """
    started = time.monotonic()
    wanted = {families.get(name).name for name in family} or set(families.names("all"))
    subjects = [subject_table.get(name) for name in subject or SUBJECTS]
    opened, missing = _open(engine, provider)
    tally = _Tally(opened)
    stored = _stored_cases(subjects, wanted)
    total = len(stored) + cases
    done = 0
    for case in stored:
        tally.add(case)
        done += 1
        if progress is not None:
            progress(done, total)
    if opened and cases:
        for case in generate_cases(subjects, sorted(wanted), cases, seed):
            tally.add(case)
            done += 1
            if progress is not None:
                progress(done, total)
    report = Report(opened, [], missing, seed)
    for entry in opened:
        report.findings += _known(entry, tally, subjects, wanted)
        report.findings += _new(entry, tally, sorted(wanted), cases, seed)
    report.seconds = time.monotonic() - started
    return report


def run_case(case: Case, *, engine: Sequence[str | Engine] = (), provider: str = "cpu") -> Report:
    """Compare engines with the reference on one case.

    Parameters
    ----------
    case : Case
        The case.
    engine : sequence of str or Engine
        Engines, as for `mmref.engines.get`, or your own. Default: all that are installed.
    provider : str
        What they shall compute on, as for `mmref.engines.get`.

    Returns
    -------
    Report
        Counts, and what took part.

    Raises
    ------
    UnknownName
        If the case's family or an engine is not known.
    Unavailable
        If an engine that was asked for is not installed.
    """
    started = time.monotonic()
    families.get(case.family)
    opened, missing = _open(engine, provider)
    tally = _Tally(opened)
    tally.add(case)
    report = Report(opened, [], missing, 0)
    for entry in opened:
        for (name, identifier), seen in tally.known.items():
            if name == entry.label:
                report.findings.append(_finding("known", entry, identifier, seen))
        for fault, seen in tally.new.items():
            if fault[0] == entry.label:
                report.findings.append(_finding("new", entry, f"new-{seen.case.key}", seen))
    report.seconds = time.monotonic() - started
    return report


@dataclass(slots=True)
class _Seen:
    """How often something was seen, and the smallest case that showed it."""

    case: Case
    verdict: Verdict
    count: int = 0

    def add(self, case: Case, verdict: Verdict) -> None:
        self.count += 1
        if case.size < self.case.size:
            self.case, self.verdict = case, verdict


class _Tally:
    """Every comparison ends here, in one count."""

    def __init__(self, opened: Iterable[EngineReport]) -> None:
        self.opened = list(opened)
        self.known: dict[tuple[str, str], _Seen] = {}
        self.new: dict[tuple[str, ...], _Seen] = {}

    def add(self, case: Case) -> None:
        for entry in self.opened:
            reason = skip_reason(entry.engine, case)
            if reason is not None:
                entry.skipped[reason] += 1
                continue
            verdict = judge(case, entry.engine.run(case), entry.release)
            entry.compared += 1
            entry.crashed += verdict.actual.status in ("crash", "timeout")
            setattr(entry, verdict.kind, getattr(entry, verdict.kind) + 1)
            if verdict.kind == "known":
                for difference in verdict.differences:
                    key = (entry.label, difference.id)
                    self.known.setdefault(key, _Seen(case, verdict)).add(case, verdict)
            elif verdict.kind == "new":
                fault = fault_of(entry.label, case, verdict)
                self.new.setdefault(fault, _Seen(case, verdict)).add(case, verdict)


def skip_reason(engine: Engine, case: Case) -> str | None:
    if case.subject not in engine.subjects:
        return f"the engine is not asked about {case.subject}"
    return engine.skip(case)


def fault_of(engine: str, case: Case, verdict: Verdict) -> tuple[str, ...]:
    """What makes two new differences one: engine, subject, statuses, and the first array."""
    return (
        engine,
        case.subject,
        verdict.reference.status,
        verdict.reference.error,
        verdict.actual.status,
        verdict.where[0],
    )


def _open(
    specifications: Sequence[str | Engine], provider: str
) -> tuple[list[EngineReport], list[Unavailable]]:
    opened: list[EngineReport] = []
    missing: list[Unavailable] = []
    for specification in dict.fromkeys(specifications or engines.names()):
        if not isinstance(specification, str):
            opened.append(EngineReport(specification, release_for(specification)))
            continue
        try:
            found = engines.get(specification, provider=provider)
        except Unavailable as error:
            if specifications and not isinstance(error, MissingRelease):
                raise
            missing.append(error)
            continue
        opened.append(EngineReport(found, release_for(found)))
    return opened, missing


def release_for(engine: Engine) -> Release:
    """The release an engine is compared as; an engine nothing is known of, as the reference.

    Parameters
    ----------
    engine : Engine
        The engine.

    Returns
    -------
    Release
        The nearest described one, or one without differences.
    """
    if engine.name not in RELEASES:
        return Release(engine.name, engine.version, ())
    return nearest_release(engine.name, engine.version)


def _stored_cases(subjects: Sequence[Subject], wanted: set[str]) -> list[Case]:
    names = {subject.name for subject in subjects}
    stored = [entry.case for entry in ALL if entry.subject in names]
    for subject in subjects:
        stored += subject.corners().values()
    return [case for case in stored if families.get(case.family).name in wanted]


def _known(
    entry: EngineReport, tally: _Tally, subjects: Sequence[Subject], wanted: set[str]
) -> Iterable[Finding]:
    """The release's differences, those seen and those whose smallest case shows them no more."""
    names = {subject.name for subject in subjects}
    for difference in entry.release.differences:
        if difference.subject not in names or difference.subject not in entry.engine.subjects:
            continue
        asked = skip_reason(entry.engine, difference.case) is None
        if families.get(difference.case.family).name not in wanted or not asked:
            seen = tally.known.get((entry.label, difference.id))
            if seen is not None:
                yield _finding("known", entry, difference.id, seen)
            continue
        verdict = judge(difference.case, entry.engine.run(difference.case), entry.release)
        holds = difference in verdict.differences
        seen = tally.known.get((entry.label, difference.id))
        shown = _Seen(difference.case, verdict, seen.count if seen is not None else 0)
        yield _finding("known" if holds else "vanished", entry, difference.id, shown)


def _new(
    entry: EngineReport, tally: _Tally, names: list[str], count: int, seed: int
) -> Iterable[Finding]:
    own = [(key, seen) for key, seen in tally.new.items() if key[0] == entry.label]
    for number, (key, seen) in enumerate(own):
        smallest = seen
        if number < _SHRUNK_KINDS and count:
            smallest = _shrink(entry, key, seen, names, count, seed)
        yield _finding("new", entry, f"new-{smallest.case.key}", smallest)


def _shrink(
    entry: EngineReport,
    key: tuple[str, ...],
    seen: _Seen,
    names: list[str],
    count: int,
    seed: int,
) -> _Seen:
    """The smallest generated case with the same fault."""
    import hypothesis

    subject = subject_table.get(seen.case.subject)
    covered = [name for name in names if name in subject.families()]
    accepted, refused = subject.strategies(covered)
    strategy = accepted if key[2] == "answer" else refused

    def shows(case: Case) -> bool:
        if skip_reason(entry.engine, case) is not None:
            return False
        verdict = judge(case, entry.engine.run(case), entry.release)
        return verdict.kind == "new" and fault_of(entry.label, case, verdict) == key

    try:
        case = hypothesis.find(
            strategy,
            shows,
            settings=generation_settings(
                max(count, 2000), [hypothesis.Phase.generate, hypothesis.Phase.shrink]
            ),
            random=random.Random(seed),
        )
    except (
        hypothesis.errors.NoSuchExample,
        hypothesis.errors.Flaky,
    ):  # Flaky: an engine with memory
        return seen
    if case.size > seen.case.size:
        return seen
    return _Seen(case, judge(case, entry.engine.run(case), entry.release), seen.count)


def _finding(
    kind: Literal["known", "new", "vanished"], entry: EngineReport, identifier: str, seen: _Seen
) -> Finding:
    meaning = "not explained by the reference and the named differences of this release"
    for difference in entry.release.differences:
        if difference.id == identifier:
            meaning = difference.meaning
    if kind == "vanished":
        meaning = f"no longer shown by its smallest case: {meaning}"
    verdict = seen.verdict
    return Finding(
        kind,
        identifier,
        entry.engine.name,
        entry.engine.version,
        seen.count,
        meaning,
        seen.case,
        verdict.where,
        verdict.reference,
        verdict.actual,
        verdict.predicted if kind == "new" else None,
    )
