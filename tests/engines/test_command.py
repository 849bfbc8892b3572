"""Programs as engines: a good one in another language, and every way to be a bad one."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given, settings

from mmref import engines
from mmref.case import Case
from mmref.differences import Release
from mmref.differences.base import small_case
from mmref.differential import judge
from mmref.differential.run import run_case
from mmref.engines.command import Command
from mmref.errors import EngineFault, MissingProvider
from mmref.testing.strategies import cases

HOW_TO = Path(__file__).parents[2] / "docs/how-to/command-engine.md"
CASE = small_case([[20, 21]], "qwen2_vl")

GOOD = """
import sys
for line in sys.stdin:
    print('{"status": "answer", "arrays": {"position_ids": [[[0, 1]], [[0, 1]], [[0, 1]]]}}')
    sys.stdout.flush()
"""


def program(code: str, **limits: float) -> Command:
    return Command([sys.executable, "-c", code], **limits)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def javascript(tmp_path_factory: pytest.TempPathFactory) -> Command:
    """The program that the how-to shows, as it stands there."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    found = re.search(r"```javascript\n(.*?)```", HOW_TO.read_text(), re.DOTALL)
    assert found is not None
    path = tmp_path_factory.mktemp("command") / "engine.mjs"
    path.write_text(found[1])
    return Command([node, str(path)])


def test_the_program_of_the_how_to_is_right(javascript: Command) -> None:
    alone = Release(javascript.name, javascript.version, ())

    @settings(max_examples=300)
    @given(cases(family="qwen2_vl"))
    def check(case: Case) -> None:
        assert judge(case, javascript.run(case), alone).kind == "equal"

    check()


def test_the_program_of_the_how_to_refuses(javascript: Command) -> None:
    assert javascript.run(small_case([[10, 20]], "qwen2_vl")).status == "refusal"


def test_a_program_is_named_on_the_command_line() -> None:
    engine = engines.get(f"command:{sys.executable} -c 'print(1)'")
    assert engine.name.startswith("command:")
    assert engine.run(CASE).error == "output-not-an-outcome"


def test_a_program_is_compared_with_the_reference_alone() -> None:
    report = run_case(CASE, engine=[program(GOOD)])
    assert report.total("equal") == 1
    assert report.engines[0].release.differences == ()


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        ("print('hello')", "crash", "output-not-json"),
        ("print('[1, 2]')", "crash", "output-not-an-outcome"),
        ("print('{}')", "crash", "output-not-an-outcome"),
        ('print(\'{"status": "answer"}\')', "crash", "output-not-an-outcome"),
        (
            'print(\'{"status": "answer", "arrays": {"position_ids": [[0, 1]]}}\')',
            "crash",
            "output-shape",
        ),
        (
            'print(\'{"status": "answer", "arrays": {"position_ids": [[[0], [0, 1]]]}}\')',
            "crash",
            "output-not-an-outcome",
        ),
        (
            'print(\'{"status": "answer", "arrays": {"positions": [[0, 1]]}}\')',
            "crash",
            "output-not-an-outcome",
        ),
        ('print(\'{"status": "refusal", "error": 5}\')', "crash", "output-not-an-outcome"),
        ("sys.stdout.buffer.write(b'\\xff\\xfe\\n')", "crash", "output-not-json"),
        ("sys.stdout.write('{}\\n{}\\n')", "crash", "output-not-one-line"),
        ("sys.exit(7)", "crash", "exit 7"),
        ("os.kill(os.getpid(), 11)", "crash", "signal 11"),
        ("os.close(1)\n    time.sleep(60)", "crash", "output-closed"),
        ("time.sleep(60)", "timeout", "timeout"),
        ("while True: sys.stdout.write('x' * 1000)", "crash", "output-too-large"),
        ("while True: sys.stderr.write('x' * 1000)", "timeout", "timeout"),
    ],
)
def test_a_bad_program_costs_one_case(body: str, status: str, error: str) -> None:
    code = f"import os, sys, time\nfor line in sys.stdin:\n    {body}\n    sys.stdout.flush()\n"
    engine = program(code, seconds=1.5, max_bytes=100_000)
    started = time.monotonic()
    outcome = engine.run(CASE)
    assert (outcome.status, outcome.error) == (status, error)
    assert outcome.message
    assert time.monotonic() - started < 10
    assert engine.run(CASE).status == status  # a new process, and the same again
    engine.close()


def test_a_program_that_does_not_read_is_no_deadlock() -> None:
    engine = program("import time; time.sleep(60)", seconds=1)
    outcome = engine.run(small_case([[20] * 200_000], "qwen2_vl"))
    assert outcome.status == "timeout"


def test_a_refusal_of_the_program_is_a_refusal() -> None:
    code = GOOD.split("print", maxsplit=1)[0] + (
        'print(\'{"status": "refusal", "error": "odd", "message": "why"}\', flush=True)'
    )
    outcome = program(code).run(CASE)
    assert (outcome.status, outcome.error, outcome.message) == ("refusal", "odd", "why")


def test_what_a_program_started_ends_with_it(tmp_path: Path) -> None:
    written = tmp_path / "pid"
    code = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        f"open({str(written)!r}, 'w').write(str(child.pid))\n"
        "time.sleep(60)\n"
    )
    engine = program(code, seconds=1)
    assert engine.run(CASE).status == "timeout"
    child = int(written.read_text())
    deadline = time.monotonic() + 5
    while _alive(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _alive(child)


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        try:
            os.kill(pid, 0)
        except OSError:
            return False
        return not Path("/proc").exists()
    return state != "Z"


@pytest.mark.parametrize("command", ["", "no-such-program-anywhere", "'unbalanced"])
def test_a_program_that_cannot_be_run_is_named(command: str) -> None:
    with pytest.raises(EngineFault, match=r"command-(empty|not-found)"):
        engines.get(f"command:{command}")


def test_a_program_is_not_told_what_to_compute_on() -> None:
    with pytest.raises(MissingProvider, match="chooses its provider itself"):
        engines.get("command:anything", provider="cuda")


def test_what_a_killed_program_leaves_behind_goes_with_it() -> None:
    body = "import os, tempfile\n" + GOOD.replace(
        "for line in sys.stdin:",
        "kept = tempfile.mkdtemp()\nfor line in sys.stdin:\n    sys.exit(kept)",
    )
    engine = program(body)
    outcome = engine.run(CASE)
    assert outcome.status == "crash"
    assert outcome.message.startswith(tempfile.gettempdir())
    assert not Path(outcome.message).exists()
