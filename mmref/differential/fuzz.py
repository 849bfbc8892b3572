"""Campaigns: generate, compare and shrink until the time is up, in several processes.

Every worker generates its own cases and keeps each engine in a child of its
own. A finding is on disk before it is shrunk, and again when it is smaller.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import queue
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mmref import engines, families
from mmref.case import SUBJECTS, Case
from mmref.differential import subjects as subject_table
from mmref.differential.compare import judge
from mmref.differential.found import Found, Stored, size
from mmref.differential.generate import draw, generation_settings
from mmref.differential.run import (
    EngineReport,
    fault_of,
    release_for,
    skip_reason,
)
from mmref.engines import Engine
from mmref.errors import MissingRelease, Unavailable

__all__ = ["Campaign", "Settings", "fuzz"]

_BATCH = 200
_REFUSED = 40  # of a batch
_SHRINK_EXAMPLES = 1500
_SHRINK_SECONDS = 60.0
_COUNTS = ("compared", "equal", "known", "new", "crashed")


@dataclass(frozen=True, slots=True)
class Settings:
    """What a campaign is asked to do.

    Parameters
    ----------
    engines : tuple of str
        As for `mmref.engines.get`.
    found : Path
        The folder of findings.
    subjects, families : tuple of str
        Names; all if empty.
    seconds : float
        How long to go on.
    cases : int or None
        Most cases for each worker.
    workers : int
        Processes that generate and compare.
    seed : int
        Of the generator; each worker and batch derives its own.
    provider : str
        What the engines compute on.
    """

    engines: tuple[str, ...]
    found: Path
    subjects: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    seconds: float = 600.0
    cases: int | None = None
    workers: int = 1
    seed: int = 0
    provider: str = "cpu"


@dataclass(slots=True)
class Campaign:
    """What a campaign came to, so far.

    Parameters
    ----------
    settings : Settings
        What was asked.
    engines : dict of str to (str, str)
        Name and version of the engines that ran, by label.
    counts : dict of str to Counter
        By label: ``compared``, ``equal``, ``known``, ``new``, ``crashed``, ``skipped``.
    findings : dict of str to int
        Files of new differences, and how often each was met.
    gone : list of str
        Findings of earlier runs that are not met any more.
    missing : list of Unavailable
        Engines that are not installed.
    cases : int
        Cases generated.
    seconds : float
        How long it went on.
    """

    settings: Settings
    engines: dict[str, tuple[str, str]] = field(default_factory=dict)
    counts: dict[str, Counter[str]] = field(default_factory=dict)
    findings: dict[str, int] = field(default_factory=dict)
    gone: list[str] = field(default_factory=list)
    missing: list[Unavailable] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    cases: int = 0
    seconds: float = 0.0

    def total(self, name: str) -> int:
        """A count over all engines.

        Parameters
        ----------
        name : str
            As in ``counts``.

        Returns
        -------
        int
            Pairs of case and engine.
        """
        return sum(count[name] for count in self.counts.values())

    def to_builtins(self) -> dict[str, Any]:
        """The JSON form.

        Returns
        -------
        dict
            ``engines``, ``totals``, ``findings``, ``gone``, ``missing``, ``seed``, ``seconds``.
        """
        names = (*_COUNTS, "skipped")
        return {
            "engines": [
                {"name": name, "version": version, **dict(self.counts[label])}
                for label, (name, version) in self.engines.items()
            ],
            "totals": {name: self.total(name) for name in names},
            "findings": [{"file": name, "count": n} for name, n in sorted(self.findings.items())],
            "gone": self.gone,
            "missing": [
                {"name": error.library, "reason": str(error), "pip": error.pip_line}
                for error in self.missing
            ],
            "faults": self.faults,
            "cases": self.cases,
            "workers": self.settings.workers,
            "seed": self.settings.seed,
            "seconds": round(self.seconds, 3),
            "found": str(self.settings.found),
        }


def fuzz(settings: Settings, progress: Callable[[Campaign], None] | None = None) -> Campaign:
    """Run a campaign.

    Parameters
    ----------
    settings : Settings
        What to do. Without engines, all that are installed.
    progress : callable, optional
        Called with the campaign so far, several times a second.

    Returns
    -------
    Campaign
        Counts and the files of findings.

    Raises
    ------
    UnknownName
        If an engine, a family or a subject is not known.
    Unavailable
        If an engine that was asked for, or Hypothesis, is not installed.
    EngineFault
        If an engine cannot be started, or the folder of findings not be written.
    BadCase
        If a file in the folder is not a finding.
    """
    from mmref.testing import strategies  # noqa: F401 - a missing Hypothesis is named here

    started = time.monotonic()
    for name in settings.families:
        families.get(name)
    for name in settings.subjects:
        subject_table.get(name)
    found = Found(settings.found)
    found.clean()
    stored = found.load()
    campaign = Campaign(settings)
    opened = _open(settings.engines, campaign)
    _replay(opened, stored, campaign)
    names = tuple(specification for specification, _ in opened)
    for _, entry in opened:
        _close(entry.engine)
    if not opened:
        campaign.seconds = time.monotonic() - started
        return campaign
    context = multiprocessing.get_context("spawn")
    news: Any = context.Queue()
    deadline = time.time() + settings.seconds - (time.monotonic() - started)
    workers = [
        context.Process(
            target=_work, args=(settings, names, number, deadline, news, os.getpid()), daemon=True
        )
        for number in range(settings.workers)
    ]
    for worker in workers:
        worker.start()
    try:
        while any(worker.is_alive() for worker in workers):
            _read(news, campaign)
            campaign.seconds = time.monotonic() - started
            if progress is not None:
                progress(campaign)
    except KeyboardInterrupt:
        for worker in workers:
            worker.terminate()
    for worker in workers:
        worker.join()
    while _read(news, campaign):
        pass
    for number, worker in enumerate(workers):
        if worker.exitcode:
            campaign.faults.append(f"worker {number} ended with exit code {worker.exitcode}")
    campaign.seconds = time.monotonic() - started
    return campaign


def _open(specifications: Sequence[str], campaign: Campaign) -> list[tuple[str, EngineReport]]:
    opened = []
    for specification in dict.fromkeys(specifications or engines.names()):
        try:
            engine = _host(specification, campaign.settings.provider)
        except Unavailable as error:
            if specifications and not isinstance(error, MissingRelease):
                raise
            campaign.missing.append(error)
            continue
        entry = EngineReport(engine, release_for(engine))
        opened.append((specification, entry))
        campaign.engines[entry.label] = (engine.name, engine.version)
        campaign.counts[entry.label] = Counter()
    return opened


def _host(specification: str, provider: str) -> Engine:
    """A program is a child already; the others are given one."""
    from mmref.engines.host import Hosted

    if specification.startswith("command:"):
        return engines.get(specification, provider=provider)
    return Hosted(specification, provider=provider)


def _close(engine: Engine) -> None:
    close = getattr(engine, "close", None)
    if close is not None:
        close()


def _replay(
    opened: Iterable[tuple[str, EngineReport]], stored: Sequence[Stored], campaign: Campaign
) -> None:
    """What was found before comes first; what has gone is said."""
    for _, entry in opened:
        for finding in stored:
            if finding.engine not in ("", entry.engine.name):
                continue
            if skip_reason(entry.engine, finding.case) is not None:
                campaign.counts[entry.label]["skipped"] += 1
                continue
            verdict = judge(finding.case, entry.engine.run(finding.case), entry.release)
            _count(campaign.counts[entry.label], verdict.kind, verdict.actual.status)
            if verdict.kind == "new":
                campaign.findings[finding.path.name] = (
                    campaign.findings.get(finding.path.name, 0) + 1
                )
            elif finding.engine:
                campaign.gone.append(finding.path.name)


def _count(counts: Counter[str], kind: str, status: str) -> None:
    counts["compared"] += 1
    counts[kind] += 1
    counts["crashed"] += status in ("crash", "timeout")


def _read(news: Any, campaign: Campaign) -> bool:
    """Take in one message of a worker; False if there was none for a while."""
    try:
        counts, findings, cases = news.get(timeout=0.2)
    except (queue.Empty, EOFError, OSError):
        return False
    for name, count in counts.items():
        campaign.counts[name].update(count)
    for name, count in findings.items():
        campaign.findings[name] = campaign.findings.get(name, 0) + count
    campaign.cases += cases
    return True


def _work(
    settings: Settings,
    names: Sequence[str],
    number: int,
    deadline: float,
    news: Any,
    parent: int,
) -> None:
    """One worker: batches of cases, every case on every engine, every new fault on disk."""
    with contextlib.suppress(KeyboardInterrupt):
        worker = _Worker(settings, names, number, deadline, parent)
        while worker.goes_on():
            news.put(worker.batch())
        for entry in worker.opened:
            _close(entry.engine)


class _Worker:
    def __init__(
        self, settings: Settings, names: Sequence[str], number: int, deadline: float, parent: int
    ) -> None:
        self.settings = settings
        self.number = number
        self.deadline = deadline
        self.parent = parent
        self.found = Found(settings.found)
        engines_here = [_host(name, settings.provider) for name in names]
        self.opened = [EngineReport(engine, release_for(engine)) for engine in engines_here]
        self.families = {families.get(name).name for name in settings.families} or set(
            families.names("all")
        )
        wanted = [subject_table.get(name) for name in settings.subjects or SUBJECTS]
        self.subjects = [subject for subject in wanted if self.families & set(subject.families())]
        self.batches = 0
        self.cases = 0
        self.met: dict[tuple[str, ...], str] = {}

    def goes_on(self) -> bool:
        if not self.subjects:  # the families that were asked for have none of these subjects
            return False
        if self.settings.cases is not None and self.cases >= self.settings.cases:
            return False
        # a worker whose parent was killed is nobody's
        return time.time() < self.deadline and os.getppid() == self.parent

    def batch(self) -> tuple[dict[str, Counter[str]], dict[str, int], int]:
        count = _BATCH
        if self.settings.cases is not None:
            count = min(count, self.settings.cases - self.cases)
        subject = self.subjects[self.batches % len(self.subjects)]
        seed = random.Random(f"{self.settings.seed} {self.number} {self.batches}").getrandbits(32)
        refused = count * _REFUSED // _BATCH
        accepted_cases, refused_cases = subject.strategies(
            sorted(self.families & set(subject.families()))
        )
        cases = draw(accepted_cases, count - refused, seed) + draw(refused_cases, refused, seed)
        self.batches += 1
        counts: dict[str, Counter[str]] = {entry.label: Counter() for entry in self.opened}
        findings: Counter[str] = Counter()
        done = 0
        for case in cases:
            for entry in self.opened:
                self.compare(entry, case, seed, counts[entry.label], findings)
            done += 1
            if not self.goes_on():
                break
        self.cases += done
        return counts, dict(findings), done

    def compare(
        self,
        entry: EngineReport,
        case: Case,
        seed: int,
        counts: Counter[str],
        findings: Counter[str],
    ) -> None:
        if skip_reason(entry.engine, case) is not None:
            counts["skipped"] += 1
            return
        verdict = judge(case, entry.engine.run(case), entry.release)
        _count(counts, verdict.kind, verdict.actual.status)
        if verdict.kind != "new":
            return
        fault = fault_of(entry.label, case, verdict)
        if fault not in self.met:
            about = {
                "engine": entry.engine.name,
                "version": entry.engine.version,
                "seed": seed,
            }
            self.met[fault] = self.found.add(fault, case, verdict, **about).name
            smaller = self.shrink(entry, fault, case)
            if smaller is not None:
                verdict = judge(smaller, entry.engine.run(smaller), entry.release)
                if verdict.kind == "new":
                    self.found.add(fault, smaller, verdict, **about)
        findings[self.met[fault]] += 1

    def shrink(self, entry: EngineReport, fault: tuple[str, ...], case: Case) -> Case | None:
        """A smaller case with the same fault, if the generator finds one in time."""
        import hypothesis

        until = min(self.deadline, time.time() + _SHRINK_SECONDS)
        accepted, refused = subject_table.get(case.subject).strategies(
            [families.get(case.family).name]
        )
        smallest: Case | None = None

        def shows(candidate: Case) -> bool:
            nonlocal smallest
            if time.time() > until or skip_reason(entry.engine, candidate) is not None:
                return False
            verdict = judge(candidate, entry.engine.run(candidate), entry.release)
            if verdict.kind != "new" or fault_of(entry.label, candidate, verdict) != fault:
                return False
            if size(candidate) < size(smallest or case):
                smallest = candidate
            return True

        phases = [hypothesis.Phase.generate, hypothesis.Phase.shrink]
        # an engine that does not repeat itself makes the search fail; what it showed counts
        with contextlib.suppress(hypothesis.errors.HypothesisException):
            hypothesis.find(
                accepted if fault[2] == "answer" else refused,
                shows,
                settings=generation_settings(_SHRINK_EXAMPLES, phases),
                random=random.Random(self.settings.seed),
            )
        return smallest
