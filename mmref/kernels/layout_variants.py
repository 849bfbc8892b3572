"""Other ways to find media than the reference's, for the rules of releases."""

from __future__ import annotations

from numba import njit

from mmref.kernels.layout import (
    COUNT,
    IMAGE,
    NO_ITEM_LEFT,
    RUN_SHORTER,
    TEXT,
    VIDEO,
    add_span,
    item_tokens,
    report,
)

NO_KIND = -1


@njit(cache=True, nogil=True)
def next_start(ids, row, start, vision_start_id, placeholder):
    """The first placeholder at or after ``start + 1`` with a vision_start directly before it."""
    for index in range(start, ids.shape[1] - 1):
        if ids[row, index] == vision_start_id and ids[row, index + 1] == placeholder:
            return index + 1
    return -1


@njit(cache=True, nogil=True)
def count_unmasked(mask, row, start, stop):
    """Unmasked tokens of a stretch."""
    count = 0
    for index in range(start, stop):
        if mask[row, index] != 0:
            count += 1
    return count


@njit(cache=True, nogil=True)
def scan_after_vision_start(
    ids, mask, image_grid, video_grid, merge, image_id, video_id, vision_start_id, spans, fault
):
    """One item for each vision_start with a placeholder directly behind it.

    The item is laid over the tokens that follow, whatever they are; everything
    else is text. The way of ONNX Runtime GenAI (`position_inputs.cpp`).
    """
    batch, length = ids.shape
    at = 0
    image, video = 0, 0
    for row in range(batch):
        images, videos = 0, 0
        for index in range(length - 1):
            if ids[row, index] == vision_start_id:
                if ids[row, index + 1] == image_id:
                    images += 1
                elif ids[row, index + 1] == video_id:
                    videos += 1
        cursor = 0
        for _ in range(images + videos):
            image_at = next_start(ids, row, cursor, vision_start_id, image_id)
            video_at = next_start(ids, row, cursor, vision_start_id, video_id)
            if images == 0:
                image_at = -1
            if videos == 0:
                video_at = -1
            kind = IMAGE if image_at >= 0 and (video_at < 0 or image_at < video_at) else VIDEO
            item = image if kind == IMAGE else video
            grid = image_grid if kind == IMAGE else video_grid
            first = image_at if kind == IMAGE else video_at
            if item >= grid.shape[0]:
                report(fault, NO_ITEM_LEFT, row, kind, item, cursor, length, 0, grid.shape[0])
                return 0
            t, h, w = grid[item, 0], grid[item, 1] // merge, grid[item, 2] // merge
            need = item_tokens(t, h, w, length)
            if first < 0 or first + need > length:  # an item before it covered its vision_start
                room = length - first if first >= 0 else 0
                report(fault, RUN_SHORTER, row, kind, item, first, length, room, need)
                return 0
            if kind == IMAGE:
                image += 1
                images -= 1
            else:
                video += 1
                videos -= 1
            at = add_text(spans, at, mask, row, cursor, first)
            cursor = first + need
            at = add_span(spans, at, row, kind, item, 0, first, cursor, need, t, h, w)
        at = add_text(spans, at, mask, row, cursor, length)
    return at


@njit(cache=True, nogil=True)
def scan_one_item_a_run(
    ids,
    mask,
    image_grid,
    video_grid,
    merge,
    image_id,
    video_id,
    markers,
    video_start_id,
    video_end_id,
    spans,
    repeated,
    fault,
):
    """One item for each run of placeholders, whatever its length.

    Only the total of a row is checked: text and items are laid over its tokens
    one after another. A row that comes to one position repeats it (``repeated``).
    The way of transformers from 5.3 on (``get_rope_index``).
    """
    batch, length = ids.shape
    limit = batch * length
    at = 0
    image, video = 0, 0
    for row in range(batch):
        tokens = count_unmasked(mask, row, 0, length)
        laid = 0
        place = 0  # where the next span goes; runs ahead of, or lags behind, the token read
        inside_video = 0
        kind_before = NO_KIND
        run = 0
        first_span = at
        for index in range(length + 1):
            kind = NO_KIND
            if index < length:
                if mask[row, index] == 0:
                    continue
                kind = TEXT
                token = ids[row, index]
                if token == image_id:
                    kind = VIDEO if markers and inside_video > 0 else IMAGE
                elif markers:
                    if token == video_start_id:
                        inside_video += 1
                    elif token == video_end_id:
                        inside_video -= 1
                elif token == video_id:
                    kind = VIDEO
            if kind == kind_before:
                run += 1
                continue
            if kind_before != NO_KIND:  # a run has ended
                item, need, t, h, w = -1, run, 0, 0, 0
                if kind_before != TEXT:
                    grid = image_grid if kind_before == IMAGE else video_grid
                    item = image if kind_before == IMAGE else video
                    if item >= grid.shape[0]:
                        return report(
                            fault, NO_ITEM_LEFT, row, kind_before, item, index, index, run, item
                        )
                    t, h, w = grid[item, 0], grid[item, 1] // merge, grid[item, 2] // merge
                    need = item_tokens(t, h, w, limit)
                    if kind_before == IMAGE:
                        image += 1
                    else:
                        video += 1
                laid += need
                if laid > tokens:
                    return report(
                        fault, RUN_SHORTER, row, kind_before, item, index, index, run, need
                    )
                while mask[row, place] == 0:
                    place += 1
                start = place
                left = need
                while left > 0:
                    left -= mask[row, place] != 0
                    place += 1
                at = add_span(spans, at, row, kind_before, item, 0, start, place, need, t, h, w)
            kind_before = kind
            run = 1
        if laid < tokens:
            if laid != 1:
                return report(fault, RUN_SHORTER, row, TEXT, -1, 0, length, laid, tokens)
            repeated[row] = 1
            spans[first_span, COUNT] = tokens
    return at


@njit(cache=True, nogil=True)
def find_token(ids, mask, row, start, token):
    """The first unmasked place at or after ``start`` that holds a token, or -1."""
    for index in range(start, ids.shape[1]):
        if mask[row, index] != 0 and ids[row, index] == token:
            return index
    return -1


@njit(cache=True, nogil=True)
def scan_as_many_as_starts(
    ids, mask, image_grid, video_grid, merge, image_id, video_id, vision_start_id, spans, fault
):
    """As many items as there are vision_starts with a placeholder behind them.

    Each is laid over the tokens from the next placeholder on, whatever they are and whether
    or not a vision_start stands before it; everything else is text. A vision_start that
    ends its row is refused. The way of transformers up to 5.2 (``get_rope_index``).
    """
    batch, length = ids.shape
    limit = batch * length
    at = 0
    image, video = 0, 0
    for row in range(batch):
        images, videos = 0, 0
        after_start = False
        for index in range(length):
            if mask[row, index] == 0:
                continue
            token = ids[row, index]
            if after_start and token == image_id:
                images += 1
            elif after_start and token == video_id:
                videos += 1
            after_start = token == vision_start_id
        if after_start:
            report(fault, RUN_SHORTER, row, TEXT, -1, length, length, 0, 1)
            return 0
        place = 0
        for _ in range(images + videos):
            image_at = find_token(ids, mask, row, place, image_id) if images > 0 else length + 1
            video_at = find_token(ids, mask, row, place, video_id) if videos > 0 else length + 1
            kind = IMAGE if image_at < video_at else VIDEO
            first = image_at if kind == IMAGE else video_at
            item = image if kind == IMAGE else video
            grid = image_grid if kind == IMAGE else video_grid
            if image_at < 0 or video_at < 0 or item >= grid.shape[0]:
                report(fault, NO_ITEM_LEFT, row, kind, item, place, length, 0, grid.shape[0])
                return 0
            t, h, w = grid[item, 0], grid[item, 1] // merge, grid[item, 2] // merge
            need = item_tokens(t, h, w, limit)
            if kind == IMAGE:
                image += 1
                images -= 1
            else:
                video += 1
                videos -= 1
            at = add_text(spans, at, mask, row, place, first)
            room = count_unmasked(mask, row, first, length)
            if need > room:
                report(fault, RUN_SHORTER, row, kind, item, first, length, room, need)
                return 0
            place = first
            left = need
            while left > 0:
                left -= mask[row, place] != 0
                place += 1
            at = add_span(spans, at, row, kind, item, 0, first, place, need, t, h, w)
        at = add_text(spans, at, mask, row, place, length)
    return at


@njit(cache=True, nogil=True)
def add_text(spans, at, mask, row, start, stop):
    """A span of text over the unmasked tokens of a stretch, if it has any."""
    tokens = count_unmasked(mask, row, start, stop)
    if tokens == 0:
        return at
    return add_span(spans, at, row, TEXT, -1, 0, start, stop, tokens, 0, 0, 0)
