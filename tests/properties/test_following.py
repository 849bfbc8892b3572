"""What follows a prompt equals the tail of the joined prompt, for every family."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from conftest import CHECKED, UNCOMPILED
from hypothesis import given, settings
from hypothesis import strategies as st
from support import assert_same, compute, single_row

from mmref import mrope
from mmref.case import Case
from mmref.differential.positions import prompt_arguments
from mmref.errors import RefusedPrompt
from mmref.families import TokenIds
from mmref.mrope import Positions
from mmref.testing.strategies import cases

EXAMPLES = 150 if UNCOMPILED or CHECKED else 500
IDS = TokenIds(image=10, video=11)
ARRAYS = ("image_grid_thw", "video_grid_thw", "second_per_grid_ts", "attention_mask")


def cuts(case: Case) -> list[int]:
    """Columns at which no item of any row is open, so that both sides are prompts."""
    layout = compute(case).layout
    length = case.arrays["input_ids"].shape[1]
    inside = {
        column
        for span in layout
        if span.kind != "text"
        for column in range(span.start + 1, span.stop)
    }
    # a video whose frames lie on both sides is one grid row: it cannot be cut either
    videos: dict[tuple[int, int], list[int]] = {}
    for span in layout:
        if span.kind == "video":
            videos.setdefault((span.row, span.item), []).extend((span.start, span.stop))
    for ends in videos.values():
        inside.update(range(min(ends) + 1, max(ends)))
    return [column for column in range(1, length) if column not in inside]


def part(case: Case, start: int, stop: int) -> dict[str, Any]:
    """The arguments of the columns from start to stop, with the items that lie in them."""
    layout = compute(case).layout
    arguments = {"input_ids": case.arrays["input_ids"][:, start:stop]}
    if "attention_mask" in case.arrays:
        arguments["attention_mask"] = case.arrays["attention_mask"][:, start:stop]
    for kind in ("image", "video"):
        name = f"{kind}_grid_thw"
        items = sorted(
            {span.item for span in layout if span.kind == kind and start <= span.start < stop}
        )
        if name in case.arrays and items:
            arguments[name] = case.arrays[name][items]
            if kind == "video" and "second_per_grid_ts" in case.arrays:
                arguments["second_per_grid_ts"] = case.arrays["second_per_grid_ts"][items]
    return arguments


def begin(case: Case, stop: int) -> Positions:
    common = prompt_arguments(case)
    for name in (*ARRAYS, "input_ids"):
        common.pop(name)
    return mrope.position_ids(**part(case, 0, stop), **common)


@settings(max_examples=EXAMPLES)
@given(cases(), st.data())
def test_turns_equal_the_joined_prompt(case: Case, data: st.DataObject) -> None:
    joined = compute(case)
    length = joined.position_ids.shape[2]
    chosen = data.draw(st.lists(st.sampled_from(cuts(case) or [length]), max_size=4, unique=True))
    stops = [*sorted(set(chosen) - {length}), length]
    turn = begin(case, stops[0])
    for start, stop in pairwise(stops):
        turn = turn.extend(**part(case, start, stop))
        assert_same(joined.position_ids[:, :, start:stop], turn.position_ids)
        assert (turn.first_slot, turn.next_slot) == (start, stop)
    assert_same(joined.deltas, turn.deltas)
    assert_same(joined.next_positions(2), turn.next_positions(2))
    first, last = sorted(data.draw(st.tuples(st.integers(0, length), st.integers(0, length))))
    assert_same(joined.position_ids[:, :, first:last], turn.chunk(first, last))


@settings(max_examples=EXAMPLES)
@given(cases(), st.data())
def test_rewinding_and_extending_equals_computing_afresh(case: Case, data: st.DataObject) -> None:
    whole = compute(case)
    length = whole.position_ids.shape[2]
    places = [*cuts(case), length]
    cut = data.draw(st.sampled_from(places))
    back = data.draw(st.sampled_from([place for place in places if place <= cut]))
    turn = begin(case, cut)
    if cut < length:
        turn = turn.extend(**part(case, cut, length))
    again = turn.rewind(back)
    fresh = begin(case, back)
    assert again.next_slot == back
    assert_same(fresh.deltas, again.deltas)
    assert_same(fresh.next_positions(3), again.next_positions(3))
    assert_same(whole.position_ids[:, :, :back], again.chunk(0, back))
    if back < length:
        more = again.extend(**part(case, back, length))
        assert_same(whole.position_ids[:, :, back:], more.position_ids)
        assert_same(whole.deltas, more.deltas)


@settings(max_examples=EXAMPLES // 2)
@given(cases(), st.data())
def test_a_rewind_into_an_item_is_refused(case: Case, data: st.DataObject) -> None:
    whole = compute(case)
    inside = [
        column
        for span in whole.layout
        if span.kind != "text"
        for column in range(span.start + 1, span.stop)
    ]
    if not inside:
        return
    with pytest.raises(RefusedPrompt, match="rewind-inside-item"):
        whole.rewind(data.draw(st.sampled_from(inside)))


@settings(max_examples=EXAMPLES // 2)
@given(cases(), st.data())
def test_rows_keep_their_deltas(case: Case, data: st.DataObject) -> None:
    whole = compute(case)
    length = whole.position_ids.shape[2]
    cut = data.draw(st.sampled_from([*cuts(case), length]))
    turn = begin(case, cut)
    if cut < length:
        turn = turn.extend(**part(case, cut, length))
    batch = len(case.arrays["input_ids"])
    rows = data.draw(st.lists(st.integers(0, batch - 1), min_size=1, max_size=6))
    taken = turn.take_rows(rows)
    assert_same(whole.position_ids[:, rows], taken.position_ids)
    assert_same(whole.deltas[rows], taken.deltas)
    assert_same(whole.next_positions(2)[:, rows], taken.next_positions(2))
    token = [[20]] * len(rows)
    assert_same(taken.next_positions(1), taken.extend(token).position_ids)
    assert_same(whole.rewind(0).next_positions(1)[:, rows], taken.rewind(0).next_positions(1))


@settings(max_examples=EXAMPLES // 2)
@given(cases())
def test_packed_rows_equal_the_samples_alone(case: Case) -> None:
    ids = case.arrays["input_ids"]
    mask = np.asarray(case.arrays.get("attention_mask", np.ones(ids.shape)), bool)
    common = prompt_arguments(case)
    common.pop("attention_mask")
    lengths = np.cumsum([0, *mask.sum(axis=1)])
    if lengths[-1] == 0:
        return
    packed = mrope.packed_position_ids(
        **{**common, "input_ids": ids[mask]}, cumulative_lengths=lengths
    )
    for row in range(len(ids)):
        alone = compute(single_row(case, row))
        start, stop = lengths[row], lengths[row + 1]
        assert_same(alone.position_ids[:, 0][:, mask[row]], packed.position_ids[:, 0, start:stop])
        assert packed.deltas[row] == alone.deltas[0]
        assert packed.following[row] == alone.next_positions(1)[0, 0, 0]


def conversation() -> Positions:
    arguments = {"family": "qwen2_vl", "image_grid_thw": [[1, 4, 4]], "token_ids": IDS}
    return mrope.position_ids([5, 10, 10, 10, 10, 6], **arguments)


def test_slots_and_positions_are_two_numbers() -> None:
    first = conversation()
    assert first.next_slot == 6
    assert first.next_positions(1)[0].tolist() == [[4]]
    turn = first.extend([7, 8])
    assert (turn.first_slot, turn.next_slot) == (6, 8)
    assert turn.position_ids[0].tolist() == [[4, 5]]
    assert "slots 6..7" in repr(turn)


def test_a_video_may_go_on_in_the_next_turn_of_the_glm_line() -> None:
    ids = TokenIds(image=10, video=11, video_start=14, video_end=15)
    first = mrope.position_ids([14, 20], family="glm4v", token_ids=ids)
    turn = first.extend([10, 15, 10], image_grid_thw=[[1, 2, 2]], video_grid_thw=[[1, 2, 2]])
    assert [span.kind for span in turn.layout] == ["video", "text", "image"]
    back = turn.rewind(3).extend([10, 15], video_grid_thw=[[1, 2, 2]])
    assert [span.kind for span in back.layout] == ["video", "text"]


@pytest.mark.parametrize(
    ("code", "call"),
    [
        ("slot-outside", lambda r: r.chunk(0, 7)),
        ("slot-outside", lambda r: r.chunk(-1, 3)),
        ("slot-outside", lambda r: r.chunk(4, 2)),
        ("slot-outside", lambda r: r.rewind(7)),
        ("slot-outside", lambda r: r.rewind(-1)),
        ("rewind-inside-item", lambda r: r.rewind(3)),
        ("extend-batch", lambda r: r.extend([[5], [6]])),
        ("placeholder-without-item", lambda r: r.extend([10])),
        ("unused-item", lambda r: r.extend([5], image_grid_thw=[[1, 2, 2]])),
        ("rows-outside", lambda r: r.take_rows([1])),
        ("rows-outside", lambda r: r.take_rows([])),
        ("rows-outside", lambda r: r.take_rows([0.5])),
    ],
)
def test_refusals(code: str, call: Any) -> None:
    with pytest.raises(RefusedPrompt) as caught:
        call(conversation())
    assert caught.value.code == code


@pytest.mark.parametrize("lengths", [[0], [0, 1], [0, 3], [1, 2], [0, 2, 1, 2], [], 2, [0.0, 2.0]])
def test_cumulative_lengths_cover_the_row(lengths: Any) -> None:
    with pytest.raises(RefusedPrompt, match="cumulative-lengths"):
        mrope.packed_position_ids([5, 6], lengths, family="qwen2_vl")


def test_what_follows_is_the_reference_s() -> None:
    result = mrope.position_ids([5], family="qwen2_vl", rules="transformers-5.24")
    for call in (
        lambda: result.extend([6]),
        lambda: result.rewind(0),
        lambda: result.take_rows([0]),
    ):
        with pytest.raises(RefusedPrompt, match="rules-after-prompt"):
            call()
