"""The steps beside the merge, said again as plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from definitions import porting as definition
from hypothesis import given, settings
from hypothesis import strategies as st

from mmref import fusion
from mmref.families import TokenIds
from mmref.testing.strategies.merges import Merge, merges

MARKERS = TokenIds(image=10, video_start=14, video_end=15)
LINES = st.integers(1, 8).flatmap(
    lambda length: st.lists(
        st.lists(
            st.sampled_from([20, 21, 10, 10, 11, 16, 14, 15]), min_size=length, max_size=length
        ),
        min_size=1,
        max_size=3,
    )
)


@settings(max_examples=300)
@given(LINES)
def test_equal_their_definitions(lines: list[list[int]]) -> None:
    blocks = fusion.image_blocks(lines, [10, 11])
    assert blocks.tolist() == definition.image_blocks(lines, {10, 11})
    assert fusion.may_attend(blocks).tolist() == definition.may_attend(blocks.tolist())
    apart = fusion.tell_videos_apart(lines, MARKERS, video_id=99)
    assert apart.tolist() == definition.videos_apart(lines, 10, 14, 15, 99)
    ids = fusion.lookup_ids(lines, [10, 16], pad_id=3)
    assert ids.tolist() == [[3 if token in (10, 16) else token for token in line] for line in lines]
    gates = fusion.gates(lines, image_id=10, audio_id=16)
    flat = [token for line in lines for token in line]
    assert gates == (10 in flat, 16 in flat and 10 not in flat)


@settings(max_examples=200)
@given(merges(order="batch"))
def test_two_copies_are_one_merge_where_all_is_finite(merge: Merge) -> None:
    given_features = {key: np.nan_to_num(value) for key, value in merge.features.items()}
    text = np.nan_to_num(merge.text_embeddings)
    image, audio = (
        (key, given_features[key]) if key in given_features else None for key in (10, 11)
    )
    kept = {key: value for key, value in given_features.items() if key in (10, 11)}
    expected = fusion.fuse(merge.input_ids, text, kept)
    actual = fusion.merge_copies(merge.input_ids, text, image=image, audio=audio)
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("frames", [0, 3, 188])
def test_every_clip_has_188_rows(frames: int) -> None:
    clips = np.ones((2, frames, 4), np.float32)
    rows = fusion.fixed_rows(clips, np.zeros(4, np.float32))
    assert rows.shape == (376, 4)
    assert rows.sum() == 2 * frames * 4
    assert (rows[:frames] == 1).all()


def test_an_input_is_never_written() -> None:
    ids = np.array([[10, 14, 10, 15]])
    ids.setflags(write=False)
    fusion.lookup_ids(ids, [10])
    fusion.tell_videos_apart(ids, MARKERS, video_id=11)
    fusion.image_blocks(ids, [10])
    assert ids.tolist() == [[10, 14, 10, 15]]
