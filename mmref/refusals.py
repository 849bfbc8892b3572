"""Every way a prompt can be refused, and the words for what a kernel reports."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mmref.causes import CAUSES, Evidence, Kind, Unit, likely, runs_of
from mmref.errors import RefusedPrompt
from mmref.kernels import layout as kernel

if TYPE_CHECKING:
    from mmref.prompt import Prompt

__all__ = ["KINDS", "REFUSALS", "refusal", "require_reference"]

REFUSALS: dict[str, str] = {
    "family-without-3d-positions": "a family whose tokens are numbered like text",
    "array-device": "a tensor that is not in host memory",
    "array-ragged": "rows of unequal length",
    "array-type": "strings or objects where numbers are needed",
    "input-ids-dtype": "token ids that are not integers",
    "input-ids-rank": "token ids that are neither a row nor a batch of rows",
    "input-ids-empty": "no token at all",
    "mask-shape": "a mask of another shape than the token ids",
    "mask-dtype": "a mask that is neither boolean nor integer",
    "mask-value": "a mask with values other than 0 and 1",
    "grid-shape": "a grid that is not (items, 3)",
    "grid-dtype": "a grid that is not of integers",
    "grid-not-positive": "a grid value of zero or less",
    "grid-not-divisible": "a height or width that the merge size does not divide",
    "grid-too-large": "a grid value beyond int32",
    "image-with-frames": "an image grid with t > 1",
    "merge-not-positive": "a merge size below one",
    "rate-not-positive": "tokens_per_second that is not a positive number",
    "rate-not-used": "tokens_per_second for a family that counts grid steps",
    "seconds-not-used": "seconds for a family that counts grid steps",
    "seconds-length": "not one value of seconds for each video",
    "seconds-value": "seconds that are NaN, infinite or negative",
    "token-ids-equal": "one id for images and videos",
    "token-ids-type": "a token id that is not an integer",
    "token-ids-missing": "media without a placeholder id",
    "run-shorter-than-item": "placeholders that end inside an item",
    "run-longer-than-items": "placeholders left over after whole items",
    "placeholder-without-item": "placeholders with no item left",
    "unused-item": "items without placeholders",
    "extend-batch": "appended tokens of another batch size",
    "slot-outside": "a chunk or a rewind outside the tokens",
    "generate-from-nothing": "tokens that are generated after no token at all",
    "rewind-inside-item": "a rewind to the middle of an item",
    "rows-outside": "rows that the batch does not have",
    "rules-after-prompt": "what follows a prompt, by the rules of a release",
    "cumulative-lengths": "cumulative lengths that do not cover the packed row",
    "position-too-large": "a position beyond int32",
}
"""Every way a prompt can be refused, by the error's ``code``."""

KINDS = ("text", "image", "video", "audio")
"""The kinds of span, by the kernels' numbers."""

_AXES = ("t", "h", "w")
# a prompt with more is not looked through for the cause: that is done in plain Python
_MOST_TOKENS = 100_000
_MOST_ITEMS = 500


def refusal(prompt: Prompt, fault: list[int]) -> RefusedPrompt:
    """The error for what a kernel reported.

    Parameters
    ----------
    prompt : Prompt
        The prompt.
    fault : list of int
        The fields of a fault record, see `mmref.kernels.layout`.

    Returns
    -------
    RefusedPrompt
        Says where, what was found, what was expected and the likely cause.
    """
    code, row, kind, item, start, stop, got, expected = fault
    name = KINDS[kind]
    grid_name = f"{name}_grid_thw"
    tokens = f"tokens {start}..{stop - 1}" if stop - start > 1 else f"token {start}"
    grid = prompt.image_grid if kind == kernel.IMAGE else prompt.video_grid
    place = f"row {row}, {name} {item} ({tokens})"
    if code == kernel.GRID_NOT_POSITIVE:
        return RefusedPrompt(
            "grid-not-positive",
            where=f"{grid_name}[{item}], {_AXES[start]}",
            got=str(got),
            expected="at least 1",
        )
    if code == kernel.GRID_TOO_LARGE:
        return RefusedPrompt(
            "grid-too-large",
            where=f"{grid_name}[{item}], {_AXES[start]}",
            got=str(got),
            expected=f"at most {expected}",
        )
    if code == kernel.GRID_NOT_DIVISIBLE:
        return RefusedPrompt(
            "grid-not-divisible",
            where=f"{grid_name}[{item}], {_AXES[start]}",
            got=str(got),
            expected=f"a multiple of the merge size {expected}",
            hint="a grid counts patches before merging",
        )
    if code == kernel.IMAGE_WITH_FRAMES:
        return RefusedPrompt(
            "image-with-frames",
            where=f"{grid_name}[{item}], t",
            got=str(got),
            expected="1",
            hint="pass it as a video",
        )
    if code == kernel.MASK_VALUE:
        return RefusedPrompt(
            "mask-value",
            where=f"attention_mask, row {row}, token {start}",
            got=str(got),
            expected="0 or 1",
            hint="packed rows are not told apart by mask values here" if got > 1 else "",
        )
    if code == kernel.POSITION_TOO_LARGE:
        return RefusedPrompt(
            "position-too-large",
            where=place if kind != kernel.TEXT else f"row {row} ({tokens})",
            got="a position beyond int32",
            expected=f"at most {expected}",
            hint="are the seconds right?" if kind == kernel.VIDEO else "",
        )
    if code == kernel.UNUSED_ITEM:
        frame = f", frame {start}" if start else ""
        return RefusedPrompt(
            "unused-item",
            where=f"{grid_name}[{item}]{frame}",
            got=f"{got} of {expected} items have placeholders",
            expected="every item to be used",
            hint=_cause(prompt, "was the prompt truncated, or is the grid another prompt's?"),
        )
    size = ""
    if 0 <= item < len(grid):
        t, h, w = grid[item].tolist()
        t = 1 if kind == kernel.VIDEO and prompt.family.video_frames == "split" else t
        size = f"grid ({t}, {h}, {w}) with merge {prompt.merge} makes "
        size += str(t * (h // prompt.merge) * (w // prompt.merge))
    if code == kernel.RUN_SHORTER:
        return RefusedPrompt(
            "run-shorter-than-item",
            where=place,
            got=f"{got} {_plural('placeholder', got)}",
            expected=f"as many as the item has: {size}",
            hint=_cause(prompt, "was the prompt truncated?"),
        )
    if code == kernel.RUN_LONGER:
        return RefusedPrompt(
            "run-longer-than-items",
            where=f"row {row} ({tokens})",
            got=f"{got} {name} {_plural('placeholder', got)} left over after {name} {item - 1}",
            expected=f"the end of the run or {name} {item}: {size}" if size else "none",
            hint=_cause(
                prompt,
                "does the text hold a placeholder of its own, or is the grid another size's?",
            ),
        )
    return RefusedPrompt(
        "placeholder-without-item",
        where=f"row {row} ({tokens})",
        got=f"{got} {name} {_plural('placeholder', got)}",
        expected=f"none: {grid_name} has {len(grid)} {_plural('row', len(grid))}",
        hint=_cause(prompt, "does the text hold a placeholder of its own, or is the grid missing?"),
    )


def _cause(prompt: Prompt, otherwise: str) -> str:
    """The likely cause by evidence; where there is none, the question that is left."""
    grids = (prompt.image_grid, prompt.video_grid)
    if prompt.ids.size > _MOST_TOKENS or sum(int(grid[:, 0].sum()) for grid in grids) > _MOST_ITEMS:
        return otherwise
    ids, mask = prompt.ids, prompt.mask if prompt.masked else None
    runs = runs_of(prompt.family, ids, mask, prompt.token_ids)
    if len(runs) > _MOST_ITEMS:
        return otherwise
    evidence = Evidence(
        prompt.family,
        ids,
        mask,
        prompt.token_ids,
        runs,
        [*_units(prompt, "image"), *_units(prompt, "video")],
        sum(map(len, grids)),
        prompt.merge,
        {},
        None,
    )
    cause = likely(evidence)
    if cause is None:
        return otherwise
    return f"likely cause: {CAUSES[cause.code]} ({cause.where}: {cause.evidence})"


def _units(prompt: Prompt, kind: Kind) -> Iterator[Unit]:
    """Items, and the frames of those that are split."""
    split = kind == "video" and prompt.family.video_frames == "split"
    grid = prompt.image_grid if kind == "image" else prompt.video_grid
    for item, (t, h, w) in enumerate(grid.tolist()):
        frames = t if split else 1
        size = (t // frames) * (h // prompt.merge) * (w // prompt.merge)
        yield from (Unit(kind, item, frame, size) for frame in range(frames))


def _plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"


def require_reference(what: str, rules: object) -> None:
    """Refuse to go on from positions by the rules of a release.

    Parameters
    ----------
    what : str
        What was asked.
    rules : object
        The rules; None for the reference.

    Raises
    ------
    RefusedPrompt
        ``rules-after-prompt``.
    """
    if rules is not None:
        raise RefusedPrompt(
            "rules-after-prompt",
            where=what,
            got="positions by the rules of a release",
            expected="positions of the reference",
            hint="what follows a prompt is defined for the reference alone",
        )
