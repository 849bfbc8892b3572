"""How many tokens media take, the prompt with them, and why the two disagree.

`count` before running anything; `expand` and `collapse` between the prompt a
person writes and the one a model sees; `diagnose` for a prompt whose
placeholders do not fit its media.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mmref import families, vision
from mmref.audio import token_count
from mmref.errors import RefusedMedia
from mmref.tokens.diagnosis import CAUSES, Cause, Diagnosis, Found, diagnose
from mmref.tokens.expansion import Expansion, collapse, expand
from mmref.tokens.pieces import Item

__all__ = [
    "CAUSES",
    "REFUSALS",
    "Cause",
    "Counts",
    "Diagnosis",
    "Expansion",
    "Found",
    "Item",
    "collapse",
    "count",
    "diagnose",
    "expand",
]

REFUSALS: dict[str, str] = {
    **vision.REFUSALS,
    "size-shape": "a size that is not (height, width) or (frames, height, width)",
    "sizes-and-grids": "sizes and grids of one kind at once",
    "grid-shape": "a grid that is not integers of shape (items, 3)",
    "grid-value": "a grid value of zero or less, or one that the merge size does not divide",
    "grid-not-used": "a grid for a family whose tokens do not follow from one",
    "seconds-length": "not one time for each frame",
    "seconds-value": "a time that is negative or not finite",
    "prompt-type": "a prompt that is neither text nor rows of token ids",
    "token-ids-missing": "a token that the family writes and whose id is not known",
    "encode-missing": "a prompt of ids, for a family that writes text, without a way to encode it",
    "encode-placeholder": "an encoder that turns ordinary text into a placeholder",
    "more-placeholders-than-items": "placeholders without media, also literal ones in user text",
    "fewer-placeholders-than-items": "media without a placeholder",
    "nested-placeholder": "a placeholder inside the markers of another medium",
    "boundary-missing": "a video outside the markers that its family needs",
    "audio-and-lengths": "samples and frames of clips at once",
    "clip-without-tokens": "a clip so short that nothing stands for it",
    "audio-in-video-not-supported": "videos with their own sound, for a family without them",
    "not-an-expansion": "an expanded prompt that is not what `expand` writes",
}
"""Every way a prompt or its media can be refused, by the error's ``code``."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Tokens of the media of a prompt.

    Parameters
    ----------
    images, videos : tuple of int
        Tokens that belong to each item: its placeholders, and row breaks where the family
        marks them as part of the image. Text between frames and boundary tokens are not
        counted: how many tokens a timestamp takes is the tokenizer's affair.
    audio : tuple of int
        Placeholders of each clip.
    """

    images: tuple[int, ...]
    videos: tuple[int, ...]
    audio: tuple[int, ...] = ()

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self.images) + sum(self.videos) + sum(self.audio)


def count(
    family: str,
    *,
    images: Sequence[tuple[int, int]] = (),
    videos: Sequence[tuple[int, int, int]] = (),
    audio: Sequence[int] = (),
) -> Counts:
    """How many tokens media take, before anything is run.

    Parameters
    ----------
    family : str
        A name of ``families.names("tokens")`` or ``families.names("audio")``, or an alias.
    images : sequence of (height, width)
        Pixels.
    videos : sequence of (frames, height, width)
        Sampled frames, and pixels.
    audio : sequence of int
        Samples of each clip at the family's own rate.

    Returns
    -------
    Counts
        For each item and in all.

    Raises
    ------
    RefusedMedia
        One of `mmref.vision.REFUSALS` or `mmref.audio.REFUSALS`; for checkpoints with
        limits of their own, see `mmref.vision.resize`.
    UnknownName
        If the family is not known.

    Examples
    --------
    >>> count("qwen2_5_vl", images=[(100, 100), (3000, 3000)])
    Counts(images=(16, 1225), videos=(), audio=())
    >>> count("gemma3", images=[(480, 640)]).total
    256
    >>> count("gemma4", audio=[16_001]).total
    25
    """
    families.get(family)
    return Counts(
        tuple([vision.resize(height, width, family=family).tokens for height, width in images]),
        tuple(
            [
                vision.resize(height, width, family=family, frames=frames).tokens
                for frames, height, width in videos
            ]
        ),
        _clips(family, audio) if len(audio) else (),
    )


def _clips(family: str, samples: Sequence[int]) -> tuple[int, ...]:
    row = families.get(family)
    if row.audio is None or not row.audio.in_prompt:
        raise RefusedMedia(
            "kind-not-supported",
            where="family",
            got=f"audio for {row.name}",
            expected="a family that has it in its prompts",
            hint="its encoder hands audio on without placeholders" if row.audio else "",
        )
    return tuple(token_count(samples, family=family).tolist())
