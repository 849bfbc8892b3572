"""What a check and a finding are, and the register of checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from mmref.errors import UnknownName

__all__ = ["CHECKS", "CONSEQUENCES", "Check", "Finding", "Problem", "Target", "check", "chosen"]

Consequence = Literal["wrong answer", "crash", "refusal", "slow"]
CONSEQUENCES: tuple[Consequence, ...] = ("wrong answer", "crash", "refusal", "slow")
"""What a mistake leads to, the gravest first: a silent wrong answer is worse than an error."""

Scope = Literal["package", "graph"]


@dataclass(frozen=True, slots=True)
class Target:
    """Where the package is to run.

    Parameters
    ----------
    provider : str
        Execution provider, as GenAI names it: ``"cpu"``, ``"cuda"``, ...
    ort : tuple of int
        Version of ONNX Runtime.
    """

    provider: str = "cpu"
    ort: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Problem:
    """What a check found, before it is made a finding.

    Parameters
    ----------
    where : str
        The place: a file and a key, or a part and a node.
    got : str
        What stands there.
    happens : str
        What the engine does with it; empty takes the check's own words.
    fix : str
        What to do; empty takes the check's own words.
    consequence : str or None
        What it leads to here, if not what the check says.
    """

    where: str
    got: str
    happens: str = ""
    fix: str = ""
    consequence: Consequence | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """One mistake in a package.

    Parameters
    ----------
    check : str
        Id of the check.
    consequence : str
        One of `CONSEQUENCES`.
    where, got, happens, fix : str
        The place, what stands there, what the engine does with it, what to do.
    source : str
        How it is known.
    """

    check: str
    consequence: Consequence
    where: str
    got: str
    happens: str
    fix: str
    source: str


# (subject, target) -> problems; subject is a Package, or a name and a graph
Function = Callable[..., Iterable[Problem]]


@dataclass(frozen=True, slots=True)
class Check:
    """One rule about packages or graphs.

    Parameters
    ----------
    id : str
        ``group/name``, kebab-case; never changes.
    scope : {"package", "graph"}
        What it is handed: the package, or each of its graphs.
    consequence : str
        What a mistake leads to, one of `CONSEQUENCES`.
    meaning : str
        One sentence: what is wrong.
    happens : str
        What the engine does with it.
    fix : str
        What to do.
    source : str
        How it is known.
    function : callable
        Finds the problems.
    """

    id: str
    scope: Scope
    consequence: Consequence
    meaning: str
    happens: str
    fix: str
    source: str
    function: Function

    def run(self, subject: Any, target: Target) -> Iterator[Finding]:
        """The findings of one subject.

        Parameters
        ----------
        subject : Package or tuple of (str, onnx_ir.Model)
            What the check is about.
        target : Target
            Where it is to run.

        Yields
        ------
        Finding
            One for each problem.
        """
        for problem in self.function(subject, target):
            yield Finding(
                self.id,
                problem.consequence or self.consequence,
                _printable(problem.where),
                _printable(problem.got),
                _printable(problem.happens or self.happens),
                _printable(problem.fix or self.fix),
                self.source,
            )


def _printable(text: str) -> str:
    """A text without halves of characters, which JSON can hold and no terminal can show."""
    return text.encode("utf-8", "backslashreplace").decode()


CHECKS: dict[str, Check] = {}
"""Every check by its id, in the order in which they are made."""


def check(
    identifier: str,
    *,
    scope: Scope = "package",
    consequence: Consequence,
    meaning: str,
    happens: str,
    fix: str,
    source: str,
) -> Callable[[Function], Function]:
    """Register a function as a check.

    Parameters
    ----------
    identifier : str
        ``group/name``.
    scope : {"package", "graph"}
        What it is handed.
    consequence, meaning, happens, fix, source : str
        As for `Check`.

    Returns
    -------
    callable
        The decorator.
    """

    def register(function: Function) -> Function:
        assert identifier not in CHECKS, identifier
        CHECKS[identifier] = Check(
            identifier, scope, consequence, meaning, happens, fix, source, function
        )
        return function

    return register


def chosen(select: Iterable[str] = (), ignore: Iterable[str] = ()) -> list[Check]:
    """The checks that are asked for.

    Parameters
    ----------
    select : iterable of str
        Ids or groups; all if empty.
    ignore : iterable of str
        Ids or groups to leave out.

    Returns
    -------
    list of Check
        In the order of the register.

    Raises
    ------
    UnknownName
        If an id or a group is not known.
    """
    groups = {identifier.partition("/")[0] for identifier in CHECKS}
    select, ignore = list(select), list(ignore)
    for name in (*select, *ignore):
        if name not in CHECKS and name.rstrip("/") not in groups:
            raise UnknownName("check", name, [*CHECKS, *groups])

    def named(identifier: str, names: list[str]) -> bool:
        group = identifier.partition("/")[0]
        return any(name == identifier or name.rstrip("/") == group for name in names)

    return [
        entry
        for identifier, entry in CHECKS.items()
        if (not select or named(identifier, select)) and not named(identifier, ignore)
    ]
