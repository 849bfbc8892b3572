"""The arguments of a merge: checked and converted, each with its own refusal."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mmref.arrays import float_array
from mmref.errors import RefusedPrompt

__all__ = [
    "REFUSALS",
    "Key",
    "Streams",
    "read_before",
    "read_count",
    "read_features",
    "read_output",
    "read_streams",
    "rows_of_bits",
]

Array = npt.NDArray[Any]
IntArray = npt.NDArray[np.int64]
Key = int | tuple[int, ...]

REFUSALS: dict[str, str] = {
    "array-device": "a tensor that is not in host memory",
    "array-ragged": "rows of unequal length",
    "array-type": "strings or objects where numbers are needed",
    "input-ids-dtype": "token ids that are not integers",
    "input-ids-rank": "token ids that are neither a row nor a batch of rows",
    "input-ids-empty": "no token at all",
    "token-id-type": "a token id that is not an integer",
    "token-ids-overlap": "one token id for two lists of features",
    "embeddings-shape": "embeddings that are not (batch, seq, hidden) for these token ids",
    "embeddings-dtype": "embeddings that are not floating point",
    "features-rank": "features that are not (rows, hidden)",
    "features-hidden-size": "features of another hidden size than the embeddings",
    "features-dtype": "features of another dtype than the embeddings",
    "features-depth": "DeepStack features of different depths",
    "features-too-few": "more placeholders than feature rows",
    "features-left-over": "more feature rows than placeholders",
    "count-value": "a number of features that is not an integer of at least 0",
    "before-value": "a chunk's first feature row that is negative or not an integer",
    "out-shape": "an output of another shape than the result",
    "out-dtype": "an output of another dtype than the embeddings",
    "out-read-only": "an output that cannot be written",
    "chunk-start": "a chunk that starts outside the prompt",
    "out-overlaps": "an output that shares memory with an input",
    "id-beyond-table": "a token id that the table of embeddings has no row for",
    "table-rows": "a table whose number of rows is not said, where the rule needs it",
    "clip-too-long": "a clip of more frames than its placeholders",
    "padding-shape": "a padding mask that is not boolean, or not (clips, frames)",
    "marker-missing": "a family's marker whose token id is not given",
    "blocks-dtype": "blocks that are not integers",
    "blocks-rank": "blocks that are neither a row nor a batch of rows",
    "blocks-empty": "blocks of no token",
}
"""Every way a merge can be refused, by the error's ``code``."""


@dataclass(frozen=True, slots=True)
class Streams:
    """The token ids as the kernels take them, and which key each stream came from."""

    keys: tuple[Key, ...]
    ids: IntArray
    of: IntArray


def read_streams(features: Mapping[Key, Any]) -> Streams:
    """The token ids of the keys, for the kernels; see `mmref.fusion.fuse`."""
    ids: list[int] = []
    of: list[int] = []
    for stream, key in enumerate(features):
        for entry in key if isinstance(key, tuple) else (key,):
            try:
                token = operator.index(entry)
            except TypeError:
                token = -(2**64)
            if isinstance(entry, (bool, np.bool_)) or not -(2**63) <= token < 2**63:
                raise RefusedPrompt(
                    "token-id-type", where="token ids", got=repr(entry), expected="an integer"
                )
            if token in ids:
                raise RefusedPrompt(
                    "token-ids-overlap",
                    where=f"token id {token}",
                    got="in two lists of features",
                    expected="one",
                    hint="some engines let the later list win; give ids that share features "
                    "as one tuple",
                )
            ids.append(token)
            of.append(stream)
    return Streams(tuple(features), np.array(ids, np.int64), np.array(of, np.int64))


def read_count(key: Key, value: Any) -> int:
    """A number of feature rows; see `mmref.fusion.source_rows`."""
    try:
        count = operator.index(value)
    except TypeError:
        count = -1
    if count < 0 or isinstance(value, (bool, np.bool_)):
        raise RefusedPrompt(
            "count-value",
            where=f"feature_counts[{key}]",
            got=repr(value),
            expected="an integer of at least 0",
        )
    return count


def read_before(key: Key, value: Any, batch: int) -> Array:
    """The first feature rows of a chunk; see `mmref.fusion.source_rows`."""
    array = np.asarray(value)
    fits = array.shape in ((), (batch,)) and array.dtype.kind in "iu"
    if not fits or (array.astype(np.int64) < 0).any():
        raise RefusedPrompt(
            "before-value",
            where=f"before[{key}]",
            got=repr(value),
            expected=f"an integer of at least 0, or {batch} of them",
        )
    return array


def read_features(
    key: Key | str, value: Any, dtype: Any, hidden: int | None, ranks: tuple[int, ...]
) -> Array:
    """One list of features of the embeddings' kind; see `mmref.fusion.fuse`."""
    where = key if isinstance(key, str) else f"features[{key}]"
    array = float_array(value, where, "features")
    if array.ndim not in ranks:
        raise RefusedPrompt(
            "features-rank",
            where=where,
            got=f"shape {array.shape}",
            expected="(rows, hidden)" if ranks == (2,) else "(depth, rows, hidden)",
            hint="concatenate the items" if array.ndim > max(ranks) else "",
        )
    if hidden is not None and array.shape[-1] != hidden:
        raise RefusedPrompt(
            "features-hidden-size",
            where=where,
            got=f"hidden size {array.shape[-1]}",
            expected=str(hidden),
            hint="was the projector skipped?",
        )
    if dtype is not None and array.dtype != dtype:
        raise RefusedPrompt(
            "features-dtype",
            where=where,
            got=str(array.dtype),
            expected=f"{dtype}, as the embeddings",
            hint="cast the features to the embeddings' dtype, as transformers does",
        )
    return array


def read_output(
    out: Array | None, shape: tuple[int, ...], dtype: np.dtype[Any], inputs: list[Array]
) -> Array:
    """The array to write to, given or new; see `mmref.fusion.fuse`."""
    if out is None:
        return np.empty(shape, dtype)
    if not isinstance(out, np.ndarray) or out.shape != shape:
        got = f"shape {out.shape}" if isinstance(out, np.ndarray) else type(out).__name__
        raise RefusedPrompt("out-shape", where="out", got=got, expected=f"an array of {shape}")
    if out.dtype != dtype:
        raise RefusedPrompt("out-dtype", where="out", got=str(out.dtype), expected=str(dtype))
    if not out.flags.writeable:
        raise RefusedPrompt(
            "out-read-only", where="out", got="a read-only array", expected="one to write to"
        )
    if any(_overlap(out, array) for array in inputs):
        raise RefusedPrompt(
            "out-overlaps",
            where="out",
            got="memory of an input",
            expected="memory of its own",
            hint="an input that is written while it is read gives wrong rows",
        )
    return out


def _overlap(one: Array, other: Array) -> bool:
    if not np.may_share_memory(one, other):
        return False
    try:
        return np.shares_memory(one, other, max_work=10_000)  # type: ignore[arg-type]  # any limit
    except np.exceptions.TooHardError:
        return True


def rows_of_bits(array: Array, bits: np.dtype[Any]) -> Array:
    """Unsigned integers (tokens, hidden), a view if contiguous; see `mmref.kernels.fusion`."""
    return np.ascontiguousarray(array).view(bits).reshape(-1, array.shape[-1])
