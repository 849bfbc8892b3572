"""Properties of the reference that hold for every accepted prompt."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import CHECKED, UNCOMPILED
from hypothesis import given, settings
from hypothesis import strategies as st
from support import assert_same, compute, define, padded, single_row

from mmref import families, layout
from mmref.case import Case
from mmref.differential.positions import prompt_arguments
from mmref.testing.strategies import cases

EXAMPLES = 300 if UNCOMPILED or CHECKED else 2000


@settings(max_examples=EXAMPLES)
@given(cases())
def test_equals_the_plain_definition(case: Case) -> None:
    expected = define(case)
    actual = compute(case)
    assert_same(expected.positions, actual.position_ids)
    assert actual.deltas.tolist() == expected.deltas
    assert actual.next_positions(1)[0, :, 0].tolist() == expected.following


@settings(max_examples=EXAMPLES)
@given(cases())
def test_a_batch_equals_its_rows_alone(case: Case) -> None:
    together = compute(case)
    for row in range(len(case.arrays["input_ids"])):
        alone = compute(single_row(case, row))
        assert_same(alone.position_ids[:, 0], together.position_ids[:, row])
        assert alone.deltas[0] == together.deltas[row]
        assert_same(alone.next_positions(2)[:, 0], together.next_positions(2)[:, row])


@settings(max_examples=EXAMPLES)
@given(cases(), st.integers(0, 5), st.integers(0, 5))
def test_padding_changes_nothing(case: Case, left: int, right: int) -> None:
    plain = compute(case)
    more = compute(padded(case, left, right))
    length = plain.position_ids.shape[2]
    assert_same(plain.position_ids, more.position_ids[:, :, left : left + length])
    assert not more.position_ids[:, :, :left].any()
    assert not more.position_ids[:, :, left + length :].any()
    assert_same(plain.deltas, more.deltas)
    assert_same(plain.next_positions(3), more.next_positions(3))


@settings(max_examples=EXAMPLES // 4)
@given(cases())
def test_spans_cover_every_unmasked_token_once(case: Case) -> None:
    ids = case.arrays["input_ids"]
    mask = np.asarray(case.arrays.get("attention_mask", np.ones(ids.shape)), bool)
    arguments = prompt_arguments(case)
    for name in ("second_per_grid_ts", "tokens_per_second"):
        arguments.pop(name)
    seen = np.zeros(ids.shape, int)
    for span in layout.scan(**arguments):
        place = (span.row, slice(span.start, span.stop))
        seen[place] += mask[place]
        assert span.tokens == mask[place].sum()
        if span.grid is not None:
            assert span.tokens == np.prod(span.grid)
    assert_same(mask.astype(int), seen)


@settings(max_examples=EXAMPLES // 4)
@given(cases())
def test_int32_read_only_and_strided_inputs_are_the_same(case: Case) -> None:
    expected = compute(case).position_ids
    arguments = prompt_arguments(case)
    small = arguments["input_ids"].astype(np.int32)
    small.setflags(write=False)
    arguments["input_ids"] = small
    if arguments["attention_mask"] is not None:
        wide = np.repeat(np.asarray(arguments["attention_mask"], bool), 2, axis=1)
        arguments["attention_mask"] = wide[:, ::2]
    from mmref import mrope

    assert_same(expected, mrope.position_ids(**arguments).position_ids)


@pytest.mark.parametrize("name", families.names())
def test_every_family_is_reached(name: str) -> None:
    reached = set()

    @settings(max_examples=100)
    @given(cases(family=name))
    def draw(case: Case) -> None:
        reached.update(span.kind for span in compute(case).layout)

    draw()
    assert reached == {"text", "image", "video"}
