"""Ratios of lengths and masks, each measured in one run against a named peer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from mmref import audio, families
from mmref.engines import transformers_audio as engine

pytestmark = pytest.mark.benchmark
ROUNDS = 9
CLIPS = 1_000_000


def best(call: Callable[[], Any]) -> float:
    call()
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


@pytest.fixture
def one_thread() -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("name", ["gemma4", "phi4_multimodal", "wav2vec2", "qwen3_omni_moe"])
def test_lengths_take_five_nanoseconds_a_stage_and_clip(name: str) -> None:
    row = families.get(name).audio
    assert row is not None
    lengths = np.random.default_rng(0).integers(0, 480_000, CLIPS)
    seconds = best(lambda: audio.output_lengths(lengths, family=name))
    nanoseconds = seconds * 1e9 / CLIPS / len(row.stages)
    print(f"{name}: {nanoseconds:.2f} ns a stage and clip")
    assert nanoseconds <= 5


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        *((name, np.bool_) for name in ("phi4_multimodal", "parakeet_ctc", "speech_to_text")),
        *((name, np.int64) for name in ("phi4_multimodal", "parakeet_ctc", "speech_to_text")),
        ("gemma4", np.bool_),  # what its feature extractor makes; integers are checked besides
    ],
)
def test_masks_take_no_longer_than_the_engine(one_thread: None, name: str, dtype: Any) -> None:
    """1,024 masks of 3,000 frames, to a boolean mask of the outputs, on one thread each."""
    import torch

    row = families.get(name).audio
    assert row is not None
    stops = np.random.default_rng(0).integers(1, 3001, 1024)
    mask = (np.arange(3000)[None, :] < stops[:, None]).astype(dtype)
    given = torch.from_numpy(mask)
    width = int(audio.output_lengths(3000, family=name)[0])
    stub = None if name in ("phi4_multimodal", "gemma4") else engine._stub(name)

    def theirs() -> Any:
        if name == "gemma4":  # a slice is a view; this is where it is materialised
            return given[:, ::2][:, ::2].bool().contiguous()
        if name == "phi4_multimodal":
            lengths = torch.ceil(given.sum(1) / 8)
            return torch.arange(0, width).expand(len(lengths), -1) < lengths.unsqueeze(1)
        if name == "parakeet_ctc":
            return stub._get_output_attention_mask(given, target_length=width)
        return stub._get_feature_vector_attention_mask(width, given.long()).bool()

    def ours() -> Any:
        return audio.downsample_mask(mask, family=name)

    assert (theirs().numpy() == ours()).all()
    ratio = best(ours) / best(theirs)
    print(f"{name} {np.dtype(dtype)}: {ratio:.2f} of transformers' time")
    assert ratio <= 1
