"""Running checks over a package or a graph."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from mmref.check.base import CONSEQUENCES, Check, Finding, Target
from mmref.package import Package, read_graph

__all__ = ["Report", "check_path"]


@dataclass(slots=True)
class Report:
    """What came of checking a package or a graph.

    Parameters
    ----------
    path : str
        What was checked.
    target : Target
        Where it is to run.
    checks : list of str
        Ids of the checks that ran.
    findings : list of Finding
        The gravest first.
    skipped : dict of str to str
        Checks that could not run, and why.
    """

    path: str
    target: Target
    checks: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)

    def to_builtins(self) -> dict[str, Any]:
        """The JSON form.

        Returns
        -------
        dict
            ``path``, ``provider``, ``checks``, ``findings``, ``skipped``.
        """
        return {
            "path": self.path,
            "provider": self.target.provider,
            "checks": self.checks,
            "findings": [asdict(finding) for finding in self.findings],
            "skipped": self.skipped,
        }


def check_path(path: Path, checks: Iterable[Check], target: Target) -> Report:
    """Check a package, or a graph alone.

    Parameters
    ----------
    path : Path
        A folder with a genai_config.json, or an ONNX file.
    checks : iterable of Check
        Which.
    target : Target
        Where it is to run.

    Returns
    -------
    Report
        Findings, the gravest first.

    Raises
    ------
    BadPackage
        If it cannot be read.
    MissingExtra
        If onnx-ir is not installed.
    """
    report = Report(str(path), target)
    folder = os.path.isdir(path)  # False, and no error, for a path that cannot be one
    if folder or path.name == "genai_config.json":
        package = Package.read(path if folder else path.parent)
        graphs = list(package.graphs.items())
    else:
        package = None
        graphs = [(path.name, read_graph(path))]
    for entry in checks:
        if entry.scope == "package" and package is None:
            continue
        report.checks.append(entry.id)
        subjects: list[Any] = graphs if entry.scope == "graph" else [package]
        for subject in subjects:
            report.findings += entry.run(subject, target)
    rank = {name: number for number, name in enumerate(CONSEQUENCES)}
    report.findings.sort(key=lambda finding: (rank[finding.consequence], finding.check))
    return report
