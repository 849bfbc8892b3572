"""One placeholder for each item in, the prompt that the model sees out; and back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from mmref import families
from mmref.errors import RefusedMedia
from mmref.families import Family, TokenIds
from mmref.layout import Layout
from mmref.tokens.carriers import Encode, Ids, Text
from mmref.tokens.draft import Draft, write_item
from mmref.tokens.pieces import Item, Kind, Piece, pieces
from mmref.tokens.waiting import Waiting, request

__all__ = ["Expansion", "collapse", "expand"]

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Expansion:
    """An expanded prompt.

    Parameters
    ----------
    family : str
        The family's name.
    images, videos : tuple of Item
        The items, measured, in order over the batch.
    audio : tuple of Item
        The clips, those that are the sound of a video among them.
    use_audio_in_video : bool
        Whether every video stands with its own sound.
    text : str or list of str or None
        The expanded text, in the form it was given; None for ids.
    input_ids, attention_mask, mm_token_type_ids : numpy.ndarray or None
        int64, shape (batch, seq); None for text. Types: 0 text, 1 image, 2 video,
        3 audio. Rows are padded to one length.
    layout : Layout or None
        The spans; None for text. A video with its own sound is a span for each run.
    boundary : {"prompt", "expansion", "none"}
        Who writes the tokens around an image or a clip: the author of the prompt (a chat template),
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
    audio: tuple[Item, ...] = ()
    use_audio_in_video: bool = False

    @property
    def image_grid_thw(self) -> IntArray | None:
        """int64, shape (images, 3), patches before merging; None without images."""
        return _grids(self.images)

    @property
    def video_grid_thw(self) -> IntArray | None:
        """int64, shape (videos, 3), patches before merging; None without videos."""
        return _grids(self.videos)

    @property
    def audio_lengths(self) -> IntArray | None:
        """int64, shape (clips,), frames of each clip; None without clips."""
        return np.array([clip.grid[0] for clip in self.audio], np.int64) if self.audio else None

    @property
    def position_arguments(self) -> dict[str, Any]:
        """The arguments that `mmref.mrope.position_ids` takes, for families with 3-D positions."""
        found: dict[str, Any] = {
            "input_ids": self.input_ids,
            "attention_mask": self.attention_mask,
            "image_grid_thw": self.image_grid_thw,
            "video_grid_thw": self.video_grid_thw,
            "family": self.family,
        }
        steps = [film.step for film in self.videos]
        if steps and None not in steps:
            found["second_per_grid_ts"] = steps
        if families.get(self.family).positions == "omni":
            found["audio_lengths"] = self.audio_lengths
            found["use_audio_in_video"] = self.use_audio_in_video
        return found


def expand(
    prompt: Any,
    *,
    family: str,
    images: Sequence[tuple[int, int]] | None = None,
    videos: Sequence[tuple[int, int, int]] | None = None,
    image_grid_thw: Any = None,
    video_grid_thw: Any = None,
    frame_seconds: Sequence[Sequence[float]] | None = None,
    second_per_grid_ts: Sequence[float] | None = None,
    audio: Sequence[int] | None = None,
    audio_lengths: Sequence[int] | None = None,
    use_audio_in_video: bool = False,
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
    second_per_grid_ts : sequence of float, optional
        For each video the seconds of a grid step; needed for videos with their own sound.
    audio : sequence of int, optional
        Samples of each clip at the family's own rate, in order over the batch, the sounds of
        videos among them.
    audio_lengths : sequence of int, optional
        Frames of the feature extractor instead of samples.
    use_audio_in_video : bool
        Whether every video comes with its own sound: its placeholder takes a clip too, and
        becomes both, mixed as `mmref.audio.interleave` says.
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
    Source: ``replace_image_token``, ``replace_video_token`` and ``replace_audio_token`` of
    the family's processor in transformers 5.24. Only the placeholder is replaced: tokens
    around it that the prompt holds stay, and `Expansion.boundary` says who writes them.

    Examples
    --------
    >>> expand("<|image_pad|>?", family="qwen2_vl", image_grid_thw=[[1, 4, 4]]).text
    '<|image_pad|><|image_pad|><|image_pad|><|image_pad|>?'
    >>> ids = TokenIds(image=10, video=11)
    >>> expand([5, 10, 6], family="qwen2_vl", image_grid_thw=[[1, 4, 4]],
    ...        token_ids=ids).input_ids.tolist()
    [[5, 10, 10, 10, 10, 6]]
    """
    row = _row(family)
    waiting = request(
        row,
        images=images,
        videos=videos,
        image_grid_thw=image_grid_thw,
        video_grid_thw=video_grid_thw,
        frame_seconds=frame_seconds,
        second_per_grid_ts=second_per_grid_ts,
        audio=audio,
        audio_lengths=audio_lengths,
        use_audio_in_video=use_audio_in_video,
    )
    texts = _texts(prompt)
    if texts is not None:
        expanded = _expand_texts(row, texts, waiting)
        return _expansion(row, waiting, text=expanded[0] if isinstance(prompt, str) else expanded)
    carrier = Ids(row, row.token_ids if token_ids is None else token_ids, encode)
    return _expand_ids(row, _rows(prompt), waiting, carrier, padding_side)


def collapse(
    prompt: Any,
    *,
    family: str,
    images: Sequence[tuple[int, int]] | None = None,
    videos: Sequence[tuple[int, int, int]] | None = None,
    image_grid_thw: Any = None,
    video_grid_thw: Any = None,
    frame_seconds: Sequence[Sequence[float]] | None = None,
    second_per_grid_ts: Sequence[float] | None = None,
    audio: Sequence[int] | None = None,
    audio_lengths: Sequence[int] | None = None,
    use_audio_in_video: bool = False,
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
    images, videos, image_grid_thw, video_grid_thw, frame_seconds, second_per_grid_ts
        As for `expand`.
    audio, audio_lengths, use_audio_in_video, encode, token_ids
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
    row = _row(family)
    waiting = request(
        row,
        images=images,
        videos=videos,
        image_grid_thw=image_grid_thw,
        video_grid_thw=video_grid_thw,
        frame_seconds=frame_seconds,
        second_per_grid_ts=second_per_grid_ts,
        audio=audio,
        audio_lengths=audio_lengths,
        use_audio_in_video=use_audio_in_video,
    )
    texts = _texts(prompt)
    if texts is not None:
        carrier: Text | Ids = Text(row)
        lines: list[Any] = [
            "".join(_collapsed(carrier, text, waiting, at)) for at, text in enumerate(texts)
        ]
    else:
        carrier = Ids(row, row.token_ids if token_ids is None else token_ids, encode)
        rows = _rows(prompt)
        if attention_mask is not None:
            mask = np.atleast_2d(np.asarray(attention_mask)) != 0
            rows = [line[kept] for line, kept in zip(rows, mask, strict=True)]
        lines = [
            np.concatenate(list(_collapsed(carrier, line, waiting, at))).tolist()
            for at, line in enumerate(rows)
        ]
    waiting.check_all_used()
    return lines[0] if isinstance(prompt, str) else lines


def _row(family: str) -> Family:
    row = families.get(family)
    if not row.media.placeholders:
        raise RefusedMedia(
            "kind-not-supported",
            where="family",
            got=f"{row.name}, whose prompts hold no placeholders that are described",
            expected=f"one of {', '.join(families.names('tokens'))}",
        )
    return row


def _expansion(row: Family, waiting: Waiting, **parts: Any) -> Expansion:
    items = waiting.items
    return Expansion(
        row.name,
        tuple(items["image"]),
        tuple(items["video"]),
        audio=tuple(items["audio"]),
        use_audio_in_video=waiting.sounding,
        boundary=row.media.boundary,
        **parts,
    )


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


def _placed(
    carrier: Text | Ids,
    line: Any,
    waiting: Waiting,
    number: int,
) -> Iterator[tuple[int, int, tuple[int, Item, int]]]:
    """The placeholders of a row: start, stop, and what `Waiting.take` says of its item."""
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
        yield start, stop, waiting.take(kind, f"row {number}, {unit} {start}", expanded=False)


def _expand_texts(row: Family, texts: list[str], waiting: Waiting) -> list[str]:
    carrier = Text(row)
    lines = []
    for number, text in enumerate(texts):
        parts, last = [], 0
        for start, stop, (_, item, _) in _placed(carrier, text, waiting, number):
            parts.append(text[last:start])
            parts += [carrier.render(piece) for piece in pieces(row, item)]
            last = stop
        lines.append("".join([*parts, text[last:]]))
    waiting.check_all_used()
    return lines


def _expand_ids(
    row: Family,
    rows: list[IntArray],
    waiting: Waiting,
    carrier: Ids,
    padding_side: str,
) -> Expansion:
    draft = Draft(list(rows), source_length=sum(len(line) for line in rows))
    offset = 0
    for number, line in enumerate(rows):
        draft.begin()
        last = 0
        for start, stop, (at, item, clip) in _placed(carrier, line, waiting, number):
            draft.copy(offset + last, start - last)
            write_item(row, carrier, draft, at, item, clip)
            last = stop
        draft.copy(offset + last, len(line) - last)
        draft.end()
        offset += len(line)
    waiting.check_all_used()
    ids, mask, types, layout = draft.finish(carrier.token_ids.pad or 0, padding_side)
    return _expansion(
        row,
        waiting,
        input_ids=ids,
        attention_mask=mask,
        mm_token_type_ids=types,
        layout=layout,
    )


def _collapsed(carrier: Any, line: Any, waiting: Waiting, number: int) -> Iterator[Any]:
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
        where = f"row {number}, {'character' if isinstance(line, str) else 'token'} {start}"
        at, item, _ = waiting.take(kind, where, expanded=True)
        parts = pieces(carrier.row, item)
        lead_parts, rest = _split_lead(parts)
        lead = sum(len(carrier.render(piece)) for piece in lead_parts)
        whole = carrier.join([carrier.render(piece) for piece in [*lead_parts, *rest]])
        begin = start - lead
        if begin < last or not carrier.same(line[begin : begin + len(whole)], whole):
            raise RefusedMedia(
                "not-an-expansion",
                where=where,
                got="other tokens than those of the item",
                expected=f"{kind} {at}, {item.tokens + item.sound} tokens",
                hint="mmref.tokens.diagnose names the likely cause",
            )
        yield line[last:begin]
        yield carrier.placeholder(kind)
        last = begin + len(whole)
    yield line[last:]


def _split_lead(parts: list[Piece]) -> tuple[list[Piece], list[Piece]]:
    """What is written before the first token that is found as a placeholder, and the rest."""
    found = (piece.of_item and piece.name != "vision_start" for piece in parts)
    first = next(at for at, fills in enumerate(found) if fills)
    return parts[:first], parts[first:]


def _grids(items: tuple[Item, ...]) -> IntArray | None:
    return np.array([item.grid for item in items], np.int64) if items else None
