"""Speed of the merge as ratios in one run: against a copy of memory and against torch.

Run with ``pytest -m benchmark -s``; every ratio is printed beside its target.
Targets are for an otherwise idle machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest

from mmref import fusion

pytestmark = [pytest.mark.benchmark, pytest.mark.engine]

LENGTH, HIDDEN, IMAGE_ROWS = 8192, 3584, 4096


@pytest.fixture(scope="module")
def arguments() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ids with one block of placeholders, embeddings and features, all float32."""
    random = np.random.default_rng(0)
    ids = np.full((1, LENGTH), 20)
    ids[0, 2000 : 2000 + IMAGE_ROWS] = 10
    text = random.random((1, LENGTH, HIDDEN), np.float32)
    return ids, text, random.random((IMAGE_ROWS, HIDDEN), np.float32)


def interleaved(*functions: Callable[[], object], repeats: int = 11) -> list[float]:
    """The medians of functions that take turns, so that a busy machine is busy for all."""
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(repeats + 1):
        for own, function in zip(times, functions, strict=True):
            started = time.perf_counter()
            function()
            own.append(time.perf_counter() - started)
    return [sorted(own[1:])[repeats // 2] for own in times]


def test_into_out(arguments: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    """Into ``out=``: at most 1.3 times a copy, at least 5 times faster than torch."""
    torch = pytest.importorskip("torch")
    ids, text, image = arguments
    out = np.zeros_like(text)
    mask = torch.from_numpy(ids == 10).unsqueeze(-1)
    embeds, source = torch.from_numpy(text), torch.from_numpy(image)
    copied, fused, scattered = interleaved(
        lambda: np.copyto(out, text),
        lambda: fusion.fuse(ids, text, {10: image}, out=out),
        lambda: embeds.masked_scatter(mask, source),
    )
    print(f"\nfuse into out / numpy.copyto: {fused / copied:.2f} (target at most 1.3)")
    print(f"torch masked_scatter / fuse: {scattered / fused:.1f} (target at least 5)")
    assert fused <= 1.3 * copied
    assert scattered >= 5 * fused


def test_fresh(arguments: tuple[np.ndarray, np.ndarray, np.ndarray]) -> None:
    """A fresh output: at most 2.2 times ``embeddings.copy()``."""
    ids, text, image = arguments
    copied, fused = interleaved(text.copy, lambda: fusion.fuse(ids, text, {10: image}))
    print(f"\nfuse / embeddings.copy(): {fused / copied:.2f} (target at most 2.2)")
    assert fused <= 2.2 * copied


def test_no_temporary_larger_than_the_output(
    arguments: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> None:
    """What the merge allocates beside the output is small."""
    import tracemalloc

    ids, text, image = arguments
    fusion.fuse(ids, text, {10: image})
    tracemalloc.start()
    result = fusion.fuse(ids, text, {10: image})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    print(f"\npeak / output: {peak / result.nbytes:.3f} (target at most 2)")
    assert peak <= 2 * result.nbytes
