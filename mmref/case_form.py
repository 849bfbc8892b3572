"""The JSON form of a case, checked field by field before anything runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from mmref.errors import BadCase
from mmref.families.row import TokenIds

__all__ = [
    "FUSION_TABLE_ROWS",
    "FUSION_TOKEN_IDS",
    "check",
    "check_steps",
    "decode",
]

POSITION_ARRAYS = (
    "input_ids",
    "attention_mask",
    "image_grid_thw",
    "video_grid_thw",
    "second_per_grid_ts",
)
MOST_STEPS = 1000
MOST_BEAMS = 64
_INTEGERS = {
    "spatial_merge_size": (-(2**31), 2**31 - 1),  # also what the reference refuses is a case
    "decode_steps": (0, MOST_STEPS),
    "num_beams": (1, MOST_BEAMS),
}
_SCALARS = (*_INTEGERS, "tokens_per_second", "unset")
_TOKEN_ARRAYS = {"image_sizes": 2, "video_sizes": 3, "audio_sizes": 1}
_TOKEN_SCALARS = ("texts", "video_fps", "use_audio_in_video")
FUSION_TABLE_ROWS = 32  # tokens of the table that cases of fusion are embedded by
FUSION_TOKEN_IDS = {"image": 10, "video": 11, "audio": 16, "video_start": 14, "video_end": 15}
_FUSION_INTEGERS = {
    "image_rows": (0, 4096),
    "video_rows": (0, 4096),
    "audio_rows": (0, 4096),
    "feature_width": (1, 64),
    "turn_start": (1, 4096),
}
_AUDIO_ARRAYS = ("lengths", "mask", "samples")
_ROPE_ARRAYS = ("input_ids", "attention_mask")
_ROPE_INTEGERS = {"decode_steps": (0, MOST_STEPS), "window": (1, 2**20)}
_ALIGNMENTS = ("left", "right")
_FORMS = ("gather_elements", "gather", "gather_unpadded", "gather_front_pad", "scatter_nd")
_TOKEN_NAMES = tuple(TokenIds.__dataclass_fields__)


def decode(text: bytes | str, where: str) -> Any:
    """JSON text as Python objects.

    Parameters
    ----------
    text : bytes or str
        The text.
    where : str
        What it is, for errors.

    Returns
    -------
    object
        What it holds.

    Raises
    ------
    BadCase
        ``bad-json``, also for nesting beyond reason.
    """
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadCase("bad-json", where=where, got=str(error)) from error
    except RecursionError:
        raise BadCase("bad-json", where=where, got="nested too deeply") from None


def check(
    subject: str,
    arrays: Mapping[str, Any],
    scalars: Mapping[str, Any],
    token_ids: Mapping[str, int],
) -> None:
    """Check the names and values of a case.

    Parameters
    ----------
    subject : str
        A name of `mmref.case.SUBJECTS`.
    arrays, scalars : mapping of str to object
        By name.
    token_ids : mapping of str to int
        Those that the case gives.

    Raises
    ------
    BadCase
        If a name is not known or a value cannot be one.
    """
    if subject == "positions":
        _check_positions(arrays, scalars)
    elif subject == "tokens":
        _check_tokens(arrays, scalars)
    elif subject == "fusion":
        _check_fusion(arrays, scalars, token_ids)
    elif subject == "audio":
        _check_audio(arrays, scalars)
    elif subject == "omni":
        _check_omni(arrays, scalars)
    else:
        _check_rope(arrays, scalars)


def check_steps(subject: str, steps: Sequence[Any]) -> None:
    """Check that a case of this subject can go on, and with what.

    Parameters
    ----------
    subject : str
        A name of `mmref.case.SUBJECTS`.
    steps : sequence of Step
        What follows the prompt.

    Raises
    ------
    BadCase
        If it cannot.
    """
    if steps and subject not in ("positions", "rope"):
        raise BadCase("bad-case", where="case, steps", got=f"a case of {subject}")
    if subject == "rope":
        for number, step in enumerate(steps):
            _known(f"steps[{number}]", step.arrays, _ROPE_ARRAYS)


def _check_tokens(arrays: Mapping[str, Any], scalars: Mapping[str, Any]) -> None:
    """Check a case of tokens: its prompts, the shapes of its sizes, its frame rate."""
    _known("arrays", arrays, tuple(_TOKEN_ARRAYS))
    _known("scalars", scalars, _TOKEN_SCALARS)
    if not isinstance(scalars.get("texts"), list) or not scalars["texts"]:
        got = repr(scalars.get("texts"))
        expected = "a list of at least one prompt"
        raise BadCase("bad-case", where="case, scalars.texts", got=got, expected=expected)
    rate = scalars.get("video_fps", 1.0)
    if isinstance(rate, str | list) or not 0 < rate < float("inf"):
        expected = "a positive number"
        raise BadCase(
            "bad-case", where="case, scalars.video_fps", got=repr(rate), expected=expected
        )
    for name, value in arrays.items():
        columns = _TOKEN_ARRAYS[name]
        rows = value if isinstance(value, list) else [None]
        if not all(
            isinstance(row, list) and len(row) == columns and all(type(n) is int for n in row)
            for row in rows
        ):
            expected = f"rows of {columns} integers"
            raise BadCase(
                "bad-case", where=f"case, arrays.{name}", got=repr(value)[:80], expected=expected
            )


def _check_fusion(
    arrays: Mapping[str, Any], scalars: Mapping[str, Any], token_ids: Mapping[str, int]
) -> None:
    """Check a case of fusion: ids within the table of the probes, whole numbers, a known form."""
    _known("arrays", arrays, ("input_ids",))
    _known("scalars", scalars, (*_FUSION_INTEGERS, "form"))
    ids = arrays.get("input_ids")
    rows: list[Any] = [ids]
    if isinstance(ids, list) and ids and isinstance(ids[0], list):
        rows = ids
    if not all(
        isinstance(row, list)
        and row
        and len(row) == len(rows[0])
        and all(type(token) is int and 0 <= token < FUSION_TABLE_ROWS for token in row)
        for row in rows
    ):
        expected = f"rows of one length, of integers from 0 to {FUSION_TABLE_ROWS - 1}"
        raise BadCase(
            "bad-case", where="case, arrays.input_ids", got=repr(ids)[:80], expected=expected
        )
    _integers(scalars, _FUSION_INTEGERS)
    if scalars.get("turn_start", 1) >= len(rows[0]) and "turn_start" in scalars:
        _refuse("turn_start", scalars["turn_start"], "less than the tokens of a row")
    names = {**FUSION_TOKEN_IDS, **token_ids}
    for name in FUSION_TOKEN_IDS:
        if [names[other] for other in FUSION_TOKEN_IDS].count(names[name]) > 1:
            raise BadCase(
                "bad-case",
                where=f"case, token_ids.{name}",
                got=f"{names[name]}, as another",
                expected="ids that differ",
            )
    if scalars.get("form", "gather") not in _FORMS:
        _refuse("form", scalars["form"], f"one of {', '.join(_FORMS)}")


def _check_audio(arrays: Mapping[str, Any], scalars: Mapping[str, Any]) -> None:
    """Check a case of audio: one array, and no scalars."""
    _known("arrays", arrays, _AUDIO_ARRAYS)
    _known("scalars", scalars, ())
    if len(arrays) != 1:
        got = ", ".join(arrays) or "none"
        expected = f"one of {', '.join(_AUDIO_ARRAYS)}"
        raise BadCase("bad-case", where="case, arrays", got=got, expected=expected)


def _check_omni(arrays: Mapping[str, Any], scalars: Mapping[str, Any]) -> None:
    """Check a case of positions with audio: the names, and the flag."""
    if "input_ids" not in arrays:
        raise BadCase("bad-case", where="case, arrays", got="no input_ids", expected="one")
    _known("arrays", arrays, (*POSITION_ARRAYS, "audio_lengths"))
    _known("scalars", scalars, ("use_audio_in_video",))
    if scalars.get("use_audio_in_video", 0) not in (0, 1):
        _refuse("use_audio_in_video", scalars["use_audio_in_video"], "0 or 1")


def _check_rope(arrays: Mapping[str, Any], scalars: Mapping[str, Any]) -> None:
    """Check a case of 1-D positions: the names, the numbers, the side that a window fills."""
    if "input_ids" not in arrays:
        raise BadCase("bad-case", where="case, arrays", got="no input_ids", expected="one")
    _known("arrays", arrays, _ROPE_ARRAYS)
    _known("scalars", scalars, (*_ROPE_INTEGERS, "window_alignment"))
    _integers(scalars, _ROPE_INTEGERS)
    if scalars.get("window_alignment", "left") not in _ALIGNMENTS:
        _refuse("window_alignment", scalars["window_alignment"], "left or right")


def _check_positions(arrays: Mapping[str, Any], scalars: Mapping[str, Any]) -> None:
    """Check the names of the arrays, and the names and values of the scalars."""
    if "input_ids" not in arrays:
        raise BadCase("bad-case", where="case, arrays", got="no input_ids", expected="one")
    _known("arrays", arrays, POSITION_ARRAYS)
    _known("scalars", scalars, _SCALARS)
    _integers(scalars, _INTEGERS)
    rate = scalars.get("tokens_per_second", 1)
    if not isinstance(rate, int | float):
        _refuse("tokens_per_second", rate, "a number")
    unset = scalars.get("unset", [])
    if not isinstance(unset, list) or not set(unset) <= set(_TOKEN_NAMES):
        _refuse("unset", unset, f"a list of {', '.join(_TOKEN_NAMES)}")


def _known(kind: str, given: Mapping[str, Any], names: tuple[str, ...]) -> None:
    for name in given:
        if name not in names:
            raise BadCase(
                "bad-case",
                where=f"case, {kind}.{name}",
                got="not a name that is known",
                expected=f"one of {', '.join(names)}",
            )


def _integers(scalars: Mapping[str, Any], bounds: Mapping[str, tuple[int, int]]) -> None:
    for name, (least, most) in bounds.items():
        value = scalars.get(name)
        if name in scalars and (not isinstance(value, int) or not least <= value <= most):
            _refuse(name, value, f"an integer from {least} to {most}")


def _refuse(name: str, value: object, expected: str) -> None:
    got = repr(value)[:80]
    raise BadCase("bad-case", where=f"case, scalars.{name}", got=got, expected=expected)
