"""Writing expanded prompts: copies of text and runs of one token."""

from __future__ import annotations

from numba import njit

# columns of a segment
ROW, START, STOP, SOURCE, TOKEN, TYPE = 0, 1, 2, 3, 4, 5
COLUMNS = 6

NO_SOURCE = -1  # the segment is a run of TOKEN


@njit(cache=True, nogil=True)
def write(segments, source, ids, types, mask):
    """Write every segment into the (batch, seq) outputs, which hold padding beforehand.

    A segment is tokens START..STOP of a row: a copy of ``source`` from SOURCE on, or a run
    of TOKEN. All its tokens get TYPE and exist.
    """
    for at in range(segments.shape[0]):
        row, start, stop = segments[at, ROW], segments[at, START], segments[at, STOP]
        first = segments[at, SOURCE]
        token, kind = segments[at, TOKEN], segments[at, TYPE]
        if first == NO_SOURCE:
            for index in range(start, stop):
                ids[row, index] = token
        else:
            for index in range(start, stop):
                ids[row, index] = source[first + index - start]
        for index in range(start, stop):
            types[row, index] = kind
            mask[row, index] = 1
