"""What replaces the placeholder of an item, piece by piece, for ids and for text alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from mmref import vision
from mmref.arrays import to_numpy
from mmref.audio import interleave
from mmref.errors import RefusedMedia
from mmref.families import Family, Resize

__all__ = ["Item", "Piece", "items_of", "pieces"]

Kind = Literal["image", "video", "audio"]
_DEFAULT_RATE = 24.0  # frames a second where nobody says; transformers' processors assume it too
_LONGEST = 1e9  # seconds
_GRID_RULES = ("area", "area_lifted", "area_frames", "patch_budget", "longest_edge")


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of one token, or text between such runs.

    Parameters
    ----------
    name : str
        A field of `mmref.families.TokenIds`; empty for text.
    count : int
        How often the token stands there.
    text : str
        What is written, for text.
    of_item : bool
        Whether these tokens belong to the item: they have its token type.
    frame : int
        Frame of the item.
    """

    name: str
    count: int = 1
    text: str = ""
    of_item: bool = False
    frame: int = 0


@dataclass(frozen=True, slots=True)
class Item:
    """One image, video or clip, measured.

    Parameters
    ----------
    kind : {"image", "video", "audio"}
        What it is.
    grid : tuple of int
        Patches (t, h, w) before merging; (frames, 1, 1) of a clip.
    tokens : int
        Tokens that belong to it.
    seconds : tuple of float
        The time of every sampled frame of a video, for the forms that write it.
    step : float or None
        Seconds of a grid step of a video, where they are given.
    sound : int
        Tokens of the sound that comes with a video and stands among its own.
    """

    kind: Kind
    grid: tuple[int, int, int]
    tokens: int
    seconds: tuple[float, ...] = ()
    step: float | None = None
    sound: int = 0


def items_of(
    row: Family,
    kind: Kind,
    sizes: Any,
    grids: Any,
    frame_seconds: Sequence[Sequence[float]] | None = None,
    settings: dict[str, int] | None = None,
) -> list[Item]:
    """Items from sizes or from grids.

    Parameters
    ----------
    row : Family
        The family.
    kind : {"image", "video"}
        Which.
    sizes : sequence of tuple or None
        (height, width) of images, (frames, height, width) of videos.
    grids : array_like or None
        Rows (t, h, w).
    frame_seconds : sequence of sequence of float, optional
        For each video the time of every frame.
    settings : dict, optional
        Settings of `mmref.vision.resize`.

    Returns
    -------
    list of Item
        In order.

    Raises
    ------
    RefusedMedia
        If a size or grid is not one.
    """
    rule = row.media.image_resize if kind == "image" else row.media.video_resize
    has_sizes, has_grids = sizes is not None and len(sizes), grids is not None and len(grids)
    if has_sizes and has_grids:
        raise RefusedMedia(
            "sizes-and-grids", where=f"{kind}s", got="sizes and grids", expected="one of them"
        )
    if not has_sizes and not has_grids:
        return []
    if rule is None:
        raise RefusedMedia(
            "kind-not-supported",
            where="family",
            got=f"{kind}s for {row.name}",
            expected="a family that has them",
            hint="" if row.media.placeholders else "its prompts hold no placeholders",
        )
    found = []
    for number, entry in enumerate(sizes if has_sizes else _grid_rows(grids, kind)):
        where = f"{kind} {number}"
        if has_sizes:
            grid, tokens, frames = _measure(row, kind, entry, where, settings or {})
        else:
            grid, tokens = _counted(rule, entry, where)
            frames = grid[0] * rule.temporal_patch_size
        seconds: tuple[float, ...] = ()
        if kind == "video" and row.media.video_form != "run":
            seconds = _seconds(frame_seconds, number, frames)
            if -(-len(seconds) // rule.temporal_patch_size) != grid[0]:
                raise _wrong_length(number, len(seconds), frames)
        found.append(Item(kind, grid, tokens, seconds))
    return found


def pieces(row: Family, item: Item) -> list[Piece]:
    """What the placeholder of an item is replaced by.

    Parameters
    ----------
    row : Family
        The family.
    item : Item
        The item.

    Returns
    -------
    list of Piece
        In order.
    """
    if item.kind == "image":
        return _image(row, item)
    if item.kind == "audio":
        return _clip(row, item)
    return _sounding(row, item) if item.sound else _video(row, item)


def _clip(row: Family, item: Item) -> list[Piece]:
    run = Piece("audio", item.tokens, of_item=True)
    if row.media.audio_form == "run":
        return [run]
    wrapped = [Piece("audio_start"), run, Piece("audio_end")]
    if row.media.audio_form == "wrapped":
        return wrapped
    blank = Piece("", text="\n\n")
    return [blank, *wrapped, blank]


def _sounding(row: Family, item: Item) -> list[Piece]:
    """A video with its own sound: runs of both kinds between the tokens around audio."""
    assert item.step is not None
    of_audio = interleave(item.grid, item.sound, family=row.name, seconds=item.step)
    bounds = [0, *(np.flatnonzero(np.diff(of_audio)) + 1).tolist(), len(of_audio)]
    runs = [
        Piece("audio" if of_audio[start] else "video", stop - start, of_item=True)
        for start, stop in pairwise(bounds)
    ]
    return [Piece("audio_start"), *runs, Piece("audio_end")]


def _image(row: Family, item: Item) -> list[Piece]:
    form = row.media.image_form
    run = Piece("image", item.tokens, of_item=True)
    if form == "run":
        return [run]
    if form == "wrapped":
        return [Piece("vision_start"), run, Piece("vision_end")]
    if form == "enclosed":  # the tokens around the run are the image's own
        start, end = (Piece(name, of_item=True) for name in ("vision_start", "vision_end"))
        return [start, Piece("image", item.tokens - 2, of_item=True), end]
    if form == "paragraph":
        blank = Piece("", text="\n\n")
        return [blank, Piece("vision_start"), run, Piece("vision_end"), blank]
    merge = row.media.image_resize.merge_size  # type: ignore[union-attr]  # items have a rule
    rows, columns = item.grid[1] // merge, item.grid[2] // merge
    line = [Piece("image", columns, of_item=True), Piece("row_break", of_item=True)]
    return [*(line * rows)[:-1], Piece("vision_end", of_item=True)]


def _video(row: Family, item: Item) -> list[Piece]:
    form = row.media.video_form
    steps = item.grid[0]
    each = item.tokens // steps
    if form == "run":
        return [Piece("video", item.tokens, of_item=True)]
    found: list[Piece] = []
    rule = row.media.video_resize
    for step, second in enumerate(_step_seconds(form, item, rule)):  # type: ignore[arg-type]
        token = "image" if row.media_kinds == "by_video_markers" else "video"
        block = [
            Piece("vision_start", frame=step),
            Piece(token, each, of_item=True, frame=step),
            Piece("vision_end", frame=step),
        ]
        if form == "clock":
            clock = f"{int(second // 60):02d}:{int(second % 60):02d} "
            found += [Piece("", text=clock if step == 0 else f" {clock}"), *block]
            continue
        pattern = row.media.seconds_format
        time = Piece("", text=pattern.format(int(second) if "d}" in pattern else second))
        found += [time, *block] if form == "seconds_first" else [*block, time]
    return found


def _step_seconds(form: str, item: Item, rule: Resize) -> list[float]:
    """The time written for each grid step, from those of the frames in it."""
    steps, seconds, size = item.grid[0], list(item.seconds), rule.temporal_patch_size
    if form == "clock":
        return seconds[:steps]
    if form == "seconds_first":  # the middle between the first and the last frame of the step
        seconds += [seconds[-1]] * (-len(seconds) % size)
        return [(seconds[at] + seconds[at + size - 1]) / 2 for at in range(0, steps * size, size)]
    chosen = seconds[::2][:steps]  # every second frame, whatever the size of a step
    return chosen + [chosen[-1]] * (steps - len(chosen))


def _measure(
    row: Family, kind: Kind, entry: Any, where: str, settings: dict[str, int]
) -> tuple[tuple[int, int, int], int, int]:
    wanted = 2 if kind == "image" else 3
    if not isinstance(entry, (tuple, list, np.ndarray)) or len(entry) != wanted:
        raise RefusedMedia(
            "size-shape",
            where=where,
            got=repr(entry),
            expected="(height, width)" if kind == "image" else "(frames, height, width)",
        )
    frames = entry[0] if kind == "video" else None
    try:
        resized = vision.resize(
            entry[-2],
            entry[-1],
            family=row.name,
            frames=frames,
            **settings,
        )
    except RefusedMedia as error:
        raise RefusedMedia(
            error.code,
            where=f"{where}, {error.where}",
            got=error.got,
            expected=error.expected,
            hint=error.hint,
        ) from None
    return resized.grid_thw, resized.tokens, int(frames or 1)


def _grid_rows(grids: Any, kind: Kind) -> list[list[int]]:
    array = to_numpy(grids, f"{kind}_grid_thw")
    if array.ndim != 2 or array.shape[1] != 3 or array.dtype.kind not in "iu":
        raise RefusedMedia(
            "grid-shape",
            where=f"{kind}_grid_thw",
            got=f"shape {array.shape}, dtype {array.dtype}",
            expected="integers of shape (items, 3)",
        )
    return list(array.tolist())


def _counted(rule: Resize, entry: list[int], where: str) -> tuple[tuple[int, int, int], int]:
    t, h, w = entry
    if rule.rule not in _GRID_RULES:
        raise RefusedMedia(
            "grid-not-used",
            where=where,
            got=f"a grid for the rule {rule.rule!r}",
            expected="a size",
            hint="the tokens of this family do not follow from a grid",
        )
    merge = rule.merge_size
    if min(t, h, w) < 1 or h % merge or w % merge:
        raise RefusedMedia(
            "grid-value",
            where=where,
            got=f"grid ({t}, {h}, {w})",
            expected=f"positive values, height and width multiples of {merge}",
        )
    rows, columns = h // merge, w // merge
    breaks = rows if rule.rule == "longest_edge" else 0
    return (t, h, w), t * rows * columns + breaks


def _seconds(
    given: Sequence[Sequence[float]] | None, number: int, frames: int
) -> tuple[float, ...]:
    if given is None:
        return tuple(frame / _DEFAULT_RATE for frame in range(frames))
    if number >= len(given):
        raise RefusedMedia(
            "seconds-length",
            where="frame_seconds",
            got=f"{len(given)} entries",
            expected="one for each video",
        )
    seconds = tuple(float(second) for second in given[number])
    if not all(0 <= second < _LONGEST for second in seconds):
        raise RefusedMedia(
            "seconds-value",
            where=f"frame_seconds[{number}]",
            got=str(next(second for second in seconds if not 0 <= second < _LONGEST)),
            expected="a finite number of seconds, not negative",
        )
    return seconds


def _wrong_length(number: int, got: int, frames: int) -> RefusedMedia:
    return RefusedMedia(
        "seconds-length",
        where=f"frame_seconds[{number}]",
        got=f"{got} values",
        expected=f"{frames}, one for each frame",
    )
