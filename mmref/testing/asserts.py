"""Assert helpers for the suites of other projects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mmref import differences, families, layout, mrope
from mmref.arrays import to_numpy
from mmref.case import Case
from mmref.errors import EngineRefusal, RefusedPrompt

__all__ = ["assert_positions"]

_AXES = "thw"


def assert_positions(
    actual: Any,
    prompt: Case | Mapping[str, Any],
    *,
    deltas: Any = None,
    next_positions: Any = None,
    rules: str = "reference",
    masked: bool = True,
) -> None:
    """Assert that positions are those of the reference, or of a release.

    Parameters
    ----------
    actual : array_like of int, shape (3, batch, seq)
        What your engine computed.
    prompt : Case or mapping
        The prompt: a case, or the keyword arguments of `mmref.mrope.position_ids`.
    deltas : array_like of int, shape (batch,) or (batch, 1), optional
        Compared where given.
    next_positions : array_like of int, shape (3, batch, count), optional
        Positions of the tokens that follow; compared where given.
    rules : str
        As for `mmref.mrope.position_ids`.
    masked : bool
        Whether masked places are compared; the reference has 0 there.

    Raises
    ------
    AssertionError
        Says the first token that differs, its item, both positions, and the release
        that computes exactly what was given, if one does.
    RefusedPrompt
        If the reference refuses the prompt: there is nothing to compare with.

    Examples
    --------
    >>> prompt = {"input_ids": [[5, 6]], "family": "qwen2_vl"}
    >>> assert_positions([[[0, 1]]] * 3, prompt, next_positions=[[[2]]] * 3)
    """
    arguments = prompt.arguments() if isinstance(prompt, Case) else dict(prompt)
    expected = mrope.position_ids(**arguments, rules=rules)
    given = to_numpy(actual, "actual")
    _same_form("position_ids", expected.position_ids, given)
    compared = np.ones(given.shape[1:], bool)
    if not masked:
        compared = expected.attention_mask() != 0
    if not np.array_equal(expected.position_ids[:, compared], given[:, compared]):
        raise AssertionError(_report(arguments, expected, given, compared, rules))
    if next_positions is not None:
        following = to_numpy(next_positions, "next_positions")
        wanted = expected.next_positions(following.shape[-1] if following.ndim else 0)
        _same_form("next_positions", wanted, following)
        _same_values("next_positions", wanted, following)
    if deltas is not None:
        given = to_numpy(deltas, "deltas").reshape(-1)
        _same_form("deltas", expected.deltas, given)
        _same_values("deltas", expected.deltas, given)


def _same_form(name: str, expected: Any, actual: Any) -> None:
    if actual.dtype.kind not in "iu":
        raise AssertionError(f"{name}: dtype {actual.dtype}, expected integers")
    if actual.shape != expected.shape:
        raise AssertionError(f"{name}: shape {actual.shape}, expected {expected.shape}")


def _same_values(name: str, expected: Any, actual: Any) -> None:
    if not np.array_equal(expected, actual):
        place = tuple(int(axis[0]) for axis in np.nonzero(expected != actual))
        raise AssertionError(
            f"{name}: first at {place}: {actual[place]}, expected {expected[place]}\n"
            f"expected {expected.tolist()}\nactual   {actual.tolist()}"
        )


def _report(
    arguments: Mapping[str, Any], expected: mrope.Positions, given: Any, compared: Any, rules: str
) -> str:
    unlike = (expected.position_ids != given).any(0) & compared
    row, index = (int(axis[0]) for axis in np.nonzero(unlike))
    was, wanted = (
        ", ".join(
            f"{axis} {value}" for axis, value in zip(_AXES, array[:, row, index], strict=True)
        )
        for array in (given, expected.position_ids)
    )
    lines = [f"row {row}, token {index} ({_place(expected.layout, row, index)}): {was}"]
    lines[0] += f"; {rules} has {wanted}. {int(unlike.sum())} of {unlike.size} tokens differ"
    for axis in range(3):
        lines.append(f"expected {_AXES[axis]} {expected.position_ids[axis, row].tolist()}")
        lines.append(f"actual   {_AXES[axis]} {given[axis, row].tolist()}")
    lines += _same_as(arguments, given, compared, rules)
    return "\n".join(lines)


def _place(spans: layout.Layout, row: int, index: int) -> str:
    for span in spans:
        if span.row == row and span.start <= index < span.stop:
            if span.grid is None:
                return "text"
            return f"{span.kind} {span.item}, grid {span.grid} after merging"
    return "masked"


def _same_as(arguments: Mapping[str, Any], given: Any, compared: Any, rules: str) -> list[str]:
    """The releases that compute what was given: mostly, a port of one of them."""
    found = []
    for name in differences.rules_names(families.get(arguments["family"])):
        if name == rules:
            continue
        try:
            other = mrope.position_ids(**arguments, rules=name).position_ids
        except (EngineRefusal, RefusedPrompt):
            continue
        if np.array_equal(other[:, compared], given[:, compared]):
            found.append(f"this is what rules={name!r} computes")
    return found
