"""1-D positions against their definition, and what follows a prompt against the joined one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mmref import rope
from tests.definitions import rope as definition

_MASKS = st.integers(1, 12).flatmap(
    lambda width: st.lists(
        st.lists(st.integers(0, 1), min_size=width, max_size=width), min_size=1, max_size=3
    )
)


@given(_MASKS, st.integers(0, 3))
def test_positions_equal_their_definition(mask: list[list[int]], count: int) -> None:
    found = rope.position_ids(np.ones_like(mask), attention_mask=mask)
    rows = [definition.positions(row) for row in mask]
    assert found.position_ids.tolist() == [row for row, _ in rows]
    following = found.next_positions(count)
    assert following.tolist() == [[last + step for step in range(count)] for _, last in rows]
    assert found.attention_mask().tolist() == mask
    assert (found.first_slot, found.next_slot) == (0, len(mask[0]))


@given(_MASKS, st.integers(1, 5), st.sampled_from(["left", "right"]))
def test_windows_equal_their_definition(mask: list[list[int]], size: int, alignment: str) -> None:
    found = rope.windows(np.ones_like(mask), size=size, alignment=alignment, attention_mask=mask)
    rows = [definition.windows(row, size, alignment) for row in mask]
    assert found.position_ids.tolist() == [row for row, _, _ in rows]
    assert found.attended.tolist() == [count for _, count, _ in rows]
    assert found.following.tolist() == [following for _, _, following in rows]


@given(_MASKS, st.integers(1, 5), st.sampled_from(["left", "right"]))
def test_windows_hold_the_positions_of_the_prompt(
    mask: list[list[int]], size: int, alignment: str
) -> None:
    """Whatever the window: cut together again and without the filling, they are the prompt's."""
    found = rope.windows(np.ones_like(mask), size=size, alignment=alignment, attention_mask=mask)
    flat = found.position_ids.reshape(len(mask), -1)
    width = len(mask[0])
    kept = flat[:, :width] if alignment == "left" else flat[:, flat.shape[1] - width :]
    whole = rope.position_ids(np.ones_like(mask), attention_mask=mask)
    assert kept.tolist() == whole.position_ids.tolist()
    assert found.following.tolist() == whole.next_positions(1)[:, 0].tolist()


@given(_MASKS, st.data())
def test_what_follows_equals_the_joined_prompt(mask: list[list[int]], data: st.DataObject) -> None:
    width = len(mask[0])
    cut = data.draw(st.integers(1, width))
    kept = np.array(mask)
    ids = np.ones_like(kept)
    whole = rope.position_ids(ids, attention_mask=kept)
    first = rope.position_ids(ids[:, :cut], attention_mask=kept[:, :cut])
    last = first
    if cut < width:
        last = first.extend(ids[:, cut:], attention_mask=kept[:, cut:])
        assert last.position_ids.tolist() == whole.position_ids[:, cut:].tolist()
        assert (last.first_slot, last.next_slot) == (cut, width)
    assert last.next_positions(2).tolist() == whole.next_positions(2).tolist()
    assert last.chunk(0, width).tolist() == whole.position_ids.tolist()
    back = last.rewind(cut)
    assert back.next_positions(1).tolist() == first.next_positions(1).tolist()
    rows = data.draw(st.lists(st.integers(0, len(mask) - 1), min_size=1, max_size=4))
    taken = whole.take_rows(rows)
    assert taken.position_ids.tolist() == whole.position_ids[rows].tolist()
    assert taken.next_positions(1).tolist() == whole.next_positions(1)[rows].tolist()
