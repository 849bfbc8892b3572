"""Positions as a release of an engine computes them: the reference under other rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from mmref import collapsed
from mmref.differences import PositionRules, Release
from mmref.errors import EngineRefusal
from mmref.kernels import layout as layout_kernel
from mmref.kernels import layout_variants
from mmref.kernels import mrope as kernel
from mmref.positions import Positions, by_reference
from mmref.prompt import Prompt

__all__ = ["by_release"]

_RESUME = {"max": kernel.RESUME_MAX, "spatial": kernel.RESUME_SPATIAL}
_ROW_START = {"zero": kernel.START_ZERO, "one_after_first": kernel.START_ONE_AFTER_FIRST}
_SECONDS = {
    "float32": kernel.TIME_SECONDS,
    "float64_product": kernel.TIME_SECONDS_FLOAT64,
    "rounded": kernel.TIME_SECONDS_ROUNDED,
    "whole": kernel.TIME_SECONDS_WHOLE,
    "before_rate": kernel.TIME_SECONDS_BEFORE_RATE,
    "float64": kernel.TIME_SECONDS_ALL_FLOAT64,
}
_GENAI_RATE = 2.0  # ONNX Runtime GenAI's default of vision.tokens_per_second


def by_release(
    prompt: Prompt, release: Release, scalars: Mapping[str, int | float | str | list[str]]
) -> Positions:
    """Positions of a prompt as a release of an engine computes them.

    Parameters
    ----------
    prompt : Prompt
        From `mmref.layout.read_prompt`.
    release : Release
        The release, or one with some of its differences taken away.
    scalars : mapping
        The scalars of a case (``num_beams``, ``unset``), which are not the prompt's.

    Returns
    -------
    Positions
        The positions.

    Raises
    ------
    RefusedPrompt
        If the reference refuses the prompt: releases differ then in whether they
        notice, and what they compute is not predicted.
    EngineRefusal
        If the release refuses what the reference accepts.
    """
    accepted = by_reference(prompt)
    for difference in release.differences:
        if difference.subject != "positions" or difference.refuses is None:
            continue
        if difference.refuses(prompt, accepted._table, scalars):
            raise EngineRefusal(
                difference.id,
                where=f"{release.engine} {release.version}",
                got="this release refuses a prompt that the reference accepts",
                hint=difference.meaning,
            )
    # every item is one span, or joins others in one; text stands between them and at row ends
    capacity = 2 * len(accepted._table) + len(prompt.ids) + 1
    return _by_rules(prompt, release, scalars, capacity)


def _by_rules(
    prompt: Prompt,
    release: Release,
    scalars: Mapping[str, int | float | str | list[str]],
    capacity: int,
) -> Positions:
    rules = release.rules
    image_id, video_id, vision_start_id, pad_id = _engine_ids(prompt, rules, scalars)
    ids, mask = _engine_mask(prompt, rules, pad_id)
    batch, length = ids.shape
    video_grid, seconds, rate = prompt.video_grid, prompt.seconds, prompt.rate
    split = prompt.family.video_frames == "split"
    timed = prompt.family.time == "seconds"
    marked = prompt.family.media_kinds == "by_video_markers"
    if split and rules.frames == "joined":
        # no timestamps known to the engine: one block a video, one second a grid step
        seconds, rate, timed, split = np.ones(len(video_grid)), _GENAI_RATE, True, False
    if rules.frames == "split_if_marked":
        split = split and marked
    time_rule = _SECONDS[rules.seconds] if timed else kernel.TIME_INDEX
    fault = np.zeros(layout_kernel.FAULT_FIELDS, np.int64)
    spans = np.empty((capacity, layout_kernel.COLUMNS), np.int64)
    repeated = np.zeros(batch, np.bool_)
    find_media = rules.find_media
    if rules.text_only == "by_the_mask" and not prompt.any_grid:
        find_media = "runs"  # a branch of its own, which looks for nothing
    if find_media == "runs":
        arguments = list(prompt.scan_arguments())
        arguments[:3] = ids, mask, True
        arguments[6:9] = split, image_id, video_id
        count = layout_kernel.scan(*arguments, np.zeros(batch, np.int64), spans, fault)
    else:
        if split and len(video_grid):
            video_grid = np.repeat(video_grid, video_grid[:, 0], axis=0)
            video_grid[:, 0] = 1
        grids = (prompt.image_grid, video_grid, prompt.merge, image_id, video_id)
        if find_media == "after_vision_start":
            count = layout_variants.scan_after_vision_start(
                ids, mask, *grids, vision_start_id, spans, fault
            )
        elif find_media == "as_many_as_starts" and not marked:
            count = layout_variants.scan_as_many_as_starts(
                ids, mask, *grids, vision_start_id, spans, fault
            )
        else:
            markers = prompt.scan_arguments()[9:]
            count = layout_variants.scan_one_item_a_run(
                ids, mask, *grids, *markers, spans, repeated, fault
            )
    found = bool(fault[layout_kernel.FAULT_CODE] == layout_kernel.OK)
    table = spans[:count]
    timed_kinds = [layout_kernel.VIDEO]
    if rules.seconds_for == "all_media":
        timed_kinds.append(layout_kernel.IMAGE)
    media = np.flatnonzero(np.isin(table[:, layout_kernel.KIND], timed_kinds))
    if found and timed and rules.seconds_for == "all_media" and prompt.seconds_given:
        found = len(media) <= len(seconds)
    if found and rules.default_seconds == "each_column" and timed and not prompt.seconds_given:
        found = len(media) <= length
    out = np.empty((3, batch, length), np.int64)
    largest = np.full(batch, -1)
    unmasked = np.zeros(batch, np.int64)
    if found and rules.grid_steps == "collapsed":
        intervals: list[int | float] = [1] * count
        whole_rate = int(rate) if float(rate).is_integer() else float(rate)
        for number, at in enumerate(media if timed else ()):
            pace = float(seconds[number]) if prompt.seconds_given else 1
            intervals[at] = whole_rate * (int(pace) if rules.seconds == "whole" else pace)
        found = max(intervals, default=1) < 2**63
        spatial = rules.resume == "spatial"
        out, largest, unmasked = collapsed.place_and_fill(table, mask, intervals, spatial)
    elif found:
        resume, start = _RESUME[rules.resume], _ROW_START[rules.row_start]
        kernel.place(
            spans, count, seconds, rate, time_rule, resume, start, largest, unmasked, fault
        )
        found = bool(fault[layout_kernel.FAULT_CODE] == layout_kernel.OK)
    if not found:
        raise EngineRefusal(
            "media-not-found",
            where=f"{release.engine} {release.version}",
            got="this release does not find the media of this prompt where they are",
            hint="its rules: " + ", ".join(entry.id for entry in release.differences if entry.sets),
        )
    if rules.grid_steps != "collapsed":
        kernel.fill(spans, count, mask, seconds, rate, time_rule, out)
    for row in np.flatnonzero(repeated):
        out[:, row, mask[row] != 0] = 0
    deltas = _deltas(prompt, rules, mask, largest, unmasked)
    if rules.padding_holds == "one" or (rules.padding_holds == "one_if_marked" and marked):
        out[:, mask == 0] = 1
    return Positions(
        prompt, out, table, largest, unmasked, None, mask=mask, rules=rules, deltas=deltas
    )


def _deltas(
    prompt: Prompt,
    rules: PositionRules,
    mask: npt.NDArray[Any],
    largest: npt.NDArray[np.int64],
    unmasked: npt.NDArray[np.int64],
) -> npt.NDArray[np.int64]:
    """What the release hands to decoding for each row."""
    if rules.text_only == "by_the_mask" and not prompt.any_grid:
        # the largest of all columns, also of the 1 that stands at masked ones
        largest = np.where((mask == 0).any(1), np.maximum(largest, 1), largest)
    deltas = largest + 1 - (unmasked if rules.delta == "unmasked" else mask.shape[1])
    counts_whole_steps = prompt.family.video_frames == "whole" and prompt.family.time == "index"
    if rules.delta == "padded_not_negative" and counts_whole_steps:
        deltas = np.maximum(deltas, 0)
    return deltas


def _engine_ids(
    prompt: Prompt, rules: PositionRules, scalars: Mapping[str, int | float | str | list[str]]
) -> tuple[int, int, int, int]:
    """Image, video, vision_start and pad id as the engine's configuration gives them."""
    unset = scalars.get("unset", [])
    zero = rules.unset_ids == "zero"
    ids = []
    for name in ("image", "video", "vision_start", "pad"):
        value = getattr(prompt.token_ids, name)
        if zero and (value is None or (isinstance(unset, list) and name in unset)):
            value = 0
        ids.append(layout_kernel.NO_ID if value is None else value)
    return ids[0], ids[1], ids[2], ids[3]


def _engine_mask(
    prompt: Prompt, rules: PositionRules, pad_id: int
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """The ids an engine is handed and the mask it goes by."""
    ids = prompt.ids
    mask = prompt.mask if prompt.masked else np.ones(ids.shape, np.uint8)
    if rules.padding == "pad_id":
        written = prompt.token_ids.pad if prompt.token_ids.pad is not None else 0
        ids = np.where(mask != 0, ids, written)  # an engine without a mask is given pad ids
        mask = (ids != pad_id).view(np.uint8)
    return ids, mask
