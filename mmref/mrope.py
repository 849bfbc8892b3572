"""3-D rotary positions (M-RoPE) of multimodal prompts.

`position_ids` gives every token its (t, h, w) position. By default it is the
reference of docs/explanation/rules.md; ``rules="transformers-5.24"`` gives what
that release computes, which on prompts the reference accepts equals it exactly.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mmref.errors import EngineRefusal, UnknownName
from mmref.families.row import Family, TokenIds
from mmref.kernels import layout as layout_kernel
from mmref.kernels import mrope as kernel
from mmref.layout import Layout
from mmref.prompt import Prompt, read_prompt

if TYPE_CHECKING:
    from mmref.differences import PositionRules, Release

__all__ = ["Positions", "position_ids"]

IntArray = npt.NDArray[np.int64]

_RESUME = {"max": kernel.RESUME_MAX, "spatial": kernel.RESUME_SPATIAL}
_ROW_START = {"zero": kernel.START_ZERO, "one_after_first": kernel.START_ONE_AFTER_FIRST}
_SECONDS = {
    "float32": kernel.TIME_SECONDS,
    "float64_product": kernel.TIME_SECONDS_FLOAT64,
    "rounded": kernel.TIME_SECONDS_ROUNDED,
}
_GENAI_RATE = 2.0  # ONNX Runtime GenAI's default of vision.tokens_per_second


class Positions:
    """The positions of a prompt and of the tokens that follow it.

    Attributes
    ----------
    position_ids : numpy.ndarray
        int64, shape (3, batch, seq); axes time, height, width. Masked places hold 0.
    deltas : numpy.ndarray
        int64, shape (batch,): the row's largest position plus one, minus its number
        of unmasked tokens.
    """

    __slots__ = ("_largest", "_mask", "_rules", "_table", "deltas", "position_ids")

    def __init__(
        self,
        positions: IntArray,
        deltas: IntArray,
        largest: IntArray,
        table: IntArray,
        mask: npt.NDArray[Any] | None,
        rules: PositionRules | None = None,
    ) -> None:
        self.position_ids = positions
        self.deltas = deltas
        self._largest = largest
        self._table = table
        self._mask = mask
        self._rules = rules

    @property
    def layout(self) -> Layout:
        """The spans that were placed."""
        return Layout(self._table.copy(), self.position_ids.shape[1:])

    def next_positions(self, count: int) -> IntArray:
        """The positions of generated tokens.

        Parameters
        ----------
        count : int
            How many tokens follow in each row.

        Returns
        -------
        numpy.ndarray
            int64, shape (3, batch, count). By the reference, the row's largest
            position plus one, and so on, on every axis.

        Raises
        ------
        TypeError, ValueError
            If ``count`` is not an integer, or negative.

        Examples
        --------
        >>> position_ids([5, 6], family="qwen2_vl").next_positions(2)[:, 0].tolist()
        [[2, 3], [2, 3], [2, 3]]
        """
        count = operator.index(count)
        if count < 0:
            raise ValueError(f"count: {count}, expected at least 0")
        axes, batch, _ = self.position_ids.shape
        steps = np.arange(1, count + 1)
        decode = "max" if self._rules is None else self._rules.decode
        if decode == "last_column":
            return self.position_ids[:, :, -1:] + steps
        largest = self._largest
        if decode == "empty_row_is_zero":
            largest = np.maximum(largest, 0)
        following = largest[:, None] + steps
        return np.broadcast_to(following, (axes, batch, count)).copy()

    def attention_mask(self, following: int = 0) -> IntArray:
        """The mask of the prompt and of generated tokens.

        Parameters
        ----------
        following : int
            How many generated tokens the mask covers.

        Returns
        -------
        numpy.ndarray
            int64, shape (batch, seq + following), 1 for tokens that exist.

        Examples
        --------
        >>> r = position_ids([[0, 5]], family="qwen2_vl", attention_mask=[[0, 1]])
        >>> r.attention_mask(1).tolist()
        [[0, 1, 1]]
        """
        _, batch, length = self.position_ids.shape
        mask = np.ones((batch, length + following), np.int64)
        hidden = following and self._rules is not None and self._rules.decode_mask == "ones"
        if self._mask is not None and not hidden:
            mask[:, :length] = self._mask
        return mask


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

    Returns
    -------
    Positions
        ``position_ids`` int64 (3, batch, seq), ``deltas`` int64 (batch,), and
        ``next_positions(count)``.

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
    return by_release(prompt, _named_release(rules, prompt.family), {})


def by_reference(prompt: Prompt) -> Positions:
    """Positions of a prompt by the reference.

    Parameters
    ----------
    prompt : Prompt
        From `mmref.layout.read_prompt`.

    Returns
    -------
    Positions
        The positions.

    Raises
    ------
    RefusedPrompt
        If the prompt is not consistent.
    """
    batch, length = prompt.ids.shape
    fault = np.zeros(layout_kernel.FAULT_FIELDS, np.int64)
    spans = np.empty((prompt.check_grids(fault), layout_kernel.COLUMNS), np.int64)
    out = np.empty((3, batch, length), np.int64)
    largest = np.empty(batch, np.int64)
    unmasked = np.empty(batch, np.int64)
    timed = prompt.family.time == "seconds"
    count = kernel.position_ids(
        *prompt.scan_arguments(),
        prompt.seconds,
        prompt.rate,
        kernel.TIME_SECONDS if timed else kernel.TIME_INDEX,
        spans,
        largest,
        unmasked,
        fault,
        out,
    )
    prompt.raise_fault(fault)
    mask = prompt.mask if prompt.masked else None
    return Positions(out, largest + 1 - unmasked, largest, spans[:count], mask)


def by_release(
    prompt: Prompt, release: Release, scalars: Mapping[str, int | float | str | list[str]]
) -> Positions:
    """Positions of a prompt as a release of an engine computes them.

    Parameters
    ----------
    prompt : Prompt
        From `mmref.layout.read_prompt`.
    release : Release
        The release, or one with some of its differences taken away.
    scalars : mapping
        The scalars of a case (``num_beams``, ``unset``), which are not the prompt's.

    Returns
    -------
    Positions
        The positions.

    Raises
    ------
    RefusedPrompt
        If the reference refuses the prompt: releases differ then in whether they
        notice, and what they compute is not predicted.
    EngineRefusal
        If the release refuses what the reference accepts.
    """
    accepted = by_reference(prompt)
    for difference in release.differences:
        if difference.subject != "positions" or difference.refuses is None:
            continue
        if difference.refuses(prompt, accepted._table, scalars):
            raise EngineRefusal(
                difference.id,
                where=f"{release.engine} {release.version}",
                got="this release refuses a prompt that the reference accepts",
                hint=difference.meaning,
            )
    # every item is one span, or joins others in one; text stands between them and at row ends
    capacity = 2 * len(accepted._table) + len(prompt.ids) + 1
    return _by_rules(prompt, release, scalars, capacity)


def _by_rules(
    prompt: Prompt,
    release: Release,
    scalars: Mapping[str, int | float | str | list[str]],
    capacity: int,
) -> Positions:
    rules = release.rules
    image_id, video_id, vision_start_id, pad_id = _engine_ids(prompt, rules, scalars)
    ids, mask = _engine_mask(prompt, rules, pad_id)
    batch, length = ids.shape
    video_grid, seconds, rate = prompt.video_grid, prompt.seconds, prompt.rate
    split = prompt.family.video_frames == "split"
    timed = prompt.family.time == "seconds"
    if split and rules.frames == "joined":
        # no timestamps known to the engine: one block a video, one second a grid step
        seconds, rate, timed, split = np.ones(len(video_grid)), _GENAI_RATE, True, False
    time_rule = _SECONDS[rules.seconds] if timed else kernel.TIME_INDEX
    fault = np.zeros(layout_kernel.FAULT_FIELDS, np.int64)
    spans = np.empty((capacity, layout_kernel.COLUMNS), np.int64)
    repeated = np.zeros(batch, np.bool_)
    if rules.find_media == "runs":
        arguments = list(prompt.scan_arguments())
        arguments[:3] = ids, mask, True
        arguments[6:9] = split, image_id, video_id
        count = layout_kernel.scan(*arguments, spans, fault)
    else:
        from mmref.kernels import layout_variants

        if split and len(video_grid):
            video_grid = np.repeat(video_grid, video_grid[:, 0], axis=0)
            video_grid[:, 0] = 1
        grids = (prompt.image_grid, video_grid, prompt.merge, image_id, video_id)
        if rules.find_media == "after_vision_start":
            count = layout_variants.scan_after_vision_start(
                ids, mask, *grids, vision_start_id, spans, fault
            )
        else:
            markers = prompt.scan_arguments()[9:]
            count = layout_variants.scan_one_item_a_run(
                ids, mask, *grids, *markers, spans, repeated, fault
            )
    found = bool(fault[layout_kernel.FAULT_CODE] == layout_kernel.OK)
    if found and rules.default_seconds == "each_column" and timed and not prompt.seconds_given:
        videos = spans[:count][spans[:count, layout_kernel.KIND] == layout_kernel.VIDEO]
        found = not (videos[:, layout_kernel.ITEM] >= length).any()
    out = np.empty((3, batch, length), np.int64)
    largest = np.empty(batch, np.int64)
    unmasked = np.empty(batch, np.int64)
    if found:
        resume, start = _RESUME[rules.resume], _ROW_START[rules.row_start]
        kernel.place(
            spans, count, seconds, rate, time_rule, resume, start, largest, unmasked, fault
        )
        found = bool(fault[layout_kernel.FAULT_CODE] == layout_kernel.OK)
    if not found:
        raise EngineRefusal(
            "media-not-found",
            where=f"{release.engine} {release.version}",
            got="this release does not find the media of this prompt where they are",
            hint="its rules: " + ", ".join(entry.id for entry in release.differences if entry.sets),
        )
    kernel.fill(spans, count, mask, seconds, rate, time_rule, out)
    for row in np.flatnonzero(repeated):
        out[:, row, mask[row] != 0] = 0
    return Positions(out, largest + 1 - unmasked, largest, spans[:count], mask, rules)


def _engine_ids(
    prompt: Prompt, rules: PositionRules, scalars: Mapping[str, int | float | str | list[str]]
) -> tuple[int, int, int, int]:
    """Image, video, vision_start and pad id as the engine's configuration gives them."""
    unset = scalars.get("unset", [])
    zero = rules.unset_ids == "zero"
    ids = []
    for name in ("image", "video", "vision_start", "pad"):
        value = getattr(prompt.token_ids, name)
        if zero and (value is None or (isinstance(unset, list) and name in unset)):
            value = 0
        ids.append(layout_kernel.NO_ID if value is None else value)
    return ids[0], ids[1], ids[2], ids[3]


def _engine_mask(
    prompt: Prompt, rules: PositionRules, pad_id: int
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """The ids an engine is handed and the mask it goes by."""
    ids = prompt.ids
    mask = prompt.mask if prompt.masked else np.ones(ids.shape, np.uint8)
    if rules.padding == "pad_id":
        written = prompt.token_ids.pad if prompt.token_ids.pad is not None else 0
        ids = np.where(mask != 0, ids, written)  # an engine without a mask is given pad ids
        mask = (ids != pad_id).view(np.uint8)
    return ids, mask


def _named_release(name: str, family: Family) -> Release:
    from mmref import differences

    known = differences.rules_names(family)
    if name not in known:
        hint = ""
        if name in differences.rules_names():
            hint = f"that release has no 3-D positions for {family.name}"
        raise UnknownName("rules", name, known, hint=hint)
    engine, _, version = name.rpartition("-")
    return differences.release(engine, version)
