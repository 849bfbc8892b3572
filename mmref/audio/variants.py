"""Lengths and masks under the rules of a release: what its code does where the reference parts.

Written to be read beside the reference's kernels, not to be fast.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mmref.differences import AudioRules
from mmref.families.audio import Audio, Stage

__all__ = ["mark", "output_lengths"]

Lengths = npt.NDArray[np.int64]


def output_lengths(lengths: Lengths, row: Audio, rules: AudioRules) -> Lengths:
    """Outputs of clips of so many frames.

    Parameters
    ----------
    lengths : numpy.ndarray
        int64, shape (clips,).
    row : Audio
        The family.
    rules : AudioRules
        The rules.

    Returns
    -------
    numpy.ndarray
        int64, shape (clips,).
    """
    windows, rest = np.zeros_like(lengths), lengths
    if row.window and row.window_rest == "stages":
        windows, rest = np.divmod(lengths, row.window)
    found = rest
    for stage in row.stages:
        found = _through(found, stage, row, rules)
    if row.window and row.window_rest == "whole":
        windows, found = -(-found // row.window), np.zeros_like(found)
    return found + windows * row.window_outputs


def _through(frames: Lengths, stage: Stage, row: Audio, rules: AudioRules) -> Lengths:
    room = frames + (stage.padded - stage.span)
    if row.arithmetic == "float32" and rules.precision == "float32":
        # the constant is added to the length first, as the engine does
        quotient = (frames.astype(np.float32) + np.float32(stage.padded - stage.span)) / np.float32(
            stage.stride
        )
        made = np.floor(quotient + np.float32(1)).astype(np.int64)
    elif row.arithmetic == "toward_zero" and rules.quotients == "toward_zero":
        made = np.trunc(room / stage.stride + 1).astype(np.int64)
    else:
        made = room // stage.stride + 1
    if rules.no_frames == "nothing":
        made = np.where(frames == 0, 0, made)
    if rules.too_short == "nothing":
        made = np.where((frames < 0) | (made < 0), 0, made)
    return np.asarray(made)


def mark(
    mask: npt.NDArray[np.bool_], lengths: Lengths, width: int, row: Audio, rules: AudioRules
) -> npt.NDArray[np.bool_]:
    """The valid outputs of each row, for a family whose mask follows the length.

    Parameters
    ----------
    mask : numpy.ndarray
        bool, shape (batch, frames).
    lengths : numpy.ndarray
        int64, shape (batch,): the outputs by `output_lengths`.
    width : int
        Outputs of a row without padding.
    row : Audio
        The family.
    rules : AudioRules
        The rules.

    Returns
    -------
    numpy.ndarray
        bool, shape (batch, width).
    """
    if rules.marks == "encoder" and row.code == "product_stride":
        step = int(np.prod([stage.stride for stage in row.stages]))
        return np.asarray(mask[:, ::step][:, :width])
    if rules.marks == "encoder" and row.code == "dilated":
        first = row.stages[0]
        places = np.arange(mask.shape[1] // first.stride)
        found = np.asarray(places[None, :] < (mask.sum(1) // first.stride)[:, None])
        for stage in row.stages[1:]:
            found = _any_tap(found, stage)
        return found
    if row.code == "last_index" and rules.last_index == "wrapped" and width:
        # an index below zero counts from the end: -1 leaves the whole row valid
        lengths = np.where(lengths <= 0, width + lengths, lengths)
    return np.asarray(np.arange(width)[None, :] < lengths[:, None])


def _any_tap(valid: npt.NDArray[np.bool_], stage: Stage) -> npt.NDArray[np.bool_]:
    """A convolution with ones over the mask: an output is valid if any frame it sees is."""
    assert isinstance(stage.padding, tuple)
    if not valid.shape[1]:
        return valid
    padded = np.pad(valid, ((0, 0), stage.padding))
    windows = np.lib.stride_tricks.sliding_window_view(padded, stage.kernel, axis=1)
    return np.asarray(np.any(windows[:, :: stage.stride], axis=-1))
