"""The real ``generate`` on tiny models: decode and later turns, against the reference."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from support import assert_same

from mmref import differences, engines, mrope
from mmref.case import Case, Step
from mmref.differences.base import append, small_case
from mmref.differential import reference
from mmref.differential.compare import judge
from mmref.probes.models import FAMILIES, tiny_model
from mmref.testing.strategies import conversations

pytestmark = pytest.mark.engine

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

TALK = (
    Step("generate", 2),
    append([[21, 12, 10, 10, 13]], images=[[1, 2, 4]]),
    Step("generate", 3),
    append([[22, 23]]),
)


def _show_nothing_new(examples: int) -> Counter[str]:
    engine = engines.get("transformers")
    release = differences.nearest_release(engine.name, engine.version)
    kinds: Counter[str] = Counter()

    @settings(max_examples=examples)
    @given(conversations(family=FAMILIES, max_steps=6))
    def check(case: Case) -> None:
        if engine.skip(case) is not None:
            kinds["skipped"] += 1
            return
        verdict = judge(case, engine.run(case), release)
        kinds[verdict.kind] += 1
        assert verdict.kind != "new", verdict.where

    check()
    return kinds


def test_random_conversations_show_nothing_new() -> None:
    kinds = _show_nothing_new(50)
    assert kinds["equal"] > 3


@pytest.mark.slow
def test_many_random_conversations_show_nothing_new() -> None:
    kinds = _show_nothing_new(300)
    assert kinds["equal"] > 30
    assert kinds["known"] > 5


@pytest.mark.parametrize("family", FAMILIES)
def test_decode_and_later_turns_are_the_reference_s(family: str) -> None:
    case = small_case([[20, 12, *[10] * 4, 13]], family, images=[[1, 4, 4]], steps=TALK)
    engine = engines.get("transformers")
    assert engine.skip(case) is None
    expected, actual = reference(case).arrays, engine.run(case).arrays
    shown = [name for name in expected if name.endswith(("_position_ids", "_cached"))]
    assert {f"step_{number}_position_ids" for number in range(1, 5)} <= set(shown)
    for name in shown:
        assert_same(expected[name], actual[name])


def test_the_prompt_itself_is_given_its_positions() -> None:
    """What the first call is given, read without the engine's module."""
    model = tiny_model("qwen2_5_vl")
    model.config.image_token_id = 10
    seen: list[Any] = []
    model.model.language_model.register_forward_pre_hook(
        lambda module, arguments, named: seen.append(named["position_ids"].numpy()),
        with_kwargs=True,
    )
    case = small_case([[20, 12, *[10] * 4, 13]], images=[[1, 4, 4]])
    ids = torch.from_numpy(case.arrays["input_ids"])
    model.generate(
        input_ids=ids,
        mm_token_type_ids=(ids == 10).int(),
        image_grid_thw=torch.tensor([[1, 4, 4]]),
        pixel_values=torch.zeros(16, 12),
        max_new_tokens=3,
        do_sample=False,
    )
    whole = mrope.position_ids(**case.arguments())
    assert_same(whole.position_ids, seen[0][1:])
    assert_same(whole.next_positions(2), np.concatenate(seen[1:], axis=2)[1:])


@pytest.mark.parametrize("patches", [16, 32])
def test_pixels_of_a_later_turn_are_refused(patches: int) -> None:
    """Grids of the whole conversation are needed for positions, and are one too many for features.

    So a second image over a cache is refused with the pixels of the new image (16 patches) and
    with those of both (32); the engine of the differential gives none.
    """
    model = tiny_model("qwen2_5_vl")
    model.config.image_token_id = 10
    image = torch.tensor([[12, 10, 10, 10, 10, 13]])
    grid = torch.tensor([[1, 4, 4]])
    asked = {"max_new_tokens": 1, "do_sample": False, "return_dict_in_generate": True}
    first = model.generate(
        input_ids=image,
        mm_token_type_ids=(image == 10).int(),
        image_grid_thw=grid,
        pixel_values=torch.zeros(16, 12),
        **asked,
    )
    whole = torch.cat([first.sequences, image], dim=1)
    with pytest.raises((IndexError, ValueError)):
        model.generate(
            input_ids=whole,
            mm_token_type_ids=(whole == 10).int(),
            image_grid_thw=torch.cat([grid, grid]),
            pixel_values=torch.zeros(patches, 12),
            cache=first.cache if "cache" in first else first.past_key_values,
            **asked,
        )
