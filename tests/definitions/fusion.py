"""Fusion by its plain definition: one token at a time, an iterator for every list."""

from __future__ import annotations

from typing import Any


def source_rows(ids: list[list[int]], counts: dict[Any, int], order: str) -> list[list[int]]:
    """The feature row of each token, by handing out rows from iterators."""
    supplies = {key: iter(range(count)) for key, count in counts.items()}
    answer = []
    for row in ids:
        if order == "row":
            supplies = {key: iter(range(count)) for key, count in counts.items()}
        line = []
        for token in row:
            owner = [key for key in counts if token == key or token in as_tuple(key)]
            line.append(next(supplies[owner[0]]) if owner else -1)
        answer.append(line)
        if order == "row":
            assert all(next(supply, None) is None for supply in supplies.values())
    assert order == "row" or all(next(supply, None) is None for supply in supplies.values())
    return answer


def as_tuple(key: Any) -> tuple[int, ...]:
    return key if isinstance(key, tuple) else (key,)


def fuse(ids: list[list[int]], text: Any, features: dict[Any, Any], order: str) -> list[list[Any]]:
    """Rows of text or of features, as nested lists of arrays."""
    rows = source_rows(ids, {key: len(value) for key, value in features.items()}, order)
    answer = []
    for b, line in enumerate(ids):
        out = []
        for s, token in enumerate(line):
            owner = [key for key in features if token in as_tuple(key)]
            out.append(features[owner[0]][rows[b][s]] if owner else text[b][s])
        answer.append(out)
    return answer
