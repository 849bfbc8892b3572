"""The arguments of a prompt, checked and converted for the kernels."""

from __future__ import annotations

import math
import numbers
import operator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mmref import families
from mmref.arrays import integer_matrix, mask_matrix, to_numpy
from mmref.errors import RefusedPrompt
from mmref.families.row import Family, TokenIds
from mmref.kernels import layout as kernel
from mmref.refusals import refusal

__all__ = [
    "Prompt",
    "read_grid",
    "read_merge",
    "read_prompt",
    "read_rate",
    "read_seconds",
]

IntArray = npt.NDArray[np.int64]

_NO_GRID = np.empty((0, 3), np.int64)
_NO_SECONDS = np.empty(0, np.float64)
_NO_MASK = np.ones((1, 1), np.uint8)


@dataclass(slots=True)
class Prompt:
    """A prompt as the kernels take it: checked one array at a time, not yet scanned."""

    family: Family
    ids: npt.NDArray[Any]
    mask: npt.NDArray[Any]
    masked: bool
    image_grid: IntArray
    video_grid: IntArray
    seconds: npt.NDArray[np.float64]
    seconds_given: bool
    token_ids: TokenIds
    merge: int
    rate: float

    @property
    def any_grid(self) -> bool:
        """Whether there is any image or video."""
        return len(self.image_grid) + len(self.video_grid) > 0

    def scan_arguments(self) -> tuple[Any, ...]:
        """The arguments that `mmref.kernels.layout.scan` takes before its outputs."""
        token_ids = self.token_ids
        image_id = kernel.NO_ID if token_ids.image is None else token_ids.image
        return (
            self.ids,
            self.mask,
            self.masked,
            self.image_grid,
            self.video_grid,
            self.merge,
            self.family.video_frames == "split",
            image_id,
            image_id if token_ids.video is None else token_ids.video,  # then never a video
            self.family.media_kinds == "by_video_markers",
            kernel.NO_ID if token_ids.video_start is None else token_ids.video_start,
            kernel.NO_ID if token_ids.video_end is None else token_ids.video_end,
        )

    def with_tokens(self, ids: npt.NDArray[Any], mask: npt.NDArray[Any]) -> Prompt:
        """The same settings with other tokens and no items: what later turns go by.

        Parameters
        ----------
        ids : numpy.ndarray
            int32 or int64, shape (batch, seq).
        mask : numpy.ndarray
            uint8, the same shape.

        Returns
        -------
        Prompt
            The copy.
        """
        return replace(
            self,
            ids=ids,
            mask=mask,
            masked=True,
            image_grid=_NO_GRID,
            video_grid=_NO_GRID,
            seconds=_NO_SECONDS,
        )

    def check_grids(self, fault: IntArray) -> int:
        """Check both grids.

        Parameters
        ----------
        fault : numpy.ndarray
            int64, an empty fault record.

        Returns
        -------
        int
            The size that a table of spans needs.

        Raises
        ------
        RefusedPrompt
            If a grid value is not possible.
        """
        size = int(self.ids.size)
        items = 0
        if len(self.image_grid):
            items = kernel.check_grids(
                self.image_grid, kernel.IMAGE, self.merge, size, False, fault
            )
            self.raise_fault(fault)
        if len(self.video_grid):
            items += kernel.check_grids(
                self.video_grid,
                kernel.VIDEO,
                self.merge,
                size,
                self.family.video_frames == "split",
                fault,
            )
            self.raise_fault(fault)
        return 2 * min(items, size) + len(self.ids) + 1

    def raise_fault(self, fault: IntArray) -> None:
        """Raise what a kernel reported, if anything.

        Parameters
        ----------
        fault : numpy.ndarray
            int64, a fault record.

        Raises
        ------
        RefusedPrompt
            If it holds a fault.
        """
        if fault[kernel.FAULT_CODE] != kernel.OK:
            raise refusal(self, fault.tolist())


def read_prompt(
    input_ids: Any,
    *,
    family: str,
    image_grid_thw: Any = None,
    video_grid_thw: Any = None,
    second_per_grid_ts: Any = None,
    attention_mask: Any = None,
    token_ids: TokenIds | None = None,
    spatial_merge_size: int | None = None,
    tokens_per_second: float | None = None,
) -> Prompt:
    """Check and convert the arguments of a prompt.

    The parameters are those of `mmref.mrope.position_ids`.

    Returns
    -------
    Prompt
        Contiguous arrays and numbers for the kernels.

    Raises
    ------
    RefusedPrompt
        One of `mmref.layout.REFUSALS`.
    UnknownName
        If the family is not known.
    """
    row = families.get(family)
    if row.positions != "3d":
        raise RefusedPrompt(
            "family-without-3d-positions",
            where="family",
            got=row.name,
            expected=f"one of {', '.join(families.names())}",
            hint="only mrope.position_ids takes families that count audio too"
            if row.positions == "omni"
            else "mmref.rope.position_ids: the number of unmasked tokens before a token",
        )
    ids = integer_matrix(input_ids, "input_ids")
    if attention_mask is None:
        mask, masked = _NO_MASK, False
    else:
        mask, masked = mask_matrix(attention_mask, "attention_mask", ids.shape), True
    merge = row.spatial_merge_size
    if spatial_merge_size is not None:
        merge = read_merge(spatial_merge_size)
    chosen = row.token_ids if token_ids is None else token_ids
    if not isinstance(chosen, TokenIds):
        raise RefusedPrompt(
            "token-ids-type",
            where="token_ids",
            got=repr(token_ids),
            expected="a mmref.families.TokenIds",
        )
    if chosen.image is not None and chosen.image == chosen.video and row.media_kinds == "by_id":
        raise RefusedPrompt(
            "token-ids-equal",
            where="token_ids",
            got=f"image and video are both {chosen.image}",
            expected="two different ids",
        )
    image_grid = read_grid(image_grid_thw, "image_grid_thw")
    video_grid = read_grid(video_grid_thw, "video_grid_thw")
    if len(image_grid) or len(video_grid):
        _require_placeholders(row, chosen, len(image_grid), len(video_grid))
    seconds = _NO_SECONDS
    if row.time == "seconds":
        rate = float(row.tokens_per_second or 0.0)
        if tokens_per_second is not None:
            rate = read_rate(tokens_per_second)
        if second_per_grid_ts is not None:
            seconds = read_seconds(second_per_grid_ts, len(video_grid))
        elif len(video_grid):
            seconds = np.ones(len(video_grid))
    else:
        rate = 1.0
        if second_per_grid_ts is not None:
            raise RefusedPrompt(
                "seconds-not-used",
                where="second_per_grid_ts",
                got=f"given for {row.name}",
                expected="nothing",
                hint="this family's time axis counts grid steps",
            )
        if tokens_per_second is not None:
            raise RefusedPrompt(
                "rate-not-used",
                where="tokens_per_second",
                got=f"given for {row.name}",
                expected="nothing",
                hint="this family's time axis counts grid steps",
            )
    return Prompt(
        row,
        ids,
        mask,
        masked,
        image_grid,
        video_grid,
        seconds,
        second_per_grid_ts is not None,
        chosen,
        merge,
        rate,
    )


def read_merge(value: Any) -> int:
    """A merge size.

    Parameters
    ----------
    value : int
        Patches merged into one token along each side.

    Returns
    -------
    int
        The same.

    Raises
    ------
    RefusedPrompt
        ``merge-not-positive``.
    """
    try:
        merge = operator.index(value)
    except TypeError:
        merge = 0
    if merge < 1 or isinstance(value, bool) or merge > kernel.LARGEST:
        raise RefusedPrompt(
            "merge-not-positive",
            where="spatial_merge_size",
            got=repr(value),
            expected="an integer of at least 1",
        )
    return merge


def read_rate(value: Any) -> float:
    """Positions per second of video.

    Parameters
    ----------
    value : float
        A positive number.

    Returns
    -------
    float
        The same.

    Raises
    ------
    RefusedPrompt
        ``rate-not-positive``.
    """
    number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    rate = float(value) if number else math.nan
    if not 0 < rate < math.inf:
        raise RefusedPrompt(
            "rate-not-positive",
            where="tokens_per_second",
            got=repr(value),
            expected="a positive number",
        )
    return rate


def read_grid(value: Any, name: str) -> IntArray:
    """A grid of patches.

    Parameters
    ----------
    value : array_like of int, shape (items, 3), or None
        Rows (t, h, w).
    name : str
        The argument's name, for errors.

    Returns
    -------
    numpy.ndarray
        int64, shape (items, 3), a copy.

    Raises
    ------
    RefusedPrompt
        ``grid-shape``, ``grid-dtype``, ``grid-too-large``.
    """
    if value is None:
        return _NO_GRID
    array = to_numpy(value, name)
    if array.shape in ((0,), (0, 3)):
        return _NO_GRID
    if array.ndim != 2 or array.shape[1] != 3:
        raise RefusedPrompt(
            "grid-shape",
            where=name,
            got=f"shape {array.shape}",
            expected="(items, 3)",
            hint="one row (t, h, w) for each item, also for a single one",
        )
    if array.dtype.kind not in "iu":
        raise RefusedPrompt(
            "grid-dtype",
            where=name,
            got=f"dtype {array.dtype}",
            expected="integers",
            hint="a grid counts patches",
        )
    if array.dtype.kind == "u" and int(array.max()) > kernel.LARGEST:
        raise RefusedPrompt(
            "grid-too-large",
            where=name,
            got=str(int(array.max())),
            expected=f"at most {kernel.LARGEST}",
        )
    return np.array(array, dtype=np.int64, order="C")  # a copy: kernels see one array type


def read_seconds(value: Any, videos: int) -> npt.NDArray[np.float64]:
    """Seconds of a grid step of each video.

    Parameters
    ----------
    value : array_like of float, shape (videos,)
        The seconds.
    videos : int
        How many videos there are.

    Returns
    -------
    numpy.ndarray
        float64, shape (videos,).

    Raises
    ------
    RefusedPrompt
        ``seconds-length``, ``seconds-value``, ``array-type``.
    """
    array = to_numpy(value, "second_per_grid_ts")
    if array.shape != (videos,):
        raise RefusedPrompt(
            "seconds-length",
            where="second_per_grid_ts",
            got=f"shape {array.shape}",
            expected=f"({videos},), one value for each video",
        )
    if array.dtype.kind == "b":
        raise RefusedPrompt(
            "array-type", where="second_per_grid_ts", got="dtype bool", expected="seconds"
        )
    seconds = array.astype(np.float64)
    bad = ~(np.isfinite(seconds) & (seconds >= 0) & (seconds < np.finfo(np.float32).max))
    if bad.any():
        index = int(bad.argmax())
        raise RefusedPrompt(
            "seconds-value",
            where=f"second_per_grid_ts[{index}]",
            got=str(seconds[index]),
            expected="a finite number of seconds, not negative",
        )
    return seconds


def _require_placeholders(row: Family, token_ids: TokenIds, images: int, videos: int) -> None:
    needed = []
    if images and token_ids.image is None:
        needed.append("image")
    if videos:
        names = ("image", "video_start", "video_end")
        for name in names if row.media_kinds == "by_video_markers" else ("video",):
            if getattr(token_ids, name) is None:
                needed.append(name)
    if needed:
        raise RefusedPrompt(
            "token-ids-missing",
            where="token_ids",
            got=f"no id for {', '.join(dict.fromkeys(needed))}",
            expected="the ids of the media that are given",
        )
