"""The folder of findings: one JSON file for each kind of new difference.

A finding is written whole or not at all: a temporary file, fsync, rename. Two
findings with the same fault share a name, and the smaller case stays.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from mmref.case import Case
from mmref.differential.compare import Verdict
from mmref.errors import BadCase, EngineFault

__all__ = ["Found", "Stored"]

_PART = ".part"


@dataclass(frozen=True, slots=True)
class Stored:
    """A finding that lies in the folder."""

    path: Path
    engine: str
    case: Case


class Found:
    """A folder of findings.

    Parameters
    ----------
    folder : Path
        Made if it is not there.

    Raises
    ------
    EngineFault
        ``found-unwritable``, if nothing can be written there.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as error:
            raise EngineFault(
                "found-unwritable",
                where=str(folder),
                got=error.strerror or "cannot be written",
                expected="a folder that findings can be written to",
                hint="--found DIR chooses another",
            ) from error

    def clean(self) -> None:
        """Remove what a killed run was about to write."""
        for path in self.folder.glob(f"*{_PART}"):
            with contextlib.suppress(OSError):
                path.unlink()

    def load(self) -> list[Stored]:
        """All findings, by name.

        Returns
        -------
        list of Stored
            In the order of their names.

        Raises
        ------
        BadCase
            If a file is not a finding; says which.
        """
        stored = []
        for path in sorted(self.folder.glob("*.json")):
            try:
                case = Case.from_file(path)
                data = msgspec.json.decode(path.read_bytes())
            except BadCase as error:
                where = f"{path}, {error.where}" if str(path) not in error.where else error.where
                hint = "move it out of the folder of findings"
                raise BadCase(
                    error.code, where=where, got=error.got, expected=error.expected, hint=hint
                ) from error
            engine = data.get("engine")
            stored.append(Stored(path, engine if isinstance(engine, str) else "", case))
        return stored

    def add(self, fault: Sequence[str], case: Case, verdict: Verdict, **about: Any) -> Path:
        """Write a finding, unless one as small with the same fault is there.

        Parameters
        ----------
        fault : sequence of str
            What makes two findings one; the first entry names the engine and its release.
        case : Case
            The case.
        verdict : Verdict
            What came of it.
        **about : object
            More to write down: engine, version, seed.

        Returns
        -------
        Path
            Where the finding lies.
        """
        digest = hashlib.sha256("\0".join(fault).encode()).hexdigest()[:10]
        label = "".join(letter if letter.isalnum() else "-" for letter in fault[0])
        path = self.folder / f"{label}-{digest}.json"
        with contextlib.suppress(BadCase):
            if size(Case.from_file(path)) <= size(case):
                return path
        data = {
            **about,
            "fault": list(fault),
            "where": list(verdict.where),
            "case": case.to_builtins(),
            "reference": verdict.reference.to_builtins(),
            "engine_outcome": verdict.actual.to_builtins(),
        }
        text = msgspec.json.format(msgspec.json.encode(data), indent=1) + b"\n"
        handle, part = tempfile.mkstemp(suffix=_PART, dir=self.folder)
        with os.fdopen(handle, "wb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
        directory = os.open(self.folder, os.O_RDONLY)
        with contextlib.suppress(OSError):
            os.fsync(directory)  # so that the name survives a power cut too
        os.close(directory)
        return path


def size(case: Case) -> tuple[int, int]:
    """What smaller means: fewer numbers, then a shorter text.

    Parameters
    ----------
    case : Case
        A case.

    Returns
    -------
    tuple of int
        To compare.
    """
    return sum(array.size for array in case.arrays.values()), len(case.to_json())
