"""Why placeholders do not fit their items: the causes that ids and counts alone can tell.

Every cause is a change that would make the prompt fit; it is named only if that change really
does. The refusals of a layout name the first; `mmref.tokens.diagnose` has them all, and those
that need sizes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from mmref.families import Family, TokenIds

__all__ = [
    "CAUSES",
    "TESTS",
    "Cause",
    "Evidence",
    "Run",
    "Unit",
    "counts",
    "fits",
    "likely",
    "missing_boundary",
    "place",
    "runs_of",
]

Kind = Literal["image", "video"]

CAUSES: dict[str, str] = {
    "padding-side": "the mask covers the wrong end of a row",
    "not-expanded": "each item still has its one placeholder",
    "not-merged": "as many placeholders as patches: they were not merged",
    "items-swapped": "the media are in another order than their placeholders",
    "generated-placeholder": "the model generated a placeholder",
    "stray-placeholder": "text holds a placeholder of its own",
    "truncated-right": "the prompt was cut at its end",
    "truncated-left": "the prompt was cut at its start",
    "other-rounding": "the sizes were computed by another rule",
    "missing-boundary": "no token that starts an item stands before its placeholders",
    "other-media": "the counts fit no known cause: are these the prompt's media?",
}
"""Every cause, most decisive first; `diagnose` names them in this order."""


@dataclass(frozen=True, slots=True)
class Cause:
    """A likely cause.

    Parameters
    ----------
    code : str
        A name of `CAUSES`.
    where : str
        The row and the tokens.
    evidence : str
        What was seen that speaks for it.
    """

    code: str
    where: str
    evidence: str

    def __str__(self) -> str:
        return f"{self.where}: {CAUSES[self.code]} ({self.evidence}) [{self.code}]"


@dataclass(frozen=True, slots=True)
class Run:
    """A maximal run of one kind of placeholder.

    Parameters
    ----------
    kind : {"image", "video"}
        Which.
    row, start : int
        Row of the batch, and first column of the padded row.
    tokens : int
        Placeholders that exist.
    first, last : bool
        Whether it begins, or ends, with the row.
    bounded : bool
        Whether it stands directly after the token that starts an item.
    after_end : bool
        Whether it is behind the first end-of-turn token after the run before it.
    """

    kind: Kind
    row: int
    start: int
    tokens: int
    first: bool
    last: bool
    bounded: bool
    after_end: bool


@dataclass(frozen=True, slots=True)
class Unit:
    """An item, or one frame of an item that is split.

    Parameters
    ----------
    kind : {"image", "video"}
        Which.
    item, frame : int
        Row of that kind's grid, and frame within it.
    tokens : int
        Tokens that it makes.
    """

    kind: Kind
    item: int
    frame: int
    tokens: int


@dataclass(slots=True)
class Evidence:
    """What every test for a cause looks at.

    Parameters
    ----------
    row : Family
        The family.
    ids : numpy.ndarray
        Integers, shape (batch, seq).
    mask : numpy.ndarray or None
        Of the same shape, 0 for tokens that do not exist.
    token_ids : TokenIds
        The ids that count.
    runs : list of Run
        What the prompt holds.
    units : list of Unit
        What its items make.
    whole : int
        Items, before any is split into frames.
    merge : int
        Patches merged into one token, along each side.
    sizes : dict
        Sizes of each kind, where they are known.
    prompt_length : int or None
        Tokens of each row that were not generated, where that is known.
    """

    row: Family
    ids: npt.NDArray[Any]
    mask: npt.NDArray[Any] | None
    token_ids: TokenIds
    runs: list[Run]
    units: list[Unit]
    whole: int
    merge: int
    sizes: dict[Kind, Any]
    prompt_length: int | None


def runs_of(
    row: Family, ids: npt.NDArray[Any], mask: npt.NDArray[Any] | None, token_ids: TokenIds
) -> list[Run]:
    """Maximal runs of one kind, over the tokens that exist.

    Parameters
    ----------
    row : Family
        The family.
    ids : numpy.ndarray
        Integers, shape (batch, seq).
    mask : numpy.ndarray or None
        Of the same shape, 0 for tokens that do not exist.
    token_ids : TokenIds
        The ids that count.

    Returns
    -------
    list of Run
        Row by row.
    """
    names: dict[int | None, Kind] = {token_ids.image: "image"}
    markers = row.media_kinds == "by_video_markers"
    if row.media.image_form == "rows":
        names |= {token_ids.row_break: "image", token_ids.vision_end: "image"}
    if row.media.image_form == "enclosed":
        names |= {token_ids.vision_start: "image", token_ids.vision_end: "image"}
    if not markers:
        names[token_ids.video] = "video"
    names.pop(None, None)
    found: list[Run] = []
    for number, line in enumerate(ids):
        kept = np.arange(len(line)) if mask is None else np.flatnonzero(mask[number])
        tokens = line[kept].tolist()
        depth, before, begun, ended = 0, None, 0, False
        for at, token in enumerate([*tokens, None]):
            kind = names.get(token) if token is not None else None
            if markers and kind is not None and depth > 0:
                kind = "video"
            if kind != before:
                if before is not None:
                    found.append(
                        Run(
                            before,
                            number,
                            int(kept[begun]),
                            at - begun,
                            begun == 0,
                            at == len(tokens),
                            begun > 0 and tokens[begun - 1] == token_ids.vision_start,
                            ended,
                        )
                    )
                    ended = False
                begun, before = at, kind
            if markers and token is not None:
                depth += (token == token_ids.video_start) - (token == token_ids.video_end)
            ended = ended or (token is not None and token == token_ids.eos)
    return found


def fits(runs: Sequence[Run], units: Sequence[Unit], *, cut: bool = False) -> bool:
    """Whether runs are made of whole units, in order, and all are used.

    Parameters
    ----------
    runs : sequence of Run
        What a prompt holds.
    units : sequence of Unit
        What its items make.
    cut : bool
        Whether instead something must be missing at the end: a run that ends its row may be
        part of a unit, and the last units may be missing.

    Returns
    -------
    bool
        True if they fit so.
    """
    queues = {kind: [u.tokens for u in units if u.kind == kind] for kind in ("image", "video")}
    used = {"image": 0, "video": 0}
    was_cut = False
    for run in runs:
        left = run.tokens
        queue = queues[run.kind]
        while left > 0:
            if used[run.kind] >= len(queue):
                return False
            need = queue[used[run.kind]]
            if left < need and not (cut and run.last):
                return False
            was_cut = was_cut or left < need
            used[run.kind] += 1
            left -= min(left, need)
    complete = all(used[kind] == len(queue) for kind, queue in queues.items())
    return complete if not cut else was_cut or not complete


def _reversed(runs: Sequence[Run]) -> list[Run]:
    return [replace(run, first=run.last, last=run.first) for run in reversed(runs)]


def place(run: Run) -> str:
    """The row and the tokens of a run.

    Parameters
    ----------
    run : Run
        The run.

    Returns
    -------
    str
        In words.
    """
    stop = run.start + run.tokens - 1
    return f"row {run.row}, " + (
        f"tokens {run.start}..{stop}" if stop > run.start else f"token {run.start}"
    )


def counts(prompt: Evidence) -> str:
    """The first few counts, of runs and of items.

    Parameters
    ----------
    prompt : Evidence
        The prompt.

    Returns
    -------
    str
        In words.
    """
    runs = ", ".join(str(run.tokens) for run in prompt.runs[:8]) or "none"
    units = ", ".join(str(unit.tokens) for unit in prompt.units[:8]) or "none"
    return f"runs of {runs}; items of {units}"


def _padding_side(prompt: Evidence) -> list[Cause]:
    if prompt.mask is None:
        return []
    turned = prompt.mask[:, ::-1]
    runs = runs_of(prompt.row, prompt.ids, turned, prompt.token_ids)
    if not fits(runs, prompt.units):
        return []
    hidden = sum(run.tokens for run in runs) - sum(run.tokens for run in prompt.runs)
    evidence = f"it hides {hidden} placeholders; turned round, the prompt fits"
    return [Cause("padding-side", "attention_mask", evidence)]


def _not_expanded(prompt: Evidence) -> list[Cause]:
    whole, runs = prompt.whole, prompt.runs
    if runs and all(run.tokens == 1 for run in runs) and len(runs) == whole:
        return [Cause("not-expanded", "prompt", f"{whole} placeholders for {whole} items")]
    return []


def _not_merged(prompt: Evidence) -> list[Cause]:
    merge = prompt.merge
    patches = [replace(unit, tokens=unit.tokens * merge**2) for unit in prompt.units]
    if merge > 1 and prompt.runs and fits(prompt.runs, patches):
        return [Cause("not-merged", "prompt", f"{merge * merge} times as many as items make")]
    return []


def _items_swapped(prompt: Evidence) -> list[Cause]:
    for kind in ("image", "video"):
        runs = [run for run in prompt.runs if run.kind == kind]
        units = [unit for unit in prompt.units if unit.kind == kind]
        lengths = [run.tokens for run in runs]
        sizes = [unit.tokens for unit in units]
        if lengths != sizes and Counter(lengths) == Counter(sizes):
            at = next(
                at for at, pair in enumerate(zip(lengths, sizes, strict=True)) if pair[0] != pair[1]
            )
            evidence = f"{lengths[at]} tokens where {kind} {units[at].item} makes {sizes[at]}; "
            return [Cause("items-swapped", place(runs[at]), evidence + "all counts occur")]
    return []


def _generated(prompt: Evidence) -> list[Cause]:
    length = prompt.prompt_length
    if length is not None:
        extra = [run for run in prompt.runs if run.start >= length]
        evidence = f"behind the {length} tokens of the prompt"
    else:
        extra = [run for run in prompt.runs[-1:] if run.after_end and not run.bounded]
        evidence = "behind the end of a turn, without a token that starts an item"
    rest = [run for run in prompt.runs if run not in extra]
    if extra and fits(rest, prompt.units):
        return [Cause("generated-placeholder", place(extra[0]), evidence)]
    return []


def _stray(prompt: Evidence) -> list[Cause]:
    loose = [run for run in prompt.runs if not run.bounded]
    rest = [run for run in prompt.runs if run.bounded]
    if loose and _has_start(prompt) and fits(rest, prompt.units):
        evidence = "without a token that starts an item; without it the prompt fits"
        return [Cause("stray-placeholder", place(run), evidence) for run in loose]
    for at, run in enumerate(prompt.runs):
        if fits([*prompt.runs[:at], *prompt.runs[at + 1 :]], prompt.units):
            evidence = "without these tokens the prompt fits"
            return [Cause("stray-placeholder", place(run), evidence)]
    return []


def _truncated_right(prompt: Evidence) -> list[Cause]:
    if not fits(prompt.runs, prompt.units, cut=True):
        return []
    partial = [run for run in prompt.runs if run.last]
    where = place(partial[-1]) if partial else f"row {len(prompt.ids) - 1}"
    evidence = "the row ends inside an item" if partial else "the last items are missing"
    return [Cause("truncated-right", where, evidence)]


def _truncated_left(prompt: Evidence) -> list[Cause]:
    if not fits(_reversed(prompt.runs), prompt.units[::-1], cut=True):
        return []
    partial = [run for run in prompt.runs if run.first]
    where = place(partial[0]) if partial else "row 0"
    evidence = "the row starts inside an item" if partial else "the first items are missing"
    return [Cause("truncated-left", where, evidence)]


def _has_start(prompt: Evidence) -> bool:
    return prompt.token_ids.vision_start is not None and prompt.row.media.boundary != "none"


def missing_boundary(prompt: Evidence) -> list[Cause]:
    """Runs that no token starts, in families that have such a token.

    Parameters
    ----------
    prompt : Evidence
        The prompt, which may fit its items.

    Returns
    -------
    list of Cause
        One for each.
    """
    if not _has_start(prompt):
        return []
    loose = [run for run in prompt.runs if not run.bounded and not run.first]
    evidence = "positions do not need it, but ONNX Runtime GenAI and transformers 4 do"
    return [Cause("missing-boundary", place(run), evidence) for run in loose]


TESTS: tuple[Callable[[Evidence], list[Cause]], ...] = (
    _padding_side,
    _not_expanded,
    _not_merged,
    _items_swapped,
    _generated,
    _stray,
    _truncated_right,
    _truncated_left,
)
"""The tests for a cause, the most decisive first."""


def likely(evidence: Evidence) -> Cause | None:
    """The first cause that there is evidence for.

    Parameters
    ----------
    evidence : Evidence
        A prompt that does not fit its items.

    Returns
    -------
    Cause or None
        None where the counts fit no known cause.
    """
    for test in TESTS:
        found = test(evidence)
        if found:
            return found[0]
    return None
