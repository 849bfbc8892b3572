"""``mmref check``: what is wrong with a model package."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from mmref.errors import MmrefError

__all__ = ["check"]

FINE, FOUND, NOTHING = 0, 1, 3


def check(
    path: Path | None = None,
    /,
    *,
    ep: str = "cpu",
    ort: str = "",
    select: Annotated[list[str], Parameter(negative="", consume_multiple=False)] | None = None,
    ignore: Annotated[list[str], Parameter(negative="", consume_multiple=False)] | None = None,
    list: Annotated[bool, Parameter(negative="")] = False,
    explain: str | None = None,
    format: Literal["pretty", "json"] | None = None,
) -> int:
    """Find what is wrong with a folder made for ONNX Runtime GenAI, or with an ONNX graph.

    No weights are loaded. Where onnxruntime-genai is installed, the package's own
    configuration is run on probe graphs, and its positions are compared.

    Exit code: 0 nothing found; 1 something; 2 bad usage, or a package that
    cannot be read; 3 nothing was checked.

    Parameters
    ----------
    path
        The folder, or a graph.
    ep
        The execution provider it is to run on: cpu, cuda, ...
    ort
        The version of ONNX Runtime it is to run on. Default: the installed one.
    select
        Only this check or group; may be repeated.
    ignore
        Not this check or group; may be repeated.
    list
        List the checks instead.
    explain
        Explain one check instead.
    format
        Default: pretty on a terminal, json when piped.
    """
    from mmref import check as checks
    from mmref.cli import render
    from mmref.differences import version_key
    from mmref.errors import UnknownName

    as_json = (format or ("pretty" if sys.stdout.isatty() else "json")) == "json"
    if list or explain is not None:
        if explain is not None and explain not in checks.CHECKS:
            raise UnknownName("check", explain, checks.CHECKS)
        shown = [e for e in checks.CHECKS.values() if explain in (None, e.id)]
        if as_json:
            fields = ("id", "consequence", "meaning", "happens", "fix", "source")
            render.json({"checks": [{n: getattr(e, n) for n in fields} for e in shown]})
        else:
            render.checks(shown, whole=explain is not None)
        return FINE
    if path is None:
        raise MmrefError("no-path", where="check", got="nothing", expected="a folder or a graph")
    target = checks.Target(ep.lower(), version_key(ort) if ort else _installed())
    report = checks.check_path(path, checks.chosen(select or (), ignore or ()), target)
    if as_json:
        render.json(report.to_builtins())
    else:
        render.package(report)
    if not report.checks:
        print("mmref: nothing was checked", file=sys.stderr)
        return NOTHING
    return FOUND if report.findings else FINE


def _installed() -> tuple[int, ...]:
    import importlib.metadata

    from mmref.differences import version_key

    try:
        return version_key(importlib.metadata.version("onnxruntime"))
    except importlib.metadata.PackageNotFoundError:
        return ()
