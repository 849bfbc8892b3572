"""Other ways to find media than the reference's, for the rules of releases."""

from __future__ import annotations

from numba import njit

from mmref.kernels.layout import (
    IMAGE,
    NO_ITEM_LEFT,
    RUN_SHORTER,
    TEXT,
    VIDEO,
    add_span,
    item_tokens,
    report,
)


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
            tokens = count_unmasked(mask, row, cursor, first)
            if tokens > 0:
                at = add_span(spans, at, row, TEXT, -1, 0, cursor, first, tokens, 0, 0, 0)
            cursor = first + need
            at = add_span(spans, at, row, kind, item, 0, first, cursor, need, t, h, w)
        tokens = count_unmasked(mask, row, cursor, length)
        if tokens > 0:
            at = add_span(spans, at, row, TEXT, -1, 0, cursor, length, tokens, 0, 0, 0)
    return at
