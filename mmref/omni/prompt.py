"""Prompts with audio, checked and cut into segments."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mmref.arrays import integer_matrix, mask_matrix, to_numpy
from mmref.audio import output_lengths
from mmref.errors import RefusedPrompt
from mmref.families.row import Family, TokenIds
from mmref.kernels.layout import LARGEST
from mmref.prompt import read_grid, read_merge, read_rate, read_seconds

__all__ = ["REFUSALS", "OmniPrompt", "Segment", "read", "refuse"]

Array = npt.NDArray[Any]

REFUSALS: dict[str, str] = {
    "omni-block": "a block without its start or end token, or one that holds nothing of its kind",
    "omni-placeholder": "a placeholder outside a block, or of another kind than its block",
    "omni-count": "a block with another number of placeholders than its item makes",
    "omni-items": "more blocks of a kind than items, or fewer",
    "omni-order-flag": "a video with its own sound, or one without, against use_audio_in_video",
    "omni-audio-lengths": "lengths of audio that are none, or of which one makes no token",
    "omni-seconds": "videos without their seconds, or a time beyond int32",
    "omni-audio-not-used": "audio lengths for a family that counts no audio",
    "omni-cut": "a rewind to inside a block",
    "omni-grid": "a grid value below one, not divided by the merge size, or an image with frames",
}
"""Ways in which such a prompt is refused, beside those of `mmref.layout.REFUSALS`."""

_EXPECTED = {
    "omni-block": "a start token, the placeholders of one item, and the end token",
    "omni-placeholder": "placeholders in a block of their own kind",
    "omni-order-flag": "use_audio_in_video to be True exactly where videos have their own sound",
    "omni-audio-lengths": "a vector with the frames of each clip, enough for a token",
    "omni-seconds": "the seconds of a grid step of each video",
    "omni-grid": "positive values, h and w divided by the merge size, t = 1 for an image",
    "mask-value": "bool or 0/1",
    "token-ids-missing": "seven different ids",
    "omni-cut": "a cut between blocks, or in text",
}


@dataclass(slots=True)
class OmniPrompt:
    """A prompt that is checked: its rows as segments.

    A segment is (kind, tokens, item): ``text``; ``start`` and ``end``, the tokens around a
    block; ``image``, ``video``, ``audio``; ``mixed``, a video with its own sound, whose item is
    (video, clip) and whose ``kinds`` are True for audio.
    """

    row: Family
    shape: tuple[int, int]
    keep: npt.NDArray[np.bool_]
    masked: bool
    rows: list[list[Segment]]
    image_grid: Array
    video_grid: Array
    seconds: Array
    audio_tokens: Array
    merge: int
    rate: float
    token_ids: TokenIds
    in_video: bool

    @property
    def counts(self) -> npt.NDArray[np.int64]:
        """The tokens of each row."""
        found: npt.NDArray[np.int64] = self.keep.sum(axis=1)
        return found

    def of_rows(self, rows: npt.NDArray[np.int64]) -> OmniPrompt:
        """The same items with other rows.

        Parameters
        ----------
        rows : numpy.ndarray
            Rows of the batch.

        Returns
        -------
        OmniPrompt
            The copy.
        """
        chosen = [self.rows[row] for row in rows]
        shape = (len(chosen), self.shape[1])
        return replace(self, shape=shape, keep=self.keep[rows], rows=chosen)

    def first(self, length: int) -> OmniPrompt:
        """The first tokens of each padded row.

        Parameters
        ----------
        length : int
            How many.

        Returns
        -------
        OmniPrompt
            The copy.

        Raises
        ------
        RefusedPrompt
            ``omni-cut``: if they end inside a block.
        """
        keep = self.keep[:, :length]
        rows = []
        for number, segments in enumerate(self.rows):
            left, found = int(keep[number].sum()), []
            for segment in segments:
                if not left:
                    break
                whole = segment.tokens <= left
                if not whole and segment.kind != "text":
                    raise refuse("omni-cut", f"row {number}", f"{length} tokens")
                found.append(segment if whole else Segment("text", left))
                left -= found[-1].tokens
            if found and found[-1].kind not in ("text", "end"):
                raise refuse("omni-cut", f"row {number}", f"{length} tokens")
            rows.append(found)
        return replace(self, shape=keep.shape, keep=keep, rows=rows)

    @property
    def media(self) -> bool:
        """Whether there is any grid."""
        return len(self.image_grid) + len(self.video_grid) > 0


@dataclass(slots=True)
class Segment:
    """Tokens of a row that are placed together."""

    kind: str
    tokens: int
    item: int = -1
    clip: int = -1
    kinds: npt.NDArray[np.bool_] | None = None


def read(
    input_ids: Any,
    *,
    row: Family,
    image_grid_thw: Any = None,
    video_grid_thw: Any = None,
    second_per_grid_ts: Any = None,
    audio_lengths: Any = None,
    use_audio_in_video: bool = False,
    attention_mask: Any = None,
    token_ids: TokenIds | None = None,
    spatial_merge_size: int | None = None,
    tokens_per_second: float | None = None,
) -> OmniPrompt:
    """Check a prompt.

    The parameters are those of `mmref.mrope.position_ids`.

    Returns
    -------
    OmniPrompt
        Its segments.

    Raises
    ------
    RefusedPrompt
        One of `REFUSALS`, or of `mmref.layout.REFUSALS`.
    """
    ids = integer_matrix(input_ids, "input_ids")
    keep = np.ones(ids.shape, np.bool_)
    if attention_mask is not None:
        mask = mask_matrix(attention_mask, "attention_mask", ids.shape)
        if not np.isin(mask, (0, 1)).all():
            raise refuse("mask-value", "attention_mask", "values other than 0 and 1")
        keep = mask != 0
    merge = row.spatial_merge_size
    if spatial_merge_size is not None:
        merge = read_merge(spatial_merge_size)
    rate = float(row.tokens_per_second or 0.0)
    if tokens_per_second is not None:
        rate = read_rate(tokens_per_second)
    images = read_grid(image_grid_thw, "image_grid_thw")
    videos = read_grid(video_grid_thw, "video_grid_thw")
    for name, grid in (("image_grid_thw", images), ("video_grid_thw", videos)):
        _check_grid(name, grid, merge)
    if len(videos) and second_per_grid_ts is None:
        raise refuse("omni-seconds", "second_per_grid_ts", f"none for {len(videos)} videos")
    seconds = np.empty(0, np.float32)
    if second_per_grid_ts is not None:
        seconds = read_seconds(second_per_grid_ts, len(videos)).astype(np.float32)
        _check_times(videos, seconds, rate)
    audio_tokens = _audio_tokens(audio_lengths, row)
    scanner = _Scanner(row.token_ids if token_ids is None else token_ids, use_audio_in_video)
    rows = [scanner.scan(number, ids[number][keep[number]].tolist()) for number in range(len(ids))]
    prompt = OmniPrompt(
        row,
        ids.shape,
        keep,
        attention_mask is not None,
        rows,
        images,
        videos,
        seconds,
        audio_tokens,
        merge,
        rate,
        scanner.ids,
        use_audio_in_video,
    )
    _check_counts(prompt, scanner)
    return prompt


def _audio_tokens(audio_lengths: Any, row: Family) -> Array:
    if audio_lengths is None:
        return np.empty(0, np.int64)
    lengths = to_numpy(audio_lengths, "audio_lengths")
    if lengths.size and (lengths.ndim != 1 or lengths.dtype.kind not in "iu" or lengths.min() < 0):
        raise refuse("omni-audio-lengths", "audio_lengths", str(lengths.tolist())[:80])
    found = output_lengths(lengths.astype(np.int64), family=row.name)
    if (found == 0).any():
        clip = int((found == 0).argmax())
        raise refuse(
            "omni-audio-lengths",
            f"audio_lengths[{clip}]",
            f"{lengths[clip]} frames, which make no token",
        )
    return found


def _check_times(videos: Array, seconds: Array, rate: float) -> None:
    for number, (steps, pace) in enumerate(
        zip(videos[:, 0].tolist(), seconds.tolist(), strict=True)
    ):
        if not (steps - 1) * pace * rate < LARGEST:
            raise refuse(
                "omni-seconds",
                f"second_per_grid_ts[{number}]",
                f"{pace} for {steps} grid steps",
                f"a time of less than {LARGEST} positions",
            )


def _check_grid(name: str, grid: Array, merge: int) -> None:
    for number, (t, h, w) in enumerate(grid.tolist()):
        bad = min(t, h, w) < 1 or h % merge or w % merge or max(t, h, w) > 2**20
        if bad or (name.startswith("image") and t != 1):
            raise refuse("omni-grid", f"{name}[{number}]", f"({t}, {h}, {w}) with merge {merge}")


def _check_counts(prompt: OmniPrompt, scanner: _Scanner) -> None:
    for kind, items in (
        ("image", len(prompt.image_grid)),
        ("video", len(prompt.video_grid)),
        ("audio", len(prompt.audio_tokens)),
    ):
        if scanner.seen[kind] != items:
            raise refuse(
                "omni-items",
                f"{kind} blocks",
                str(scanner.seen[kind]),
                f"{items}, one for each item",
            )
    for number, segments in enumerate(prompt.rows):
        for segment in segments:
            need = _need(prompt, segment)
            got: tuple[int, ...] = (segment.tokens,)
            if segment.kinds is not None:
                sound = int(segment.kinds.sum())
                got = (segment.tokens - sound, sound)
            if need is not None and got != need:
                raise refuse(
                    "omni-count",
                    f"row {number}, {segment.kind} {segment.item}",
                    f"{got} placeholders",
                    f"{need}",
                )


def _need(prompt: OmniPrompt, segment: Segment) -> tuple[int, ...] | None:
    area = prompt.merge**2
    if segment.kind == "image":
        return (int(prompt.image_grid[segment.item].prod()) // area,)
    if segment.kind == "video":
        return (int(prompt.video_grid[segment.item].prod()) // area,)
    if segment.kind == "audio":
        return (int(prompt.audio_tokens[segment.item]),)
    if segment.kind == "mixed":
        video = int(prompt.video_grid[segment.item].prod()) // area
        return (video, int(prompt.audio_tokens[segment.clip]))
    return None


class _Scanner:
    """Rows of tokens to segments; items are counted on through the batch."""

    def __init__(self, token_ids: TokenIds, in_video: bool) -> None:
        self.ids = token_ids
        self.in_video = in_video
        self.seen = {"image": 0, "video": 0, "audio": 0}
        self.fill = {
            token_ids.image: "image",
            token_ids.video: "video",
            token_ids.audio: "audio",
        }
        self.special = {token_ids.vision_start, token_ids.vision_end}
        self.special |= {token_ids.audio_start, token_ids.audio_end}
        names = (
            "image",
            "video",
            "audio",
            "vision_start",
            "vision_end",
            "audio_start",
            "audio_end",
        )
        given = [getattr(token_ids, name) for name in names]
        if None in given or len(set(given)) < len(given):
            raise refuse(
                "token-ids-missing", "token_ids", "a marker or placeholder without an id of its own"
            )

    def scan(self, row: int, tokens: list[int]) -> list[Segment]:
        """The segments of one row."""
        found: list[Segment] = []
        at, text = 0, 0
        while at < len(tokens):
            token = tokens[at]
            if token in (self.ids.vision_start, self.ids.audio_start):
                if text:
                    found.append(Segment("text", text))
                    text = 0
                block, at = self._block(row, tokens, at)
                found += block
                continue
            if token in self.fill:
                raise refuse(
                    "omni-placeholder",
                    f"row {row}, token {at}",
                    f"{self.fill[token]} outside a block",
                )
            if token in self.special:
                raise refuse(
                    "omni-block", f"row {row}, token {at}", "an end token without its start"
                )
            text += 1
            at += 1
        if text:
            found.append(Segment("text", text))
        return found

    def _block(self, row: int, tokens: list[int], at: int) -> tuple[list[Segment], int]:
        ids = self.ids
        mixed = tokens[at : at + 2] == [ids.vision_start, ids.audio_start]
        sound = tokens[at] == ids.audio_start
        first = at + 1 + mixed
        stop = first
        while stop < len(tokens) and tokens[stop] in self.fill:
            stop += 1
        kinds = [self.fill[token] for token in tokens[first:stop]]
        ends = [ids.audio_end if sound else ids.vision_end]
        if mixed:
            ends = [ids.audio_end, ids.vision_end]
        if not kinds or tokens[stop : stop + len(ends)] != ends:
            raise refuse(
                "omni-block", f"row {row}, token {at}", "a block without placeholders or end"
            )
        one = set(kinds)
        allowed = [{"image"}, {"video"}]
        if mixed or sound:
            allowed = [{"video", "audio"}] if mixed else [{"audio"}]
        if one not in allowed:
            raise refuse(
                "omni-placeholder", f"row {row}, token {first}", f"{sorted(one)} in one block"
            )
        if mixed != self.in_video and "video" in one:
            got = "with its own sound" if mixed else "without sound"
            raise refuse("omni-order-flag", f"row {row}, token {at}", f"a video {got}")
        segment = Segment("mixed" if mixed else kinds[0], len(kinds))
        if mixed:
            segment.item, segment.clip = self.seen["video"], self.seen["audio"]
            segment.kinds = np.array([kind == "audio" for kind in kinds])
        else:
            segment.item = self.seen[kinds[0]]
        for kind in one:
            self.seen[kind] += 1
        block = [Segment("start", 1 + mixed), segment, Segment("end", len(ends))]
        return block, stop + len(ends)


def refuse(code: str, where: str, got: str, expected: str = "") -> RefusedPrompt:
    """The error for a prompt that is refused.

    Parameters
    ----------
    code : str
        A key of `REFUSALS`, or of `mmref.layout.REFUSALS`.
    where, got, expected : str
        As for `mmref.errors.MmrefError`; the last has a default for each code.

    Returns
    -------
    RefusedPrompt
        To be raised.
    """
    return RefusedPrompt(code, where=where, got=got, expected=expected or _EXPECTED.get(code, ""))
