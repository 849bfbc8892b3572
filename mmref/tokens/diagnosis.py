"""Why the placeholders of a prompt do not fit its media, by evidence.

Every cause is a change that would make the prompt fit: the row grown where it
was cut, a run taken out, the mask turned round, the media in another order, the
size computed by another rule. A cause is named only if that change really does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mmref import families
from mmref.arrays import integer_matrix, mask_matrix
from mmref.causes import (
    CAUSES,
    Cause,
    Evidence,
    Unit,
    counts,
    fits,
    missing_boundary,
    runs_of,
)
from mmref.errors import RefusedMedia
from mmref.families import TokenIds
from mmref.tokens.causes import TESTS, units_of
from mmref.tokens.pieces import Item, Kind, items_of

__all__ = ["CAUSES", "Cause", "Diagnosis", "Found", "diagnose"]


@dataclass(frozen=True, slots=True)
class Found:
    """One item, or one frame of a split video, beside what the prompt holds for it.

    Parameters
    ----------
    kind : {"image", "video"}
        What it is.
    item, frame : int
        Which.
    expected : int
        Tokens it makes.
    found : int or None
        Tokens of the run in its place; None where there is none.
    """

    kind: Kind
    item: int
    frame: int
    expected: int
    found: int | None


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What a prompt holds beside what its media make.

    Parameters
    ----------
    items : tuple of Found
        Every item or frame, in order.
    expected, found : int
        Tokens in all.
    fits : bool
        Whether every run is made of whole items and every item is used.
    causes : tuple of Cause
        The likely causes, the most decisive first; a prompt that fits may still miss boundaries.
    """

    items: tuple[Found, ...]
    expected: int
    found: int
    fits: bool
    causes: tuple[Cause, ...]

    def __str__(self) -> str:
        head = f"{self.found} tokens, expected {self.expected}"
        return "\n".join([head, *map(str, self.causes)])


def diagnose(
    input_ids: Any,
    *,
    family: str,
    images: Sequence[tuple[int, int]] | None = None,
    videos: Sequence[tuple[int, int, int]] | None = None,
    image_grid_thw: Any = None,
    video_grid_thw: Any = None,
    image_features: Sequence[int] | None = None,
    attention_mask: Any = None,
    token_ids: TokenIds | None = None,
    prompt_length: int | None = None,
) -> Diagnosis:
    """Compare the placeholders of a prompt with its media, and name the likely causes.

    Parameters
    ----------
    input_ids : array_like of int, shape (batch, seq) or (seq,)
        The prompt as the model got it.
    family : str
        A name of ``families.names("tokens")``, or an alias.
    images, videos : sequence of tuple, optional
        Sizes, (height, width) and (frames, height, width); with them, other rules of
        rounding can be told.
    image_grid_thw, video_grid_thw : array_like of int, shape (items, 3), optional
        Grids instead.
    image_features : sequence of int, optional
        Instead of either, how many features each image has.
    attention_mask : array_like of bool or 0/1, shape (batch, seq), optional
        Tokens that exist.
    token_ids : TokenIds, optional
        Default: the family's.
    prompt_length : int, optional
        Tokens of each row that were not generated.

    Returns
    -------
    Diagnosis
        Items, counts and causes.

    Raises
    ------
    RefusedMedia, RefusedPrompt
        If an argument is not what it should be.
    UnknownName
        If the family is not known.

    Examples
    --------
    >>> ids = TokenIds(image=10, video=11, vision_start=12, vision_end=13)
    >>> found = diagnose([5, 12, 10, 10, 10], family="qwen2_vl", image_grid_thw=[[1, 4, 4]],
    ...                  token_ids=ids)
    >>> found.causes[0].code, found.items[0].expected, found.items[0].found
    ('truncated-right', 4, 3)
    """
    row = families.get(family)
    if row.media.image_form == "none":
        raise RefusedMedia(
            "kind-not-supported",
            where="family",
            got=f"{row.name}, which has no images and videos that are described",
            expected="a family with images",
            hint="clips are not diagnosed; tokens.count says how many tokens they take",
        )
    ids = integer_matrix(input_ids, "input_ids")
    mask = None
    if attention_mask is not None:
        mask = mask_matrix(attention_mask, "attention_mask", ids.shape)
    items: dict[Kind, list[Item]] = {
        "image": items_of(row, "image", images, image_grid_thw)
        if image_features is None
        else [Item("image", (1, 1, int(count)), int(count)) for count in image_features],
        "video": items_of(row, "video", videos, video_grid_thw),
    }
    chosen = row.token_ids if token_ids is None else token_ids
    units = units_of(row, items)
    prompt = Evidence(
        row,
        ids,
        mask,
        chosen,
        runs_of(row, ids, mask, chosen),
        units,
        sum(map(len, items.values())),
        row.media.image_resize.merge_size if row.media.image_resize else 1,
        {"image": images, "video": videos},
        prompt_length,
    )
    fitting = fits(prompt.runs, units)
    causes: list[Cause] = []
    if not fitting:
        for test in TESTS:
            causes += test(prompt)
    causes += missing_boundary(prompt)
    if not fitting and not causes:
        causes.append(Cause("other-media", "prompt", counts(prompt)))
    order = list(CAUSES)
    causes.sort(key=lambda cause: order.index(cause.code))
    return Diagnosis(
        _beside(prompt),
        sum(unit.tokens for unit in units),
        sum(run.tokens for run in prompt.runs),
        fitting,
        tuple(causes),
    )


def _beside(prompt: Evidence) -> tuple[Found, ...]:
    """Each unit with the run in its place, as far as runs go."""
    found = []
    for kind in ("image", "video"):
        queue = [run.tokens for run in prompt.runs if run.kind == kind]
        for unit in (unit for unit in prompt.units if unit.kind == kind):
            seen: int | None = None
            if queue:
                seen = min(queue[0], unit.tokens) if _shares(queue[0], unit, prompt) else queue[0]
                queue[0] -= seen
                if queue[0] <= 0:
                    queue.pop(0)
            found.append(Found(kind, unit.item, unit.frame, unit.tokens, seen))
    return tuple(found)


def _shares(length: int, unit: Unit, prompt: Evidence) -> bool:
    """Whether a longer run holds the next item too, rather than one item that is too long."""
    runs = sum(run.kind == unit.kind for run in prompt.runs)
    units = sum(other.kind == unit.kind for other in prompt.units)
    return length > unit.tokens and runs < units
