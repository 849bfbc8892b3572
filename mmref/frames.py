"""Which frames of a video a processor takes, and how many seconds a grid step lasts.

The frames decide the grid's first number, the timestamps in the prompt, and for families
that count seconds the time axis of every position. Everything here is arithmetic on a few
numbers; no frame is touched.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mmref import families
from mmref.errors import RefusedMedia
from mmref.families import Family
from mmref.families.media import Sampling

__all__ = ["REFUSALS", "Sampled", "sample"]

REFUSALS: dict[str, str] = {
    "frames-not-sampled": "a family whose processor takes every frame that it is given",
    "frames-value": "a number of frames, of frames a second or of seconds that is none",
    "frames-both": "a number of frames and a number of frames a second",
    "frames-too-many": "more frames than the video has, or none",
    "frames-setting": "a limit that the family's rule does not have",
}
"""Every way a request can be refused, by the error's ``code``."""

# seconds up to which so many frames a second are taken (GLM-4.6V)
_BY_LENGTH = ((30, 3.0), (300, 1.0))
_LONGEST_RATE = 0.5
_LANES = 8  # numbers that torch.arange makes at once


class Sampled(NamedTuple):
    """The frames that are taken.

    Parameters
    ----------
    indices : numpy.ndarray
        int64, shape (frames,). The last may stand twice, where the family wants an even number.
    seconds : numpy.ndarray
        float64, shape (frames,): when each of them is shown.
    second_per_grid : float
        How long one grid step lasts: what ``second_per_grid_ts`` holds for the video.
    """

    indices: npt.NDArray[np.int64]
    seconds: npt.NDArray[np.float64]
    second_per_grid: float


def sample(
    frames: int,
    fps: float,
    *,
    family: str,
    target_fps: float | None = None,
    count: int | None = None,
    min_frames: int | None = None,
    max_frames: int | None = None,
    duration: float | None = None,
) -> Sampled:
    """The frames of a video that a family's processor takes.

    Parameters
    ----------
    frames : int
        Frames of the video.
    fps : float
        Its frames a second.
    family : str
        A family whose row says how it samples, or an alias.
    target_fps : float, optional
        Frames a second to take. Default: the processor's.
    count : int, optional
        Frames to take, in place of ``target_fps``; for the Qwen line.
    min_frames, max_frames : int, optional
        Limits, for the Qwen line. Default: the processor's.
    duration : float, optional
        Seconds of the video, for the GLM line. Default: what the frames say, rounded.

    Returns
    -------
    Sampled
        Indices, their seconds, and the seconds of a grid step.

    Raises
    ------
    RefusedMedia
        One of `REFUSALS`.
    UnknownName
        If the family is not known.

    Notes
    -----
    Source: ``sample_frames`` of the video processors of transformers 5.24, and
    ``second_per_grid_ts`` of Qwen2.5-VL's processor. By steps, indices are cut from the float32
    of ``torch.arange``, as there: from about 17,000 frames on, one of them may be the frame
    before or after what exact arithmetic says.

    Examples
    --------
    A video of ten frames at five a second, of which two a second are taken:

    >>> s = sample(10, 5.0, family="qwen3_vl")
    >>> s.indices.tolist(), s.seconds.tolist()
    ([0, 3, 6, 9], [0.0, 0.6, 1.2, 1.8])
    >>> sample(10, 5.0, family="qwen2_5_vl", target_fps=2).second_per_grid
    1.0
    """
    row = families.get(family)
    rule = _rule(row)
    total = _whole(frames, "frames")
    rate = _number(fps, "fps")
    if target_fps is not None and count is not None:
        got = f"target_fps {target_fps} and count {count}"
        raise RefusedMedia("frames-both", where="count", got=got, expected="one of them")
    qwen = rule.rule in ("by_step", "spread")
    for name, value in (("count", count), ("min_frames", min_frames), ("max_frames", max_frames)):
        if value is not None and not qwen:
            _not_used(name, value, row)
    if duration is not None and qwen:
        _not_used("duration", duration, row)
    if target_fps is not None and rule.rule == "by_length":
        _not_used("target_fps", target_fps, row)
    if min_frames is not None:
        rule = replace(rule, min_frames=_whole(min_frames, "min_frames"))
    if max_frames is not None:
        rule = replace(rule, max_frames=_whole(max_frames, "max_frames"))
    if target_fps is not None:
        rule = replace(rule, frames_per_second=_number(target_fps, "target_fps"))
    lasts = _number(duration, "duration") if duration is not None else 0.0
    wanted = None if count is None else _whole(count, "count")
    step = row.media.video_resize.temporal_patch_size if row.media.video_resize else 1
    indices = _RULES[rule.rule](total, rate, wanted, lasts, step, rule)
    sampled_fps = len(indices) / total * rate
    return Sampled(indices, indices / rate, step / sampled_fps)


def _by_step(
    total: int, fps: float, count: int | None, lasts: float, step: int, rule: Sampling
) -> npt.NDArray[np.int64]:
    """Every so many frames, a whole number of grid steps (Qwen2-VL, Qwen2.5-VL)."""
    taken: int | None = None
    if count is not None:
        taken = round(count / step) * step
    elif rule.frames_per_second is not None:
        most = min(rule.max_frames, total) // step * step
        asked = total / fps * rule.frames_per_second
        taken = math.floor(min(max(asked, rule.min_frames), most, total) / step) * step
    if taken is None:
        return np.arange(total)
    if not 0 < taken <= total:
        raise RefusedMedia(
            "frames-too-many",
            where="frames",
            got=f"{taken} to take of {total}",
            expected=f"from {step} to {total}, in steps of {step}",
        )
    every = total / taken
    return _steps(math.ceil(total / every), every)


def _steps(length: int, every: float) -> npt.NDArray[np.int64]:
    """``torch.arange`` in float32, cut to integers.

    Eight at a time: the first of each eight is exact and rounded, the others are it plus so
    many rounded steps; what is left over at the end is exact and rounded.
    """
    numbers = np.arange(length)
    exact = (numbers * every).astype(np.float32)
    whole = length // _LANES * _LANES
    firsts = exact[:whole:_LANES, None]
    lanes = np.arange(_LANES, dtype=np.float32) * np.float32(every)
    exact[:whole] = (firsts + lanes).ravel()
    return exact.astype(np.int64)


def _spread(
    total: int, fps: float, count: int | None, lasts: float, step: int, rule: Sampling
) -> npt.NDArray[np.int64]:
    """From the first frame to the last, at equal distances (Qwen3-VL)."""
    taken = count
    if taken is None and rule.frames_per_second is not None:
        taken = int(total / fps * rule.frames_per_second)
        taken = min(max(taken, rule.min_frames), rule.max_frames, total)
    if taken is None:
        taken = min(max(total, rule.min_frames), rule.max_frames)
    return np.linspace(0, total - 1, taken).round().astype(np.int64)


def _by_seconds(
    total: int, fps: float, count: int | None, lasts: float, step: int, rule: Sampling
) -> npt.NDArray[np.int64]:
    """The first frame at or after every part of a second (GLM-4V)."""
    last = total - 1
    seconds = lasts or round(last / fps) + 1
    asked = rule.frames_per_second or 1.0
    if seconds <= rule.max_seconds:
        taken = max(math.floor(seconds * asked), 1)
        found = [min(last, math.ceil(number * fps / asked)) for number in range(taken)]
    elif int(rule.max_seconds * asked) >= total:
        found = list(range(total))
    else:
        times = np.linspace(0, seconds, int(rule.max_seconds * asked))
        found = [min(last, math.ceil(time * fps)) for time in times.tolist()]
    return _even(found)


def _by_length(
    total: int, fps: float, count: int | None, lasts: float, step: int, rule: Sampling
) -> npt.NDArray[np.int64]:
    """Fewer a second the longer it lasts, each grid step from frames of its own (GLM-4.6V)."""
    seconds = lasts or round((total - 1) / fps) + 1
    counted = min(seconds, rule.max_seconds)
    asked = next((rate for most, rate in _BY_LENGTH if counted <= most), _LONGEST_RATE)
    taken = min(int(counted * asked * step), rule.max_frames)
    if total < taken:
        return _even(np.linspace(0, total - 1, taken, dtype=np.int64).tolist())
    found: list[int] = []
    shown = 1 / fps
    due, apart = 0.0, 1 / (step * asked)
    for number in range(total):
        if number * shown >= due:
            due += apart
            found.append(number)
            if due >= int(seconds):
                break
    if len(found) < taken:
        found = np.linspace(found[0], found[-1], taken, dtype=np.int64).tolist()
    elif len(found) > taken:
        found = np.linspace(0, total - 1, taken, dtype=np.int64).tolist()
    return _even(found)


def _even(found: list[int]) -> npt.NDArray[np.int64]:
    """Each frame once, the last twice where the number would be odd."""
    once = list(dict.fromkeys(found))
    return np.array(once + once[-1:] * (len(once) % 2), np.int64)


_RULES: dict[str, Callable[..., npt.NDArray[np.int64]]] = {
    "by_step": _by_step,
    "spread": _spread,
    "by_seconds": _by_seconds,
    "by_length": _by_length,
}


def _rule(row: Family) -> Sampling:
    if row.media.sampling is None:
        named = [name for name in families.names("all") if families.get(name).media.sampling]
        raise RefusedMedia(
            "frames-not-sampled",
            where="family",
            got=row.name,
            expected=f"one of {', '.join(named)}",
        )
    return row.media.sampling


def _whole(value: Any, name: str) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = 0
    if number < 1 or isinstance(value, bool):
        expected = "an integer of at least 1"
        raise RefusedMedia("frames-value", where=name, got=repr(value), expected=expected)
    return number


def _number(value: Any, name: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = 0.0
    if not 0 < number < math.inf:
        expected = "a positive number"
        raise RefusedMedia("frames-value", where=name, got=repr(value), expected=expected)
    return number


def _not_used(name: str, value: object, row: Family) -> None:
    hint = f"{row.name} samples {row.media.sampling.rule if row.media.sampling else ''}"
    raise RefusedMedia("frames-setting", where=name, got=str(value), expected="nothing", hint=hint)
