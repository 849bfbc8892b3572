"""Scan: from token ids and grids to spans. The rule is section 4 of docs/explanation/rules.md.

A span is one row of an int64 table; the columns are named below. Text spans and
item spans alternate in token order; masked tokens belong to no count.
"""

from __future__ import annotations

from numba import njit

# columns of a span
ROW, KIND, ITEM, FRAME, START, STOP, COUNT, GRID_T, GRID_H, GRID_W, POSITION = range(11)
COLUMNS = 11

# kinds of span, and of placeholder
TEXT, IMAGE, VIDEO = 0, 1, 2
AUDIO = 3  # in the layouts of expansions alone: no scan finds it

# columns of the fault record
FAULT_CODE, FAULT_ROW, FAULT_KIND, FAULT_ITEM, FAULT_START, FAULT_STOP = range(6)
FAULT_GOT, FAULT_EXPECTED = 6, 7
FAULT_FIELDS = 8

# fault codes; mmref.layout gives each its name and words
OK = 0
GRID_NOT_POSITIVE = 1
GRID_NOT_DIVISIBLE = 2
GRID_TOO_LARGE = 3
IMAGE_WITH_FRAMES = 4
MASK_VALUE = 5
RUN_SHORTER = 6
RUN_LONGER = 7
NO_ITEM_LEFT = 8
UNUSED_ITEM = 9
POSITION_TOO_LARGE = 10

BLOCK = 64  # tokens that are looked at together

LARGEST = 2**31 - 1  # of a grid value and of a position: what an int32 engine can hold
NO_ID = -(2**63)  # stands for a token id that a family does not have


@njit(cache=True, nogil=True)
def report(fault, code, row, kind, item, start, stop, got, expected):
    """Write one fault; returns its code."""
    fault[FAULT_CODE] = code
    fault[FAULT_ROW] = row
    fault[FAULT_KIND] = kind
    fault[FAULT_ITEM] = item
    fault[FAULT_START] = start
    fault[FAULT_STOP] = stop
    fault[FAULT_GOT] = got
    fault[FAULT_EXPECTED] = expected
    return code


@njit(cache=True, nogil=True)
def check_grids(grid, kind, merge, tokens, split, fault):
    """Check one kind's grid rows; returns how many items they make, at most ``tokens``.

    ``split`` says that a row (t, h, w) is t items (1, h, w). A prompt of
    ``tokens`` tokens cannot hold more items than that: counting stops there.
    """
    items = 0
    for index in range(grid.shape[0]):
        for axis in range(3):
            value = grid[index, axis]
            if value <= 0:
                report(fault, GRID_NOT_POSITIVE, -1, kind, index, axis, axis, value, 1)
                return 0
            if value > LARGEST:
                report(fault, GRID_TOO_LARGE, -1, kind, index, axis, axis, value, LARGEST)
                return 0
            if axis > 0 and value % merge != 0:
                report(fault, GRID_NOT_DIVISIBLE, -1, kind, index, axis, axis, value, merge)
                return 0
        if kind == IMAGE and grid[index, 0] != 1:
            report(fault, IMAGE_WITH_FRAMES, -1, kind, index, 0, 0, grid[index, 0], 1)
            return 0
        items += min(grid[index, 0], tokens) if split else 1
    return min(items, tokens)


@njit(cache=True, nogil=True)
def check_mask(mask, row, fault):
    """The first and last unmasked token of a row and their number: (start, stop, count)."""
    line = mask[row]
    ones = 0
    other = 0
    for index in range(line.shape[0]):  # no branch, so that it runs at the speed of memory
        ones += line[index]
        other |= line[index] >> 1
    if other == 0 and ones == line.shape[0]:
        return 0, line.shape[0], line.shape[0]
    start = -1
    stop = 0
    count = 0
    for index in range(line.shape[0]):
        value = line[index]
        if value == 1:
            if start < 0:
                start = index
            stop = index + 1
            count += 1
        elif value != 0:
            report(fault, MASK_VALUE, row, TEXT, -1, index, index + 1, value, 1)
            return 0, 0, 0
    return max(start, 0), stop, count


@njit(cache=True, nogil=True)
def skip_text(ids, start, stop, image_id, video_id):
    """Skip whole blocks of tokens that are no placeholder; returns where to look closer."""
    while start + BLOCK <= stop:
        block = ids[start : start + BLOCK]
        found = 0
        for index in range(BLOCK):  # no early exit: this is what makes it fast
            found += (block[index] == image_id) | (block[index] == video_id)
        if found > 0:
            break
        start += BLOCK
    return start


@njit(cache=True, nogil=True)
def skip_run(ids, start, stop, placeholder):
    """Skip whole blocks of one placeholder; returns where to look closer."""
    while start + BLOCK <= stop:
        block = ids[start : start + BLOCK]
        found = 0
        for index in range(BLOCK):
            found += block[index] == placeholder
        if found < BLOCK:
            break
        start += BLOCK
    return start


@njit(cache=True, nogil=True)
def item_tokens(t, h, w, limit):
    """Tokens of an item after merging, or ``limit + 1`` if there are more than ``limit``."""
    area = h * w  # both at most 2**31 - 1, so this cannot overflow
    if area > limit or t > limit // area:
        return limit + 1
    return t * area


@njit(cache=True, nogil=True)
def add_span(spans, at, row, kind, item, frame, start, stop, count, t, h, w):
    """Write one span; returns the number of spans."""
    spans[at, ROW] = row
    spans[at, KIND] = kind
    spans[at, ITEM] = item
    spans[at, FRAME] = frame
    spans[at, START] = start
    spans[at, STOP] = stop
    spans[at, COUNT] = count
    spans[at, GRID_T] = t
    spans[at, GRID_H] = h
    spans[at, GRID_W] = w
    spans[at, POSITION] = 0
    return at + 1


@njit(cache=True, nogil=True)
def scan(
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
):
    """Rows of a batch into spans; returns how many.

    A maximal run of one kind of placeholder, masked tokens removed first, holds
    one or more whole items, taken in order from that kind's list, which runs on
    through the batch. With ``markers`` both kinds use the image id, and a
    placeholder is a video's where more video starts than ends stand before it;
    ``inside_videos`` holds that number for each row, before and after.
    """
    batch, length = ids.shape
    limit = batch * length
    at = 0
    image, video, frame = 0, 0, 0
    for row in range(batch):
        first, last, unmasked = 0, length, length
        if masked:
            first, last, unmasked = check_mask(mask, row, fault)
            if fault[FAULT_CODE] != OK:
                return 0
        holes = unmasked != last - first
        inside_video = inside_videos[row]
        index = first
        while index < last:
            # text: up to the next placeholder
            start = index
            stop = index
            count = 0
            kind = TEXT
            if not holes and not markers:
                index = skip_text(ids[row], index, last, image_id, video_id)
                count = index - start
                stop = index
            while index < last:
                if holes and mask[row, index] == 0:
                    index += 1
                    continue
                token = ids[row, index]
                if token == image_id:
                    kind = VIDEO if markers and inside_video > 0 else IMAGE
                    break
                if token == video_id and not markers:
                    kind = VIDEO
                    break
                if markers:
                    if token == video_start_id:
                        inside_video += 1
                    elif token == video_end_id:
                        inside_video -= 1
                count += 1
                index += 1
                stop = index
            if count > 0:
                at = add_span(spans, at, row, TEXT, -1, 0, start, stop, count, 0, 0, 0)
            if kind == TEXT:
                break
            # one run of placeholders: whole items until it ends
            placeholder = image_id if markers or kind == IMAGE else video_id
            items_here = 0
            while True:
                item = image if kind == IMAGE else video
                grid = image_grid if kind == IMAGE else video_grid
                exhausted = item >= grid.shape[0]
                t, h, w, need = 0, 0, 0, limit + 1
                if not exhausted:
                    t = 1 if kind == VIDEO and split else grid[item, 0]
                    h = grid[item, 1] // merge
                    w = grid[item, 2] // merge
                    need = item_tokens(t, h, w, limit)
                start = index
                stop = index
                count = 0
                if not holes:
                    index = skip_run(ids[row], index, min(last, index + need), placeholder)
                    count = index - start
                    stop = index
                while index < last and count < need:
                    if holes and mask[row, index] == 0:
                        index += 1
                        continue
                    if ids[row, index] != placeholder:
                        break
                    count += 1
                    index += 1
                    stop = index
                if count == 0:
                    break  # the run ended with the last item
                if exhausted:
                    code = NO_ITEM_LEFT if items_here == 0 else RUN_LONGER
                    report(fault, code, row, kind, item, start, stop, count, 0)
                    return 0
                if count < need:
                    code = RUN_SHORTER if items_here == 0 else RUN_LONGER
                    report(fault, code, row, kind, item, start, stop, count, need)
                    return 0
                if holes:  # an item starts at its first token, not at what is masked before it
                    while start < stop and mask[row, start] == 0:
                        start += 1
                at = add_span(spans, at, row, kind, item, frame, start, stop, count, t, h, w)
                items_here += 1
                if kind == IMAGE:
                    image += 1
                elif split and frame + 1 < grid[item, 0]:
                    frame += 1
                else:
                    video += 1
                    frame = 0
        inside_videos[row] = inside_video
    if image < image_grid.shape[0]:
        report(fault, UNUSED_ITEM, -1, IMAGE, image, 0, 0, image, image_grid.shape[0])
    elif video < video_grid.shape[0]:
        report(fault, UNUSED_ITEM, -1, VIDEO, video, frame, 0, video, video_grid.shape[0])
    return at
