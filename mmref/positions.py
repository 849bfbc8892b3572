"""The positions of a prompt, and of all that follows it.

A `Positions` is one stretch of tokens: a prompt, or what a later turn appends.
It knows the stretch before it, so that appending costs what is appended, and
any chunk, also across turns and inside an image, is the slice of the whole.

The cache slot of a token (its index in the padded row) and its rope position
are two numbers: they part as soon as a prompt holds an image.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mmref import spans
from mmref.arrays import row_numbers
from mmref.errors import RefusedPrompt
from mmref.kernels import layout as layout_kernel
from mmref.kernels import mrope as kernel
from mmref.layout import Layout
from mmref.prompt import Prompt, read_prompt
from mmref.refusals import require_reference

if TYPE_CHECKING:
    from mmref.differences import PositionRules

__all__ = ["Positions", "by_reference"]

IntArray = npt.NDArray[np.int64]


class Positions:
    """The positions of a stretch of tokens and of the tokens that follow it.

    Attributes
    ----------
    position_ids : numpy.ndarray
        int64, shape (3, batch, seq); axes time, height, width. Masked places hold 0.
    deltas : numpy.ndarray
        int64, shape (batch,): the row's largest position plus one, minus its number
        of unmasked tokens, both counted from the first stretch on.
    first_slot, next_slot : int
        Cache slot (token index in the padded row) of the first token, and of the next
        one to come.
    """

    __slots__ = (
        "_before",
        "_inside_videos",
        "_largest",
        "_mask",
        "_prompt",
        "_rules",
        "_table",
        "_unmasked",
        "deltas",
        "first_slot",
        "next_slot",
        "position_ids",
    )

    def __init__(
        self,
        prompt: Prompt,
        positions: IntArray,
        table: IntArray,
        largest: IntArray,
        unmasked: IntArray,
        inside_videos: IntArray | None,
        *,
        mask: npt.NDArray[Any] | None = None,
        rules: PositionRules | None = None,
        before: Positions | None = None,
        deltas: IntArray | None = None,
    ) -> None:
        self.position_ids = positions
        self.deltas = largest + 1 - unmasked if deltas is None else deltas
        self.first_slot: int = 0 if before is None else before.next_slot
        self.next_slot: int = self.first_slot + positions.shape[2]
        self._prompt = prompt
        self._table = table
        self._largest = largest
        self._unmasked = unmasked
        self._inside_videos = inside_videos
        self._mask = mask
        self._rules = rules
        self._before = before

    def __repr__(self) -> str:
        axes, batch, length = self.position_ids.shape
        slots = f"slots {self.first_slot}..{self.next_slot - 1}"
        return f"<Positions {axes} x {batch} x {length}, {slots}, deltas {self.deltas.tolist()}>"

    @property
    def layout(self) -> Layout:
        """The spans that were placed, counted from the first token of this stretch."""
        return Layout(self._table.copy(), self.position_ids.shape[1:])

    def next_positions(self, count: int) -> IntArray:
        """The positions of generated tokens.

        Parameters
        ----------
        count : int
            How many tokens follow in each row.

        Returns
        -------
        numpy.ndarray
            int64, shape (3, batch, count). By the reference, the row's largest
            position plus one, and so on, on every axis.

        Raises
        ------
        TypeError, ValueError
            If ``count`` is not an integer, or negative.

        Examples
        --------
        >>> from mmref import mrope
        >>> mrope.position_ids([5, 6], family="qwen2_vl").next_positions(2)[:, 0].tolist()
        [[2, 3], [2, 3], [2, 3]]
        """
        count = operator.index(count)
        if count < 0:
            raise ValueError(f"count: {count}, expected at least 0")
        axes, batch, _ = self.position_ids.shape
        steps = np.arange(1, count + 1)
        decode = "max" if self._rules is None else self._rules.decode
        if decode == "last_column":
            return self.position_ids[:, :, -1:] + steps
        largest = self._largest
        if decode == "empty_row_is_zero":
            largest = np.maximum(largest, 0)
        following = largest[:, None] + steps
        return np.broadcast_to(following, (axes, batch, count)).copy()

    def attention_mask(self, following: int = 0) -> IntArray:
        """The mask of these tokens and of generated ones.

        Parameters
        ----------
        following : int
            How many generated tokens the mask covers.

        Returns
        -------
        numpy.ndarray
            int64, shape (batch, seq + following), 1 for tokens that exist.

        Examples
        --------
        >>> from mmref import mrope
        >>> r = mrope.position_ids([[0, 5]], family="qwen2_vl", attention_mask=[[0, 1]])
        >>> r.attention_mask(1).tolist()
        [[0, 1, 1]]
        """
        _, batch, length = self.position_ids.shape
        mask = np.ones((batch, length + following), np.int64)
        hidden = following and self._rules is not None and self._rules.decode_mask == "ones"
        if self._mask is not None and not hidden:
            mask[:, :length] = self._mask
        return mask

    def extend(
        self,
        input_ids: Any,
        *,
        image_grid_thw: Any = None,
        video_grid_thw: Any = None,
        second_per_grid_ts: Any = None,
        attention_mask: Any = None,
    ) -> Positions:
        """The positions of tokens that are appended: generated ones, or a next turn with media.

        Parameters
        ----------
        input_ids : array_like of int, shape (batch, new) or (new,)
            The new tokens alone.
        image_grid_thw, video_grid_thw : array_like of int, shape (items, 3), optional
            Grids of the new items alone, in row order.
        second_per_grid_ts : array_like of float, shape (videos,), optional
            Seconds of the new videos alone.
        attention_mask : array_like of bool or 0/1, shape (batch, new), optional
            True for tokens that exist. Default: all of them.

        Returns
        -------
        Positions
            Of the new tokens; equal to the tail of the joined prompt's, with its deltas.
            The cost depends on what is appended, not on what came before.

        Raises
        ------
        RefusedPrompt
            If the new tokens and grids are not consistent, or the batch is another.

        Notes
        -----
        Source: a cache that holds a prompt's first tokens changes nothing about the
        positions of the others (rule 4 of docs/explanation/rules.md counts on).

        Examples
        --------
        >>> from mmref import mrope
        >>> from mmref.families import TokenIds
        >>> first = mrope.position_ids([5, 10, 10], family="qwen2_vl",
        ...     image_grid_thw=[[1, 2, 4]], token_ids=TokenIds(image=10, video=11))
        >>> turn = first.extend([6, 10, 10], image_grid_thw=[[1, 2, 4]])
        >>> turn.position_ids[2].tolist(), turn.next_slot, turn.next_positions(1)[0].tolist()
        ([[3, 4, 5]], 6, [[6]])
        """
        require_reference("extend", self._rules)
        before = self._prompt
        prompt = read_prompt(
            input_ids,
            family=before.family.name,
            image_grid_thw=image_grid_thw,
            video_grid_thw=video_grid_thw,
            second_per_grid_ts=second_per_grid_ts,
            attention_mask=attention_mask,
            token_ids=before.token_ids,
            spatial_merge_size=before.merge,
            tokens_per_second=before.rate if before.family.time == "seconds" else None,
        )
        if len(prompt.ids) != len(before.ids):
            raise RefusedPrompt(
                "extend-batch",
                where="input_ids",
                got=f"{len(prompt.ids)} rows",
                expected=f"{len(before.ids)}, as before",
                hint="take rows first if requests have ended",
            )
        return by_reference(prompt, before=self)

    def chunk(self, start: int, stop: int) -> IntArray:
        """The positions of any stretch of slots, also from inside an image.

        Parameters
        ----------
        start, stop : int
            First slot and one past the last, counted from the first stretch on.

        Returns
        -------
        numpy.ndarray
            int64, shape (3, batch, stop - start): the slice of the whole.

        Raises
        ------
        RefusedPrompt
            If the slots are not all inside.

        Examples
        --------
        >>> from mmref import mrope
        >>> r = mrope.position_ids([5, 6, 7], family="qwen2_vl")
        >>> r.chunk(1, 3)[0].tolist()
        [[1, 2]]
        """
        start, stop = operator.index(start), operator.index(stop)
        if not 0 <= start <= stop <= self.next_slot:
            raise RefusedPrompt(
                "slot-outside",
                where="chunk",
                got=f"slots {start} to {stop}",
                expected=f"a stretch of 0 to {self.next_slot}",
            )
        parts = [
            part.position_ids[
                :, :, max(start - part.first_slot, 0) : max(stop - part.first_slot, 0)
            ]
            for part in self._stretches()
        ]
        return np.concatenate(parts[::-1], axis=2)

    def rewind(self, slots: int) -> Positions:
        """The state as if only the first tokens had been given.

        Parameters
        ----------
        slots : int
            How many tokens of each padded row are kept.

        Returns
        -------
        Positions
            To extend or decode from; its deltas and next positions are those of a
            prompt that ends there.

        Raises
        ------
        RefusedPrompt
            If there are not so many tokens, or the cut is inside an item.

        Examples
        --------
        >>> from mmref import mrope
        >>> r = mrope.position_ids([5, 6, 7], family="qwen2_vl")
        >>> r.rewind(1).extend([8]).position_ids[0].tolist()
        [[1]]
        """
        require_reference("rewind", self._rules)
        slots = operator.index(slots)
        if not 0 <= slots <= self.next_slot:
            raise RefusedPrompt(
                "slot-outside",
                where="rewind",
                got=f"{slots} tokens",
                expected=f"from 0 to {self.next_slot}",
            )
        part = self
        while part._before is not None and slots <= part.first_slot:
            part = part._before
        return part if slots == part.next_slot else part._cut(slots - part.first_slot)

    def take_rows(self, rows: Any) -> Positions:
        """Other rows, or the same ones in another order or number: beams, requests that end.

        Parameters
        ----------
        rows : array_like of int, shape (rows,)
            Rows of the batch; ``np.repeat(np.arange(batch), beams)`` expands beams.

        Returns
        -------
        Positions
            Of all stretches as one, each delta with its row.

        Raises
        ------
        RefusedPrompt
            If a row is not one of the batch.

        Examples
        --------
        >>> from mmref import mrope
        >>> r = mrope.position_ids([[5, 6], [7, 0]], family="qwen2_vl",
        ...                        attention_mask=[[1, 1], [1, 0]])
        >>> r.take_rows([1, 1, 0]).next_positions(1)[0].tolist()
        [[1], [1], [2]]
        """
        require_reference("take_rows", self._rules)
        chosen = row_numbers(rows, self.position_ids.shape[1])
        stretches = list(self._stretches())[::-1]
        masks = [np.broadcast_to(part._unmasked_places(), part._shape) for part in stretches]
        table = spans.joined(
            (part._table for part in stretches), (part.first_slot for part in stretches)
        )
        ids = np.concatenate([part._prompt.ids for part in stretches], axis=1)[chosen]
        mask = np.concatenate(masks, axis=1)[chosen].astype(np.uint8)
        inside = self._inside_videos
        return Positions(
            self._prompt.with_tokens(ids, mask),
            self.chunk(0, self.next_slot)[:, chosen],
            spans.of_rows(table, chosen.tolist()),
            self._largest[chosen],
            self._unmasked[chosen],
            None if inside is None else inside[chosen],
            mask=mask,
        )

    @property
    def _shape(self) -> tuple[int, int]:
        _, batch, length = self.position_ids.shape
        return batch, length

    def _stretches(self) -> Iterator[Positions]:
        """This stretch and those before it, last first."""
        part: Positions | None = self
        while part is not None:
            yield part
            part = part._before

    def _unmasked_places(self) -> npt.NDArray[np.bool_]:
        return np.ones(self._shape, bool) if self._mask is None else self._mask != 0

    def _cut(self, length: int) -> Positions:
        """The first tokens of this stretch, with the state that they leave."""
        ids = self._prompt.ids[:, :length]
        kept = self._unmasked_places()[:, :length]
        table = spans.first_tokens(self._table, kept, length)
        before = self._before
        batch = len(ids)
        largest = np.full(batch, -1) if before is None else before._largest.copy()
        unmasked = np.zeros(batch, np.int64) if before is None else before._unmasked.copy()
        tops = np.where(kept, self.position_ids[:, :, :length].max(axis=0), -1)
        largest = np.maximum(largest, tops.max(axis=1, initial=-1))
        unmasked += kept.sum(axis=1)
        inside_videos = np.zeros(batch, np.int64)
        if before is not None and before._inside_videos is not None:
            inside_videos += before._inside_videos
        token_ids = self._prompt.token_ids
        for marker, step in ((token_ids.video_start, 1), (token_ids.video_end, -1)):
            if marker is not None:
                inside_videos += step * ((ids == marker) & kept).sum(axis=1)
        mask = None if self._mask is None else self._mask[:, :length]
        return Positions(
            self._prompt.with_tokens(np.ascontiguousarray(ids), kept.astype(np.uint8)),
            self.position_ids[:, :, :length].copy(),
            table,
            largest,
            unmasked,
            inside_videos,
            mask=mask,
            before=before,
        )


def by_reference(prompt: Prompt, *, before: Positions | None = None) -> Positions:
    """Positions of a prompt by the reference.

    Parameters
    ----------
    prompt : Prompt
        From `mmref.prompt.read_prompt`.
    before : Positions, optional
        What the prompt follows.

    Returns
    -------
    Positions
        The positions.

    Raises
    ------
    RefusedPrompt
        If the prompt is not consistent.
    """
    batch, length = prompt.ids.shape
    fault = np.zeros(layout_kernel.FAULT_FIELDS, np.int64)
    table = np.empty((prompt.check_grids(fault), layout_kernel.COLUMNS), np.int64)
    out = np.empty((3, batch, length), np.int64)
    if before is None:
        largest = np.empty(batch, np.int64)
        largest.fill(-1)
        unmasked = np.zeros(batch, np.int64)
        inside_videos = np.zeros(batch, np.int64)
    else:
        largest = before._largest.copy()
        unmasked = before._unmasked.copy()
        inside_videos = np.zeros(batch, np.int64)
        if before._inside_videos is not None:
            inside_videos += before._inside_videos
    timed = prompt.family.time == "seconds"
    count = kernel.position_ids(
        *prompt.scan_arguments(),
        prompt.seconds,
        prompt.rate,
        kernel.TIME_SECONDS if timed else kernel.TIME_INDEX,
        inside_videos,
        table,
        largest,
        unmasked,
        fault,
        out,
    )
    prompt.raise_fault(fault)
    mask = prompt.mask if prompt.masked else None
    return Positions(
        prompt, out, table[:count], largest, unmasked, inside_videos, mask=mask, before=before
    )
