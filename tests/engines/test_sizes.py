"""`vision.resize` against the size functions of the installed transformers, to the pixel."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from mmref import families, vision
from mmref.engines import source
from mmref.errors import RefusedMedia
from mmref.families import Resize

pytest.importorskip("transformers")
torch = pytest.importorskip("torch")

Size = tuple[int, int]
Engine = Callable[[int, int, Resize], Size]

_MODELS = "transformers.models"
_PIXELS = {"min_pixels", "max_pixels"}


def smart(module: str) -> Any:
    return source.load(f"{_MODELS}.{module}", "smart_resize")["smart_resize"]


def by_area(module: str) -> Engine:
    function = smart(module)

    def run(height: int, width: int, rule: Resize) -> Size:
        factor = rule.patch_size * rule.merge_size
        return function(
            height, width, factor, min_pixels=rule.min_pixels, max_pixels=rule.max_pixels
        )

    return run


def by_frames(module: str, frames: int | None) -> Engine:
    function = smart(module)

    def run(height: int, width: int, rule: Resize) -> Size:
        return function(
            num_frames=frames or rule.temporal_patch_size,
            height=height,
            width=width,
            temporal_factor=rule.temporal_patch_size,
            factor=rule.patch_size * rule.merge_size,
            min_pixels=rule.min_pixels,
            max_pixels=rule.max_pixels,
        )

    return run


def gemma4() -> Engine:
    name = "get_aspect_ratio_preserving_size"
    function = source.load(f"{_MODELS}.gemma4.image_processing_gemma4", name)[name]

    def run(height: int, width: int, rule: Resize) -> Size:
        patches = rule.max_tokens * rule.merge_size**2
        return function(height, width, rule.patch_size, patches, rule.merge_size)

    return run


def pixtral() -> Engine:
    name = "get_resize_output_image_size"
    module = f"{_MODELS}.pixtral.image_processing_pixtral"
    scope = {"get_image_size": lambda image, _: image}
    scope |= source.load(module, "_num_image_tokens")
    function = source.load(module, name, scope=scope)[name]

    def run(height: int, width: int, rule: Resize) -> Size:
        return function((height, width), rule.max_pixels, rule.patch_size * rule.merge_size)

    return run


# family, frames, the engine's function
CASES: list[tuple[str, int | None, Callable[[], Engine]]] = [
    ("qwen2_vl", None, lambda: by_area("qwen2_vl.image_processing_qwen2_vl")),
    ("qwen2_5_vl", 7, lambda: by_area("qwen2_vl.video_processing_qwen2_vl")),
    ("qwen3_vl", None, lambda: by_area("qwen2_vl.image_processing_qwen2_vl")),
    *(
        ("qwen3_vl", frames, lambda f=frames: by_frames("qwen3_vl.video_processing_qwen3_vl", f))
        for frames in (1, 2, 5, 16, 300)
    ),
    ("glm4v", None, lambda: by_frames("glm4v.image_processing_glm4v", None)),
    ("glm4v", 6, lambda: by_frames("glm4v.video_processing_glm4v", 6)),
    ("glm46v", 9, lambda: by_frames("glm46v.video_processing_glm46v", 9)),
    ("paddleocr_vl", None, lambda: by_area("paddleocr_vl.image_processing_paddleocr_vl")),
    ("gemma4", None, gemma4),
    ("gemma4", 3, gemma4),
    ("pixtral", None, pixtral),
    ("mistral3", None, pixtral),
]


def limits(rule: Resize, frames: int | None) -> list[Resize]:
    """The family's own limits, and limits so tight that each side of them is hit."""
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


def compare(engine: Engine, rule: Resize, frames: int | None, found: Iterator[Size]) -> int:
    answered = 0
    for height, width in found:
        try:
            expected: Size | None = tuple(engine(height, width, rule))
            if min(expected) < 1:
                expected = None  # a side of zero: the reference refuses it
        except (ValueError, ZeroDivisionError):
            expected = None
        try:
            resized = vision.resize_by(rule, height, width, frames)
            actual: Size | None = (resized.height, resized.width)
        except RefusedMedia:
            actual = None
        assert actual == expected, (height, width, frames, rule)
        if expected is not None:
            answered += 1
            steps = -(-(frames or 1) // rule.temporal_patch_size)
            patches = (expected[0] // rule.patch_size, expected[1] // rule.patch_size)
            assert resized.grid_thw == (steps, *patches)
    return answered


@pytest.mark.parametrize(("family", "frames", "make"), CASES)
def test_equals_the_engine(family: str, frames: int | None, make: Callable[[], Engine]) -> None:
    media = families.get(family).media
    rule = media.image_resize if frames is None else media.video_resize
    assert rule is not None
    engine = make()
    for entry in limits(rule, frames):
        count = compare(engine, entry, frames, sizes(300, 13, 300))
        assert count > 300 or (frames == 1 and rule.rule == "area_frames")


@pytest.mark.slow
@pytest.mark.parametrize(("family", "frames", "make"), CASES)
def test_equals_the_engine_for_every_size(
    family: str, frames: int | None, make: Callable[[], Engine]
) -> None:
    media = families.get(family).media
    rule = media.image_resize if frames is None else media.video_resize
    assert rule is not None
    compare(make(), rule, frames, sizes(300, 1, 20_000))
    for entry in limits(rule, frames)[1:]:
        compare(make(), entry, frames, sizes(300, 5, 5_000))


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


class _Mask:
    """What `dynamic_preprocess` needs of torchvision: nothing, for the sizes."""

    @staticmethod
    def resize(image: Any, size: list[int]) -> Any:
        return torch.empty((3, *size), device="meta")

    @staticmethod
    def pad(image: Any, padding: list[int], fill: list[int]) -> Any:
        height, width = image.shape[-2:]
        return torch.empty((3, height + padding[3], width + padding[2]), device="meta")


def phi4_tokens(height: int, width: int) -> tuple[int, int, int]:
    """Through the processor's own `_preprocess`, on pictures without pixels."""
    module = f"{_MODELS}.phi4_multimodal.image_processing_phi4_multimodal"
    name = "Phi4MultimodalImageProcessor"
    methods = source.load(
        module,
        *(f"{name}.{method}" for method in ("dynamic_preprocess", "find_closest_aspect_ratio")),
        scope={"torch": torch, "tvF": _Mask},
    )
    self = source.stub()
    self.find_closest_aspect_ratio = lambda *rest: methods[f"{name}.find_closest_aspect_ratio"](
        self, *rest
    )
    image = source.stub(shape=(3, height, width), device="cpu")
    resized, mask = methods[f"{name}.dynamic_preprocess"](self, image, 448, 14, 32)
    # the count as `_preprocess` states it, in other words: every second patch of each tile
    tiles = mask.reshape(mask.shape[0] // 32, 32, mask.shape[1] // 32, 32)
    halved = tiles[:, ::2, :, ::2].reshape(mask.shape[0] // 2, mask.shape[1] // 2)
    tokens = 256 + 1 + int(halved.sum()) + int(halved[:, 0].sum()) + 16
    return *resized.shape[-2:], tokens


def test_phi4_multimodal_equals_the_engine() -> None:
    generator = random.Random(1)
    drawn = [(generator.randint(1, 6000), generator.randint(1, 6000)) for _ in range(250)]
    refused = 0
    for height, width in [*drawn, (448, 448), (449, 448), (10, 4000), (9, 4000), (1, 1)]:
        try:
            expected = phi4_tokens(height, width)
        except ValueError:
            refused += 1
            with pytest.raises(RefusedMedia):
                vision.resize(height, width, family="phi4_multimodal")
            continue
        actual = vision.resize(height, width, family="phi4_multimodal")
        assert (actual.height, actual.width, actual.tokens) == expected, (height, width)
    assert refused < 20
