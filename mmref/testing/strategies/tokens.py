"""Prompts of the tokens subject: text with placeholders, and media sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from mmref import families
from mmref.case import Case, Scalar
from mmref.families import Family
from mmref.probes import pictures

__all__ = ["FAULTS", "accepted", "refused"]

Draw = Callable[[st.SearchStrategy[Any]], Any]

_RATES = (24.0, 1.0, 2.0, 30.0, 29.97, 8.0, 0.5)
_WORDS = st.text(alphabet="abz 0\n<|>é", min_size=1, max_size=6)
# sides at, below and above halves of the factors 28, 32 and 48, where roundings part
_CORNER_SIDES = (14, 16, 41, 42, 43, 48, 56, 69, 70, 71, 80, 98, 112, 126, 144, 240, 400, 448, 449)


def accepted(names: Sequence[str]) -> st.SearchStrategy[Case]:
    """Cases that the reference accepts.

    Parameters
    ----------
    names : sequence of str
        Families of ``families.names("tokens")``.

    Returns
    -------
    SearchStrategy
        Of `mmref.case.Case`: up to two prompts with up to four pieces each, or one with up to
        eight items; media with and without their boundary tokens, boundary tokens alone, text
        inside a block.
    """
    return _accepted([families.get(name) for name in names])


def refused(names: Sequence[str]) -> st.SearchStrategy[Case]:
    """Cases that the reference refuses, each made from an accepted one by one fault.

    Parameters
    ----------
    names : sequence of str
        Families of ``families.names("tokens")``.

    Returns
    -------
    SearchStrategy
        Of `mmref.case.Case`.
    """
    rows = [families.get(name) for name in names]
    made = []
    for fault, (possible, _) in FAULTS.items():
        able = [row for row in rows if possible(row)]
        if able:
            made.append(_refused(able, fault))
    return st.one_of(made)


@st.composite
def _accepted(draw: Draw, rows: Sequence[Family]) -> Case:
    # more of those that a second engine can be asked about
    row = draw(st.sampled_from([*rows, *(row for row in rows if row.genai_type)]))
    other = pictures.model_type(row.name) is not None  # the engine has a processor for it
    media = row.media
    kinds = ["text"]
    if media.image_form != "none":
        kinds.append("image")
    if media.audio_form != "none":
        kinds += ["audio", "text" if media.image_form != "none" else "audio"]
    if media.video_form != "none":
        kinds.append("video")
    if other and "vision_start" in dict(media.texts):
        kinds += ["image", "mark", "filled"]
    if media.image_form == "rows":
        kinds.append("turn")
    images: list[list[int]] = []
    videos: list[list[int]] = []
    clips: list[list[int]] = []
    sounding = row.positions == "omni" and draw(st.booleans())
    texts: list[str] = []

    def write(kind: str) -> str:
        if kind == "audio" or (kind == "video" and sounding):
            clips.append([draw(_clip_of(row))])
        if kind == "audio":
            return _around(draw, row)
        return _piece(draw, row, kind, images, videos)

    for _ in range(draw(st.sampled_from([0, 1, 1, 1, 1, 1, 2, 2]))):
        parts = []
        for kind in draw(st.lists(st.sampled_from(kinds), max_size=4)):
            parts.append(write(kind))
        texts.append("".join(parts))
    if not texts:  # many items, some of them next to each other
        items = [kind for kind in dict.fromkeys(kinds) if kind in ("image", "video", "audio")]
        count = draw(st.integers(0, 8))
        for kind in draw(st.lists(st.sampled_from(items), min_size=count, max_size=count)):
            texts.append(write(kind) + draw(st.sampled_from(["", "a"])))
        texts = ["".join(texts)]
    case = _case(draw, row, texts, images, videos)
    arrays, scalars = dict(case.arrays), dict(case.scalars)
    if clips:
        arrays["audio_sizes"] = np.array(clips, np.int64)
    if sounding:
        scalars["use_audio_in_video"] = 1
    return Case(row.name, arrays, scalars, subject="tokens")


def _clip_of(row: Family) -> st.SearchStrategy[int]:
    """Samples that make at least one token, around the corners of the framing."""
    whole = st.integers(3, 130)  # frames
    return st.one_of(
        st.integers(641, 20_000),
        st.builds(lambda frames, more: 160 * frames + 161 + more, whole, st.integers(-1, 1)),
    )


def _around(draw: Draw, row: Family) -> str:
    words = dict(row.media.texts)
    if row.media.boundary != "prompt" or draw(st.integers(0, 6)) == 0:
        return words["audio"]
    return f"{words['audio_start']}{words['audio']}{words['audio_end']}"


def _piece(
    draw: Draw, row: Family, kind: str, images: list[list[int]], videos: list[list[int]]
) -> str:
    media = row.media
    words = dict(media.texts)
    start, end = words.get("vision_start", ""), words.get("vision_end", "")
    if kind == "text":
        return str(draw(_WORDS))
    if kind == "turn":
        return "[INST]"
    if kind == "mark" and media.image_form == "paragraph":
        return end  # its start is the placeholder
    if kind == "mark":
        return str(draw(st.sampled_from([start, end])))
    if kind == "video":
        videos.append([draw(st.integers(2, 5)), *_sides(draw)])
        if row.media_kinds == "by_video_markers":
            return f"{words['video_start']}{words['video']}{words['video_end']}"
        return _bounded(draw, row, words["video"])
    images.append(_sides(draw))
    if media.image_form == "paragraph":
        return start
    if kind == "filled":
        return f"{start}{draw(_WORDS)}{words['image']}{draw(_WORDS)}{end}"
    return _bounded(draw, row, words["image"])


def _bounded(draw: Draw, row: Family, placeholder: str) -> str:
    words = dict(row.media.texts)
    if row.media.boundary != "prompt" or "vision_start" not in words:
        return placeholder
    before = draw(st.sampled_from([words["vision_start"]] * 6 + [""]))
    after = draw(st.sampled_from([words["vision_end"]] * 6 + [""]))
    return f"{before}{placeholder}{after}"


def _sides(draw: Draw) -> list[int]:
    side = st.one_of(st.integers(20, 300), st.sampled_from(_CORNER_SIDES))
    return [draw(side), draw(side)]


def _case(
    draw: Draw, row: Family, texts: list[str], images: list[list[int]], videos: list[list[int]]
) -> Case:
    arrays = {}
    if images:
        arrays["image_sizes"] = np.array(images, np.int64)
    if videos:
        arrays["video_sizes"] = np.array(videos, np.int64)
    scalars: dict[str, Scalar] = {"texts": texts}
    if videos and draw(st.booleans()):
        scalars["video_fps"] = draw(st.sampled_from(_RATES))
    return Case(row.name, arrays, scalars, subject="tokens")


def _placeholder(row: Family, kind: str = "") -> str:
    kind = kind or ("audio" if row.media.image_form == "none" else "image")
    if kind == "image" and row.media.image_form == "paragraph":
        return row.media.text("vision_start")
    return row.media.text(kind)


def _with_image(case: Case, size: list[int], text: str = "") -> Case:
    """A further image at the end, with its placeholder if a text is given."""
    sizes = case.arrays.get("image_sizes", np.empty((0, 2), np.int64))
    arrays = {**case.arrays, "image_sizes": np.concatenate([sizes, np.array([size], np.int64)])}
    return _changed(case, arrays, text)


def _changed(case: Case, arrays: dict[str, Any], text: str) -> Case:
    texts = [*case.texts[:-1], case.texts[-1] + text]
    return Case(case.family, arrays, {**case.scalars, "texts": texts}, subject="tokens")


def _stray(draw: Draw, row: Family, case: Case) -> Case:
    return _changed(case, dict(case.arrays), _placeholder(row))


def _unused(draw: Draw, row: Family, case: Case) -> Case:
    if row.media.image_form == "none":
        return _with_clip(case, 20_000)
    return _with_image(case, [56, 56])


def _with_clip(case: Case, samples: int, text: str = "") -> Case:
    sizes = case.arrays.get("audio_sizes", np.empty((0, 1), np.int64))
    arrays = {**case.arrays, "audio_sizes": np.concatenate([sizes, [[samples]]])}
    return _changed(case, arrays, text)


def _empty_clip(draw: Draw, row: Family, case: Case) -> Case:
    return _with_clip(case, 0, row.media.text("audio"))


def _thin(draw: Draw, row: Family, case: Case) -> Case:
    size = draw(st.sampled_from([[1, 401], [401, 1], [3, 700]]))
    return _with_image(case, size, _placeholder(row))


def _empty(draw: Draw, row: Family, case: Case) -> Case:
    size = draw(st.sampled_from([[0, 56], [56, 0], [0, 0]]))
    return _with_image(case, size, _placeholder(row))


def _short(draw: Draw, row: Family, case: Case) -> Case:
    return _with_video(case, [1, 56, 56], _video(row))


def _with_video(case: Case, size: list[int], text: str) -> Case:
    sizes = case.arrays.get("video_sizes", np.empty((0, 3), np.int64))
    arrays = {**case.arrays, "video_sizes": np.concatenate([sizes, np.array([size], np.int64)])}
    return _changed(case, arrays, text)


def _video(row: Family) -> str:
    if row.media_kinds != "by_video_markers":
        return row.media.text("video")
    return "".join(row.media.text(name) for name in ("video_start", "video", "video_end"))


def _image_in_markers(draw: Draw, row: Family, case: Case) -> Case:
    start, end = row.media.text("video_start"), row.media.text("video_end")
    return _with_image(case, [56, 56], f"{start}{_placeholder(row)}{end}")


def _video_without_markers(draw: Draw, row: Family, case: Case) -> Case:
    return _with_video(case, [2, 56, 56], row.media.text("video"))


def _rule(row: Family) -> str:
    return row.media.image_resize.rule if row.media.image_resize is not None else ""


def _markers(row: Family) -> bool:
    return row.media_kinds == "by_video_markers"


FAULTS: dict[str, tuple[Callable[[Family], bool], Callable[[Draw, Family, Case], Case]]] = {
    "more-placeholders-than-items": (lambda row: True, _stray),
    "fewer-placeholders-than-items": (lambda row: True, _unused),
    "aspect-ratio": (lambda row: _rule(row) == "area", _thin),
    "resized-to-nothing": (
        lambda row: _rule(row) == "longest_edge",
        lambda draw, row, case: _with_image(case, [1, 4000], _placeholder(row)),
    ),
    "size-not-positive": (lambda row: _rule(row) not in ("fixed", ""), _empty),
    "too-few-frames": (lambda row: row.media.video_form.startswith("seconds"), _short),
    "nested-placeholder": (_markers, _image_in_markers),
    "clip-without-tokens": (
        lambda row: row.media.audio_form not in ("none", "paragraph"),
        _empty_clip,
    ),
    "boundary-missing": (_markers, _video_without_markers),
}
"""Code of the refusal to (families that can have it, how it is made)."""


@st.composite
def _refused(draw: Draw, rows: Sequence[Family], fault: str) -> Case:
    row = draw(st.sampled_from(rows))
    case = draw(_accepted([row]))
    return FAULTS[fault][1](draw, row, case)
