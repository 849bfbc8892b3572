"""What follows the prompt of a case: tokens and media that are appended or generated, rewinds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy.typing as npt

from mmref.case_form import MOST_STEPS, POSITION_ARRAYS
from mmref.errors import BadCase

__all__ = ["Step"]

Array = npt.NDArray[Any]
Action = Literal["append", "generate", "rewind"]
_MOST = 64  # steps of a case


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One thing that is done after the prompt.

    Parameters
    ----------
    action : {"append", "generate", "rewind"}
        Append tokens, and media with them; generate tokens; or keep only the first tokens.
    count : int
        Tokens to generate, or to keep of each padded row.
    arrays : mapping of str to numpy.ndarray
        Of what is appended: as for a prompt, for the new tokens and items alone.

    Examples
    --------
    >>> Step("rewind", 3).to_builtins(list)
    {'rewind': 3}
    """

    action: Action
    count: int = 0
    arrays: Mapping[str, Array] = field(default_factory=dict)

    def to_builtins(self, array_out: Callable[[Array], Any]) -> dict[str, Any]:
        """The JSON form as Python objects.

        Parameters
        ----------
        array_out : callable
            Makes an array's JSON form.

        Returns
        -------
        dict
            One entry, named like the action.
        """
        if self.action != "append":
            return {self.action: self.count}
        return {"append": {name: array_out(value) for name, value in self.arrays.items()}}

    @classmethod
    def from_builtins(cls, data: Any, number: int, array_in: Callable[[str, Any], Array]) -> Step:
        """A step from its JSON form.

        Parameters
        ----------
        data : dict
            As `to_builtins` returns it.
        number : int
            Which step it is, for errors.
        array_in : callable
            Reads an array's JSON form; takes its name and the form.

        Returns
        -------
        Step
            The step.

        Raises
        ------
        BadCase
            If the form is not that of a step.
        """
        where = f"case, steps[{number}]"
        expected = '{"append": arrays}, {"generate": tokens} or {"rewind": tokens kept}'
        if number >= _MOST:
            raise BadCase("bad-case", where=where, got="too many", expected=f"at most {_MOST}")
        if not isinstance(data, dict) or len(data) != 1:
            raise BadCase("bad-case", where=where, got=repr(data)[:80], expected=expected)
        ((action, value),) = data.items()
        if action in ("generate", "rewind"):
            least = 1 if action == "generate" else 0
            if type(value) is not int or not least <= value <= (MOST_STEPS if least else 2**31):
                counted = f"an integer from {least} on"
                raise BadCase("bad-case", where=where, got=repr(value)[:80], expected=counted)
            return cls(action, value)
        if action != "append" or not isinstance(value, dict) or "input_ids" not in value:
            raise BadCase("bad-case", where=where, got=repr(data)[:80], expected=expected)
        arrays = {}
        for name, form in value.items():
            if name not in POSITION_ARRAYS:
                known = f"one of {', '.join(POSITION_ARRAYS)}"
                raise BadCase("bad-case", where=f"{where}.{name}", got="not known", expected=known)
            array = array_in(name, form)
            is_row = array.ndim == 1 and name in ("input_ids", "attention_mask")
            arrays[name] = array.reshape(1, -1) if is_row else array
        return cls("append", 0, arrays)
