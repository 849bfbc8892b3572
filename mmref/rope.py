"""1-D rotary positions: text models, and families that number their media like text.

A token's position is the number of unmasked tokens before it in its row. `windows` gives
the same positions in the form of engines that feed a prompt by windows of fixed size.
"""

from __future__ import annotations

import operator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from mmref.arrays import integer_matrix, mask_matrix
from mmref.errors import RefusedPrompt, UnknownName
from mmref.families.row import TokenIds
from mmref.positions import Positions, by_reference
from mmref.prompt import read_prompt
from mmref.refusals import require_reference

if TYPE_CHECKING:
    from mmref.differences import RopeRules

__all__ = ["REFUSALS", "RopePositions", "Windows", "position_ids", "windows"]

IntArray = npt.NDArray[np.int64]

REFUSALS = {
    "generate-from-nothing": "tokens are generated and there is none before them",
    "row-undefined": "a release leaves the next position of a row without tokens undefined",
    "slot-outside": "a rewind or chunk beyond the tokens that are there",
    "window-alignment": "a side that is neither left nor right",
    "window-size": "a window that is no positive number of tokens",
}
"""What is refused beside what every prompt is refused for (`mmref.layout.REFUSALS`)."""


class RopePositions:
    """The 1-D positions of a stretch of tokens, and of what follows it.

    Attributes
    ----------
    position_ids : numpy.ndarray
        int64, shape (batch, seq). Masked places hold 0.
    first_slot, next_slot : int
        Cache slot (token index in the padded row) of the first token, and of the next one
        to come.
    """

    __slots__ = ("_rules", "_whole", "first_slot", "next_slot", "position_ids")

    def __init__(self, whole: Positions, rules: RopeRules | None = None) -> None:
        self._whole = whole
        self._rules = rules
        self.position_ids: IntArray = whole.position_ids[0]
        self.first_slot: int = whole.first_slot
        self.next_slot: int = whole.next_slot

    def __repr__(self) -> str:
        batch, length = self.position_ids.shape
        return f"<RopePositions {batch} x {length}, slots {self.first_slot}..{self.next_slot - 1}>"

    def next_positions(self, count: int) -> IntArray:
        """The positions of generated tokens.

        Parameters
        ----------
        count : int
            How many tokens follow in each row.

        Returns
        -------
        numpy.ndarray
            int64, shape (batch, count): the row's number of unmasked tokens, and so on.

        Raises
        ------
        RefusedPrompt
            ``row-undefined``: under the rules of a release that leaves it undefined.

        Examples
        --------
        >>> position_ids([[0, 5, 6]], attention_mask=[[0, 1, 1]]).next_positions(2).tolist()
        [[2, 3]]
        """
        following: IntArray = self._whole.next_positions(count)[0]
        if self._rules is not None and self._rules.decode == "last_column":
            following[:] = self.position_ids[:, -1:] + np.arange(1, following.shape[1] + 1)
            return following
        undefined = self._rules is not None and self._rules.empty_row == "undefined"
        if undefined and count and (following[:, 0] == 0).any():
            raise RefusedPrompt(
                "row-undefined",
                where=f"row {int(np.argmax(following[:, 0] == 0))}",
                got="no token",
                expected="at least one: this release leaves the next position undefined",
            )
        return following

    def attention_mask(self, following: int = 0) -> IntArray:
        """The mask of these tokens and of generated ones.

        Parameters
        ----------
        following : int
            How many generated tokens the mask covers.

        Returns
        -------
        numpy.ndarray
            int64, shape (batch, seq + following), 1 for tokens that exist.
        """
        return self._whole.attention_mask(following)

    def extend(self, input_ids: Any, *, attention_mask: Any = None) -> RopePositions:
        """The positions of tokens that are appended.

        Parameters
        ----------
        input_ids : array_like of int, shape (batch, new) or (new,)
            The new tokens alone.
        attention_mask : array_like of bool or 0/1, shape (batch, new), optional
            True for tokens that exist. Default: all of them.

        Returns
        -------
        RopePositions
            Of the new tokens; equal to the tail of the joined prompt's.

        Raises
        ------
        RefusedPrompt
            If the batch is another, or under the rules of a release.

        Examples
        --------
        >>> position_ids([[5, 6]]).extend([[7]]).position_ids.tolist()
        [[2]]
        """
        require_reference("extend", self._rules)
        return RopePositions(self._whole.extend(input_ids, attention_mask=attention_mask))

    def chunk(self, start: int, stop: int) -> IntArray:
        """The positions of any stretch of slots.

        Parameters
        ----------
        start, stop : int
            First slot and one past the last, counted from the first stretch on.

        Returns
        -------
        numpy.ndarray
            int64, shape (batch, stop - start).

        Raises
        ------
        RefusedPrompt
            If the slots are not all inside.
        """
        found: IntArray = self._whole.chunk(start, stop)[0]
        return found

    def rewind(self, slots: int) -> RopePositions:
        """The state as if only the first tokens had been given.

        Parameters
        ----------
        slots : int
            How many tokens of each padded row are kept.

        Returns
        -------
        RopePositions
            To extend or decode from.

        Raises
        ------
        RefusedPrompt
            If there are not so many tokens, or under the rules of a release.
        """
        require_reference("rewind", self._rules)
        return RopePositions(self._whole.rewind(slots))

    def take_rows(self, rows: Any) -> RopePositions:
        """Other rows, or the same ones in another order or number: beams, requests that end.

        Parameters
        ----------
        rows : array_like of int, shape (rows,)
            Rows of the batch.

        Returns
        -------
        RopePositions
            Of those rows.
        """
        return RopePositions(self._whole.take_rows(rows), self._rules)


class Windows(NamedTuple):
    """The positions of a prompt that goes in by windows.

    Parameters
    ----------
    position_ids : numpy.ndarray
        int64, shape (batch, windows, size). Places without a token hold 0.
    attended : numpy.ndarray
        int64, shape (batch,): how many tokens the mask shows after the last window.
    following : numpy.ndarray
        int64, shape (batch,): the position of the next token.
    """

    position_ids: IntArray
    attended: IntArray
    following: IntArray


def position_ids(
    input_ids: Any,
    *,
    attention_mask: Any = None,
    rules: str = "reference",
    pad: int | None = None,
) -> RopePositions:
    """1-D positions of every token of a batch.

    Parameters
    ----------
    input_ids : array_like of int, shape (batch, seq) or (seq,)
        Token ids; a vector is one row. The reference looks at none of them.
    attention_mask : array_like of bool or 0/1, shape (batch, seq), optional
        True for tokens that exist. Default: all of them.
    rules : str
        ``"reference"``, or a release whose 1-D positions are described, such as
        ``"onnxruntime-genai-0.18"``.
    pad : int, optional
        The pad id, which releases of ONNX Runtime GenAI go by. Default: 0.

    Returns
    -------
    RopePositions
        ``position_ids`` int64 (batch, seq), and what follows.

    Raises
    ------
    RefusedPrompt
        If ids or mask are not what they must be.
    UnknownName
        If the rules are not known.

    Notes
    -----
    Source: ``generate`` of transformers counts the mask up in the same way for every family
    without 3-D positions.

    Examples
    --------
    >>> position_ids([[0, 5, 6]], attention_mask=[[0, 1, 1]]).position_ids.tolist()
    [[0, 0, 1]]
    >>> position_ids([[7, 0], [7, 8]], rules="onnxruntime-genai-0.18").next_positions(1).tolist()
    [[1], [2]]
    """
    chosen = _named(rules)
    if chosen is not None:
        mask = _engine_mask(input_ids, attention_mask, 0 if pad is None else pad, chosen)
        return RopePositions(_counted(input_ids, mask), chosen)
    return RopePositions(_counted(input_ids, attention_mask))


def windows(
    input_ids: Any,
    *,
    size: int,
    alignment: Literal["left", "right"] = "left",
    attention_mask: Any = None,
    rules: str = "reference",
    pad: int | None = None,
) -> Windows:
    """1-D positions of a prompt that goes in by windows of a fixed size.

    Parameters
    ----------
    input_ids : array_like of int, shape (batch, seq) or (seq,)
        Token ids.
    size : int
        Tokens of a window. The prompt is filled up to a multiple of it.
    alignment : {"left", "right"}
        Where the tokens stand: ``"left"`` fills up behind them, ``"right"`` before them.
    attention_mask : array_like of bool or 0/1, shape (batch, seq), optional
        True for tokens that exist. Default: all of them.
    rules : str
        As for `position_ids`.
    pad : int, optional
        As for `position_ids`.

    Returns
    -------
    Windows
        Positions, tokens that are attended to, next positions.

    Raises
    ------
    RefusedPrompt
        ``window-size``, ``window-alignment``, or as for `position_ids`.
    UnknownName
        If the rules are not known.

    Examples
    --------
    Three tokens in windows of two: the last place of the second window holds none.

    >>> w = windows([5, 6, 7], size=2)
    >>> w.position_ids.tolist(), w.following.tolist()
    ([[[0, 1], [2, 0]]], [3])
    >>> windows([5, 6, 7], size=2, rules="onnxruntime-genai-0.18").following.tolist()
    [4]
    """
    chosen = _named(rules)
    ids = integer_matrix(input_ids, "input_ids")
    mask = _counted(ids, attention_mask).attention_mask() != 0
    try:
        size = operator.index(size)
    except TypeError:
        size = 0
    if size < 1:
        expected = "at least one token"
        raise RefusedPrompt("window-size", where="size", got=repr(size), expected=expected)
    if alignment not in ("left", "right"):
        got, expected = repr(alignment), "left or right"
        raise RefusedPrompt("window-alignment", where="alignment", got=got, expected=expected)
    return by_windows(ids, mask, size, alignment, 0 if pad is None else pad, chosen)


def by_windows(
    ids: IntArray,
    mask: npt.NDArray[np.bool_],
    size: int,
    alignment: str,
    pad: int,
    rules: RopeRules | None,
) -> Windows:
    """The windows of checked arguments.

    Parameters
    ----------
    ids : numpy.ndarray
        (batch, seq).
    mask : numpy.ndarray
        bool, (batch, seq).
    size : int
        Tokens of a window.
    alignment : str
        ``"left"`` or ``"right"``.
    pad : int
        The pad id.
    rules : RopeRules or None
        None: those of the reference.

    Returns
    -------
    Windows
        As `windows`.
    """
    if rules is not None and rules.window_padding == "ids":
        mask = np.where(mask, ids, pad) != pad
    fill = -ids.shape[1] % size
    exists = np.pad(mask, ((0, 0), (0, fill) if alignment == "left" else (fill, 0)))
    exists = exists.reshape(len(ids), -1, size)
    if rules is not None and rules.later_windows == "places":
        exists[:, 1:] = True
    positions = np.zeros(exists.shape, np.int64)
    following = np.zeros(len(ids), np.int64)
    for number in range(exists.shape[1]):
        there = exists[:, number]
        counted = following[:, None] + np.cumsum(there, axis=1) - 1
        positions[:, number] = np.where(there, counted, 0)
        following = following + there.sum(axis=1)
        if rules is not None and rules.window_follows == "last_place":
            following = positions[:, number, -1] + 1
    return Windows(positions, exists.sum(axis=(1, 2)), following)


def by_rules(input_ids: Any, attention_mask: Any, pad: int, rules: RopeRules) -> RopePositions:
    """The positions of a prompt by the rules of a release.

    Parameters
    ----------
    input_ids, attention_mask : array_like
        As for `position_ids`.
    pad : int
        The pad id.
    rules : RopeRules
        The rules.

    Returns
    -------
    RopePositions
        The positions.
    """
    mask = _engine_mask(input_ids, attention_mask, pad, rules)
    return RopePositions(_counted(input_ids, mask), rules)


def _counted(input_ids: Any, attention_mask: Any) -> Positions:
    """The positions of text, of which a 3-D family has three equal rows."""
    prompt = read_prompt(
        input_ids, family="qwen2_vl", attention_mask=attention_mask, token_ids=TokenIds()
    )
    return by_reference(prompt)


def _engine_mask(input_ids: Any, attention_mask: Any, pad: int, rules: RopeRules) -> Any:
    """The mask that a release goes by."""
    _counted(input_ids, attention_mask)  # refuses what the reference refuses
    if rules.padding == "mask":
        return attention_mask
    ids = integer_matrix(input_ids, "input_ids")
    if attention_mask is not None:  # an engine without a mask is given pad ids
        given = mask_matrix(attention_mask, "attention_mask", ids.shape)
        ids = np.where(given != 0, ids, pad)
    if len(ids) < 2:
        return None
    return np.cumsum((ids != pad)[:, ::-1], axis=1)[:, ::-1] > 0


def _named(name: str) -> RopeRules | None:
    if name == "reference":
        return None
    from mmref import differences

    described = differences.described("rope")
    if name not in described:
        raise UnknownName("rules", name, ["reference", *described])
    return replace(differences.RopeRules(), **described[name].changes("rope"))
