"""The rule once more, in plain Python over lists of tokens, written from its text.

Nothing here shares code or approach with mmref: rows are lists of tokens, an
item is a list of coordinates, and every step makes new lists.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass
class Answer:
    positions: np.ndarray
    deltas: list[int]
    following: list[int]


def positions(
    ids,
    mask,
    image_grids,
    video_grids,
    seconds,
    rate,
    merge,
    image,
    video,
    split,
    timed,
    markers,
    video_start=None,
    video_end=None,
):
    """Positions of a consistent prompt; raises ValueError otherwise."""
    images = [item_coordinates((1, h, w), merge, None, None) for _, h, w in image_grids]
    videos = []
    for number, (t, h, w) in enumerate(video_grids):
        if split:
            videos += [item_coordinates((1, h, w), merge, None, None) for _ in range(t)]
        else:
            pace = seconds[number] if timed else None
            videos.append(item_coordinates((t, h, w), merge, pace, rate))
    table = np.zeros((3, len(ids), len(ids[0])), np.int64)
    deltas, following = [], []
    for row, tokens in enumerate(ids):
        kept = [column for column in range(len(tokens)) if mask[row][column]]
        kinds = kinds_of(
            [tokens[column] for column in kept], image, video, markers, video_start, video_end
        )
        triples: list[tuple[int, int, int]] = []
        queue = list(kinds)
        while queue:
            start = 1 + max((max(triple) for triple in triples), default=-1)
            if queue[0] == "text":
                queue.pop(0)
                triples.append((start, start, start))
                continue
            items = images if queue[0] == "image" else videos
            if not items:
                raise ValueError("no item left")
            item = items.pop(0)
            if queue[: len(item)] != [queue[0]] * len(item):
                raise ValueError("the run ends inside an item")
            del queue[: len(item)]
            triples += [(start + t, start + y, start + x) for t, y, x in item]
        for column, triple in zip(kept, triples, strict=True):
            table[:, row, column] = triple
        largest = max((max(triple) for triple in triples), default=-1)
        deltas.append(largest + 1 - len(kept))
        following.append(largest + 1)
    if images or videos:
        raise ValueError("an item is left")
    return Answer(table, deltas, following)


def item_coordinates(grid, merge, seconds, rate):
    t, h, w = grid
    coordinates = []
    for i in range(t):
        time = i
        if seconds is not None:
            interval = np.multiply(np.float32(rate), np.float32(seconds), dtype=np.float32)
            time = int(np.trunc(np.multiply(np.float32(i), interval, dtype=np.float32)))
        for y in range(h // merge):
            coordinates += [(time, y, x) for x in range(w // merge)]
    return coordinates


def kinds_of(tokens, image, video, markers, video_start, video_end):
    kinds = []
    for index, token in enumerate(tokens):
        before = tokens[:index]
        if markers:
            inside = before.count(video_start) > before.count(video_end)
            kinds.append("text" if token != image else "video" if inside else "image")
        else:
            kinds.append({image: "image", video: "video"}.get(token, "text"))
    return kinds
