"""3-D rotary positions (M-RoPE) of multimodal prompts.

`position_ids` gives every token its (t, h, w) position. By default it is the
reference of docs/explanation/rules.md; ``rules="transformers-5.24"`` gives what
that release computes, which on prompts the reference accepts equals it exactly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mmref import families
from mmref.arrays import integer_matrix, to_numpy
from mmref.errors import RefusedPrompt, UnknownName
from mmref.families.row import Family, TokenIds
from mmref.positions import Positions, by_reference
from mmref.prompt import read_prompt

if TYPE_CHECKING:
    from mmref.differences import Release

__all__ = ["PackedPositions", "Positions", "packed_position_ids", "position_ids"]


class PackedPositions(NamedTuple):
    """The positions of packed samples.

    Parameters
    ----------
    position_ids : numpy.ndarray
        int64, shape (3, 1, total).
    deltas : numpy.ndarray
        int64, shape (samples,).
    following : numpy.ndarray
        int64, shape (samples,): the position of each sample's next token, on every axis.
    """

    position_ids: npt.NDArray[np.int64]
    deltas: npt.NDArray[np.int64]
    following: npt.NDArray[np.int64]


def position_ids(
    input_ids: Any,
    *,
    family: str,
    image_grid_thw: Any = None,
    video_grid_thw: Any = None,
    second_per_grid_ts: Any = None,
    attention_mask: Any = None,
    rules: str = "reference",
    token_ids: TokenIds | None = None,
    spatial_merge_size: int | None = None,
    tokens_per_second: float | None = None,
    audio_lengths: Any = None,
    use_audio_in_video: bool | None = None,
) -> Positions:
    """Positions of every token of a batch on the time, height and width axes.

    Parameters
    ----------
    input_ids : array_like of int, shape (batch, seq) or (seq,)
        Token ids with every item expanded to its placeholders. A vector is one row.
    family : str
        transformers' ``model_type``, see `mmref.families.names`, or an alias.
    image_grid_thw, video_grid_thw : array_like of int, shape (items, 3), optional
        Patches (t, h, w) of each item before merging, over the whole batch in row order.
    second_per_grid_ts : array_like of float, shape (videos,), optional
        Seconds that one grid step of each video lasts; taken as float32. Default: 1.
        Families that count grid steps refuse it.
    attention_mask : array_like of bool or 0/1, shape (batch, seq), optional
        True for tokens that exist. Default: all of them.
    rules : str
        ``"reference"``, or a release such as ``"transformers-5.24"``.
    token_ids : TokenIds, optional
        Default: the family's.
    spatial_merge_size : int, optional
        Patches merged into one token along each side. Default: the family's.
    tokens_per_second : float, optional
        Positions per second of video. Default: the family's.
    audio_lengths : array_like of int, shape (clips,), optional
        Frames of each clip, over the whole batch in row order, the sounds of videos among
        them. For the Omni families; others refuse it.
    use_audio_in_video : bool, optional
        Whether videos come with their own sound. For the Omni families; others refuse it.

    Returns
    -------
    Positions
        ``position_ids`` int64 (3, batch, seq), ``deltas`` int64 (batch,), and
        ``next_positions(count)``. float32 for qwen3_omni_moe, whose positions are fractions.

    Raises
    ------
    RefusedPrompt
        The prompt is not consistent; one of `mmref.layout.REFUSALS`.
    EngineRefusal
        Under the rules of a release: the release refuses this prompt.
    UnknownName
        If the family or the rules are not known.

    Notes
    -----
    Text counts up by one on all axes. An item starts at the next position p; its
    token (i, y, x), in t-major order, takes (p + time(i), p + y, p + x). The next
    position is the largest of the item on any axis, plus one. Source: the method as
    first published with Qwen2-VL and computed by transformers 4.x, vLLM, SGLang and
    ONNX Runtime GenAI; transformers 5.3 and later resume at ``p + max(h, w)``, which
    lets text overlap a video in time, and is a named difference here.

    Examples
    --------
    Two text tokens around a 1 x 4 x 4 image, which merges to 2 x 2 tokens:

    >>> ids = TokenIds(image=10, video=11)
    >>> r = position_ids([5, 10, 10, 10, 10, 6], family="qwen2_vl",
    ...                  image_grid_thw=[[1, 4, 4]], token_ids=ids)
    >>> r.position_ids[:, 0].tolist()
    [[0, 1, 1, 1, 1, 3], [0, 1, 1, 2, 2, 3], [0, 1, 2, 1, 2, 3]]
    >>> r.deltas.tolist()
    [-2]
    """
    row = families.get(family)
    if row.positions == "omni":
        from mmref import omni  # it knows the differences of releases, which read cases

        return omni.position_ids(
            input_ids,
            row=row,
            rules=rules,
            image_grid_thw=image_grid_thw,
            video_grid_thw=video_grid_thw,
            second_per_grid_ts=second_per_grid_ts,
            audio_lengths=audio_lengths,
            use_audio_in_video=bool(use_audio_in_video),
            attention_mask=attention_mask,
            token_ids=token_ids,
            spatial_merge_size=spatial_merge_size,
            tokens_per_second=tokens_per_second,
        )
    for name, value in (
        ("audio_lengths", audio_lengths),
        ("use_audio_in_video", use_audio_in_video),
    ):
        if value is not None:
            raise RefusedPrompt(
                "omni-audio-not-used", where=name, got=f"given for {row.name}", expected="nothing"
            )
    prompt = read_prompt(
        input_ids,
        family=family,
        image_grid_thw=image_grid_thw,
        video_grid_thw=video_grid_thw,
        second_per_grid_ts=second_per_grid_ts,
        attention_mask=attention_mask,
        token_ids=token_ids,
        spatial_merge_size=spatial_merge_size,
        tokens_per_second=tokens_per_second,
    )
    if rules == "reference":
        return by_reference(prompt)
    from mmref.releases import by_release

    return by_release(prompt, _named_release(rules, prompt.family), {})


def packed_position_ids(
    input_ids: Any,
    cumulative_lengths: Any,
    *,
    family: str,
    image_grid_thw: Any = None,
    video_grid_thw: Any = None,
    second_per_grid_ts: Any = None,
    token_ids: TokenIds | None = None,
    spatial_merge_size: int | None = None,
    tokens_per_second: float | None = None,
) -> PackedPositions:
    """Positions of samples that are packed into one row, each as if it stood alone.

    Parameters
    ----------
    input_ids : array_like of int, shape (total,) or (1, total)
        The samples' tokens one after another.
    cumulative_lengths : array_like of int, shape (samples + 1,)
        Where the samples start, and the total: 0, ..., total. Samples may be empty.
    family, image_grid_thw, video_grid_thw, second_per_grid_ts, token_ids : object
        As for `position_ids`; grids over all samples in their order.
    spatial_merge_size, tokens_per_second : object
        As for `position_ids`.

    Returns
    -------
    PackedPositions
        ``position_ids`` int64 (3, 1, total), ``deltas`` and ``following`` int64 (samples,).

    Raises
    ------
    RefusedPrompt
        ``cumulative-lengths``: they do not cover the row; and as for `position_ids`.

    Examples
    --------
    >>> packed_position_ids([5, 6, 7], [0, 2, 3], family="qwen2_vl").position_ids[0].tolist()
    [[0, 1, 0]]
    """
    row = integer_matrix(input_ids, "input_ids")
    bounds = to_numpy(cumulative_lengths, "cumulative_lengths")
    total = row.shape[1]
    fits = bounds.ndim == 1 and bounds.dtype.kind in "iu" and bounds.size > 1 and len(row) == 1
    lengths = np.diff(bounds.astype(np.int64)) if fits else np.empty(0, np.int64)
    if not fits or bounds[0] != 0 or bounds[-1] != total or lengths.min() < 0:
        raise RefusedPrompt(
            "cumulative-lengths",
            where="cumulative_lengths",
            got=str(bounds.tolist())[:80] + f" for {len(row)} x {total} tokens",
            expected=f"one row, and numbers that rise from 0 to {total}",
        )
    # each sample a row of its own, padded on the right
    mask = np.arange(int(lengths.max())) < lengths[:, None]
    ids = np.zeros(mask.shape, np.int64)
    ids[mask] = row[0]
    alone = position_ids(
        ids,
        family=family,
        image_grid_thw=image_grid_thw,
        video_grid_thw=video_grid_thw,
        second_per_grid_ts=second_per_grid_ts,
        attention_mask=mask,
        token_ids=token_ids,
        spatial_merge_size=spatial_merge_size,
        tokens_per_second=tokens_per_second,
    )
    return PackedPositions(
        alone.position_ids[:, mask][:, None], alone.deltas, alone.next_positions(1)[0, :, 0]
    )


def _named_release(name: str, family: Family) -> Release:
    from mmref import differences

    known = differences.rules_names(family)
    if name not in known:
        hint = ""
        if name in differences.rules_names():
            hint = f"that release has no {family.name} with 3-D positions"
        raise UnknownName("rules", name, known, hint=hint)
    engine, _, version = name.rpartition("-")
    return differences.release(engine, version)
