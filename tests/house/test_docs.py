"""The docs build without a warning, and their reference pages hold the data."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mmref import differences, families
from mmref.differential import findings

ROOT = Path(__file__).parents[2]


def test_the_findings_are_those_of_the_data() -> None:
    assert findings.main(["--check"]) == 0, "run python -m mmref.differential.findings"


@pytest.mark.slow
def test_the_docs_build_without_a_warning(tmp_path: Path) -> None:
    for library in ("sphinx", "myst_parser", "furo"):
        pytest.importorskip(library)
    command = [sys.executable, "-m", "sphinx", "-W", "-q", str(ROOT / "docs"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    listed = (tmp_path / "findings.html").read_text()
    assert all(entry.id in listed for entry in differences.ALL)
    listed = (tmp_path / "reference/families.html").read_text()
    assert all(name in listed for name in families.names())
