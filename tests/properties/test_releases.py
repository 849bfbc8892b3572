"""The rules of every release, in every mode of the kernels; the engines are in tests/engines."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from support import assert_same, compute

from mmref import differences, families
from mmref.case import Case
from mmref.differences.base import small_case
from mmref.errors import EngineRefusal
from mmref.mrope import position_ids
from mmref.testing.strategies import cases

NAMES = [name for name in differences.rules_names() if name != "reference"]


@pytest.mark.parametrize("name", NAMES)
def test_every_accepted_prompt_is_answered_in_full_or_refused(name: str) -> None:
    shipped = [
        family
        for family in families.names()
        if name in differences.rules_names(families.get(family))
    ]
    answered = 0

    @settings(max_examples=60)
    @given(cases(family=shipped))
    def check(case: Case) -> None:
        nonlocal answered
        try:
            positions = compute(case, rules=name)
        except EngineRefusal:
            return
        answered += 1
        expected = compute(case)
        assert positions.position_ids.shape == expected.position_ids.shape
        assert positions.deltas.shape == expected.deltas.shape
        assert positions.position_ids.dtype == expected.position_ids.dtype

    check()
    assert answered > 5


# text, one image between markers, text: what all releases of one family agree on
FLIGHT = small_case([[20, 12, *[10] * 4, 13, 21]], "qwen2_vl", images=[[1, 4, 4]])


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("transformers")])
def test_all_releases_agree_on_one_image(name: str) -> None:
    expected = np.array(
        [[0, 1, 2, 2, 2, 2, 4, 5], [0, 1, 2, 2, 3, 3, 4, 5], [0, 1, 2, 3, 2, 3, 4, 5]]
    )
    assert_same(expected, compute(FLIGHT, rules=name).position_ids[:, 0])


def test_a_release_is_not_asked_for_a_family_that_it_did_not_have() -> None:
    with pytest.raises(ValueError, match=r"that release has no qwen3_5"):
        position_ids([[5]], family="qwen3_5", rules="transformers-4.57")
