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

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from mmref.families.row import TokenIds
from mmref.kernels import layout as kernel
from mmref.prompt import Prompt, read_prompt
from mmref.refusals import KINDS, REFUSALS

__all__ = ["REFUSALS", "Layout", "Prompt", "Span", "read_prompt", "scan"]

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Span:
    """Consecutive tokens of one row that are placed together.

    Parameters
    ----------
    row : int
        Row of the batch.
    kind : {"text", "image", "video", "audio"}
        What the tokens stand for.
    item : int
        Row of that kind's grid, or number of the clip; -1 for text.
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
    kind: Literal["text", "image", "video", "audio"]
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
                KINDS[kind],  # type: ignore[arg-type]  # the kernel writes 0 to 3
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
    inside_videos = np.zeros(len(prompt.ids), np.int64)
    count = kernel.scan(*prompt.scan_arguments(), inside_videos, spans, fault)
    prompt.raise_fault(fault)
    return Layout(spans[:count].copy(), prompt.ids.shape)
