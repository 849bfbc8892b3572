"""``mmref engines``: which engines are there, and how they are compared; adding releases."""

from __future__ import annotations

import sys
from typing import Literal

from cyclopts import App

__all__ = ["engines"]

Format = Literal["pretty", "json"] | None

engines = App(
    name="engines",
    help="List the engines that are there; add a release of one.",
    help_format="markdown",
    result_action="return_value",
)


@engines.default
def show(*, format: Format = None) -> int:
    """List the engines that mmref drives: version, provider, and the release compared as.

    Exit code: 0 if at least one is there, else 3.

    Parameters
    ----------
    format
        Default: pretty on a terminal, json when piped.
    """
    from mmref import engines as known
    from mmref.cli import render
    from mmref.errors import Unavailable

    rows: list[dict[str, str]] = []
    for name in (*known.names(), *known.added()):
        try:
            rows.append(_row(known.get(name)))
        except Unavailable as error:
            rows.append({"name": name, "missing": error.library, "pip": error.pip_line})
    if _json(format):
        render.json({"engines": rows})
    else:
        render.engines(rows)
    return 0 if any("version" in row for row in rows) else 3


@engines.command
def add(specification: str, /, *, format: Format = None) -> int:
    """Fetch a release of an engine with pip, into the user's cache, to compare with it.

    Its functions are read out of the wheel; nothing is installed. Exit code: 0;
    2 if pip cannot fetch it or it has no function that computes positions.

    Parameters
    ----------
    specification
        NAME==VERSION, for example transformers==4.57.1.
    format
        Default: pretty on a terminal, json when piped.
    """
    from mmref import engines as known
    from mmref.cli import render

    row = _row(known.add(specification))
    if _json(format):
        render.json({"engines": [row]})
    else:
        render.engines([row])
    return 0


def _row(engine: object) -> dict[str, str]:
    from mmref.differences import nearest_release
    from mmref.engines import Engine

    assert isinstance(engine, Engine)
    release = nearest_release(engine.name, engine.version)
    return {
        "name": engine.name,
        "version": engine.version,
        "provider": engine.provider,
        "compared_as": release.name,
        "differences": str(len(release.differences)),
    }


def _json(format: Format) -> bool:
    return (format or ("pretty" if sys.stdout.isatty() else "json")) == "json"
