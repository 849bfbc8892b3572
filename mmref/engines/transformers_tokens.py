"""transformers' processors without tokenizer files, weights or torchvision.

Sizes by the processor's own size function, text by its own replacement
functions and ``get_text_with_replacements``, types by its own
``create_mm_token_type_ids``; only the tokenizer is a stand-in.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace as stub  # any object with the values that a method reads
from typing import Any

import numpy as np
import numpy.typing as npt

from mmref import families
from mmref.case import Case
from mmref.engines import source, transformers_clips, transformers_tiles
from mmref.errors import EngineFault
from mmref.families import Family, Resize
from mmref.probes import vocabulary

__all__ = ["TokenProcessor", "size_function"]

Array = npt.NDArray[Any]
# (frames, height, width, rule) -> height, width; for the rule "tiles" with the tokens behind
SizeFunction = Callable[[int | None, int, int, Resize], tuple[int, ...]]
_MODELS = "transformers.models"
_INHERITED = ("get_text_with_replacements", "validate_inputs")
_METHODS = (
    *("replace_image_token", "replace_video_token", "create_mm_token_type_ids"),
    *("replace_frame_token_id", "_calculate_timestamps"),
    *transformers_clips.METHODS,
)


class TokenProcessor:
    """The processor of a family.

    Parameters
    ----------
    row : Family
        A family of ``families.names("tokens")``.
    """

    def __init__(self, row: Family) -> None:
        from transformers.processing_utils import ProcessorMixin

        self.row = row
        self.words = vocabulary.of(row)
        ids, media = self.words.token_ids, row.media
        texts = dict(media.texts)
        module, _, name = media.processor.partition(":")
        self._names = (f"{_MODELS}.{module}", name)
        boi = "vision_start" if media.image_form == "paragraph" else "image"
        image_ids = [ids.image, ids.row_break, ids.vision_end]
        values: dict[str, Any] = {
            "image_token": texts.get(boi),
            "image_token_id": ids.image,
            "video_token": texts.get("video"),
            "video_token_id": ids.video,
            "audio_token": texts.get("audio"),
            "image_token_ids": image_ids if media.image_form == "rows" else [ids.image],
            "video_token_ids": [ids.video],
            "audio_token_ids": [None],
            "video_start_id": ids.video_start,
            "video_end_id": ids.video_end,
            "vision_start_token": texts.get("vision_start"),
            "vision_end_token": texts.get("vision_end"),
            "boi_token": texts.get("vision_start"),
            "eoi_token": texts.get("vision_end"),
            "image_break_token": texts.get("row_break"),
            "image_end_token": texts.get("vision_end"),
            "all_special_multimodal_tokens": list(texts.values()),
        }
        self.self = stub(**values)
        for kind in ("image", "video"):
            rule = getattr(media, f"{kind}_resize")
            if rule is not None:
                sizes = {
                    "merge_size": rule.merge_size,
                    "temporal_patch_size": rule.temporal_patch_size,
                }
                setattr(self.self, f"{kind}_processor", stub(**sizes))
        if media.image_form == "rows":
            self.self.patch_size = media.image_resize.patch_size  # type: ignore[union-attr]
            self.self.spatial_merge_size = media.image_resize.merge_size  # type: ignore[union-attr]
        self._bind(ProcessorMixin)
        if media.image_form == "paragraph":
            fill = texts["image"] * media.image_resize.max_tokens  # type: ignore[union-attr]
            # written as the constructor does, which cannot run without a tokenizer
            self.self.full_image_sequence = (
                f"\n\n{texts['vision_start']}{fill}{texts['vision_end']}\n\n"
            )
        if media.audio_form != "none":
            transformers_clips.bind_clips(self.self, row, ids)
        transformers_tiles.bind(self.self, row, ids)
        self._image = size_function(row, "image") if media.image_resize is not None else None
        self._video = size_function(row, "video") if media.video_resize is not None else None

    def _bind(self, mixin: Any) -> None:
        import torch

        module, name = self._names
        scope = {"torch": torch}
        beside = ("_get_feat_extract_output_lengths",) if self.row.positions == "omni" else ()
        for method in _METHODS:
            try:
                function = source.load(module, *beside, f"{name}.{method}", scope=scope)[
                    f"{name}.{method}"
                ]
            except EngineFault:
                function = getattr(mixin, method, None)  # inherited
            if function is not None:
                setattr(self.self, method, types.MethodType(function, self.self))
        for method in _INHERITED:
            setattr(self.self, method, types.MethodType(getattr(mixin, method), self.self))

    def answer(self, case: Case) -> dict[str, Array]:
        """What the processor makes of a case of the subject ``tokens``.

        Parameters
        ----------
        case : Case
            The case.

        Returns
        -------
        dict
            Arrays of an outcome.
        """
        from transformers.processing_utils import OmniModalProcessorMixin
        from transformers.video_utils import VideoMetadata

        images = case.arrays.get("image_sizes", np.empty((0, 2), np.int64)).tolist()
        videos = case.arrays.get("video_sizes", np.empty((0, 3), np.int64)).tolist()
        texts = list(case.texts)
        pictures = [np.broadcast_to(np.uint8(0), (h, w, 3)) for h, w in images]
        films = [np.broadcast_to(np.uint8(0), (t, h, w, 3)) for t, h, w in videos]
        # without videos there is no sound of theirs, as in the processor's own call
        sounding = bool(case.scalars.get("use_audio_in_video")) and bool(films)
        clips = [
            np.broadcast_to(np.float32(0), size)
            for size in case.arrays.get("audio_sizes", np.empty((0, 1), np.int64)).tolist()
        ]
        alone, of_films = clips, None
        if sounding:
            sources = transformers_clips.slots(texts, self.self)
            alone = [clip for clip, film in zip(clips, sources, strict=True) if film is None]
            clips, of_films = OmniModalProcessorMixin._resolve_audio_from_video(
                self.self, films, audio=clips, audio_from_video_indices=sources
            )
        self.self.validate_inputs(
            images=pictures or None, text=texts, videos=films or None, audio=alone or None
        )
        heard, sounds = transformers_clips.process_clips(self.self, self.row, clips)
        if of_films is not None:
            sounds = [text for at, text in enumerate(sounds) if at not in of_films]
        fps = case.scalars.get("video_fps")
        inputs: dict[str, Any] = {
            "image_grid_thw": [self._measure("image", None, h, w) for h, w in images],
            "video_grid_thw": [self._measure("video", t, h, w) for t, h, w in videos],
            "video_metadata": [
                VideoMetadata(t, fps=fps, frames_indices=list(range(t))) for t, _, _ in videos
            ],
        }
        grids = {name: np.array([g[:3] for g in inputs[name]]) for name in list(inputs)[:2]}
        sizes = [self._sizes(g) for g in inputs["image_grid_thw"]]
        per_image = [g[3] for g in inputs["image_grid_thw"]]
        film_tokens = [g[3] // g[0] for g in inputs["video_grid_thw"]]
        inputs |= grids | {
            "num_crops": [0] * len(images),
            "image_sizes": sizes,
            "num_img_tokens": per_image,
            "num_soft_tokens_per_image": per_image,
            "num_soft_tokens_per_video": film_tokens,
        }
        inputs |= transformers_tiles.inputs(self.row, images)
        if self.row.positions == "omni" and videos:
            shown = transformers_clips.processed_films(
                self.self, grids["video_grid_thw"], fps, heard, of_films
            )
        else:
            shown = [self.self.replace_video_token(inputs, at) for at in range(len(videos))]
        replaced = self.self.get_text_with_replacements(
            texts,
            [self.self.replace_image_token(inputs, at) for at in range(len(images))],
            shown,
            sounds,
        )[0]
        rows = [self.words.encode(text) for text in replaced]
        kinds = self.self.create_mm_token_type_ids(rows)
        return {
            "tokens": np.array([token for row in rows for token in row], np.int64),
            "lengths": np.array([len(row) for row in rows], np.int64),
            "token_types": np.array([kind for row in kinds for kind in row], np.int64),
            **{name: grid for name, grid in grids.items() if len(grid)},
        }

    def _measure(self, kind: str, frames: int | None, height: int, width: int) -> list[int]:
        rule = getattr(self.row.media, f"{kind}_resize")
        function = self._image if kind == "image" else self._video
        assert function is not None
        found = function(frames, height, width, rule)
        if rule.rule == "longest_edge" and min(found) < 1:
            raise IndexError("a side of zero patches")  # what replace_image_token comes to
        grid = [found[0] // rule.patch_size, found[1] // rule.patch_size]
        steps = -(-(frames or 1) // rule.temporal_patch_size)
        tokens = steps * grid[0] * grid[1] // rule.merge_size**2
        if len(found) == 3:
            tokens = found[2]
        return [steps, *grid, tokens]

    def _sizes(self, grid: list[int]) -> tuple[int, int]:
        side = self.row.media.image_resize.patch_size  # type: ignore[union-attr]
        return grid[1] * side, grid[2] * side


def size_function(row: Family, kind: str) -> SizeFunction:
    """The size function that a family's processor calls, from the installed files.

    Parameters
    ----------
    row : Family
        The family.
    kind : {"image", "video"}
        Of which processor.

    Returns
    -------
    callable
        (frames or None, height, width, rule) -> (height, width); for tiles also the tokens.
    """
    rule = row.media.image_resize if kind == "image" else row.media.video_resize
    name = rule.rule  # type: ignore[union-attr]
    if name == "fixed":
        return lambda frames, height, width, rule: (rule.max_pixels, rule.max_pixels)
    if name == "patch_budget":
        function = _load("gemma4.image_processing_gemma4", "get_aspect_ratio_preserving_size")
        return lambda frames, height, width, rule: function(
            height, width, rule.patch_size, rule.max_tokens * rule.merge_size**2, rule.merge_size
        )
    if name == "longest_edge":
        return partial(_pixtral, _pixtral_function())
    if name == "tiles":
        return partial(_tiles, _tiles_function())
    if name in transformers_tiles.SIZES:
        return transformers_tiles.SIZES[name]()
    folder = row.media.processor.partition(".")[0]
    if folder.endswith(("omni", "omni_moe")):
        folder = "qwen2_vl"
    if kind == "image" and folder.startswith("qwen"):
        folder = "qwen2_vl"
    if kind == "video" and folder == "qwen2_5_vl":
        folder = "qwen2_vl"
    function = _load(f"{folder}.{kind}_processing_{folder}", "smart_resize")
    return partial(_frames if name == "area_frames" else _area, function)


def _load(module: str, name: str, scope: dict[str, Any] | None = None) -> Any:
    return source.load(f"{_MODELS}.{module}", name, scope=scope)[name]


def _area(
    function: Any, frames: int | None, height: int, width: int, rule: Resize
) -> tuple[int, ...]:
    factor = rule.patch_size * rule.merge_size
    limits = {"min_pixels": rule.min_pixels, "max_pixels": rule.max_pixels}
    found: tuple[int, int] = function(height, width, factor, **limits)
    return found


def _frames(
    function: Any, frames: int | None, height: int, width: int, rule: Resize
) -> tuple[int, ...]:
    found: tuple[int, int] = function(
        num_frames=rule.temporal_patch_size if frames is None else frames,
        height=height,
        width=width,
        temporal_factor=rule.temporal_patch_size,
        factor=rule.patch_size * rule.merge_size,
        min_pixels=rule.min_pixels,
        max_pixels=rule.max_pixels,
    )
    return found


def _pixtral_function() -> Any:
    module = "pixtral.image_processing_pixtral"
    scope: dict[str, Any] = {"get_image_size": lambda image, _: image}
    scope["_num_image_tokens"] = _load(module, "_num_image_tokens")
    return _load(module, "get_resize_output_image_size", scope)


def _pixtral(
    function: Any, frames: int | None, height: int, width: int, rule: Resize
) -> tuple[int, ...]:
    side = rule.patch_size * rule.merge_size
    found: tuple[int, int] = function((height, width), rule.max_pixels, side)
    return found


class _NoPixels:
    """The two calls of torchvision, for pictures that have only a shape."""

    @staticmethod
    def resize(image: Any, size: list[int]) -> Any:
        return stub(shape=(3, *size))

    @staticmethod
    def pad(image: Any, padding: list[int], fill: list[int]) -> Any:
        _, height, width = image.shape
        return stub(shape=(3, height + padding[3], width + padding[2]))


def _tiles_function() -> Any:
    import torch

    name = "Phi4MultimodalImageProcessor"
    names = [f"{name}.{method}" for method in ("dynamic_preprocess", "find_closest_aspect_ratio")]
    module = f"{_MODELS}.phi4_multimodal.image_processing_phi4_multimodal"
    methods = source.load(module, *names, scope={"torch": torch, "tvF": _NoPixels})
    processor = stub()
    closest = types.MethodType(methods[names[1]], processor)
    processor.find_closest_aspect_ratio = closest
    return types.MethodType(methods[names[0]], processor)


def _tiles(
    function: Any, frames: int | None, height: int, width: int, rule: Resize
) -> tuple[int, ...]:
    """Sizes by the engine; the tokens of its mask counted as its ``_preprocess`` does."""
    side, patch = rule.max_pixels, rule.patch_size
    patches = side // patch
    image = stub(shape=(3, height, width), device="cpu")
    resized, mask = function(image, side, patch, patches, max_num=rule.max_tokens)
    down, across = mask.shape[0] // patches, mask.shape[1] // patches
    halved = mask.reshape(down, patches, across, patches)[:, ::2, :, ::2]
    halved = halved.reshape(down * (patches // 2), -1)
    tokens = 256 + 1 + int(halved.sum()) + int(halved[:, 0].sum()) + 16
    return resized.shape[1], resized.shape[2], tokens


def answer(case: Case, processors: dict[str, TokenProcessor]) -> dict[str, Array]:
    """The answer to a case, with processors that are kept from call to call.

    Parameters
    ----------
    case : Case
        A case of the subject ``tokens``.
    processors : dict
        Family name to processor; is added to.

    Returns
    -------
    dict
        Arrays of an outcome.
    """
    row = families.get(case.family)
    if row.name not in processors:
        processors[row.name] = TokenProcessor(row)
    return processors[row.name].answer(case)
