"""3-D rotary positions of prompts that hold audio beside images and videos: the Omni families.

A prompt is text and blocks. A block is a start token, placeholders, an end token: of an image,
a video or a clip; or of a video with its own sound, where vision_start and audio_start stand
before the mixed placeholders, and audio_end and vision_end behind them. Every placeholder
takes the position of its own place in its item, whatever order the two kinds stand in.

`mmref.mrope.position_ids` is the door.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mmref import differences
from mmref.arrays import integer_matrix, mask_matrix, to_numpy
from mmref.audio import output_lengths
from mmref.audio.interleave import chunks, merged
from mmref.differences.rules import OmniRules
from mmref.errors import EngineRefusal, RefusedPrompt, UnknownName
from mmref.families.row import Family, TokenIds
from mmref.positions import Positions
from mmref.prompt import read_grid, read_seconds

__all__ = [
    "REFUSALS",
    "OmniPositions",
    "OmniPrompt",
    "Segment",
    "position_ids",
    "positions",
    "read",
]

Array = npt.NDArray[Any]

REFUSALS: dict[str, str] = {
    "omni-block": "a block without its start or end token, or one that holds nothing of its kind",
    "omni-placeholder": "a placeholder outside a block, or of another kind than its block",
    "omni-count": "a block with another number of placeholders than its item makes",
    "omni-items": "more blocks of a kind than items, or fewer",
    "omni-order-flag": "a video with its own sound, or one without, against use_audio_in_video",
    "omni-audio-lengths": "lengths of audio that are none, or of which one makes no token",
    "omni-seconds": "videos without their seconds",
    "omni-audio-not-used": "audio lengths for a family that counts no audio",
    "omni-not-supported": "what the positions of these families do not do: extend, rewind, rows",
    "omni-grid": "a grid value below one, not divided by the merge size, or an image with frames",
}
"""Ways in which such a prompt is refused, beside those of `mmref.layout.REFUSALS`."""


class OmniPositions(Positions):
    """Positions of a prompt with audio.

    ``position_ids`` is int64, or float32 where the family's positions are fractions of a
    second (qwen3_omni_moe), and so are ``deltas``. Later turns, rewinding and other rows are
    not described for these families.
    """

    __slots__ = ()

    def __init__(self, positions: Array, largest: Array, counts: Array, deltas: Array) -> None:
        self.position_ids = positions
        self.deltas = deltas
        self.first_slot = 0
        self.next_slot = positions.shape[2]
        self._largest = largest
        self._unmasked = counts
        self._mask = None
        self._rules = None
        self._before = None

    def next_positions(self, count: int) -> Array:
        """Positions of generated tokens: one more than the row's largest, and so on.

        Parameters
        ----------
        count : int
            How many tokens follow in each row.

        Returns
        -------
        numpy.ndarray
            Shape (3, batch, count), of the dtype of ``position_ids``.
        """
        return super().next_positions(count).astype(self.position_ids.dtype)

    @property
    def layout(self) -> Any:
        """Not described for these families."""
        raise _refuse("omni-not-supported", "layout", "not described for families with audio")

    def extend(self, *arguments: Any, **named: Any) -> Positions:
        """Not described for these families; see `mmref.mrope.position_ids`."""
        raise _refuse("omni-not-supported", "extend", "not described for families with audio")

    def rewind(self, slots: int) -> Positions:
        """Not described for these families.

        Parameters
        ----------
        slots : int
            Not used.
        """
        raise _refuse("omni-not-supported", "rewind", "not described for families with audio")

    def take_rows(self, rows: Any) -> Positions:
        """Not described for these families.

        Parameters
        ----------
        rows : array_like of int
            Not used.
        """
        raise _refuse("omni-not-supported", "take_rows", "not described for families with audio")


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
            raise _refuse("mask-value", "attention_mask", "values other than 0 and 1")
        keep = mask != 0
    merge = (
        row.spatial_merge_size if spatial_merge_size is None else operator.index(spatial_merge_size)
    )
    rate = (
        float(row.tokens_per_second or 0.0)
        if tokens_per_second is None
        else float(tokens_per_second)
    )
    images, videos = (
        read_grid(image_grid_thw, "image_grid_thw"),
        read_grid(video_grid_thw, "video_grid_thw"),
    )
    for name, grid in (("image_grid_thw", images), ("video_grid_thw", videos)):
        _check_grid(name, grid, merge)
    if len(videos) and second_per_grid_ts is None:
        raise _refuse("omni-seconds", "second_per_grid_ts", f"none for {len(videos)} videos")
    seconds = (
        np.empty(0, np.float32)
        if second_per_grid_ts is None
        else read_seconds(second_per_grid_ts, len(videos)).astype(np.float32)
    )
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
    )
    _check_counts(prompt, scanner)
    return prompt


def _audio_tokens(audio_lengths: Any, row: Family) -> Array:
    if audio_lengths is None:
        return np.empty(0, np.int64)
    lengths = to_numpy(audio_lengths, "audio_lengths")
    if lengths.size and (lengths.ndim != 1 or lengths.dtype.kind not in "iu" or lengths.min() < 0):
        raise _refuse("omni-audio-lengths", "audio_lengths", str(lengths.tolist())[:80])
    found = output_lengths(lengths.astype(np.int64), family=row.name)
    if (found == 0).any():
        clip = int((found == 0).argmax())
        raise _refuse(
            "omni-audio-lengths",
            f"audio_lengths[{clip}]",
            f"{lengths[clip]} frames, which make no token",
        )
    return found


def _check_grid(name: str, grid: Array, merge: int) -> None:
    if merge < 1:
        raise _refuse("merge-not-positive", "spatial_merge_size", str(merge))
    for number, (t, h, w) in enumerate(grid.tolist()):
        bad = min(t, h, w) < 1 or h % merge or w % merge or max(t, h, w) > 2**20
        if bad or (name.startswith("image") and t != 1):
            raise _refuse("omni-grid", f"{name}[{number}]", f"({t}, {h}, {w}) with merge {merge}")


def _check_counts(prompt: OmniPrompt, scanner: _Scanner) -> None:
    for kind, items in (
        ("image", len(prompt.image_grid)),
        ("video", len(prompt.video_grid)),
        ("audio", len(prompt.audio_tokens)),
    ):
        if scanner.seen[kind] != items:
            raise _refuse(
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
                raise _refuse(
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
            raise _refuse(
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
                raise _refuse(
                    "omni-placeholder",
                    f"row {row}, token {at}",
                    f"{self.fill[token]} outside a block",
                )
            if token in self.special:
                raise _refuse(
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
        ends = (
            [ids.audio_end, ids.vision_end]
            if mixed
            else [ids.audio_end if sound else ids.vision_end]
        )
        if not kinds or tokens[stop : stop + len(ends)] != ends:
            raise _refuse(
                "omni-block", f"row {row}, token {at}", "a block without placeholders or end"
            )
        one = set(kinds)
        right = (
            one == {"video", "audio"}
            if mixed
            else one == {"audio"}
            if sound
            else one in ({"image"}, {"video"})
        )
        if not right:
            raise _refuse(
                "omni-placeholder", f"row {row}, token {first}", f"{sorted(one)} in one block"
            )
        if mixed != self.in_video and "video" in one:
            got = "with its own sound" if mixed else "without sound"
            raise _refuse("omni-order-flag", f"row {row}, token {at}", f"a video {got}")
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


def positions(prompt: OmniPrompt, rules: OmniRules) -> OmniPositions:
    """Positions of a prompt that is checked.

    Parameters
    ----------
    prompt : OmniPrompt
        From `read`.
    rules : OmniRules
        The reference's, or a release's.

    Returns
    -------
    OmniPositions
        The positions.
    """
    dtype = _dtype(prompt)
    # without any grid the engine only counts, also where it else leaves 0 at masked places
    counted = not prompt.media
    pad = int(rules.padding == "one" and (counted or dtype == np.int64))
    out = np.full((3, *prompt.shape), pad, dtype)
    largest = np.full(len(prompt.rows), -1, dtype)
    for row, segments in enumerate(prompt.rows):
        start, pieces = dtype(0), []
        for segment in segments:
            placed, start = _place(prompt, segment, start, rules)
            pieces.append(placed)
        if pieces:
            found = np.concatenate(pieces, axis=1)
            out[:, row, prompt.keep[row]] = found
            largest[row] = found.max()
    counts = np.array([sum(part.tokens for part in parts) for parts in prompt.rows], np.int64)
    base = largest
    if rules.deltas == "over_padding" and counted:
        base = np.where(prompt.keep.all(axis=1), largest, np.maximum(largest, dtype(pad)))
    deltas = (base + dtype(1) - counts.astype(dtype)).astype(dtype)
    return OmniPositions(out, largest, counts, deltas)


def _place(prompt: OmniPrompt, segment: Segment, start: Any, rules: OmniRules) -> tuple[Array, Any]:
    """Positions of a segment that begins at ``start``, and where the next one begins."""
    dtype = _dtype(prompt)
    if segment.kind == "mixed":
        return _place_mixed(prompt, segment, start, rules)
    if segment.kind in ("image", "video"):
        found = _item(prompt, segment) + start
    elif segment.tokens == 2 and segment.kind != "text" and prompt.row.audio_in_video == "chunks":
        if segment.kind in ("start", "end"):  # both starts share a position, and both ends
            return np.full((3, 2), start), start + dtype(1)
        found = _count(2, start, dtype)
    else:
        found = _count(segment.tokens, start, dtype)
    if segment.kind in ("text", "start"):
        return found, start + dtype(segment.tokens)
    return found, found.max() + dtype(1)


def _place_mixed(
    prompt: OmniPrompt, segment: Segment, start: Any, rules: OmniRules
) -> tuple[Array, Any]:
    """A video with its own sound: each token at the place of its own kind."""
    dtype, row = _dtype(prompt), prompt.row
    order = segment.kinds
    assert order is not None
    video = _item(prompt, segment) + start
    sound = _count(int(order.sum()), start, dtype)
    if rules.order == "recomputed":
        # the model compares times that already stand behind what came before
        shift = start if dtype is np.int64 else dtype(0)
        order = merged(row, video[0] - shift, sound[0] - shift)
    both = np.empty((3, segment.tokens), dtype)
    both[:, order], both[:, ~order] = sound, video
    last = both
    if rules.resume == "last_piece":
        if row.audio_in_video == "merge":
            other = np.flatnonzero(order != order[-1])
            last = both[:, int(other[-1]) + 1 if len(other) else 0 :]
        else:
            of_video, of_sound = chunks(row, video[0] - start), chunks(row, sound[0] - start)
            last = sound[:, of_sound == of_sound[-1]]
            if of_video[-1] > of_sound[-1]:
                last = video[:, of_video == of_video[-1]]
    return both, last.max() + dtype(1)


def _dtype(prompt: OmniPrompt) -> Any:
    """Fractions of a position where the family keeps them."""
    return np.float32 if prompt.row.audio_in_video == "merge" else np.int64


def _count(tokens: int, start: Any, dtype: Any) -> Array:
    return np.repeat((np.arange(tokens).astype(dtype) + start)[None], 3, axis=0)


def _item(prompt: OmniPrompt, segment: Segment) -> Array:
    """(t, h, w) of every token of an image or a video from its start, t-major."""
    dtype = _dtype(prompt)
    grid = prompt.image_grid if segment.kind == "image" else prompt.video_grid
    t, h, w = (grid[segment.item] // (1, prompt.merge, prompt.merge)).tolist()
    times = np.zeros(1, np.float32)
    if segment.kind != "image":
        step = np.arange(t).astype(np.float32) * prompt.seconds[segment.item]
        times = step * np.float32(prompt.rate)
    time = np.repeat(times.astype(dtype), h * w)
    y = np.tile(np.repeat(np.arange(h), w), len(times)).astype(dtype)
    x = np.tile(np.arange(w), len(times) * h).astype(dtype)
    return np.stack([time, y, x])


def position_ids(input_ids: Any, *, row: Family, rules: str, **arguments: Any) -> OmniPositions:
    """What `mmref.mrope.position_ids` answers for a family with audio.

    Parameters
    ----------
    input_ids : array_like of int
        Token ids.
    row : Family
        A row of ``families.names("omni")``.
    rules : str
        ``"reference"`` or the name of a release that is described.
    **arguments : object
        As for `read`.

    Returns
    -------
    OmniPositions
        The positions.

    Raises
    ------
    RefusedPrompt
        As `read`.
    EngineRefusal
        If the release refuses what the reference accepts.
    UnknownName
        If the rules are not known.
    """
    prompt = read(input_ids, row=row, **arguments)
    if rules == "reference":
        return positions(prompt, OmniRules())
    described = differences.described("omni")
    if rules not in described:
        raise UnknownName("rules", rules, ["reference", *described])
    chosen = described[rules]
    refused = chosen.refuses("omni", prompt)
    if refused is not None:
        raise EngineRefusal(
            refused.id,
            where=rules,
            got="this release refuses a prompt that the reference accepts",
            hint=refused.meaning,
        )
    return positions(prompt, replace(OmniRules(), **chosen.changes("omni")))


def _refuse(code: str, where: str, got: str, expected: str = "") -> RefusedPrompt:
    return RefusedPrompt(code, where=where, got=got, expected=expected or REFUSALS.get(code, ""))
