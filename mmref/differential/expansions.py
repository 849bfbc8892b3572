"""What each placeholder of a case of tokens becomes: size, grid, count, and what is written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from mmref import families, vision
from mmref.case import Case
from mmref.differential.tokens import frame_seconds
from mmref.errors import RefusedMedia
from mmref.families import Family
from mmref.tokens.carriers import Text
from mmref.tokens.pieces import Item, Kind, items_of, pieces

__all__ = ["ExpandedItem", "Written", "expanded_items"]


@dataclass(frozen=True, slots=True)
class Written:
    """One thing that an expansion writes.

    Parameters
    ----------
    text : str
        A token, or text between tokens.
    count : int
        How often in a row.
    frame : int
        Of which frame of a video; 0 for an image.
    special : bool
        Whether it is a token of the family, and not text.
    """

    text: str
    count: int
    frame: int
    special: bool


@dataclass(frozen=True, slots=True)
class ExpandedItem:
    """A placeholder and its item; a placeholder without an item, or the other way round.

    Parameters
    ----------
    kind : {"image", "video"}
        What it is.
    item : int
        Which of its kind, over all prompts.
    row, character : int
        The prompt, and where in it the placeholder stands; -1 if it has none.
    placeholder : str
        What stands for it in the prompt.
    size : tuple of int or None
        Pixels (height, width), of a video with the frames before them; None if there is no
        such item.
    resized : tuple of int or None
        (height, width) after resizing; None for an item that is refused.
    grid : tuple of int or None
        Patches (t, h, w) before merging.
    tokens : int
        Tokens that belong to it.
    written : tuple of Written
        What takes the placeholder's place, in order.
    refused : str
        Why there is no grid; empty if there is one.
    """

    kind: Kind
    item: int
    row: int
    character: int
    placeholder: str
    size: tuple[int, ...] | None
    resized: tuple[int, int] | None = None
    grid: tuple[int, int, int] | None = None
    tokens: int = 0
    written: tuple[Written, ...] = ()
    refused: str = ""

    def to_builtins(self) -> dict[str, Any]:
        """The JSON form.

        Returns
        -------
        dict
            The fields by name.
        """
        fields: dict[str, Any] = {name: getattr(self, name) for name in self.__slots__}
        names = Written.__slots__
        fields["written"] = [{n: getattr(part, n) for n in names} for part in self.written]
        return fields


def expanded_items(case: Case) -> tuple[ExpandedItem, ...]:
    """The images and videos of a case of tokens, also of one that the reference refuses.

    Clips are not among them, and a video with its own sound is shown without it.

    Parameters
    ----------
    case : Case
        A case of the subject ``tokens``.

    Returns
    -------
    tuple of ExpandedItem
        In the order of their placeholders; then items without one.

    Examples
    --------
    >>> case = Case.from_builtins({"family": "qwen2_vl", "subject": "tokens", "scalars":
    ...     {"texts": ["a<|image_pad|>"]}, "arrays": {"image_sizes": [[70, 70]]}})
    >>> item, = expanded_items(case)
    >>> item.resized, item.grid, item.tokens, item.written[0].count
    ((56, 56), (1, 4, 4), 4, 4)
    """
    row = families.get(case.family)
    if row.media.image_form == "none":
        return ()
    sizes: dict[Kind, list[tuple[int, ...]]]
    sizes = {"image": _sizes(case, "image"), "video": _sizes(case, "video")}
    counts: dict[Kind, int] = {"image": 0, "video": 0}
    found = []
    for number, text in enumerate(case.texts):
        for start, stop, kind in Text(row).marks(text, expanded=False):
            if isinstance(kind, bool) or kind == "audio":  # a marker around a video; a clip
                continue
            at = counts[kind]
            counts[kind] += 1
            size = sizes[kind][at] if at < len(sizes[kind]) else None
            item = ExpandedItem(kind, at, number, start, text[start:stop], size)
            found.append(_measured(item, row, case))
    for kind, given in sizes.items():
        for at in range(counts[kind], len(given)):
            item = ExpandedItem(kind, at, -1, -1, "", given[at])
            found.append(_measured(item, row, case))
    return tuple(found)


def _sizes(case: Case, kind: str) -> list[tuple[int, ...]]:
    array = case.arrays.get(f"{kind}_sizes")
    return [] if array is None else [tuple(size) for size in array.tolist()]


def _measured(item: ExpandedItem, row: Family, case: Case) -> ExpandedItem:
    if item.size is None:
        return item
    frames = item.size[0] if item.kind == "video" else None
    seconds = frame_seconds(case)
    own = [seconds[item.item]] if seconds is not None and item.kind == "video" else None
    try:
        (measured,) = items_of(row, item.kind, [item.size], None, own)
        resized = vision.resize(*item.size[-2:], family=row.name, frames=frames)
    except RefusedMedia as error:
        return replace(item, refused=str(error))
    return replace(
        item,
        resized=(resized.height, resized.width),
        grid=measured.grid,
        tokens=measured.tokens,
        written=tuple(_written(row, measured)) if item.row >= 0 else (),
    )


def _written(row: Family, measured: Item) -> Iterator[Written]:
    parts = pieces(row, measured)
    for at, piece in enumerate(parts):
        if piece.name:
            yield Written(row.media.text(piece.name), piece.count, piece.frame, True)
            continue
        # a time belongs to the frame behind it, or in one form to the one before it
        last = row.media.video_form == "seconds_last"
        beside = parts[at - 1 : at] if last else parts[at + 1 : at + 2]
        yield Written(piece.text, 1, beside[0].frame if beside else 0, False)
