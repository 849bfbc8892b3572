"""The steps beside the merge as plain loops over lists."""

from __future__ import annotations

Rows = list[list[int]]


def image_blocks(lines: Rows, placeholders: set[int]) -> Rows:
    """The number of the run of placeholders that a token is in."""
    found = []
    for line in lines:
        block, before, row = -1, False, []
        for token in line:
            inside = token in placeholders
            block += inside and not before
            row.append(block if inside else -1)
            before = inside
        found.append(row)
    return found


def may_attend(blocks: Rows) -> list[list[list[bool]]]:
    """Tokens before, and those of the same run."""
    return [
        [
            [key <= query or row[key] == row[query] != -1 for key in range(len(row))]
            for query in range(len(row))
        ]
        for row in blocks
    ]


def videos_apart(lines: Rows, image: int, start: int, end: int, video: int) -> Rows:
    """One marker opens a video, the other ends one; what is not ended goes on."""
    found = []
    for line in lines:
        opened, row = 0, []
        for token in line:
            opened += (token == start) - (token == end)
            row.append(video if opened > 0 and token == image else token)
        found.append(row)
    return found
