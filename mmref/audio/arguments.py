"""Lengths, masks, stages, families and rules, checked and converted."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from mmref import differences, families
from mmref.arrays import to_numpy
from mmref.differences import AudioRules, Release
from mmref.errors import RefusedMedia, UnknownName
from mmref.families.audio import Audio, Stage
from mmref.kernels import audio as kernel

__all__ = ["REFUSALS", "as_valid", "read_lengths", "read_mask", "read_rules", "row_of"]

Lengths = npt.NDArray[np.int64]
Mask = npt.NDArray[Any]
Convention = Literal["valid", "padding"]

REFUSALS: dict[str, str] = {
    "audio-not-supported": "a family that has no audio encoder, or none that is described",
    "frames-not-defined": "samples for a family whose frames are decided outside its own files",
    "length-dtype": "lengths that are not integers",
    "length-rank": "lengths that are not one number or a vector",
    "length-negative": "a length below zero",
    "length-too-large": "a length beyond 2 ** 53",
    "mask-dtype": "a mask of something other than booleans, integers or 0.0 and 1.0",
    "mask-rank": "a mask that is not (batch, frames) or (frames,)",
    "mask-empty": "a mask without rows or without frames",
    "mask-value": "a mask with values other than 0 and 1",
    "mask-left-padded": "padding before the first valid frame where the encoder counts from it",
    "mask-convention": "a convention that is neither valid nor padding",
    "mask-frames": "a mask of another length than the features",
    "mask-batch": "a mask with another number of rows than the batch",
    "mask-missing": "an encoder without an input for the mask",
    "mask-too-short": "a layer that makes more outputs than every so many-th place of the mask",
    "stage-value": "a kernel, stride or dilation below one, or padding below zero",
    "audio-in-video-not-supported": "a video with its own sound for a family that has none",
    "audio-in-video-value": "a grid, a number of tokens or seconds that no video has",
    "length-beyond-mask": "more valid outputs than the mask has places",
    "placeholders-unequal": "another number of placeholders than of valid outputs",
}
"""Every way audio can be refused, by the error's ``code``."""

LARGEST = 2**53  # beyond it Python's and the engines' floats cannot tell lengths apart
_LARGEST_SETTING = 2**31


def row_of(family: str) -> Audio:
    """The audio columns of a family.

    Parameters
    ----------
    family : str
        A name of ``families.names("audio")``, or an alias.

    Returns
    -------
    Audio
        The columns.

    Raises
    ------
    RefusedMedia
        ``audio-not-supported``.
    UnknownName
        If the family is not known.
    """
    row = families.get(family)
    if row.audio is None:
        raise RefusedMedia(
            "audio-not-supported",
            where="family",
            got=row.name,
            expected=f"one of {', '.join(families.names('audio'))}",
        )
    return row.audio


def read_rules(rules: str | AudioRules) -> AudioRules:
    """The rules of a release by its name.

    Parameters
    ----------
    rules : str or AudioRules
        ``"reference"``, the name of a release whose audio is described, or the rules
        themselves.

    Returns
    -------
    AudioRules
        What it changes.

    Raises
    ------
    UnknownName
        If there is no such release.
    """
    if isinstance(rules, AudioRules):
        return rules
    if rules == "reference":
        return AudioRules()
    return replace(AudioRules(), **read_release(rules).changes("audio"))


def read_release(rules: str) -> Release:
    """A release whose audio is described.

    Parameters
    ----------
    rules : str
        Its name.

    Returns
    -------
    Release
        The release.

    Raises
    ------
    UnknownName
        If there is no such release.
    """
    described = _described()
    if rules not in described:
        raise UnknownName("rules", rules, ["reference", *described])
    return described[rules]


@lru_cache(maxsize=1)
def _described() -> dict[str, Release]:
    # of ONNX Runtime GenAI only the tokens of clips are described: no lengths, no masks
    found = differences.described("audio")
    return {name: entry for name, entry in found.items() if entry.engine == "transformers"}


def read_lengths(value: Any, name: str) -> Lengths:
    """Lengths as a vector of int64.

    Parameters
    ----------
    value : array_like
        An integer or a vector of them.
    name : str
        The argument's name, for errors.

    Returns
    -------
    numpy.ndarray
        int64, shape (clips,), C-contiguous.

    Raises
    ------
    RefusedMedia
        ``length-dtype``, ``length-rank``, ``length-negative``, ``length-too-large``.
    """
    array = to_numpy(value, name)
    if array.dtype.kind not in "iu" and array.size:
        raise RefusedMedia(
            "length-dtype", where=name, got=f"dtype {array.dtype}", expected="integers"
        )
    if array.ndim > 1:
        raise RefusedMedia(
            "length-rank", where=name, got=f"shape {array.shape}", expected="(clips,) or a number"
        )
    array = np.atleast_1d(array)
    if array.size:
        least, most = int(array.argmin()), int(array.argmax())
        if array[least] < 0:
            raise RefusedMedia(
                "length-negative",
                where=f"{name}, clip {least}",
                got=str(array[least]),
                expected="zero or more",
            )
        if array[most] > LARGEST:
            raise RefusedMedia(
                "length-too-large",
                where=f"{name}, clip {most}",
                got=str(array[most]),
                expected=f"at most {LARGEST}",
            )
    return np.ascontiguousarray(array, np.int64)


def read_mask(value: Any, convention: str = "valid") -> Mask:
    """A mask as booleans or integers, True for valid; integers are not yet checked.

    Parameters
    ----------
    value : array_like
        bool, integers, or floats that are 0 and 1; (batch, frames) or (frames,).
    convention : {"valid", "padding"}
        What True means in ``value``.

    Returns
    -------
    numpy.ndarray
        bool or integers, shape (batch, frames), C-contiguous.

    Raises
    ------
    RefusedMedia
        ``mask-dtype``, ``mask-rank``, ``mask-empty``, ``mask-value``, ``mask-convention``.
    """
    array = to_numpy(value, "mask")
    if array.ndim not in (1, 2):
        raise RefusedMedia(
            "mask-rank",
            where="mask",
            got=f"shape {array.shape}",
            expected="(batch, frames) or (frames,)",
            hint="an attention mask (batch, 1, query, key) is made after this one",
        )
    array = np.atleast_2d(array)
    if array.size == 0:
        raise RefusedMedia("mask-empty", where="mask", got=f"shape {array.shape}")
    if array.dtype.kind == "f":
        if not ((array == 0) | (array == 1)).all():
            raise _bad_value(f"dtype {array.dtype} with other values than 0 and 1")
        array = array.astype(np.uint8)
    if convention == "padding":
        array = _checked(array) == 0
    elif convention != "valid":
        raise RefusedMedia(
            "mask-convention", where="convention", got=repr(convention), expected="valid or padding"
        )
    return np.ascontiguousarray(array)


def counted(mask: Mask) -> Lengths:
    """Valid frames of each row, and the check that a mask holds 0 and 1 alone.

    Parameters
    ----------
    mask : numpy.ndarray
        From `read_mask`.

    Returns
    -------
    numpy.ndarray
        int64, shape (batch,).

    Raises
    ------
    RefusedMedia
        ``mask-value``.
    """
    if mask.dtype == np.uint64:
        mask = mask.view(np.int64)
    counts = np.empty(len(mask), np.int64)
    seen = kernel.count(mask, counts)
    if seen & ~1:
        bad = np.argwhere((mask != 0) & (mask != 1))[0]
        place = f"row {bad[0]}, frame {bad[1]} is {mask[tuple(bad)]}"
        raise _bad_value(place)
    return counts


def as_valid(mask: Any, *, convention: Convention) -> npt.NDArray[np.bool_]:
    """A mask with True for valid, from a convention that is named.

    Parameters
    ----------
    mask : array_like
        bool or 0/1, (batch, frames) or (frames,).
    convention : {"valid", "padding"}
        What True means in ``mask``. Gemma 3n's encoder and Conformers take ``"padding"``.

    Returns
    -------
    numpy.ndarray
        bool, shape (batch, frames).

    Raises
    ------
    RefusedMedia
        As `downsample_mask`.

    Examples
    --------
    >>> as_valid([[0, 0, 1]], convention="padding").tolist()
    [[True, True, False]]
    """
    read = read_mask(mask, convention)
    counted(read)
    return np.asarray(read != 0)


def check_right_padded(mask: Mask) -> None:
    """Refuse rows that begin with padding and have valid frames.

    Parameters
    ----------
    mask : numpy.ndarray
        (batch, frames).

    Raises
    ------
    RefusedMedia
        ``mask-left-padded``.
    """
    first = mask[:, 0] == 0
    if not first.any():
        return
    left = np.flatnonzero(first & (mask != 0).any(axis=1))
    if left.size:
        row = int(left[0])
        start = int((mask[row] != 0).argmax())
        raise RefusedMedia(
            "mask-left-padded",
            where=f"mask, row {row}",
            got=f"{start} frames of padding before the first valid one",
            expected="padding behind the clip",
            hint="the encoder counts valid frames and takes the first so many",
        )


def stage_table(stages: Iterable[Stage | Sequence[int]]) -> Lengths:
    """Stages as the rows that the kernels read.

    Parameters
    ----------
    stages : iterable of Stage or (kernel, stride[, padding[, dilation]])
        The layers in order.

    Returns
    -------
    numpy.ndarray
        int64, shape (stages, 4).

    Raises
    ------
    RefusedMedia
        ``stage-value``.
    """
    rows = []
    for number, entry in enumerate(stages):
        stage = _stage(entry, number)
        power = stage.stride.bit_length() - 1
        shift = power if stage.stride == 1 << power else kernel.NO_SHIFT
        rows.append((stage.span, stage.stride, stage.padded, shift))
    return np.array(rows, np.int64).reshape(-1, kernel.COLUMNS)


def _stage(entry: Stage | Sequence[int], number: int) -> Stage:
    try:
        stage = entry if isinstance(entry, Stage) else Stage(*entry)
        ends = stage.padding if isinstance(stage.padding, tuple) else (stage.padding,)
        least = [operator.index(n) - 1 for n in (stage.kernel, stage.stride, stage.dilation)]
        values = [*least, *(operator.index(n) for n in ends)]
        fits = len(ends) in (1, 2) and all(0 <= n < _LARGEST_SETTING for n in values)
        fits = fits and stage.span < _LARGEST_SETTING
    except TypeError:
        fits = False
    if not fits:
        raise RefusedMedia(
            "stage-value",
            where=f"stages[{number}]",
            got=repr(entry),
            expected="(kernel, stride, padding, dilation), each an integer below 2 ** 31; "
            "padding at least 0, the others at least 1",
        )
    return stage


def _checked(array: Mask) -> Mask:
    if not ((array == 0) | (array == 1)).all():
        raise _bad_value("values other than 0 and 1")
    return array


def _bad_value(got: str) -> RefusedMedia:
    return RefusedMedia(
        "mask-value",
        where="mask",
        got=got,
        expected="bool or 0/1",
        hint="an additive mask (0 and -inf) is a different thing",
    )
