"""Hypothesis strategies for prompts: the one generator of cases.

`cases` makes prompts the reference accepts, `refused_cases` prompts it refuses.
`mmref diff` and the suite draw from here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mmref import families as family_table
from mmref.case import Case, Scalar
from mmref.errors import MissingExtra, UnknownName
from mmref.families import Family

try:
    from hypothesis import strategies as st
except ImportError as error:  # pragma: no cover - exercised in an environment without it
    raise MissingExtra("hypothesis", "testing") from error

__all__ = ["REFUSED_KINDS", "cases", "refused_cases"]

Array = npt.NDArray[Any]
Draw = Callable[[st.SearchStrategy[Any]], Any]

IMAGE, VIDEO, VISION_START, VISION_END, VIDEO_START, VIDEO_END = 10, 11, 12, 13, 14, 15
PAD, EOS = 0, 2
_TEXT = (20, 29)
# float32 products of these part from float64 ones, from other orders, or from rounding
_SECONDS = (1.0, 0.5, 2.0, 0.25, 0.0, 0.04, 0.7, 1.5, 2 / 3, 1 / 3, 5 / 3, 1.4)
_RATES = (2.0, 1.0, 4.0, 25.0, 2.5)


def cases(
    *,
    family: str | Sequence[str] | None = None,
    subject: str = "positions",
    max_rows: int = 4,
    min_images: int = 0,
    min_videos: int = 0,
) -> st.SearchStrategy[Case]:
    """Prompts that the reference accepts.

    Parameters
    ----------
    family : str or sequence of str, optional
        Families to draw from. Default: all.
    subject : str
        Only ``"positions"``.
    max_rows : int
        Largest batch.
    min_images, min_videos : int
        Items that the first row holds at least.

    Returns
    -------
    SearchStrategy
        Of `mmref.case.Case`: several images and videos in mixed order, adjacent
        media, missing boundaries, batches, padding on either side and within, pad
        ids in text, pad equal to eos, fractional seconds, text only, rows without
        tokens, and tokens generated after the prompt. Shrinks to one text token.

    Raises
    ------
    UnknownName
        If a family or the subject is not known.
    ValueError
        If a number is out of range.

    Examples
    --------
    >>> from hypothesis import find
    >>> find(cases(family="qwen2_vl"), lambda case: True).arrays["input_ids"].tolist()
    [[20]]
    """
    if subject != "positions":
        raise UnknownName("subject", subject, ["positions"])
    if max_rows < 1 or min_images < 0 or min_videos < 0:
        raise ValueError("max_rows: at least 1; min_images and min_videos: at least 0")
    names = family_table.names() if family is None else family
    rows = [family_table.get(name) for name in ([names] if isinstance(names, str) else names)]
    if not rows:
        raise ValueError("family: expected at least one name")
    return _cases(rows, max_rows, min_images, min_videos)


@st.composite
def _cases(
    draw: Draw, rows: Sequence[Family], max_rows: int, min_images: int, min_videos: int
) -> Case:
    family = draw(st.sampled_from(rows))
    pad = draw(st.sampled_from([PAD, PAD, PAD, EOS]))
    merge = draw(st.sampled_from([2, 2, 1, 3]))
    specials: list[int] = []
    if draw(st.sampled_from([False, False, True])):
        specials = [pad, EOS, VISION_START, VISION_END]
    prompt = _Prompt(family, merge, specials)
    lines = []
    for row in range(draw(st.integers(1, max_rows))):
        needed = ["image"] * min_images + ["video"] * min_videos if row == 0 else []
        kinds = [*needed, *draw(st.lists(st.sampled_from(["text", "image", "video"]), max_size=4))]
        line: list[int] = []
        for kind in draw(st.permutations(kinds)) if len(needed) > 1 else kinds:
            line += prompt.piece(draw, kind)
        if not kinds and draw(st.sampled_from([True] * 7 + [False])):
            line = [_TEXT[0]]
        lines.append(line)
    return _assemble(draw, prompt, lines, pad)


class _Prompt:
    """The pieces of a prompt and the grids they use up."""

    def __init__(self, family: Family, merge: int, specials: list[int]) -> None:
        self.family = family
        self.merge = merge
        self.images: list[list[int]] = []
        self.videos: list[list[int]] = []
        self.text = st.integers(*_TEXT)
        if specials:
            self.text = st.one_of(self.text, st.sampled_from(specials))

    def piece(self, draw: Draw, kind: str) -> list[int]:
        if kind == "text":
            return list(draw(st.lists(self.text, min_size=1, max_size=4)))
        if kind == "image":
            return self._block(draw, [self._image(draw) for _ in range(self._adjacent(draw))])
        if self.family.video_frames == "whole":
            return self._block(draw, [self._whole_video(draw) for _ in range(self._adjacent(draw))])
        return self._split_video(draw)

    def _adjacent(self, draw: Draw) -> int:
        return int(draw(st.sampled_from([1] * 9 + [2])))

    def _block(self, draw: Draw, runs: list[list[int]]) -> list[int]:
        before = draw(st.sampled_from([[VISION_START]] * 4 + [[]]))
        after = draw(st.sampled_from([[VISION_END]] * 4 + [[]]))
        return [*before, *(token for run in runs for token in run), *after]

    def _size(self, draw: Draw) -> tuple[int, int]:
        return draw(st.integers(1, 4)), draw(st.integers(1, 4))

    def _image(self, draw: Draw) -> list[int]:
        h, w = self._size(draw)
        self.images.append([1, h * self.merge, w * self.merge])
        return [IMAGE] * (h * w)

    def _whole_video(self, draw: Draw) -> list[int]:
        t = draw(st.integers(1, 6))
        h, w = self._size(draw)
        self.videos.append([t, h * self.merge, w * self.merge])
        return [VIDEO] * (t * h * w)

    def _split_video(self, draw: Draw) -> list[int]:
        t = draw(st.integers(1, 4))
        h, w = self._size(draw)
        self.videos.append([t, h * self.merge, w * self.merge])
        markers = self.family.media_kinds == "by_video_markers"
        placeholder = IMAGE if markers else VIDEO
        tokens = [VIDEO_START] if markers else []
        stamped = draw(st.booleans())
        for _ in range(t):
            if stamped:
                tokens += draw(st.lists(self.text, min_size=1, max_size=2))
            tokens += self._block(draw, [[placeholder] * (h * w)])
        return [*tokens, VIDEO_END] if markers else tokens


def _assemble(draw: Draw, prompt: _Prompt, lines: list[list[int]], pad: int) -> Case:
    """Pad the rows to one length, with the arrays and scalars that go with them."""
    family = prompt.family
    masked_lines: list[list[tuple[int, int]]] = [[(token, 1) for token in line] for line in lines]
    filler = st.just(pad)
    if draw(st.sampled_from([False, False, False, True])):
        filler = st.sampled_from([pad, IMAGE, VIDEO, VISION_START, _TEXT[0]])
    if draw(st.sampled_from([False, False, False, True])):  # masks with holes
        for line in masked_lines:
            for _ in range(draw(st.integers(0, 3))):
                line.insert(draw(st.integers(0, len(line))), (draw(filler), 0))
    length = max(1, *(len(line) for line in masked_lines))
    length += draw(st.sampled_from([0, 0, 0, 1, 2]))
    for line in masked_lines:
        missing = length - len(line)
        left = draw(st.sampled_from([missing, 0, missing // 2]))
        padding = [(draw(filler), 0) for _ in range(missing)]
        line[:] = padding[:left] + line + padding[left:]
    ids = np.array([[token for token, _ in line] for line in masked_lines], np.int64)
    mask = np.array([[kept for _, kept in line] for line in masked_lines], np.int64)
    arrays: dict[str, Array] = {"input_ids": ids}
    if not mask.all() or draw(st.booleans()):
        arrays["attention_mask"] = mask.astype(bool) if draw(st.booleans()) else mask
    if prompt.images:
        arrays["image_grid_thw"] = np.array(prompt.images, np.int64)
    if prompt.videos:
        arrays["video_grid_thw"] = np.array(prompt.videos, np.int64)
    scalars: dict[str, Scalar] = {}
    if prompt.merge != family.spatial_merge_size:
        scalars["spatial_merge_size"] = prompt.merge
    if family.time == "seconds":
        rate = draw(st.sampled_from(_RATES))
        if rate != family.tokens_per_second:
            scalars["tokens_per_second"] = rate
        if prompt.videos and draw(st.booleans()):
            value = st.one_of(st.sampled_from(_SECONDS), st.floats(0, 8, width=32))
            count = len(prompt.videos)
            seconds = np.array(draw(st.lists(value, min_size=count, max_size=count)))
            as_array = draw(st.booleans())
            arrays["second_per_grid_ts"] = seconds.astype(np.float32) if as_array else seconds
    steps = draw(st.sampled_from([0, 1, 2]))
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


def refused_cases(
    *, kind: str | None = None, family: str | Sequence[str] | None = None
) -> st.SearchStrategy[Case]:
    """Prompts that the reference refuses, each made from an accepted one by one fault.

    Parameters
    ----------
    kind : str, optional
        A name of `REFUSED_KINDS`, the code of the refusal. Default: any.
    family : str or sequence of str, optional
        Families to draw from. Default: all.

    Returns
    -------
    SearchStrategy
        Of `mmref.case.Case`.

    Raises
    ------
    UnknownName
        If the kind or a family is not known.
    ValueError
        If no family of those given can have that fault.

    Examples
    --------
    >>> from hypothesis import find
    >>> case = find(refused_cases(kind="unused-item", family="qwen2_vl"), lambda case: True)
    >>> len(case.arrays["image_grid_thw"])
    1
    """
    names = family_table.names() if family is None else family
    rows = [family_table.get(name) for name in ([names] if isinstance(names, str) else names)]
    if kind is not None and kind not in _FAULTS:
        raise UnknownName("kind", kind, _FAULTS)
    strategies = []
    for name, fault in _FAULTS.items():
        fitting = [row.name for row in rows if fault.time in (None, row.time)]
        if fitting and kind in (None, name):
            base = cases(family=fitting, min_images=fault.images, min_videos=fault.videos)
            strategies.append(_spoiled(base, fault.spoil))
    if not strategies:
        raise ValueError(f"kind: {kind} cannot happen to {', '.join(row.name for row in rows)}")
    return st.one_of(strategies)


@st.composite
def _spoiled(
    draw: Draw, base: st.SearchStrategy[Case], spoil: Callable[[Draw, Case], Case]
) -> Case:
    return spoil(draw, draw(base))


class _Fault:
    """One way to spoil a case, and what the case must hold for it."""

    def __init__(
        self,
        spoil: Callable[[Draw, Case], Case],
        *,
        images: int = 0,
        videos: int = 0,
        time: str | None = None,
    ) -> None:
        self.spoil = spoil
        self.images = images
        self.videos = videos
        self.time = time


def _with(case: Case, name: str, array: Array | None) -> Case:
    arrays = {key: value for key, value in case.arrays.items() if key != name}
    if array is not None:
        arrays[name] = array
    return replace(case, arrays=arrays)


def _grid_value(values: st.SearchStrategy[int], axes: Sequence[int] = (0, 1, 2)) -> Any:
    def spoil(draw: Draw, case: Case) -> Case:
        grid = case.arrays["image_grid_thw"].copy()
        item = draw(st.integers(0, len(grid) - 1))
        grid[item, draw(st.sampled_from(axes))] = draw(values)
        return _with(case, "image_grid_thw", grid)

    return spoil


def _not_divisible(draw: Draw, case: Case) -> Case:
    grid = case.arrays["image_grid_thw"].copy()
    merge = int(case.scalars.get("spatial_merge_size", 2))  # type: ignore[arg-type]
    if merge == 1:  # everything is divisible by 1
        grid[:, 1:] *= 2
        case = case.with_scalars(spatial_merge_size=2)
        if "video_grid_thw" in case.arrays:
            videos = case.arrays["video_grid_thw"] * np.array([1, 2, 2])
            case = _with(case, "video_grid_thw", videos)
    grid[draw(st.integers(0, len(grid) - 1)), draw(st.sampled_from([1, 2]))] += 1
    return _with(case, "image_grid_thw", grid)


def _grid_shape(draw: Draw, case: Case) -> Case:
    grid = case.arrays["image_grid_thw"]
    shapes = [grid[0], grid[:, :2], grid[None], grid.ravel()]
    return _with(case, "image_grid_thw", draw(st.sampled_from(shapes)).copy())


def _grid_dtype(draw: Draw, case: Case) -> Case:
    part = draw(st.sampled_from([0.0, 0.5]))
    return _with(case, "image_grid_thw", case.arrays["image_grid_thw"] + part)


def _extra_item(draw: Draw, case: Case) -> Case:
    merge = int(case.scalars.get("spatial_merge_size", 2))  # type: ignore[arg-type]
    name = draw(st.sampled_from(["image_grid_thw", "video_grid_thw"]))
    grid = case.arrays.get(name, np.empty((0, 3), np.int64))
    return _with(case, name, np.vstack([grid, [[1, merge, merge]]]))


def _no_items(draw: Draw, case: Case) -> Case:
    return _with(case, "image_grid_thw", None)


def _larger_item(draw: Draw, case: Case) -> Case:
    merge = int(case.scalars.get("spatial_merge_size", 2))  # type: ignore[arg-type]
    grid = case.arrays["image_grid_thw"].copy()
    grid[-1, draw(st.sampled_from([1, 2]))] += merge * draw(st.integers(1, 3))
    return _with(case, "image_grid_thw", grid)


def _smaller_item(draw: Draw, case: Case) -> Case:
    """One more placeholder of the kind of the last one, and a column more of nothing."""
    ids = case.arrays["input_ids"]
    mask = case.arrays.get("attention_mask")
    kept = np.ones(ids.shape, bool) if mask is None else np.asarray(mask) != 0
    rows, columns = np.nonzero((ids == IMAGE) & kept)
    row, column = int(rows[-1]), int(columns[-1])
    pad = (case.token_ids or {})["pad"]
    longer = np.full((ids.shape[0], ids.shape[1] + 1), pad, np.int64)
    longer_mask = np.zeros(longer.shape, np.int64)
    longer[:, :-1], longer_mask[:, :-1] = ids, kept
    longer[row, column + 2 :], longer_mask[row, column + 2 :] = (
        ids[row, column + 1 :],
        kept[row, column + 1 :],
    )
    longer[row, column + 1], longer_mask[row, column + 1] = IMAGE, 1
    return _with(_with(case, "input_ids", longer), "attention_mask", longer_mask)


def _mask_shape(draw: Draw, case: Case) -> Case:
    batch, length = case.arrays["input_ids"].shape
    shapes = [(batch, length + 1), (batch + 1, length), (batch, length, 1)]
    return _with(case, "attention_mask", np.ones(draw(st.sampled_from(shapes)), np.int64))


def _mask_value(draw: Draw, case: Case) -> Case:
    mask = np.ones(case.arrays["input_ids"].shape, np.int64)
    given = case.arrays.get("attention_mask")
    if given is not None:
        mask[:] = given
    row = draw(st.integers(0, mask.shape[0] - 1))
    mask[row, draw(st.integers(0, mask.shape[1] - 1))] = draw(st.sampled_from([2, -1]))
    return _with(case, "attention_mask", mask)


def _seconds_length(draw: Draw, case: Case) -> Case:
    count = len(case.arrays["video_grid_thw"]) + draw(st.sampled_from([-1, 1]))
    return _with(case, "second_per_grid_ts", np.ones(count, np.float32))


def _seconds_value(value: st.SearchStrategy[float]) -> Any:
    def spoil(draw: Draw, case: Case) -> Case:
        seconds = np.ones(len(case.arrays["video_grid_thw"]), np.float32)
        seconds[draw(st.integers(0, len(seconds) - 1))] = draw(value)
        return _with(case, "second_per_grid_ts", seconds)

    return spoil


def _long_video(draw: Draw, case: Case) -> Case:
    """A video of two grid steps with so many seconds that the second is out of reach."""
    merge = int(case.scalars.get("spatial_merge_size", 2))  # type: ignore[arg-type]
    arrays: dict[str, Array] = {
        "input_ids": np.array([[VISION_START, VIDEO, VIDEO, VISION_END]]),
        "video_grid_thw": np.array([[2, merge, merge]]),
        "second_per_grid_ts": np.array([draw(st.sampled_from([1e10, 1e30]))], np.float32),
    }
    return replace(case, arrays=arrays)


def _seconds_not_used(draw: Draw, case: Case) -> Case:
    return _with(case, "second_per_grid_ts", np.ones(len(case.arrays["video_grid_thw"])))


def _scalar(name: str, values: Sequence[Scalar]) -> Any:
    def spoil(draw: Draw, case: Case) -> Case:
        return case.with_scalars(**{name: draw(st.sampled_from(values))})

    return spoil


def _empty_ids(draw: Draw, case: Case) -> Case:
    shape = draw(st.sampled_from([(1, 0), (0, 4)]))
    return replace(case, arrays={"input_ids": np.empty(shape, np.int64)})


def _ids_rank(draw: Draw, case: Case) -> Case:
    return _with(case, "input_ids", case.arrays["input_ids"][None])


def _ids_dtype(draw: Draw, case: Case) -> Case:
    part = draw(st.sampled_from([0.0, 0.5]))
    return _with(case, "input_ids", case.arrays["input_ids"] + part)


def _equal_ids(draw: Draw, case: Case) -> Case:
    return replace(case, token_ids={**(case.token_ids or {}), "video": IMAGE})


_FAULTS: dict[str, _Fault] = {
    "unused-item": _Fault(_extra_item),
    "placeholder-without-item": _Fault(_no_items, images=1),
    "run-shorter-than-item": _Fault(_larger_item, images=1),
    "run-longer-than-items": _Fault(_smaller_item, images=1),
    "image-with-frames": _Fault(_grid_value(st.integers(2, 3), (0,)), images=1),
    "grid-not-positive": _Fault(_grid_value(st.sampled_from([0, -1, -2])), images=1),
    "grid-not-divisible": _Fault(_not_divisible, images=1),
    "grid-too-large": _Fault(_grid_value(st.sampled_from([2**31, 2**62])), images=1),
    "grid-shape": _Fault(_grid_shape, images=1),
    "grid-dtype": _Fault(_grid_dtype, images=1),
    "mask-shape": _Fault(_mask_shape),
    "mask-value": _Fault(_mask_value),
    "seconds-length": _Fault(_seconds_length, videos=1, time="seconds"),
    "seconds-value": _Fault(
        _seconds_value(st.sampled_from([-1.0, np.nan, np.inf])), videos=1, time="seconds"
    ),
    "seconds-not-used": _Fault(_seconds_not_used, videos=1, time="index"),
    "position-too-large": _Fault(_long_video, time="seconds"),
    "rate-not-positive": _Fault(_scalar("tokens_per_second", [0.0, -2.0]), time="seconds"),
    "rate-not-used": _Fault(_scalar("tokens_per_second", [2.0]), time="index"),
    "merge-not-positive": _Fault(_scalar("spatial_merge_size", [-2, -1, 0])),
    "input-ids-empty": _Fault(_empty_ids),
    "input-ids-rank": _Fault(_ids_rank),
    "input-ids-dtype": _Fault(_ids_dtype),
    "token-ids-equal": _Fault(_equal_ids),
}

REFUSED_KINDS: tuple[str, ...] = tuple(_FAULTS)
"""The faults of `refused_cases`, by the code of the refusal they lead to."""
