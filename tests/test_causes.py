"""The refusals of a layout name the cause that the diagnosis names first."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings

from mmref import causes, layout, mrope, tokens
from mmref.case import Case
from mmref.errors import RefusedMedia, RefusedPrompt
from mmref.families import TokenIds
from mmref.testing.strategies import refused_cases
from mmref.tokens import CAUSES

IDS = TokenIds(image=10, video=11, vision_start=12, vision_end=13, pad=0, eos=2)
GRIDS = [[1, 4, 4], [1, 8, 4]]  # 4 and 8 tokens
PROMPT = [20, 12, *[10] * 4, 13, 21, 12, *[10] * 8, 13, 22]
MISMATCHES = (
    "run-shorter-than-item",
    "run-longer-than-items",
    "placeholder-without-item",
    "unused-item",
)
BY_IDS = set(CAUSES) - {"other-rounding", "missing-boundary", "other-media"}


def hint(ids: list[int], **arguments: Any) -> str:
    arguments = {"image_grid_thw": GRIDS, "family": "qwen2_vl", "token_ids": IDS, **arguments}
    with pytest.raises(RefusedPrompt) as caught:
        layout.scan(ids, **arguments)
    with pytest.raises(RefusedPrompt) as again:
        mrope.position_ids(ids, **arguments)
    assert str(again.value) == str(caught.value)
    return caught.value.hint


@pytest.mark.parametrize(
    ("ids", "code", "place"),
    [
        (PROMPT[:12], "truncated-right", "row 0, tokens 9..11"),
        (PROMPT[:7], "truncated-right", "row 0"),
        (PROMPT[4:], "truncated-left", "row 0, tokens 0..1"),
        ([*PROMPT, 10], "stray-placeholder", "row 0, token 19"),
        ([10, *PROMPT], "stray-placeholder", "row 0, token 0"),
        ([*PROMPT, 2, 10], "generated-placeholder", "row 0, token 20"),
        ([20, 12, 10, 13, 12, 10, 13], "not-expanded", "prompt"),
        ([12, *[10] * 16, 13, 12, *[10] * 32, 13], "not-merged", "prompt"),
        ([12, *[10] * 8, 13, 12, *[10] * 4, 13], "items-swapped", "row 0, tokens 1..8"),
    ],
)
def test_a_planted_cause_is_named(ids: list[int], code: str, place: str) -> None:
    found = hint(ids)
    assert found.startswith(f"likely cause: {CAUSES[code]} ({place}: ")
    assert found == said(
        tokens.diagnose(ids, family="qwen2_vl", image_grid_thw=GRIDS, token_ids=IDS)
    )


def said(diagnosis: tokens.Diagnosis) -> str:
    cause = diagnosis.causes[0]
    return f"likely cause: {CAUSES[cause.code]} ({cause.where}: {cause.evidence})"


def test_a_mask_on_the_wrong_side() -> None:
    ids = [0, 0, 12, *[10] * 4, 13]
    found = hint(ids, image_grid_thw=[[1, 4, 4]], attention_mask=[[1] * 6 + [0] * 2])
    assert found.startswith(f"likely cause: {CAUSES['padding-side']} (attention_mask: ")


def test_frames_of_a_split_video() -> None:
    grids = {"image_grid_thw": None, "video_grid_thw": [[3, 4, 4]], "family": "qwen3_vl"}
    found = hint([12, *[11] * 4, 13, 5, 12, *[11] * 4, 13], **grids)
    assert found.startswith(f"likely cause: {CAUSES['truncated-right']}")


def test_a_question_is_left_where_nothing_speaks_for_a_cause() -> None:
    assert hint([5, 10, 10, 6], image_grid_thw=[[1, 4, 4]]) == "was the prompt truncated?"


@pytest.mark.parametrize(
    ("ids", "grids"),
    [
        ([10] * 100_001, GRIDS),
        ([5, 10] * 501, GRIDS),
        ([5, 10], [[1, 2, 2]] * 501),
    ],
    ids=["tokens", "runs", "items"],
)
def test_a_long_prompt_is_refused_without_a_search(
    ids: list[int], grids: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mmref.refusals.likely", lambda evidence: pytest.fail("searched"))
    assert hint(ids, image_grid_thw=grids).endswith("?")


def test_a_good_prompt_is_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mmref.refusals.runs_of", lambda *_: pytest.fail("searched"))
    layout.scan(PROMPT, family="qwen2_vl", image_grid_thw=GRIDS, token_ids=IDS)


@settings(max_examples=150)
@given(refused_cases())
def test_a_hint_never_contradicts_the_diagnosis(case: Case) -> None:
    arguments = case.arguments()
    for name in ("second_per_grid_ts", "tokens_per_second"):
        arguments.pop(name, None)
    refused = None
    try:
        layout.scan(**arguments)
    except RefusedPrompt as error:
        refused = error
    if refused is None or refused.code not in MISMATCHES or "spatial_merge_size" in arguments:
        return
    try:
        found = tokens.diagnose(**arguments)
    except RefusedMedia:  # a kind that positions take and the family's processor does not
        return
    if found.causes[0].code in BY_IDS:
        assert refused.hint == said(found)
    else:
        assert refused.hint.endswith("?")


def test_every_cause_has_words() -> None:
    assert CAUSES is causes.CAUSES
    assert len(causes.TESTS) == len(BY_IDS) == 8
