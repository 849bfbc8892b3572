"""From segments to positions."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mmref.audio.interleave import chunks, merged
from mmref.differences.rules import OmniRules
from mmref.omni.prompt import OmniPrompt, Segment, refuse
from mmref.positions import Positions

__all__ = ["OmniPositions", "positions"]

Array = npt.NDArray[Any]


class OmniPositions(Positions):
    """Positions of a prompt with audio.

    ``position_ids`` is int64, or float32 where the family's positions are fractions of a
    second (qwen3_omni_moe), and so are ``deltas``. Later turns, rewinding and other rows are
    not described for these families.
    """

    __slots__ = ()

    def __init__(
        self, positions: Array, largest: Array, counts: Array, deltas: Array, mask: Array
    ) -> None:
        self.position_ids = positions
        self.deltas = deltas
        self.first_slot = 0
        self.next_slot = positions.shape[2]
        self._largest = largest
        self._unmasked = counts
        self._mask = mask
        self._rules = None
        self._before = None

    def next_positions(self, count: int) -> Array:
        """Positions of generated tokens: one more than the row's largest, and so on.

        Parameters
        ----------
        count : int
            How many tokens follow in each row.

        Returns
        -------
        numpy.ndarray
            Shape (3, batch, count), of the dtype of ``position_ids``.
        """
        return super().next_positions(count).astype(self.position_ids.dtype)

    @property
    def layout(self) -> Any:
        """Not described for these families."""
        raise refuse("omni-not-supported", "layout", "not described for families with audio")

    def extend(self, *arguments: Any, **named: Any) -> Positions:
        """Not described for these families; see `mmref.mrope.position_ids`."""
        raise refuse("omni-not-supported", "extend", "not described for families with audio")

    def rewind(self, slots: int) -> Positions:
        """Not described for these families.

        Parameters
        ----------
        slots : int
            Not used.
        """
        raise refuse("omni-not-supported", "rewind", "not described for families with audio")

    def take_rows(self, rows: Any) -> Positions:
        """Not described for these families.

        Parameters
        ----------
        rows : array_like of int
            Not used.
        """
        raise refuse("omni-not-supported", "take_rows", "not described for families with audio")


def positions(prompt: OmniPrompt, rules: OmniRules) -> OmniPositions:
    """Positions of a prompt that is checked.

    Parameters
    ----------
    prompt : OmniPrompt
        From `read`.
    rules : OmniRules
        The reference's, or a release's.

    Returns
    -------
    OmniPositions
        The positions.
    """
    dtype = _dtype(prompt)
    # without any grid the engine only counts, also where it else leaves 0 at masked places
    counted = not prompt.media
    pad = int(rules.padding == "one" and (counted or dtype == np.int64))
    out = np.full((3, *prompt.shape), pad, dtype)
    largest = np.full(len(prompt.rows), -1, dtype)
    for row, segments in enumerate(prompt.rows):
        start, pieces = dtype(0), []
        for segment in segments:
            placed, start = _place(prompt, segment, start, rules)
            pieces.append(placed)
        if pieces:
            found = np.concatenate(pieces, axis=1)
            out[:, row, prompt.keep[row]] = found
            largest[row] = found.max()
    counts = np.array([sum(part.tokens for part in parts) for parts in prompt.rows], np.int64)
    base = largest
    if rules.deltas == "over_padding" and counted:
        base = np.where(prompt.keep.all(axis=1), largest, np.maximum(largest, dtype(pad)))
    deltas = (base + dtype(1) - counts.astype(dtype)).astype(dtype)
    return OmniPositions(out, largest, counts, deltas, prompt.keep)


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
    if segment.kind in ("text", "start"):
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


def _count(tokens: int, start: Any, dtype: Any) -> Array:
    return np.repeat((np.arange(tokens).astype(dtype) + start)[None], 3, axis=0)


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
