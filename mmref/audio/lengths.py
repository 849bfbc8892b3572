"""From samples to frames to tokens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from mmref.audio import variants
from mmref.audio.arguments import (
    Lengths,
    read_lengths,
    read_rules,
    row_of,
    stage_table,
)
from mmref.differences import AudioRules
from mmref.errors import RefusedMedia
from mmref.families.audio import Audio, Framing, Stage
from mmref.kernels import audio as kernel

__all__ = ["frames", "lengths_through", "output_lengths", "token_count"]


def output_lengths(lengths: Any, *, family: str, rules: str | AudioRules = "reference") -> Lengths:
    """Valid outputs that a family's encoder makes of clips of so many frames.

    Parameters
    ----------
    lengths : array_like of int
        Frames of the feature extractor, or samples for families that read the waveform; a
        vector (clips,) or a number, which stands for one clip.
    family : str
        A name of ``families.names("audio")``, or an alias.
    rules : str or AudioRules
        ``"reference"``, or a name such as ``"transformers-5.24"``.

    Returns
    -------
    numpy.ndarray
        int64, shape (clips,). Never below zero under the reference's rules.

    Raises
    ------
    RefusedMedia
        ``length-*``, ``audio-not-supported``.
    RefusedPrompt
        ``array-*`` of `mmref.arrays.to_numpy`.
    UnknownName
        If the family or the rules are not known.

    Notes
    -----
    Source: the length functions of the families in transformers 5.24; the layers behind them
    are in ``mmref.families.encoders``. A clip without frames, or too short for a layer, makes
    nothing; the engine's formulas then go below zero, or count their own padding.

    Examples
    --------
    Gemma 4 halves twice, rounding up; five frames make two outputs:

    >>> output_lengths([4, 5, 0], family="gemma4").tolist()
    [1, 2, 0]
    >>> output_lengths(0, family="wav2vec2", rules="transformers-5.24").tolist()
    [-1]
    """
    row = row_of(family)
    return by_rules(read_lengths(lengths, "lengths"), row, read_rules(rules))


def lengths_through(lengths: Any, stages: Iterable[Stage | Sequence[int]]) -> Lengths:
    """The same for any list of layers.

    Parameters
    ----------
    lengths : array_like of int
        Frames, (clips,) or a number.
    stages : iterable of Stage or (kernel, stride[, padding[, dilation]])
        The layers in order.

    Returns
    -------
    numpy.ndarray
        int64, shape (clips,).

    Raises
    ------
    RefusedMedia
        ``length-*``, ``stage-value``.

    Examples
    --------
    Two layers of kernel 3, stride 2, padding 1 make ceil(9 / 4):

    >>> lengths_through([9], [(3, 2, 1), (3, 2, 1)]).tolist()
    [3]
    """
    read = read_lengths(lengths, "lengths")
    out = np.empty_like(read)
    kernel.output_lengths(read, stage_table(stages), 0, 0, kernel.WINDOWS_FIRST, out)
    return out


def frames(samples: Any, *, family: str) -> Lengths:
    """Valid frames that a family's feature extractor makes of samples.

    Parameters
    ----------
    samples : array_like of int
        Samples at the family's own rate (16 kHz for all that are described), (clips,) or a
        number.
    family : str
        A name of ``families.names("audio")``, or an alias.

    Returns
    -------
    numpy.ndarray
        int64, shape (clips,). The samples themselves for families that read the waveform.

    Raises
    ------
    RefusedMedia
        ``length-*``, ``audio-not-supported``, ``frames-not-defined``.
    UnknownName
        If the family is not known.

    Notes
    -----
    Source: the feature extractors in transformers 5.24. Clips are cut after thirty seconds
    where their default is to cut.

    Examples
    --------
    >>> frames([16000, 16001], family="whisper").tolist()
    [100, 101]
    >>> frames(16000, family="gemma4").tolist()
    [99]
    """
    row = row_of(family)
    if row.framing is None:
        raise RefusedMedia(
            "frames-not-defined",
            where="family",
            got=family,
            expected="a family whose feature extractor says how samples become frames",
            hint="pass frames to output_lengths",
        )
    return _framed(read_lengths(samples, "samples"), row.framing)


def token_count(samples: Any, *, family: str) -> Lengths:
    """Tokens that clips of so many samples take: placeholders, or outputs of the encoder.

    Parameters
    ----------
    samples : array_like of int
        Samples at the family's own rate, (clips,) or a number.
    family : str
        A name of ``families.names("audio")``, or an alias.

    Returns
    -------
    numpy.ndarray
        int64, shape (clips,).

    Raises
    ------
    RefusedMedia
        ``length-*``, ``audio-not-supported``, ``frames-not-defined``.
    UnknownName
        If the family is not known.

    Examples
    --------
    400 samples make two frames and one token, whatever their duration says:

    >>> token_count([400, 16001], family="gemma4").tolist()
    [1, 25]
    """
    row = row_of(family)
    if row.fixed_tokens:
        return np.full_like(read_lengths(samples, "samples"), row.fixed_tokens)
    return by_rules(frames(samples, family=family), row, AudioRules())


def by_rules(lengths: Lengths, row: Audio, rules: AudioRules) -> Lengths:
    """Outputs of clips whose lengths are already checked.

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
    if rules != AudioRules():
        return variants.output_lengths(lengths, row, rules)
    order = kernel.WINDOWS_FIRST if row.window_rest == "stages" else kernel.WINDOWS_LAST
    out = np.empty_like(lengths)
    table = stage_table(row.stages)
    kernel.output_lengths(lengths, table, row.window, row.window_outputs, order, out)
    return out


def _framed(samples: Lengths, framing: Framing) -> Lengths:
    if framing.longest:
        samples = np.minimum(samples, framing.longest)
    room = np.maximum(samples, framing.shortest) + (framing.padding - framing.window)
    found: Lengths = np.maximum(room // framing.hop + 1, 0)
    found[samples == 0] = 0
    return found
