"""A correct port in plain Python, and ports of it with one fault each.

They prove that the differential can fail: each fault is one that a released
engine has had (see the public reports behind testing/vectors).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from mmref.case import Case, Outcome
from mmref.errors import RefusedPrompt
from mmref.layout import Layout, Prompt, Span, read_prompt, scan

ARRAYS = ("image_grid_thw", "video_grid_thw", "second_per_grid_ts", "attention_mask")
SCALARS = ("spatial_merge_size", "tokens_per_second")


class Port:
    """Positions and decode as the rules say; a broken engine overrides one step."""

    version = "1"
    provider = "cpu"
    subjects: tuple[str, ...] = ("positions",)
    masked_value = 0

    @property
    def name(self) -> str:
        return type(self).__name__

    def skip(self, case: Case) -> str | None:
        """Beams repeat rows after positions are computed: not a port's business."""
        return "beams" if case.scalars.get("num_beams", 1) != 1 else None

    def run(self, case: Case) -> Outcome:
        """Positions, deltas and what follows."""
        try:
            prompt, layout = self.read(case)
            return Outcome("answer", self.answer(case, prompt, layout))
        except RefusedPrompt as error:
            return Outcome.refusal(error)

    def read(self, case: Case) -> tuple[Prompt, Layout]:
        given: dict[str, Any] = {name: case.arrays.get(name) for name in ARRAYS}
        given |= {name: case.scalars.get(name) for name in SCALARS}
        given |= {"family": case.family, "token_ids": case.ids}
        ids = case.arrays["input_ids"]
        prompt = read_prompt(ids, **given)
        del given["second_per_grid_ts"], given["tokens_per_second"]
        return prompt, scan(ids, **given)

    def answer(self, case: Case, prompt: Prompt, layout: Layout) -> dict[str, np.ndarray]:
        batch, length = prompt.ids.shape
        mask = prompt.mask if prompt.masked else np.ones((batch, length), np.int64)
        positions = np.full((3, batch, length), self.masked_value, np.int64)
        rows: list[list[Span]] = [[] for _ in range(batch)]
        for span in layout:
            rows[span.row].append(span)
        largest = np.full(batch, -1)
        at = 0
        for row, spans in enumerate(rows):
            at = self.row_start(row, at, spans)
            for scanned in spans:
                span = self.see(scanned, row, rows, prompt)
                tokens = list(self.tokens(span, at, prompt))
                top = max((max(token) for token in tokens), default=at - 1)
                self.check(top, prompt, span)
                columns = self.columns(span, mask[row])
                for column, token in zip(columns, tokens, strict=True):
                    positions[:, row, column] = token
                largest[row] = max(largest[row], top)
                at = self.resume(span, at, top)
        counted = mask.astype(bool).sum(1)
        deltas = self.deltas(largest, counted, length)
        arrays = {
            "position_ids": positions,
            "rope_deltas": deltas,
            "attention_mask": mask.astype(np.int64),
        }
        if case.decode_steps:
            following = self.following(positions, largest, deltas, counted)
            steps = np.arange(case.decode_steps)
            arrays["next_position_ids"] = np.stack([following + k for k in steps], -1)
            ones = np.ones((batch, case.decode_steps), np.int64)
            arrays["next_attention_mask"] = np.hstack([self.decode_mask(mask), ones])
        return arrays

    def row_start(self, row: int, at: int, spans: list[Span]) -> int:
        return 0

    def see(self, span: Span, row: int, rows: list[list[Span]], prompt: Prompt) -> Span:
        return span

    def columns(self, span: Span, mask: np.ndarray) -> list[int]:
        return [index for index in range(span.start, span.stop) if mask[index]]

    def tokens(self, span: Span, at: int, prompt: Prompt) -> Iterator[tuple[int, int, int]]:
        if span.grid is None:
            for k in range(span.tokens):
                yield at + k, at + k, at + k
            return
        for i, y, x in self.order(*span.grid):
            yield at + self.time(i, span, prompt), at + y, at + x

    def order(self, t: int, h: int, w: int) -> Iterator[tuple[int, int, int]]:
        return ((i, y, x) for i in range(t) for y in range(h) for x in range(w))

    def time(self, i: int, span: Span, prompt: Prompt) -> int:
        if prompt.family.time == "index" or span.kind != "video":
            return i
        return self.seconds(i, self.pace(span, prompt), prompt.rate)

    def pace(self, span: Span, prompt: Prompt) -> float:
        return float(prompt.seconds[span.item])

    def seconds(self, i: int, seconds: float, rate: float) -> int:
        return int(np.float32(i) * (np.float32(rate) * np.float32(seconds)))

    def check(self, top: int, prompt: Prompt, span: Span) -> None:
        if top > 2**31 - 1:
            raise RefusedPrompt("position-too-large", where=span.kind, got=str(top))

    def resume(self, span: Span, at: int, top: int) -> int:
        return top + 1

    def deltas(self, largest: np.ndarray, counted: np.ndarray, length: int) -> np.ndarray:
        return largest + 1 - counted

    def following(
        self, positions: np.ndarray, largest: np.ndarray, deltas: np.ndarray, counted: np.ndarray
    ) -> np.ndarray:
        return np.broadcast_to(counted + deltas, (3, len(counted)))

    def decode_mask(self, mask: np.ndarray) -> np.ndarray:
        return mask


class RowStart(Port):
    """Rows after the first that hold media start at 1."""

    def row_start(self, row: int, at: int, spans: list[Span]) -> int:
        return int(row > 0 and any(span.grid for span in spans))


class PerRowRestart(Port):
    """The cursor is not set back for a new row."""

    def row_start(self, row: int, at: int, spans: list[Span]) -> int:
        return at


class SwappedSides(Port):
    """Height and width of an item are taken for one another."""

    def order(self, t: int, h: int, w: int) -> Iterator[tuple[int, int, int]]:
        return super().order(t, w, h)


class RoundedTime(Port):
    """Time is rounded, not truncated."""

    def seconds(self, i: int, seconds: float, rate: float) -> int:
        return math.floor(float(np.float32(i) * np.float32(rate * seconds)) + 0.5)


class TimeInFloat64(Port):
    """Time is computed in float64."""

    def seconds(self, i: int, seconds: float, rate: float) -> int:
        return int(i * (rate * seconds))


class SpatialResume(Port):
    """Text resumes after the larger side, not after the largest position."""

    def resume(self, span: Span, at: int, top: int) -> int:
        return top + 1 if span.grid is None else at + max(span.grid[1:])


class OffByOneAfterMedia(Port):
    """One position too many after an item."""

    def resume(self, span: Span, at: int, top: int) -> int:
        return top + 1 + (span.grid is not None)


class StaleDelta(Port):
    """Decode uses the delta of the request before, where one fits."""

    before: np.ndarray | None = None

    def following(
        self, positions: np.ndarray, largest: np.ndarray, deltas: np.ndarray, counted: np.ndarray
    ) -> np.ndarray:
        used = deltas
        if self.before is not None and self.before.shape == deltas.shape:
            used = self.before
        self.before = deltas
        return super().following(positions, largest, used, counted)


class ChunkRestart(Port):
    """Prefill in chunks of eight: what is left of an item in the next chunk counts as text."""

    def tokens(self, span: Span, at: int, prompt: Prompt) -> Iterator[tuple[int, int, int]]:
        before = -1
        for k, token in enumerate(super().tokens(span, at, prompt)):
            cut = (span.start // 8 + 1) * 8 - span.start
            if span.grid is None or k < cut:
                before = max(before, *token)
                yield token
            else:
                before += 1
                yield before, before, before


class PadValue(Port):
    """Masked places hold 1."""

    masked_value = 1


class Int32Overflow(Port):
    """Positions beyond int32 wrap and are answered."""

    def check(self, top: int, prompt: Prompt, span: Span) -> None:
        pass

    def seconds(self, i: int, seconds: float, rate: float) -> int:
        return (super().seconds(i, seconds, rate) + 2**31) % 2**32 - 2**31


class GridIteratorPerRow(Port):
    """Every row takes its grids from the first one on."""

    def see(self, span: Span, row: int, rows: list[list[Span]], prompt: Prompt) -> Span:
        if span.grid is None:
            return span
        first = min(other.item for other in rows[row] if other.kind == span.kind)
        item = span.item - first
        grid = prompt.image_grid if span.kind == "image" else prompt.video_grid
        t, h, w = grid[item].tolist()
        t = 1 if span.kind == "video" and prompt.family.video_frames == "split" else t
        size = (t, h // prompt.merge, w // prompt.merge)
        # laid over the tokens there are, as an engine that checks no total does
        return replace(span, item=item, grid=size if math.prod(size) == span.tokens else None)


class VideoGridForImages(Port):
    """Images take the video grid where there is one of the same number of tokens."""

    def see(self, span: Span, row: int, rows: list[list[Span]], prompt: Prompt) -> Span:
        if span.kind != "image" or span.item >= len(prompt.video_grid):
            return span
        t, h, w = prompt.video_grid[span.item].tolist()
        size = (t, h // prompt.merge, w // prompt.merge)
        return replace(span, grid=size if math.prod(size) == span.tokens else None)


class TimeBeforeSpace(Port):
    """Tokens of a video in the order height, width, time."""

    def order(self, t: int, h: int, w: int) -> Iterator[tuple[int, int, int]]:
        return ((i, y, x) for y in range(h) for x in range(w) for i in range(t))


class ColumnMajor(Port):
    """Tokens of an image column by column."""

    def order(self, t: int, h: int, w: int) -> Iterator[tuple[int, int, int]]:
        return ((i, y, x) for i in range(t) for x in range(w) for y in range(h))


class DroppedLastItem(Port):
    """The last item of a row counts as text."""

    def see(self, span: Span, row: int, rows: list[list[Span]], prompt: Prompt) -> Span:
        last = [other for other in rows[row] if other.grid][-1:]
        return replace(span, grid=None) if last and span is last[0] else span


class DeltaOnPaddedLength(Port):
    """The delta is relative to the padded length, decode adds the real one."""

    def deltas(self, largest: np.ndarray, counted: np.ndarray, length: int) -> np.ndarray:
        return largest + 1 - length


class FirstSecondsForAll(Port):
    """Every video takes the seconds of the first."""

    def pace(self, span: Span, prompt: Prompt) -> float:
        return float(prompt.seconds[0])


class DecodeFromLastColumn(Port):
    """Decode continues from the last column of the prompt."""

    def following(
        self, positions: np.ndarray, largest: np.ndarray, deltas: np.ndarray, counted: np.ndarray
    ) -> np.ndarray:
        return positions[:, :, -1] + 1


class DecodeMaskAllOnes(Port):
    """Padding becomes visible in decode."""

    def decode_mask(self, mask: np.ndarray) -> np.ndarray:
        return np.ones_like(mask)


class MergeOfTwo(Port):
    """The merge size is taken to be 2."""

    def read(self, case: Case) -> tuple[Prompt, Layout]:
        return super().read(case.with_scalars(spatial_merge_size=2))


class ShortNumbers(Port):
    """The time axis is kept in eight bits."""

    def seconds(self, i: int, seconds: float, rate: float) -> int:
        return super().seconds(i, seconds, rate) % 128


class Crashes(Port):
    """Falls over when a prompt ends in an item."""

    def run(self, case: Case) -> Outcome:
        ids = case.arrays["input_ids"]
        if ids.size and ids.ndim == 2 and ids[-1, -1] in (10, 11):
            return Outcome("crash", {}, "signal 11", "the process was killed")
        return super().run(case)


BROKEN: tuple[type[Port], ...] = tuple(Port.__subclasses__())
