"""Positions of prompts with audio, token by token: the definition the library is checked against.

Nothing here is shared with the library: it walks the tokens, keeps one number (where the next
one goes) and a queue of items.
"""

from __future__ import annotations

from typing import Any

import numpy as np

IMAGE, VIDEO, VISION_START, VISION_END, AUDIO, AUDIO_START, AUDIO_END = 10, 11, 12, 13, 14, 15, 16


def positions(
    rows: list[list[int]],
    mask: list[list[int]],
    images: list[list[int]],
    videos: list[list[int]],
    seconds: list[float],
    *,
    fractions: bool,
) -> tuple[list[list[list[Any]]], list[Any]]:
    """Positions (rows of (t, h, w), zeros at masked places) and the next one of each row.

    ``fractions`` is Qwen3-Omni: positions a second are 13, in float32, and the two start tokens
    of a sounding video count on; else Qwen2.5-Omni: 25, whole, and the two share one position.
    """
    one: Any = np.float32 if fractions else int
    rate = np.float32(13 if fractions else 25)
    images, videos, seconds = list(images), list(videos), list(seconds)
    found, following = [], []
    for tokens, kept in zip(rows, mask, strict=True):
        row: list[list[Any]] = []
        base, run = one(0), 0  # text is numbered base + run
        top = one(-1)
        line = [token for token, keep in zip(tokens, kept, strict=True) if keep]
        at = 0
        while at < len(line):
            token = line[at]
            if token not in (VISION_START, AUDIO_START):
                row.append([base + one(run)] * 3)
                run += 1
                at += 1
                continue
            start = base + one(run)
            opened = 2 if line[at : at + 2] == [VISION_START, AUDIO_START] else 1
            shared = opened == 2 and not fractions
            row += [[start + one(0 if shared else number)] * 3 for number in range(opened)]
            at += opened
            start = start + one(1 if shared else opened)
            places: dict[int, list[list[Any]]] = {}
            if line[at] == IMAGE:
                places[IMAGE] = _grid(images.pop(0), start, np.float32(0), rate, one)
            if opened == 2 or line[at] == VIDEO:
                pace = np.float32(seconds.pop(0))
                places[VIDEO] = _grid(videos.pop(0), start, pace, rate, one)
            block = []
            sound = 0
            while line[at] in (IMAGE, VIDEO, AUDIO):
                if line[at] == AUDIO:
                    block.append([start + one(sound)] * 3)
                    sound += 1
                else:
                    block.append(places[line[at]].pop(0))
                at += 1
            row += block
            end = max(number for place in block for number in place) + one(1)
            row += [[end + one(0 if shared else number)] * 3 for number in range(opened)]
            base, run = end + one(1 if shared else opened), 0
            at += opened
        if row:
            top = max(number for place in row for number in place)
        whole = iter(row)
        found.append([next(whole) if keep else [one(0)] * 3 for keep in kept])
        following.append(top + one(1))
    return found, following


def _grid(grid: list[int], start: Any, pace: Any, rate: Any, one: Any) -> list[list[Any]]:
    steps, height, width = grid[0], grid[1] // 2, grid[2] // 2
    places = []
    for step in range(steps):
        time = np.float32(step) * pace * rate
        for y in range(height):
            for x in range(width):
                places.append([one(time) + start, one(y) + start, one(x) + start])
    return places
