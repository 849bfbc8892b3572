"""The common currency: a case goes in, an outcome comes out.

Strategies make cases, files store them, engines run them, `mmref diff`
compares the outcomes. Both have a JSON form that a person can read and type.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from mmref import case_form
from mmref.case_steps import Step
from mmref.errors import BadCase
from mmref.families.row import TokenIds

__all__ = ["SUBJECTS", "Array", "Case", "Outcome", "Scalar", "Step"]

SUBJECTS = ("positions", "tokens", "fusion", "audio", "omni", "rope")
"""What a case can be about."""

Array = npt.NDArray[Any]
Scalar = int | float | str | list[str]
Status = Literal["answer", "refusal", "crash", "timeout"]

_DTYPES = ("int64", "int32", "uint8", "bool", "float32", "float64")
_PROMPT_ARRAYS = (
    "input_ids",
    "image_grid_thw",
    "video_grid_thw",
    "second_per_grid_ts",
    "attention_mask",
)
_PROMPT_SCALARS = ("spatial_merge_size", "tokens_per_second")
_TOKEN_NAMES = tuple(TokenIds.__dataclass_fields__)


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """One input, for any engine.

    Parameters
    ----------
    family : str
        A family name or alias.
    arrays : mapping of str to numpy.ndarray
        For the subject ``positions``: ``input_ids``, and where given
        ``attention_mask``, ``image_grid_thw``, ``video_grid_thw``,
        ``second_per_grid_ts`` (float64 stands for a Python list of numbers,
        float32 for an array or tensor). For ``tokens``: ``image_sizes`` (images, 2),
        ``video_sizes`` (videos, 3), ``audio_sizes`` (clips, 1), samples. For
        ``fusion``: ``input_ids``. For ``audio``, one of
        ``lengths`` (clips,), ``mask`` (batch, frames) and ``samples`` (clips,). For
        ``omni``, those of ``positions`` and ``audio_lengths`` (clips,). For ``rope``,
        ``input_ids`` and ``attention_mask``.
    scalars : mapping of str to int, float, str or list of str
        ``spatial_merge_size``, ``tokens_per_second``, ``decode_steps`` (tokens
        generated after the prompt), ``num_beams``, ``unset`` (names of token
        ids that a model's configuration leaves out). For ``tokens``: ``texts``, the
        prompts, and ``video_fps``. For ``omni``: ``use_audio_in_video``, 0 or 1. For ``rope``:
        ``decode_steps``, ``window`` (tokens of a window) and ``window_alignment``. For
        ``fusion``: ``image_rows``, ``video_rows`` and
        ``audio_rows`` (rows of features; absent: that kind is not passed), ``feature_width``,
        ``form`` (of `mmref.fusion.FORMS`), ``turn_start`` (tokens from there on come in a
        later call). Embeddings, features and default token ids are
        those of `mmref.probes.fusion`.
    token_ids : mapping of str to int, optional
        Fields of `mmref.families.TokenIds`; default: the family's.
    subject : str
        What is asked.
    steps : tuple of Step
        What follows a prompt of the subject ``positions`` or ``rope``, in order.

    Examples
    --------
    >>> case = Case("qwen2_vl", {"input_ids": np.array([[5, 6]])})
    >>> Case.from_json(case.to_json()).arrays["input_ids"].tolist()
    [[5, 6]]
    """

    family: str
    arrays: Mapping[str, Array]
    scalars: Mapping[str, Scalar] = field(default_factory=dict)
    token_ids: Mapping[str, int] | None = None
    subject: str = "positions"
    steps: tuple[Step, ...] = ()

    @property
    def ids(self) -> TokenIds | None:
        """The token ids as a `TokenIds`, or None for the family's own."""
        return None if self.token_ids is None else TokenIds(**self.token_ids)

    @property
    def decode_steps(self) -> int:
        """Tokens generated after the prompt."""
        return int(self.scalars.get("decode_steps", 0))  # type: ignore[arg-type]

    @property
    def texts(self) -> tuple[str, ...]:
        """The prompts of a case of tokens."""
        texts = self.scalars.get("texts", ())
        return tuple(texts) if isinstance(texts, list) else (str(texts),)

    @property
    def size(self) -> int:
        """How large it is, to find the smallest: tokens and rows, or characters and pixels."""
        if "input_ids" in self.arrays:
            later = sum(int(step.arrays["input_ids"].size) for step in self.steps if step.arrays)
            rows = (self.scalars.get(f"{kind}_rows", 0) for kind in ("image", "video", "audio"))
            later += len(self.steps) + sum(map(int, rows))  # type: ignore[arg-type]
            return int(self.arrays["input_ids"].size) + later
        if "mask" in self.arrays:
            return int(self.arrays["mask"].size)
        pixels = sum(int(np.abs(array).sum()) for array in self.arrays.values())
        return sum(map(len, self.texts)) + pixels

    @property
    def key(self) -> str:
        """A short stable name of the content."""
        return hashlib.sha256(self.to_json()).hexdigest()[:12]

    def arguments(self) -> dict[str, Any]:
        """The arguments of `mmref.mrope.position_ids` that a case of positions stands for.

        Returns
        -------
        dict
            By name, without those that are not given; ``rules`` is not among them.

        Examples
        --------
        >>> sorted(Case("qwen2_vl", {"input_ids": np.array([[5, 6]])}).arguments())
        ['family', 'input_ids', 'token_ids']
        """
        found: dict[str, Any] = {
            name: self.arrays[name] for name in _PROMPT_ARRAYS if name in self.arrays
        }
        found |= {name: self.scalars[name] for name in _PROMPT_SCALARS if name in self.scalars}
        return {**found, "family": self.family, "token_ids": self.ids}

    def omni_arguments(self) -> dict[str, Any]:
        """The arguments of `mmref.mrope.position_ids` that a case of omni stands for.

        Returns
        -------
        dict
            By name, without ``rules``.
        """
        found = self.arguments()
        if "audio_lengths" in self.arrays:
            found["audio_lengths"] = self.arrays["audio_lengths"]
        found["use_audio_in_video"] = bool(self.scalars.get("use_audio_in_video", 0))
        return found

    def with_scalars(self, **scalars: Scalar) -> Case:
        """A copy with other scalars.

        Parameters
        ----------
        **scalars : int, float, str or list of str
            New values by name.

        Returns
        -------
        Case
            The copy.
        """
        return replace(self, scalars={**self.scalars, **scalars})

    def followed_by(self, step: Step) -> Case:
        """The case whose prompt holds what a step appends, too.

        Parameters
        ----------
        step : Step
            A step that appends.

        Returns
        -------
        Case
            The copy; what one of both leaves out is what stands for it: a mask of ones,
            one second for each video.

        Examples
        --------
        >>> case = Case("qwen2_vl", {"input_ids": np.array([[5, 6]])})
        >>> step = Step("append", 0, {"input_ids": np.array([[7]])})
        >>> case.followed_by(step).arrays["input_ids"].tolist()
        [[5, 6, 7]]
        """
        parts = [dict(self.arrays), dict(step.arrays)]
        timed = [part["second_per_grid_ts"] for part in parts if "second_per_grid_ts" in part]
        for part in parts:
            part.setdefault("attention_mask", np.ones_like(part["input_ids"]))
            if timed:
                ones = np.ones(len(part.get("video_grid_thw", ())), timed[0].dtype)
                part.setdefault("second_per_grid_ts", ones)
        joined = {
            name: np.concatenate(
                [part[name] for part in parts if name in part],
                axis=1 if name in ("input_ids", "attention_mask") else 0,
            )
            for name in parts[0] | parts[1]
        }
        return replace(self, arrays=joined)

    def to_builtins(self) -> dict[str, Any]:
        """The JSON form as Python objects.

        Returns
        -------
        dict
            Only what is set.
        """
        data: dict[str, Any] = {"subject": self.subject, "family": self.family}
        data["arrays"] = {name: _array_out(value) for name, value in self.arrays.items()}
        if self.scalars:
            data["scalars"] = {name: _float_out(value) for name, value in self.scalars.items()}
        if self.token_ids is not None:
            data["token_ids"] = dict(self.token_ids)
        if self.steps:
            data["steps"] = [step.to_builtins(_array_out) for step in self.steps]
        return data

    def to_json(self, *, indent: int | None = None) -> bytes:
        """The JSON form as text.

        Parameters
        ----------
        indent : int, optional
            Spaces a level; default: one line.

        Returns
        -------
        bytes
            UTF-8.
        """
        data = msgspec.json.encode(self.to_builtins())
        return data if indent is None else msgspec.json.format(data, indent=indent)

    @classmethod
    def from_builtins(cls, data: Any) -> Case:
        """A case from its JSON form.

        Parameters
        ----------
        data : dict
            As `to_builtins` returns it.

        Returns
        -------
        Case
            The case.

        Raises
        ------
        BadCase
            If the form is not that of a case.
        """
        try:
            form = msgspec.convert(data, _CaseForm)
        except msgspec.ValidationError as error:
            raise BadCase("bad-case", where="case", got=str(error)) from error
        if form.subject not in SUBJECTS:
            expected = f"one of {', '.join(SUBJECTS)}"
            raise BadCase("bad-case", where="case, subject", got=form.subject, expected=expected)
        case_form.check(form.subject, form.arrays, form.scalars, form.token_ids or {})
        token_ids = form.token_ids
        for name in token_ids or ():
            if name not in _TOKEN_NAMES:
                raise BadCase(
                    "bad-case",
                    where=f"case, token_ids.{name}",
                    got="not a token id that is known",
                    expected=f"one of {', '.join(_TOKEN_NAMES)}",
                )
        arrays = {name: _array_in(name, value) for name, value in form.arrays.items()}
        for name in ("input_ids", "attention_mask"):
            if name in arrays and arrays[name].ndim == 1:  # a vector is one row
                arrays[name] = arrays[name].reshape(1, -1)
        scalars = {name: _float_in(value) for name, value in form.scalars.items()}
        steps = tuple(
            Step.from_builtins(step, number, _array_in) for number, step in enumerate(form.steps)
        )
        case_form.check_steps(form.subject, steps)
        if steps and "decode_steps" in form.scalars:
            got, expected = "steps and decode_steps", "one of them; {'generate': n} is a step"
            raise BadCase("bad-case", where="case, steps", got=got, expected=expected)
        return cls(form.family, arrays, scalars, token_ids, form.subject, steps)

    @classmethod
    def from_json(cls, text: bytes | str) -> Case:
        """A case from JSON text.

        Parameters
        ----------
        text : bytes or str
            One case.

        Returns
        -------
        Case
            The case.

        Raises
        ------
        BadCase
            If the text is not JSON or not a case.
        """
        return cls.from_builtins(case_form.decode(text, "case"))

    @classmethod
    def from_file(cls, path: Path) -> Case:
        """A case from a JSON file, also from a finding that holds one under ``case``.

        Parameters
        ----------
        path : Path
            The file.

        Returns
        -------
        Case
            The case.

        Raises
        ------
        BadCase
            If the file cannot be read or holds no case.
        """
        try:
            text = path.read_bytes()
        except OSError as error:
            got = error.strerror or "unreadable"
            raise BadCase("unreadable-file", where=str(path), got=got) from error
        data = case_form.decode(text, str(path))
        if isinstance(data, dict) and isinstance(data.get("case"), dict):
            data = data["case"]
        return cls.from_builtins(data)


class _CaseForm(msgspec.Struct, forbid_unknown_fields=True):
    family: str
    arrays: dict[str, Any]
    scalars: dict[str, int | float | str | list[str]] = {}
    token_ids: dict[str, int] | None = None
    subject: str = "positions"
    steps: list[Any] = []


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What an engine, or the reference, made of a case.

    Parameters
    ----------
    status : {"answer", "refusal", "crash", "timeout"}
        How it ended.
    arrays : mapping of str to numpy.ndarray
        ``position_ids`` (3, batch, seq), ``rope_deltas`` (batch,),
        ``attention_mask`` (batch, seq), and after ``decode_steps``:
        ``next_position_ids`` (3, batch, steps), ``cached_position_ids``,
        ``masked_position_ids``, ``next_attention_mask`` (batch, seq + steps). For each
        step k of the case, counted from 1, ``step_k_position_ids`` (3, batch, tokens),
        ``step_k_cached`` (1,), the tokens in the cache before it, and ``step_k_mask``.
    error : str
        Type or code of the error, unless it answered.
    message : str
        First line of what it said.
    """

    status: Status
    arrays: Mapping[str, Array] = field(default_factory=dict)
    error: str = ""
    message: str = ""

    @classmethod
    def refusal(cls, error: BaseException) -> Outcome:
        """An outcome from the exception an engine raised.

        Parameters
        ----------
        error : BaseException
            What was raised.

        Returns
        -------
        Outcome
            With status ``refusal``.
        """
        name = getattr(error, "code", None) or type(error).__name__
        lines = str(error).strip().splitlines()
        return cls("refusal", {}, str(name), lines[0][:300] if lines else "")

    def to_builtins(self) -> dict[str, Any]:
        """The JSON form as Python objects.

        Returns
        -------
        dict
            Only what is set.
        """
        data: dict[str, Any] = {"status": self.status}
        if self.arrays:
            data["arrays"] = {name: _array_out(value) for name, value in self.arrays.items()}
        if self.error:
            data["error"] = self.error
        if self.message:
            data["message"] = self.message
        return data

    @classmethod
    def from_builtins(cls, data: Mapping[str, Any]) -> Outcome:
        """An outcome from its JSON form.

        Parameters
        ----------
        data : mapping
            As `to_builtins` returns it.

        Returns
        -------
        Outcome
            The outcome.
        """
        arrays = {name: _array_in(name, value) for name, value in data.get("arrays", {}).items()}
        return cls(data["status"], arrays, data.get("error", ""), data.get("message", ""))


def _array_out(array: Array) -> Any:
    """Nested lists where they say it all, else dtype, shape and flat data."""
    plain = array.size and array.dtype in (np.int64, np.bool_, np.float64)
    data = array.tolist() if plain else array.ravel().tolist()
    if array.dtype.kind == "f":
        data = _float_out(data)
    if plain:
        return data
    return {"dtype": str(array.dtype), "shape": list(array.shape), "data": data}


def _array_in(name: str, value: Any) -> Array:
    where = f"case, arrays.{name}"
    try:
        if isinstance(value, dict):
            dtype = value["dtype"]
            if dtype not in _DTYPES:
                expected = ", ".join(_DTYPES)
                raise BadCase("bad-case", where=where, got=f"dtype {dtype!r}", expected=expected)
            data = np.array(_float_in(value["data"]), dtype=dtype)
            return data.reshape([int(side) for side in value["shape"]])
        array = np.array(_float_in(value))
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise BadCase("bad-case", where=where, got=f"not an array: {error}") from error
    if array.dtype.kind not in "bif" or not isinstance(value, list):
        raise BadCase("bad-case", where=where, got=f"{array.dtype}", expected="a list of numbers")
    return array


def _float_out(value: Any) -> Any:
    """JSON has no NaN and no infinity: they travel as text."""
    if isinstance(value, list):
        return [_float_out(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    return value


def _float_in(value: Any) -> Any:
    if isinstance(value, list):
        return [_float_in(entry) for entry in value]
    if isinstance(value, str) and value in ("nan", "inf", "-inf"):
        return float(value)
    return value
