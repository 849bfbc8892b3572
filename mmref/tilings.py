"""How a picture is cut into tiles: which arrangement of them, and what padding leaves.

Numbers of tiles and patches only; `mmref.vision` makes sizes and grids of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache

__all__ = ["best_fit", "closest", "grown", "unpadded"]

Tiles = tuple[int, int]


def closest(width: int, height: int, side: int, tilings: Iterable[Tiles]) -> Tiles:
    """The arrangement whose shape is closest to the picture's.

    Among equals the later one, if the picture covers more than half of it.

    Parameters
    ----------
    width, height : int
        Of the picture, in pixels.
    side : int
        Of a tile.
    tilings : iterable of tuple
        (across, down), in the order in which they are tried.

    Returns
    -------
    tuple of int
        (across, down).

    Examples
    --------
    >>> closest(200, 100, 448, grown(12))
    (2, 1)
    """
    aspect = width / height
    best, best_off = (1, 1), math.inf
    for across, down in tilings:
        off = abs(aspect - across / down)
        if off < best_off or (
            off == best_off and width * height > 0.5 * side * side * across * down
        ):
            best, best_off = (across, down), off
    return best


@lru_cache(maxsize=16)
def grown(most: int) -> tuple[Tiles, ...]:
    """Every arrangement of at most so many tiles, the smaller ones first.

    Parameters
    ----------
    most : int
        Tiles.

    Returns
    -------
    tuple of tuple
        (across, down); of equally many tiles, the narrower first.

    Examples
    --------
    >>> grown(3)
    ((1, 1), (1, 2), (2, 1), (1, 3), (3, 1))
    """
    found = [(across, down) for across in range(1, most + 1) for down in range(1, most + 1)]
    return tuple(sorted((tiles for tiles in found if tiles[0] * tiles[1] <= most), key=math.prod))


def best_fit(width: int, height: int, side: int, tilings: Iterable[Tiles]) -> Tiles:
    """The arrangement that keeps most of the picture's pixels, and of those the smallest.

    Parameters
    ----------
    width, height : int
        Of the picture, in pixels.
    side : int
        Of a tile.
    tilings : iterable of tuple
        (across, down); the first of equals is taken.

    Returns
    -------
    tuple of int
        (across, down).

    Examples
    --------
    >>> best_fit(640, 480, 336, [(2, 1), (1, 2), (2, 2)])
    (2, 2)
    """

    def kept_and_spare(tiles: Tiles) -> tuple[int, int]:
        across, down = side * tiles[0], side * tiles[1]
        scale = min(across / width, down / height)
        kept = min(int(width * scale) * int(height * scale), width * height)
        return kept, -(across * down - kept)

    return max(tilings, key=kept_and_spare)


def unpadded(width: int, height: int, columns: int, rows: int) -> Tiles:
    """Columns and rows of patches that hold something of the picture, padding cut off evenly.

    Parameters
    ----------
    width, height : int
        Of the picture, in pixels.
    columns, rows : int
        Patches of the canvas on which it lies, as large as it fits.

    Returns
    -------
    tuple of int
        (columns, rows) that are left; an odd row or column of padding stays.

    Examples
    --------
    >>> unpadded(640, 480, 48, 48)
    (48, 36)
    """
    if width / height > columns / rows:
        # seven decimals, then cut: what rounding errors leave below a whole number counts as it
        filled = int(round(height * (columns / width), 7))
        return columns, rows - (rows - filled) // 2 * 2
    filled = int(round(width * (rows / height), 7))
    return columns - (columns - filled) // 2 * 2, rows
