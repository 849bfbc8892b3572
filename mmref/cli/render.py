"""What a person sees. The only place that imports rich."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mmref import families
from mmref.case import Outcome
from mmref.check import Check
from mmref.check import Report as PackageReport
from mmref.differences import RELEASES
from mmref.differential import fusion
from mmref.differential.explain import Explanation, Token
from mmref.differential.fuzz import Campaign
from mmref.differential.run import Finding, Report
from mmref.differential.words import item_lines, outcome_lines, prompt_line
from mmref.errors import Unavailable

__all__ = ["campaign", "diff", "engines", "explanation", "json", "nothing_compared"]

_ENGINE_KEYS = ("name", "version", "provider", "compared_as", "differences")
_MOST_TOKENS = 200
_NOT_ASKED = "the engine is not asked about "
_WIDE = 400  # a table of many releases is wider than a terminal: nothing is cut
_LONGEST_CASE = 2000  # characters of a case on the command line
_BOUNDARIES = {
    "prompt": "The tokens around an image are the prompt's own: the chat template writes them.",
    "expansion": "The tokens around an image are written with it, not by the prompt.",
    "none": "This family has no tokens around an image.",
}
_STYLES = {"new": "bold red", "vanished": "bold red", "known": "bold"}


def json(data: Any) -> None:
    """Write JSON to standard output, as one line.

    Parameters
    ----------
    data : object
        What msgspec can encode.
    """
    sys.stdout.write(msgspec.json.encode(data).decode() + "\n")


def engines(rows: Sequence[Mapping[str, str]]) -> None:
    """Write the table of engines.

    Parameters
    ----------
    rows : sequence of mapping
        As `mmref.cli.engines` makes them.
    """
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("engine", "version", "provider", "compared as", "named differences"):
        table.add_column(title)
    installed = [row for row in rows if "version" in row]
    for row in installed:
        table.add_row(*(row[key] for key in _ENGINE_KEYS))
    console = _console()
    if installed:
        console.print(table)
    for row in rows:
        if row not in installed:
            console.print(f"{row['name']} is not installed: {row['pip']}")


def diff(report: Report, command: str = "") -> None:
    """Write a report: differences first, the summary last, where a terminal shows it.

    Parameters
    ----------
    report : Report
        Of `mmref.differential.run`.
    command : str
        What runs the same engine again; by default made from the engine's name.
    """
    console = _console()
    shown = [finding for finding in report.findings if finding.count or finding.kind != "known"]
    for finding in shown:
        _finding(console, finding, command)
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("engine", no_wrap=True)
    for title in ("compared", "equal", "known", "new", "skipped", "named"):
        table.add_column(title, justify="right", no_wrap=True)
    for entry in report.engines:
        named = sum(
            (f.engine, f.version) == (entry.engine.name, entry.engine.version) and f.kind == "known"
            for f in shown
        )
        table.add_row(
            f"{entry.engine.name} {entry.engine.version} {entry.engine.provider}",
            *(str(value) for value in (entry.compared, entry.equal, entry.known, entry.new)),
            str(sum(entry.skipped.values())),
            str(named),
        )
    console.print(table)
    for entry in report.engines:
        if not entry.described:
            console.print(
                f"{entry.engine.name} {entry.engine.version} has no entry of its own: compared "
                f"as {entry.release.version}, the nearest lower release that has one"
            )
        asked = {name for name in entry.skipped if name.startswith(_NOT_ASKED)}
        for reason, count in entry.skipped.most_common():
            if reason not in asked:
                console.print(f"skipped {count} on {entry.label}: {reason}", style="dim")
        if asked:  # one line for all subjects
            count = sum(entry.skipped[reason] for reason in asked)
            subjects = ", ".join(sorted(reason.removeprefix(_NOT_ASKED) for reason in asked))
            console.print(f"skipped {count} on {entry.label}: {_NOT_ASKED}{subjects}", style="dim")
    for error in report.missing:
        console.print(unavailable(error), markup=False)
    totals = ("compared", "equal", "known", "new", "vanished", "skipped", "crashed")
    words = ", ".join(f"{report.total(name)} {name}" for name in totals)
    console.print(f"{words}; seed {report.seed}, {report.seconds:.1f} s", style="bold")


def matrix(report: Report) -> None:
    """Write the table of engines and differences.

    Parameters
    ----------
    report : Report
        Of `mmref.differential`.
    """
    console = Console(soft_wrap=True, highlight=False, markup=False, width=_WIDE)
    titles, rows = report.matrix()
    for name in dict.fromkeys(entry.engine.name for entry in report.engines):
        columns = [at for at, title in enumerate(titles) if title.rpartition(" ")[0] == name]
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column(name)
        for number in columns:
            table.add_column(titles[number].removeprefix(f"{name} "), justify="right")
        for row in rows:
            cells = [row[number] for number in columns]
            if any(cells):
                table.add_row(row[0], *cells)
        console.print(table)
    for error in report.missing:
        console.print(unavailable(error))


def markdown(report: Report) -> None:
    """Write the same table as Markdown.

    Parameters
    ----------
    report : Report
        Of `mmref.differential`.
    """
    titles, rows = report.matrix()
    divider = ["---", *("---:" for _ in titles[1:])]
    for row in (titles, divider, *rows):
        print(f"| {' | '.join(row)} |")


def explanation(report: Explanation) -> None:
    """Write a prompt token by token; runs of text and long items are folded.

    Parameters
    ----------
    report : Explanation
        Of `mmref.differential.explain`.
    """
    console = _console()
    console.print(prompt_line(report.case))
    if report.reference.status != "answer":
        console.print(f"the reference refuses it: {report.reference.message}")
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    fused = report.case.subject == "fusion"
    titles = ["row", "token", "id", "kind", "item", "t", "h", "w", "slot", "feature"]
    if report.case.subject == "rope":
        titles[5:8] = ["position"]
    for title in [*titles[:4], "feature"] if fused else titles:
        # two engines beside the tokens fit into 80 columns, and what does not fit is folded
        table.add_column(title, justify="right", min_width=len(title), overflow="fold")
    for name in report.verdicts:
        table.add_column(name.split()[0].replace("onnxruntime-", ""), overflow="fold")
    for item in report.items:
        for line in item_lines(item):
            console.print(line)
    if report.items:
        console.print(_BOUNDARIES[families.get(report.case.family).media.boundary])
    for token in report.tokens[:_MOST_TOKENS]:
        table.add_row(*(_fused(token, report) if fused else _token(token, report)))
    if report.tokens:
        console.print(table)
    if len(report.tokens) > _MOST_TOKENS:
        console.print(f"... {len(report.tokens) - _MOST_TOKENS} more; --format json has them all")
    # what has no column in the table: steps, and cases that have no table
    beside = [name for name in report.reference.arrays if name.startswith("step_")]
    if not report.tokens and report.reference.status == "answer":
        beside = list(report.reference.arrays)
    _arrays(console, "reference", report.reference, beside)
    for name, verdict in report.verdicts.items():
        console.print(Text.assemble((f"{name}: {verdict.kind}", "bold")))
        _arrays(console, "engine", verdict.actual, [n for n in verdict.where if n in beside])
        if verdict.actual.status != "answer":
            console.print(f"  {verdict.actual.status}: {verdict.actual.message}")
        for entry in verdict.differences:
            console.print(f"  {entry.id}: {entry.meaning}")
    for name, reason in report.skipped.items():
        console.print(f"{name} skipped it: {reason}")


def _arrays(console: Console, whose: str, outcome: Outcome, names: Sequence[str]) -> None:
    if names and outcome.status == "answer":
        for line in outcome_lines(outcome, names):
            console.print(f"  {whose:<10} {line}", highlight=False)


def _fused(token: Token, report: Explanation) -> list[Text | str]:
    """The feature row a token takes, and what each engine gave it."""
    feature = "" if token.feature < 0 else str(token.feature)
    cells: list[Text | str] = [str(token.row), str(token.index), str(token.id), token.kind, feature]
    expected = f"text {token.id}" if token.kind == "text" else f"{token.kind} {token.feature}"
    for verdict in report.verdicts.values():
        embeds = verdict.actual.arrays.get("inputs_embeds")
        if embeds is None:
            cells.append("-")
            continue
        source = fusion.taken(report.case, embeds)[token.row][token.index]
        cells.append("=" if source == expected else Text(source, style="bold red"))
    return cells


def _token(token: Token, report: Explanation) -> list[Text | str]:
    item = "" if token.item < 0 else str(token.item)
    feature = "" if token.feature < 0 else str(token.feature)
    cells: list[Text | str] = [str(token.row), str(token.index), str(token.id), token.kind, item]
    cells += [*(str(value) for value in token.position), str(token.slot), feature]
    for verdict in report.verdicts.values():
        other = verdict.actual.arrays.get("position_ids")
        if other is None or other.ndim != (2 if len(token.position) == 1 else 3):
            cells.append("-")
            continue
        there = tuple(np.atleast_1d(other[..., token.row, token.index]).tolist())
        same = there == token.position
        cells.append("=" if same else Text(" ".join(map(str, there)), style="bold red"))
    return cells


def package(report: PackageReport) -> None:
    """Write what was found in a package, one finding after another.

    Parameters
    ----------
    report : Report
        Of `mmref.check`.
    """
    console = _console()
    for found in report.findings:
        title = Text.assemble((f"{found.consequence}: ", "bold red"), (found.check, "bold"))
        console.print(title.append(f"  {found.where}: {found.got}"))
        console.print(f"  {found.happens}")
        if found.fix:
            console.print(f"  Fix: {found.fix}")
    counts = Counter(found.consequence for found in report.findings)
    words = ", ".join(f"{count} {name}" for name, count in counts.items()) or "nothing found"
    console.print(f"{report.path}: {len(report.checks)} checks, {words}", style="bold")


def checks(shown: Sequence[Check], whole: bool) -> None:
    """Write what checks are about.

    Parameters
    ----------
    shown : sequence of Check
        The checks.
    whole : bool
        Whether to write all that is known of each.
    """
    console = _console()
    for entry in shown:
        console.print(Text.assemble((entry.id, "bold"), f"  {entry.consequence}: {entry.meaning}"))
        if whole:
            console.print(f"  What happens: {entry.happens}")
            console.print(f"  How it is known: {entry.source}")
            console.print(f"  Fix: {entry.fix}")


def campaign(report: Campaign) -> None:
    """Write what a campaign came to.

    Parameters
    ----------
    report : Campaign
        Of `mmref.differential.fuzz`.
    """
    console = _console()
    for name in report.gone:
        console.print(f"no longer met: {report.settings.found / name}")
    for name, count in sorted(report.findings.items()):
        path = report.settings.found / name
        console.print(Text.assemble(("new ", "bold red"), str(path), (f"  met {count}x", "dim")))
        console.print(f"  Reproduce with: mmref diff --case {path}", style="dim")
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("engine", no_wrap=True)
    names = ("compared", "equal", "known", "new", "crashed", "skipped")
    for title in names:
        table.add_column(title, justify="right", no_wrap=True)
    for label, counts in report.counts.items():
        table.add_row(label, *(str(counts[name]) for name in names))
    console.print(table)
    for fault in report.faults:
        console.print(fault, style="bold red")
    for error in report.missing:
        console.print(unavailable(error), markup=False)
    rate = report.cases / max(report.seconds, 1e-9)
    console.print(
        f"{report.cases} cases, {rate:.0f} a second; seed {report.settings.seed}, "
        f"{report.settings.workers} workers, {report.seconds:.1f} s",
        style="bold",
    )


def nothing_compared(report: Report) -> None:
    """Say on standard error why nothing was compared.

    Parameters
    ----------
    report : Report
        A report without a comparison.
    """
    console = Console(stderr=True, soft_wrap=True)
    console.print("mmref: nothing was compared", markup=False)
    for error in report.missing:
        console.print(unavailable(error), markup=False)
    for entry in report.engines:
        for reason in entry.skipped:
            console.print(f"{entry.engine.name} skipped it: {reason}", markup=False)


def unavailable(error: Unavailable) -> str:
    """One line on an engine that did not take part, and what would bring it.

    Parameters
    ----------
    error : Unavailable
        Why not.

    Returns
    -------
    str
        Plain text.
    """
    line = f"{error.library}: {error.got}"
    return f"{line}. {error.pip_line}" if error.pip_line else line


def _console() -> Console:
    return Console(soft_wrap=True, highlight=False, markup=False)


def _finding(console: Console, finding: Finding, command: str) -> None:
    title = Text()
    title.append(f"{finding.kind} ", style=_STYLES[finding.kind])
    title.append(finding.id, style=_STYLES[finding.kind])
    title.append(f"  {finding.engine} {finding.version}, seen {finding.count}x", style="dim")
    console.print(title)
    console.print(f"  {finding.meaning}")
    console.print(f"  prompt     {prompt_line(finding.case)}")
    for name, outcome in (("reference", finding.reference), ("engine", finding.actual)):
        for number, line in enumerate(outcome_lines(outcome, finding.where)):
            console.print(f"  {'' if number else name:<10} {line}")
    if finding.predicted is not None and finding.reference.status == "answer":
        for line in outcome_lines(finding.predicted, finding.where):
            console.print(f"  predicted  {line}", style="dim")
    console.print(f"  Reproduce with: {_reproduce(finding, command)}", style="dim")
    console.print()


def _reproduce(finding: Finding, command: str) -> str:
    if not command:
        engine = finding.engine
        if engine in RELEASES:
            engine += f"=={finding.version}"
        command = f"mmref diff --engine {engine}"
    if finding.kind != "new":
        return f"{command} --case {finding.id}"
    case = finding.case.to_json().decode()
    if len(case) > _LONGEST_CASE:
        return "the case is long: --format json has it"
    return f"echo '{case}' | {command} --case -"
