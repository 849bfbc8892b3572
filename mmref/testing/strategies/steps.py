"""Prompts with what follows them: turns, generated tokens, rewinds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from mmref import mrope
from mmref.case import Case, Step
from mmref.families import Family
from mmref.testing.strategies.positions import VIDEO_END, VIDEO_START, Draw, accepted, turn

__all__ = ["conversation"]

_ACTIONS = st.sampled_from(["append", "generate", "append", "rewind"])
_GENERATED = st.integers(1, 3)


@st.composite
def conversation(draw: Draw, rows: Sequence[Family], max_steps: int) -> Case:
    """Draw one; see `mmref.testing.strategies.conversations`."""
    first = draw(accepted(rows, 1, 0, 0))
    family = next(row for row in rows if row.name == first.family)
    merge = int(first.scalars.get("spatial_merge_size", family.spatial_merge_size))
    kept = {name: value for name, value in first.scalars.items() if name != "decode_steps"}
    first = replace(first, scalars=kept)
    cuts = _cuts(first)
    steps: list[Step] = []
    for action in draw(st.lists(_ACTIONS, min_size=1, max_size=max_steps)):
        if action == "generate" and cuts[-1] > 0:
            count = draw(_GENERATED)
            cuts += [cuts[-1] + number for number in range(1, count + 1)]
            steps.append(Step("generate", count))
        elif action == "rewind":
            cuts = cuts[: draw(st.integers(1, len(cuts)))]
            steps.append(Step("rewind", cuts[-1]))
        else:  # also where there is nothing to generate from
            arrays = draw(turn(family, merge))
            steps.append(Step("append", 0, arrays))
            cuts += [cuts[-1] + cut for cut in _cuts(replace(first, arrays=arrays))[1:]]
    talk: Case = replace(first, steps=tuple(steps))
    return talk


def _cuts(case: Case) -> list[int]:
    """How many first tokens of a prompt make a prompt: all numbers that part no item or video."""
    layout = mrope.position_ids(**case.arguments()).layout
    inside = {
        slot for span in layout if span.kind != "text" for slot in range(span.start + 1, span.stop)
    }
    ids = case.arrays["input_ids"][0]
    kept = case.arrays.get("attention_mask", np.ones((1, len(ids))))[0] != 0
    opened = np.cumsum(((ids == VIDEO_START) & kept).astype(int) - ((ids == VIDEO_END) & kept))
    inside |= set((np.flatnonzero(opened > 0) + 1).tolist())
    return [slot for slot in range(len(ids) + 1) if slot not in inside]
