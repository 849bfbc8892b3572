"""From token ids and media sizes to a checked layout of spans.

A prompt is a row of spans: text, image, video. `scan` finds them, checks that
every placeholder belongs to an item and every item to placeholders, and
refuses everything else. Positions, fusion and counts all read the same layout.

The rule (docs/explanation/rules.md, 1 to 3): masked tokens are removed first; a
maximal run of one kind of placeholder holds one or more whole items, taken in
order from that kind's grid, row by row through the batch; an item (t, h, w)
makes ``t * (h / merge) * (w / merge)`` placeholders.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from mmref import families
from mmref.arrays import integer_matrix, mask_matrix, to_numpy
from mmref.errors import RefusedPrompt
from mmref.families.row import Family, TokenIds
from mmref.kernels import layout as kernel

__all__ = ["REFUSALS", "Layout", "Prompt", "Span", "read_prompt", "scan"]

IntArray = npt.NDArray[np.int64]

REFUSALS: dict[str, str] = {
    "array-device": "a tensor that is not in host memory",
    "array-ragged": "rows of unequal length",
    "array-type": "strings or objects where numbers are needed",
    "input-ids-dtype": "token ids that are not integers",
    "input-ids-rank": "token ids that are neither a row nor a batch of rows",
    "input-ids-empty": "no token at all",
    "mask-shape": "a mask of another shape than the token ids",
    "mask-dtype": "a mask that is neither boolean nor integer",
    "mask-value": "a mask with values other than 0 and 1",
    "grid-shape": "a grid that is not (items, 3)",
    "grid-dtype": "a grid that is not of integers",
    "grid-not-positive": "a grid value of zero or less",
    "grid-not-divisible": "a height or width that the merge size does not divide",
    "grid-too-large": "a grid value beyond int32",
    "image-with-frames": "an image grid with t > 1",
    "merge-not-positive": "a merge size below one",
    "rate-not-positive": "tokens_per_second that is not a positive number",
    "rate-not-used": "tokens_per_second for a family that counts grid steps",
    "seconds-not-used": "seconds for a family that counts grid steps",
    "seconds-length": "not one value of seconds for each video",
    "seconds-value": "seconds that are NaN, infinite or negative",
    "token-ids-equal": "one id for images and videos",
    "token-ids-missing": "media without a placeholder id",
    "run-shorter-than-item": "placeholders that end inside an item",
    "run-longer-than-items": "placeholders left over after whole items",
    "placeholder-without-item": "placeholders with no item left",
    "unused-item": "items without placeholders",
    "position-too-large": "a position beyond int32",
}
"""Every way a prompt can be refused, by the error's ``code``."""

_KINDS = ("text", "image", "video")
_AXES = ("t", "h", "w")

_NO_GRID = np.empty((0, 3), np.int64)
_NO_SECONDS = np.empty(0, np.float64)
_NO_MASK = np.ones((1, 1), np.uint8)


@dataclass(frozen=True, slots=True)
class Span:
    """Consecutive tokens of one row that are placed together.

    Parameters
    ----------
    row : int
        Row of the batch.
    kind : {"text", "image", "video"}
        What the tokens stand for.
    item : int
        Row of that kind's grid; -1 for text.
    frame : int
        Frame of the item, for families whose videos are split; else 0.
    start, stop : int
        First token and one past the last, counted in the padded row.
    tokens : int
        Unmasked tokens between ``start`` and ``stop``.
    grid : tuple of int or None
        (t, h, w) after merging; None for text.
    """

    row: int
    kind: Literal["text", "image", "video"]
    item: int
    frame: int
    start: int
    stop: int
    tokens: int
    grid: tuple[int, int, int] | None


@dataclass(frozen=True, slots=True)
class Layout:
    """The checked spans of a batch.

    Parameters
    ----------
    table : numpy.ndarray
        int64, shape (spans, columns); the columns of `mmref.kernels.layout`.
    shape : tuple of int
        (batch, seq) of the token ids.
    """

    table: IntArray
    shape: tuple[int, int]

    def __len__(self) -> int:
        return len(self.table)

    def __iter__(self) -> Iterator[Span]:
        for line in self.table.tolist():
            row, kind, item, frame, start, stop, count, t, h, w, _ = line
            yield Span(
                row,
                _KINDS[kind],  # type: ignore[arg-type]  # the kernel writes 0, 1, 2
                item,
                frame,
                start,
                stop,
                count,
                None if kind == kernel.TEXT else (t, h, w),
            )

    @property
    def spans(self) -> tuple[Span, ...]:
        """All spans, in token order row by row."""
        return tuple(self)


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

    def scan_arguments(self) -> tuple[Any, ...]:
        """The arguments that `mmref.kernels.layout.scan` takes before its outputs."""
        token_ids = self.token_ids
        return (
            self.ids,
            self.mask,
            self.masked,
            self.image_grid,
            self.video_grid,
            self.merge,
            self.family.video_frames == "split",
            kernel.NO_ID if token_ids.image is None else token_ids.image,
            kernel.NO_ID if token_ids.video is None else token_ids.video,
            self.family.media_kinds == "by_video_markers",
            kernel.NO_ID if token_ids.video_start is None else token_ids.video_start,
            kernel.NO_ID if token_ids.video_end is None else token_ids.video_end,
        )

    def check_grids(self, fault: IntArray) -> int:
        """Check both grids; returns the size that a table of spans needs."""
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
        """Raise what a kernel reported, if anything."""
        if fault[kernel.FAULT_CODE] != kernel.OK:
            raise _refusal(self, fault.tolist())


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
    """Check and convert the arguments of a prompt; the parameters are those of `scan`.

    Returns
    -------
    Prompt
        Contiguous arrays and numbers for the kernels.

    Raises
    ------
    RefusedPrompt
        One of `REFUSALS`.
    UnknownName
        If the family is not known.
    """
    row = families.get(family)
    ids = integer_matrix(input_ids, "input_ids")
    if attention_mask is None:
        mask, masked = _NO_MASK, False
    else:
        mask, masked = mask_matrix(attention_mask, "attention_mask", ids.shape), True
    merge = row.spatial_merge_size
    if spatial_merge_size is not None:
        merge = _merge(spatial_merge_size)
    chosen = row.token_ids if token_ids is None else token_ids
    if chosen.image is not None and chosen.image == chosen.video and row.media_kinds == "by_id":
        raise RefusedPrompt(
            "token-ids-equal",
            where="token_ids",
            got=f"image and video are both {chosen.image}",
            expected="two different ids",
        )
    image_grid = _grid(image_grid_thw, "image_grid_thw")
    video_grid = _grid(video_grid_thw, "video_grid_thw")
    if len(image_grid) or len(video_grid):
        _require_placeholders(row, chosen, len(image_grid), len(video_grid))
    seconds = _NO_SECONDS
    if row.time == "seconds":
        rate = float(row.tokens_per_second or 0.0)
        if tokens_per_second is not None:
            rate = _rate(tokens_per_second)
        if second_per_grid_ts is not None:
            seconds = _seconds(second_per_grid_ts, len(video_grid))
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


def scan(
    input_ids: Any,
    *,
    family: str,
    image_grid_thw: Any = None,
    video_grid_thw: Any = None,
    attention_mask: Any = None,
    token_ids: TokenIds | None = None,
    spatial_merge_size: int | None = None,
) -> Layout:
    """Find and check the spans of a batch.

    Parameters
    ----------
    input_ids : array_like of int, shape (batch, seq) or (seq,)
        Token ids with every item expanded to its placeholders. A vector is one row.
    family : str
        A name of `mmref.families.names`, or an alias.
    image_grid_thw, video_grid_thw : array_like of int, shape (items, 3), optional
        Patches (t, h, w) of each item before merging, over the whole batch in row order.
    attention_mask : array_like of bool or 0/1, shape (batch, seq), optional
        True for tokens that exist. Default: all of them.
    token_ids : TokenIds, optional
        Default: the family's.
    spatial_merge_size : int, optional
        Default: the family's.

    Returns
    -------
    Layout
        The spans in token order.

    Raises
    ------
    RefusedPrompt
        One of `REFUSALS`; says where, what was found, what was expected and the likely cause.
    UnknownName
        If the family is not known.

    Notes
    -----
    Source of the rule: the expansion in transformers' processors (one item makes
    t*h*w / merge**2 placeholders) and the grids that ``get_rope_index`` takes.

    Examples
    --------
    >>> ids = TokenIds(image=10, video=11)
    >>> layout = scan([5, 10, 10, 10, 10, 6], family="qwen2_vl",
    ...               image_grid_thw=[[1, 4, 4]], token_ids=ids)
    >>> [(span.kind, span.start, span.stop) for span in layout]
    [('text', 0, 1), ('image', 1, 5), ('text', 5, 6)]
    """
    prompt = read_prompt(
        input_ids,
        family=family,
        image_grid_thw=image_grid_thw,
        video_grid_thw=video_grid_thw,
        attention_mask=attention_mask,
        token_ids=token_ids,
        spatial_merge_size=spatial_merge_size,
    )
    fault = np.zeros(kernel.FAULT_FIELDS, np.int64)
    spans = np.empty((prompt.check_grids(fault), kernel.COLUMNS), np.int64)
    count = kernel.scan(*prompt.scan_arguments(), spans, fault)
    prompt.raise_fault(fault)
    return Layout(spans[:count].copy(), prompt.ids.shape)


def _merge(value: Any) -> int:
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


def _rate(value: Any) -> float:
    try:
        rate = float(value)
    except (TypeError, ValueError):
        rate = math.nan
    if not 0 < rate < math.inf:
        raise RefusedPrompt(
            "rate-not-positive",
            where="tokens_per_second",
            got=repr(value),
            expected="a positive number",
        )
    return rate


def _grid(value: Any, name: str) -> IntArray:
    if value is None:
        return _NO_GRID
    array = to_numpy(value, name)
    if array.size == 0 and array.shape[:1] in ((), (0,)):
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


def _seconds(value: Any, videos: int) -> npt.NDArray[np.float64]:
    array = to_numpy(value, "second_per_grid_ts")
    if array.shape != (videos,):
        raise RefusedPrompt(
            "seconds-length",
            where="second_per_grid_ts",
            got=f"shape {array.shape}",
            expected=f"({videos},), one value for each video",
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


def _refusal(prompt: Prompt, fault: list[int]) -> RefusedPrompt:
    """The error for what a kernel reported."""
    code, row, kind, item, start, stop, got, expected = fault
    name = _KINDS[kind]
    grid_name = f"{name}_grid_thw"
    tokens = f"tokens {start}..{stop - 1}" if stop - start > 1 else f"token {start}"
    grid = prompt.image_grid if kind == kernel.IMAGE else prompt.video_grid
    place = f"row {row}, {name} {item} ({tokens})"
    if code == kernel.GRID_NOT_POSITIVE:
        return RefusedPrompt(
            "grid-not-positive",
            where=f"{grid_name}[{item}], {_AXES[start]}",
            got=str(got),
            expected="at least 1",
        )
    if code == kernel.GRID_TOO_LARGE:
        return RefusedPrompt(
            "grid-too-large",
            where=f"{grid_name}[{item}], {_AXES[start]}",
            got=str(got),
            expected=f"at most {expected}",
        )
    if code == kernel.GRID_NOT_DIVISIBLE:
        return RefusedPrompt(
            "grid-not-divisible",
            where=f"{grid_name}[{item}], {_AXES[start]}",
            got=str(got),
            expected=f"a multiple of the merge size {expected}",
            hint="a grid counts patches before merging",
        )
    if code == kernel.IMAGE_WITH_FRAMES:
        return RefusedPrompt(
            "image-with-frames",
            where=f"{grid_name}[{item}], t",
            got=str(got),
            expected="1",
            hint="pass it as a video",
        )
    if code == kernel.MASK_VALUE:
        return RefusedPrompt(
            "mask-value",
            where=f"attention_mask, row {row}, token {start}",
            got=str(got),
            expected="0 or 1",
            hint="packed rows are not told apart by mask values here" if got > 1 else "",
        )
    if code == kernel.POSITION_TOO_LARGE:
        return RefusedPrompt(
            "position-too-large",
            where=place if kind != kernel.TEXT else f"row {row} ({tokens})",
            got="a position beyond int32",
            expected=f"at most {expected}",
            hint="are the seconds right?" if kind == kernel.VIDEO else "",
        )
    if code == kernel.UNUSED_ITEM:
        frame = f", frame {start}" if start else ""
        return RefusedPrompt(
            "unused-item",
            where=f"{grid_name}[{item}]{frame}",
            got=f"{got} of {expected} items have placeholders",
            expected="every item to be used",
            hint="was the prompt truncated, or is the grid another prompt's?",
        )
    size = ""
    if 0 <= item < len(grid):
        t, h, w = grid[item].tolist()
        t = 1 if kind == kernel.VIDEO and prompt.family.video_frames == "split" else t
        size = f"grid ({t}, {h}, {w}) with merge {prompt.merge} makes "
        size += str(t * (h // prompt.merge) * (w // prompt.merge))
    if code == kernel.RUN_SHORTER:
        return RefusedPrompt(
            "run-shorter-than-item",
            where=place,
            got=f"{got} {_plural('placeholder', got)}",
            expected=f"as many as the item has: {size}",
            hint="was the prompt truncated?",
        )
    if code == kernel.RUN_LONGER:
        return RefusedPrompt(
            "run-longer-than-items",
            where=f"row {row} ({tokens})",
            got=f"{got} {name} {_plural('placeholder', got)} left over after {name} {item - 1}",
            expected=f"the end of the run or {name} {item}: {size}" if size else "none",
            hint="does the text hold a placeholder of its own, or is the grid another size's?",
        )
    return RefusedPrompt(
        "placeholder-without-item",
        where=f"row {row} ({tokens})",
        got=f"{got} {name} {_plural('placeholder', got)}",
        expected=f"none: {grid_name} has {len(grid)} {_plural('row', len(grid))}",
        hint="does the text hold a placeholder of its own, or is the grid missing?",
    )


def _plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"
