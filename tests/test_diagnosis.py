"""A cause planted is the cause named first."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mmref import tokens
from mmref.families import TokenIds
from mmref.tokens import CAUSES, Diagnosis, diagnose, expand

IDS = TokenIds(
    image=10,
    video=11,
    vision_start=12,
    vision_end=13,
    video_start=14,
    video_end=15,
    row_break=16,
    pad=0,
    eos=2,
)
SIZES = [(56, 56), (112, 56), (112, 140)]  # 4, 8 and 20 tokens
FAMILIES = ("qwen2_vl", "qwen2_5_vl", "gemma4", "glm4v", "paddleocr_vl")


def prompt(family: str = "qwen2_vl") -> list[int]:
    ids = [20, 12, 10, 13, 21, 22, 12, 10, 13, 23, 12, 10, 13, 24, 2, 25]
    if family == "gemma4":  # writes the boundary itself
        ids = [token for token in ids if token not in (12, 13)]
    expanded = expand(ids, family=family, images=SIZES, token_ids=IDS)
    assert expanded.input_ids is not None
    return list(expanded.input_ids[0])


def first(found: Diagnosis, code: str) -> None:
    assert not found.fits
    assert [cause.code for cause in found.causes][:1] == [code], str(found)
    assert code in CAUSES
    assert code in str(found)


def look(ids: list[int], family: str = "qwen2_vl", **arguments: object) -> Diagnosis:
    arguments = {"images": SIZES, **arguments}
    return diagnose(ids, family=family, token_ids=IDS, **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_good_prompt_has_no_cause(family: str) -> None:
    found = look(prompt(family), family)
    assert found.fits
    assert found.causes == ()
    assert found.expected == found.found
    assert [item.found for item in found.items] == [item.expected for item in found.items]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("dropped", [4, 6, 12])
def test_truncated_right(family: str, dropped: int) -> None:
    found = look(prompt(family)[:-dropped], family)
    if dropped == 4:
        assert found.fits  # only text was cut
    else:
        first(found, "truncated-right")
        assert found.items[2].found == found.items[2].expected - (dropped - 4)


def test_truncated_right_with_whole_items_missing() -> None:
    first(look(prompt()[:8]), "truncated-right")


@pytest.mark.parametrize("family", FAMILIES)
def test_truncated_left(family: str) -> None:
    first(look(prompt(family)[3:], family), "truncated-left")


def test_truncated_left_with_whole_items_missing() -> None:
    ids = prompt()
    first(look(ids[ids.index(21) :]), "truncated-left")


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("place", [0, 8, 9, -2])
def test_stray_placeholder_in_text(family: str, place: int) -> None:
    ids = prompt(family)
    at = place if place <= 0 else ids.index(21) + 1
    at = at if place >= 0 else len(ids) - 4
    found = look([*ids[:at], 30, 10, 31, *ids[at:]], family)
    first(found, "stray-placeholder")
    assert found.found == found.expected + 1


def test_generated_placeholder_behind_the_end_of_a_turn() -> None:
    first(look([*prompt(), 26, 10, 27]), "generated-placeholder")


def test_generated_placeholder_by_the_length_of_the_prompt() -> None:
    ids = [token for token in prompt() if token != 2]
    first(look([*ids, 12, 10, 13], prompt_length=len(ids)), "generated-placeholder")


def test_items_swapped() -> None:
    found = look(prompt(), images=[SIZES[1], SIZES[0], SIZES[2]])
    first(found, "items-swapped")
    assert found.expected == found.found


def test_padding_on_the_other_side() -> None:
    left = [0] * 6 + prompt()
    right = prompt() + [0] * 6
    hides_end = [1] * (len(left) - 6) + [0] * 6
    hides_start = [0] * 6 + [1] * (len(right) - 6)
    first(look(left, attention_mask=[hides_end]), "padding-side")
    first(look(right, attention_mask=[hides_start]), "padding-side")
    assert look(left, attention_mask=[hides_start]).fits
    assert look(right, attention_mask=[hides_end]).fits


def test_not_expanded() -> None:
    first(look([12, 10, 13, 12, 10, 13, 12, 10, 13]), "not-expanded")


def test_not_merged() -> None:
    ids = [token for count in (4, 8, 20) for token in (12, *[10] * (4 * count), 13)]
    first(look(ids), "not-merged")


@pytest.mark.parametrize(
    ("sizes", "runs", "rule"),
    [
        ([(70, 70)], [9], "rounding halves up"),
        ([(112, 13)], [4], "ONNX Runtime GenAI 0.18"),
        ([(600, 600)], [361], "the rule of qwen3_vl"),
        ([(30, 60)], [2], "no smallest area"),
    ],
)
def test_other_rounding_names_the_rule(
    sizes: list[tuple[int, int]], runs: list[int], rule: str
) -> None:
    ids = [token for count in runs for token in (12, *[10] * count, 13, 20)]
    found = look(ids, images=sizes)
    first(found, "other-rounding")
    assert rule in str(found)


def test_missing_boundary_in_a_prompt_that_fits() -> None:
    found = look([20, *[10] * 4, 13], images=[(56, 56)])
    assert found.fits
    assert [cause.code for cause in found.causes] == ["missing-boundary"]


def test_other_media() -> None:
    first(look([12, *[10] * 7, 13], image_features=[5], images=None), "other-media")


def test_frames_of_a_split_video() -> None:
    grid = [[3, 4, 4]]
    expanded = expand(
        [5, 11, 6],
        family="qwen3_vl",
        video_grid_thw=grid,
        token_ids=IDS,
        encode=lambda text: [40] * len(text),
    )
    assert expanded.input_ids is not None
    ids = expanded.input_ids[0]
    assert look(ids, "qwen3_vl", images=None, video_grid_thw=grid).fits
    cut = look(ids[:-3], "qwen3_vl", images=None, video_grid_thw=grid)
    first(cut, "truncated-right")
    assert [(item.frame, item.found) for item in cut.items] == [(0, 4), (1, 4), (2, 3)]


def test_pictures_with_row_breaks() -> None:
    expanded = tokens.expand([5, 10, 6], family="pixtral", images=[(64, 48)], token_ids=IDS)
    assert expanded.input_ids is not None
    ids = expanded.input_ids[0]
    assert look(ids, "pixtral", images=[(64, 48)]).fits
    first(look(ids[:-3], "pixtral", images=[(64, 48)]), "truncated-right")


def test_every_cause_has_a_test() -> None:
    text = Path(__file__).read_text(encoding="utf-8")
    assert [code for code in CAUSES if f'"{code}"' not in text] == []


def test_rows_of_a_batch() -> None:
    ids = np.array([[12, 10, 10, 10, 10, 13], [12, 10, 10, 10, 10, 13]])
    assert look(ids, images=[(56, 56)] * 2).fits  # type: ignore[arg-type]
    first(look(ids[:, :-2], images=[(56, 56)] * 2), "truncated-right")  # type: ignore[arg-type]
