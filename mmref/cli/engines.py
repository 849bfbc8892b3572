"""``mmref engines``: which engines are installed, and how they are compared."""

from __future__ import annotations

import sys
from typing import Literal

__all__ = ["engines"]


def engines(*, format: Literal["pretty", "json"] | None = None) -> int:
    """List the engines that mmref drives: version, provider, and the release compared as.

    Exit code: 0 if at least one is installed, else 3.

    Parameters
    ----------
    format
        Default: pretty on a terminal, json when piped.
    """
    from mmref import engines as known
    from mmref.cli import render
    from mmref.differences import nearest_release
    from mmref.errors import Unavailable

    rows: list[dict[str, str]] = []
    for name in known.names():
        try:
            engine = known.get(name)
        except Unavailable as error:
            rows.append({"name": name, "missing": error.library, "pip": error.pip_line})
            continue
        release = nearest_release(engine.name, engine.version)
        rows.append(
            {
                "name": engine.name,
                "version": engine.version,
                "provider": engine.provider,
                "compared_as": release.name,
                "differences": str(len(release.differences)),
            }
        )
    if (format or ("pretty" if sys.stdout.isatty() else "json")) == "json":
        render.json({"engines": rows})
    else:
        render.engines(rows)
    return 0 if any("version" in row for row in rows) else 3
