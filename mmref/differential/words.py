"""Cases and outcomes in a line each, for people."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mmref.case import Array, Case, Outcome
from mmref.differential.expansions import ExpandedItem, Written

__all__ = ["item_lines", "outcome_lines", "prompt_line"]

_WIDEST = 24  # tokens of a row that are shown
_MOST_FRAMES = 4  # of a video that are shown


def prompt_line(case: Case) -> str:
    """One line: family, tokens with runs folded, and whatever else is set.

    Parameters
    ----------
    case : Case
        The case.

    Returns
    -------
    str
        Plain text.
    """
    parts = [case.family, *_arrays(case.arrays)]
    parts += [f"{name}={value}" for name, value in case.scalars.items()]
    for step in case.steps:
        parts += ["then", step.action]
        parts += _arrays(step.arrays) if step.arrays else [str(step.count)]
    return " ".join(parts)


def _arrays(arrays: Mapping[str, Array]) -> list[str]:
    parts: list[str] = []
    if "input_ids" in arrays:
        ids = arrays["input_ids"]
        parts += ["ids", _rows(ids) if ids.size and ids.ndim == 2 else str(ids.shape)]
    for name, value in arrays.items():
        if name.endswith(("_grid_thw", "_sizes")) and value.ndim == 2:
            grids = ["x".join(_number(side) for side in grid) for grid in value.tolist()]
            parts += [name, _rows(np.array([grids]))]
        elif name != "input_ids":
            parts += [name, _rows(np.atleast_2d(value))]
    return parts


def outcome_lines(outcome: Outcome, where: Sequence[str]) -> list[str]:
    """An outcome, a line for each array that differs.

    Parameters
    ----------
    outcome : Outcome
        The outcome.
    where : sequence of str
        The arrays to show; the first one there is, if it has none of them.

    Returns
    -------
    list of str
        Plain text.
    """
    if outcome.status != "answer":
        return [f"{outcome.status}: {outcome.error}: {outcome.message}".rstrip(": ")]
    names = [name for name in where if name in outcome.arrays]
    lines = []
    for name in names or list(outcome.arrays)[:1]:
        array = outcome.arrays[name]
        if name in ("inputs_embeds", "deepstack"):
            lines.append(f"{name}[..., 0] {_rows(array[..., 0])}")
        elif array.ndim == 3 and (array == array[:1]).all():
            lines.append(f"{name} t=h=w {_rows(array[0])}")
        elif array.ndim == 3:
            axes = zip("thw", array, strict=False)
            lines.append(f"{name} " + "  ".join(f"{axis} {_rows(rows)}" for axis, rows in axes))
        else:
            lines.append(f"{name} {_rows(np.atleast_2d(array))}")
    return lines


def item_lines(item: ExpandedItem) -> list[str]:
    """What a placeholder becomes: where it stands, its sizes, and what is written for it.

    Parameters
    ----------
    item : ExpandedItem
        Of `mmref.differential.expansions`.

    Returns
    -------
    list of str
        Plain text.
    """
    place = f"row {item.row}, character {item.character}: {item.placeholder}"
    head = f"{item.kind} {item.item}, {place if item.row >= 0 else 'without a placeholder'}"
    if item.size is None:
        return [f"{head}, but there is no such {item.kind}"]
    pixels = " x ".join(map(str, item.size[-2:])) + " pixels"
    if len(item.size) == 3:
        pixels = f"{item.size[0]} frames of {pixels}"
    if item.resized is None:
        return [head, f"  {pixels}: {item.refused}"]
    height, width = item.resized
    sizes = f"  {pixels}, resized to {height} x {width}, grid {item.grid}, {item.tokens} tokens"
    lines = [head, sizes]
    frames = [list(group) for _, group in itertools.groupby(item.written, lambda part: part.frame)]
    if len(frames) == 1:
        return [*lines, f"  {_folded(frames[0])}"]
    lines += [f"  frame {at}: {_folded(part)}" for at, part in enumerate(frames[:_MOST_FRAMES])]
    if len(frames) > _MOST_FRAMES:
        lines.append(f"  ... {len(frames) - _MOST_FRAMES} more; --format json has them all")
    return lines


def _folded(parts: Sequence[Written]) -> str:
    """Words with counts; rows that repeat are written once."""
    words = [(part.text if part.special else repr(part.text)) for part in parts]
    words = [word + f" x {p.count}" * (p.count > 1) for word, p in zip(words, parts, strict=True)]
    found, at = [], 0
    while at < len(words):
        pair, again = words[at : at + 2], 1
        while words[at + 2 * again : at + 2 * again + 2] == pair and len(pair) == 2:
            again += 1
        if again > 1:
            found.append(f"({', '.join(pair)}) x {again}")
        else:
            found.append(words[at])
        at += 2 * again if again > 1 else 1
    return ", ".join(found)


def _rows(matrix: Any) -> str:
    """Rows divided by |, runs folded as value*count, long rows cut."""
    matrix = np.asarray(matrix)
    if matrix.size == 0:
        return f"none, shape {matrix.shape}"
    rows = []
    for row in matrix.reshape(-1, matrix.shape[-1]).tolist():
        runs = [(value, len(list(group))) for value, group in itertools.groupby(row)]
        words = [_number(value) + (f"*{count}" if count > 1 else "") for value, count in runs]
        if len(words) > _WIDEST:
            words = [*words[:_WIDEST], f"... ({len(row)} in all)"]
        rows.append(" ".join(words))
    return " | ".join(rows)


def _number(value: Any) -> str:
    if isinstance(value, bool):
        return str(int(value))
    return f"{value:.9g}" if isinstance(value, float) else str(value)
