"""Ratios of expansion and counting, each measured in one run against a named peer."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mmref import tokens

pytestmark = pytest.mark.benchmark
ROUNDS = 9


def best(call: Callable[[], Any]) -> float:
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def test_expanding_costs_at_most_three_copies() -> None:
    """64 prompts to 32,768 tokens each; the peer is fresh copies of ids and types."""
    text = np.arange(300, 300 + 93)
    row = np.concatenate([*([[151652, 151655, 151653], text] * 8), np.full(8, 300)])
    prompts = [row] * 64
    grids = [[1, 2, 8000]] * 512

    def expand() -> tokens.Expansion:
        return tokens.expand(prompts, family="qwen2_vl", image_grid_thw=grids)

    found = expand()
    ids, types = found.input_ids, found.mm_token_type_ids
    assert ids is not None
    assert types is not None
    assert ids.shape == (64, 32_768)
    ratio = best(expand) / best(lambda: (ids.copy(), types.copy()))
    print(f"expand over copies of both outputs: {ratio:.2f}")
    assert ratio < 3


def test_counting_one_image_takes_less_than_ten_microseconds() -> None:
    def count() -> None:
        for _ in range(1000):
            tokens.count("qwen2_5_vl", images=[(1080, 1920)])

    microseconds = best(count) * 1e3
    print(f"count of one image: {microseconds:.2f} microseconds")
    assert microseconds < 10
