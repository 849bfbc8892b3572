"""The spans of a prompt with audio."""

from __future__ import annotations

import numpy as np

from mmref.kernels import layout as kernel
from mmref.layout import Layout
from mmref.omni.prompt import OmniPrompt, Segment
from mmref.refusals import KINDS

__all__ = ["layout_of"]

Run = tuple[str, int, int, tuple[int, ...]]


def layout_of(prompt: OmniPrompt) -> Layout:
    """The spans of a prompt; start and end tokens are text, a sounding video a span a run.

    Parameters
    ----------
    prompt : OmniPrompt
        A prompt that was read.

    Returns
    -------
    Layout
        As `mmref.tokens.expand` gives it.
    """
    spans: list[list[int]] = []
    for row, segments in enumerate(prompt.rows):
        kept = np.flatnonzero(prompt.keep[row]).tolist()
        runs: list[Run] = []
        for segment in segments:
            for run in _runs(prompt, segment):
                if runs and run[0] == runs[-1][0] == "text":
                    runs[-1] = ("text", -1, runs[-1][2] + run[2], run[3])
                else:
                    runs.append(run)
        at = 0
        for kind, item, count, grid in runs:
            line = [row, KINDS.index(kind), item, 0, kept[at], kept[at + count - 1] + 1, count]
            spans.append([*line, *grid, 0])
            at += count
    table = np.array(spans, np.int64).reshape(-1, kernel.COLUMNS)
    return Layout(table, prompt.shape)


def _runs(prompt: OmniPrompt, segment: Segment) -> list[Run]:
    """Kind, item, tokens and grid of each run of a segment."""
    if segment.kind in ("text", "start", "end"):
        return [("text", -1, segment.tokens, (0, 0, 0))]
    if segment.kinds is None:
        grid: tuple[int, ...] = (1, 1, segment.tokens)
        if segment.kind != "audio":
            grids = prompt.image_grid if segment.kind == "image" else prompt.video_grid
            t, h, w = grids[segment.item].tolist()
            grid = (t, h // prompt.merge, w // prompt.merge)
        return [(segment.kind, segment.item, segment.tokens, grid)]
    edges = np.flatnonzero(np.diff(segment.kinds)) + 1
    found: list[Run] = []
    for run in np.split(segment.kinds, edges):
        kind, item = ("audio", segment.clip) if run[0] else ("video", segment.item)
        found.append((kind, item, len(run), (1, 1, len(run))))
    return found
