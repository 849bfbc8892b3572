"""The columns of a family row."""

from __future__ import annotations

import operator
from dataclasses import dataclass, field, fields
from typing import Literal

from mmref.errors import RefusedPrompt
from mmref.families.audio import Audio
from mmref.families.fusing import Fusing
from mmref.families.media import Media

__all__ = ["Family", "TokenIds"]


@dataclass(frozen=True, slots=True)
class TokenIds:
    """The token ids that position and fusion logic looks at.

    Parameters
    ----------
    image, video : int or None
        Placeholders of images and videos.
    vision_start, vision_end : int or None
        Boundary tokens around a block of placeholders. Not needed for
        positions by the reference; some engines look for them.
    video_start, video_end : int or None
        Markers around a whole video, for families whose video frames use the
        image placeholder (the GLM-4V line).
    audio, audio_start, audio_end : int or None
        Placeholder of audio, and the tokens around a block of it.
    row_break : int or None
        End of a row of an image, for families that mark it (Pixtral).
    audio : int or None
        Placeholder of audio.
    pad, eos : int or None
        Padding and end-of-sequence ids. The reference goes by the mask; some
        engines recognise padding by id.

    Raises
    ------
    RefusedPrompt
        ``token-ids-type``: an id that is not an integer, or does not fit int64.
    """

    image: int | None = None
    video: int | None = None
    vision_start: int | None = None
    vision_end: int | None = None
    video_start: int | None = None
    video_end: int | None = None
    pad: int | None = None
    eos: int | None = None
    row_break: int | None = None
    audio: int | None = None
    audio_start: int | None = None
    audio_end: int | None = None

    def __post_init__(self) -> None:
        for column in fields(self):
            value = getattr(self, column.name)
            if value is None:
                continue
            try:
                number = operator.index(value)
            except TypeError:
                number = None
            if number is None or isinstance(value, bool) or not -(2**63) < number < 2**63:
                raise RefusedPrompt(
                    "token-ids-type",
                    where=f"token_ids.{column.name}",
                    got=repr(value),
                    expected="an integer that fits int64, or None",
                )
            object.__setattr__(self, column.name, number)

    def as_dict(self) -> dict[str, int]:
        """The ids that are set, by name.

        Returns
        -------
        dict of str to int
            Field name to id.
        """
        values = ((column.name, getattr(self, column.name)) for column in fields(self))
        return {name: value for name, value in values if value is not None}


@dataclass(frozen=True, slots=True)
class Family:
    """What distinguishes one model family from another, by the names of rules.

    Parameters
    ----------
    name : str
        transformers' ``model_type``.
    media_kinds : {"by_id", "by_video_markers"}
        How image and video placeholders are told apart: each kind has its own
        id, or both share the image id and a video stands between markers.
    video_frames : {"whole", "split"}
        Whether a row (t, h, w) of the video grid is one item, or t items
        (1, h, w) that may stand apart, between timestamps.
    time : {"index", "seconds"}
        What the time axis of a video counts: grid steps, or
        ``tokens_per_second`` times seconds.
    spatial_merge_size : int
        Patches merged into one token, along height and along width.
    tokens_per_second : float or None
        Positions per second of video, for ``time="seconds"``.
    token_ids : TokenIds
        The ids of the released checkpoints.
    transformers_class : str
        The class in ``transformers.models.<name>`` whose ``get_rope_index``
        computes the positions.
    genai_type : str or None
        ONNX Runtime GenAI's ``model.type``, if it has one with 3-D positions.
    source : str
        Where the row was read.
    media : Media
        How its media are resized and expanded to placeholders.
    positions : {"3d", "1d", "omni", "none"}
        Whether tokens have (t, h, w) positions or one number; the columns above that
        are about 3-D positions mean nothing for ``"1d"``. ``"omni"``: 3-D positions with
        audio, see `mmref.omni`.
    fusing : Fusing
        How features are merged into its embeddings.
    transformers_since : str
        The first described release of transformers that has the family.
    audio : Audio or None
        How its audio encoder shortens time, if it has one.
    audio_in_video : {"none", "chunks", "merge"}
        How a video and its sound take turns: not at all; by chunks of two seconds; by time.
    """

    name: str
    media_kinds: Literal["by_id", "by_video_markers"]
    video_frames: Literal["whole", "split"]
    time: Literal["index", "seconds"]
    spatial_merge_size: int
    tokens_per_second: float | None
    token_ids: TokenIds
    transformers_class: str
    genai_type: str | None
    source: str
    media: Media = field(default_factory=Media)
    positions: Literal["3d", "1d", "omni", "none"] = "3d"
    fusing: Fusing = field(default_factory=Fusing)
    transformers_since: str = "4.49"
    audio: Audio | None = None
    audio_in_video: Literal["none", "chunks", "merge"] = "none"
