"""What a named difference is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from mmref.case import Case, Scalar

__all__ = ["Difference", "Refuses", "version_key"]

# (prompt, spans, scalars) -> whether the engine refuses; prompt is a mmref.layout.Prompt
Refuses = Callable[[Any, Any, Mapping[str, Scalar]], bool]
Kind = Literal["changes-answer", "refuses-accepted", "answers-refused", "crashes-on-refused"]


@dataclass(frozen=True, slots=True, eq=False)
class Difference:
    """One way in which releases of an engine part from the reference.

    Exactly one of ``sets``, ``refuses`` and ``on_refused`` is given.

    Parameters
    ----------
    id : str
        Stable kebab-case name.
    engine : str
        The engine's name on PyPI.
    since : str
        First release that has it, as far as is known.
    before : str or None
        First later release without it; None while the newest has it.
    meaning : str
        One sentence: what the engine does.
    consequence : str
        What it does to a user.
    source : str
        How it is known: a file of the engine, an issue, an experiment.
    case : Case
        The smallest prompt that shows it.
    sets : mapping of str to str
        Fields of `PositionRules` and their values: the engine answers differently.
    refuses : callable or None
        Says of a prompt that the reference accepts whether the engine refuses it.
    on_refused : frozenset of str
        Codes of `mmref.layout.REFUSALS`: prompts the reference refuses and the
        engine does not.
    then : {"answer", "crash"}
        What the engine does with those.
    subject : str
        What it is about.
    """

    id: str
    engine: str
    since: str
    meaning: str
    consequence: str
    source: str
    case: Case
    before: str | None = None
    sets: Mapping[str, str] = field(default_factory=dict)
    refuses: Refuses | None = None
    on_refused: frozenset[str] = frozenset()
    then: Literal["answer", "crash"] = "answer"
    subject: str = "positions"

    @property
    def kind(self) -> Kind:
        """How the engine parts from the reference."""
        if self.sets:
            return "changes-answer"
        if self.refuses is not None:
            return "refuses-accepted"
        return "answers-refused" if self.then == "answer" else "crashes-on-refused"

    def holds_for(self, version: str) -> bool:
        """Whether a release has it.

        Parameters
        ----------
        version : str
            A release of the engine.

        Returns
        -------
        bool
            True if ``since <= version < before``.
        """
        key = version_key(version)
        if key < version_key(self.since):
            return False
        return self.before is None or key < version_key(self.before)


def version_key(version: str) -> tuple[int, ...]:
    """A release number as a tuple that compares in order.

    Parameters
    ----------
    version : str
        Like ``"5.24.0"``; what follows the numbers (``rc1``, ``.dev0``) is dropped.

    Returns
    -------
    tuple of int
        Without trailing zeros, so that 5.24 equals 5.24.0.
    """
    numbers: list[int] = []
    for part in version.split("+")[0].split("."):
        digits = part
        while digits and not digits.isdigit():
            digits = digits[:-1]
        if not digits:
            break
        numbers.append(int(digits))
        if digits != part:
            break
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)
