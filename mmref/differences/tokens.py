"""Where engines part from the reference in tokens and sizes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mmref.case import Scalar
from mmref.differences.base import Difference, token_case

__all__ = ["DIFFERENCES"]

_FILE = "src/models/qwen2_5_vl_image_processor.cpp, ProcessImagePrompt"
_PIXTRAL_FILE = "src/models/mistral3_image_processor.cpp, ProcessPixtralPrompt"
_GEMMA4_FILE = "src/models/gemma4_multimodal_processor.cpp, ProcessGemma4ImagePrompt"
_GEMMA3_FILE = "src/models/gemma_image_processor.cpp, ProcessImagePrompt"
_QWEN = frozenset({"qwen2_5_vl", "fara", "qwen3_vl", "qwen3_5", "qwen3_5_moe"})
_PIXTRAL = frozenset({"mistral3", "pixtral"})
_GEMMA4 = frozenset({"gemma4"})
_GEMMA3 = frozenset({"gemma3"})
_COUNTS = frozenset({"more-placeholders-than-items", "fewer-placeholders-than-items"})
_IMAGE = "<|vision_start|><|image_pad|><|vision_end|>"


def _other_starts_than_images(request: Any, spans: Any, scalars: Mapping[str, Scalar]) -> bool:
    start = request.row.media.text("vision_start")
    return bool(request.texts[0].count(start) != request.images)


def _starts_not_items(request: Any, spans: Any, scalars: Mapping[str, Scalar]) -> bool:
    starts = request.texts[0].count(request.row.media.text("vision_start"))
    return bool(starts > 0 and starts != request.images)


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
        families=_QWEN,
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
        on_refused=_COUNTS,
        families=_QWEN,
    ),
    _difference(
        "genai-pixtral-sizes-by-area",
        since="0.18",
        meaning="Pictures for Mistral's models are resized into limits of their area, to the "
        "nearest multiple; the family's own processor shrinks to the longest edge, rounding up.",
        consequence="A picture of 30 x 30 pixels takes 2 tokens instead of 6, and one of 2000 x "
        "300 more than the model was trained on; one of 1 x 201 throws.",
        source="onnxruntime-extensions' Resize with smart_resize, as exports of these models "
        "write it; shown by image_sizes",
        case=token_case("[IMG]", "mistral3", images=[[30, 30]]),
        sets={"sizes": "area"},
        families=_PIXTRAL,
    ),
    _difference(
        "genai-placeholders-in-a-row-are-one",
        since="0.18",
        meaning="Placeholders of Mistral's models that stand next to each other are one image; "
        "the images left over go behind the first [INST], or to the front of the prompt.",
        consequence="Images change their order: the second stands before the first.",
        source=_PIXTRAL_FILE,
        case=token_case("[INST][IMG][IMG]b", "mistral3", images=[[56, 28], [28, 28]]),
        sets={"runs": "one_item"},
        families=_PIXTRAL,
    ),
    _difference(
        "genai-pixtral-placeholders-not-counted",
        since="0.18",
        meaning="A placeholder too many stays as it is; an image too many goes behind the first "
        "[INST], or to the front.",
        consequence="A literal placeholder in user text, and a forgotten one, are answered.",
        source=_PIXTRAL_FILE,
        case=token_case("[INST][IMG]a[IMG]", "mistral3", images=[[28, 56]]),
        on_refused=_COUNTS,
        families=_PIXTRAL,
    ),
    _difference(
        "genai-gemma4-blank-lines",
        since="0.18",
        meaning="Gemma 4's images are put between blank lines, as Gemma 3's are.",
        consequence="Two tokens before and two behind every image that the model was not "
        "trained on.",
        source=_GEMMA4_FILE,
        case=token_case("<|image|>", "gemma4", images=[[48, 48]]),
        sets={"around": "blank_lines"},
        families=_GEMMA4,
    ),
    _difference(
        "genai-gemma4-starts-counted",
        since="0.18",
        meaning="A prompt that holds the token that starts a Gemma 4 image is refused unless it "
        "holds one for each image.",
        consequence="Text that only mentions it throws, also without any image.",
        source=_GEMMA4_FILE,
        case=token_case("<|image>", "gemma4"),
        refuses=_starts_not_items,
        families=_GEMMA4,
    ),
    _difference(
        "genai-gemma4-start-is-the-image",
        since="0.18",
        meaning="Where a prompt holds the token that starts a Gemma 4 image, that is replaced by "
        "the image and not the placeholder.",
        consequence="A placeholder written between its boundary tokens is left over: one more "
        "than the image has features.",
        source=_GEMMA4_FILE,
        case=token_case("<|image><|image|>", "gemma4", images=[[48, 48]]),
        sets={"starts": "items"},
        families=_GEMMA4,
    ),
    _difference(
        "genai-gemma4-placeholders-not-counted",
        since="0.18",
        meaning="Where the placeholders of a Gemma 4 prompt are not as many as its images, they "
        "stay and the images are put in front, with a space; without images they always stay.",
        consequence="A literal placeholder in user text, and a forgotten one, are answered.",
        source=_GEMMA4_FILE,
        case=token_case("a", "gemma4", images=[[48, 48]]),
        on_refused=_COUNTS,
        families=_GEMMA4,
    ),
    _difference(
        "genai-gemma3-one-image-counted",
        since="0.18",
        meaning="num_image_tokens of Gemma 3 is that of one image, whatever their number.",
        consequence="256 where the prompt has 512 placeholders; who sizes features by it is wrong.",
        source=_GEMMA3_FILE,
        case=token_case("<start_of_image><start_of_image>", "gemma3", images=[[9, 9], [9, 9]]),
        sets={"counted": "one"},
        families=_GEMMA3,
    ),
    _difference(
        "genai-gemma3-empty-prompt-filled",
        since="0.18",
        meaning="An empty Gemma 3 prompt with images is answered with the images, a space "
        "between two.",
        consequence="A forgotten prompt is answered.",
        source=_GEMMA3_FILE,
        case=token_case("", "gemma3", images=[[9, 9]]),
        on_refused=frozenset({"fewer-placeholders-than-items"}),
        families=_GEMMA3,
    ),
    _difference(
        "genai-gemma3-empty-prompt-ends-process",
        since="0.18",
        meaning="An empty Gemma 3 prompt without images: the last character of nothing is "
        "taken off.",
        consequence="The process dies of a segmentation fault.",
        source=_GEMMA3_FILE,
        case=token_case("", "gemma3"),
        sets={"empty_prompt": "crash"},
        families=_GEMMA3,
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
    _difference(
        "transformers-empty-clips-vanish",
        engine="transformers",
        since="5.24",
        meaning="A clip too short for one token is replaced by nothing, or by its start and end.",
        consequence="The clip is encoded, yet no placeholder takes its features: it is lost, or "
        "the merge refuses the whole batch.",
        source="replace_audio_token of the processors",
        case=token_case("<|AUDIO|>", "qwen2_audio", audio=[1]),
        on_refused=frozenset({"clip-without-tokens"}),
    ),
    _difference(
        "transformers-clips-counted-with-the-longest",
        engine="transformers",
        since="5.24",
        meaning="Qwen3-Omni and Qwen3-ASR count the started last frame of a clip if a longer one "
        "stands in the same call, and drop it if none does.",
        consequence="The same clip takes one token more in a batch than alone.",
        source="WhisperFeatureExtractor, whose mask is cut to the frames of the longest clip",
        case=token_case("<|audio_pad|>" * 2, "qwen3_omni_moe", audio=[1281, 1440]),
        sets={"clips": "in_batch"},
    ),
    _difference(
        "transformers-marks-have-the-type-of-audio",
        engine="transformers",
        since="5.24",
        meaning="In Music Flamingo and Qwen3-ASR the tokens that start and end a clip have the "
        "token type of audio, wherever they stand.",
        consequence="A mask made of types covers more tokens than there are features.",
        source="audio_token_ids of the processors",
        case=token_case("<|audio_start|>", "qwen3_asr"),
        sets={"audio_types": "marks"},
    ),
)
