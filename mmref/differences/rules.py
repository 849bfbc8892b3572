"""The rules of each subject: what a difference may change.

A field exists only because some release differs in it. The first value of
each is the reference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = [
    "REFERENCE",
    "AudioRules",
    "FusionRules",
    "OmniRules",
    "PositionRules",
    "RopeRules",
    "TokenRules",
]


@dataclass(frozen=True, slots=True)
class PositionRules:
    """How positions are computed.

    Parameters
    ----------
    find_media : {"runs", "one_item_a_run", "after_vision_start", "as_many_as_starts"}
        Runs of whole items; one item for each run, whatever its length, laid over
        the row in order; one item laid over what follows each vision_start that
        a placeholder follows directly; or as many items as there are such vision_starts,
        each laid over what follows the next placeholder, while families with video
        markers take one item for each run.
    frames : {"split", "joined", "split_if_marked"}
        For families whose videos are split into frames: whether they are, or only
        in families with video markers.
    padding : {"mask", "pad_id"}
        What says that a token does not exist: the mask, or the pad id, anywhere.
    unset_ids : {"unknown", "zero"}
        What a token id is that the model's configuration does not give.
    row_start : {"zero", "one_after_first"}
        The first position of a row that holds media.
    resume : {"max", "spatial"}
        Where text resumes after an item: the largest position on any axis plus
        one, or the item's start plus its larger side.
    seconds : {"float32", "float64_product", "float64", "rounded", "whole", "before_rate"}
        How the time of a grid step is computed; see `mmref.kernels.mrope`.
    default_seconds : {"each_video", "each_column"}
        Whether the default of one second has an entry for each video, or one for each
        column of the token ids.
    seconds_for : {"videos", "all_media"}
        Whether images, too, use up an entry of the seconds.
    grid_steps : {"apart", "collapsed"}
        Whether the grid steps of an item have times of their own, or all have the item's
        start times the interval, with the heights of all steps in one block.
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
    padding_holds : {"zero", "one", "one_if_marked"}
        The position of masked places: in all families, or in those with video markers.
    delta : {"unmasked", "padded", "padded_not_negative"}
        What is taken from the largest position plus one: the row's unmasked tokens, or
        its padded length; and whether families that count grid steps of whole videos cut
        the result off at zero.
    text_only : {"like_others", "by_the_mask"}
        Whether a prompt without grids counts its padding's position among the largest.
    later_media : {"placed", "as_text"}
        What media of a later turn are.
    after_rewind : {"recounted", "same_delta"}
        The position that follows a rewind: as if the kept tokens were all there ever was, or
        their number plus the delta of the prompt.
    rewound_cache : {"cut", "kept"}
        What a rewind leaves in the cache: the tokens that are kept, or all.
    generate_after_rewind : {"continues", "repeats_last"}
        Whether the last token that a rewind keeps goes in once more when tokens are generated.
    last_generated : {"cached", "lost"}
        Whether the last generated token is in the cache when others are appended.
    """

    find_media: Literal["runs", "one_item_a_run", "after_vision_start", "as_many_as_starts"] = (
        "runs"
    )
    frames: Literal["split", "joined", "split_if_marked"] = "split"
    padding: Literal["mask", "pad_id"] = "mask"
    unset_ids: Literal["unknown", "zero"] = "unknown"
    row_start: Literal["zero", "one_after_first"] = "zero"
    resume: Literal["max", "spatial"] = "max"
    seconds: Literal["float32", "float64_product", "float64", "rounded", "whole", "before_rate"] = (
        "float32"
    )
    default_seconds: Literal["each_video", "each_column"] = "each_video"
    seconds_for: Literal["videos", "all_media"] = "videos"
    grid_steps: Literal["apart", "collapsed"] = "apart"
    decode: Literal["max", "last_column", "empty_row_is_zero"] = "max"
    cached_decode: Literal["max", "cache_length"] = "max"
    masked_decode: Literal["max", "every_column"] = "max"
    decode_mask: Literal["given", "ones"] = "given"
    padding_holds: Literal["zero", "one", "one_if_marked"] = "zero"
    delta: Literal["unmasked", "padded", "padded_not_negative"] = "unmasked"
    text_only: Literal["like_others", "by_the_mask"] = "like_others"
    later_media: Literal["placed", "as_text"] = "placed"
    after_rewind: Literal["recounted", "same_delta"] = "recounted"
    rewound_cache: Literal["cut", "kept"] = "cut"
    generate_after_rewind: Literal["continues", "repeats_last"] = "continues"
    last_generated: Literal["cached", "lost"] = "cached"


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
    sizes : {"family", "area"}
        Whether pictures are resized by the family's own rule, or into limits of their area
        (where the family's is the longest edge).
    runs : {"items", "one_item"}
        What placeholders next to each other are, in families that write an image as rows.
    starts : {"text", "items"}
        What a token that starts an image is in the prompt of a family whose expansion
        writes it: text, or the image itself, whose placeholder then stays.
    around : {"family", "blank_lines"}
        What an image stands between.
    counted : {"all", "one"}
        The images whose tokens the engine counts.
    empty_prompt : {"answer", "crash"}
        What a prompt without text and images leads to, in families whose images stand
        between blank lines.
    clips : {"alone", "in_batch"}
        How many frames a clip has: its own whole ones, or every started one as far as the
        longest clip of the call goes, for families that fill clips up to the longest.
    audio_types : {"placeholders", "marks"}
        The tokens that have the type of audio: placeholders, or the tokens around a clip too
        in the families whose processors list them.
    """

    replaces: Literal["placeholder", "block"] = "placeholder"
    rounding: Literal["even", "away"] = "even"
    small_sides: Literal["nothing", "factor"] = "nothing"
    enlarged: Literal["exact", "whole_pixels"] = "exact"
    sizes: Literal["family", "area"] = "family"
    runs: Literal["items", "one_item"] = "items"
    starts: Literal["text", "items"] = "text"
    around: Literal["family", "blank_lines"] = "family"
    counted: Literal["all", "one"] = "all"
    empty_prompt: Literal["answer", "crash"] = "answer"
    clips: Literal["alone", "in_batch"] = "alone"
    audio_types: Literal["placeholders", "marks"] = "placeholders"


@dataclass(frozen=True, slots=True)
class FusionRules:
    """Which feature row lands on which token, and what a wrong count does.

    Parameters
    ----------
    width : {"checked", "elements"}
        Whether features have the embeddings' hidden size, or count by their elements.
    not_passed : {"refused", "looked_up"}
        What a placeholder is whose kind of features is not passed at all: an error, or the
        row of the table that the model reads for it.
    shared_id : {"markers", "each_takes_all"}
        Where images and videos share a placeholder: the markers tell them apart, or the
        features of each kind go to every placeholder.
    shape : {"checked", "broadcast"}
        Whether features are rows for the placeholders, or whatever can be broadcast to them;
        in families of which transformers counts nothing.
    unplaced : {"refused", "ignored"}
        What features are of a kind without any placeholder, in the same families.
    numbering : {"batch", "row"}
        Whether placeholders are numbered through the batch, or in every row anew.
    surplus : {"refused", "dropped"}
        What features are that no placeholder takes.
    missing : {"refused", "zero_row"}
        What the placeholder after the last feature takes, in graphs with a zero row at the end.
    later_turns : {"whole", "empty"}
        Whether tokens that come in a later call find the features of the whole prompt, or none.
    """

    width: Literal["checked", "elements"] = "checked"
    not_passed: Literal["refused", "looked_up"] = "refused"
    shared_id: Literal["markers", "each_takes_all"] = "markers"
    shape: Literal["checked", "broadcast"] = "checked"
    unplaced: Literal["refused", "ignored"] = "refused"
    numbering: Literal["batch", "row"] = "batch"
    surplus: Literal["refused", "dropped"] = "refused"
    missing: Literal["refused", "zero_row"] = "refused"
    later_turns: Literal["whole", "empty"] = "whole"


@dataclass(frozen=True, slots=True)
class AudioRules:
    """How audio is shortened.

    Parameters
    ----------
    no_frames : {"nothing", "formula"}
        What a clip without frames makes: nothing, or what the formula says of its padding.
    too_short : {"nothing", "formula"}
        What a clip makes that is too short for a layer: nothing, or what the formula says,
        below zero.
    quotients : {"down", "toward_zero"}
        How quotients are cut in families whose arithmetic is that of floats.
    precision : {"integers", "float32"}
        What lengths are computed in, in families whose code uses float32.
    last_index : {"bounded", "wrapped"}
        What an index of the last valid output below zero means, in families that set one.
    marks : {"length", "encoder"}
        Whether a mask that another code makes in the encoder follows the family's own length.
    frameless : {"counted", "crash"}
        What counting a clip without a frame comes to.
    """

    no_frames: Literal["nothing", "formula"] = "nothing"
    too_short: Literal["nothing", "formula"] = "nothing"
    quotients: Literal["down", "toward_zero"] = "down"
    precision: Literal["integers", "float32"] = "integers"
    last_index: Literal["bounded", "wrapped"] = "bounded"
    marks: Literal["length", "encoder"] = "length"
    frameless: Literal["counted", "crash"] = "counted"


@dataclass(frozen=True, slots=True)
class OmniRules:
    """How positions of prompts with audio are computed.

    Parameters
    ----------
    padding : {"zero", "one"}
        What stands at masked places.
    deltas : {"over_tokens", "over_padding"}
        Whether the largest position of a row without media is that of its tokens, or of its
        masked places too.
    order : {"given", "recomputed"}
        Which tokens of a video with its own sound are audio: those that have its id, or those
        that the times, computed again in float32, say.
    resume : {"block", "last_piece"}
        Where text resumes after such a video: after its largest position, or after that of
        what was placed last.
    """

    padding: Literal["zero", "one"] = "zero"
    deltas: Literal["over_tokens", "over_padding"] = "over_tokens"
    order: Literal["given", "recomputed"] = "given"
    resume: Literal["block", "last_piece"] = "block"


@dataclass(frozen=True, slots=True)
class RopeRules:
    """How 1-D positions are computed.

    Parameters
    ----------
    padding : {"mask", "ids_that_end_rows"}
        What says that a token does not exist: the mask, or the pad id at the end of a row,
        where there are several rows.
    decode : {"tokens", "last_column"}
        The position of the next token: the number of tokens, or the last column's plus one.
    forward : {"tokens", "columns"}
        What a bare forward, given the mask and no positions, counts.
    empty_row : {"zero", "undefined"}
        The next position of a row without tokens.
    rewound_cache : {"cut", "kept_if_multimodal"}
        What a rewind leaves in the cache: the tokens that are kept, or all.
    rewind_to_cache : {"done", "refused_for_text"}
        What a rewind is that takes back the one token which is not in the cache yet.
    generate_after_rewind : {"continues", "repeats_last"}
        Whether the last token that a rewind keeps goes in once more when tokens are generated.
    last_generated : {"cached", "lost"}
        Whether the last generated token is in the cache when others are appended.
    window_padding : {"mask", "ids"}
        What says that a token does not exist, where the prompt goes in by windows.
    later_windows : {"tokens", "places"}
        Whether windows after the first count tokens, or all their places.
    window_follows : {"tokens", "last_place"}
        What follows a window: the number of tokens so far, or its last place's position plus one.
    appended_window : {"tokens", "one"}
        How many positions a window gets that is appended later.
    empty_window : {"answered", "crash"}
        What a first window without any token is.
    single_window : {"goes_on", "crash"}
        What tokens are that are appended to a prompt of one window of one token.
    window_rewind : {"done", "refused"}
        Whether a prompt that went in by windows can be rewound.
    """

    padding: Literal["mask", "ids_that_end_rows"] = "mask"
    decode: Literal["tokens", "last_column"] = "tokens"
    forward: Literal["tokens", "columns"] = "tokens"
    empty_row: Literal["zero", "undefined"] = "zero"
    rewound_cache: Literal["cut", "kept_if_multimodal"] = "cut"
    rewind_to_cache: Literal["done", "refused_for_text"] = "done"
    generate_after_rewind: Literal["continues", "repeats_last"] = "continues"
    last_generated: Literal["cached", "lost"] = "cached"
    window_padding: Literal["mask", "ids"] = "mask"
    later_windows: Literal["tokens", "places"] = "tokens"
    window_follows: Literal["tokens", "last_place"] = "tokens"
    appended_window: Literal["tokens", "one"] = "tokens"
    empty_window: Literal["answered", "crash"] = "answered"
    single_window: Literal["goes_on", "crash"] = "goes_on"
    window_rewind: Literal["done", "refused"] = "done"
