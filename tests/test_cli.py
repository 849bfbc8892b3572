"""The command: what it prints and how it ends."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from check import packages

from mmref.differences.base import small_case

pytestmark = pytest.mark.engine

HIDDEN = ["torch", "onnxruntime_genai", "onnxruntime"]
HIDE = f"import sys; sys.modules.update(dict.fromkeys({HIDDEN}))\n"


def mmref(
    *arguments: str, given: bytes = b"", before: str = ""
) -> subprocess.CompletedProcess[bytes]:
    code = f"{before}from mmref.cli import main; main({list(arguments)!r})"
    environment = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1"}
    return subprocess.run(
        [sys.executable, "-c", code], input=given, capture_output=True, env=environment, check=False
    )


def inside(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What a command that succeeds prints, run in this process: engines are imported once."""
    from mmref.cli import main

    with pytest.raises(SystemExit) as caught:
        main(list(arguments))
    assert caught.value.code == 0
    return capsys.readouterr().out


def test_diff_prints_json_when_piped() -> None:
    done = mmref("diff", "--subject", "positions", "--cases", "60", "--seed", "4")
    assert done.returncode == 0, done.stderr.decode()
    report = json.loads(done.stdout)
    assert set(report) == {"engines", "totals", "differences", "missing", "seed", "seconds"}
    assert report["seed"] == 4
    totals = report["totals"]
    assert set(totals) == {"compared", "equal", "known", "new", "vanished", "skipped", "crashed"}
    assert totals["compared"] == totals["equal"] + totals["known"] > 100
    assert totals["new"] == totals["vanished"] == 0
    for entry in report["engines"]:
        assert {"name", "version", "provider", "compared", "skipped"} <= set(entry)
    for entry in report["differences"]:
        assert {
            "id",
            "kind",
            "engine",
            "version",
            "count",
            "meaning",
            "case",
            "reference",
            "engine_outcome",
        } == set(entry)
    per_engine = {
        name: sum(entry["engine"] == name for entry in report["differences"])
        for name in ("transformers", "onnxruntime-genai")
    }
    assert per_engine["transformers"] >= 5
    assert per_engine["onnxruntime-genai"] >= 10


def test_diff_prints_a_table_that_fits_80_columns() -> None:
    done = mmref("diff", "--cases", "0", "--format", "pretty", "--subject", "positions")
    assert done.returncode == 0, done.stderr.decode()
    text = done.stdout.decode()
    assert "\x1b" not in text
    assert "Reproduce with: mmref diff --engine" in text
    table = text[text.rindex("\nengine  ") + 1 :].splitlines()
    assert all(len(line) <= 80 for line in table[:3])
    assert "0 new, 0 vanished" in table[-1]


def test_one_family_and_one_engine(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("--family", "glm4v", "--engine", "transformers", "--cases", "40")
    report = json.loads(inside(capsys, "diff", *arguments))
    assert [entry["name"] for entry in report["engines"]] == ["transformers"]
    generated = [entry["case"]["family"] for entry in report["differences"]]
    assert set(generated) == {"glm4v"}


def test_a_case_from_a_file_from_standard_input_and_by_id(tmp_path: Path) -> None:
    case = small_case([[20, 20], [12, 10]], images=[[1, 2, 2]])
    file = tmp_path / "case.json"
    file.write_bytes(case.to_json(indent=1))
    engine = ("--engine", "onnxruntime-genai")
    for source, given in (
        (str(file), b""),
        ("-", case.to_json()),
        ("genai-rows-start-at-one", b""),
    ):
        done = mmref("diff", "--case", source, *engine, given=given)
        assert done.returncode == 0, done.stderr.decode()
        report = json.loads(done.stdout)
        assert report["totals"]["compared"] == 1
        assert [entry["id"] for entry in report["differences"]] == ["genai-rows-start-at-one"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("diff", "--family", "qwen2_5"), "did you mean"),
        (("diff", "--engine", "vlm"), "one of onnxruntime, onnxruntime-genai, transformers"),
        (
            ("diff", "--engine", "transformers>=4"),
            "one of onnxruntime, onnxruntime-genai, transformers",
        ),
        (("engines", "add", "transformers"), "transformers==VERSION"),
        (("diff", "--cases", "-1"), "--cases"),
        (("diff", "--cases", "many"), "--cases"),
        (("diff", "--format", "xml"), "--format"),
        (("diff", "--case", "missing.json"), "missing.json"),
        (("diff", "--case", "no-such-difference"), "one of"),
        (("diff", "--colour"), "--colour"),
        (("dif",), "dif"),
    ],
)
def test_bad_usage_ends_with_2_and_a_reason(arguments: tuple[str, ...], said: str) -> None:
    done = mmref(*arguments)
    assert done.returncode == 2
    assert done.stdout == b""
    text = done.stderr.decode()
    assert said in text
    assert "Traceback" not in text


def test_damaged_case_on_standard_input() -> None:
    done = mmref("diff", "--case", "-", given=b"{")
    assert done.returncode == 2
    assert b"bad-json" in done.stderr


def test_no_engine_ends_with_3_and_the_pip_lines() -> None:
    done = mmref("diff", "--cases", "5", before=HIDE)
    assert done.returncode == 3
    assert json.loads(done.stdout)["totals"]["compared"] == 0
    for extra in ("transformers", "genai"):
        assert f'pip install "mmref[{extra}]"' in done.stderr.decode()
    done = mmref("diff", "--engine", "transformers", before=HIDE)
    assert done.returncode == 3
    assert 'pip install "mmref[transformers]"' in done.stderr.decode()


@pytest.mark.engine
def test_the_matrix_has_a_row_for_each_difference(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("transformers")
    arguments = ("--subject", "positions", "--cases", "0", "--engine", "transformers", "--matrix")
    report = json.loads(inside(capsys, "diff", *arguments))
    label = f"transformers {report['engines'][0]['version']}"
    counts = {row["difference"]: row[label] for row in report["matrix"]}
    assert counts.keys() == {entry["id"] for entry in report["differences"]}
    assert "vanished" not in counts.values()
    lines = inside(capsys, "diff", *arguments, "--format", "markdown").splitlines()
    assert lines[0] == f"| difference | {label} |"
    assert len(lines) == 2 + len(counts)
    pretty = inside(capsys, "diff", *arguments, "--format", "pretty")
    assert all(identifier in pretty for identifier in counts)


def test_an_engine_without_the_provider_is_left_out_with_the_reason() -> None:
    og = pytest.importorskip("onnxruntime_genai")
    if og.is_cuda_available():
        pytest.skip("this build has CUDA")
    done = mmref("diff", "--ep", "cuda", "--cases", "0", "--format", "pretty")
    assert done.returncode == 3
    assert b"onnxruntime-genai-cuda" in done.stdout
    assert b"onnxruntime-genai: a build without CUDA" in done.stderr
    assert mmref("diff", "--ep", "cuda", "--engine", "transformers").returncode == 3


def test_a_case_that_every_engine_skips_ends_with_3() -> None:
    case = small_case([[20]], "glm4v")
    done = mmref("diff", "--case", "-", "--engine", "onnxruntime-genai", given=case.to_json())
    assert done.returncode == 3
    assert b"no model type" in done.stderr


def test_engines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MMREF_CACHE", str(tmp_path))  # no release that was fetched
    done = mmref("engines")
    rows = json.loads(done.stdout)["engines"]
    assert done.returncode == 0
    assert [row["name"] for row in rows][:2] == ["transformers", "onnxruntime-genai"]
    assert mmref("engines", "--format", "pretty").returncode == 0
    assert mmref("engines", before=HIDE).returncode == 3


def test_help_is_quick_to_make() -> None:
    code = (
        "import sys\nfrom mmref.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit as end:\n"
        "    print(end.code, sorted({'numba', 'numpy', 'torch'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "0 []"


def test_check_finds_and_explains(tmp_path: Path) -> None:
    pytest.importorskip("onnx_ir")
    folder = packages.good(tmp_path / "package")
    static = ("--select", "config", "--select", "tokens", "--select", "graph")
    done = mmref("check", str(folder), *static)
    assert done.returncode == 0
    assert json.loads(done.stdout)["findings"] == []
    packages.change(folder, "genai_config.json", lambda data: data["model"].update(image_id=1))
    done = mmref("check", str(folder), *static, "--format", "pretty")
    assert done.returncode == 1
    assert b"config/unknown-key" in done.stdout
    assert mmref("check", str(folder / "decoder.onnx")).returncode == 0
    listed = json.loads(mmref("check", "--list").stdout)["checks"]
    assert len(listed) > 30
    explained = mmref("check", "--explain", "config/pad-token", "--format", "pretty")
    assert b"How it is known" in explained.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "a folder or a graph"),
        (("no-such-folder",), "unreadable-file|bad-graph"),
        (("--select", "nothing", "."), "one of"),
        (("--explain", "config/pad"), "did you mean"),
    ],
)
def test_check_refuses(arguments: tuple[str, ...], said: str) -> None:
    done = mmref("check", *arguments)
    assert done.returncode == 2
    assert re.search(said, done.stderr.decode())
    assert b"Traceback" not in done.stderr


def test_fusion_is_a_subject_like_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    report = json.loads(inside(capsys, "diff", "--subject", "fusion", "--cases", "40"))
    compared = {entry["name"]: entry["compared"] for entry in report["engines"]}
    assert set(compared) == {"transformers", "onnxruntime-genai", "onnxruntime"}
    assert all(compared.values())
    assert all(entry["case"]["subject"] == "fusion" for entry in report["differences"])
    assert len(report["differences"]) == 15
    case = b'{"subject": "fusion", "family": "llava", "arrays": {"input_ids": [[20, 10]]}}'
    done = mmref("diff", "--engine", "onnxruntime", "--case", "-", given=case)
    assert done.returncode == 0
    assert json.loads(done.stdout)["differences"][0]["id"] == "graph-missing-row-is-zero"
