"""The columns of a family row that say how media become tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Media", "Resize", "Sampling"]

Rule = Literal[
    "area",
    "area_lifted",
    "area_frames",
    "fixed",
    "longest_edge",
    "patch_budget",
    "tiles",
    "canvas",
    "best_fit",
]


@dataclass(frozen=True, slots=True)
class Resize:
    """How a picture, or every frame of a video, is resized; `mmref.vision.resize` follows it.

    Parameters
    ----------
    rule : str
        A rule of `mmref.vision.RULES`.
    patch_size : int
        Side of a patch, in pixels.
    merge_size : int
        Patches merged into one token, along each side.
    temporal_patch_size : int
        Frames of one grid step; an image fills one step.
    min_pixels, max_pixels : int
        Limits of the area; over all frames for ``area_frames``. For ``longest_edge`` the
        maximum is that of a side; ``fixed``, ``tiles``, ``canvas`` and ``best_fit`` give the
        side (of a tile) as both.
    max_tokens : int
        The budget of ``patch_budget``, the tiles of ``tiles`` and ``canvas``, the tokens of
        ``fixed``.
    rounding : {"even", "away", "down", "up"}
        Where half a factor goes, or every part of one. The processors of transformers use
        Python's ``round``; ports often do not.
    lifted : bool
        Whether a side that rounds to nothing counts as one factor when the area is compared
        with the limits. No processor of transformers does; a port does.
    whole_pixels : bool
        Whether an enlarged side is cut to whole pixels before it is rounded up to a factor;
        again a port's way.
    tilings : tuple of (int, int)
        Arrangements of tiles for ``best_fit``, (across, down), in the order they are tried.
    """

    rule: Rule
    patch_size: int
    merge_size: int = 2
    temporal_patch_size: int = 2
    min_pixels: int = 0
    max_pixels: int = 0
    max_tokens: int = 0
    rounding: Literal["even", "away", "down", "up"] = "even"
    lifted: bool = False
    whole_pixels: bool = False
    tilings: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Sampling:
    """Which frames of a video a processor takes; `mmref.frames.sample` follows it.

    Parameters
    ----------
    rule : {"by_step", "spread", "by_seconds", "by_length"}
        Every so many frames from the first on; from the first to the last; at whole parts of
        a second; or so many a second, the fewer the longer the video is.
    frames_per_second : float or None
        How many are taken by default; None: all of them.
    min_frames, max_frames : int
        Limits; 0: none.
    max_seconds : int
        Videos that last longer are spread over; 0: no limit.
    """

    rule: Literal["by_step", "spread", "by_seconds", "by_length"]
    frames_per_second: float | None = None
    min_frames: int = 0
    max_frames: int = 0
    max_seconds: int = 0


@dataclass(frozen=True, slots=True)
class Media:
    """How media of a family become placeholders; `mmref.tokens` follows it.

    Parameters
    ----------
    image_resize, video_resize : Resize or None
        None for a kind that the family does not have.
    image_form : {"run", "rows", "wrapped", "enclosed", "paragraph", "none"}
        What replaces the placeholder of an image: a run of placeholders; rows that end
        in a break; a run between boundary tokens; the same, where those are marked as part of
        the image; between blank lines too; nothing.
    video_form : {"run", "seconds_first", "seconds_last", "clock", "none"}
        What replaces the placeholder of a video: a run; for each frame its time and a run
        between boundary tokens, or the run and then its time; minutes and seconds before it.
    audio_form : {"run", "wrapped", "paragraph", "none"}
        What replaces the placeholder of a clip, as for images.
    seconds_format : str
        Format of a frame's time in seconds.
    texts : tuple of (str, str)
        Name of a token id to its text, for the names that the forms use.
    boundary : {"prompt", "expansion", "none"}
        Who writes the tokens around an image or a clip: whoever writes the prompt, the
        expansion, or nobody because the family has none.
    processor : str
        transformers' processor, as ``module:Class`` below ``transformers.models``.
    sampling : Sampling or None
        Which frames of a video are taken, for families whose processor chooses.
    """

    image_resize: Resize | None = None
    video_resize: Resize | None = None
    image_form: Literal["run", "rows", "wrapped", "enclosed", "paragraph", "none"] = "none"
    video_form: Literal["run", "seconds_first", "seconds_last", "clock", "none"] = "none"
    audio_form: Literal["run", "wrapped", "paragraph", "none"] = "none"
    seconds_format: str = ""
    texts: tuple[tuple[str, str], ...] = ()
    boundary: Literal["prompt", "expansion", "none"] = "none"
    processor: str = ""
    sampling: Sampling | None = None

    @property
    def placeholders(self) -> bool:
        """Whether prompts of the family hold placeholders that are described."""
        return (self.image_form, self.audio_form) != ("none", "none")

    def text(self, name: str) -> str:
        """The text of a token.

        Parameters
        ----------
        name : str
            A field of `mmref.families.TokenIds`.

        Returns
        -------
        str
            Its text in the prompt.
        """
        return dict(self.texts)[name]
