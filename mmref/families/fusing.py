"""The columns of a family row that say how features are merged into embeddings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

__all__ = ["Fusing"]

Kind = Literal["image", "video", "audio"]


@dataclass(frozen=True, slots=True)
class Fusing:
    """How features of a family reach its embeddings; `mmref.fusion` has the functions.

    Parameters
    ----------
    kinds : tuple of {"image", "video", "audio"}
        What is merged, in the order of the passes; empty for a family without a merge.
    shared_id : bool
        Whether images and videos stand for themselves by one placeholder id, so that markers
        around a video must tell them apart.
    lookup : {"own", "zero_beyond_table", "pad", "hard"}
        Which row of the table a placeholder has before it is replaced: its own; row 0 where
        its id lies beyond the table; the pad id's; or that of a second, "hard" vocabulary.
    copies : bool
        Whether images and audio are put into two copies, joined by multiplication with masks.
    deepstack : bool
        Whether rows are also added to the hidden states after the first layers.
    per_layer : bool
        Whether every layer has a table of its own, read by ids without placeholders.
    image_blocks : bool
        Whether the tokens of an image see each other in both directions.
    audio_rows : int or None
        Rows that every clip is padded to; None: as many as it has.
    counted : {"elements", "rows", "nothing"}
        What transformers compares: elements of features and places, rows, or nothing.
    model : str
        transformers' class, as ``module:Class`` below ``transformers.models``.
    """

    kinds: tuple[Kind, ...] = ()
    shared_id: bool = False
    lookup: Literal["own", "zero_beyond_table", "pad", "hard"] = "own"
    copies: bool = False
    deepstack: bool = False
    per_layer: bool = False
    image_blocks: bool = False
    audio_rows: int | None = None
    counted: Literal["elements", "rows", "nothing"] = "elements"
    model: str = ""


def of_model(group: Fusing, name: str, class_name: str) -> Fusing:
    """A group's columns for one model class.

    Parameters
    ----------
    group : Fusing
        One of the groups below.
    name : str
        The family's module of transformers.
    class_name : str
        The class that merges.

    Returns
    -------
    Fusing
        With ``model`` set.
    """
    return replace(group, model=f"{name}.modeling_{name}:{class_name}")


# the groups, as transformers 5.24's modeling files merge
NONE = Fusing()
ONE_KIND = Fusing(("image",))
IMAGE_THEN_VIDEO = Fusing(("image", "video"))
SHARED_ID = Fusing(("image", "video"), shared_id=True)
DEEPSTACK = Fusing(("image", "video"), deepstack=True)
GEMMA3 = Fusing(("image",), lookup="zero_beyond_table", image_blocks=True)
GEMMA3N = Fusing(("image", "audio"), lookup="hard", per_layer=True, audio_rows=188)
GEMMA4 = Fusing(("image", "video", "audio"), lookup="pad", per_layer=True)
TWO_COPIES = Fusing(("image", "audio"), copies=True, counted="nothing")
AUDIO = Fusing(("audio",), counted="rows")
