"""Where ONNX Runtime GenAI parts from the reference after the prompt: turns and rewinds."""

from __future__ import annotations

from mmref.case import Step
from mmref.differences.base import Difference, append, small_case

__all__ = ["DIFFERENCES"]

_POSITIONS = "src/models/position_inputs.cpp"
_PIPELINE = "src/models/multi_modal.cpp"
_IMAGE = [[12, 10, 10, 10, 10]]
_GRID = [[1, 4, 4]]

DIFFERENCES: tuple[Difference, ...] = (
    Difference(
        id="genai-later-media-as-text",
        engine="onnxruntime-genai",
        since="0.16",
        meaning="Media of a later turn are numbered like text.",
        consequence="The second picture of a conversation has no height and width, and all that "
        "follows it stands too far on.",
        source=f"{_POSITIONS}: only the first update reads grids",
        case=small_case([[20]], steps=(append(_IMAGE, images=_GRID),)),
        sets={"later_media": "as_text"},
    ),
    Difference(
        id="genai-rewind-keeps-delta",
        engine="onnxruntime-genai",
        since="0.16",
        meaning="After rewind_to, positions are the number of kept tokens plus the delta of the "
        "whole prompt.",
        consequence="Rewinding to before an image makes positions too low, down to negative ones.",
        source=f"{_POSITIONS}: RewindTo leaves rope_deltas as they are",
        case=small_case(_IMAGE, images=_GRID, steps=(Step("rewind", 0), append([[20]]))),
        sets={"after_rewind": "same_delta"},
    ),
    Difference(
        id="genai-rewind-keeps-cache",
        engine="onnxruntime-genai",
        since="0.16",
        meaning="rewind_to does not shorten the cache of a multimodal model.",
        consequence="A decoder that appends to its cache fails with a shape error; one with a "
        "shared buffer attends to what was taken back.",
        source=f"{_PIPELINE}: MultiModalPipelineState has no RewindTo of its own",
        case=small_case([[20, 20]], steps=(Step("rewind", 1), append([[20]]))),
        sets={"rewound_cache": "kept"},
    ),
    Difference(
        id="genai-rewind-repeats-last-token",
        engine="onnxruntime-genai",
        since="0.16",
        meaning="Generating directly after rewind_to feeds the last kept token once more, as a new "
        "token.",
        consequence="The model reads a word twice, and everything after it stands one too far on.",
        source="Generator::GenerateNextToken: after a rewind the last token is appended again",
        case=small_case([[20, 20]], steps=(Step("rewind", 1), Step("generate", 2))),
        sets={"generate_after_rewind": "repeats_last"},
    ),
    Difference(
        id="genai-last-generated-token-lost",
        engine="onnxruntime-genai",
        since="0.16",
        meaning="The last generated token is counted, but never goes into the cache when tokens "
        "are appended.",
        consequence="The model never sees the end of its own answer, and a decoder that appends "
        "to its cache fails with a shape error.",
        source="Generator::AppendTokens: what was sampled last is not processed first",
        case=small_case([[20]], steps=(Step("generate", 1), append([[20]]))),
        sets={"last_generated": "lost"},
    ),
    Difference(
        id="genai-rewind-inside-item",
        engine="onnxruntime-genai",
        since="0.16",
        meaning="A rewind to the middle of an item is done.",
        consequence="Half an image stays in the conversation, and what follows it has positions "
        "that belong to no grid.",
        source=f"{_POSITIONS}: RewindTo looks at no item",
        case=small_case(_IMAGE, images=_GRID, steps=(Step("rewind", 3), append([[20]]))),
        on_refused=frozenset({"rewind-inside-item"}),
    ),
)
