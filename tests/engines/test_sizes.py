"""`vision.resize` against the size functions of the installed transformers, to the pixel."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from mmref import families, vision
from mmref.engines import source
from mmref.engines.transformers_tokens import SizeFunction, size_function
from mmref.errors import RefusedMedia
from mmref.families import Resize

pytest.importorskip("transformers")
pytest.importorskip("torch")

Size = tuple[int, ...]

_MODELS = "transformers.models"


# family, frames
CASES: list[tuple[str, int | None]] = [
    ("qwen2_vl", None),
    ("qwen2_5_vl", 7),
    ("qwen3_vl", None),
    *(("qwen3_vl", frames) for frames in (1, 2, 5, 16, 300)),
    ("glm4v", None),
    ("glm4v", 6),
    ("glm46v", 9),
    ("paddleocr_vl", None),
    ("gemma4", None),
    ("gemma4", 3),
    ("pixtral", None),
    ("mistral3", None),
    ("phi4_multimodal", None),
    ("llava_next", None),
    ("internvl", None),
]


def rule_and_engine(family: str, frames: int | None) -> tuple[Resize, SizeFunction]:
    row = families.get(family)
    rule = row.media.image_resize if frames is None else row.media.video_resize
    assert rule is not None
    return rule, size_function(row, "image" if frames is None else "video")


def limits(rule: Resize, frames: int | None) -> list[Resize]:
    """The family's own limits, and limits so tight that each side of them is hit."""
    if rule.rule in ("tiles", "canvas"):
        return [rule, replace(rule, max_tokens=4)]
    if rule.rule == "best_fit":
        return [rule, replace(rule, tilings=((4, 1), (1, 1), (3, 2), (1, 5)))]
    if rule.rule == "longest_edge":
        return [rule, replace(rule, max_pixels=96), replace(rule, max_pixels=97)]
    if rule.rule == "patch_budget":
        return [rule, replace(rule, max_tokens=70), replace(rule, max_tokens=1120)]
    frames = frames or 1
    return [
        rule,
        replace(rule, min_pixels=3136, max_pixels=3136 * frames),
        replace(rule, min_pixels=200_000, max_pixels=250_000),
        replace(rule, min_pixels=1, max_pixels=10**12),
    ]


def sizes(side: int, step: int, drawn: int) -> Iterator[Size]:
    for height in range(1, side + 1, step):
        for width in range(1, side + 1, step):
            yield height, width
    generator = random.Random(0)
    for _ in range(drawn):
        yield generator.randint(1, 6000), generator.randint(1, 6000)
    for height, width in ((1, 200), (1, 201), (200, 1), (201, 1), (31, 639), (1, 4000), (14, 14)):
        yield height, width
    # a whole number of patches that floating point falls just short of
    yield from ((176, 110), (176, 198), (861, 328))


def compare(engine: SizeFunction, rule: Resize, frames: int | None, found: Iterator[Size]) -> int:
    answered = 0
    for height, width in found:
        try:
            expected: Size | None = tuple(engine(frames, height, width, rule))
            if min(expected) < 1:
                expected = None  # a side of zero: the reference refuses it
        except (ValueError, ZeroDivisionError):
            expected = None
        try:
            resized = vision.resize_by(rule, height, width, frames)
            actual: Size | None = (resized.height, resized.width)
            if rule.rule in ("tiles", "canvas", "best_fit"):
                actual = (*actual, resized.tokens)
        except RefusedMedia:
            actual = None
        assert actual == expected, (height, width, frames, rule)
        if expected is not None:
            answered += 1
            steps = -(-(frames or 1) // rule.temporal_patch_size)
            patches = (expected[0] // rule.patch_size, expected[1] // rule.patch_size)
            assert resized.grid_thw == (steps, *patches)
    return answered


@pytest.mark.parametrize(("family", "frames"), CASES)
def test_equals_the_engine(family: str, frames: int | None) -> None:
    rule, engine = rule_and_engine(family, frames)
    tiles = rule.rule == "tiles"  # the engine fills a mask for each
    for entry in limits(rule, frames):
        count = compare(engine, entry, frames, sizes(300, 61 if tiles else 13, 300))
        assert count > 300 or (frames == 1 and rule.rule == "area_frames")


@pytest.mark.slow
@pytest.mark.parametrize(("family", "frames"), CASES)
def test_equals_the_engine_for_every_size(family: str, frames: int | None) -> None:
    rule, engine = rule_and_engine(family, frames)
    if rule.rule == "tiles":
        compare(engine, rule, frames, sizes(300, 7, 4_000))
        return
    compare(engine, rule, frames, sizes(300, 1, 20_000))
    for entry in limits(rule, frames)[1:]:
        compare(engine, entry, frames, sizes(300, 5, 5_000))


def test_the_limits_of_rows_are_those_of_the_processor_classes() -> None:
    table = [
        ("qwen2_vl", "image", "qwen2_vl.image_processing_qwen2_vl", "Qwen2VLImageProcessor"),
        ("qwen2_vl", "video", "qwen2_vl.video_processing_qwen2_vl", "Qwen2VLVideoProcessor"),
        ("qwen3_vl", "video", "qwen3_vl.video_processing_qwen3_vl", "Qwen3VLVideoProcessor"),
        ("glm4v", "image", "glm4v.image_processing_glm4v", "Glm4vImageProcessor"),
        ("glm4v", "video", "glm4v.video_processing_glm4v", "Glm4vVideoProcessor"),
        ("glm46v", "video", "glm46v.video_processing_glm46v", "Glm46VVideoProcessor"),
        (
            "paddleocr_vl",
            "image",
            "paddleocr_vl.image_processing_paddleocr_vl",
            "PaddleOCRVLImageProcessor",
        ),
    ]
    for family, kind, module, name in table:
        values = source.class_of(f"{_MODELS}.{module}", name)
        rule = getattr(families.get(family).media, f"{kind}_resize")
        expected = (
            values["patch_size"],
            values["merge_size"],
            values["temporal_patch_size"],
            values["size"]["shortest_edge"],
            values["size"]["longest_edge"],
        )
        actual = (
            rule.patch_size,
            rule.merge_size,
            rule.temporal_patch_size,
            rule.min_pixels,
            rule.max_pixels,
        )
        assert actual == expected, (family, kind)


def test_the_tiles_of_rows_are_those_of_the_processor_classes() -> None:
    module = f"{_MODELS}.llava_next.image_processing_llava_next"
    places = source.class_of(module, "LlavaNextImageProcessor")["image_grid_pinpoints"]
    rule = families.get("llava_next").media.image_resize
    assert rule is not None
    assert [[down * 336, across * 336] for across, down in rule.tilings] == places
    module = f"{_MODELS}.got_ocr2.image_processing_got_ocr2"
    values = source.class_of(module, "GotOcr2ImageProcessor")
    rule = families.get("internvl").media.image_resize
    assert rule is not None
    assert (values["min_patches"], values["max_patches"]) == (1, rule.max_tokens)
