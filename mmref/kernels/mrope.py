"""Place and fill: from spans to 3-D rotary positions. The rule is docs/explanation/rules.md.

The numbers of the rules that releases differ in are constants here; rule 0 of
each is the reference.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from mmref.kernels.layout import (
    COUNT,
    FAULT_CODE,
    GRID_H,
    GRID_T,
    GRID_W,
    ITEM,
    KIND,
    LARGEST,
    OK,
    POSITION,
    POSITION_TOO_LARGE,
    ROW,
    START,
    STOP,
    TEXT,
    VIDEO,
    report,
    scan,
)

# where text resumes after an item
RESUME_MAX = 0  # the largest position of the item on any axis, plus one
RESUME_SPATIAL = 1  # the item's start plus max(h, w); time is ignored

# the position a row starts at
START_ZERO = 0
START_ONE_AFTER_FIRST = 1  # rows after the first that hold media start at 1

# what the time axis of a video counts, for grid step i
TIME_INDEX = 0  # i
TIME_SECONDS = 1  # truncate(float32(i) * (float32(rate) * float32(seconds)))
TIME_SECONDS_FLOAT64 = 2  # the product rate * seconds in float64, then as above
TIME_SECONDS_ROUNDED = 3  # round((float32(i) * seconds) * rate), halves away from zero
TIME_SECONDS_WHOLE = 4  # i * truncate(seconds) * rate, whole numbers until a fractional rate
TIME_SECONDS_ALL_FLOAT64 = 6  # truncate(i * (seconds * rate)) in float64
TIME_SECONDS_BEFORE_RATE = 5  # truncate((float32(i) * float32(seconds)) * float32(rate))


@njit(cache=True, nogil=True)
def time_position(step, seconds, rate, rule):
    """Time of grid step ``step`` of a video, in positions after its start, before truncation."""
    if rule == TIME_SECONDS_ALL_FLOAT64:
        return step * (np.float64(np.float32(seconds)) * rate)
    if rule == TIME_SECONDS_WHOLE:
        steps = step * float(math.trunc(seconds))
        if rate == math.floor(rate):
            return steps * rate
        return np.float64(np.float32(steps) * np.float32(rate))
    return np.float64(time_in_float32(np.float32(step), seconds, rate, rule))


@njit(cache=True, nogil=True)
def time_in_float32(i, seconds, rate, rule):
    """The same for the rules that compute in float32."""
    if rule == TIME_SECONDS_ROUNDED:
        time = (i * np.float32(seconds)) * np.float32(rate)
        whole = np.float32(math.floor(time))
        if time - whole >= np.float32(0.5):
            whole += np.float32(1.0)
        return whole
    if rule == TIME_SECONDS_BEFORE_RATE:
        return (i * np.float32(seconds)) * np.float32(rate)
    if rule == TIME_SECONDS_FLOAT64:
        interval = np.float32(rate * seconds)
    else:
        interval = np.float32(rate) * np.float32(seconds)
    return i * interval


@njit(cache=True, nogil=True)
def place(
    spans, count, seconds, rate, time_rule, resume_rule, start_rule, largest, unmasked, fault
):
    """Give every span its first position; per row the largest position and the token count.

    ``largest`` and ``unmasked`` hold what came before, and then also what is placed. A row
    without tokens has ``largest`` -1: its first token takes position 0.
    """
    cursor = 0
    row_before = -1
    for at in range(count):
        row = spans[at, ROW]
        if row != row_before:
            cursor = largest[row] + 1
            row_before = row
            # a row without media is one span, of text
            media = spans[at, KIND] != TEXT or (at + 1 < count and spans[at + 1, ROW] == row)
            if start_rule == START_ONE_AFTER_FIRST and row > 0 and media:
                cursor = 1
        spans[at, POSITION] = cursor
        unmasked[row] += spans[at, COUNT]
        if spans[at, KIND] == TEXT:
            top = cursor + spans[at, COUNT] - 1
            cursor = top + 1
        else:
            t, h, w = spans[at, GRID_T], spans[at, GRID_H], spans[at, GRID_W]
            last = t - 1
            if time_rule != TIME_INDEX and spans[at, KIND] == VIDEO:
                time = time_position(last, seconds[spans[at, ITEM]], rate, time_rule)
                if not time < LARGEST:
                    return report(
                        fault,
                        POSITION_TOO_LARGE,
                        row,
                        VIDEO,
                        spans[at, ITEM],
                        spans[at, START],
                        spans[at, STOP],
                        0,
                        LARGEST,
                    )
                last = int(time)
            top = cursor + max(last, h - 1, w - 1)
            if resume_rule == RESUME_SPATIAL:
                cursor += max(h, w)
            else:
                cursor = top + 1
        if top > LARGEST:
            return report(
                fault,
                POSITION_TOO_LARGE,
                row,
                spans[at, KIND],
                spans[at, ITEM],
                spans[at, START],
                spans[at, STOP],
                top,
                LARGEST,
            )
        largest[row] = max(largest[row], top)
    return OK


@njit(cache=True, nogil=True)
def level(out, value):
    """The same position for every token of a stretch."""
    for k in range(out.shape[0]):
        out[k] = value


@njit(cache=True, nogil=True)
def ramp(out, start):
    """Positions that count up by one."""
    for k in range(out.shape[0]):
        out[k] = start + k


@njit(cache=True, nogil=True)
def fill(spans, count, mask, seconds, rate, time_rule, out):
    """Write the positions of every span into ``out`` (3, batch, seq); masked places hold 0."""
    at = 0
    for row in range(out.shape[1]):
        index = 0
        while at < count and spans[at, ROW] == row:
            clear(out, row, index, spans[at, START])
            index = spans[at, STOP]
            whole = spans[at, COUNT] == spans[at, STOP] - spans[at, START]
            mask_row = mask[row if not whole else 0]
            if spans[at, KIND] == TEXT:
                fill_text(spans[at], whole, mask_row, out)
            else:
                timed = time_rule != TIME_INDEX and spans[at, KIND] == VIDEO
                pace = seconds[spans[at, ITEM]] if timed else 0.0
                rule = time_rule if timed else TIME_INDEX
                fill_item(spans[at], whole, mask_row, pace, rate, rule, out)
            at += 1
        clear(out, row, index, out.shape[2])


@njit(cache=True, nogil=True)
def clear(out, row, start, stop):
    """Masked places hold 0."""
    for axis in range(3):
        level(out[axis, row, start:stop], 0)


@njit(cache=True, nogil=True)
def fill_text(span, whole, mask, out):
    """Text counts up by one, alike on all axes; masked tokens take no position."""
    row = span[ROW]
    if whole:
        for axis in range(3):
            ramp(out[axis, row, span[START] : span[STOP]], span[POSITION])
        return
    position = span[POSITION]
    for index in range(span[START], span[STOP]):
        unmasked = mask[index] != 0
        for axis in range(3):
            out[axis, row, index] = position if unmasked else 0
        position += unmasked


@njit(cache=True, nogil=True)
def fill_item(span, whole, mask, seconds, rate, time_rule, out):
    """Token (i, y, x) of an item at p takes (p + time(i), p + y, p + x), in t-major order."""
    row = span[ROW]
    start = span[POSITION]
    index = span[START]
    t, h, w = span[GRID_T], span[GRID_H], span[GRID_W]
    for i in range(t):
        time = start + i
        if time_rule != TIME_INDEX:
            time = start + int(time_position(i, seconds, rate, time_rule))
        if whole:
            level(out[0, row, index : index + h * w], time)
            for y in range(h):
                level(out[1, row, index : index + w], start + y)
                ramp(out[2, row, index : index + w], start)
                index += w
            continue
        for y in range(h):
            for x in range(w):
                while mask[index] == 0:
                    for axis in range(3):
                        out[axis, row, index] = 0
                    index += 1
                out[0, row, index] = time
                out[1, row, index] = start + y
                out[2, row, index] = start + x
                index += 1


@njit(cache=True, nogil=True)
def position_ids(
    ids,
    mask,
    masked,
    image_grid,
    video_grid,
    merge,
    split,
    image_id,
    video_id,
    markers,
    video_start_id,
    video_end_id,
    seconds,
    rate,
    time_rule,
    inside_videos,
    spans,
    largest,
    unmasked,
    fault,
    out,
):
    """Scan, place and fill a batch by the rules of the reference; returns the number of spans."""
    count = scan(
        ids,
        mask,
        masked,
        image_grid,
        video_grid,
        merge,
        split,
        image_id,
        video_id,
        markers,
        video_start_id,
        video_end_id,
        inside_videos,
        spans,
        fault,
    )
    if fault[FAULT_CODE] != OK:
        return 0
    place(
        spans,
        count,
        seconds,
        rate,
        time_rule,
        RESUME_MAX,
        START_ZERO,
        largest,
        unmasked,
        fault,
    )
    if fault[FAULT_CODE] != OK:
        return 0
    fill(spans, count, mask, seconds, rate, time_rule, out)
    return count
