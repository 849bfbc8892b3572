"""What an engine is to mmref."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from mmref.case import Case, Outcome

__all__ = ["Engine"]


@runtime_checkable
class Engine(Protocol):
    """Something that can be handed a case and shows what it computed.

    Attributes
    ----------
    name : str
        The engine's name on PyPI.
    version : str
        The version that runs.
    provider : str
        What it computes on, for example ``"cpu"``.
    subjects : tuple of str
        What it can be asked about, names of `mmref.case.SUBJECTS`.
    """

    name: str
    version: str
    provider: str
    subjects: tuple[str, ...]

    def skip(self, case: Case) -> str | None:
        """Why this case cannot be put to the engine, or None.

        Parameters
        ----------
        case : Case
            The case.

        Returns
        -------
        str or None
            A reason that holds for a whole kind of case.
        """
        ...

    def run(self, case: Case) -> Outcome:
        """Put a case to the engine.

        Parameters
        ----------
        case : Case
            A case that `skip` has no reason against.

        Returns
        -------
        Outcome
            What it answered, or that it refused, crashed or took too long.
        """
        ...
