"""One placeholder for each item in, the prompt that the model sees out; and back."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from mmref import families
from mmref.errors import RefusedMedia
from mmref.families import Family, TokenIds
from mmref.kernels import layout as layout_kernel
from mmref.kernels import tokens as kernel
from mmref.layout import Layout
from mmref.tokens.pieces import Item, Kind, Piece, items_of, pieces

__all__ = ["Expansion", "collapse", "expand"]

IntArray = npt.NDArray[np.int64]
Encode = Callable[[str], Sequence[int]]
_TYPES = {"image": 1, "video": 2}
_LAYOUT_KINDS = {"image": layout_kernel.IMAGE, "video": layout_kernel.VIDEO}


@dataclass(frozen=True, slots=True, eq=False)
class Expansion:
    """An expanded prompt.

    Parameters
    ----------
    family : str
        The family's name.
    images, videos : tuple of Item
        The items, measured, in order over the batch.
    text : str or list of str or None
        The expanded text, in the form it was given; None for ids.
    input_ids, attention_mask, mm_token_type_ids : numpy.ndarray or None
        int64, shape (batch, seq); None for text. Types: 0 text, 1 image, 2 video. Rows
        are padded to one length.
    layout : Layout or None
        The spans; None for text.
    boundary : {"prompt", "expansion", "none"}
        Who writes the tokens around an image: the author of the prompt (a chat template),
        this expansion, or nobody because the family has none.
    """

    family: str
    images: tuple[Item, ...]
    videos: tuple[Item, ...]
    text: str | list[str] | None = None
    input_ids: IntArray | None = None
    attention_mask: IntArray | None = None
    mm_token_type_ids: IntArray | None = None
    layout: Layout | None = None
    boundary: Literal["prompt", "expansion", "none"] = "none"

    @property
    def image_grid_thw(self) -> IntArray | None:
        """int64, shape (images, 3), patches before merging; None without images."""
        return _grids(self.images)

    @property
    def video_grid_thw(self) -> IntArray | None:
        """int64, shape (videos, 3), patches before merging; None without videos."""
        return _grids(self.videos)

    @property
    def position_arguments(self) -> dict[str, Any]:
        """The arguments that `mmref.mrope.position_ids` takes, for families with 3-D positions."""
        return {
            "input_ids": self.input_ids,
            "attention_mask": self.attention_mask,
            "image_grid_thw": self.image_grid_thw,
            "video_grid_thw": self.video_grid_thw,
            "family": self.family,
        }


def expand(
    prompt: Any,
    *,
    family: str,
    images: Sequence[tuple[int, int]] | None = None,
    videos: Sequence[tuple[int, int, int]] | None = None,
    image_grid_thw: Any = None,
    video_grid_thw: Any = None,
    frame_seconds: Sequence[Sequence[float]] | None = None,
    encode: Encode | None = None,
    token_ids: TokenIds | None = None,
    padding_side: Literal["right", "left"] = "right",
) -> Expansion:
    """Replace the one placeholder of each item by what the model sees.

    Parameters
    ----------
    prompt : str, sequence of str, or array_like of int
        A prompt or a batch of prompts, as text or as token ids; rows of ids may have
        different lengths. One placeholder for each item, in order over the batch.
    family : str
        A name of ``families.names("tokens")``, or an alias.
    images : sequence of (height, width), optional
        Pixels of each image.
    videos : sequence of (frames, height, width), optional
        Sampled frames and pixels of each video.
    image_grid_thw, video_grid_thw : array_like of int, shape (items, 3), optional
        Grids instead of sizes.
    frame_seconds : sequence of sequence of float, optional
        For each video the time of each frame in seconds, for families that write it.
        Default: 24 frames a second, which transformers assumes as well.
    encode : callable, optional
        Text to ids without special tokens, for prompts of ids in families that write text.
    token_ids : TokenIds, optional
        Default: the family's.
    padding_side : {"right", "left"}
        Where rows of ids are padded.

    Returns
    -------
    Expansion
        The expanded prompt.

    Raises
    ------
    RefusedMedia
        One of `mmref.tokens.REFUSALS`.
    UnknownName
        If the family is not known.

    Notes
    -----
    Source: ``replace_image_token`` and ``replace_video_token`` of the family's processor in
    transformers 5.24. Only the placeholder is replaced: tokens around it that the prompt
    holds stay, and `Expansion.boundary` says who writes them.

    Examples
    --------
    >>> expand("<|image_pad|>?", family="qwen2_vl", image_grid_thw=[[1, 4, 4]]).text
    '<|image_pad|><|image_pad|><|image_pad|><|image_pad|>?'
    >>> ids = TokenIds(image=10, video=11)
    >>> expand([5, 10, 6], family="qwen2_vl", image_grid_thw=[[1, 4, 4]],
    ...        token_ids=ids).input_ids.tolist()
    [[5, 10, 10, 10, 10, 6]]
    """
    row, found = _request(
        family, images, videos, image_grid_thw, video_grid_thw, frame_seconds
    )
    texts = _texts(prompt)
    if texts is not None:
        expanded = _expand_texts(row, texts, found)
        return Expansion(
            row.name,
            tuple(found["image"]),
            tuple(found["video"]),
            text=expanded[0] if isinstance(prompt, str) else expanded,
            boundary=row.media.boundary,
        )
    carrier = _Ids(row, row.token_ids if token_ids is None else token_ids, encode)
    return _expand_ids(row, _rows(prompt), found, carrier, padding_side)


def collapse(
    prompt: Any,
    *,
    family: str,
    images: Sequence[tuple[int, int]] | None = None,
    videos: Sequence[tuple[int, int, int]] | None = None,
    image_grid_thw: Any = None,
    video_grid_thw: Any = None,
    frame_seconds: Sequence[Sequence[float]] | None = None,
    encode: Encode | None = None,
    token_ids: TokenIds | None = None,
    attention_mask: Any = None,
) -> Any:
    """Put one placeholder in the place of each item: the exact inverse of `expand`.

    Parameters
    ----------
    prompt : str, sequence of str, or array_like of int
        An expanded prompt or a batch of them.
    family : str
        A name of ``families.names("tokens")``, or an alias.
    images, videos, image_grid_thw, video_grid_thw, frame_seconds, encode, token_ids
        As for `expand`.
    attention_mask : array_like of bool or 0/1, shape (batch, seq), optional
        Tokens that exist; the others are dropped.

    Returns
    -------
    str, list of str, or list of list of int
        The prompt that `expand` was given; ids as a list for each row.

    Raises
    ------
    RefusedMedia
        ``not-an-expansion`` where an item is not exactly what `expand` writes, and
        what `expand` raises.
    UnknownName
        If the family is not known.

    Examples
    --------
    >>> ids = TokenIds(image=10, video=11)
    >>> collapse([5, 10, 10, 10, 10, 6], family="qwen2_vl", image_grid_thw=[[1, 4, 4]],
    ...          token_ids=ids)
    [[5, 10, 6]]
    """
    row, found = _request(
        family, images, videos, image_grid_thw, video_grid_thw, frame_seconds
    )
    queues = {kind: iter(list(enumerate(items))) for kind, items in found.items()}
    texts = _texts(prompt)
    if texts is not None:
        carrier: _Text | _Ids = _Text(row)
        lines: list[Any] = ["".join(_collapsed(carrier, text, queues, at)) for at, text in
                            enumerate(texts)]
    else:
        carrier = _Ids(row, row.token_ids if token_ids is None else token_ids, encode)
        rows = _rows(prompt)
        if attention_mask is not None:
            mask = np.atleast_2d(np.asarray(attention_mask)) != 0
            rows = [line[kept] for line, kept in zip(rows, mask, strict=True)]
        lines = [
            np.concatenate(list(_collapsed(carrier, line, queues, at))).tolist()
            for at, line in enumerate(rows)
        ]
    for kind, queue in queues.items():
        left = next(queue, None)
        if left is not None:
            raise _too_few(kind, left[0], len(found[kind]))
    return lines[0] if isinstance(prompt, str) else lines


def _request(
    family: str, images: Any, videos: Any, image_grid: Any, video_grid: Any, seconds: Any
) -> tuple[Family, dict[Kind, list[Item]]]:
    row = families.get(family)
    if row.media.image_form == "none":
        raise RefusedMedia(
            "kind-not-supported",
            where="family",
            got=f"{row.name}, whose prompts hold no placeholders",
            expected=f"one of {', '.join(families.names('tokens'))}",
        )
    return row, {
        "image": items_of(row, "image", images, image_grid),
        "video": items_of(row, "video", videos, video_grid, seconds),
    }


def _texts(prompt: Any) -> list[str] | None:
    if isinstance(prompt, str):
        return [prompt]
    if isinstance(prompt, (list, tuple)) and prompt and all(isinstance(x, str) for x in prompt):
        return list(prompt)
    return None


def _rows(prompt: Any) -> list[IntArray]:
    if isinstance(prompt, np.ndarray):
        rows: Any = prompt if prompt.ndim == 2 else [prompt]
    else:
        nested = len(prompt) > 0 and hasattr(prompt[0], "__len__")
        rows = prompt if nested else [prompt]
    found = [np.asarray(line) for line in rows]
    for number, line in enumerate(found):
        if line.ndim != 1 or (line.size and line.dtype.kind not in "iu"):
            raise RefusedMedia(
                "prompt-type",
                where=f"prompt, row {number}",
                got=f"shape {line.shape}, dtype {line.dtype}",
                expected="text, or token ids (seq,)",
            )
    return [line.astype(np.int64, copy=False) for line in found]


class _Text:
    """Items as text."""

    def __init__(self, row: Family) -> None:
        self.row = row
        media = row.media
        self.placeholders: dict[str, Kind] = {media.text(_image_name(row)): "image"}
        if media.video_form != "none":
            self.placeholders[media.text("video")] = "video"
        texts = dict(media.texts)
        marks = [re.escape(texts[name]) for name in ("video_start", "video_end") if name in texts]
        self.found = re.compile("|".join([*map(re.escape, self.placeholders), *marks]))
        fills = {texts["image"]: "image"} | (
            {texts["video"]: "video"} if media.video_form not in ("none", "seconds_last") else {}
        )
        self.fills: dict[str, Kind] = fills  # type: ignore[assignment]
        self.filled = re.compile("|".join([*map(re.escape, fills), *marks]))
        self.start, self.end = texts.get("video_start"), texts.get("video_end")

    def marks(self, text: str, *, expanded: bool) -> Iterator[tuple[int, int, Kind | bool]]:
        """Start, stop and kind of each placeholder; True and False for video markers."""
        names = self.fills if expanded else self.placeholders
        for match in (self.filled if expanded else self.found).finditer(text):
            word = match.group()
            kind: Kind | bool = names[word] if word in names else word == self.start
            yield match.start(), match.end(), kind

    def render(self, piece: Piece) -> str:
        return piece.text if not piece.name else self.row.media.text(piece.name) * piece.count

    def placeholder(self, kind: Kind) -> str:
        return next(text for text, found in self.placeholders.items() if found == kind)

    @staticmethod
    def same(left: Any, right: Any) -> bool:
        return bool(left == right)

    @staticmethod
    def join(parts: Sequence[str]) -> str:
        return "".join(parts)


class _Ids:
    """Items as token ids."""

    def __init__(self, row: Family, token_ids: TokenIds, encode: Encode | None) -> None:
        self.row, self.token_ids, self.encode = row, token_ids, encode
        self.start, self.end = token_ids.video_start, token_ids.video_end
        self.placeholders: dict[int, Kind] = {self.id(_image_name(row)): "image"}
        self.fills: dict[int, Kind] = {self.id("image"): "image"}
        if row.media.video_form != "none" and token_ids.video is not None:
            self.placeholders[token_ids.video] = "video"
            if row.media.video_form != "seconds_last":
                self.fills[token_ids.video] = "video"

    def id(self, name: str) -> int:
        value: int | None = getattr(self.token_ids, name)
        if value is None:
            raise RefusedMedia(
                "token-ids-missing", where="token_ids", got=f"no {name}", expected="its id"
            )
        return value

    def marks(self, line: IntArray, *, expanded: bool) -> Iterator[tuple[int, int, Kind | bool]]:
        """Start, stop and kind of each placeholder; True and False for video markers."""
        names = self.fills if expanded else self.placeholders
        wanted = [*names, *(mark for mark in (self.start, self.end) if mark is not None)]
        hits = line == wanted[0]
        for other in wanted[1:]:
            hits |= line == other
        for index in np.flatnonzero(hits).tolist():
            token = int(line[index])
            yield index, index + 1, names[token] if token in names else token == self.start

    def render(self, piece: Piece) -> IntArray:
        if piece.name:
            return np.full(piece.count, self.id(piece.name), np.int64)
        if self.encode is None:
            raise RefusedMedia(
                "encode-missing",
                where="encode",
                got=f"none, for the text {piece.text!r}",
                expected="a function from text to ids",
                hint="pass the tokenizer's encode, without special tokens, or expand text",
            )
        ids = np.asarray(self.encode(piece.text), np.int64)
        if np.isin(ids, list(self.fills)).any():
            raise RefusedMedia(
                "encode-placeholder",
                where="encode",
                got=f"a placeholder in the ids of {piece.text!r}",
                expected="ids of ordinary text",
            )
        return ids

    def placeholder(self, kind: Kind) -> IntArray:
        return np.array([self.id("video" if kind == "video" else _image_name(self.row))])

    @staticmethod
    def same(left: Any, right: Any) -> bool:
        return bool(np.array_equal(left, right))

    @staticmethod
    def join(parts: Sequence[IntArray]) -> IntArray:
        return np.concatenate(parts)


def _image_name(row: Family) -> str:
    """Gemma 3's prompts hold the token that starts an image, not the placeholder."""
    return "vision_start" if row.media.image_form == "paragraph" else "image"


def _placed(
    carrier: _Text | _Ids, line: Any, counts: dict[Kind, int], found: dict[Kind, list[Item]],
    number: int,
) -> Iterator[tuple[int, int, Kind, int]]:
    """The placeholders of a row with their items: (start, stop, kind, item)."""
    markers = carrier.row.media_kinds == "by_video_markers"
    depth = 0
    for start, stop, kind in carrier.marks(line, expanded=False):
        if isinstance(kind, bool):
            depth += 1 if kind else -1
            continue
        unit = "character" if isinstance(line, str) else "token"
        if markers and (kind == "video") != (depth > 0):
            raise RefusedMedia(
                "nested-placeholder" if kind == "image" else "boundary-missing",
                where=f"row {number}, {unit} {start}",
                got=f"{'an image' if kind == 'image' else 'a video'} placeholder "
                f"{'inside' if depth > 0 else 'outside'} a video's markers",
                expected="videos inside their markers, images outside",
                hint="this family tells frames from images by the markers around them",
            )
        item = counts[kind]
        if item >= len(found[kind]):
            raise RefusedMedia(
                "more-placeholders-than-items",
                where=f"row {number}, {unit} {start}",
                got=f"{kind} placeholder {item}",
                expected=f"none: {len(found[kind])} {kind}s are given",
                hint="is the prompt expanded already, or does the user's own text hold the "
                "placeholder's name? Encode user text so that it becomes ordinary tokens",
            )
        counts[kind] += 1
        yield start, stop, kind, item


def _too_few(kind: Kind, item: int, total: int) -> RefusedMedia:
    return RefusedMedia(
        "fewer-placeholders-than-items",
        where=f"{kind} {item}",
        got="no placeholder left for it",
        expected=f"one for each of {total} {kind}s",
        hint="was the prompt truncated?",
    )


def _expand_texts(
    row: Family, texts: list[str], found: dict[Kind, list[Item]]
) -> list[str]:
    carrier = _Text(row)
    counts: dict[Kind, int] = {"image": 0, "video": 0}
    lines = []
    for number, text in enumerate(texts):
        parts, last = [], 0
        for start, stop, kind, item in _placed(carrier, text, counts, found, number):
            parts.append(text[last:start])
            parts += [carrier.render(piece) for piece in pieces(row, found[kind][item])]
            last = stop
        lines.append("".join([*parts, text[last:]]))
    _check_all_used(counts, found)
    return lines


def _check_all_used(counts: dict[Kind, int], found: dict[Kind, list[Item]]) -> None:
    for kind, items in found.items():
        if counts[kind] < len(items):
            raise _too_few(kind, counts[kind], len(items))


@dataclass(slots=True)
class _Draft:
    """The rows under construction: segments for the kernel, spans for the layout."""

    sources: list[IntArray]
    segments: list[tuple[int, int, int, int, int, int]] = field(default_factory=list)
    spans: list[list[int]] = field(default_factory=list)
    source_length: int = 0
    row: int = 0
    length: int = 0
    text_from: int = 0

    def copy(self, first: int, count: int) -> None:
        if count > 0:
            self.segments.append((self.row, self.length, self.length + count, first, 0, 0))
            self.length += count

    def add_source(self, ids: IntArray) -> int:
        self.sources.append(ids)
        self.source_length += len(ids)
        return self.source_length - len(ids)

    def run(self, token: int, count: int, kind: int) -> None:
        stop = self.length + count
        self.segments.append((self.row, self.length, stop, kernel.NO_SOURCE, token, kind))
        self.length = stop

    def close_text(self, stop: int) -> None:
        """Text from where the last item ended up to ``stop``."""
        if stop > self.text_from:
            count = stop - self.text_from
            self.spans.append(
                [self.row, layout_kernel.TEXT, -1, 0, self.text_from, stop, count, 0, 0, 0, 0]
            )

    def span(self, kind: Kind, item: int, frame: int, start: int, grid: tuple[int, int, int]) -> None:
        self.close_text(start)
        self.text_from = self.length
        line = [self.row, _LAYOUT_KINDS[kind], item, frame, start, self.length]
        self.spans.append([*line, self.length - start, *grid, 0])


def _expand_ids(
    row: Family,
    rows: list[IntArray],
    found: dict[Kind, list[Item]],
    carrier: _Ids,
    padding_side: str,
) -> Expansion:
    draft = _Draft(list(rows), source_length=sum(len(line) for line in rows))
    counts: dict[Kind, int] = {"image": 0, "video": 0}
    lengths, offset = [], 0
    for number, line in enumerate(rows):
        draft.row, draft.length, draft.text_from = number, 0, 0
        last = 0
        for start, stop, kind, item in _placed(carrier, line, counts, found, number):
            draft.copy(offset + last, start - last)
            _write_item(row, carrier, draft, kind, item, found[kind][item])
            last = stop
        draft.copy(offset + last, len(line) - last)
        draft.close_text(draft.length)
        offset += len(line)
        lengths.append(draft.length)
    _check_all_used(counts, found)
    longest = max(lengths, default=0)
    segments = np.array(draft.segments, np.int64).reshape(-1, kernel.COLUMNS)
    table = np.array(draft.spans, np.int64).reshape(-1, layout_kernel.COLUMNS)
    if padding_side == "left":
        shift = longest - np.array(lengths, np.int64)
        segments[:, [kernel.START, kernel.STOP]] += shift[segments[:, kernel.ROW], None]
        table[:, [layout_kernel.START, layout_kernel.STOP]] += shift[
            table[:, layout_kernel.ROW], None
        ]
    elif padding_side != "right":
        raise ValueError(f"padding_side: {padding_side!r}, expected 'right' or 'left'")
    shape = (len(rows), longest)
    ragged = min(lengths, default=0) < longest
    pad = carrier.token_ids.pad or 0
    ids = np.full(shape, pad, np.int64) if ragged else np.empty(shape, np.int64)
    make = np.zeros if ragged else np.empty
    types, mask = make(shape, np.int64), make(shape, np.int64)
    source = np.concatenate(draft.sources) if draft.sources else np.empty(0, np.int64)
    kernel.write(segments, source, ids, types, mask)
    return Expansion(
        row.name,
        tuple(found["image"]),
        tuple(found["video"]),
        input_ids=ids,
        attention_mask=mask,
        mm_token_type_ids=types,
        layout=Layout(table, shape),
        boundary=row.media.boundary,
    )


def _write_item(
    row: Family, carrier: _Ids, draft: _Draft, kind: Kind, number: int, item: Item
) -> None:
    """The segments of an item, and a span for it, or for each of its frames."""
    rule = row.media.image_resize if kind == "image" else row.media.video_resize
    merge = rule.merge_size  # type: ignore[union-attr]  # an item has a rule
    t, h, w = item.grid
    grid = (t, h // merge, w // merge)
    if row.media.image_form == "rows":
        grid = (t, grid[1], grid[2] + 1)  # with the token that ends each row
    elif grid[0] * grid[1] * grid[2] != item.tokens:
        grid = (1, 1, item.tokens)  # tiles: their tokens form no grid
    by_frame = kind == "video" and row.media.video_form != "run"
    parts = pieces(row, item)
    inside = [at for at, piece in enumerate(parts) if piece.of_item]
    begun = 0
    for at, piece in enumerate(parts):
        if at == inside[0] or (by_frame and piece.of_item):
            begun = draft.length
        if not piece.name:
            ids = carrier.render(piece)
            draft.copy(draft.add_source(ids), len(ids))
            continue
        type_ = _TYPES[kind] if piece.of_item else 0
        draft.run(carrier.id(piece.name), piece.count, type_)
        if by_frame and piece.of_item:
            draft.span(kind, number, piece.frame, begun, (1, grid[1], grid[2]))
        elif at == inside[-1] and not by_frame:
            draft.span(kind, number, 0, begun, grid)


def _collapsed(
    carrier: _Text | _Ids, line: Any, queues: dict[Kind, Iterator[tuple[int, Item]]], number: int
) -> Iterator[Any]:
    """The parts of a row with each item as one placeholder."""
    markers = carrier.row.media_kinds == "by_video_markers"
    depth, last = 0, 0
    for start, _, mark in carrier.marks(line, expanded=True):
        if isinstance(mark, bool):
            depth += (1 if mark else -1) if start >= last else 0
            continue
        if start < last:
            continue  # inside the item that was just read
        kind: Kind = "video" if markers and depth > 0 else mark
        number_item = next(queues[kind], None)
        where = f"row {number}, {'character' if isinstance(line, str) else 'token'} {start}"
        if number_item is None:
            raise RefusedMedia(
                "not-an-expansion",
                where=where,
                got=f"a placeholder after the last {kind}",
                expected="none",
                hint="mmref.tokens.diagnose names the likely cause",
            )
        parts = pieces(carrier.row, number_item[1])
        lead_parts, rest = _split_lead(parts)
        lead = sum(len(carrier.render(piece)) for piece in lead_parts)
        whole = carrier.join([carrier.render(piece) for piece in [*lead_parts, *rest]])
        begin = start - lead
        if begin < last or not carrier.same(line[begin : begin + len(whole)], whole):
            raise RefusedMedia(
                "not-an-expansion",
                where=where,
                got="other tokens than those of the item",
                expected=f"{kind} {number_item[0]}, {number_item[1].tokens} tokens",
                hint="mmref.tokens.diagnose names the likely cause",
            )
        yield line[last:begin]
        yield carrier.placeholder(kind)
        last = begin + len(whole)
    yield line[last:]


def _split_lead(parts: list[Piece]) -> tuple[list[Piece], list[Piece]]:
    first = next(at for at, piece in enumerate(parts) if piece.of_item)
    return parts[:first], parts[first:]


def _grids(items: tuple[Item, ...]) -> IntArray | None:
    return np.array([item.grid for item in items], np.int64) if items else None
