"""The items of a prompt in the order in which its placeholders take them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from mmref.audio import frames, output_lengths, token_count
from mmref.audio.interleave import omni_row
from mmref.errors import RefusedMedia
from mmref.families import Family
from mmref.tokens.pieces import Item, Kind, items_of

__all__ = ["Waiting", "clips_of", "request"]

_LONGEST_STEP = 1e9  # seconds


class Waiting:
    """Items that wait for their placeholders, over the whole batch.

    Parameters
    ----------
    items : dict of str to list of Item
        The items of each kind in order.
    sounding : bool
        Whether every video takes the next clip with it.
    """

    def __init__(self, items: dict[Kind, list[Item]], sounding: bool) -> None:
        self.items, self.sounding = items, sounding
        self._used: dict[Kind, int] = dict.fromkeys(items, 0)

    def take(self, kind: Kind, where: str, *, expanded: bool) -> tuple[int, Item, int]:
        """The next item of a kind.

        Parameters
        ----------
        kind : {"image", "video", "audio"}
            The kind.
        where : str
            Where its placeholder stands, for errors.
        expanded : bool
            Whether the prompt is expanded already.

        Returns
        -------
        tuple
            Number of the item, the item, and the number of the clip that comes with it or -1.

        Raises
        ------
        RefusedMedia
            ``more-placeholders-than-items``, or ``not-an-expansion`` if it is expanded.
        """
        number = self._next(kind, where, expanded)
        item = self.items[kind][number]
        if kind != "video" or not self.sounding:
            return number, item, -1
        clip = self._next("audio", where, expanded)
        return number, replace(item, sound=self.items["audio"][clip].tokens), clip

    def _next(self, kind: Kind, where: str, expanded: bool) -> int:
        number, total = self._used[kind], len(self.items[kind])
        if number < total:
            self._used[kind] += 1
            return number
        if expanded:
            raise RefusedMedia(
                "not-an-expansion",
                where=where,
                got=f"a placeholder after the last {_NAMES[kind]}",
                expected="none",
                hint="mmref.tokens.diagnose names the likely cause",
            )
        raise RefusedMedia(
            "more-placeholders-than-items",
            where=where,
            got=f"{kind} placeholder {number}",
            expected=f"none: {total} {_NAMES[kind]}s are given",
            hint="is the prompt expanded already, or does the user's own text hold the "
            "placeholder's name? Encode user text so that it becomes ordinary tokens",
        )

    def check_all_used(self) -> None:
        """Refuse items that no placeholder has taken.

        Raises
        ------
        RefusedMedia
            ``fewer-placeholders-than-items``.
        """
        for kind, items in self.items.items():
            if self._used[kind] < len(items):
                raise RefusedMedia(
                    "fewer-placeholders-than-items",
                    where=f"{_NAMES[kind]} {self._used[kind]}",
                    got="no placeholder left for it",
                    expected=f"one for each of {len(items)} {_NAMES[kind]}s",
                    hint="was the prompt truncated?",
                )


_NAMES: dict[Kind, str] = {"image": "image", "video": "video", "audio": "clip"}


def request(
    row: Family,
    *,
    images: Any = None,
    videos: Any = None,
    image_grid_thw: Any = None,
    video_grid_thw: Any = None,
    frame_seconds: Any = None,
    second_per_grid_ts: Any = None,
    audio: Any = None,
    audio_lengths: Any = None,
    use_audio_in_video: bool = False,
) -> Waiting:
    """The items that a call describes.

    The parameters are those of `mmref.tokens.expand`.

    Returns
    -------
    Waiting
        Them all, checked.

    Raises
    ------
    RefusedMedia
        One of `mmref.tokens.REFUSALS`.
    """
    films = items_of(row, "video", videos, video_grid_thw, frame_seconds)
    if use_audio_in_video:
        omni_row(row.name)
    if second_per_grid_ts is not None or (use_audio_in_video and films):
        films = [
            replace(film, step=step)
            for film, step in zip(films, _steps(second_per_grid_ts, len(films)), strict=True)
        ]
    return Waiting(
        {
            "image": items_of(row, "image", images, image_grid_thw),
            "video": films,
            "audio": clips_of(row, audio, audio_lengths),
        },
        use_audio_in_video,
    )


def clips_of(row: Family, samples: Any, lengths: Any) -> list[Item]:
    """Clips from samples, or from frames.

    Parameters
    ----------
    row : Family
        The family.
    samples, lengths : array_like of int or None
        Samples, or frames, of each clip.

    Returns
    -------
    list of Item
        In order.

    Raises
    ------
    RefusedMedia
        ``kind-not-supported``, ``audio-and-lengths``, ``clip-without-tokens``, or one of
        `mmref.audio.REFUSALS`.
    """
    if samples is not None and lengths is not None and len(samples) and len(lengths):
        raise RefusedMedia(
            "audio-and-lengths", where="audio", got="samples and frames", expected="one of them"
        )
    given = samples if samples is not None and len(samples) else lengths
    if given is None or not len(given):
        return []
    if row.media.audio_form == "none":
        raise RefusedMedia(
            "kind-not-supported",
            where="family",
            got=f"audio for {row.name}",
            expected="a family whose clips are written into prompts",
        )
    assert row.audio is not None
    if given is lengths:
        # read also where every clip takes as much, so that a negative length is refused
        steps = given
        counts = output_lengths(given, family=row.name)
        if row.audio.fixed_tokens:
            counts = counts * 0 + row.audio.fixed_tokens
    else:
        counts = token_count(given, family=row.name)
        steps = frames(given, family=row.name) if row.audio.framing else counts * 0
    found = []
    for number, (clip, count) in enumerate(zip(steps, counts.tolist(), strict=True)):
        if count < 1:
            raise RefusedMedia(
                "clip-without-tokens",
                where=f"clip {number}",
                got=f"{int(given[number])} {'frames' if given is lengths else 'samples'}, "
                "which make no token",
                expected="enough for one",
                hint="transformers writes nothing in its place, and the clip is lost",
            )
        found.append(Item("audio", (int(clip), 1, 1), count))
    return found


def _steps(given: Sequence[float] | None, videos: int) -> list[float]:
    count = 0 if given is None else len(given)
    if given is None or count != videos:
        raise RefusedMedia(
            "seconds-length",
            where="second_per_grid_ts",
            got=f"{count} values",
            expected=f"{videos}, one for each video",
        )
    for number, step in enumerate(given):
        if not 0 <= step < _LONGEST_STEP:
            raise RefusedMedia(
                "seconds-value",
                where=f"second_per_grid_ts[{number}]",
                got=str(step),
                expected="a finite number of seconds, not negative",
            )
    return [float(step) for step in given]
