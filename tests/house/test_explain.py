"""`mmref explain`: tokens, verdicts, pictures, and scripts that run without mmref."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from house.broken_engines import Port, SpatialResume

from mmref import differences, families, tokens
from mmref.cli import main, render
from mmref.differences.base import small_case, token_case
from mmref.differential.explain import explain
from mmref.differential.script import script_for
from mmref.differential.words import item_lines
from mmref.errors import UnknownName

OMNI = "transformers-omni-padding-is-one"
RESUMES = "transformers-text-resumes-inside-video"
FLIGHT = ["--family", "qwen2_vl", "--ids", "5", "151655", "6", "--image-grid", "1,2,2"]


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as caught:
        main([str(argument) for argument in arguments])
    return int(str(caught.value.code))


def test_tokens_say_slot_position_and_feature() -> None:
    case = small_case(
        [[0, 20, 10, 11], [10, 10, 20, 0]],
        "qwen2_vl",
        images=[[1, 2, 2], [1, 2, 4]],
        videos=[[1, 2, 2]],
        mask=[[0, 1, 1, 1], [1, 1, 1, 0]],
    )
    tokens = explain(case, []).tokens
    assert [token.kind for token in tokens[:4]] == ["masked", "text", "image", "video"]
    assert [token.slot for token in tokens] == [0, 1, 2, 3, 0, 1, 2, 3]
    assert [token.feature for token in tokens] == [-1, -1, 0, 0, 1, 2, -1, -1]
    assert [token.item for token in tokens] == [-1, -1, 0, 0, 1, 1, -1, -1]
    assert tokens[5].position == (0, 0, 1)


EXPLAINED = list(differences.ALL)


@pytest.mark.parametrize("entry", EXPLAINED, ids=lambda entry: entry.id)
def test_every_smallest_case_is_explained(
    entry: differences.Difference, capsys: pytest.CaptureFixture[str]
) -> None:
    explained = explain(entry.case, [])
    render.explanation(explained)
    out = capsys.readouterr().out
    ids = entry.case.arrays.get("input_ids")
    if explained.tokens and ids is not None:
        assert len(explained.tokens) == ids.size
    elif explained.reference.status == "answer":
        assert all(name in out for name in explained.reference.arrays)
    for number, step in enumerate(entry.case.steps, start=1):
        if step.arrays and explained.reference.status == "answer":
            assert f"step_{number}_" in out


def test_positions_on_one_axis_have_one_column(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("explain", "genai-text-padding-by-last-ids", "--format", "pretty") == 0
    out = capsys.readouterr().out
    assert "position" in out
    kinds = [token.kind for token in explain(differences.get(OMNI).case, []).tokens]
    assert kinds == ["masked", "text"]


def test_engines_are_judged() -> None:
    case = differences.get(RESUMES).case
    verdicts = explain(case, [Port(), SpatialResume()]).verdicts
    assert [verdict.kind for verdict in verdicts.values()] == ["equal", "new"]


def test_a_refused_prompt_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("explain", *FLIGHT[:3], "151655", "--format", "pretty") == 0
    assert "the reference refuses it" in capsys.readouterr().out


TOKENS = ["--family", "qwen3_vl", "--text", "a<|image_pad|>b<|video_pad|>", "--image", "70,90"]


def test_an_expansion_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    video = ["--video", "12,70,90", "--fps", "2"]
    assert run("explain", *TOKENS, *video, "--format", "pretty") == 0
    lines = capsys.readouterr().out.splitlines()
    assert "image 0, row 0, character 1: <|image_pad|>" in lines
    assert "  70 x 90 pixels, resized to 64 x 96, grid (1, 4, 6), 6 tokens" in lines
    assert "  <|image_pad|> x 6" in lines
    frame = "<|vision_start|>, <|video_pad|> x 12, <|vision_end|>"
    assert f"  frame 0: '<0.2 seconds>', {frame}" in lines  # 0.25, the middle of 0.0 and 0.5
    assert "  ... 2 more; --format json has them all" in lines


def test_rows_of_an_image_are_folded() -> None:
    (item,) = explain(token_case("[IMG]", "mistral3", images=[[84, 56]]), []).items
    row = "[IMG] x 2, [IMG_BREAK]"
    assert item_lines(item)[-1] == f"  ({row}) x 2, [IMG] x 2, [IMG_END]"
    assert sum(part.count for part in item.written) == item.tokens == 9


def test_an_expansion_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("explain", *TOKENS[:4], *TOKENS[4:], "--video", "2,70,90", "--format", "json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["boundary"] == "prompt"
    image, video = found["items"]
    assert (image["size"], image["grid"], image["tokens"]) == ([70, 90], [1, 4, 6], 6)
    assert [part["text"] for part in video["written"]][1] == "<|vision_start|>"
    written = sum(part["count"] for part in video["written"] if part["text"] == "<|video_pad|>")
    assert written == video["tokens"]


PICTURED = [n for n in families.names("tokens") if families.get(n).media.image_form != "none"]


@pytest.mark.parametrize("family", PICTURED)
def test_what_is_written_is_the_expansion(family: str) -> None:
    media = families.get(family).media
    text = media.text("vision_start" if media.image_form == "paragraph" else "image")
    case = token_case(f"a{text}b", family, images=[[100, 130]])
    (item,) = explain(case, []).items
    written = "".join(part.text * part.count for part in item.written)
    assert f"a{written}b" == tokens.expand(f"a{text}b", family=family, images=[(100, 130)]).text


@pytest.mark.parametrize(
    ("more", "line"),
    [
        (["--image", "56,56"], "image 1, without a placeholder"),
        (["--video", "0,56,56"], "  0 frames of 56 x 56 pixels: video 0, frames: 0, expected"),
        ([], "video 0, row 0, character 15: <|video_pad|>, but there is no such video"),
    ],
)
def test_an_expansion_that_is_refused(
    more: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("explain", *TOKENS, *more, "--format", "pretty") == 0
    out = capsys.readouterr().out
    assert "the reference refuses it" in out
    assert any(found.startswith(line) for found in out.splitlines())


def test_eighty_columns_hold_every_number(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    engines = ["--engine", "command:cat", "--engine", "command:cat -"]
    assert run("explain", *FLIGHT, *engines, "--format", "pretty") == 1
    lines = capsys.readouterr().out.splitlines()
    assert max(len(line) for line in lines[1:6]) <= 80
    assert any(line.split()[:6] == ["0", "1", "151655", "image", "0", "1"] for line in lines)


def test_a_prompt_from_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("explain", *FLIGHT) == 0
    tokens = json.loads(capsys.readouterr().out)["tokens"]
    assert [token["kind"] for token in tokens] == ["text", "image", "text"]


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_pictures(tmp_path: Path, suffix: str) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / f"picture{suffix}"
    assert run("explain", *FLIGHT, "--plot", path) == 0
    assert path.stat().st_size > 5000


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["no-such-file.json"],
        ["no-such-difference"],
        [*FLIGHT, "--plot", "picture.gif"],
        [*FLIGHT, "--plot", "no/such/folder/picture.png"],
        [*FLIGHT, "--script", "script.py"],
        [RESUMES, *FLIGHT],
        ["--family", "qwen2_vl", "--ids", "5", "--image-grid", "1,two,2"],
        ["--family", "qwen2_vl", "--ids", "5", "--image-grid", "1,2"],
        ["--family", "qwen2_vl", "--ids", "5", "--text", "a"],
        ["--family", "qwen2_vl", "--image", "5,5"],
        ["--text", "a"],
        ["--family", "no-such-family", "--text", "a"],
        [*TOKENS, "--image", "5"],
        [*TOKENS, "--video", "5,5"],
        [*TOKENS, "--image", "5,five"],
        [*TOKENS, "--fps", "-1"],
        [*TOKENS, "--image", "99999999999999999999,5"],
        ["genai-block-replaced-whole", "--image", "5,5"],
        ["genai-block-replaced-whole", "--plot", "picture.png"],
    ],
)
def test_bad_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run("explain", *arguments) == 2
    assert capsys.readouterr().err


@pytest.mark.engine
@pytest.mark.parametrize(
    ("engine", "library", "difference"),
    [
        ("transformers", "transformers", RESUMES),
        ("onnxruntime-genai", "onnxruntime_genai", "genai-rows-start-at-one"),
    ],
)
def test_a_script_shows_the_difference_without_mmref(
    tmp_path: Path, engine: str, library: str, difference: str
) -> None:
    pytest.importorskip(library)
    text = script_for(differences.get(difference).case, engine)
    assert "mmref" not in text.replace("prefix", "")
    path = tmp_path / "script.py"
    path.write_text(f"import sys; sys.modules['mmref'] = None\n{text}")
    done = subprocess.run(
        [sys.executable, str(path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("DIFFERENT\n")
    assert done.stdout.startswith(f"{engine} ")


def test_no_script_for_other_engines() -> None:
    with pytest.raises(UnknownName):
        script_for(small_case([[20]]), "command:x")
