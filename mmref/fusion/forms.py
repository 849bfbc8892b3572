"""What an exported embedding graph does with a prompt, also when counts do not match.

Exported models do not scatter features by one rule but by a handful of node
sequences. Five cover what exporters write (``FORMS``). All but the last number
the placeholders of each batch row on their own (``CumSum`` over axis 1) and
look the feature row up; they differ in the zero row they add, and so in what a
wrong count does.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from mmref.errors import RefusedPrompt, UnknownName

__all__ = ["FORMS", "RUNTIMES", "UNWRITTEN", "ZERO_ROW", "Prediction", "predict"]

FORMS: dict[str, str] = {
    "gather_elements": "A: GatherElements over features with a zero row at the end",
    "gather": "B: Gather over features with a zero row at the end",
    "gather_unpadded": "C: Gather over the features as they are",
    "gather_front_pad": "D: Gather over features with a zero row in front, cumsum times mask",
    "scatter_nd": "ScatterND at the places that NonZero finds, features cut to their number",
}
"""The graph forms by name."""

RUNTIMES: dict[str, str] = {
    "onnxruntime-cpu": "run: onnxruntime 1.32",
    "onnx.reference": "run: onnx 1.23",
    "onnxruntime-cuda": "read, not run: gather_impl.cu, gather_elements_impl.cu",
}
"""The runtimes by name, and how their answers are known."""

ZERO_ROW = -1
UNWRITTEN = -2
_CHOICES = 63  # onnx.reference takes GatherElements from np.choose, which takes fewer than 64 rows

Effect = Literal["row-restart", "zero-row", "dropped", "wrapped", "unwritten"]


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a graph form does with given numbers of placeholders and features.

    Parameters
    ----------
    status : {"answer", "refusal"}
        Whether the runtime answers.
    rows : tuple of tuple of int
        For every batch row, the feature row of each placeholder in order;
        ``ZERO_ROW`` for zeros, ``UNWRITTEN`` for memory that nobody wrote. Empty for a refusal.
    effects : tuple of str
        What parts an answer from the reference: ``row-restart`` (a batch row takes
        an earlier row's features), ``zero-row``, ``dropped`` (features that no
        placeholder takes), ``wrapped`` (an index beyond the end taken modulo the
        number of rows), ``unwritten``. All silent.
    why : str
        For a refusal, the cause.
    evidence : str
        How it is known: run, or read and not run.
    """

    status: Literal["answer", "refusal"]
    rows: tuple[tuple[int, ...], ...]
    effects: tuple[Effect, ...]
    why: str
    evidence: str

    @property
    def exact(self) -> bool:
        """Whether the answer is the reference's."""
        return self.status == "answer" and not self.effects

    def __str__(self) -> str:
        if self.status == "refusal":
            return f"refused: {self.why}"
        return "exact" if self.exact else "silently " + ", ".join(self.effects)


def predict(
    form: str,
    placeholders_per_row: Sequence[int],
    features: int,
    runtime: str = "onnxruntime-cpu",
) -> Prediction:
    """Say what an exported embedding graph will do with a prompt.

    Parameters
    ----------
    form : str
        A name of ``FORMS``.
    placeholders_per_row : sequence of int
        Placeholders in each row of the batch.
    features : int
        Feature rows passed, for the whole batch.
    runtime : str
        A name of ``RUNTIMES``.

    Returns
    -------
    Prediction
        An answer, row by row, or a refusal.

    Raises
    ------
    RefusedPrompt
        ``count-value`` if a number is not an integer of at least 0, or there is no row.
    UnknownName
        If the form or the runtime is not known.

    Notes
    -----
    Source: each form built by `mmref.probes.fusion` and run on every combination
    of 0 to 6 placeholders, 0 to 4 features and 1 to 3 batch rows, on ONNX Runtime's
    CPU provider and `onnx.reference`. CUDA is read from its kernels, not run.

    Examples
    --------
    >>> str(predict("gather", [3], 2)), str(predict("gather", [4], 2))
    ('silently zero-row', 'refused: index 3 of 3 rows')
    >>> predict("gather", [1, 1], 2).rows
    ((0,), (0,))
    """
    if form not in FORMS:
        raise UnknownName("form", form, FORMS)
    if runtime not in RUNTIMES:
        raise UnknownName("runtime", runtime, RUNTIMES)
    counts = [_whole(count, "placeholders_per_row") for count in placeholders_per_row]
    available = _whole(features, "features")
    if not counts:
        raise RefusedPrompt(
            "count-value", where="placeholders_per_row", got="no row", expected="at least one"
        )
    evidence = RUNTIMES[runtime]
    if form == "scatter_nd":
        if sum(counts) > available:
            why = f"{sum(counts)} places for {available} updates"
            return Prediction("refusal", (), (), why, evidence)
        return _answer(counts, available, _flat(counts), evidence)
    if form == "gather_elements":
        return _gather_elements(counts, available, runtime, evidence)
    # the lookup of every token, text too, is clipped at the first row from below and never from
    # above; what text looks up is not used
    padded = 0 if form == "gather_unpadded" else 1
    largest = max(counts) if form == "gather_front_pad" else max(0, max(counts) - 1)
    if largest >= available + padded and runtime != "onnxruntime-cuda":
        why = f"index {largest} of {available + padded} rows"
        return Prediction("refusal", (), (), why, evidence)
    rows = [[k if k < available else ZERO_ROW for k in range(count)] for count in counts]
    return _answer(counts, available, rows, evidence)


def _gather_elements(counts: list[int], available: int, runtime: str, evidence: str) -> Prediction:
    """Form A. Its data has one batch row, so that only a batch of one fits."""
    if len(counts) > 1:
        why = f"indices of {len(counts)} batch rows into features of one"
        return Prediction("refusal", (), (), why, evidence)
    largest = max(0, counts[0] - 1)
    if runtime == "onnx.reference":
        if available + 1 > _CHOICES:
            why = f"NumPy's choose takes {_CHOICES} rows at most, not {available + 1}"
            return Prediction("refusal", (), (), why, evidence)
        wrapped = [k % (available + 1) for k in range(counts[0])]
        rows = [[k if k < available else ZERO_ROW for k in wrapped]]
        return _answer(counts, available, rows, evidence)
    beyond = UNWRITTEN if runtime == "onnxruntime-cuda" else None
    if largest > available and beyond is None:
        why = f"index {largest} of {available + 1} rows"
        return Prediction("refusal", (), (), why, evidence)
    past = ZERO_ROW if beyond is None else beyond
    rows = [
        [k if k < available else ZERO_ROW if k == available else past for k in range(counts[0])]
    ]
    return _answer(counts, available, rows, evidence)


def _answer(counts: list[int], available: int, rows: list[list[int]], evidence: str) -> Prediction:
    effects: list[Effect] = []
    expected = _flat(counts)
    taken = {row for line in rows for row in line}
    if any(
        line and line[0] == 0 and wanted[0] > 0 for line, wanted in zip(rows, expected, strict=True)
    ):
        effects.append("row-restart")
    if ZERO_ROW in taken:
        effects.append("zero-row")
    if not set(range(available)) <= taken:
        effects.append("dropped")
    if any(len(line) > available + 1 and line[available + 1] >= 0 for line in rows):
        effects.append("wrapped")
    if UNWRITTEN in taken:
        effects.append("unwritten")
    return Prediction("answer", tuple(map(tuple, rows)), tuple(effects), "", evidence)


def _flat(counts: list[int]) -> list[list[int]]:
    """The reference: one list of features over the whole batch."""
    rows, first = [], 0
    for count in counts:
        rows.append(list(range(first, first + count)))
        first += count
    return rows


def _whole(value: Any, where: str) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = -1
    if number < 0 or isinstance(value, bool):
        raise RefusedPrompt(
            "count-value", where=where, got=repr(value), expected="an integer of at least 0"
        )
    return number
