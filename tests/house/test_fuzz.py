"""Campaigns: findings are kept, shrunk, deduplicated, replayed, and survive being killed."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from house.broken_engines import BROKEN

from mmref.case import Case
from mmref.cli.fuzz import seconds_of
from mmref.errors import MmrefError

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("broken_program.py")


def program(name: str) -> str:
    return f'command:"{sys.executable}" "{PROGRAM}" {name}'


def start(found: Path, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "mmref", "fuzz", "--found", str(found)]
    command += [*options] if "--subject" in options else ["--subject", "positions", *options]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"},
    )


def fuzz(found: Path, *options: str) -> tuple[int, Any, str]:
    process = start(found, *options)
    out, err = process.communicate(timeout=300)
    return process.returncode, json.loads(out) if out else None, err


def test_a_finding_is_written_shrunk_and_replayed(tmp_path: Path) -> None:
    found = tmp_path / "found"
    options = ("--engine", program("SwappedSides"), "--family", "qwen2_vl")
    code, report, _ = fuzz(found, *options, "--time", "60s", "--cases", "100", "--workers", "2")
    assert code == 1
    assert report["cases"] == 200
    assert report["totals"]["new"] > 1
    files = list(found.glob("*.json"))
    assert len(files) == len(report["findings"]) == 1  # one fault, one file, both workers
    assert Case.from_file(files[0]).arrays["input_ids"].size <= 8
    code, report, _ = fuzz(found, *options, "--time", "60s", "--cases", "1")
    assert code == 1
    assert report["findings"][0]["count"] >= 1
    code, report, _ = fuzz(found, *options[2:], "--engine", program("Port"), "--cases", "1")
    assert code == 0


def test_what_is_no_longer_met_is_said(tmp_path: Path) -> None:
    found = tmp_path / "found"
    found.mkdir()
    case = Case.from_json('{"family": "qwen2_vl", "arrays": {"input_ids": [[20]]}}')
    finding = {"engine": "command:python Port", "case": case.to_builtins()}
    finding["engine"] = f"command:{Path(sys.executable).name} Port"
    (found / "one.json").write_text(json.dumps(finding))
    (found / "half.part").write_text("{")
    code, report, _ = fuzz(found, "--engine", program("Port"), "--cases", "1")
    assert (code, report["gone"]) == (0, ["one.json"])
    assert [path.name for path in found.iterdir()] == ["one.json"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"case": {"family": 5}}', '{"name": "x"}'])
def test_a_foreign_or_damaged_file_is_named(tmp_path: Path, text: str) -> None:
    found = tmp_path / "found"
    found.mkdir()
    (found / "foreign.json").write_text(text)
    code, _, err = fuzz(found, "--engine", program("Port"), "--cases", "1")
    assert code == 2
    assert "foreign.json" in err
    assert "move it out" in err


def test_an_unwritable_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, _, err = fuzz(tmp_path / "file" / "found", "--engine", program("Port"))
    assert code == 2
    assert "found-unwritable" in err


@pytest.mark.parametrize("options", [("--engine", "nothing"), ("--time", "soon"), ("--time", "0")])
def test_bad_usage(tmp_path: Path, options: tuple[str, str]) -> None:
    assert fuzz(tmp_path / "found", *options)[0] == 2


def test_lengths_of_time() -> None:
    assert [seconds_of(text) for text in ("90", "90s", "1.5m", "2h")] == [90, 90, 90, 7200]
    with pytest.raises(MmrefError, match="bad-time"):
        seconds_of("1d")


@pytest.mark.slow
def test_killed_ten_times_it_loses_no_finding(tmp_path: Path) -> None:
    found = tmp_path / "found"
    chance = random.Random(0)
    written: set[str] = set()
    for _ in range(10):
        process = start(found, "--engine", program("Crashes"), "--engine", program("SpatialResume"))
        time.sleep(chance.uniform(2, 5))
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        now = {path.name for path in found.glob("*.json")}
        assert written <= now
        written = now
        for name in now:
            Case.from_file(found / name)
    assert written


@pytest.mark.slow
@pytest.mark.engine
@pytest.mark.parametrize("engine", ["transformers", "onnxruntime-genai"])
def test_a_real_engine_in_a_child_shows_nothing_new(tmp_path: Path, engine: str) -> None:
    pytest.importorskip(engine.replace("-", "_"))
    code, report, err = fuzz(tmp_path / "found", "--engine", engine, "--cases", "600")
    assert code == 0, err
    assert report["totals"]["compared"] > 100


@pytest.mark.slow
def test_a_campaign_finds_every_broken_port_within_two_thousand_examples(tmp_path: Path) -> None:
    names = [engine.__name__ for engine in BROKEN]
    ports = [option for name in names for option in ("--engine", program(name))]
    options = ("--cases", "1000", "--workers", "2", "--time", "5m")
    code, report, _ = fuzz(tmp_path / "found", *ports, "--engine", program("Port"), *options)
    assert code == 1
    assert report["cases"] == 2000
    new = {entry["name"].split()[-1]: entry.get("new", 0) for entry in report["engines"]}
    assert new.pop("Port") == 0
    assert sorted(new) == sorted(names)
    assert min(new.values()) > 0, new
