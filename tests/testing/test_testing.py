"""What other projects import: strategies reach and shrink, helpers say what is wrong."""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import find, given, settings

from mmref import mrope
from mmref.differences.base import small_case
from mmref.errors import UnknownName
from mmref.testing import assert_positions
from mmref.testing.selection import selected_cases
from mmref.testing.strategies import (
    cases,
    conversations,
    embeddings,
    features,
    grids,
    masks,
    merges,
    prompts,
    refused_cases,
)
from mmref.testing.strategies import tokens as token_prompts

ROOT = Path(__file__).parents[2]
HOW_TO = ROOT / "docs/how-to/test-your-engine.md"

REACHED: dict[str, tuple[Any, Callable[[Any], bool]]] = {
    "several items": (grids(), lambda grid: len(grid) == 4),
    "no items": (grids(min_items=0), lambda grid: len(grid) == 0),
    "frames": (grids(max_frames=5), lambda grid: bool((grid[:, 0] == 5).any())),
    "wide": (grids(), lambda grid: bool((grid[:, 2] > grid[:, 1]).any())),
    "merge of three": (grids(spatial_merge_size=3), lambda grid: bool((grid[:, 1] == 9).any())),
    "left": (masks((2, 4)), lambda mask: not mask[0, 0] and bool(mask[0, -1])),
    "right": (masks((2, 4)), lambda mask: bool(mask[0, 0]) and not mask[0, -1]),
    "both": (masks((1, 4)), lambda mask: mask.tolist() == [[0, 1, 1, 0]]),
    "a hole": (masks((1, 4), holes=True), lambda mask: mask.tolist() == [[1, 0, 1, 1]]),
    "an empty row": (masks((2, 3), empty_rows=True), lambda mask: not mask[1].any()),
    "a video": (prompts(family="qwen2_vl"), lambda prompt: "video_grid_thw" in prompt),
    "a later image": (
        conversations(family="qwen2_vl"),
        lambda case: any("image_grid_thw" in step.arrays for step in case.steps),
    ),
    "eight images": (
        token_prompts.accepted(("mistral3",)),
        lambda case: len(case.arrays.get("image_sizes", ())) == 8 and "[IMG][IMG]" in case.texts[0],
    ),
    "six steps": (conversations(), lambda case: len(case.steps) == 6),
    "a rewind to the start": (
        conversations(),
        lambda case: any(step.action == "rewind" and step.count == 0 for step in case.steps),
    ),
    "generated after a rewind": (
        conversations(),
        lambda case: [step.action for step in case.steps][:2] == ["rewind", "generate"],
    ),
    "a batch": (prompts(), lambda prompt: len(prompt["input_ids"]) == 4),
    "NaN": (embeddings(batch=1, length=2, hidden=2), lambda array: bool(np.isnan(array).any())),
    "negative zero": (
        features(rows=2, hidden=2),
        lambda array: bool((np.signbit(array) & (array == 0)).any()),
    ),
    "read-only": (features(rows=1, hidden=1), lambda array: not array.flags.writeable),
    "strided": (
        embeddings(batch=1, length=1, hidden=3),
        lambda array: not array.flags.c_contiguous,
    ),
    "half": (features(rows=1, hidden=1, dtype=np.float16), lambda array: array.dtype == np.float16),
    "no rows": (features(rows=0, hidden=3), lambda array: array.shape == (0, 3)),
    "three kinds": (merges(), lambda merge: len(merge.features) == 3),
    "features by row": (
        merges(),
        lambda merge: (
            merge.order == "row"
            and len(merge.input_ids) == 3
            and any(map(len, merge.features.values()))
        ),
    ),
    "interleaved": (
        merges(order="batch"),
        lambda merge: bool(np.isin([10, 11, 10], merge.input_ids).all()),
    ),
}


@pytest.mark.parametrize("name", REACHED)
def test_strategies_reach(name: str) -> None:
    strategy, condition = REACHED[name]
    assert condition(find(strategy, condition, settings=settings(max_examples=2000)))


def test_conversations_shrink() -> None:
    smallest = find(conversations(family="qwen2_vl"), lambda case: True)
    assert smallest.arrays["input_ids"].tolist() == [[20]]
    assert [step.action for step in smallest.steps] == ["append"]
    rewound = find(conversations(family="qwen2_vl"), lambda case: case.steps[-1].action == "rewind")
    assert [step.action for step in rewound.steps] == ["rewind"]


@pytest.mark.parametrize(
    ("strategy", "smallest"),
    [
        (grids(), [[1, 2, 2]]),
        (grids(min_items=2, spatial_merge_size=1), [[1, 1, 1]] * 2),
        (masks((2, 3), holes=True), [[1] * 3] * 2),
        (prompts(family="qwen2_vl").map(lambda prompt: prompt["input_ids"]), [[20]]),
        (embeddings(batch=1, length=2, hidden=1), [[[0], [1]]]),
        (features(rows=1, hidden=2), [[-2, -1]]),
        (merges().map(lambda merge: merge.input_ids), [[20]]),
    ],
    ids=["grids", "two grids", "masks", "prompts", "embeddings", "features", "merges"],
)
def test_strategies_shrink(strategy: Any, smallest: list[Any]) -> None:
    assert find(strategy, lambda value: True).tolist() == smallest


@settings(max_examples=200)
@given(masks((3, 5), padding="left"))
def test_left_padding_stands_left(mask: Any) -> None:
    assert (np.diff(mask, axis=1) >= 0).all()
    assert mask[:, -1].all()


@settings(max_examples=100)
@given(prompts())
def test_prompts_are_arguments(prompt: dict[str, Any]) -> None:
    assert_positions(mrope.position_ids(**prompt).position_ids, prompt)


@pytest.mark.parametrize(
    "call",
    [
        lambda: grids(min_items=3, max_items=2),
        lambda: grids(max_side=0),
        lambda: masks((0, 4)),
        lambda: masks((1, 4), padding="top"),  # type: ignore[arg-type]
        lambda: cases(max_rows=0),
    ],
)
def test_impossible_requests_raise_at_once(call: Callable[[], Any]) -> None:
    with pytest.raises(ValueError, match=r"expected|at least"):
        call()


def test_assert_positions_says_which_token_and_whose_rule() -> None:
    case = small_case([[11, 11, 20]], "qwen2_vl", videos=[[2, 2, 2]])
    release = mrope.position_ids(**case.arguments(), rules="transformers-5.24")
    with pytest.raises(AssertionError) as caught:
        assert_positions(release.position_ids, case)
    text = str(caught.value)
    assert text.startswith("row 0, token 2 (text): t 1, h 1, w 1; reference has t 2, h 2, w 2.")
    assert text.endswith("this is what rules='transformers-5.24' computes")
    assert_positions(release.position_ids, case, rules="transformers-5.24")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"actual": np.zeros((3, 1, 3))}, "dtype float64, expected integers"),
        ({"actual": np.zeros((3, 1, 2), int)}, r"shape \(3, 1, 2\), expected \(3, 1, 3\)"),
        ({"deltas": [5]}, r"deltas: first at \(0,\): 5, expected 0"),
        ({"next_positions": [[[4]]] * 3}, r"next_positions: first at .*: 4, expected 3"),
        ({"next_positions": 3}, "next_positions: shape"),
    ],
)
def test_assert_positions_refuses(change: dict[str, Any], message: str) -> None:
    given = {"actual": [[[0, 1, 2]]] * 3, **change}
    with pytest.raises(AssertionError, match=message):
        assert_positions(given.pop("actual"), small_case([[20, 21, 22]], "qwen2_vl"), **given)


def test_assert_positions_can_leave_masked_places_out() -> None:
    case = small_case([[0, 20]], "qwen2_vl", mask=[[0, 1]])
    with pytest.raises(AssertionError, match="masked"):
        assert_positions([[[1, 0]]] * 3, case)
    assert_positions([[[1, 0]]] * 3, case, masked=False)


def test_selected_cases_are_the_same_every_time() -> None:
    first, second = (selected_cases(["qwen3_vl"], generated=30) for _ in range(2))
    assert [case.key for case in first] == [case.key for case in second]
    assert len(first) > 30


def pytest_run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    installed = importlib.metadata.entry_points(group="pytest11", name="mmref")
    load = [] if installed else ["-p", "mmref.testing.plugin"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *load, *options]
    return subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


@pytest.fixture
def engine_folder(tmp_path: Path) -> Path:
    """The two files that the how-to shows, as they stand there."""
    for block in re.findall(r"```python\n(.*?)```", HOW_TO.read_text(), re.DOTALL):
        name = re.match(r'"""(\w+\.py)', block)
        assert name is not None
        (tmp_path / name[1]).write_text(block)
    return tmp_path


def test_the_engine_of_the_how_to_passes(engine_folder: Path) -> None:
    done = pytest_run(engine_folder, "--mmref-family", "qwen2_vl")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


def test_the_engine_of_the_how_to_can_fail(engine_folder: Path) -> None:
    engine = engine_folder / "my_engine.py"
    engine.write_text(engine.read_text().replace("item.max() + 1", "item[1:].max() + 1"))
    done = pytest_run(engine_folder, "--mmref-family", "qwen2_vl")
    assert done.returncode == 1
    assert "2 failed" in done.stdout
    assert "this is what rules='transformers-5.24' computes" in done.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--mmref-family", "qwen9_vl"], "did you mean 'qwen2_vl'|did you mean 'qwen3_vl'"),
        (["--mmref-rules", "transformers-5.25"], "did you mean 'transformers-5.2"),
    ],
)
def test_unknown_options_are_named(tmp_path: Path, options: list[str], message: str) -> None:
    (tmp_path / "test_it.py").write_text("def test_it(mmref_cases, mmref_rules):\n    pass\n")
    done = pytest_run(tmp_path, *options)
    assert done.returncode != 0
    assert re.search(message, done.stdout + done.stderr)


@pytest.mark.parametrize(
    "call",
    [
        lambda: cases(subject="pictures"),
        lambda: refused_cases(subject="tokens"),
        lambda: refused_cases(subject="fusion", kind="unused-item"),
        lambda: refused_cases(kind="features-too-few"),
        lambda: cases(subject="fusion", max_rows=2),
        lambda: cases(subject="fusion", family="no_such"),
    ],
)
def test_strategies_refuse_what_they_do_not_know(call: Callable[[], Any]) -> None:
    with pytest.raises((UnknownName, ValueError)):
        call()
