"""What an encoder assumes about its mask, one function an assumption.

Each returns nothing, or raises with the place, what was found there, and the likely cause.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from mmref.audio import arguments
from mmref.audio.arguments import counted, read_mask
from mmref.errors import RefusedMedia

__all__ = [
    "check_batch",
    "check_frames",
    "check_mask_input",
    "check_placeholders",
    "check_right_padded",
]


def check_right_padded(mask: Any) -> None:
    """Every row is valid frames, then padding: what all length formulas assume.

    Parameters
    ----------
    mask : array_like
        bool or 0/1, True for valid, (batch, frames) or (frames,).

    Raises
    ------
    RefusedMedia
        ``mask-left-padded``; ``mask-value`` for a hole, and as `downsample_mask`.

    Examples
    --------
    >>> check_right_padded([[1, 1, 0]])
    """
    read = read_mask(mask)
    counts = counted(read)
    arguments.check_right_padded(read)
    prefix = np.arange(read.shape[1])[None, :] < counts[:, None]
    parted = np.argwhere((read != 0) != prefix)
    if parted.size:
        row = int(parted[0, 0])
        raise RefusedMedia(
            "mask-value",
            where=f"mask, row {row}, frame {parted[0, 1]}",
            got="padding, with valid frames behind it",
            expected="padding behind the last valid frame only",
            hint="an encoder that goes by the length closes the hole up",
        )


def check_frames(mask: Any, frames: int) -> None:
    """The mask is as long as the features.

    Parameters
    ----------
    mask : array_like
        bool or 0/1, (batch, frames) or (frames,).
    frames : int
        Frames of the features.

    Raises
    ------
    RefusedMedia
        ``mask-frames``, and as `downsample_mask`.

    Examples
    --------
    >>> check_frames([[1, 1, 0]], 3)
    """
    length = read_mask(mask).shape[1]
    if length != frames:
        hint = ""
        if frames and length >= 80 * frames:
            hint = f"{length / frames:.0f} places a frame: is it a mask of samples?"
        raise RefusedMedia(
            "mask-frames",
            where="mask",
            got=f"{length} places",
            expected=f"{frames}, the frames of the features",
            hint=hint,
        )


def check_placeholders(output_mask: Any, placeholders: Any) -> None:
    """Every clip has as many placeholders as valid outputs.

    Parameters
    ----------
    output_mask : array_like
        bool or 0/1, True for valid, (clips, outputs).
    placeholders : array_like of int
        Placeholders of each clip, (clips,).

    Raises
    ------
    RefusedMedia
        ``placeholders-unequal``, ``mask-batch``, and as `downsample_mask`.

    Examples
    --------
    >>> check_placeholders([[True, True, False]], [2])
    """
    counts = counted(read_mask(output_mask))
    given = arguments.read_lengths(placeholders, "placeholders")
    if len(given) != len(counts):
        raise RefusedMedia(
            "mask-batch",
            where="output_mask",
            got=f"{len(counts)} rows",
            expected=f"{len(given)}, one for each clip",
        )
    off = np.flatnonzero(given != counts)
    if off.size:
        clip = int(off[0])
        raise RefusedMedia(
            "placeholders-unequal",
            where=f"clip {clip}",
            got=f"{given[clip]} placeholders",
            expected=f"{counts[clip]}, its valid outputs",
            hint="T // 4 instead of ceil(T / 4)?" if given[clip] == counts[clip] - 1 else "",
        )


def check_batch(mask: Any, batch: int) -> None:
    """The mask has a row for every clip: one row would be broadcast over the batch silently.

    Parameters
    ----------
    mask : array_like
        bool or 0/1, (batch, frames) or (frames,).
    batch : int
        Clips of the batch.

    Raises
    ------
    RefusedMedia
        ``mask-batch``, and as `downsample_mask`.

    Examples
    --------
    >>> check_batch([[1, 1], [1, 0]], 2)
    """
    rows = len(read_mask(mask))
    if rows != batch:
        raise RefusedMedia(
            "mask-batch",
            where="mask",
            got=f"{rows} row{'s' * (rows != 1)}",
            expected=f"{batch}, one for each clip",
            hint="one row is broadcast over the batch, and its outputs stay one row"
            if rows == 1
            else "",
        )


def check_mask_input(inputs: Iterable[str]) -> None:
    """An exported encoder still has an input for the mask, or for the lengths.

    Parameters
    ----------
    inputs : iterable of str
        Names of the graph's inputs.

    Raises
    ------
    RefusedMedia
        ``mask-missing``: an optimiser took it away because nothing used it, so padding is
        attended to.

    Examples
    --------
    >>> check_mask_input(["input_features", "input_features_mask"])
    """
    names = list(inputs)
    if not any(word in name for name in names for word in ("mask", "length", "sizes")):
        raise RefusedMedia(
            "mask-missing",
            where="inputs",
            got=", ".join(names) or "none",
            expected="one for the mask or the lengths",
            hint="an input that nothing uses is removed when a graph is optimised",
        )
