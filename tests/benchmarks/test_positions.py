"""Speed as ratios in one run against a named peer and a physical limit.

Run with ``pytest -m benchmark -s``; every ratio is printed beside its target.
Targets are for an otherwise idle machine.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mmref import engines, families, mrope
from mmref.case import Case
from mmref.errors import MissingExtra
from mmref.families import TokenIds

pytestmark = [pytest.mark.benchmark, pytest.mark.engine]

IDS = TokenIds(image=10, video=11, vision_start=12, vision_end=13)
ROW = ([20] * 24 + [12] + [10] * (32 * 30) + [13]) * 8
IMAGES_A_ROW = 8
GRID = [1, 64, 60]


def batch(rows: int, length: int = 8192) -> dict[str, np.ndarray]:
    """Rows with 8 images each, the rest text, and a mask."""
    line = (ROW + [20] * length)[:length]
    ids = np.array([line] * rows)
    return {
        "input_ids": ids,
        "image_grid_thw": np.array([GRID] * (IMAGES_A_ROW * rows)),
        "attention_mask": np.ones(ids.shape, bool),
    }


def seconds(function: Callable[[], object], repeats: int) -> float:
    """The median of some runs, after two that warm up."""
    function()
    function()
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        function()
        times.append(time.perf_counter() - started)
    return sorted(times)[repeats // 2]


def report(name: str, value: float, target: str) -> None:
    print(f"\n{name}: {value:.3g} (target {target})")


def test_against_transformers() -> None:
    """Batch 8 x 8,192 with 8 images a row: at least 100 times transformers."""
    try:
        engine = engines.get("transformers")
    except MissingExtra as error:
        pytest.skip(str(error))
    prompt = batch(8)
    case = Case("qwen2_vl", prompt, {}, {**IDS.as_dict(), "pad": 0})
    import torch

    stub = engine._stub(families.get("qwen2_vl"), case)  # type: ignore[attr-defined]
    tensors = {name: torch.from_numpy(array) for name, array in prompt.items()}
    types = (tensors["input_ids"] == 10).int()
    theirs = seconds(lambda: stub.get_rope_index(mm_token_type_ids=types, **tensors), 7)
    ours = seconds(lambda: mrope.position_ids(family="qwen2_vl", token_ids=IDS, **prompt), 50)
    expected = stub.get_rope_index(mm_token_type_ids=types, **tensors)[0].numpy()
    actual = mrope.position_ids(family="qwen2_vl", token_ids=IDS, **prompt).position_ids
    assert np.array_equal(expected, actual)
    report(f"times transformers {engine.version}, 8 x 8,192", theirs / ours, ">= 100")


@pytest.mark.parametrize("mask", ["bool", "int64", "none"])
def test_against_copying(mask: str) -> None:
    """A million tokens: at most 1.5 times copying the ids into a fresh (3, batch, seq)."""
    prompt = batch(128)
    if mask == "none":
        del prompt["attention_mask"]
    else:
        prompt["attention_mask"] = prompt["attention_mask"].astype(mask)
    ids = prompt["input_ids"]

    def copy() -> None:
        out = np.empty((3, *ids.shape), np.int64)
        np.copyto(out, ids)

    ours = seconds(lambda: mrope.position_ids(family="qwen2_vl", token_ids=IDS, **prompt), 21)
    report(f"times numpy.copyto, 1 M tokens, mask {mask}", ours / seconds(copy, 21), "<= 1.5")


def test_a_short_prompt() -> None:
    """1 x 100 tokens: at most 20 microseconds a call."""
    ids = np.array([[20] * 50 + [10] * 40 + [20] * 10])
    grid, mask = np.array([[1, 16, 10]]), np.ones((1, 100), bool)
    ours = seconds(
        lambda: mrope.position_ids(
            ids, family="qwen2_vl", image_grid_thw=grid, attention_mask=mask, token_ids=IDS
        ),
        2001,
    )
    report("microseconds a call, 1 x 100", ours * 1e6, "<= 20")


def elapsed(code: str, repeats: int = 5) -> float:
    """The best of some fresh interpreters, as the code itself measures it."""
    times = []
    for _ in range(repeats):
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ},
        )
        times.append(float(done.stdout))
    return min(times)


def test_import() -> None:
    """`import mmref.mrope`: at most 0.15 s over `import numba`."""
    code = (
        "import numba, time; t = time.perf_counter(); import mmref.mrope; "
        "print(time.perf_counter() - t)"
    )
    report("seconds of import mmref.mrope over import numba", elapsed(code), "<= 0.15")


def test_first_call(tmp_path: Path) -> None:
    """The first call with a warm cache: at most 50 ms over a trivial cached function's."""
    trivial = tmp_path / "trivial.py"
    trivial.write_text(
        "import time, numba\n"
        "@numba.njit(cache=True)\n"
        "def one(x):\n    return x + 1\n"
        "t = time.perf_counter(); one(1); print(time.perf_counter() - t)\n"
    )
    base = elapsed(f"import runpy; runpy.run_path({str(trivial)!r})")
    ours = elapsed(
        "import time, numpy as np\nfrom mmref import mrope\nids = np.array([[5, 6]])\n"
        "mrope.position_ids.__module__\n"
        "t = time.perf_counter(); mrope.position_ids(ids, family='qwen2_vl'); "
        "print(time.perf_counter() - t)"
    )
    report("ms of the first call over a trivial cached one's", (ours - base) * 1e3, "<= 50")


def test_help() -> None:
    """`mmref --help`: under 0.35 s."""
    times = []
    for _ in range(5):
        started = time.perf_counter()
        subprocess.run([sys.executable, "-m", "mmref", "--help"], capture_output=True, check=True)
        times.append(time.perf_counter() - started)
    report("seconds of mmref --help", min(times), "< 0.35")


def test_extending_a_long_prompt() -> None:
    """Ten more tokens after 100,000 cost at most 5 times what they cost after 100."""
    text = np.full((1, 10), 20)
    times = []
    for length in (100, 100_000):
        ids = np.full((1, length), 20)
        first = mrope.position_ids(ids, family="qwen2_vl", token_ids=IDS)
        times.append(seconds(lambda first=first: first.extend(text), 501))  # type: ignore[misc]
    report("times as long after 100,000 tokens as after 100", times[1] / times[0], "<= 5")
