"""Lengths and masks through strided layers."""

from __future__ import annotations

from numba import njit

# columns of a stage
SPAN, STRIDE, PADDED, SHIFT = 0, 1, 2, 3
COLUMNS = 4

NO_SHIFT = -1  # the stride is no power of two

WINDOWS_FIRST, WINDOWS_LAST = 0, 1


@njit(cache=True, nogil=True)
def through(frames, stages):
    """Outputs of all stages for one clip.

    A layer with room for its taps makes floor((frames + padding - span) / stride) + 1
    outputs; one without room, or without frames, makes none.
    """
    for at in range(stages.shape[0]):
        room = frames + stages[at, PADDED] - stages[at, SPAN]
        if frames <= 0 or room < 0:
            return 0
        # a shift is a division that takes one cycle instead of twenty
        if stages[at, SHIFT] != NO_SHIFT:
            frames = (room >> stages[at, SHIFT]) + 1
        else:
            frames = room // stages[at, STRIDE] + 1
    return frames


@njit(cache=True, nogil=True)
def output_length(frames, stages, window, window_outputs, order):
    """Outputs of one clip, by windows where the family has them (``window`` 0: it has none)."""
    if window == 0:
        return through(frames, stages)
    if order == WINDOWS_FIRST:
        return through(frames % window, stages) + frames // window * window_outputs
    blocks = (through(frames, stages) + window - 1) // window
    return blocks * window_outputs


@njit(cache=True, nogil=True)
def output_lengths(lengths, stages, window, window_outputs, order, out):
    """Outputs of every clip."""
    for clip in range(lengths.shape[0]):
        out[clip] = output_length(lengths[clip], stages, window, window_outputs, order)


@njit(cache=True, nogil=True)
def count(mask, counts):
    """Valid frames of every row; all bits of the values together, to tell 0 and 1 from others."""
    seen = 0
    for row in range(mask.shape[0]):
        valid = 0
        for frame in range(mask.shape[1]):
            value = int(mask[row, frame])  # wide enough for a sum, also uncompiled
            valid += value
            seen |= value
        counts[row] = valid
    return seen


@njit(cache=True, nogil=True)
def fill_prefixes(counts, out):
    """The first ``counts`` places of each row are valid, the others are not."""
    for row in range(out.shape[0]):
        stop = min(counts[row], out.shape[1])
        for place in range(stop):
            out[row, place] = True
        for place in range(stop, out.shape[1]):
            out[row, place] = False


@njit(cache=True, nogil=True)
def every(mask, step, out):
    """Places 0, step, 2 step, ... of each row."""
    for row in range(out.shape[0]):
        line, target = mask[row, ::step], out[row]
        for place in range(target.shape[0]):
            target[place] = line[place] != 0
