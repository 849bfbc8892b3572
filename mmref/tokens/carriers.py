"""How items are written: as text, or as token ids."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mmref.errors import RefusedMedia
from mmref.families import Family, TokenIds
from mmref.tokens.pieces import Kind, Piece

IntArray = npt.NDArray[np.int64]
Encode = Callable[[str], Sequence[int]]


class Text:
    """Items as text."""

    def __init__(self, row: Family) -> None:
        self.row = row
        media = row.media
        self.placeholders: dict[str, Kind] = {}
        if media.image_form != "none":
            self.placeholders[media.text(_image_name(row))] = "image"
        if media.audio_form != "none":
            self.placeholders[media.text("audio")] = "audio"
        if media.video_form != "none":
            self.placeholders[media.text("video")] = "video"
        texts = dict(media.texts)
        marks = [re.escape(texts[name]) for name in ("video_start", "video_end") if name in texts]
        self.found = re.compile("|".join([*map(re.escape, self.placeholders), *marks]))
        fills = {texts[kind]: kind for kind in _filled(row)}
        self.fills: dict[str, Kind] = fills
        self.filled = re.compile("|".join([*map(re.escape, fills), *marks]))
        self.start, self.end = texts.get("video_start"), texts.get("video_end")

    def marks(self, text: str, *, expanded: bool) -> Iterator[tuple[int, int, Kind | bool]]:
        """Start, stop and kind of each placeholder; True and False for video markers."""
        names = self.fills if expanded else self.placeholders
        for match in (self.filled if expanded else self.found).finditer(text):
            word = match.group()
            kind: Kind | bool = names.get(word, word == self.start)
            yield match.start(), match.end(), kind

    def render(self, piece: Piece) -> str:
        """A piece as text."""
        return piece.text if not piece.name else self.row.media.text(piece.name) * piece.count

    def placeholder(self, kind: Kind) -> str:
        """What stands for an item before expansion."""
        return next(text for text, found in self.placeholders.items() if found == kind)

    @staticmethod
    def same(left: Any, right: Any) -> bool:
        return bool(left == right)

    @staticmethod
    def join(parts: Sequence[str]) -> str:
        return "".join(parts)


class Ids:
    """Items as token ids."""

    def __init__(self, row: Family, token_ids: TokenIds, encode: Encode | None) -> None:
        self.row, self.token_ids, self.encode = row, token_ids, encode
        self.start, self.end = token_ids.video_start, token_ids.video_end
        self.placeholders: dict[int, Kind] = {}
        if row.media.image_form != "none":
            self.placeholders[self.id(_image_name(row))] = "image"
        if row.media.video_form != "none" and token_ids.video is not None:
            self.placeholders[token_ids.video] = "video"
        audio_only = row.media.image_form == "none"
        if row.media.audio_form != "none" and (audio_only or token_ids.audio is not None):
            self.placeholders[self.id("audio")] = "audio"
        ids = {kind: getattr(token_ids, kind) for kind in _filled(row)}
        self.fills: dict[int, Kind] = {id_: kind for kind, id_ in ids.items() if id_ is not None}

    def id(self, name: str) -> int:
        """A token id that must be known."""
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
            yield index, index + 1, names.get(token, token == self.start)

    def render(self, piece: Piece) -> IntArray:
        """A piece as ids."""
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
        """What stands for an item before expansion."""
        return np.array([self.id(_image_name(self.row) if kind == "image" else kind)])

    @staticmethod
    def same(left: Any, right: Any) -> bool:
        return bool(np.array_equal(left, right))

    @staticmethod
    def join(parts: Sequence[IntArray]) -> IntArray:
        return np.concatenate(parts)


def _filled(row: Family) -> list[Kind]:
    """The kinds whose own placeholder fills their items."""
    media = row.media
    found: list[Kind] = ["image"] if media.image_form != "none" else []
    if media.video_form not in ("none", "seconds_last"):
        found.append("video")
    return [*found, "audio"] if media.audio_form != "none" else found


def _image_name(row: Family) -> str:
    """Gemma 3's prompts hold the token that starts an image, not the placeholder."""
    return "vision_start" if row.media.image_form == "paragraph" else "image"
