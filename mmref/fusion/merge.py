"""Feature rows onto placeholder tokens: the merge every engine must reproduce.

The rule is that of ``inputs_embeds.masked_scatter(mask, features)`` in
transformers 5.24: features of all items, over the whole batch, are one flat
list; the k-th placeholder, row by row, takes row k. What transformers leaves
unchecked (surplus rows, other hidden sizes of the same element count) is
refused here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from mmref.arrays import float_array, integer_matrix
from mmref.errors import RefusedPrompt, UnknownName
from mmref.fusion.arguments import (
    Key,
    Streams,
    read_before,
    read_count,
    read_features,
    read_output,
    read_streams,
    rows_of_bits,
)
from mmref.kernels import fusion as kernel
from mmref.layout import Layout

__all__ = ["deepstack", "fuse", "placeholders_before", "source_rows"]

Array = npt.NDArray[Any]
IntArray = npt.NDArray[np.int64]
Order = Literal["batch", "row"]


@dataclass(frozen=True, slots=True)
class _Plan:
    rows: IntArray
    chosen: IntArray


def source_rows(
    input_ids: Any,
    feature_counts: Mapping[Key, int],
    *,
    order: Order = "batch",
    before: Mapping[Key, Any] | None = None,
    layout: Layout | None = None,
) -> IntArray:
    """The feature row that each token takes.

    Parameters
    ----------
    input_ids : array_like of int, shape (batch, seq) or (seq,)
        Token ids with every item expanded to its placeholders.
    feature_counts : mapping of int (or tuple of int) to int
        Rows of features for each placeholder id. Ids that share one list of
        features are given as a tuple.
    order : {"batch", "row"}
        Whether the list goes on from one batch row to the next, or every batch
        row starts it again and uses all of it.
    before : mapping of int (or tuple of int) to int or array of shape (batch,), optional
        For a chunk of a longer prompt: the feature row that each row's first
        placeholder takes, as `placeholders_before` returns it. What is left of
        the features may then belong to later chunks.
    layout : Layout, optional
        The prompt's layout; errors then name the image or video.

    Returns
    -------
    numpy.ndarray
        int64, shape (batch, seq): a row of that token's features, -1 for text.

    Raises
    ------
    RefusedPrompt
        One of `mmref.fusion.REFUSALS`.
    UnknownName
        If ``order`` is not known.

    Notes
    -----
    Source of the rule: ``masked_scatter`` in every ``get_placeholder_mask``
    user of transformers 5.24, for ``order="batch"``; the row-wise ``CumSum`` of
    exported ONNX embedding graphs, for ``order="row"``.

    Examples
    --------
    >>> source_rows([[5, 10, 10], [10, 6, 10]], {10: 4}).tolist()
    [[-1, 0, 1], [2, -1, 3]]
    >>> source_rows([[5, 10, 10], [10, 6, 10]], {10: 2}, order="row").tolist()
    [[-1, 0, 1], [0, -1, 1]]
    """
    ids = integer_matrix(input_ids, "input_ids")
    streams = read_streams(feature_counts)
    counts = [read_count(key, value) for key, value in feature_counts.items()]
    return _plan(ids, streams, counts, order, before, layout).rows


def fuse(
    input_ids: Any,
    text_embeddings: Any,
    features: Mapping[Key, Any],
    *,
    order: Order = "batch",
    before: Mapping[Key, Any] | None = None,
    layout: Layout | None = None,
    out: Array | None = None,
) -> Array:
    """Embeddings with every placeholder replaced by its feature row.

    Parameters
    ----------
    input_ids : array_like of int, shape (batch, seq) or (seq,)
        Token ids with every item expanded to its placeholders.
    text_embeddings : array_like of float, shape (batch, seq, hidden) or (seq, hidden)
        float16, bfloat16 (of ml_dtypes, or a torch tensor), float32 or float64. What
        stands at placeholders is ignored.
    features : mapping of int (or tuple of int) to array_like, shape (rows, hidden)
        Feature rows of each placeholder id, of the embeddings' dtype. No rows:
        an array of shape (0, hidden). NaN is allowed.
    order, before, layout
        As for `source_rows`.
    out : numpy.ndarray, shape (batch, seq, hidden), optional
        Where to write. Must not share memory with an input.

    Returns
    -------
    numpy.ndarray
        Shape (batch, seq, hidden), of the embeddings' dtype; ``out`` if given.
        Rows of text are bit-equal to ``text_embeddings``.

    Raises
    ------
    RefusedPrompt
        One of `mmref.fusion.REFUSALS`.
    UnknownName
        If ``order`` is not known.

    Notes
    -----
    Source of the rule: as for `source_rows`.

    Examples
    --------
    >>> text = np.array([[1, 1], [2, 2], [3, 3]], np.float32)
    >>> image = np.array([[7, 8]], np.float32)
    >>> fuse([5, 10, 6], text, {10: image}).tolist()
    [[[1.0, 1.0], [7.0, 8.0], [3.0, 3.0]]]
    """
    ids = integer_matrix(input_ids, "input_ids")
    text = float_array(text_embeddings, "text_embeddings", "embeddings")
    if text.ndim == 2 and ids.shape[0] == 1:
        text = text.reshape(1, *text.shape)
    if text.ndim != 3 or text.shape[:2] != ids.shape or text.shape[2] < 1:
        raise RefusedPrompt(
            "embeddings-shape",
            where="text_embeddings",
            got=f"shape {text.shape}",
            expected=f"({ids.shape[0]}, {ids.shape[1]}, hidden)",
        )
    streams = read_streams(features)
    arrays = [
        read_features(key, value, text.dtype, text.shape[2], (2,))
        for key, value in features.items()
    ]
    plan = _plan(ids, streams, [len(array) for array in arrays], order, before, layout)
    result = read_output(out, text.shape, text.dtype, [text, *arrays])
    bits = np.dtype(f"u{text.dtype.itemsize}")
    chosen, rows = plan.chosen.reshape(-1), plan.rows.reshape(-1)
    target = rows_of_bits(result, bits)
    kernel.copy_text(chosen, rows_of_bits(text, bits), target)
    for stream, array in enumerate(arrays):
        if len(array):
            kernel.copy_features(chosen, rows, stream, rows_of_bits(array, bits), target)
    if not np.shares_memory(target, result):
        result[...] = target.view(text.dtype).reshape(text.shape)  # an `out` that is not contiguous
    return result


def deepstack(
    input_ids: Any,
    features: Mapping[Key, Any],
    *,
    order: Order = "batch",
    before: Mapping[Key, Any] | None = None,
    layout: Layout | None = None,
    out: Array | None = None,
) -> Array:
    """What DeepStack models add to the hidden states after their first layers.

    Parameters
    ----------
    input_ids : array_like of int, shape (batch, seq) or (seq,)
        Token ids with every item expanded to its placeholders.
    features : mapping of int (or tuple of int) to array_like, shape (depth, rows, hidden)
        One list of feature rows for each layer; the same depth for every id.
    order, before, layout
        As for `source_rows`; ``before`` for a chunk.
    out : numpy.ndarray, shape (depth, batch, seq, hidden), optional
        Where to write. Must not share memory with an input.

    Returns
    -------
    numpy.ndarray
        Shape (depth, batch, seq, hidden): feature rows at placeholders, zeros elsewhere.

    Raises
    ------
    RefusedPrompt
        One of `mmref.fusion.REFUSALS`.
    UnknownName
        If ``order`` is not known.

    Notes
    -----
    Source of the rule: ``Qwen3VLTextModel._deepstack_process`` of transformers
    5.24 adds these rows to the hidden states; exported graphs pass them whole.

    Examples
    --------
    >>> deepstack([5, 10], {10: np.array([[[7]], [[8]]], np.float32)}).tolist()
    [[[[0.0], [7.0]]], [[[0.0], [8.0]]]]
    """
    ids = integer_matrix(input_ids, "input_ids")
    streams = read_streams(features)
    arrays: list[Array] = []
    for key, value in features.items():
        dtype, hidden = (arrays[0].dtype, arrays[0].shape[-1]) if arrays else (None, None)
        arrays.append(read_features(key, value, dtype, hidden, (3,)))
    if not arrays:
        raise RefusedPrompt(
            "features-depth", where="features", got="none", expected="at least one list of features"
        )
    depth, hidden = arrays[0].shape[0], arrays[0].shape[2]
    for key, array in zip(streams.keys, arrays, strict=True):
        if array.shape[0] != depth:
            raise RefusedPrompt(
                "features-depth",
                where=f"features[{key}]",
                got=f"depth {array.shape[0]}",
                expected=f"{depth}, as for {streams.keys[0]}",
            )
    plan = _plan(ids, streams, [array.shape[1] for array in arrays], order, before, layout)
    result = read_output(out, (depth, *ids.shape, hidden), arrays[0].dtype, arrays)
    bits = np.dtype(f"u{result.dtype.itemsize}")
    chosen, rows = plan.chosen.reshape(-1), plan.rows.reshape(-1)
    for layer in range(depth):
        target = rows_of_bits(result[layer], bits)
        kernel.clear_text(chosen, target)
        for stream, array in enumerate(arrays):
            if array.shape[1]:
                kernel.copy_features(chosen, rows, stream, rows_of_bits(array[layer], bits), target)
        if not np.shares_memory(target, result):
            result[layer] = target.view(result.dtype).reshape(result.shape[1:])
    return result


def placeholders_before(
    input_ids: Any,
    token_ids: Sequence[Key],
    start: int,
    *,
    order: Order = "batch",
) -> dict[Key, IntArray]:
    """The feature row at which a chunk of a prompt begins.

    Parameters
    ----------
    input_ids : array_like of int, shape (batch, seq) or (seq,)
        The whole prompt.
    token_ids : sequence of int (or tuple of int)
        The placeholder ids, as the keys of the features.
    start : int
        First token of the chunk, from 0 to seq.
    order : {"batch", "row"}
        As for `source_rows`.

    Returns
    -------
    dict of int (or tuple of int) to numpy.ndarray
        int64, shape (batch,): ``before=`` for the chunk that starts there.

    Raises
    ------
    RefusedPrompt
        ``chunk-start``, or what `source_rows` raises for ids.
    UnknownName
        If ``order`` is not known.

    Notes
    -----
    Source of the rule: a chunk takes the rows that the whole prompt gives its
    tokens; the count goes by all placeholders before it, not by items.

    Examples
    --------
    >>> before = placeholders_before([5, 10, 10, 10], [10], 2)
    >>> source_rows([10, 10], {10: 3}, before=before).tolist()
    [[1, 2]]
    """
    ids = integer_matrix(input_ids, "input_ids")
    streams = read_streams(dict.fromkeys(token_ids, 0))
    if not isinstance(start, (int, np.integer)) or not 0 <= start <= ids.shape[1]:
        raise RefusedPrompt(
            "chunk-start", where="start", got=repr(start), expected=f"0 to {ids.shape[1]}"
        )
    _check_order(order)
    found = np.empty((len(streams.keys), len(ids)), np.int64)
    kernel.count(ids, int(start), streams.ids, streams.of, found)
    if order == "batch":
        whole = np.empty_like(found)
        kernel.count(ids, ids.shape[1], streams.ids, streams.of, whole)
        found += np.cumsum(whole, axis=1) - whole
    return dict(zip(streams.keys, found, strict=True))


def _check_order(order: str) -> None:
    if order not in ("batch", "row"):
        raise UnknownName("order", order, ("batch", "row"))


def _plan(
    ids: Array,
    streams: Streams,
    counts: list[int],
    order: Order,
    before: Mapping[Key, Any] | None,
    layout: Layout | None,
) -> _Plan:
    """Which row of which stream every token takes, once the counts are right."""
    _check_order(order)
    found = np.empty((len(counts), len(ids)), np.int64)
    kernel.count(ids, ids.shape[1], streams.ids, streams.of, found)
    first = np.zeros_like(found)
    if before is not None:
        unknown = [key for key in before if key not in streams.keys]
        if unknown:
            raise RefusedPrompt(
                "before-value",
                where=f"before[{unknown[0]}]",
                got="an id without features",
                expected=f"one of {', '.join(map(str, streams.keys))}",
            )
        for stream, key in enumerate(streams.keys):
            first[stream] = read_before(key, before.get(key, 0), len(ids))
    elif order == "batch":
        first = np.cumsum(found, axis=1) - found
    rows = np.empty(ids.shape, np.int64)
    chosen = np.empty(ids.shape, np.int64)
    scratch = np.empty(len(counts), np.int64)
    kernel.source_rows(ids, streams.ids, streams.of, first, scratch, rows, chosen)
    last = first + found
    for stream, available in enumerate(counts):
        key = streams.keys[stream]
        used = last[stream]
        if (used > available).any():
            beyond = (chosen == stream) & (rows >= available)
            raise _too_few(key, available, rows, chosen == stream, beyond, found[stream], layout)
        if before is not None:
            continue
        unused = used < available if order == "row" else used[-1:] < available
        if unused.any():
            row = int(unused.argmax()) if order == "row" else None
            total = int(found[stream].sum() if row is None else found[stream][row])
            raise _left_over(key, available, total, row)
    return _Plan(rows, chosen)


def _too_few(
    key: Key,
    available: int,
    rows: IntArray,
    mine: Array,
    beyond: Array,
    found: IntArray,
    layout: Layout | None,
) -> RefusedPrompt:
    row, token = (int(axis[0]) for axis in np.nonzero(beyond))
    start = token
    while start and mine[row, start - 1]:
        start -= 1
    stop = token + 1
    while stop < mine.shape[1] and mine[row, stop]:
        stop += 1
    name = "placeholders"
    for span in layout or ():
        if span.row == row and span.start <= token < span.stop and span.kind != "text":
            name, start, stop = f"{span.kind} {span.item}", span.start, span.stop
    where = f"row {row}, {name} (tokens {start}..{stop - 1}), token {token}"
    total = int(found.sum())
    hint = "does the text hold a placeholder of its own, or are an item's features missing?"
    if available == 0:
        hint = "were the features of this id passed?"
    elif total == available * len(found):
        hint = 'one row\'s features for the whole batch? order="row" gives them to every row'
    return RefusedPrompt(
        "features-too-few",
        where=where,
        got=f"placeholder {int(rows[row, token])} (from 0) of id {key}",
        expected=f"at most the {available} feature rows given",
        hint=hint,
    )


def _left_over(key: Key, available: int, total: int, row: int | None) -> RefusedPrompt:
    hint = "was the prompt truncated, or are the features another prompt's?"
    if total and available % total == 0 and available // total in (4, 9, 16):
        hint = f"{available // total} rows for each placeholder: were patches not merged?"
    elif not total:
        hint = "is this the placeholder id of the prompt?"
    return RefusedPrompt(
        "features-left-over",
        where=f"features[{key}]" + ("" if row is None else f", row {row}"),
        got=f"{available} feature rows",
        expected=f"{total}, one for each placeholder",
        hint=hint,
    )
