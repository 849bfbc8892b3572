"""The script for a machine with a GPU, with the CPU provider standing in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mmref.case import SUBJECTS

SCRIPT = Path(__file__).with_name("run.sh")
ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.engine, pytest.mark.slow]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        ["bash", str(SCRIPT), *arguments],
        capture_output=True,
        text=True,
        timeout=400,
        env=environment,
        check=False,
    )


def written(path: Path) -> Any:
    return json.loads(path.read_text())


def test_every_subject_is_compared_on_the_cpu(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime_genai")
    done = run(str(tmp_path / "out.json"), "--ep", "cpu", "--cases", "20")
    assert done.returncode == 0, done.stderr
    whole = written(tmp_path / "out.json")
    assert whole["exit_code"] == 0
    assert set(whole["subjects"]) == set(SUBJECTS)
    for result in whole["subjects"].values():
        assert result["report"]["totals"]["compared"] > 0
        assert result["report"]["totals"]["new"] == 0


def test_without_a_gpu_every_engine_says_why(tmp_path: Path) -> None:
    og = pytest.importorskip("onnxruntime_genai")
    if og.is_cuda_available():
        pytest.skip("this build has CUDA")
    done = run(str(tmp_path / "out.json"), "--cases", "20")
    assert done.returncode == 3
    whole = written(tmp_path / "out.json")
    assert whole["provider"] == "cuda"
    for result in whole["subjects"].values():
        reasons = {entry["name"]: entry["reason"] for entry in result["report"]["missing"]}
        assert "without CUDA" in reasons["onnxruntime-genai"]


@pytest.mark.parametrize("arguments", [(), ("--ep",), ("a.json", "b.json"), ("--other", "a.json")])
def test_bad_usage(arguments: tuple[str, ...]) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert "OUT.json" in done.stderr
