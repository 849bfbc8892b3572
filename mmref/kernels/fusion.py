"""Fusion: which feature row each token takes, and the copies that follow from it.

A *stream* is one list of feature rows and the token ids that draw from it, in
token order. Kernels copy rows as unsigned integers of the element's width, so
that every value, NaN included, arrives bit for bit and any float dtype works.
"""

from __future__ import annotations

from numba import njit

NO_STREAM = -1
NO_ROW = -1


@njit(cache=True, nogil=True)
def stream_of(token, ids, streams):
    """The stream that a token draws from, or -1 for text."""
    for k in range(ids.shape[0]):
        if token == ids[k]:
            return streams[k]
    return NO_STREAM


@njit(cache=True, nogil=True)
def count(input_ids, stop, ids, streams, counts):
    """Placeholders of each stream in the first ``stop`` tokens of each row: (streams, batch)."""
    for stream in range(counts.shape[0]):
        for row in range(counts.shape[1]):
            counts[stream, row] = 0
    for row in range(input_ids.shape[0]):
        for index in range(stop):
            stream = stream_of(input_ids[row, index], ids, streams)
            if stream != NO_STREAM:
                counts[stream, row] += 1


@njit(cache=True, nogil=True)
def source_rows(input_ids, ids, streams, first, taken, rows, chosen):
    """Give every token its stream and its row there; ``first`` (streams, batch) starts each row.

    ``taken`` (streams,) is scratch space.
    """
    for row in range(input_ids.shape[0]):
        for stream in range(taken.shape[0]):
            taken[stream] = first[stream, row]
        for index in range(input_ids.shape[1]):
            stream = stream_of(input_ids[row, index], ids, streams)
            chosen[row, index] = stream
            if stream == NO_STREAM:
                rows[row, index] = NO_ROW
            else:
                rows[row, index] = taken[stream]
                taken[stream] += 1


@njit(cache=True, nogil=True)
def copy_row(source, out):
    """One row, element by element: LLVM makes a memory copy of it."""
    for k in range(out.shape[0]):
        out[k] = source[k]


@njit(cache=True, nogil=True)
def copy_text(chosen, text, out):
    """Rows of text, from the same place. ``text`` and ``out`` are (tokens, width)."""
    for token in range(chosen.shape[0]):
        if chosen[token] == NO_STREAM:
            copy_row(text[token], out[token])


@njit(cache=True, nogil=True)
def copy_features(chosen, rows, stream, features, out):
    """The feature rows of one stream, each to its token."""
    for token in range(chosen.shape[0]):
        if chosen[token] == stream:
            copy_row(features[rows[token]], out[token])


@njit(cache=True, nogil=True)
def clear_text(chosen, out):
    """Zeros wherever no feature goes."""
    for token in range(chosen.shape[0]):
        if chosen[token] == NO_STREAM:
            for k in range(out.shape[1]):
                out[token, k] = 0
