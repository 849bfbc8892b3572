"""Where engines part from the reference in tokens and sizes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mmref.case import Scalar
from mmref.differences.base import Difference, token_case

__all__ = ["DIFFERENCES"]

_FILE = "src/models/qwen2_5_vl_image_processor.cpp, ProcessImagePrompt"
_IMAGE = "<|vision_start|><|image_pad|><|vision_end|>"


def _other_starts_than_images(request: Any, spans: Any, scalars: Mapping[str, Scalar]) -> bool:
    start = request.row.media.text("vision_start")
    return bool(request.texts[0].count(start) != request.images)


def _difference(identifier: str, **columns: Any) -> Difference:
    shared = {"engine": "onnxruntime-genai", "since": "0.14", "subject": "tokens"}
    return Difference(id=identifier, **{**shared, **columns})


DIFFERENCES: tuple[Difference, ...] = (
    _difference(
        "genai-images-counted-by-vision-start",
        meaning="A prompt is refused unless it holds as many vision_start tokens as images.",
        consequence="An image without the boundary, and text that only mentions it, throw.",
        source=_FILE,
        case=token_case("<|image_pad|>", images=[[56, 56]]),
        refuses=_other_starts_than_images,
    ),
    _difference(
        "genai-block-replaced-whole",
        meaning="An image replaces everything from vision_start to the next vision_end, wherever "
        "that stands; without one, only vision_start.",
        consequence="Text between the two is lost; where vision_end is missing the placeholder "
        "is left over, and text is lost or written twice.",
        source=_FILE,
        case=token_case("<|vision_start|>a<|image_pad|><|vision_end|>", images=[[56, 56]]),
        sets={"replaces": "block"},
    ),
    _difference(
        "genai-size-halves-rounded-up",
        since="0.18",
        meaning="Half a factor is rounded up when a side is resized, not to the even multiple.",
        consequence="A picture of 70 x 70 pixels takes 9 tokens instead of 4, and the model sees "
        "another size than it was trained on.",
        source="onnxruntime-extensions' Resize with smart_resize, shown by image_grid_thw",
        case=token_case(_IMAGE, images=[[70, 70]]),
        sets={"rounding": "away"},
    ),
    _difference(
        "genai-small-sides-are-one-factor",
        since="0.18",
        meaning="A side below half a factor counts as one factor when the area is compared with "
        "the limits.",
        consequence="Thin pictures are not enlarged to the smallest area, and take fewer tokens.",
        source="onnxruntime-extensions' Resize with smart_resize, shown by image_grid_thw",
        case=token_case(_IMAGE, images=[[112, 13]]),
        sets={"small_sides": "factor"},
    ),
    _difference(
        "genai-enlarged-sides-in-whole-pixels",
        since="0.18",
        meaning="An enlarged side is cut to whole pixels before it is rounded up to a factor.",
        consequence="A side less than a pixel over a multiple loses a row of tokens, and the "
        "picture can end below the smallest area.",
        source="onnxruntime-extensions' Resize with smart_resize, shown by image_grid_thw",
        case=token_case(_IMAGE, "qwen3_vl", images=[[55, 41]]),
        sets={"enlarged": "whole_pixels"},
    ),
    _difference(
        "genai-placeholders-not-counted",
        meaning="Placeholders are not counted: none, or several, between vision_start and "
        "vision_end stand for one image, and any elsewhere stay as they are.",
        consequence="A literal placeholder in user text, or one too many, is answered.",
        source=_FILE,
        case=token_case("<|vision_start|><|vision_end|>", images=[[56, 56]]),
        on_refused=frozenset({"more-placeholders-than-items", "fewer-placeholders-than-items"}),
    ),
    _difference(
        "transformers-video-markers-not-needed",
        engine="transformers",
        since="5.24",
        meaning="GLM-4V placeholders are expanded wherever they stand, but frames are told from "
        "images by the markers around a video.",
        consequence="A video without its markers gets the token types of images, an image inside "
        "them those of a video; positions are then refused, or wrong.",
        source="transformers.models.glm4v.processing_glm4v, create_mm_token_type_ids",
        case=token_case("<|video|>", "glm4v", videos=[[2, 28, 28]]),
        on_refused=frozenset({"nested-placeholder", "boundary-missing"}),
    ),
)
