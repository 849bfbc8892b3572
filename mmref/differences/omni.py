"""Where transformers parts from the reference in the positions of prompts with audio."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mmref.case import Array, Case, Scalar
from mmref.differences.base import Difference

__all__ = ["DIFFERENCES", "omni_case"]

_FILE = "get_rope_index of qwen2_5_omni and qwen3_omni_moe"
_SMALL_IDS = {
    "image": 10,
    "video": 11,
    "vision_start": 12,
    "vision_end": 13,
    "audio": 14,
    "audio_start": 15,
    "audio_end": 16,
    "pad": 0,
}


def omni_case(
    ids: list[list[int]],
    family: str = "qwen2_5_omni",
    *,
    images: list[list[int]] | None = None,
    videos: list[list[int]] | None = None,
    seconds: list[float] | None = None,
    lengths: list[int] | None = None,
    mask: list[list[int]] | None = None,
    in_video: bool = False,
) -> Case:
    """A case of positions with audio as one writes it by hand.

    Parameters
    ----------
    ids : list of list of int
        Rows of tokens: 10 image, 11 video, 12 vision_start, 13 vision_end, 14 audio,
        15 audio_start, 16 audio_end, 0 pad, from 20 on text.
    family : str
        A family of ``families.names("omni")``.
    images, videos : list of list of int, optional
        Grids.
    seconds : list of float, optional
        Of each video.
    lengths : list of int, optional
        Frames of each clip.
    mask : list of list of int, optional
        0 and 1; default: all ones.
    in_video : bool
        Whether videos come with their own sound.

    Returns
    -------
    Case
        The case.
    """
    arrays: dict[str, Array] = {"input_ids": np.array(ids, np.int64)}
    arrays["attention_mask"] = np.ones_like(arrays["input_ids"]) if mask is None else np.array(mask)
    if images is not None:
        arrays["image_grid_thw"] = np.array(images, np.int64)
    if videos is not None:
        arrays["video_grid_thw"] = np.array(videos, np.int64)
    if seconds is not None:
        arrays["second_per_grid_ts"] = np.array(seconds, np.float32)
    if lengths is not None:
        arrays["audio_lengths"] = np.array(lengths, np.int64)
    scalars: dict[str, Scalar] = {"use_audio_in_video": 1} if in_video else {}
    return Case(family, arrays, scalars, _SMALL_IDS, "omni")


def _without_mask(request: Any, spans: Any, scalars: Mapping[str, Scalar]) -> bool:
    return bool(not request.masked and (not request.media or request.row.audio_in_video == "merge"))


def _empty_row(request: Any, spans: Any, scalars: Mapping[str, Scalar]) -> bool:
    return bool(request.media and any(not segments for segments in request.rows))


def _difference(identifier: str, **columns: Any) -> Difference:
    shared = {"engine": "transformers", "since": "5.24", "subject": "omni", "source": _FILE}
    return Difference(id=identifier, **{**shared, **columns})


# 6.5 frames a second, two a grid step: the fourth step is at 3 * 2 / 6.5 * 13, which is 12 in
# one precision and a little beside it in the other
_STEPS_AND_SOUND = [11, *[14] * 4, 11, *[14] * 4, 11, *[14] * 4, 11, 14]

DIFFERENCES: tuple[Difference, ...] = (
    _difference(
        "transformers-omni-padding-is-one",
        meaning="Masked places hold 1 in Qwen2.5-Omni, and in Qwen3-Omni where there is no grid.",
        consequence="Positions of padding differ; harmless while the mask is applied.",
        case=omni_case([[0, 20]], mask=[[0, 1]]),
        sets={"padding": "one"},
    ),
    _difference(
        "transformers-omni-delta-over-padding",
        meaning="Without any grid the largest position of a row is taken over its padding too.",
        consequence="The delta of a padded row of one token is one too large.",
        case=omni_case([[0, 20]], mask=[[0, 1]]),
        sets={"deltas": "over_padding"},
    ),
    _difference(
        "transformers-omni-order-recomputed",
        meaning="The order of video and audio tokens is computed again in float32, where the "
        "processor wrote the prompt in float64.",
        consequence="At some frame rates video tokens get positions of audio and as many audio "
        "tokens those of video.",
        case=omni_case(
            [[12, 15, *_STEPS_AND_SOUND, 16, 13]],
            "qwen3_omni_moe",
            videos=[[4, 2, 2]],
            seconds=[2 / 6.5],
            lengths=[100],
            in_video=True,
        ),
        sets={"order": "recomputed"},
    ),
    _difference(
        "transformers-omni-resumes-after-last-piece",
        meaning="After a video with its own sound text resumes after the piece that was placed "
        "last, not after the largest position.",
        consequence="Text overlaps the video where the sound ends before it, or its picture is "
        "wide.",
        case=omni_case(
            [[12, 15, 11, 11, 11, 14, 16, 13]],
            videos=[[1, 2, 6]],
            seconds=[1.0],
            lengths=[4],
            in_video=True,
        ),
        sets={"resume": "last_piece"},
    ),
    _difference(
        "transformers-omni-needs-a-mask",
        meaning="A prompt without a mask is refused where there is no grid, and by Qwen3-Omni "
        "always.",
        consequence="TypeError or AttributeError on a prompt that needs no mask.",
        case=Case("qwen3_omni_moe", {"input_ids": np.array([[20]])}, {}, _SMALL_IDS, "omni"),
        refuses=_without_mask,
    ),
    _difference(
        "transformers-omni-placeholders-not-counted",
        meaning="Placeholders are not counted: an item is laid over as many tokens as it makes.",
        consequence="A truncated prompt is answered where the tokens behind the block make up "
        "the length, and positions of an item fall on text.",
        case=omni_case([[12, 10, 13, 20]], images=[[1, 2, 4]]),
        on_refused=frozenset({"omni-count"}),
    ),
    _difference(
        "transformers-omni-empty-row",
        meaning="A row that is all padding is refused in a batch with grids.",
        consequence="RuntimeError where other rows would have an answer.",
        case=omni_case([[12, 10, 13], [0, 0, 0]], images=[[1, 2, 2]], mask=[[1, 1, 1], [0, 0, 0]]),
        refuses=_empty_row,
    ),
)
