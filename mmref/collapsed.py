"""Positions whose grid steps have collapsed: an accident of one release, transformers 5.3.

Plain Python over spans: nobody needs it to be fast.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from mmref.kernels import layout as kernel

__all__ = ["place_and_fill"]

IntArray = npt.NDArray[np.int64]


def place_and_fill(
    spans: IntArray, mask: npt.NDArray[np.uint8], intervals: list[int | float], spatial: bool
) -> tuple[IntArray, IntArray, IntArray]:
    """Place spans and write their positions.

    Parameters
    ----------
    spans : numpy.ndarray
        A span table, int64.
    mask : numpy.ndarray
        uint8, shape (batch, seq).
    intervals : list of int or float
        For each span, positions between two grid steps.
    spatial : bool
        Whether text resumes at an item's start plus its larger side, not after its largest.

    Returns
    -------
    tuple of numpy.ndarray
        Positions (3, batch, seq), and per row the largest and the number of tokens.
    """
    batch, length = mask.shape
    out = np.zeros((3, batch, length), np.int64)
    largest = np.full(batch, -1)
    unmasked = np.zeros(batch, np.int64)
    cursors = np.zeros(batch, np.int64)
    for span, interval in zip(spans, intervals, strict=True):
        row, cursor = span[kernel.ROW], cursors[span[kernel.ROW]]
        columns = np.arange(span[kernel.START], span[kernel.STOP])
        columns = columns[mask[row, columns] != 0]
        count = len(columns)
        steps = np.arange(count)
        if span[kernel.KIND] == kernel.TEXT:
            axes = np.stack([steps, steps, steps]) + cursor
            cursors[row] += count
        else:
            t, h, w = span[kernel.GRID_T], span[kernel.GRID_H], span[kernel.GRID_W]
            time = np.full(count, _as_int64(int(cursor) * interval))
            axes = np.stack([time, cursor + steps // (w * t), cursor + steps % w])
            cursors[row] = cursor + max(h, w) if spatial else axes.max() + 1
        span[kernel.POSITION] = cursor
        out[:, row, columns] = axes
        largest[row] = max(largest[row], axes.max())
        unmasked[row] += span[kernel.COUNT]
    return out, largest, unmasked


def _as_int64(value: int | float) -> int:
    """Truncated, and wrapped as int64 wraps."""
    return (math.trunc(value) + 2**63) % 2**64 - 2**63
