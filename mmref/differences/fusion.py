"""Where engines part from the reference in the merge of features into embeddings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mmref.case import Scalar
from mmref.differences.base import Difference, fusion_case

__all__ = ["DIFFERENCES"]

_RUN = "embedding graphs as exporters write them (mmref.probes.fusion), run"


def _batch_of_elements(request: Any, spans: Any, scalars: Mapping[str, Scalar]) -> bool:
    return bool(request.form == "gather_elements" and len(request.ids) > 1)


def _nothing_to_gather(request: Any, spans: Any, scalars: Mapping[str, Scalar]) -> bool:
    kinds = request.row.fusing.kinds
    return bool(request.form == "gather_unpadded" and not all(map(request.rows.get, kinds)))


def _lone_audio(request: Any, spans: Any, scalars: Mapping[str, Scalar]) -> bool:
    """Several placeholders for one clip, none beside another."""
    if request.row.name != "qwen2_audio" or not request.rows.get("audio"):
        return False
    mine = request.ids == request.token_ids.audio
    return bool(mine.sum() > 1 and not (mine[:, 1:] & mine[:, :-1]).any())


def _transformers(identifier: str, **columns: Any) -> Difference:
    shared = {"engine": "transformers", "since": "5.24", "subject": "fusion"}
    return Difference(id=identifier, **{**shared, **columns})


def _graph(identifier: str, **columns: Any) -> Difference:
    shared = {"engine": "onnxruntime", "since": "1.32", "subject": "fusion", "source": _RUN}
    return Difference(id=identifier, **{**shared, **columns})


def _genai(identifier: str, **columns: Any) -> Difference:
    shared = {"engine": "onnxruntime-genai", "since": "0.18", "subject": "fusion"}
    source = "inputs_embeds that the decoder received, of a package with the graph form gather"
    return Difference(id=identifier, source=source, **{**shared, **columns})


DIFFERENCES: tuple[Difference, ...] = (
    _transformers(
        "transformers-features-counted-by-elements",
        meaning="Features are checked by their number of elements, or rows alone, never by their "
        "hidden size.",
        consequence="Two rows of half the hidden size pass for one and are laid over it: a "
        "projector that was left out is not noticed.",
        source="get_placeholder_mask of each model",
        case=fusion_case([[10]], image_rows=2, feature_width=2),
        sets={"width": "elements"},
    ),
    _transformers(
        "transformers-placeholders-without-media-stay",
        meaning="Placeholders are only counted if features of their kind are passed.",
        consequence="A prompt with placeholders and no pixels is answered; each placeholder is "
        "read from the table of text.",
        source="forward of each model: the merge stands below `if pixel_values is not None`",
        case=fusion_case([[10]]),
        sets={"not_passed": "looked_up"},
    ),
    _transformers(
        "transformers-glm-kinds-share-placeholders",
        meaning="The GLM-4V line puts images and videos each on every image placeholder, markers "
        "or not.",
        consequence="A batch with images and videos is refused, or gets the videos' features at "
        "the images if the numbers agree.",
        source="transformers.models.glm4v.modeling_glm4v, get_placeholder_mask",
        case=fusion_case([[10, 14, 10, 15]], "glm4v", image_rows=1, video_rows=1),
        sets={"shared_id": "each_takes_all"},
    ),
    _transformers(
        "transformers-lone-audio-placeholders-are-clips",
        meaning="Qwen2-Audio takes audio placeholders of which no two are neighbours for one clip "
        "each.",
        consequence="A clip whose rows stand apart in the prompt is refused.",
        source="transformers.models.qwen2_audio.modeling_qwen2_audio, legacy_processing",
        case=fusion_case([[16, 20, 16]], "qwen2_audio", audio_rows=2),
        refuses=_lone_audio,
    ),
    _transformers(
        "transformers-phi4-features-broadcast",
        meaning="Phi-4 multimodal puts features by index_put, which broadcasts one row, or one "
        "column.",
        consequence="A single row goes to every placeholder; a picture of one token passes for "
        "any.",
        source="transformers.models.phi4_multimodal, index_put of both embeddings",
        case=fusion_case([[10, 10]], "phi4_multimodal", image_rows=1),
        sets={"shape": "broadcast"},
    ),
    _transformers(
        "transformers-phi4-unplaced-media-ignored",
        meaning="Phi-4 multimodal ignores images and audio that the prompt has no placeholder for.",
        consequence="A prompt that lost its placeholders is answered without its media.",
        source="transformers.models.phi4_multimodal, Phi4MultimodalFeatureEmbedding.forward",
        case=fusion_case([[20]], "phi4_multimodal", image_rows=1),
        sets={"unplaced": "ignored"},
    ),
    _graph(
        "graph-rows-restart",
        meaning="Every form but ScatterND numbers placeholders in each batch row anew (CumSum "
        "over axis 1).",
        consequence="The second row of a batch gets the first row's image.",
        case=fusion_case([[10], [10]], image_rows=2),
        sets={"numbering": "row"},
    ),
    _graph(
        "graph-surplus-dropped",
        meaning="Features that no placeholder takes are dropped, in every form.",
        consequence="A truncated prompt is answered with part of its image.",
        case=fusion_case([[20]], image_rows=1),
        sets={"surplus": "dropped"},
    ),
    _graph(
        "graph-missing-row-is-zero",
        meaning="With a zero row at the end (GatherElements, Gather) one placeholder too many "
        "takes zeros.",
        consequence="The last token of the last image is silently blank.",
        case=fusion_case([[10]]),
        sets={"missing": "zero_row"},
    ),
    _graph(
        "graph-elements-refuses-batches",
        meaning="The GatherElements form gives its features one batch row and refuses a batch of "
        "more.",
        consequence="Such an export runs one prompt at a time.",
        case=fusion_case([[20], [20]], form="gather_elements"),
        refuses=_batch_of_elements,
    ),
    _graph(
        "graph-unpadded-refuses-text",
        meaning="The Gather form without a zero row looks up row 0 for text too, and refuses where "
        "there are no features.",
        consequence="Such an export cannot take a prompt of text alone.",
        case=fusion_case([[20]], form="gather_unpadded"),
        refuses=_nothing_to_gather,
    ),
    _genai(
        "genai-feature-rows-restart",
        meaning="The exported graph numbers placeholders in each batch row anew, and the engine "
        "passes it the features of the whole batch.",
        consequence="The second row of a batch gets the first row's image.",
        case=fusion_case([[10], [10]], image_rows=2),
        sets={"numbering": "row"},
    ),
    _genai(
        "genai-surplus-features-dropped",
        meaning="Features that no placeholder takes are not noticed.",
        consequence="A truncated prompt is answered with part of its image.",
        case=fusion_case([[20]], image_rows=1),
        sets={"surplus": "dropped"},
    ),
    _genai(
        "genai-missing-feature-is-zero",
        meaning="One placeholder more than there are features takes the graph's zero row; the "
        "engine does not count.",
        consequence="A placeholder in user text, or an image that was not passed, is silently "
        "blank.",
        case=fusion_case([[10]]),
        sets={"missing": "zero_row"},
    ),
    _genai(
        "genai-later-turns-have-no-features",
        meaning="Tokens appended after the first call are embedded with no features at all.",
        consequence="An image in a second turn is silently zero if it has one token, and refused "
        "by the graph if it has more.",
        case=fusion_case([[20, 10]], image_rows=1, turn_start=1),
        sets={"later_turns": "empty"},
    ),
)
