"""3-D rotary positions of prompts that hold audio beside images and videos: the Omni families.

A prompt is text and blocks. A block is a start token, placeholders, an end token: of an image,
a video or a clip; or of a video with its own sound, where vision_start and audio_start stand
before the mixed placeholders, and audio_end and vision_end behind them. Every placeholder
takes the position of its own place in its item, whatever order the two kinds stand in.

`mmref.mrope.position_ids` is the door.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mmref import differences
from mmref.differences.rules import OmniRules
from mmref.errors import EngineRefusal, UnknownName
from mmref.families.row import Family
from mmref.omni.places import OmniPositions, positions
from mmref.omni.prompt import REFUSALS, OmniPrompt, Segment, read

__all__ = [
    "REFUSALS",
    "OmniPositions",
    "OmniPrompt",
    "Segment",
    "position_ids",
    "positions",
    "read",
]


def position_ids(input_ids: Any, *, row: Family, rules: str, **arguments: Any) -> OmniPositions:
    """What `mmref.mrope.position_ids` answers for a family with audio.

    Parameters
    ----------
    input_ids : array_like of int
        Token ids.
    row : Family
        A row of ``families.names("omni")``.
    rules : str
        ``"reference"`` or the name of a release that is described.
    **arguments : object
        As for `read`.

    Returns
    -------
    OmniPositions
        The positions.

    Raises
    ------
    RefusedPrompt
        As `read`.
    EngineRefusal
        If the release refuses what the reference accepts.
    UnknownName
        If the rules are not known.
    """
    prompt = read(input_ids, row=row, **arguments)
    if rules == "reference":
        return positions(prompt, OmniRules())
    described = differences.described("omni")
    if rules not in described:
        raise UnknownName("rules", rules, ["reference", *described])
    chosen = described[rules]
    refused = chosen.refuses("omni", prompt)
    if refused is not None:
        raise EngineRefusal(
            refused.id,
            where=rules,
            got="this release refuses a prompt that the reference accepts",
            hint=refused.meaning,
        )
    return positions(prompt, replace(OmniRules(), **chosen.changes("omni")))
