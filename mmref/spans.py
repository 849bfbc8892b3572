"""Tables of spans, taken apart and put together: for chunks of turns, rewinds and rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from mmref.errors import RefusedPrompt
from mmref.kernels.layout import COUNT, KIND, ROW, START, STOP, TEXT
from mmref.refusals import KINDS

__all__ = ["first_tokens", "joined", "of_rows"]

Table = npt.NDArray[np.int64]


def joined(tables: Iterable[Table], offsets: Iterable[int]) -> Table:
    """Tables of consecutive stretches as one, counted from the first token.

    Parameters
    ----------
    tables : iterable of numpy.ndarray
        int64, the columns of `mmref.kernels.layout`.
    offsets : iterable of int
        Where each stretch starts.

    Returns
    -------
    numpy.ndarray
        int64, stretch by stretch.
    """
    moved = []
    for table, offset in zip(tables, offsets, strict=True):
        copy = table.copy()
        copy[:, [START, STOP]] += offset
        moved.append(copy)
    return np.concatenate(moved)


def of_rows(table: Table, rows: Sequence[int]) -> Table:
    """The spans of some rows, renumbered in the order given.

    Parameters
    ----------
    table : numpy.ndarray
        int64, a table.
    rows : sequence of int
        Rows of the batch, perhaps repeated.

    Returns
    -------
    numpy.ndarray
        int64, row by row.
    """
    chosen = [table[:0]]
    for new, old in enumerate(rows):
        copy = table[table[:, ROW] == old]
        copy[:, ROW] = new
        chosen.append(copy)
    return np.concatenate(chosen)


def first_tokens(table: Table, kept: npt.NDArray[np.bool_], length: int) -> Table:
    """The spans of the first tokens; text alone can be cut.

    Parameters
    ----------
    table : numpy.ndarray
        int64, a table.
    kept : numpy.ndarray
        bool, shape (batch, length): the tokens that exist among the first.
    length : int
        How many tokens of each padded row are left.

    Returns
    -------
    numpy.ndarray
        int64, the spans that are left.

    Raises
    ------
    RefusedPrompt
        ``rewind-inside-item``: an item would be cut.
    """
    left = table[table[:, START] < length].copy()
    over = left[:, STOP] > length
    cut_items = over & (left[:, KIND] != TEXT)
    if cut_items.any():
        row, kind, item = left[cut_items.argmax(), : KIND + 2].tolist()
        raise RefusedPrompt(
            "rewind-inside-item",
            where=f"rewind, row {row}",
            got=f"a cut inside {KINDS[kind]} {item} of its turn",
            expected="a cut before or after it",
            hint="half an item has no grid",
        )
    for at in np.flatnonzero(over):
        left[at, COUNT] = kept[left[at, ROW], left[at, START] :].sum()
        left[at, STOP] = length
    return left
