"""From segments to positions."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mmref.arrays import row_numbers
from mmref.audio.interleave import chunks, merged
from mmref.differences.rules import OmniRules
from mmref.layout import Layout
from mmref.omni.prompt import OmniPrompt, Segment, read, refuse
from mmref.omni.spans import layout_of
from mmref.positions import Positions
from mmref.refusals import require_reference

__all__ = ["OmniPositions", "positions"]

Array = npt.NDArray[Any]


class OmniPositions(Positions):
    """Positions of a prompt with audio, and of what follows it.

    ``position_ids`` is int64, or float32 where the family's positions are fractions of a
    second (qwen3_omni_moe), and so are ``deltas``.
    """

    __slots__ = ("_base", "_run", "_whole")

    def __init__(
        self,
        prompt: OmniPrompt,
        placed: Array,
        largest: Array,
        deltas: Array,
        state: tuple[Array, Array],
        *,
        by_release: bool = False,
        before: OmniPositions | None = None,
    ) -> None:
        self.position_ids = placed
        self.deltas = deltas
        self.first_slot = 0 if before is None else before.next_slot
        self.next_slot = self.first_slot + placed.shape[2]
        self._whole = None if by_release else prompt
        self._largest = largest
        self._unmasked = prompt.counts + (0 if before is None else before._unmasked)
        self._mask = prompt.keep
        # what text goes on from: where its run began, and how many tokens that has
        self._base, self._run = state
        self._rules = None
        self._before = before

    def next_positions(self, count: int) -> Array:
        """Positions of generated tokens: one more than the row's largest, and so on.

        Parameters
        ----------
        count : int
            How many tokens follow in each row.

        Returns
        -------
        numpy.ndarray
            Shape (3, batch, count), of the dtype of ``position_ids``; what text that is
            appended would get.
        """
        dtype = self.position_ids.dtype
        found: Array = super().next_positions(count).astype(dtype)
        if self._whole is not None:
            numbers = self._run[:, None] + np.arange(found.shape[2])
            found[:] = numbers.astype(dtype) + self._base[:, None]
        return found

    @property
    def layout(self) -> Layout:
        """The spans that were placed, counted from the first token of this stretch.

        Start and end tokens are text; a video with its own sound is a span for each run.
        """
        return layout_of(self._required("layout"))

    def extend(
        self,
        input_ids: Any,
        *,
        image_grid_thw: Any = None,
        video_grid_thw: Any = None,
        second_per_grid_ts: Any = None,
        attention_mask: Any = None,
        audio_lengths: Any = None,
        use_audio_in_video: bool | None = None,
    ) -> OmniPositions:
        """The positions of tokens that are appended: generated ones, or a next turn with media.

        Parameters
        ----------
        input_ids : array_like of int, shape (batch, new) or (new,)
            The new tokens alone: text and whole blocks.
        image_grid_thw, video_grid_thw : array_like of int, shape (items, 3), optional
            Grids of the new items alone, in row order.
        second_per_grid_ts : array_like of float, shape (videos,), optional
            Seconds of the new videos alone.
        attention_mask : array_like of bool or 0/1, shape (batch, new), optional
            True for tokens that exist. Default: all of them.
        audio_lengths : array_like of int, shape (clips,), optional
            Frames of the new clips alone.
        use_audio_in_video : bool, optional
            Whether the new videos come with their own sound. Default: as before.

        Returns
        -------
        OmniPositions
            Of the new tokens; equal to the tail of the joined prompt's, with its deltas.

        Raises
        ------
        RefusedPrompt
            If the new tokens and items are not consistent, or the batch is another.

        Examples
        --------
        >>> from mmref import mrope
        >>> first = mrope.position_ids([20, 21], family="qwen2_5_omni")
        >>> first.extend([22]).position_ids[0].tolist()
        [[2]]
        """
        before = self._required("extend")
        prompt = read(
            input_ids,
            row=before.row,
            image_grid_thw=image_grid_thw,
            video_grid_thw=video_grid_thw,
            second_per_grid_ts=second_per_grid_ts,
            audio_lengths=audio_lengths,
            use_audio_in_video=before.in_video
            if use_audio_in_video is None
            else use_audio_in_video,
            attention_mask=attention_mask,
            token_ids=before.token_ids,
            spatial_merge_size=before.merge,
            tokens_per_second=before.rate,
        )
        if prompt.shape[0] != before.shape[0]:
            got, expected = f"{prompt.shape[0]} rows", f"{before.shape[0]}, as before"
            raise refuse("extend-batch", "input_ids", got, expected)
        return positions(prompt, OmniRules(), self)

    def rewind(self, slots: int) -> OmniPositions:
        """The state as if only the first tokens had been given.

        Parameters
        ----------
        slots : int
            How many tokens of each padded row are kept: not a part of a block.

        Returns
        -------
        OmniPositions
            To extend or decode from.

        Raises
        ------
        RefusedPrompt
            If there are not so many tokens, or the cut is inside a block.
        """
        self._required("rewind")
        found = super().rewind(slots)
        assert isinstance(found, OmniPositions)
        return found

    def take_rows(self, rows: Any) -> OmniPositions:
        """Other rows, or the same ones in another order or number: beams, requests that end.

        Parameters
        ----------
        rows : array_like of int, shape (rows,)
            Rows of the batch.

        Returns
        -------
        OmniPositions
            Each delta with its row.

        Raises
        ------
        RefusedPrompt
            If a row is not one of the batch.
        """
        prompt = self._required("take_rows")
        chosen = row_numbers(rows, self._shape[0])
        before = self._before
        assert before is None or isinstance(before, OmniPositions)
        return OmniPositions(
            prompt.of_rows(chosen),
            self.position_ids[:, chosen],
            self._largest[chosen],
            self.deltas[chosen],
            (self._base[chosen], self._run[chosen]),
            before=None if before is None else before.take_rows(chosen),
        )

    def _required(self, what: str) -> OmniPrompt:
        require_reference(what, None if self._whole is not None else "a release's")
        assert self._whole is not None
        return self._whole

    def _cut(self, length: int) -> OmniPositions:
        before = self._before
        assert before is None or isinstance(before, OmniPositions)
        return positions(self._required("rewind").first(length), OmniRules(), before)


def positions(
    prompt: OmniPrompt, rules: OmniRules, before: OmniPositions | None = None
) -> OmniPositions:
    """Positions of a prompt that is checked.

    Parameters
    ----------
    prompt : OmniPrompt
        From `read`.
    rules : OmniRules
        The reference's, or a release's.
    before : OmniPositions, optional
        What the prompt follows.

    Returns
    -------
    OmniPositions
        The positions.
    """
    dtype, batch = _dtype(prompt), len(prompt.rows)
    # without any grid the engine only counts, also where it else leaves 0 at masked places
    counted = not prompt.media
    pad = int(rules.padding == "one" and (counted or dtype == np.int64))
    out = np.full((3, *prompt.shape), pad, dtype)
    largest, base, run = (
        np.full(batch, -1, dtype),
        np.zeros(batch, dtype),
        np.zeros(batch, np.int64),
    )
    counts = prompt.counts
    if before is not None:
        largest, base, run = before._largest.copy(), before._base.copy(), before._run.copy()
        counts = counts + before._unmasked
    for row, segments in enumerate(prompt.rows):
        pieces = []
        for segment in segments:
            if segment.kind == "text":
                pieces.append(_count(segment.tokens, base[row], dtype, int(run[row])))
                run[row] += segment.tokens
                continue
            placed, following = _place(prompt, segment, base[row] + dtype(run[row]), rules)
            base[row], run[row] = following, 0
            pieces.append(placed)
        if pieces:
            found = np.concatenate(pieces, axis=1)
            out[:, row, prompt.keep[row]] = found
            largest[row] = max(largest[row], found.max())
    tops = largest
    if rules.deltas == "over_padding" and counted:
        tops = np.where(prompt.keep.all(axis=1), largest, np.maximum(largest, dtype(pad)))
    deltas = (tops + dtype(1) - counts.astype(dtype)).astype(dtype)
    by_release = rules != OmniRules()
    return OmniPositions(
        prompt, out, largest, deltas, (base, run), by_release=by_release, before=before
    )


def _place(prompt: OmniPrompt, segment: Segment, start: Any, rules: OmniRules) -> tuple[Array, Any]:
    """Positions of a segment that begins at ``start``, and where the next one begins."""
    dtype = _dtype(prompt)
    if segment.kind == "mixed":
        return _place_mixed(prompt, segment, start, rules)
    if segment.kind in ("image", "video"):
        found = _item(prompt, segment) + start
    elif _shares(prompt, segment):
        return np.full((3, 2), start), start + dtype(1)
    else:
        found = _count(segment.tokens, start, dtype)
    if segment.kind == "start":
        return found, start + dtype(segment.tokens)
    return found, found.max() + dtype(1)


def _shares(prompt: OmniPrompt, segment: Segment) -> bool:
    """Two starts, or two ends, share a position where chunks take turns."""
    marks = segment.kind in ("start", "end") and segment.tokens == 2
    return marks and prompt.row.audio_in_video == "chunks"


def _place_mixed(
    prompt: OmniPrompt, segment: Segment, start: Any, rules: OmniRules
) -> tuple[Array, Any]:
    """A video with its own sound: each token at the place of its own kind."""
    dtype, row = _dtype(prompt), prompt.row
    order = segment.kinds
    assert order is not None
    video = _item(prompt, segment) + start
    sound = _count(int(order.sum()), start, dtype)
    if rules.order == "recomputed":
        # the model compares times that already stand behind what came before
        shift = start if dtype is np.int64 else dtype(0)
        order = merged(row, video[0] - shift, sound[0] - shift)
    both = np.empty((3, segment.tokens), dtype)
    both[:, order], both[:, ~order] = sound, video
    last = both
    if rules.resume == "last_piece":
        if row.audio_in_video == "merge":
            other = np.flatnonzero(order != order[-1])
            last = both[:, int(other[-1]) + 1 if len(other) else 0 :]
        else:
            of_video, of_sound = chunks(row, video[0] - start), chunks(row, sound[0] - start)
            last = sound[:, of_sound == of_sound[-1]]
            if of_video[-1] > of_sound[-1]:
                last = video[:, of_video == of_video[-1]]
    return both, last.max() + dtype(1)


def _dtype(prompt: OmniPrompt) -> Any:
    """Fractions of a position where the family keeps them."""
    return np.float32 if prompt.row.audio_in_video == "merge" else np.int64


def _count(tokens: int, start: Any, dtype: Any, first: int = 0) -> Array:
    """One after another; a run that goes on counts from where it began, for floats' sake."""
    return np.repeat((np.arange(first, first + tokens).astype(dtype) + start)[None], 3, axis=0)


def _item(prompt: OmniPrompt, segment: Segment) -> Array:
    """(t, h, w) of every token of an image or a video from its start, t-major."""
    dtype = _dtype(prompt)
    grid = prompt.image_grid if segment.kind == "image" else prompt.video_grid
    t, h, w = (grid[segment.item] // (1, prompt.merge, prompt.merge)).tolist()
    times = np.zeros(1, np.float32)
    if segment.kind != "image":
        step = np.arange(t).astype(np.float32) * prompt.seconds[segment.item]
        times = step * np.float32(prompt.rate)
    time = np.repeat(times.astype(dtype), h * w)
    y = np.tile(np.repeat(np.arange(h), w), len(times)).astype(dtype)
    x = np.tile(np.arange(w), len(times) * h).astype(dtype)
    return np.stack([time, y, x])
