"""`mmref diff` can fail: faults planted in a copy of the kernels are found, and small."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.engine]

ROOT = Path(__file__).parents[2]
# name -> (file, what stands there, what is planted)
FAULTS = {
    "row start": (
        "kernels/mrope.py",
        "            cursor = largest[row] + 1\n            row_before = row\n",
        "            cursor = largest[row] + 1 + (row > 0)\n            row_before = row\n",
    ),
    "rounding": (
        "kernels/mrope.py",
        "time = start + int(time_position(i, seconds, rate, time_rule))",
        "time = start + int(time_position(i, seconds, rate, time_rule) + np.float32(0.5))",
    ),
    "swapped h and w": (
        "kernels/mrope.py",
        "                level(out[1, row, index : index + w], start + y)\n"
        "                ramp(out[2, row, index : index + w], start)\n",
        "                level(out[2, row, index : index + w], start + y)\n"
        "                ramp(out[1, row, index : index + w], start)\n",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found_and_shrunk(name: str, tmp_path: Path) -> None:
    file, right, wrong = FAULTS[name]
    shutil.copytree(
        ROOT / "mmref", tmp_path / "mmref", ignore=shutil.ignore_patterns("__pycache__")
    )
    kernel = tmp_path / "mmref" / file
    text = kernel.read_text()
    assert text.count(right) == 1
    kernel.write_text(text.replace(right, wrong))
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mmref",
            "diff",
            "--format",
            "json",
            "--cases",
            "400",
            "--engine",
            "transformers",
            "--subject",
            "positions",
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr.decode()[-2000:]
    new = [entry for entry in json.loads(done.stdout)["differences"] if entry["kind"] == "new"]
    assert new
    smallest = min(np.size(entry["case"]["arrays"]["input_ids"]) for entry in new)
    assert smallest <= 12
