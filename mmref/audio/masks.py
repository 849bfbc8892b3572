"""Which outputs are valid: masks shortened by stride, or rebuilt from the length."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mmref.audio import lengths as length_door
from mmref.audio import variants
from mmref.audio.arguments import (
    Convention,
    Mask,
    check_right_padded,
    counted,
    read_mask,
    read_release,
    read_rules,
    row_of,
    stage_table,
)
from mmref.differences import AudioRules
from mmref.errors import EngineRefusal, RefusedMedia
from mmref.families.audio import Audio, Stage
from mmref.kernels import audio as kernel

__all__ = ["MaskParting", "downsample_mask", "explain_mask", "mask_by_stride", "mask_from_lengths"]

Bools = npt.NDArray[np.bool_]
Stages = Iterable[Stage | Sequence[int]]


def downsample_mask(
    mask: Any,
    *,
    family: str,
    convention: Convention = "valid",
    rules: str | AudioRules = "reference",
) -> Bools:
    """Which outputs of a family's encoder are valid.

    Parameters
    ----------
    mask : array_like
        bool or 0/1, (batch, frames), or (frames,) for one clip: frames of the feature
        extractor, or samples for families that read the waveform.
    family : str
        A name of ``families.names("audio")``, or an alias.
    convention : {"valid", "padding"}
        What True means in ``mask``; the result always has True for valid.
    rules : str or AudioRules
        ``"reference"``, or a name such as ``"transformers-5.24"``.

    Returns
    -------
    numpy.ndarray
        bool, shape (batch, outputs): as many as a row without padding makes.

    Raises
    ------
    RefusedMedia
        ``mask-*``, ``audio-not-supported``.
    EngineRefusal
        If the release refuses what the reference accepts.
    UnknownName
        If the family or the rules are not known.

    Notes
    -----
    Gemma 4 and Gemma 3n take every second place a layer, so holes stay where they are. All
    others count the valid frames of a row, put the count through the layers and mark the
    first so many outputs: holes are closed up, and a clip that is padded on the left would be
    marked in the wrong place, which is refused. Source: facts of transformers 5.24, named in
    ``mmref.families.encoders``.

    Examples
    --------
    >>> downsample_mask([[1, 1, 1, 1, 1, 0, 0, 0]], family="gemma4").tolist()
    [[True, True]]
    >>> downsample_mask([[1, 0, 0, 0, 1]], family="phi4_multimodal").tolist()
    [[True]]
    """
    row = row_of(family)
    chosen = read_rules(rules)
    read = read_mask(mask, convention)
    if row.mask == "stride":
        if read.dtype != np.bool_:
            counted(read)
        return _by_stride(read, stage_table(row.stages))
    counts = counted(read)
    check_right_padded(read)
    if chosen == AudioRules():
        width = int(length_door.by_rules(_width(read), row, chosen)[0])
        return _from_counts(length_door.by_rules(counts, row, chosen), width)
    if isinstance(rules, str):
        refused = read_release(rules).refuses("audio", (row, read))
        if refused is not None:
            raise EngineRefusal(
                refused.id,
                where=rules,
                got="this release refuses a mask that the reference accepts",
                hint=refused.meaning,
            )
    return by_rules(read, counts, row, chosen)


def by_rules(mask: Mask, counts: npt.NDArray[np.int64], row: Audio, rules: AudioRules) -> Bools:
    """The mask of a family that goes by the length, under other rules than the reference's.

    Parameters
    ----------
    mask : numpy.ndarray
        Integers 0 and 1, shape (batch, frames).
    counts : numpy.ndarray
        int64, shape (batch,): valid frames.
    row : Audio
        The family.
    rules : AudioRules
        The rules.

    Returns
    -------
    numpy.ndarray
        bool, shape (batch, outputs).
    """
    width = int(length_door.by_rules(_width(mask), row, AudioRules())[0])
    outputs = length_door.by_rules(counts, row, rules)
    return variants.mark(mask != 0, outputs, width, row, rules)


def mask_by_stride(mask: Any, stages: Stages) -> Bools:
    """Every so many-th place of a mask, as exported graphs slice it.

    Parameters
    ----------
    mask : array_like
        bool or 0/1, (batch, frames) or (frames,).
    stages : iterable of Stage or (kernel, stride[, padding[, dilation]])
        The layers in order.

    Returns
    -------
    numpy.ndarray
        bool, shape (batch, outputs).

    Raises
    ------
    RefusedMedia
        ``mask-*``, ``stage-value``; ``mask-too-short`` where a layer makes more outputs than
        the slice has places.

    Examples
    --------
    >>> mask_by_stride([1, 0, 0, 0, 0, 1, 1, 1], [(3, 2, 1), (3, 2, 1)]).tolist()
    [[True, False]]
    """
    read = read_mask(mask)
    counted(read)
    return _by_stride(read, stage_table(stages))


def mask_from_lengths(lengths: Any, stages: Stages, *, frames: int) -> Bools:
    """A mask rebuilt from lengths: the first outputs of each row.

    Parameters
    ----------
    lengths : array_like of int
        Valid frames of each row, (batch,).
    stages : iterable of Stage or (kernel, stride[, padding[, dilation]])
        The layers in order.
    frames : int
        Frames of the padded batch.

    Returns
    -------
    numpy.ndarray
        bool, shape (batch, outputs).

    Raises
    ------
    RefusedMedia
        ``length-*``, ``stage-value``; ``length-beyond-mask`` for a clip longer than the batch.

    Examples
    --------
    >>> mask_from_lengths([5, 1], [(3, 2, 1)], frames=6).tolist()
    [[True, True, True], [True, False, False]]
    """
    listed = list(stages)
    found = length_door.lengths_through(lengths, listed)
    given = np.atleast_1d(np.asarray(lengths))
    over = np.flatnonzero(given > frames)
    if over.size:
        raise RefusedMedia(
            "length-beyond-mask",
            where=f"lengths, clip {over[0]}",
            got=f"{given[over[0]]} valid frames",
            expected=f"at most {frames}, the frames of the batch",
        )
    width = int(length_door.lengths_through(frames, listed)[0])
    return _from_counts(found, width)


@dataclass(frozen=True, slots=True, eq=False)
class MaskParting:
    """Where the two ways of shortening a mask part.

    Parameters
    ----------
    family : str
        The family.
    way : {"length", "stride"}
        The way of this family.
    by_length, by_stride : numpy.ndarray
        bool, shape (batch, outputs): both ways.
    parted : tuple of (int, int)
        (row, output) where they differ.
    frames : int
        Frames from one output to the next.
    holed, left_padded : tuple of int
        Rows with padding between valid frames, and before the first.
    """

    family: str
    way: str
    by_length: Bools
    by_stride: Bools
    parted: tuple[tuple[int, int], ...]
    frames: int
    holed: tuple[int, ...]
    left_padded: tuple[int, ...]

    def __str__(self) -> str:
        lines = [f"{self.family} shortens its mask by {self.way}"]
        for kind, rows in (("holes", self.holed), ("padding on the left", self.left_padded)):
            if rows:
                lines.append(f"rows with {kind}: {', '.join(map(str, rows))}")
        for row, output in self.parted[:8]:
            first = output * self.frames
            length, stride = self.by_length[row, output], self.by_stride[row, output]
            lines.append(
                f"row {row}, output {output} (frames from {first}): "
                f"{_word(length)} by length, {_word(stride)} by stride"
            )
        if len(self.parted) > 8:
            lines.append(f"... {len(self.parted) - 8} more")
        if not self.parted:
            lines.append("both ways agree")
        return "\n".join(lines)


def explain_mask(mask: Any, *, family: str, convention: Convention = "valid") -> MaskParting:
    """Shorten a mask both ways, and say where they part.

    Parameters
    ----------
    mask : array_like
        bool or 0/1, (batch, frames) or (frames,).
    family : str
        A name of ``families.names("audio")``, or an alias.
    convention : {"valid", "padding"}
        What True means in ``mask``.

    Returns
    -------
    MaskParting
        Both masks, and where they part; ``str`` of it is an explanation.

    Raises
    ------
    RefusedMedia
        ``mask-*``, ``audio-not-supported``.

    Examples
    --------
    >>> print(explain_mask([[1, 0, 0, 1, 1, 0, 0, 0]], family="gemma4"))
    gemma4 shortens its mask by stride
    rows with holes: 0
    row 0, output 1 (frames from 4): padding by length, valid by stride
    """
    row = row_of(family)
    read = read_mask(mask, convention)
    counts = counted(read)
    width = int(length_door.by_rules(_width(read), row, AudioRules())[0])
    by_length = _from_counts(length_door.by_rules(counts, row, AudioRules()), width)
    step = int(np.prod([stage.stride for stage in row.stages]))
    if row.window:
        step = max(1, row.window * (step if row.window_rest == "whole" else 1))
        step //= row.window_outputs
    places = np.minimum(np.arange(width) * step, read.shape[1] - 1)
    by_stride = read[:, places] != 0
    valid = read != 0
    starts, ends = valid.argmax(1), valid.shape[1] - valid[:, ::-1].argmax(1)
    left = np.flatnonzero(valid.any(1) & (starts > 0))
    holed = np.flatnonzero(valid.any(1) & (counts < ends - starts))
    parted = [(int(at), int(output)) for at, output in np.argwhere(by_length != by_stride)]
    return MaskParting(
        family,
        row.mask,
        by_length,
        by_stride,
        tuple(parted),
        step,
        tuple(holed.tolist()),
        tuple(left.tolist()),
    )


def _width(mask: Mask) -> npt.NDArray[np.int64]:
    return np.array([mask.shape[1]], np.int64)


def _from_counts(counts: npt.NDArray[np.int64], width: int) -> Bools:
    out = np.empty((len(counts), width), np.bool_)
    kernel.fill_prefixes(counts, out)
    return out


def _by_stride(mask: Mask, table: npt.NDArray[np.int64]) -> Bools:
    """Slices after slices are one slice with the product of the strides, cut to the outputs."""
    width, step = mask.shape[1], 1
    for number, stage in enumerate(table):
        made = kernel.through(width, stage.reshape(1, -1))
        places = -(-width // int(stage[kernel.STRIDE]))
        if made > places:
            raise RefusedMedia(
                "mask-too-short",
                where=f"stages[{number}]",
                got=f"{made} outputs of {width} frames",
                expected=f"at most {places}, every {stage[kernel.STRIDE]}th of them",
                hint="its padding is so wide that some outputs have no place of the mask",
            )
        width, step = int(made), step * int(stage[kernel.STRIDE])
    out = np.empty((len(mask), width), np.bool_)
    kernel.every(mask, step, out)
    return out


def _word(valid: np.bool_) -> str:
    return "valid" if valid else "padding"
