"""From the size of a picture or a video to its resized size, its grid and its tokens.

`resize` follows the processor of a family to the pixel: its rounding, its
limits, its errors. Which frames of a video it takes is said by `mmref.frames.sample`.
Everything here is arithmetic on a few numbers; no pixel is touched.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from mmref import families, tilings
from mmref.errors import RefusedMedia
from mmref.families.media import Resize

__all__ = ["REFUSALS", "RULES", "Resized", "resize", "resize_by"]

REFUSALS: dict[str, str] = {
    "size-not-positive": "a height, width or number of frames of zero or less, or none at all",
    "aspect-ratio": "a picture more than 200 times as long as it is wide",
    "too-few-frames": "fewer frames than one grid step holds",
    "kind-not-supported": "an image or a video for a family that has none",
    "setting-not-used": "a limit that the family's rule does not have",
    "setting-not-positive": "a limit of zero or less",
    "resized-to-nothing": "a picture so thin that a side becomes zero",
}
"""Every way a size can be refused, by the error's ``code``."""

_ASPECT = 200


@dataclass(frozen=True, slots=True)
class Resized:
    """What a processor makes of a size.

    Parameters
    ----------
    height, width : int
        Pixels after resizing.
    grid_thw : tuple of int
        Patches (t, h, w) before merging; a row of ``image_grid_thw`` or ``video_grid_thw``
        for the families that have them.
    tokens : int
        Placeholders, with what the family marks as belonging to the item (Pixtral's row
        breaks, the tokens around InternVL's images).
    """

    height: int
    width: int
    grid_thw: tuple[int, int, int]
    tokens: int


def resize(
    height: int,
    width: int,
    *,
    family: str,
    frames: int | None = None,
    patch_size: int | None = None,
    merge_size: int | None = None,
    temporal_patch_size: int | None = None,
    min_pixels: int | None = None,
    max_pixels: int | None = None,
    max_tokens: int | None = None,
) -> Resized:
    """Resized size, grid and number of tokens of an image or a video.

    Parameters
    ----------
    height, width : int
        Pixels.
    family : str
        A name of ``families.names("tokens")``, or an alias.
    frames : int, optional
        Frames of a video, after sampling. Default: it is an image.
    patch_size, merge_size, temporal_patch_size : int, optional
        Default: those of the family's processor.
    min_pixels, max_pixels : int, optional
        The processor's ``size["shortest_edge"]`` and ``size["longest_edge"]``: areas for the
        Qwen and GLM lines (over all frames of a video where the family counts so), the
        longest side for Pixtral. Checkpoints often set them; default: the processor class's.
    max_tokens : int, optional
        Gemma 4's ``max_soft_tokens``, Phi-4 multimodal's ``dynamic_hd``, InternVL's
        ``max_patches``.

    Returns
    -------
    Resized
        The answer.

    Raises
    ------
    RefusedMedia
        One of `REFUSALS`.
    UnknownName
        If the family is not known.

    Notes
    -----
    Source of the rules: ``smart_resize`` and its relatives in the processors of transformers
    5.24 (``mmref.families.expansions`` names them). Where those divide by zero or return a
    side of zero, this refuses.

    Examples
    --------
    >>> resize(100, 100, family="qwen2_vl")
    Resized(height=112, width=112, grid_thw=(1, 8, 8), tokens=16)
    >>> resize(70, 70, family="qwen2_vl").height  # 2.5 factors round to 2, the even one
    56
    """
    height, width = _positive(height, "height"), _positive(width, "width")
    rule = _rule(family, frames is not None)
    if not (
        patch_size is merge_size is temporal_patch_size is min_pixels is None
        and max_pixels is max_tokens is None
    ):
        rule = _with_settings(
            rule,
            patch_size=patch_size,
            merge_size=merge_size,
            temporal_patch_size=temporal_patch_size,
            min_pixels=min_pixels,
            max_pixels=max_pixels,
            max_tokens=max_tokens,
        )
    return RULES[rule.rule](height, width, None if frames is None else _frames(frames), rule)


def resize_by(rule: Resize, height: int, width: int, frames: int | None = None) -> Resized:
    """The same by a rule of one's own, for a processor that no family has.

    Parameters
    ----------
    rule : Resize
        The rule and its limits.
    height, width : int
        Pixels.
    frames : int, optional
        Frames of a video. Default: it is an image.

    Returns
    -------
    Resized
        The answer.

    Raises
    ------
    RefusedMedia
        One of `REFUSALS`.

    Examples
    --------
    >>> resize_by(Resize("area", 14, min_pixels=3136, max_pixels=1003520), 100, 100).tokens
    16
    """
    height, width = _positive(height, "height"), _positive(width, "width")
    return RULES[rule.rule](height, width, None if frames is None else _frames(frames), rule)


def _by_area(height: int, width: int, frames: int | None, rule: Resize) -> Resized:
    """Sides to the nearest multiple, halves to the even one; then the area into its limits."""
    _check_aspect(height, width)
    steps = 1 if frames is None else -(-frames // rule.temporal_patch_size)
    sides = _into_limits(height, width, 1, 1, rule)
    return _on_grid(*sides, steps, rule)


def _by_area_lifted(height: int, width: int, frames: int | None, rule: Resize) -> Resized:
    """As by area, after lifting a side below one factor to it (PaddleOCR-VL)."""
    factor = rule.patch_size * rule.merge_size
    if height < factor:
        height, width = factor, round((width * factor) / height)
    if width < factor:
        height, width = round((height * factor) / width), factor
    return _by_area(height, width, frames, rule)


def _by_area_of_frames(height: int, width: int, frames: int | None, rule: Resize) -> Resized:
    """The limits hold for all frames together; an image counts as one grid step of frames."""
    factor = rule.patch_size * rule.merge_size
    step = rule.temporal_patch_size
    count = step if frames is None else frames
    if count < step:
        raise RefusedMedia(
            "too-few-frames", where="frames", got=str(count), expected=f"at least {step}"
        )
    if height < factor or width < factor:
        scale = max(factor / height, factor / width)
        height, width = int(height * scale), int(width * scale)
    _check_aspect(height, width)
    sides = _into_limits(height, width, count, round(count / step) * step, rule)
    return _on_grid(*sides, 1 if frames is None else -(-frames // step), rule)


def _into_limits(
    height: int, width: int, frames: int, rounded_frames: int, rule: Resize
) -> tuple[int, int]:
    """The test takes the rounded sizes, the scale the original ones; as published."""
    factor = rule.patch_size * rule.merge_size
    nearest = _ROUND[rule.rounding]
    new_height = nearest(height / factor) * factor
    new_width = nearest(width / factor) * factor
    if rule.lifted:
        new_height, new_width = max(factor, new_height), max(factor, new_width)
    area = rounded_frames * new_height * new_width
    if area > rule.max_pixels:
        scale = math.sqrt((frames * height * width) / rule.max_pixels)
        new_height = max(factor, math.floor(height / scale / factor) * factor)
        new_width = max(factor, math.floor(width / scale / factor) * factor)
    elif area < rule.min_pixels:
        scale = math.sqrt(rule.min_pixels / (frames * height * width))
        if rule.whole_pixels:
            new_height = math.ceil(int(height * scale) / factor) * factor
            new_width = math.ceil(int(width * scale) / factor) * factor
        else:
            new_height = math.ceil(height * scale / factor) * factor
            new_width = math.ceil(width * scale / factor) * factor
    return new_height, new_width


_ROUND: dict[str, Callable[[float], int]] = {
    "even": round,
    "away": lambda value: math.floor(value + 0.5),
    "down": math.floor,
    "up": math.ceil,
}


def _fixed(height: int, width: int, frames: int | None, rule: Resize) -> Resized:
    """Every picture has one size (Gemma 3)."""
    side = rule.max_pixels
    patches = side // rule.patch_size
    return Resized(side, side, (1, patches, patches), rule.max_tokens)


def _by_longest_edge(height: int, width: int, frames: int | None, rule: Resize) -> Resized:
    """Shrunk to the longest edge, rounded down, then up to whole patches (Pixtral)."""
    ratio = max(height / rule.max_pixels, width / rule.max_pixels)
    if ratio > 1:
        height, width = math.floor(height / ratio), math.floor(width / ratio)
    side = rule.patch_size * rule.merge_size
    rows, columns = -(-height // side), -(-width // side)
    if rows == 0 or columns == 0:
        raise RefusedMedia(
            "resized-to-nothing",
            where="size",
            got=f"{height} x {width} pixels at a longest edge of {rule.max_pixels}",
            expected="at least one pixel along each side",
        )
    grid = (1, rows * rule.merge_size, columns * rule.merge_size)
    return Resized(rows * side, columns * side, grid, rows * (columns + 1))


def _by_patch_budget(height: int, width: int, frames: int | None, rule: Resize) -> Resized:
    """The largest size of the same shape within a budget of patches (Gemma 4)."""
    side = rule.patch_size * rule.merge_size
    budget = rule.max_tokens * rule.merge_size**2 * rule.patch_size**2
    factor = math.sqrt(budget / (height * width))
    new_height = math.floor(factor * height / side) * side
    new_width = math.floor(factor * width / side) * side
    longest = rule.max_tokens * side
    if new_height == 0 and new_width == 0:
        raise RefusedMedia(
            "resized-to-nothing",
            where="size",
            got=f"{height} x {width} pixels with {rule.max_tokens} tokens",
            expected=f"room for {side} x {side} pixels",
        )
    if new_height == 0:
        new_height, new_width = side, min(math.floor(width / height) * side, longest)
    elif new_width == 0:
        new_height, new_width = min(math.floor(height / width) * side, longest), side
    steps = 1 if frames is None else frames
    return _on_grid(new_height, new_width, steps, rule)


def _by_tiles(height: int, width: int, frames: int | None, rule: Resize) -> Resized:
    """Square tiles that cover the picture, and one small copy of it (Phi-4 multimodal).

    Tokens: 16 x 16 of the small copy with a row end each, one separator, every second patch
    of every second row of the tiles that is not padding, and a row end for each such row.
    """
    side = rule.max_pixels
    across, down = -(-width // side), -(-height // side)
    if across * down > rule.max_tokens:
        across, down = tilings.closest(width, height, side, _tilings(rule.max_tokens))
    target_width, target_height = side * across, side * down
    ratio_width, ratio_height = target_width / width, target_height / height
    if ratio_width < ratio_height:
        new_width, new_height = target_width, int(height * ratio_width)
    else:
        new_width, new_height = int(width * ratio_height), target_height
    if min(new_height, target_height) < 10 or min(new_width, target_width) < 10:
        raise RefusedMedia(
            "aspect-ratio",
            where="size",
            got=f"{new_height} x {new_width} pixels after resizing",
            expected="at least 10 along each side",
        )
    patches = side // rule.patch_size
    # patches that are wholly padding are masked; the tokens take every second one that is left
    columns = patches * across - (target_width - new_width) // rule.patch_size
    rows = patches * down - (target_height - new_height) // rule.patch_size
    kept_columns, kept_rows = _every_second(columns, patches), _every_second(rows, patches)
    small = patches // 2
    tokens = small * small + small + 1 + kept_rows * kept_columns + kept_rows
    return Resized(target_height, target_width, (1, patches * down, patches * across), tokens)


def _every_second(count: int, tile: int) -> int:
    """Places 0, 2, 4, ... of each tile among the first ``count``."""
    whole, rest = divmod(count, tile)
    return whole * -(-tile // 2) + -(-rest // 2)


@lru_cache(maxsize=16)
def _tilings(most: int) -> tuple[tuple[int, int], ...]:
    """By number of tiles; among equals in the order of Python's set, as the engine sorts one."""
    found = {
        (i, j)
        for n in range(1, most + 1)
        for i in range(1, n + 1)
        for j in range(1, n + 1)
        if i * j <= most
    }
    return tuple(sorted(found, key=lambda tiles: tiles[0] * tiles[1]))


def _by_canvas(height: int, width: int, frames: int | None, rule: Resize) -> Resized:
    """Square tiles in the picture's shape, and one small copy if they are several (InternVL).

    Tokens: those of every tile, and the tokens around them, which the family marks as image.
    """
    side = rule.max_pixels
    across, down = tilings.closest(width, height, side, tilings.grown(rule.max_tokens))
    tiles = across * down
    patches = side // rule.patch_size
    tokens = (tiles + (tiles > 1)) * (patches // rule.merge_size) ** 2 + 2
    return Resized(side * down, side * across, (1, patches * down, patches * across), tokens)


def _by_best_fit(height: int, width: int, frames: int | None, rule: Resize) -> Resized:
    """The listed arrangement of tiles that loses least, and one small copy (LLaVA-NeXT).

    Tokens: every patch of the small copy, every patch of the tiles that is not padding, and an
    end for each row of those.
    """
    side = rule.max_pixels
    across, down = tilings.best_fit(width, height, side, rule.tilings)
    patches = side // rule.patch_size
    columns, rows = tilings.unpadded(width, height, patches * across, patches * down)
    tokens = patches * patches + rows * columns + rows
    return Resized(side * down, side * across, (1, patches * down, patches * across), tokens)


def _on_grid(height: int, width: int, steps: int, rule: Resize) -> Resized:
    patch, merge = rule.patch_size, rule.merge_size
    rows, columns = height // patch, width // patch
    tokens = steps * (rows // merge) * (columns // merge)
    return Resized(height, width, (steps, rows, columns), tokens)


RULES: dict[str, Callable[[int, int, int | None, Resize], Resized]] = {
    "area": _by_area,
    "area_lifted": _by_area_lifted,
    "area_frames": _by_area_of_frames,
    "fixed": _fixed,
    "longest_edge": _by_longest_edge,
    "patch_budget": _by_patch_budget,
    "tiles": _by_tiles,
    "canvas": _by_canvas,
    "best_fit": _by_best_fit,
}
"""Rule name to function of (height, width, frames, settings)."""

_USED = {
    "area": {"min_pixels", "max_pixels", "temporal_patch_size"},
    "area_lifted": {"min_pixels", "max_pixels", "temporal_patch_size"},
    "area_frames": {"min_pixels", "max_pixels", "temporal_patch_size"},
    "fixed": set[str](),
    "longest_edge": {"max_pixels"},
    "patch_budget": {"max_tokens"},
    "tiles": {"max_tokens"},
    "canvas": {"max_tokens"},
    "best_fit": set[str](),
}


def _rule(family: str, video: bool) -> Resize:
    row = families.get(family)
    rule = row.media.video_resize if video else row.media.image_resize
    if rule is None:
        raise RefusedMedia(
            "kind-not-supported",
            where="family",
            got=f"{'a video' if video else 'an image'} for {row.name}",
            expected="a family that has them",
        )
    return rule


def _with_settings(rule: Resize, **settings: int | None) -> Resize:
    given = {name: value for name, value in settings.items() if value is not None}
    for name, value in given.items():
        fixed = rule.rule in ("fixed", "tiles", "canvas", "best_fit")
        if name not in _USED[rule.rule] and (fixed or name not in ("patch_size", "merge_size")):
            raise RefusedMedia(
                "setting-not-used",
                where=name,
                got=str(value),
                expected="nothing",
                hint=f"the rule {rule.rule!r} of this family has no such setting",
            )
        _at_least_one(value, name, "setting-not-positive")
    changes: dict[str, Any] = {name: int(value) for name, value in given.items()}
    return replace(rule, **changes)


def _positive(value: Any, name: str) -> int:
    if type(value) is int and value > 0:  # the common case, without a call
        return value
    return _at_least_one(value, name, "size-not-positive")


def _frames(value: Any) -> int:
    return _positive(value, "frames")


def _at_least_one(value: Any, name: str, code: str) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = 0
    if number < 1 or isinstance(value, bool):
        raise RefusedMedia(code, where=name, got=repr(value), expected="an integer of at least 1")
    return number


def _check_aspect(height: int, width: int) -> None:
    longer, shorter = (height, width) if height > width else (width, height)
    if shorter < 1 or longer / shorter > _ASPECT:
        raise RefusedMedia(
            "aspect-ratio",
            where="size",
            got=f"{height} x {width}",
            expected=f"a longer side of at most {_ASPECT} times the shorter",
        )
