"""Positions with audio against their definition, and what follows against the joined prompt."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmref import families, mrope, tokens
from mmref.case import Case
from mmref.errors import RefusedPrompt
from mmref.testing.strategies import omni as strategies
from tests.definitions import omni as definition

NAMES = families.names("omni")


def answer(case: Case) -> Any:
    return mrope.position_ids(**case.omni_arguments())


@given(strategies.accepted(NAMES))
def test_positions_equal_their_definition(case: Case) -> None:
    found = answer(case)
    ids = case.arrays["input_ids"]
    mask = case.arrays.get("attention_mask", np.ones_like(ids))
    grids = [case.arrays.get(f"{kind}_grid_thw", np.empty((0, 3))) for kind in ("image", "video")]
    expected, following = definition.positions(
        ids.tolist(),
        mask.tolist(),
        *(grid.astype(int).tolist() for grid in grids),
        case.arrays.get("second_per_grid_ts", np.empty(0)).tolist(),
        fractions=case.family == "qwen3_omni_moe",
    )
    dtype = found.position_ids.dtype
    assert dtype == (np.float32 if case.family == "qwen3_omni_moe" else np.int64)
    wanted = np.array(expected, dtype).reshape(*ids.shape, 3)
    assert np.array_equal(found.position_ids, np.moveaxis(wanted, 2, 0))
    assert found.next_positions(1)[0, :, 0].tolist() == following


def joined(parts: list[Case]) -> Case:
    """One prompt of several, of one row each."""
    arrays: dict[str, Any] = {}
    for name in {name for part in parts for name in part.arrays} - {"attention_mask"}:
        pieces = [part.arrays[name] for part in parts if name in part.arrays]
        arrays[name] = np.concatenate(pieces, axis=1 if name == "input_ids" else 0)
    return Case(parts[0].family, arrays, parts[0].scalars, parts[0].token_ids, "omni")


@st.composite
def conversations(draw: Any) -> list[Case]:
    """Up to four prompts of one row, of one family, that follow one another."""
    name = draw(st.sampled_from(NAMES))
    row = families.get(name)
    in_video = draw(st.booleans())
    turn = strategies.turn(row, in_video)
    return list(draw(st.lists(turn, min_size=1, max_size=4)))


@given(conversations(), st.data())
def test_what_follows_equals_the_joined_prompt(parts: list[Case], data: st.DataObject) -> None:
    whole = answer(joined(parts))
    state, at = answer(parts[0]), parts[0].arrays["input_ids"].shape[1]
    states = [state]
    for part in parts[1:]:
        arguments = part.omni_arguments()
        for name in ("family", "token_ids", "attention_mask"):
            arguments.pop(name, None)
        state = state.extend(**arguments)
        states.append(state)
        stop = at + part.arrays["input_ids"].shape[1]
        assert np.array_equal(state.position_ids, whole.position_ids[:, :, at:stop])
        assert (state.first_slot, state.next_slot) == (at, stop)
        at = stop
    assert np.array_equal(state.deltas, whole.deltas)
    assert np.array_equal(state.next_positions(3), whole.next_positions(3))
    assert np.array_equal(state.chunk(0, at), whole.position_ids)
    back = data.draw(st.integers(0, len(states) - 1))
    rewound = state.rewind(states[back].next_slot)
    assert np.array_equal(rewound.next_positions(1), states[back].next_positions(1))
    rows = np.array([0, 0])
    assert np.array_equal(state.take_rows(rows).deltas, state.deltas[rows])
    assert np.array_equal(
        state.take_rows(rows).extend([[20], [21]]).position_ids,
        state.extend([[20]]).position_ids[:, rows],
    )


@given(strategies.accepted(NAMES), st.data())
def test_a_rewind_equals_the_shorter_prompt_or_is_refused(case: Case, data: st.DataObject) -> None:
    found = answer(case)
    length = case.arrays["input_ids"].shape[1]
    cut = data.draw(st.integers(0, length))
    try:
        short = found.rewind(cut)
    except RefusedPrompt as error:
        if error.code != "omni-cut":
            raise
        return
    assert np.array_equal(short.chunk(0, cut), found.position_ids[:, :, :cut])
    again = short.extend(np.full((len(found.deltas), 2), 20))
    assert np.array_equal(again.position_ids, short.next_positions(2))


def test_a_cut_inside_a_block_is_refused() -> None:
    from mmref.differences.omni import omni_case

    found = answer(omni_case([[20, 12, 10, 13, 21]], images=[[1, 2, 2]]))
    for cut in (2, 3):
        with pytest.raises(RefusedPrompt) as caught:
            found.rewind(cut)
        assert caught.value.code == "omni-cut"
    assert found.rewind(4).next_positions(1).tolist() == found.position_ids[:, :, 4:].tolist()


def test_text_that_goes_on_is_counted_from_where_it_began() -> None:
    """In float32 a sum of sums can part from the sum: text in parts equals text in one."""
    from mmref.differences.omni import omni_case

    start = omni_case([[12, 11, 11, 13]], "qwen3_omni_moe", videos=[[2, 2, 2]], seconds=[1 / 3])
    first = answer(start)
    pieces, state = [], first
    for _ in range(60):
        pieces.append(state.next_positions(3))
        state = state.extend(np.full((1, 3), 20))
        assert np.array_equal(state.position_ids, pieces[-1])
    whole = first.extend(np.full((1, 180), 20))
    assert np.array_equal(np.concatenate(pieces, axis=2), whole.position_ids)
    assert np.array_equal(first.next_positions(180), whole.position_ids)


@given(strategies.accepted(NAMES))
def test_spans_cover_the_tokens_of_their_kind(case: Case) -> None:
    ids = case.arrays["input_ids"]
    keep = case.arrays.get("attention_mask", np.ones_like(ids)) != 0
    kinds = {definition.IMAGE: "image", definition.VIDEO: "video", definition.AUDIO: "audio"}
    seen = np.zeros(ids.shape, np.int64)
    for span in answer(case).layout:
        inside = np.zeros(ids.shape, bool)
        inside[span.row, span.start : span.stop] = keep[span.row, span.start : span.stop]
        assert inside.sum() == span.tokens
        assert {kinds.get(token, "text") for token in ids[inside].tolist()} == {span.kind}
        seen += inside
    assert np.array_equal(seen, keep.astype(np.int64))


@pytest.mark.parametrize("name", NAMES)
def test_the_layout_of_a_prompt_is_that_of_its_expansion(name: str) -> None:
    ids = families.TokenIds(
        image=10, video=11, vision_start=12, vision_end=13, audio=14, audio_start=15, audio_end=16
    )
    expanded = tokens.expand(
        [[20, 12, 11, 13, 21], [12, 10, 13, 15, 14, 16, 20]],
        family=name,
        image_grid_thw=[[1, 4, 2]],
        video_grid_thw=[[5, 2, 4]],
        second_per_grid_ts=[1.0],
        audio_lengths=[640, 30],
        use_audio_in_video=True,
        token_ids=ids,
        padding_side="left",
    )
    placed = mrope.position_ids(**expanded.position_arguments, token_ids=ids)
    assert expanded.layout is not None
    assert np.array_equal(placed.layout.table, expanded.layout.table)
    assert expanded.layout.table.any()
