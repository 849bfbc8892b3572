"""1-D positions, token by token: the definition that the library is checked against."""

from __future__ import annotations


def positions(mask: list[int]) -> tuple[list[int], int]:
    """The positions of a row, and the next one."""
    found, count = [], 0
    for kept in mask:
        found.append(count if kept else 0)
        count += kept
    return found, count


def windows(mask: list[int], size: int, alignment: str) -> tuple[list[list[int]], int, int]:
    """The windows of a row, the tokens in them, and the next position."""
    places = list(mask)
    while len(places) % size:
        if alignment == "left":
            places.append(0)
        else:
            places.insert(0, 0)
    flat, count = positions(places)
    return [flat[at : at + size] for at in range(0, len(flat), size)], count, count
