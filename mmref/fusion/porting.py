"""What a porter needs beside the merge itself: ids for lookups, gates, fixed rows, blocks.

Each function is one step of one or a few families, as transformers 5.24 takes it; the
family row (`mmref.families.Fusing`) says which family takes which.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from mmref.arrays import float_array, integer_matrix
from mmref.errors import RefusedPrompt, UnknownName
from mmref.families import TokenIds
from mmref.fusion.arguments import read_features, read_streams
from mmref.fusion.merge import fuse

__all__ = [
    "GEMMA3N_ROWS",
    "Gates",
    "fixed_rows",
    "gates",
    "image_blocks",
    "lookup_ids",
    "may_attend",
    "merge_copies",
    "tell_videos_apart",
]

Array = npt.NDArray[Any]
IntArray = npt.NDArray[np.int64]
GEMMA3N_ROWS = 188


def lookup_ids(
    input_ids: Any,
    placeholder_ids: Sequence[int],
    rule: Literal["own", "zero_beyond_table", "pad"] = "pad",
    *,
    table_rows: int | None = None,
    pad_id: int = 0,
) -> IntArray:
    """The ids that a table of embeddings is read by, before placeholders are replaced.

    Placeholder ids may lie beyond the table, where reading it is an error or, in a graph on a
    GPU, memory of something else. A table for each layer (Gemma 4) is read by the same ids.

    Parameters
    ----------
    input_ids : array_like of int, shape (batch, seq) or (seq,)
        Token ids.
    placeholder_ids : sequence of int
        Placeholders of every kind of media.
    rule : {"own", "zero_beyond_table", "pad"}
        A placeholder is read as itself; as 0 if it lies beyond the table; or as the pad id.
        ``families.get(name).fusing.lookup`` names the family's.
    table_rows : int, optional
        Rows of the table; then ids beyond it are refused.
    pad_id : int
        The pad id.

    Returns
    -------
    numpy.ndarray
        int64, shape (batch, seq).

    Raises
    ------
    RefusedPrompt
        ``id-beyond-table``; ``table-rows`` if the rule needs their number; what
        `mmref.fusion.source_rows` raises for ids.
    UnknownName
        If the rule is not known.

    Notes
    -----
    Source of the rule: Gemma3Model.forward (``zero_beyond_table``), Gemma4Model.forward (``pad``:
    ``llm_input_ids``, also of the per-layer table) of transformers 5.24.

    Examples
    --------
    >>> lookup_ids([5, 99, 6], [99]).tolist()
    [[5, 0, 6]]
    """
    if rule not in ("own", "zero_beyond_table", "pad"):
        raise UnknownName("rule", rule, ("own", "zero_beyond_table", "pad"))
    ids = integer_matrix(input_ids, "input_ids").astype(np.int64)
    wanted = read_streams(dict.fromkeys(placeholder_ids, 0)).ids
    if rule == "zero_beyond_table":
        if table_rows is None:
            raise RefusedPrompt(
                "table-rows", where="table_rows", got="None", expected="the table's rows"
            )
        wanted = wanted[wanted >= table_rows]
    if rule != "own":
        ids[np.isin(ids, wanted)] = pad_id if rule == "pad" else 0
    if table_rows is not None:
        beyond = np.argwhere((ids < 0) | (ids >= table_rows))
        if len(beyond):
            row, token = (int(place) for place in beyond[0])
            raise RefusedPrompt(
                "id-beyond-table",
                where=f"row {row}, token {token}",
                got=f"id {ids[row, token]}",
                expected=f"0 to {table_rows - 1}",
                hint="a placeholder that was not named, or a token added after the table was made?",
            )
    return ids


class Gates(NamedTuple):
    """Which adapters a prompt switches on, for the whole batch.

    Parameters
    ----------
    vision, speech : bool
        At most one of them is true.
    """

    vision: bool
    speech: bool


def gates(input_ids: Any, *, image_id: int, audio_id: int) -> Gates:
    """Which adapter Phi-4 multimodal uses: vision if there is any image, else speech for audio.

    Parameters
    ----------
    input_ids : array_like of int, shape (batch, seq) or (seq,)
        Token ids.
    image_id, audio_id : int
        The placeholders.

    Returns
    -------
    Gates
        One answer for the whole batch: an image in one row is felt in all of them.

    Raises
    ------
    RefusedPrompt
        What `mmref.fusion.source_rows` raises for ids.

    Notes
    -----
    Source of the rule: ``audio_projection_mode`` in Phi4MultimodalFeatureEmbedding of
    transformers 5.24, and the gates of exported graphs.

    Examples
    --------
    >>> gates([[5, 10], [16, 5]], image_id=10, audio_id=16)
    Gates(vision=True, speech=False)
    """
    ids = integer_matrix(input_ids, "input_ids")
    read_streams({(image_id, audio_id): 0})
    vision = bool((ids == image_id).any())
    return Gates(vision, bool((ids == audio_id).any()) and not vision)


def fixed_rows(
    clips: Any, padding_row: Any, padding: Any = None, *, rows: int = GEMMA3N_ROWS
) -> Array:
    """Audio features where every clip takes the same number of placeholders (Gemma 3n: 188).

    Parameters
    ----------
    clips : array_like of float, shape (clips, frames, hidden)
        What the encoder gives.
    padding_row : array_like of float, shape (hidden,)
        What stands for a frame that is none: the embedding of the audio vocabulary's last id.
    padding : array_like of bool, shape (clips, frames), optional
        True where a frame is padding, as Gemma 3n's encoder gives it; default: nowhere.
    rows : int
        Rows of a clip.

    Returns
    -------
    numpy.ndarray
        Shape (clips * rows, hidden), of the clips' dtype: the features for `fuse`.

    Raises
    ------
    RefusedPrompt
        ``features-rank``, ``features-hidden-size``, ``features-dtype``, ``padding-shape``, and
        ``clip-too-long`` if there are more frames than rows.

    Notes
    -----
    Source of the rule: Gemma3nModel.forward of transformers 5.24.

    Examples
    --------
    >>> clip = np.array([[[1], [2]]], np.float32)
    >>> fixed_rows(clip, np.array([9], np.float32), [[False, True]], rows=3).tolist()
    [[1.0], [9.0], [9.0]]
    """
    audio = float_array(clips, "clips", "features")
    if audio.ndim != 3:
        expected = "(clips, frames, hidden)"
        raise RefusedPrompt(
            "features-rank", where="clips", got=f"shape {audio.shape}", expected=expected
        )
    count, frames, hidden = audio.shape
    filler = read_features("padding_row", padding_row, audio.dtype, hidden, (1,))
    if frames > rows:
        raise RefusedPrompt(
            "clip-too-long", where="clips", got=f"{frames} frames", expected=f"at most {rows}"
        )
    result = np.empty((count, rows, hidden), audio.dtype)
    result[:] = filler
    masked = np.zeros((count, frames), bool) if padding is None else np.asarray(padding)
    if masked.shape != (count, frames) or masked.dtype != np.bool_:
        raise RefusedPrompt(
            "padding-shape",
            where="padding",
            got=f"{masked.dtype} of shape {masked.shape}",
            expected=f"bool of shape ({count}, {frames})",
            hint="True is padding here, unlike in an attention mask",
        )
    result[:, :frames][~masked] = audio[~masked]
    return result.reshape(count * rows, hidden)


def merge_copies(
    input_ids: Any,
    text_embeddings: Any,
    *,
    image: tuple[int, Any] | None = None,
    audio: tuple[int, Any] | None = None,
) -> Array:
    """Phi-4 multimodal's merge: images and audio into two copies, joined by multiplication.

    With finite embeddings it is `fuse`. Where an embedding of a token, placeholder or text, is
    NaN or infinite and both kinds are given, the copy that is masked out still counts: zero times
    infinity is NaN. A feature that is not finite stays where it is.

    Parameters
    ----------
    input_ids : array_like of int, shape (batch, seq) or (seq,)
        Token ids.
    text_embeddings : array_like of float, shape (batch, seq, hidden)
        Embeddings of all tokens.
    image, audio : tuple of (int, array_like of shape (rows, hidden)), optional
        Placeholder and features.

    Returns
    -------
    numpy.ndarray
        Shape (batch, seq, hidden), of the embeddings' dtype.

    Raises
    ------
    RefusedPrompt
        As `fuse`; transformers itself puts a single row on every placeholder.

    Notes
    -----
    Source of the rule: Phi4MultimodalFeatureEmbedding.forward of transformers 5.24.

    Examples
    --------
    >>> text = np.array([[[np.inf], [0], [5]]], np.float32)
    >>> one, two = np.array([[1]], np.float32), np.array([[2]], np.float32)
    >>> merge_copies([10, 16, 20], text, image=(10, one), audio=(16, two)).tolist()
    [[[nan], [2.0], [5.0]]]
    """
    given = [stream for stream in (image, audio) if stream is not None]
    read_streams({tuple(key for key, _ in given): 0})  # the same id twice is refused
    copies = [fuse(input_ids, text_embeddings, {key: rows}) for key, rows in given]
    if len(copies) < 2:
        return copies[0] if copies else fuse(input_ids, text_embeddings, {})
    assert image is not None
    ids = integer_matrix(input_ids, "input_ids")
    images = (ids == image[0])[..., None].astype(copies[0].dtype)
    with np.errstate(invalid="ignore"):
        joined: Array = copies[0] * images + copies[1] * (1 - images)
    return joined


def image_blocks(input_ids: Any, placeholder_ids: Sequence[int]) -> IntArray:
    """Which tokens see each other in both directions: a block for each run of placeholders.

    Parameters
    ----------
    input_ids : array_like of int, shape (batch, seq) or (seq,)
        Token ids.
    placeholder_ids : sequence of int
        Images for Gemma 3; images and videos for Gemma 4, where its configuration gives
        ``use_bidirectional_attention`` as ``"vision"``.

    Returns
    -------
    numpy.ndarray
        int64, shape (batch, seq): the number of the token's block in its row, from 0; -1 for
        text. Two images without a token between them are one block.

    Raises
    ------
    RefusedPrompt
        What `mmref.fusion.source_rows` raises for ids.

    Notes
    -----
    Source of the rule: ``get_block_sequence_ids_for_mask`` of gemma3 and gemma4 in transformers
    5.24, with token types that are not 0 at placeholders. `may_attend` makes the mask.

    Examples
    --------
    >>> image_blocks([10, 10, 5, 10], [10]).tolist()
    [[0, 0, -1, 1]]
    """
    ids = integer_matrix(input_ids, "input_ids")
    mine = np.isin(ids, read_streams(dict.fromkeys(placeholder_ids, 0)).ids)
    starts = mine.copy()
    starts[:, 1:] &= ~mine[:, :-1]
    return np.where(mine, starts.cumsum(axis=1) - 1, -1)


def may_attend(blocks: Any) -> npt.NDArray[np.bool_]:
    """Which token sees which, in layers without a window: those before it, and its own block.

    Parameters
    ----------
    blocks : array_like of int, shape (batch, seq) or (seq,)
        Of `image_blocks`.

    Returns
    -------
    numpy.ndarray
        bool, shape (batch, seq, seq): [row, query, key].

    Raises
    ------
    RefusedPrompt
        ``blocks-dtype``, ``blocks-rank`` or ``blocks-empty``.

    Notes
    -----
    Source of the rule: the blockwise overlay of ``masking_utils`` in transformers 5.24.

    Examples
    --------
    >>> may_attend([-1, 0, 0])[0].astype(int).tolist()
    [[1, 0, 0], [1, 1, 1], [1, 1, 1]]
    """
    block = integer_matrix(blocks, "blocks")
    same = (block[:, :, None] == block[:, None, :]) & (block[:, :, None] >= 0)
    causal = np.tri(block.shape[1], dtype=bool)
    return np.asarray(same | causal)


def tell_videos_apart(input_ids: Any, token_ids: TokenIds, *, video_id: int) -> IntArray:
    """Ids in which videos have a placeholder of their own, for families where they share it.

    In the GLM-4V line the frames of a video use the image's placeholder; the markers around the
    video tell. With the result, `fuse` takes images and videos as two lists.

    Parameters
    ----------
    input_ids : array_like of int, shape (batch, seq) or (seq,)
        Token ids.
    token_ids : TokenIds
        With ``image``, ``video_start`` and ``video_end``.
    video_id : int
        What stands for a video's placeholders in the result; an id that no token has.

    Returns
    -------
    numpy.ndarray
        int64, shape (batch, seq).

    Raises
    ------
    RefusedPrompt
        ``marker-missing`` if an id is not given; what `mmref.fusion.source_rows` raises for ids.

    Notes
    -----
    Source of the rule: ``create_mm_token_type_ids`` of transformers' GLM-4V processor, which the
    model's own merge does not follow.

    Examples
    --------
    >>> ids = TokenIds(image=10, video_start=14, video_end=15)
    >>> tell_videos_apart([10, 14, 10, 15, 10], ids, video_id=11).tolist()
    [[10, 14, 11, 15, 10]]
    """
    for name in ("image", "video_start", "video_end"):
        if getattr(token_ids, name) is None:
            raise RefusedPrompt(
                "marker-missing", where=f"token_ids.{name}", got="None", expected="an id"
            )
    ids = integer_matrix(input_ids, "input_ids").astype(np.int64)
    starts, ends = ids == token_ids.video_start, ids == token_ids.video_end
    inside = starts.cumsum(axis=1) > ends.cumsum(axis=1)
    ids[inside & (ids == token_ids.image)] = video_id
    return ids
