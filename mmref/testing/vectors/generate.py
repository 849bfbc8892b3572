"""Write vectors.json and its schema from reports.json; ``--check`` only compares.

A prompt in reports.json is a pattern: T text, S vision_start, E vision_end,
I and V placeholders, Vs and Ve markers around a video, P padding, X eos;
``I*4`` repeats and ``|`` divides rows.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from mmref.case import Array
from mmref.differences.base import small_case
from mmref.testing.vectors import Expected, File, Release, Vector

__all__ = ["main", "make"]

_FOLDER = Path(__file__).parent
_TOKENS = {"T": 20, "S": 12, "E": 13, "I": 10, "V": 11, "Vs": 14, "Ve": 15, "P": 0, "X": 2}


class Report(msgspec.Struct, forbid_unknown_fields=True):
    """One entry of reports.json."""

    id: str
    about: str
    family: str
    prompt: str
    flag: str
    sources: list[str]
    reports: list[str] = []
    images: Any = None
    videos: Any = None
    seconds: list[float] | None = None
    scalars: dict[str, int] = {}
    token_ids: dict[str, int] = {}
    expected: Expected | None = None
    refusal: str | None = None
    releases: dict[str, Release] = {}


class LeftOut(msgspec.Struct, forbid_unknown_fields=True):
    """A report that is not a vector of positions, and why."""

    id: str
    reason: str


class Reports(msgspec.Struct, forbid_unknown_fields=True):
    """The content of reports.json."""

    reports: list[Report]
    left_out: list[LeftOut]


def make(report: Report) -> Vector:
    """The vector of a report.

    Parameters
    ----------
    report : Report
        An entry of reports.json.

    Returns
    -------
    Vector
        With the pattern written out as a case.
    """
    rows = [_row(row) for row in report.prompt.split("|")]
    length = max(len(row) for row in rows)
    ids = [[token for token, _ in row] + [0] * (length - len(row)) for row in rows]
    mask = [[kept for _, kept in row] + [0] * (length - len(row)) for row in rows]
    markers = {"video_start": 14, "video_end": 15} if "Vs" in report.prompt else {}
    seconds: Array | None = None
    if report.seconds is not None:
        seconds = np.array(report.seconds, np.float64)
    case = small_case(
        ids,
        report.family,
        images=report.images,
        videos=report.videos,
        mask=None if all(map(all, mask)) else mask,
        seconds=seconds,
        token_ids={**markers, **report.token_ids},
        **report.scalars,  # type: ignore[arg-type]  # none of them is named steps
    )
    return Vector(
        id=report.id,
        about=report.about,
        flag=report.flag,  # type: ignore[arg-type]  # the schema is checked when it is read back
        sources=report.sources,
        case=case.to_builtins(),
        reports=report.reports,
        expected=report.expected,
        refusal=report.refusal,
        releases=report.releases,
        single_source=len(report.sources) == 1,
    )


def _row(pattern: str) -> list[tuple[int, int]]:
    tokens: list[tuple[int, int]] = []
    for word in pattern.split():
        name, _, count = word.partition("*")
        tokens += [(_TOKENS[name], int(name != "P"))] * int(count or 1)
    return tokens


def contents() -> dict[str, bytes]:
    """What the generated files should hold.

    Returns
    -------
    dict of str to bytes
        File name to content.
    """
    text = (_FOLDER / "reports.json").read_bytes()
    reports = msgspec.json.decode(text, type=Reports).reports
    vectors = msgspec.json.encode(File([make(report) for report in reports]))
    msgspec.json.decode(vectors, type=File)
    schema = msgspec.json.encode(msgspec.json.schema(File))
    return {
        "vectors.json": _lines(vectors),
        "vectors.schema.json": msgspec.json.format(schema, indent=1) + b"\n",
    }


def _lines(vectors: bytes) -> bytes:
    """One vector a line, so that a change shows which."""
    entries = [msgspec.json.encode(entry) for entry in msgspec.json.decode(vectors)["vectors"]]
    return b'{"vectors": [\n' + b",\n".join(entries) + b"\n]}\n"


def main(arguments: Sequence[str]) -> int:
    """Write the files, or with ``--check`` say which are not as they should be.

    Parameters
    ----------
    arguments : sequence of str
        Empty or ``["--check"]``.

    Returns
    -------
    int
        1 if a file differs under ``--check``, else 0.
    """
    stale = 0
    for name, content in contents().items():
        path = _FOLDER / name
        if arguments == ["--check"]:
            if not path.exists() or path.read_bytes() != content:
                print(f"{name} is not what reports.json makes", file=sys.stderr)
                stale = 1
        else:
            path.write_bytes(content)
    return stale


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
