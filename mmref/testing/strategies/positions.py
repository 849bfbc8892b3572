"""Prompts of the positions subject that the reference accepts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from mmref.case import Case, Scalar
from mmref.families import Family

__all__ = [
    "IMAGE",
    "TEXT",
    "VIDEO",
    "VIDEO_END",
    "VIDEO_START",
    "VISION_END",
    "VISION_START",
    "Draw",
    "accepted",
    "turn",
]

Array = npt.NDArray[Any]
Draw = Callable[[st.SearchStrategy[Any]], Any]

IMAGE, VIDEO, VISION_START, VISION_END, VIDEO_START, VIDEO_END = 10, 11, 12, 13, 14, 15
PAD, EOS = 0, 2
TEXT = (20, 29)
# float32 products of these part from float64 ones, from other orders, or from rounding
_SECONDS = (1.0, 0.5, 2.0, 0.25, 0.0, 0.04, 0.7, 1.5, 2 / 3, 1 / 3, 5 / 3, 1.4)
_RATES = (2.0, 1.0, 4.0, 25.0, 2.5)
# at 25 a second, the first or second step of these is a whole number in float32 and less in float64
_CLOSE = (1.16, 0.58, 1.14, 2.3, 2.32)

# A campaign draws millions of cases: strategies are made once, and drawn from as seldom as will do
_BOOLEANS = st.booleans()
_ONE_IN_THREE = st.sampled_from([False, False, True])
_ONE_IN_FOUR = st.sampled_from([False, False, False, True])
_ONE_IN_EIGHT = st.sampled_from([False] * 7 + [True])
_PADS = st.sampled_from([PAD, PAD, PAD, EOS])
_MERGES = st.sampled_from([2, 2, 1, 3])
_KINDS = st.lists(st.sampled_from(["text", "image", "video"]), max_size=4)
_ANOTHER = st.sampled_from([False, True, True])
_ADJACENT = st.sampled_from([1] * 9 + [2])
_SIDES = sorted(((h, w) for h in range(1, 5) for w in range(1, 5)), key=sum)
_SIZES = st.sampled_from(_SIDES)
_FRAMES, _SPLIT_FRAMES = st.integers(1, 6), st.integers(1, 4)
_WORDS, _STAMPS = st.integers(1, 4), st.integers(1, 2)
# what stands around an item: four times in five a start, as often an end
_AROUND = st.sampled_from([(True, True)] * 16 + [(True, False), (False, True)] * 4 + [(False,) * 2])
_STEPS = st.sampled_from([0, 1, 2])
_LONGER = st.sampled_from([0, 0, 0, 1, 2])
_HOLES = st.integers(0, 3)


@st.composite
def accepted(
    draw: Draw, rows: Sequence[Family], max_rows: int, min_images: int, min_videos: int
) -> Case:
    """Draw one case; see `mmref.testing.strategies.cases`."""
    family = draw(st.sampled_from(rows))
    pad = draw(_PADS)
    merge = draw(_MERGES)
    specials: list[int] = []
    if draw(_ONE_IN_THREE):
        specials = [pad, EOS, VISION_START, VISION_END]
    prompt = _Prompt(family, merge, specials)
    lines: list[list[int]] = []
    # a row at a time, so that a smaller case is found by leaving one out
    while not lines or (len(lines) < max_rows and draw(_ANOTHER)):
        needed = ["image"] * min_images + ["video"] * min_videos if not lines else []
        kinds = [*needed, *draw(_KINDS)]
        line: list[int] = []
        for kind in draw(st.permutations(kinds)) if len(needed) > 1 else kinds:
            line += prompt.piece(draw, kind)
        if not kinds and not draw(_ONE_IN_EIGHT):
            line = [TEXT[0]]
        lines.append(line)
    return _assemble(draw, prompt, lines, pad)


@st.composite
def turn(draw: Draw, family: Family, merge: int) -> dict[str, Array]:
    """One row without padding, as what follows another: its arrays alone.

    Parameters
    ----------
    family : Family
        The row's family.
    merge : int
        ``spatial_merge_size``.

    Returns
    -------
    SearchStrategy
        Of dict: ``input_ids``, and grids where there are media.
    """
    prompt = _Prompt(family, merge, [])
    line = [token for kind in draw(_KINDS) for token in prompt.piece(draw, kind)] or [TEXT[0]]
    arrays: dict[str, Array] = {"input_ids": np.array([line], np.int64)}
    if prompt.images:
        arrays["image_grid_thw"] = np.array(prompt.images, np.int64)
    if prompt.videos:
        arrays["video_grid_thw"] = np.array(prompt.videos, np.int64)
    return arrays


class _Prompt:
    """The pieces of a prompt and the grids they use up."""

    def __init__(self, family: Family, merge: int, specials: list[int]) -> None:
        self.family = family
        self.merge = merge
        self.images: list[list[int]] = []
        self.videos: list[list[int]] = []
        self.specials = specials

    def piece(self, draw: Draw, kind: str) -> list[int]:
        if kind == "text":
            return self._text(draw, _WORDS)
        if kind == "image":
            return self._block(draw, [self._image(draw) for _ in range(self._adjacent(draw))])
        if self.family.video_frames == "whole":
            return self._block(draw, [self._whole_video(draw) for _ in range(self._adjacent(draw))])
        return self._split_video(draw)

    def _text(self, draw: Draw, words: st.SearchStrategy[int]) -> list[int]:
        """Which text it is changes nothing; special tokens within it may."""
        text = list(range(TEXT[0], TEXT[0] + draw(words)))
        if self.specials:
            text[-1] = draw(st.sampled_from([text[-1], *self.specials]))
        return text

    def _adjacent(self, draw: Draw) -> int:
        return int(draw(_ADJACENT))

    def _block(self, draw: Draw, runs: list[list[int]]) -> list[int]:
        tokens = [token for run in runs for token in run]
        before, after = draw(_AROUND)
        return [VISION_START] * before + tokens + [VISION_END] * after

    def _size(self, draw: Draw) -> tuple[int, int]:
        return draw(_SIZES)  # type: ignore[no-any-return]

    def _image(self, draw: Draw) -> list[int]:
        h, w = self._size(draw)
        self.images.append([1, h * self.merge, w * self.merge])
        return [IMAGE] * (h * w)

    def _whole_video(self, draw: Draw) -> list[int]:
        t = draw(_FRAMES)
        h, w = self._size(draw)
        self.videos.append([t, h * self.merge, w * self.merge])
        return [VIDEO] * (t * h * w)

    def _split_video(self, draw: Draw) -> list[int]:
        t = draw(_SPLIT_FRAMES)
        h, w = self._size(draw)
        self.videos.append([t, h * self.merge, w * self.merge])
        markers = self.family.media_kinds == "by_video_markers"
        placeholder = IMAGE if markers else VIDEO
        tokens = [VIDEO_START] if markers else []
        stamped = draw(_BOOLEANS)
        for _ in range(t):
            if stamped:
                tokens += self._text(draw, _STAMPS)
            tokens += self._block(draw, [[placeholder] * (h * w)])
        return [*tokens, VIDEO_END] if markers else tokens


def _assemble(draw: Draw, prompt: _Prompt, lines: list[list[int]], pad: int) -> Case:
    """Pad the rows to one length, with the arrays and scalars that go with them."""
    family = prompt.family
    masked_lines: list[list[tuple[int, int]]] = [[(token, 1) for token in line] for line in lines]
    fillers = [pad]
    if draw(_ONE_IN_FOUR):
        fillers += [IMAGE, VIDEO, VISION_START, TEXT[0]]
    filler = st.sampled_from(fillers)
    if draw(_ONE_IN_FOUR):  # masks with holes
        for line in masked_lines:
            for _ in range(draw(_HOLES)):
                line.insert(draw(st.integers(0, len(line))), (draw(filler), 0))
    length = max(1, *(len(line) for line in masked_lines))
    length += draw(_LONGER)
    for line in masked_lines:
        missing = length - len(line)
        if not missing:
            continue
        left = draw(st.sampled_from([missing, 0, missing // 2]))
        one = len(fillers) == 1
        padding = [(pad if one else draw(filler), 0) for _ in range(missing)]
        line[:] = padding[:left] + line + padding[left:]
    ids = np.array([[token for token, _ in line] for line in masked_lines], np.int64)
    mask = np.array([[kept for _, kept in line] for line in masked_lines], np.int64)
    arrays: dict[str, Array] = {"input_ids": ids}
    if not mask.all() or draw(_BOOLEANS):
        arrays["attention_mask"] = mask.astype(bool) if draw(_BOOLEANS) else mask
    if prompt.images:
        arrays["image_grid_thw"] = np.array(prompt.images, np.int64)
    if prompt.videos:
        arrays["video_grid_thw"] = np.array(prompt.videos, np.int64)
    scalars: dict[str, Scalar] = {}
    if prompt.merge != family.spatial_merge_size:
        scalars["spatial_merge_size"] = prompt.merge
    if family.time == "seconds":
        close = bool(prompt.videos) and draw(_ONE_IN_THREE)
        rate = 25.0 if close else draw(st.sampled_from(_RATES))
        if rate != family.tokens_per_second:
            scalars["tokens_per_second"] = rate
        if close or (prompt.videos and draw(_BOOLEANS)):
            value = st.one_of(st.sampled_from(_SECONDS), st.floats(0, 8, width=32))
            value = st.sampled_from(_CLOSE) if close else value
            count = len(prompt.videos)
            seconds = np.array(draw(st.lists(value, min_size=count, max_size=count)))
            as_array = draw(_BOOLEANS)
            arrays["second_per_grid_ts"] = seconds.astype(np.float32) if as_array else seconds
    steps = draw(_STEPS)
    if steps:
        scalars["decode_steps"] = steps
    return Case(family.name, arrays, scalars, _token_ids(family, pad))


def _token_ids(family: Family, pad: int) -> dict[str, int]:
    ids = {
        "image": IMAGE,
        "video": VIDEO,
        "vision_start": VISION_START,
        "vision_end": VISION_END,
        "pad": pad,
        "eos": EOS,
    }
    if family.media_kinds == "by_video_markers":
        ids |= {"video_start": VIDEO_START, "video_end": VIDEO_END}
    return ids
