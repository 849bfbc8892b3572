"""Cases and outcomes in a line each, for people."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mmref.case import Array, Case, Outcome

__all__ = ["outcome_lines", "prompt_line"]

_WIDEST = 24  # tokens of a row that are shown


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
