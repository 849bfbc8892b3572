"""Audio lengths and masks in plain Python, written differently from the kernels."""

from __future__ import annotations

from collections.abc import Sequence

from mmref.families.audio import Audio, Stage


def starts(frames: int, stage: Stage) -> list[int]:
    """Where each output of a layer begins to look, in frames; padding lies before 0."""
    before = stage.padding[0] if isinstance(stage.padding, tuple) else stage.padding
    behind = stage.padding[1] if isinstance(stage.padding, tuple) else stage.padding
    reach = stage.dilation * (stage.kernel - 1)
    if frames == 0:
        return []
    return list(range(-before, frames + behind - reach, stage.stride))


def length(frames: int, row: Audio) -> int:
    """Outputs of one clip."""
    if row.window and row.window_rest == "stages" and frames >= row.window:
        return row.window_outputs + length(frames - row.window, row)
    for stage in row.stages:
        frames = len(starts(frames, stage))
    if row.window and row.window_rest == "whole":
        return len(range(0, frames, row.window)) * row.window_outputs
    return frames


def mask(rows: Sequence[Sequence[int]], row: Audio) -> list[list[bool]]:
    """The mask of the outputs."""
    width = length(len(rows[0]), row)
    if row.mask == "length":
        return [[at < length(sum(frames), row) for at in range(width)] for frames in rows]
    found = [list(frames) for frames in rows]
    for stage in row.stages:
        found = [frames[:: stage.stride] for frames in found]
    return [[bool(value) for value in frames[:width]] for frames in found]


def frames(samples: int, row: Audio) -> int:
    """Frames of a clip: every start whose window lies within the padded samples."""
    framing = row.framing
    assert framing is not None
    if samples == 0:
        return 0
    if framing.longest:
        samples = min(samples, framing.longest)
    if samples:
        samples = max(samples, framing.shortest)
    last = samples + framing.padding - framing.window
    return sum(1 for _ in range(0, last + 1, framing.hop))
