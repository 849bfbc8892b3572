"""An engine in a process of its own: a crash, a hang or a leak costs one case.

`Hosted` starts ``python -m mmref.engines.host NAME`` and talks to it as to any
other program that reads cases and writes outcomes.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from mmref.case import Case, Outcome
from mmref.engines.command import Command, Failed, read_outcome
from mmref.errors import (
    BadPackage,
    EngineFault,
    MissingExtra,
    MissingProvider,
    MissingRelease,
    Unavailable,
)

__all__ = ["Hosted", "main"]

_START_SECONDS = 120.0
_RECYCLED_AFTER = 20_000  # cases; what an engine leaks until then is little
_UNAVAILABLE: dict[str, Callable[..., Unavailable]] = {
    "extra": MissingExtra,
    "provider": MissingProvider,
    "release": MissingRelease,
}
_SPARE_MEMORY = 8 * 2**30  # bytes a case may ask for beyond what the engine took to load


class Hosted(Command):
    """An engine of `mmref.engines.get` in a child process.

    Parameters
    ----------
    specification : str
        As for `mmref.engines.get`.
    seconds : float
        How long it may take for a case.
    provider : str
        As for `mmref.engines.get`.
    path : Path, optional
        Where the child looks for packages before it looks where this process does.

    Raises
    ------
    MissingExtra
        If the engine is not installed.
    MissingProvider
        If it cannot compute on the provider.
    EngineFault
        If it could not be started.
    """

    def __init__(
        self,
        specification: str,
        *,
        seconds: float = 10.0,
        provider: str = "cpu",
        path: Path | None = None,
    ) -> None:
        if path is not None:
            inherited = os.environ.get("PYTHONPATH")
            places = [str(path), *([inherited] if inherited else [])]
            self._environment = {"PYTHONPATH": os.pathsep.join(places)}
        self._hello: dict[str, Any] = {}
        self._asked = 0
        self._last: tuple[Case, Outcome] | None = None
        code = "from mmref.engines.host import main; main()"
        super().__init__([sys.executable, "-c", code, specification, provider], seconds=seconds)
        self.name = self._hello["name"]
        self.version = self._hello["version"]
        self.provider = self._hello["provider"]
        self.subjects = tuple(self._hello["subjects"])

    def skip(self, case: Case) -> str | None:
        """What the engine says against the case; asks the child once for this and `run`."""
        self._last = None
        if self._asked >= _RECYCLED_AFTER:
            self.close()
        self._asked += 1
        try:
            line = self._ask(case.to_json() + b"\n")
            if line.startswith(b'{"skip":'):
                return str(msgspec.json.decode(line)["skip"])
            outcome = read_outcome(line)
        except Failed as failed:
            self.close()
            outcome = failed.outcome
        self._last = (case, outcome)
        return None

    def run(self, case: Case) -> Outcome:
        """The outcome, or how the child ended."""
        if self._last is None or self._last[0] is not case:
            reason = self.skip(case)
            if reason is not None:
                return Outcome("refusal", {}, "skipped", reason)
        assert self._last is not None
        return self._last[1]

    def _start(self) -> Any:
        process = super()._start()
        self._asked = 0
        try:
            self._hello = msgspec.json.decode(self._ask(b"\n", _START_SECONDS))
        except (Failed, msgspec.DecodeError) as error:
            self.close()
            where = str(self.arguments[-2])
            raise EngineFault("engine-not-started", where=where, got=str(error)) from error
        if "missing" in self._hello:
            self.close()
            raise _UNAVAILABLE[self._hello["missing"]](*self._hello["arguments"])
        if "fault" in self._hello:
            self.close()
            raise EngineFault(**self._hello["fault"])
        return process


def main() -> None:
    """Serve the engine that the first argument names, until the input ends."""
    from mmref import engines

    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what an engine prints is not an answer
    sys.stdin.buffer.readline()
    try:
        engine = engines.get(sys.argv[1], provider=sys.argv[2])
    except MissingExtra as error:
        _write(answers, {"missing": "extra", "arguments": [error.library, error.extra]})
        return
    except MissingProvider as error:
        arguments = [error.library, error.got, error.pip_line]
        _write(answers, {"missing": "provider", "arguments": arguments})
        return
    except MissingRelease as error:
        _write(answers, {"missing": "release", "arguments": [error.name, error.version]})
        return
    except (EngineFault, BadPackage) as error:
        names = ("code", "where", "got", "expected", "hint")
        _write(answers, {"fault": {name: getattr(error, name) for name in names}})
        return
    _limit_memory()
    shown = ("name", "version", "provider", "subjects")
    _write(answers, {name: getattr(engine, name) for name in shown})
    for line in sys.stdin.buffer:
        case = Case.from_json(line)
        reason = None
        if case.subject not in engine.subjects:
            reason = f"the engine is not asked about {case.subject}"
        reason = reason or engine.skip(case)
        if reason is not None:
            _write(answers, {"skip": reason})
        else:
            _write(answers, engine.run(case).to_builtins())


def _write(answers: Any, data: Any) -> None:
    answers.write(msgspec.json.encode(data) + b"\n")
    answers.flush()


def _limit_memory() -> None:
    """Let a case that asks for too much fail by itself, not the machine."""
    with contextlib.suppress(ImportError, OSError, ValueError, IndexError):
        import resource
        from pathlib import Path

        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * os.sysconf("SC_PAGE_SIZE") + _SPARE_MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
