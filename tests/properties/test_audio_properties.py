"""What must hold of lengths and masks, whatever the family."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mmref import audio, families
from mmref.families.audio import Stage
from mmref.testing.strategies.audio import masks

NAMES = st.sampled_from(families.names("audio"))
LENGTHS = st.lists(st.integers(0, 10_000), min_size=1, max_size=5)
# layers that make ceil(frames / stride): an odd kernel in the middle of its padding
CEILINGS = st.lists(st.integers(1, 4).map(lambda stride: Stage(3, stride, 1)), max_size=4)
STAGES = st.lists(
    st.builds(Stage, st.integers(1, 9), st.integers(1, 5), st.integers(0, 4), st.integers(1, 3)),
    max_size=4,
)


@given(NAMES, masks(frames=700))
def test_a_batch_equals_its_rows(name: str, mask: Any) -> None:
    whole = audio.downsample_mask(mask, family=name)
    for row, expected in zip(mask, whole, strict=True):
        assert audio.downsample_mask(row, family=name)[0].tolist() == expected.tolist()


@given(NAMES, LENGTHS)
def test_lengths_equal_those_of_each_clip(name: str, lengths: list[int]) -> None:
    whole = audio.output_lengths(lengths, family=name).tolist()
    assert whole == [int(audio.output_lengths(clip, family=name)[0]) for clip in lengths]


@given(NAMES, st.integers(1, 3), st.integers(1, 3000))
def test_all_valid_stays_all_valid(name: str, rows: int, frames: int) -> None:
    found = audio.downsample_mask(np.ones((rows, frames)), family=name)
    assert found.all()
    assert found.shape == (rows, audio.output_lengths(frames, family=name)[0])


@given(NAMES, st.integers(0, 5000))
def test_lengths_never_fall(name: str, frames: int) -> None:
    shorter, longer = audio.output_lengths([frames, frames + 1], family=name)
    assert 0 <= shorter <= longer


@given(masks(frames=200), st.integers(1, 4), st.integers(1, 4))
def test_strides_one_after_another_are_their_product(mask: Any, first: int, second: int) -> None:
    twice = audio.mask_by_stride(mask, [(1, first), (1, second)])
    assert twice.tolist() == audio.mask_by_stride(mask, [(1, first * second)]).tolist()
    lengths = mask.sum(1)
    through = audio.lengths_through(lengths, [(1, first), (1, second)])
    assert through.tolist() == audio.lengths_through(lengths, [(1, first * second)]).tolist()


@given(CEILINGS, st.integers(1, 60), st.data())
def test_both_ways_agree_on_contiguous_masks(
    stages: list[Stage], frames: int, data: st.DataObject
) -> None:
    lengths = np.array(data.draw(st.lists(st.integers(0, frames), min_size=1, max_size=4)))
    mask = np.arange(frames)[None, :] < lengths[:, None]
    by_stride = audio.mask_by_stride(mask, stages)
    by_length = audio.mask_from_lengths(lengths, stages, frames=frames)
    assert by_stride.tolist() == by_length.tolist()


@given(STAGES, st.integers(0, 200))
def test_any_layers_make_what_a_count_of_their_places_makes(
    stages: list[Stage], frames: int
) -> None:
    found = int(audio.lengths_through(frames, stages)[0])
    for stage in stages:
        last = frames + stage.padded - stage.dilation * (stage.kernel - 1)
        frames = len(range(0, last, stage.stride)) if frames else 0
    assert found == frames


@given(NAMES, masks(frames=300))
def test_the_explanation_is_what_the_door_answers(name: str, mask: Any) -> None:
    found = audio.explain_mask(mask, family=name)
    chosen = found.by_stride if found.way == "stride" else found.by_length
    assert chosen.tolist() == audio.downsample_mask(mask, family=name).tolist()
