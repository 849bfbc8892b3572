"""Token ids, embeddings and features that fit each other, for any implementation of a merge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

__all__ = ["Merge", "embeddings", "features", "merges"]

Array = npt.NDArray[Any]
Draw = Callable[[st.SearchStrategy[Any]], Any]


@dataclass(frozen=True, slots=True)
class Merge:
    """The arguments of one merge.

    Parameters
    ----------
    input_ids : numpy.ndarray
        int64, shape (batch, seq).
    text_embeddings : numpy.ndarray
        Shape (batch, seq, hidden).
    features : dict of int to numpy.ndarray
        Shape (rows, hidden) for each placeholder id.
    order : {"batch", "row"}
        How rows of features are handed out.
    """

    input_ids: Array
    text_embeddings: Array
    features: dict[int, Array]
    order: str


def embeddings(
    *, batch: int, length: int, hidden: int, dtype: Any = np.float32
) -> st.SearchStrategy[Array]:
    """Embeddings of text whose values are all different, sometimes NaN, infinite or read-only.

    Parameters
    ----------
    batch, length, hidden : int
        The shape.
    dtype : dtype
        float16, bfloat16 of ml_dtypes, float32 or float64.

    Returns
    -------
    SearchStrategy
        Of arrays, shape (batch, length, hidden).

    Examples
    --------
    >>> from hypothesis import find
    >>> find(embeddings(batch=1, length=2, hidden=1), lambda array: True).tolist()
    [[[0.0], [1.0]]]
    """
    return _arrays((batch, length, hidden), dtype, 0)


def features(*, rows: int, hidden: int, dtype: Any = np.float32) -> st.SearchStrategy[Array]:
    """Rows of features whose values are all negative and different, sometimes NaN or infinite.

    Parameters
    ----------
    rows, hidden : int
        The shape; no rows are allowed.
    dtype : dtype
        float16, bfloat16 of ml_dtypes, float32 or float64.

    Returns
    -------
    SearchStrategy
        Of arrays, shape (rows, hidden).

    Examples
    --------
    >>> from hypothesis import find
    >>> find(features(rows=2, hidden=1), lambda array: True).tolist()
    [[-2.0], [-1.0]]
    """
    return _arrays((rows, hidden), dtype, -rows * hidden)


@st.composite
def _arrays(draw: Draw, shape: tuple[int, ...], dtype: Any, first: int) -> Array:
    size = int(np.prod(shape))
    array = np.arange(first, first + size).astype(dtype).reshape(shape)
    form = draw(st.sampled_from(["plain", "plain", "not finite", "read-only", "strided", "back"]))
    if form == "not finite" and size:
        value = draw(st.sampled_from([np.nan, np.inf, -np.inf, -0.0]))
        array.reshape(-1)[draw(st.integers(0, size - 1))] = value
    elif form == "read-only":
        array.setflags(write=False)
    elif form == "strided":
        array = np.repeat(array, 2, axis=-1)[..., ::2]
    elif form == "back":
        array = array[::-1].copy()[::-1]
    return array


@st.composite
def merges(
    draw: Draw,
    *,
    dtypes: Sequence[Any] = (np.float32, np.float16),
    order: str | None = None,
    max_rows: int = 3,
) -> Merge:
    """Merges that `mmref.fusion.fuse` accepts.

    Parameters
    ----------
    dtypes : sequence of dtype
        To draw from.
    order : {"batch", "row"}, optional
        Default: either.
    max_rows : int
        Largest batch.

    Returns
    -------
    SearchStrategy
        Of `Merge`: no to three kinds of media in any interleaving, no features,
        rows without media, values that are not finite, memory that is read-only or
        not contiguous. Shrinks to one text token.

    Examples
    --------
    >>> from hypothesis import find
    >>> find(merges(), lambda merge: True).input_ids.tolist()
    [[20]]
    """
    order = draw(st.sampled_from(["batch", "row"])) if order is None else order
    placeholders = draw(st.sampled_from([[], [10], [10, 11], [16, 10, 11], [-1]]))
    token = st.sampled_from([20, 21, *placeholders, *placeholders])
    length = draw(st.integers(1, 8))
    batch = draw(st.integers(1, max_rows))
    lines = [draw(st.lists(token, min_size=length, max_size=length)) for _ in range(batch)]
    if order == "row":  # every row uses all features: the rows hold the same kinds, permuted
        lines = [draw(st.permutations(lines[0])) for _ in lines]
    ids = np.array(lines, np.int64)
    hidden = draw(st.integers(1, 5))
    dtype = draw(st.sampled_from(list(dtypes)))
    counted = ids if order == "batch" else ids[:1]
    given = {
        key: draw(features(rows=int((counted == key).sum()), hidden=hidden, dtype=dtype))
        for key in draw(st.permutations(placeholders))
    }
    text = draw(embeddings(batch=batch, length=length, hidden=hidden, dtype=dtype))
    return Merge(ids, text, given, order)
