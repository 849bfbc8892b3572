"""The order of video and audio tokens where a video comes with its own sound.

Qwen2.5-Omni takes turns by chunks of two seconds, Qwen3-Omni merges both by time. The
families' processors write prompts in this order; their models compute it again.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mmref import families
from mmref.errors import RefusedMedia
from mmref.families.row import Family

__all__ = ["chunks", "interleave", "merged", "omni_row"]

_CHUNK_SECONDS = 2.0


def omni_row(family: str) -> Family:
    """The row of a family whose videos can come with their sound.

    Parameters
    ----------
    family : str
        ``"qwen2_5_omni"`` or ``"qwen3_omni_moe"``.

    Returns
    -------
    Family
        The row.

    Raises
    ------
    RefusedMedia
        ``audio-in-video-not-supported``.
    UnknownName
        If the family is not known.
    """
    row = families.get(family)
    if row.positions != "omni":
        raise RefusedMedia(
            "audio-in-video-not-supported",
            where="family",
            got=row.name,
            expected=f"one of {', '.join(families.names('omni'))}",
        )
    return row


def interleave(
    grid_thw: Sequence[int],
    audio_tokens: int,
    *,
    family: str,
    seconds: float,
    spatial_merge_size: int | None = None,
) -> npt.NDArray[np.bool_]:
    """Which tokens of a video with its sound are audio, in the order of the prompt.

    Parameters
    ----------
    grid_thw : sequence of three int
        Patches (t, h, w) of the video before merging.
    audio_tokens : int
        Tokens of its sound, see `output_lengths`.
    family : str
        ``"qwen2_5_omni"`` or ``"qwen3_omni_moe"``.
    seconds : float
        Seconds that one grid step lasts.
    spatial_merge_size : int, optional
        Default: the family's.

    Returns
    -------
    numpy.ndarray
        bool, shape (video tokens + audio tokens,): True for audio. The tokens that start and
        end the block are not among them.

    Raises
    ------
    RefusedMedia
        ``audio-in-video-not-supported``, ``audio-in-video-value``.
    UnknownName
        If the family is not known.

    Notes
    -----
    Source: ``replace_video_with_audio_token`` of both processors in transformers 5.24, which
    compute in float64.

    Examples
    --------
    Qwen3-Omni puts a grid step before the sound of its time; half a second is 6.5 tokens:

    >>> interleave((2, 2, 2), 8, family="qwen3_omni_moe", seconds=0.5).astype(int).tolist()
    [0, 1, 1, 1, 1, 1, 1, 1, 0, 1]
    """
    row = omni_row(family)
    merge = row.spatial_merge_size if spatial_merge_size is None else spatial_merge_size
    try:
        t, h, w, sound = (operator.index(n) for n in (*grid_thw, audio_tokens))
        fits = min(t, h // merge, w // merge) > 0 <= sound and h % merge == 0 == w % merge
        fits = fits and 0 <= seconds < float("inf") and t * h * w + sound < 2**31
    except (TypeError, ValueError, ZeroDivisionError):
        fits = False
    if not fits:
        raise RefusedMedia(
            "audio-in-video-value",
            where="grid_thw, audio_tokens, seconds",
            got=f"{grid_thw!r}, {audio_tokens!r}, {seconds!r}",
            expected=f"a positive grid that {merge} divides, a number of tokens, finite seconds",
        )
    steps = np.repeat(np.arange(t), (h // merge) * (w // merge))
    times = steps * float(seconds) * float(row.tokens_per_second or 0)
    return merged(row, times, np.arange(sound))


def merged(row: Family, video: npt.NDArray[Any], audio: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """The order of tokens whose times are known.

    Parameters
    ----------
    row : Family
        A row of ``families.names("omni")``.
    video, audio : numpy.ndarray
        Times in positions from the start of the block, neither of them falling.

    Returns
    -------
    numpy.ndarray
        bool, shape (video + audio,): True for audio.
    """
    out = np.zeros(len(video) + len(audio), np.bool_)
    if row.audio_in_video == "merge":
        # a video token stands behind the audio tokens of an earlier time
        places = np.arange(len(video)) + np.searchsorted(audio, video, side="left")
        out[:] = True
        out[places] = False
        return out
    turns = np.concatenate([2 * chunks(row, video), 2 * chunks(row, audio) + 1])
    return np.asarray(np.sort(turns) % 2 == 1)


def chunks(row: Family, times: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """The chunk of each token: one more where the end of the chunk is reached.

    Only one more for each token, however many chunks its time has gone on, as in the engine.

    Parameters
    ----------
    row : Family
        A row whose videos and sounds take turns by chunks.
    times : numpy.ndarray
        Times in positions from the start of the block, not falling.

    Returns
    -------
    numpy.ndarray
        int64, as many as times.
    """
    size = int(float(row.tokens_per_second or 0) * _CHUNK_SECONDS)
    found = np.empty(len(times), np.int64)
    chunk = 0
    for at, time in enumerate(times.tolist()):
        if time >= (chunk + 1) * size:
            chunk += 1
        found[at] = chunk
    return found
