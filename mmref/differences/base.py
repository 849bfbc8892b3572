"""What a named difference is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from mmref.case import Array, Case, Scalar, Step

__all__ = [
    "Difference",
    "Refuses",
    "append",
    "audio_case",
    "fusion_case",
    "small_case",
    "token_case",
    "version_key",
]

# (prompt, spans, scalars) -> whether the engine refuses; prompt is a mmref.layout.Prompt
Refuses = Callable[[Any, Any, Mapping[str, Scalar]], bool]
Kind = Literal["changes-answer", "refuses-accepted", "answers-refused", "crashes-on-refused"]


@dataclass(frozen=True, slots=True, eq=False)
class Difference:
    """One way in which releases of an engine part from the reference.

    Exactly one of ``sets``, ``refuses`` and ``on_refused`` is given.

    Parameters
    ----------
    id : str
        Stable kebab-case name.
    engine : str
        The engine's name on PyPI.
    since : str
        First release that has it, as far as is known.
    before : str or None
        First later release without it; None while the newest has it.
    meaning : str
        One sentence: what the engine does.
    consequence : str
        What it does to a user.
    source : str
        How it is known: a file of the engine, an issue, an experiment.
    case : Case
        The smallest prompt that shows it.
    sets : mapping of str to str
        Fields of the subject's rules (`PositionRules`, `TokenRules`, `FusionRules`) and their
        values: the engine answers differently.
    refuses : callable or None
        Says of a prompt that the reference accepts whether the engine refuses it.
    on_refused : frozenset of str
        Codes of `mmref.layout.REFUSALS`: prompts the reference refuses and the
        engine does not.
    then : {"answer", "crash"}
        What the engine does with those.
    subject : str
        What it is about.
    families : frozenset of str
        Names of the families that it is about, where another part of the engine serves the
        others; empty: whichever the change reaches.
    """

    id: str
    engine: str
    since: str
    meaning: str
    consequence: str
    source: str
    case: Case
    before: str | None = None
    sets: Mapping[str, str] = field(default_factory=dict)
    refuses: Refuses | None = None
    on_refused: frozenset[str] = frozenset()
    then: Literal["answer", "crash"] = "answer"
    subject: str = "positions"
    families: frozenset[str] = frozenset()

    @property
    def kind(self) -> Kind:
        """How the engine parts from the reference."""
        if self.sets:
            return "changes-answer"
        if self.refuses is not None:
            return "refuses-accepted"
        return "answers-refused" if self.then == "answer" else "crashes-on-refused"

    def is_about(self, family: str) -> bool:
        """Whether a family is served by the part of the engine that it is about.

        Parameters
        ----------
        family : str
            A family's name, or an alias.

        Returns
        -------
        bool
            Also True where no families are given.
        """
        return not self.families or family in self.families

    def holds_for(self, version: str) -> bool:
        """Whether a release has it.

        Parameters
        ----------
        version : str
            A release of the engine.

        Returns
        -------
        bool
            True if ``since <= version < before``.
        """
        key = version_key(version)
        if key < version_key(self.since):
            return False
        return self.before is None or key < version_key(self.before)


def small_case(
    ids: list[list[int]],
    family: str = "qwen2_5_vl",
    *,
    images: list[list[int]] | None = None,
    videos: list[list[int]] | None = None,
    mask: list[list[int]] | None = None,
    seconds: Array | None = None,
    token_ids: Mapping[str, int] | None = None,
    steps: tuple[Step, ...] = (),
    **scalars: Scalar,
) -> Case:
    """A case as one writes it by hand, with the small token ids of the generated ones.

    Parameters
    ----------
    ids : list of list of int
        Rows of tokens: 10 image, 11 video, 12 vision_start, 13 vision_end, 0 pad,
        2 eos, from 20 on text.
    family : str
        A family name.
    images, videos : list of list of int, optional
        Grids.
    mask : list of list of int, optional
        0 and 1.
    seconds : numpy.ndarray, optional
        float64 stands for a Python list.
    token_ids : mapping of str to int, optional
        Ids to change.
    steps : tuple of Step
        What follows.
    **scalars : int, float, str or list of str
        Scalars of the case.

    Returns
    -------
    Case
        The case.
    """
    arrays: dict[str, Array] = {"input_ids": np.array(ids, np.int64)}
    if mask is not None:
        arrays["attention_mask"] = np.array(mask, np.int64)
    if images is not None:
        arrays["image_grid_thw"] = np.array(images, np.int64)
    if videos is not None:
        arrays["video_grid_thw"] = np.array(videos, np.int64)
    if seconds is not None:
        arrays["second_per_grid_ts"] = seconds
    return Case(family, arrays, scalars, {**_SMALL_IDS, **(token_ids or {})}, steps=steps)


def append(
    ids: list[list[int]],
    *,
    images: list[list[int]] | None = None,
    videos: list[list[int]] | None = None,
) -> Step:
    """A step that appends, as one writes it by hand.

    Parameters
    ----------
    ids : list of list of int
        The new tokens.
    images, videos : list of list of int, optional
        Grids of the new items.

    Returns
    -------
    Step
        The step.
    """
    return Step("append", 0, small_case(ids, images=images, videos=videos).arrays)


def token_case(
    text: str,
    family: str = "qwen2_5_vl",
    *,
    images: list[list[int]] | None = None,
    videos: list[list[int]] | None = None,
    audio: list[int] | None = None,
    **scalars: Scalar,
) -> Case:
    """A case of tokens as one writes it by hand.

    Parameters
    ----------
    text : str
        The prompt, with the family's own placeholders.
    family : str
        A family name.
    images, videos : list of list of int, optional
        Sizes: (height, width), (frames, height, width).
    audio : list of int, optional
        Samples of each clip.
    **scalars : int, float, str or list of str
        Scalars of the case.

    Returns
    -------
    Case
        The case.
    """
    arrays: dict[str, Array] = {}
    if images is not None:
        arrays["image_sizes"] = np.array(images, np.int64)
    if videos is not None:
        arrays["video_sizes"] = np.array(videos, np.int64)
    if audio is not None:
        arrays["audio_sizes"] = np.array(audio, np.int64).reshape(-1, 1)
    return Case(family, arrays, {"texts": [text], **scalars}, subject="tokens")


def fusion_case(
    ids: list[list[int]],
    family: str = "qwen2_5_vl",
    **scalars: Scalar,
) -> Case:
    """A case of fusion as one writes it by hand.

    Parameters
    ----------
    ids : list of list of int
        Rows of tokens: 10 image, 11 video, 16 audio, 14 and 15 around a video of the GLM-4V
        line, from 20 to 31 text.
    family : str
        A family name.
    **scalars : int, float, str or list of str
        Scalars of the case.

    Returns
    -------
    Case
        The case.
    """
    arrays: dict[str, Array] = {"input_ids": np.array(ids, np.int64)}
    return Case(family, arrays, scalars, subject="fusion")


def audio_case(
    family: str,
    *,
    lengths: list[int] | None = None,
    mask: list[list[int]] | None = None,
    samples: list[int] | None = None,
) -> Case:
    """A case of audio as one writes it by hand; one of the three is given.

    Parameters
    ----------
    family : str
        A family name.
    lengths : list of int, optional
        Frames of clips (samples, for families that read the waveform).
    mask : list of list of int, optional
        0 and 1, True for valid.
    samples : list of int, optional
        Samples of clips.

    Returns
    -------
    Case
        The case.
    """
    given = {"lengths": lengths, "mask": mask, "samples": samples}
    arrays = {name: np.array(value, np.int64) for name, value in given.items() if value is not None}
    return Case(family, arrays, subject="audio")


_SMALL_IDS = {"image": 10, "video": 11, "vision_start": 12, "vision_end": 13, "pad": 0, "eos": 2}


def version_key(version: str) -> tuple[int, ...]:
    """A release number as a tuple that compares in order.

    Parameters
    ----------
    version : str
        Like ``"5.24.0"``; what follows the numbers (``rc1``, ``.dev0``) is dropped.

    Returns
    -------
    tuple of int
        Without trailing zeros, so that 5.24 equals 5.24.0.
    """
    numbers: list[int] = []
    for part in version.split("+", maxsplit=1)[0].split("."):
        digits = part
        while digits and not digits.isdigit():
            digits = digits[:-1]
        if not digits:
            break
        numbers.append(int(digits))
        if digits != part:
            break
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)
