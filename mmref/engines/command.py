"""Any program that reads a case a line and writes an outcome a line.

The program is started once and kept; when it dies, hangs, says too much or
says something else than an outcome, that is the outcome of the case, and the
next case gets a new process. POSIX only: it waits on pipes.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import shlex
import signal
import subprocess
import tempfile
import time
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from mmref.case import SUBJECTS, Array, Case, Outcome
from mmref.errors import BadCase, EngineFault

__all__ = ["Command", "Failed", "read_outcome"]

_READ = 65_536
_STATUSES = ("answer", "refusal", "crash", "timeout")
_TAIL = 300


class Command:
    """A program that is asked case by case.

    Parameters
    ----------
    command : str or sequence of str
        The program and its arguments; text is split as a shell would, and no shell runs it.
    seconds : float
        How long it may take for a case.
    max_bytes : int
        How much it may write for a case.

    Raises
    ------
    EngineFault
        ``command-empty``, ``command-not-found``.

    Notes
    -----
    One line in: the JSON form of a case (`mmref.case.Case.to_json`). One line out: an
    object with ``status`` (``"answer"`` or ``"refusal"``), ``arrays`` for an answer,
    ``error`` and ``message`` for a refusal. See docs/how-to/command-engine.md.
    """

    version = "0"
    provider = "cpu"
    subjects: tuple[str, ...] = SUBJECTS
    _environment: dict[str, str] = {}  # noqa: RUF012 - replaced whole, never changed

    def __init__(
        self,
        command: str | Sequence[str],
        *,
        seconds: float = 10.0,
        max_bytes: int = 64 * 1024 * 1024,
    ) -> None:
        try:
            self.arguments = shlex.split(command) if isinstance(command, str) else list(command)
        except ValueError as error:
            raise EngineFault("command-empty", where="command", got=str(error)) from error
        if not self.arguments:
            raise EngineFault(
                "command-empty", where="command", got="nothing", expected="a program to run"
            )
        self.name = f"command:{Path(self.arguments[0]).name}"
        if len(self.arguments) > 1:
            self.name += f" {Path(self.arguments[-1]).name}"
        self._seconds = seconds
        self._max_bytes = max_bytes
        self._process: subprocess.Popen[bytes] | None = None
        self._finalizer: Any = None
        self._start()

    def skip(self, case: Case) -> str | None:
        """Nothing is skipped: a program refuses what it does not do."""
        return None

    def run(self, case: Case) -> Outcome:
        """What the program wrote for a case, or how it failed to."""
        try:
            line = self._ask(case.to_json() + b"\n")
            outcome = read_outcome(line)
            _check_shapes(outcome.arrays, case)
            return outcome
        except Failed as failed:
            self.close()
            return failed.outcome

    def close(self) -> None:
        """End the program and all it started."""
        if self._finalizer is not None:
            self._finalizer()
        self._process = None

    def _start(self) -> subprocess.Popen[bytes]:
        folder = tempfile.TemporaryDirectory(prefix="mmref-", ignore_cleanup_errors=True)
        try:
            process = subprocess.Popen(
                self.arguments,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,  # so that what it starts can be ended with it
                # what it leaves goes when it goes
                env={**os.environ, **self._environment, "TMPDIR": folder.name},
            )
        except OSError as error:
            raise EngineFault(
                "command-not-found",
                where=self.arguments[0],
                got=error.strerror or "cannot be run",
                expected="a program that can be run",
            ) from error
        for pipe in (process.stdin, process.stdout, process.stderr):
            os.set_blocking(pipe.fileno(), False)  # type: ignore[union-attr]
        self._process = process
        self._finalizer = weakref.finalize(self, _end, process, folder)
        return process

    def _ask(self, request: bytes, seconds: float | None = None) -> bytes:
        """One line for one line; raises `Failed` with what happened instead."""
        process = self._process or self._start()
        seconds = self._seconds if seconds is None else seconds
        deadline = time.monotonic() + seconds
        stdin, stdout, stderr = process.stdin, process.stdout, process.stderr
        assert stdin is not None
        assert stdout is not None
        assert stderr is not None
        said, complaint = bytearray(), b""
        written = 0
        with selectors.DefaultSelector() as waiting:
            waiting.register(stdin, selectors.EVENT_WRITE)
            waiting.register(stdout, selectors.EVENT_READ)
            waiting.register(stderr, selectors.EVENT_READ)
            while b"\n" not in said:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise Failed("timeout", "timeout", f"no line in {seconds:g} s")
                for key, _ in waiting.select(left):
                    if key.fileobj is stdin:
                        try:
                            written += os.write(key.fd, request[written : written + _READ])
                        except BlockingIOError:
                            continue
                        except OSError:  # it has closed its input; what it says decides
                            waiting.unregister(stdin)
                            continue
                        if written == len(request):
                            waiting.unregister(stdin)
                        continue
                    data = os.read(key.fd, _READ)
                    if key.fileobj is stderr:
                        complaint = (complaint + data)[-_TAIL:]
                        if not data:
                            waiting.unregister(stderr)
                        continue
                    if not data:
                        raise _ended(process, complaint)
                    said += data
                    if len(said) > self._max_bytes:
                        limit = f"more than {self._max_bytes} bytes for one case"
                        raise Failed("crash", "output-too-large", limit)
        line, _, rest = said.partition(b"\n")
        if rest:
            raise Failed("crash", "output-not-one-line", f"after the line: {_text(rest)}")
        return bytes(line)


class Failed(Exception):
    """The program wrote no outcome for a case.

    Parameters
    ----------
    status : {"crash", "timeout"}
        How it ended.
    error : str
        What went wrong, as a name.
    message : str
        The same in words.
    """

    def __init__(self, status: Any, error: str, message: str) -> None:
        super().__init__(message)
        self.outcome = Outcome(status, {}, error, message)


def _ended(process: subprocess.Popen[bytes], complaint: bytes) -> Failed:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(1)
    code = process.returncode
    lines = _text(complaint).splitlines()
    message = lines[-1] if lines else "the program ended without a word"
    if code is None:
        return Failed("crash", "output-closed", message)
    return Failed("crash", f"signal {-code}" if code < 0 else f"exit {code}", message)


def _end(process: subprocess.Popen[bytes], folder: tempfile.TemporaryDirectory[str]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    for pipe in (process.stdin, process.stdout, process.stderr):
        with contextlib.suppress(OSError):
            pipe.close()  # type: ignore[union-attr]
    process.wait()
    folder.cleanup()


def read_outcome(line: bytes) -> Outcome:
    """The outcome that a line says.

    Parameters
    ----------
    line : bytes
        What a program wrote.

    Returns
    -------
    Outcome
        As written.

    Raises
    ------
    Failed
        If it says none.
    """
    try:
        data = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Failed("crash", "output-not-json", f"{error}: {_text(line)}") from error
    if not isinstance(data, dict) or data.get("status") not in _STATUSES:
        expected = f"an object with status, one of {', '.join(_STATUSES)}"
        raise Failed("crash", "output-not-an-outcome", f"expected {expected}: {_text(line)}")
    arrays = data.get("arrays", {})
    if not isinstance(arrays, dict) or (data["status"] == "answer" and not arrays):
        raise Failed("crash", "output-not-an-outcome", "an answer without arrays")
    for name in ("error", "message"):
        if not isinstance(data.get(name, ""), str):
            raise Failed("crash", "output-not-an-outcome", f"{name} is not text")
    try:
        return Outcome.from_builtins(data)
    except BadCase as error:
        raise Failed("crash", "output-not-an-outcome", str(error)) from error


def _check_shapes(arrays: Any, case: Case) -> None:
    """Positions of another shape are not comparable; say so instead of 'not equal'."""
    if case.subject != "positions" or case.arrays["input_ids"].ndim != 2:
        return
    batch, length = case.arrays["input_ids"].shape
    steps = case.decode_steps
    expected: dict[str, tuple[int, ...]] = {
        "position_ids": (3, batch, length),
        "rope_deltas": (batch,),
        "attention_mask": (batch, length),
        "next_position_ids": (3, batch, steps),
        "next_attention_mask": (batch, length + steps),
    }
    known: dict[str, Array] = {name: array for name, array in arrays.items() if name in expected}
    if arrays and not known:
        got = ", ".join(sorted(arrays))
        raise Failed("crash", "output-not-an-outcome", f"no array that is compared: {got}")
    beams = int(case.scalars.get("num_beams", 1))  # type: ignore[arg-type]
    for name, array in known.items():
        if array.shape != expected[name] and beams == 1:
            message = f"{name} has shape {array.shape}, expected {expected[name]}"
            raise Failed("crash", "output-shape", message)


def _text(data: bytes | bytearray) -> str:
    return data[:_TAIL].decode(errors="replace").strip()
