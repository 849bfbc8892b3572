"""Expanded rows of ids under construction: segments for the kernel, spans for the layout."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from mmref.families import Family
from mmref.kernels import layout as layout_kernel
from mmref.kernels import tokens as kernel
from mmref.layout import Layout
from mmref.tokens.carriers import Ids
from mmref.tokens.pieces import Item, Kind, pieces

IntArray = npt.NDArray[np.int64]
_TYPES = {"image": 1, "video": 2, "audio": 3}
_LAYOUT_KINDS = {
    "image": layout_kernel.IMAGE,
    "video": layout_kernel.VIDEO,
    "audio": layout_kernel.AUDIO,
}


@dataclass(slots=True)
class Draft:
    """The rows under construction: segments for the kernel, spans for the layout."""

    sources: list[IntArray]
    segments: list[tuple[int, int, int, int, int, int]] = field(default_factory=list)
    spans: list[list[int]] = field(default_factory=list)
    source_length: int = 0
    row: int = 0
    length: int = 0
    text_from: int = 0
    lengths: list[int] = field(default_factory=list)

    def begin(self) -> None:
        """Start the next row."""
        self.row, self.length, self.text_from = len(self.lengths), 0, 0

    def end(self) -> None:
        """Close the row."""
        self.close_text(self.length)
        self.lengths.append(self.length)

    def copy(self, first: int, count: int) -> None:
        """Tokens of the sources, laid end to end, from ``first`` on."""
        if count > 0:
            self.segments.append((self.row, self.length, self.length + count, first, 0, 0))
            self.length += count

    def add_source(self, ids: IntArray) -> int:
        """Further ids to copy from; returns where they begin."""
        self.sources.append(ids)
        self.source_length += len(ids)
        return self.source_length - len(ids)

    def run(self, token: int, count: int, kind: int) -> None:
        """One token several times, of a token type."""
        stop = self.length + count
        self.segments.append((self.row, self.length, stop, kernel.NO_SOURCE, token, kind))
        self.length = stop

    def close_text(self, stop: int) -> None:
        """Text from where the last item ended up to ``stop``."""
        if stop > self.text_from:
            count = stop - self.text_from
            self.spans.append(
                [self.row, layout_kernel.TEXT, -1, 0, self.text_from, stop, count, 0, 0, 0, 0]
            )

    def span(
        self, kind: Kind, item: int, frame: int, start: int, grid: tuple[int, int, int]
    ) -> None:
        """An item, or a frame of one, from ``start`` to here."""
        self.close_text(start)
        self.text_from = self.length
        line = [self.row, _LAYOUT_KINDS[kind], item, frame, start, self.length]
        self.spans.append([*line, self.length - start, *grid, 0])

    def finish(self, pad: int, padding_side: str) -> tuple[IntArray, IntArray, IntArray, Layout]:
        """Ids, mask, types and layout of all rows, padded to one length."""
        longest = max(self.lengths, default=0)
        segments = np.array(self.segments, np.int64).reshape(-1, kernel.COLUMNS)
        table = np.array(self.spans, np.int64).reshape(-1, layout_kernel.COLUMNS)
        if padding_side == "left":
            shift = longest - np.array(self.lengths, np.int64)
            segments[:, [kernel.START, kernel.STOP]] += shift[segments[:, kernel.ROW], None]
            table[:, [layout_kernel.START, layout_kernel.STOP]] += shift[
                table[:, layout_kernel.ROW], None
            ]
        elif padding_side != "right":
            raise ValueError(f"padding_side: {padding_side!r}, expected 'right' or 'left'")
        shape = (len(self.lengths), longest)
        ragged = min(self.lengths, default=0) < longest
        ids = np.full(shape, pad, np.int64) if ragged else np.empty(shape, np.int64)
        make = np.zeros if ragged else np.empty
        types, mask = make(shape, np.int64), make(shape, np.int64)
        source = np.concatenate(self.sources) if self.sources else np.empty(0, np.int64)
        kernel.write(segments, source, ids, types, mask)
        return ids, mask, types, Layout(table, shape)


def write_item(
    row: Family, carrier: Ids, draft: Draft, number: int, item: Item, clip: int = -1
) -> None:
    """The segments of an item, and a span for it, or for each of its frames or runs."""
    kind = item.kind
    if kind == "audio" or item.sound:
        _write_runs(row, carrier, draft, number, item, clip)
        return
    rule = row.media.image_resize if kind == "image" else row.media.video_resize
    merge = rule.merge_size  # type: ignore[union-attr]  # an item has a rule
    t, h, w = item.grid
    grid = (t, h // merge, w // merge)
    if row.media.image_form == "rows":
        grid = (t, grid[1], grid[2] + 1)  # with the token that ends each row
    elif grid[0] * grid[1] * grid[2] != item.tokens:
        grid = (1, 1, item.tokens)  # tiles: their tokens form no grid
    by_frame = kind == "video" and row.media.video_form != "run"
    parts = pieces(row, item)
    inside = [at for at, piece in enumerate(parts) if piece.of_item]
    begun = 0
    for at, piece in enumerate(parts):
        if at == inside[0] or (by_frame and piece.of_item):
            begun = draft.length
        if not piece.name:
            ids = carrier.render(piece)
            draft.copy(draft.add_source(ids), len(ids))
            continue
        type_ = _TYPES[kind] if piece.of_item else 0
        draft.run(carrier.id(piece.name), piece.count, type_)
        if by_frame and piece.of_item:
            draft.span(kind, number, piece.frame, begun, (1, grid[1], grid[2]))
        elif at == inside[-1] and not by_frame:
            draft.span(kind, number, 0, begun, grid)


def _write_runs(
    row: Family, carrier: Ids, draft: Draft, number: int, item: Item, clip: int
) -> None:
    """A clip, or a video with its own sound, whose runs are spans of either kind."""
    for piece in pieces(row, item):
        if not piece.name:
            ids = carrier.render(piece)
            draft.copy(draft.add_source(ids), len(ids))
            continue
        sounds = piece.name == "audio"
        begun, kind = draft.length, _TYPES["audio" if sounds else item.kind]
        draft.run(carrier.id(piece.name), piece.count, kind if piece.of_item else 0)
        if piece.of_item and sounds:
            draft.span("audio", clip if item.sound else number, 0, begun, (1, 1, piece.count))
        elif piece.of_item:
            draft.span(item.kind, number, 0, begun, (1, 1, piece.count))
