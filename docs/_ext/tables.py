"""Tables of the reference pages, made from the data they are about."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive

from mmref import families
from mmref.check import CHECKS
from mmref.refusals import REFUSALS

VERBS = ("diff", "check", "explain", "fuzz", "engines")
ROOT = Path(__file__).parents[2]


def _table(titles: Iterable[str], rows: Iterable[Iterable[str]]) -> nodes.table:
    titles, rows = list(titles), [list(row) for row in rows]
    group = nodes.tgroup(cols=len(titles))
    for column in zip(titles, *rows, strict=True):  # as wide as the longest word
        words = (word for cell in column for word in cell.split())
        group += nodes.colspec(colwidth=max((len(word) for word in words), default=1))
    for section, lines in ((nodes.thead(), [titles]), (nodes.tbody(), rows)):
        for line in lines:
            row = nodes.row()
            for cell in line:
                row += nodes.entry("", nodes.paragraph(text=cell))
            section.append(row)
        group += section
    return nodes.table("", group)


class FamilyTable(Directive):
    """Every family with its rules."""

    def run(self) -> list[nodes.Node]:
        rows = [families.get(name) for name in families.names()]
        titles = ("family", "video", "time", "merge", "media told apart", "GenAI type")
        return [
            _table(
                titles,
                (
                    (
                        row.name,
                        row.video_frames,
                        row.time,
                        str(row.spatial_merge_size),
                        row.media_kinds,
                        row.genai_type or "",
                    )
                    for row in rows
                ),
            ),
            _table(("family", "where its values come from"), ((r.name, r.source) for r in rows)),
        ]


class MergeTable(Directive):
    """Every family that merges features, with the columns of its merge."""

    def run(self) -> list[nodes.Node]:
        beside = {
            "shared_id": "videos share the image's id",
            "copies": "two copies",
            "deepstack": "DeepStack",
            "per_layer": "a table for each layer",
            "image_blocks": "two-way blocks",
        }
        lines = []
        for name in families.names("fusion"):
            columns = families.get(name).fusing
            notes = [text for column, text in beside.items() if getattr(columns, column)]
            if columns.audio_rows is not None:
                notes.append(f"{columns.audio_rows} rows a clip")
            kinds, looked_up = ", ".join(columns.kinds), columns.lookup.replace("_", " ")
            lines.append((name, kinds, looked_up, columns.counted, ", ".join(notes)))
        titles = ("family", "kinds", "looked up as", "transformers counts", "beside the merge")
        return [_table(titles, lines)]


class RefusalTable(Directive):
    """Every way a prompt can be refused."""

    def run(self) -> list[nodes.Node]:
        return [_table(("code", "the prompt has"), REFUSALS.items())]


class CheckTable(Directive):
    """Every check of a package."""

    def run(self) -> list[nodes.Node]:
        rows = [(entry.id, entry.consequence, entry.meaning) for entry in CHECKS.values()]
        return [_table(("check", "consequence", "meaning"), rows)]


class CommandHelp(Directive):
    """What ``mmref VERB --help`` prints."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        done = subprocess.run(
            [sys.executable, "-m", "mmref", self.arguments[0], "--help"],
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
            env={"COLUMNS": "88", "NO_COLOR": "1", "PATH": "", "TERM": "dumb"},
        )
        return [nodes.literal_block(text="\n".join(map(str.rstrip, done.stdout.splitlines())))]


def setup(app: Any) -> dict[str, bool]:
    """Register the directives."""
    app.add_directive("families", FamilyTable)
    app.add_directive("merges", MergeTable)
    app.add_directive("refusals", RefusalTable)
    app.add_directive("checks", CheckTable)
    app.add_directive("command-help", CommandHelp)
    return {"parallel_read_safe": True}
