"""The causes that need more than ids and counts, and all of them in order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from mmref import causes, families, vision
from mmref.causes import Cause, Evidence, Unit
from mmref.errors import RefusedMedia
from mmref.families import Family, Resize
from mmref.tokens.pieces import Item, Kind

__all__ = ["TESTS", "units_of"]


def units_of(row: Family, items: dict[Kind, list[Item]]) -> list[Unit]:
    """Items, and frames where the family splits videos.

    Parameters
    ----------
    row : Family
        The family.
    items : dict
        Items of each kind.

    Returns
    -------
    list of Unit
        Images first.
    """
    found = [Unit("image", at, 0, item.tokens) for at, item in enumerate(items["image"])]
    for at, item in enumerate(items["video"]):
        frames = 1 if row.media.video_form == "run" else item.grid[0]
        found += [Unit("video", at, frame, item.tokens // frames) for frame in range(frames)]
    return found


def _other_rounding(prompt: Evidence) -> list[Cause]:
    """Another rule that gives the number that was found, for every item."""
    found: list[Cause] = []
    for kind in ("image", "video"):
        sizes = prompt.sizes[kind]
        rule = prompt.row.media.image_resize if kind == "image" else prompt.row.media.video_resize
        if sizes is None or rule is None:
            continue
        runs = [run for run in prompt.runs if run.kind == kind]
        expected = [unit.tokens for unit in prompt.units if unit.kind == kind]
        if not runs or len(runs) != len(expected) or [r.tokens for r in runs] == expected:
            continue
        for name, variant in _variants(prompt.row, kind, rule).items():
            others = _sized(prompt.row, kind, sizes, variant)
            if others == [run.tokens for run in runs]:
                found.append(Cause("other-rounding", f"{kind}s", f"what {name} gives"))
    return found


def _variants(row: Family, kind: str, rule: Resize) -> dict[str, Resize]:
    found = {
        "rounding halves up": replace(rule, rounding="away"),
        "rounding down": replace(rule, rounding="down"),
        "rounding up": replace(rule, rounding="up"),
        "ONNX Runtime GenAI 0.18": replace(rule, rounding="away", lifted=True, whole_pixels=True),
        "no limit of the area": replace(rule, min_pixels=1, max_pixels=2**62),
        "no smallest area": replace(rule, min_pixels=1),
        "no largest area": replace(rule, max_pixels=2**62),
    }
    for name in families.names("tokens"):
        media = families.get(name).media
        other = media.image_resize if kind == "image" else media.video_resize
        if other is not None and other != rule:
            found.setdefault(f"the rule of {name}", other)
    return found


def _sized(row: Family, kind: str, sizes: Any, rule: Resize) -> list[int] | None:
    counts: list[int] = []
    try:
        for size in sizes:
            frames = int(size[0]) if kind == "video" else None
            resized = vision.resize_by(rule, int(size[-2]), int(size[-1]), frames)
            split = 1
            if kind == "video" and row.media.video_form != "run":
                split = resized.grid_thw[0]
            counts += [resized.tokens // split] * split
    except RefusedMedia:
        return None
    return counts


TESTS: tuple[Callable[[Evidence], list[Cause]], ...] = (*causes.TESTS, _other_rounding)
