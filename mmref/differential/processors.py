"""What ONNX Runtime GenAI's processors of Mistral's, Gemma's and Phi's models make of a prompt.

One function for each form of image that such a processor writes. The rules say where a
release parts from the reference; under the reference's own, each gives the reference's tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from mmref import vision
from mmref.case import Array
from mmref.differences.rules import TokenRules
from mmref.families import Family, Resize
from mmref.probes import pictures, vocabulary

__all__ = ["BY_FORM", "TokenRequest"]


@dataclass(frozen=True, slots=True)
class TokenRequest:
    """A case as differences look at it: the family, its texts, the sizes of its images."""

    row: Family
    texts: tuple[str, ...]
    sizes: tuple[tuple[int, int], ...]

    @property
    def images(self) -> int:
        """How many images there are."""
        return len(self.sizes)


def _rows(
    request: TokenRequest, rules: TokenRules, expected: Mapping[str, Array]
) -> dict[str, Array]:
    """Pixtral's images (``ProcessPixtralPrompt``): ids are replaced one after the other.

    Placeholders next to each other are one image; images that are left over then go behind
    the first token that starts a turn, or to the front.
    """
    words = vocabulary.of(request.row)
    image = words.token_ids.image
    found = [_measured(request.row, height, width, rules) for height, width in request.sizes]
    waiting = [_rows_of(resized, request.row) for resized in found]
    ids: list[int] = []
    before = None
    for token in words.encode(request.texts[0]):
        again = token == before == image and rules.runs == "one_item"
        if token == image and waiting and not again:
            ids += waiting.pop(0)
        elif token != image or (not waiting and not again):
            ids.append(token)
        before = token
    if waiting:
        start = words.specials["[INST]"]
        at = ids.index(start) + 1 if start in ids else 0
        ids[at:at] = [token for item in waiting for token in item]
    count = sum(resized.tokens for resized in found)
    breaks = sum(_lines(resized, request.row) for resized in found)
    return {
        "tokens": np.array(ids, np.int64),
        "lengths": np.array([len(ids)], np.int64),
        "image_tokens": np.array([count - breaks]),
        **({"image_grid_thw": np.array([r.grid_thw for r in found])} if found else {}),
    }


def _measured(row: Family, height: int, width: int, rules: TokenRules) -> vision.Resized:
    """By the family's longest edge, or by the area as onnxruntime-extensions goes by it."""
    own = row.media.image_resize
    assert own is not None
    if rules.sizes == "family":
        return vision.resize_by(own, height, width)
    limits = pictures.area_limits(own)
    rule = Resize(
        "area",
        own.patch_size,
        own.merge_size,
        1,
        min_pixels=limits["min_pixels"],
        max_pixels=limits["max_pixels"],
        rounding=rules.rounding,
        lifted=rules.small_sides == "factor",
        whole_pixels=rules.enlarged == "whole_pixels",
    )
    resized = vision.resize_by(rule, height, width)
    lines = resized.grid_thw[1] // own.merge_size
    return vision.Resized(resized.height, resized.width, resized.grid_thw, resized.tokens + lines)


def _lines(resized: vision.Resized, row: Family) -> int:
    rule = row.media.image_resize
    assert rule is not None
    return resized.grid_thw[1] // rule.merge_size


def _rows_of(resized: vision.Resized, row: Family) -> list[int]:
    words = vocabulary.of(row)
    lines = _lines(resized, row)
    line = [words.token_ids.image] * (resized.tokens // lines - 1)
    ids = [*line, words.token_ids.row_break] * (lines - 1) + [*line, words.token_ids.vision_end]
    return [int(token) for token in ids if token is not None]


def _wrapped(
    request: TokenRequest, rules: TokenRules, expected: Mapping[str, Array]
) -> dict[str, Array]:
    """Gemma 4's images: text is replaced, and the token that starts an image stands for one."""
    row = request.row
    words = vocabulary.of(row)
    text, media = request.texts[0], row.media
    start, fill, end = (media.text(name) for name in ("vision_start", "image", "vision_end"))
    mark = start if rules.starts == "items" and start in text else fill
    parts = text.split(mark) if request.images else [text]
    blank = "\n\n" if rules.around == "blank_lines" else ""
    counts = [vision.resize(*size, family=row.name).tokens for size in request.sizes]
    blocks = [f"{blank}{start}{fill * count}{end}{blank}" for count in counts]
    made = parts[0] + "".join(a + b for a, b in zip(blocks, parts[1:], strict=False))
    ids = np.array(words.encode(made), np.int64)
    arrays: dict[str, Array] = {"tokens": ids, "lengths": np.array([len(ids)], np.int64)}
    arrays["image_tokens"] = np.array([sum(counts)])
    arrays["token_types"] = (ids == words.token_ids.image).astype(np.int64)
    return arrays


def _paragraph(
    request: TokenRequest, rules: TokenRules, expected: Mapping[str, Array]
) -> dict[str, Array]:
    """Gemma 3's images: as the reference, but one image is counted whatever their number."""
    if rules.counted == "all" or not request.images:
        return dict(expected)
    rule = request.row.media.image_resize
    assert rule is not None
    return {**expected, "image_tokens": np.array([rule.max_tokens])}


BY_FORM: dict[str, Callable[[TokenRequest, TokenRules, Mapping[str, Array]], dict[str, Array]]] = {
    "rows": _rows,
    "wrapped": _wrapped,
    "paragraph": _paragraph,
}
"""The form of a family's images to the prediction."""
