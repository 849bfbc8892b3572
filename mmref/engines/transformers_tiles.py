"""transformers' processors that cut pictures into tiles: LLaVA, LLaVA-NeXT, InternVL.

Their own functions for the tiles, the tokens and the text, from the installed files.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from types import SimpleNamespace as stub
from typing import Any

import numpy as np

from mmref.engines import source
from mmref.families import Family, Resize, TokenIds

__all__ = ["SIZES", "bind", "inputs"]

_MODELS = "transformers.models"
_NEXT = (f"{_MODELS}.llava_next.processing_llava_next", "LlavaNextProcessor")
_TILES = (f"{_MODELS}.got_ocr2.image_processing_got_ocr2", "GotOcr2ImageProcessor")
_INTERNVL = (f"{_MODELS}.internvl.processing_internvl", "InternVLProcessor")
# of the checkpoints: CLIP's class token is added, and "default" takes it away
_CLASS_TOKEN = 1

SizeFunction = Callable[[int | None, int, int, Resize], tuple[int, ...]]


def bind(processor: Any, row: Family, ids: TokenIds) -> None:
    """Give a processor what these families' methods read.

    Parameters
    ----------
    processor : object
        Stands for the processor; is changed.
    row : Family
        The family.
    ids : TokenIds
        Its tokens' ids.
    """
    name, rule = row.media.processor.partition(":")[2], row.media.image_resize
    if rule is None or name not in ("LlavaProcessor", "LlavaNextProcessor", "InternVLProcessor"):
        return
    if name == "InternVLProcessor":
        texts = dict(row.media.texts)
        processor.start_image_token, processor.end_image_token = (
            texts["vision_start"],
            texts["vision_end"],
        )
        processor.start_image_token_id, processor.end_image_token_id = (
            ids.vision_start,
            ids.vision_end,
        )
        processor.image_seq_length = (rule.max_pixels // rule.patch_size // rule.merge_size) ** 2
        marked = f"{_INTERNVL[1]}.image_token_ids"
        processor.image_token_ids = source.load(_INTERNVL[0], marked)[marked](processor)
        return
    _llava(processor, rule)
    method, module = f"{name}.replace_image_token", row.media.processor.partition(":")[0]
    scope = {
        # the channels come first; only the shape is looked at
        "get_image_size": lambda image: image.shape[-2:],
        "to_numpy_array": np.asarray,
    }
    function = source.load(f"{_MODELS}.{module}", method, scope=scope)[method]
    processor.replace_image_token = types.MethodType(function, processor)


def _llava(processor: Any, rule: Resize) -> None:
    """The settings of the LLaVA line, and LLaVA-NeXT's own functions."""
    side = rule.max_pixels
    processor.patch_size = rule.patch_size
    processor.num_additional_image_tokens = _CLASS_TOKEN
    processor.vision_feature_select_strategy = "default"
    places = [[side * down, side * across] for across, down in rule.tilings]
    processor.image_processor = stub(image_grid_pinpoints=places)
    select = source.load("transformers.image_processing_utils", "select_best_resolution")
    for method in ("_get_number_of_features", "_get_unpadded_features"):
        full = f"{_NEXT[1]}.{method}"
        function = source.load(_NEXT[0], full, scope=select)[full]
        setattr(processor, method, types.MethodType(function, processor))
    processor.select = select["select_best_resolution"]


def inputs(row: Family, images: list[list[int]]) -> dict[str, Any]:
    """What the processor's methods read of its pictures.

    Parameters
    ----------
    row : Family
        The family.
    images : list of list of int
        (height, width) of each.

    Returns
    -------
    dict
        Empty for families that read nothing else.
    """
    rule = row.media.image_resize
    name = row.media.processor.partition(":")[2]
    if rule is None:
        return {}
    if name == "InternVLProcessor":
        count = _patches()
        return {"num_patches": [count(height, width, rule)[1] for height, width in images]}
    if name not in ("LlavaProcessor", "LlavaNextProcessor"):
        return {}
    tile = np.broadcast_to(np.float32(0), (3, rule.max_pixels, rule.max_pixels))
    if name == "LlavaProcessor":
        return {"pixel_values": [tile] * len(images)}
    return {"image_sizes": images, "pixel_values": [[tile]] * len(images)}


def _patches() -> Callable[[int, int, Resize], tuple[tuple[int, int], int]]:
    """(height, width, rule) -> tiles (across, down) and the number of pictures in all."""
    module, name = _TILES
    arrange = source.load(module, "get_all_supported_aspect_ratios")
    canvas = source.load(module, "get_optimal_tiled_canvas", scope=arrange)
    full = f"{name}.get_number_of_image_patches"
    method = source.load(module, full, scope=canvas)[full]

    def count(height: int, width: int, rule: Resize) -> tuple[tuple[int, int], int]:
        size = {"height": rule.max_pixels, "width": rule.max_pixels}
        processor = stub(
            min_patches=1, max_patches=rule.max_tokens, size=size, crop_to_patches=True
        )
        tiles = canvas["get_optimal_tiled_canvas"](
            (height, width), tuple(size.values()), 1, rule.max_tokens
        )
        return tiles, method(processor, height, width)

    return count


def _canvas() -> SizeFunction:
    count = _patches()

    def measure(frames: int | None, height: int, width: int, rule: Resize) -> tuple[int, ...]:
        (across, down), patches = count(height, width, rule)
        side = rule.max_pixels
        each = (side // rule.patch_size // rule.merge_size) ** 2
        return side * down, side * across, patches * each + 2

    return measure


def _best_fit() -> SizeFunction:
    processor = stub()

    def measure(frames: int | None, height: int, width: int, rule: Resize) -> tuple[int, ...]:
        if getattr(processor, "rule", None) is not rule:
            _llava(processor, rule)
            processor.rule = rule
        places, side = processor.image_processor.image_grid_pinpoints, rule.max_pixels
        found = processor.select([height, width], places)
        tokens = processor._get_number_of_features(height, width, side, side)
        return *found, tokens - _CLASS_TOKEN

    return measure


SIZES: dict[str, Callable[[], SizeFunction]] = {"canvas": _canvas, "best_fit": _best_fit}
"""Rule to a maker of its size function, as `transformers_tokens.size_function` returns one."""
