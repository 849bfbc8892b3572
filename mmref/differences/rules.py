"""The rules of each subject: what a difference may change.

A field exists only because some release differs in it. The first value of
each is the reference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["REFERENCE", "PositionRules", "TokenRules"]


@dataclass(frozen=True, slots=True)
class PositionRules:
    """How positions are computed.

    Parameters
    ----------
    find_media : {"runs", "one_item_a_run", "after_vision_start"}
        Runs of whole items; one item for each run, whatever its length, laid over
        the row in order; or one item laid over what follows each vision_start that
        a placeholder follows directly.
    frames : {"split", "joined"}
        For families whose videos are split into frames: whether they are.
    padding : {"mask", "pad_id"}
        What says that a token does not exist: the mask, or the pad id, anywhere.
    unset_ids : {"unknown", "zero"}
        What a token id is that the model's configuration does not give.
    row_start : {"zero", "one_after_first"}
        The first position of a row that holds media.
    resume : {"max", "spatial"}
        Where text resumes after an item: the largest position on any axis plus
        one, or the item's start plus its larger side.
    seconds : {"float32", "float64_product", "rounded"}
        How the time of a grid step is computed; see `mmref.kernels.mrope`.
    default_seconds : {"each_video", "each_column"}
        Whether the default of one second has an entry for each video, or one for each
        column of the token ids.
    decode : {"max", "last_column", "empty_row_is_zero"}
        The position of the next token: the row's largest plus one; its last
        column's plus one; or the largest plus one where a row without tokens
        counts as having one at 0.
    cached_decode : {"max", "cache_length"}
        The same in a bare forward with a cache: the largest plus one, or the
        padded length plus the delta.
    masked_decode : {"max", "every_column"}
        The same when the whole mask is passed: the new columns, or all of them.
    decode_mask : {"given", "ones"}
        The mask of the prompt's tokens in decode steps.
    """

    find_media: Literal["runs", "one_item_a_run", "after_vision_start"] = "runs"
    frames: Literal["split", "joined"] = "split"
    padding: Literal["mask", "pad_id"] = "mask"
    unset_ids: Literal["unknown", "zero"] = "unknown"
    row_start: Literal["zero", "one_after_first"] = "zero"
    resume: Literal["max", "spatial"] = "max"
    seconds: Literal["float32", "float64_product", "rounded"] = "float32"
    default_seconds: Literal["each_video", "each_column"] = "each_video"
    decode: Literal["max", "last_column", "empty_row_is_zero"] = "max"
    cached_decode: Literal["max", "cache_length"] = "max"
    masked_decode: Literal["max", "every_column"] = "max"
    decode_mask: Literal["given", "ones"] = "given"


REFERENCE = PositionRules()


@dataclass(frozen=True, slots=True)
class TokenRules:
    """How media become tokens.

    Parameters
    ----------
    replaces : {"placeholder", "block"}
        What an item replaces: its placeholder, or everything from the token that starts an
        image to the next one that ends one.
    rounding : {"even", "away"}
        Where half a factor goes when a side is rounded.
    small_sides : {"nothing", "factor"}
        What a side below half a factor is when the area is compared with the limits.
    enlarged : {"exact", "whole_pixels"}
        What an enlarged side is before it is rounded up to a factor.
    """

    replaces: Literal["placeholder", "block"] = "placeholder"
    rounding: Literal["even", "away"] = "even"
    small_sides: Literal["nothing", "factor"] = "nothing"
    enlarged: Literal["exact", "whole_pixels"] = "exact"
