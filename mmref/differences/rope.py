"""Where engines part from the reference in 1-D positions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mmref.case import Array, Case, Scalar, Step
from mmref.differences.base import Difference

__all__ = ["DIFFERENCES", "rope_append", "rope_case"]

_POSITIONS = "src/models/position_inputs.cpp"
_SMALL_IDS = {"image": 10, "pad": 0, "eos": 2}


def rope_case(
    ids: list[list[int]],
    family: str = "llama",
    *,
    mask: list[list[int]] | None = None,
    steps: tuple[Step, ...] = (),
    **scalars: Scalar,
) -> Case:
    """A case of 1-D positions as one writes it by hand.

    Parameters
    ----------
    ids : list of list of int
        Rows of tokens: 0 pad, 2 eos, 10 image, from 20 on text.
    family : str
        A family of ``families.names("rope")``.
    mask : list of list of int, optional
        0 and 1.
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
    return Case(family, arrays, scalars, _SMALL_IDS, "rope", steps)


def rope_append(ids: list[int]) -> Step:
    """A step that appends tokens to one row.

    Parameters
    ----------
    ids : list of int
        The new tokens.

    Returns
    -------
    Step
        The step.
    """
    return Step("append", 0, {"input_ids": np.array([ids], np.int64)})


def _several_rows_in_windows(request: Any, spans: Any, scalars: Mapping[str, Scalar]) -> bool:
    return "window" in scalars and len(request.arrays["input_ids"]) > 1


def _genai(identifier: str, **columns: Any) -> Difference:
    shared = {"engine": "onnxruntime-genai", "since": "0.16", "subject": "rope"}
    return Difference(id=identifier, **{**shared, "source": _POSITIONS, **columns})


def _transformers(identifier: str, **columns: Any) -> Difference:
    shared = {"engine": "transformers", "since": "5.24", "subject": "rope"}
    return Difference(id=identifier, **{**shared, **columns})


DIFFERENCES: tuple[Difference, ...] = (
    _transformers(
        "transformers-text-generate-continues-from-last-column",
        meaning="generate continues from the position of the last column, also where that is "
        "masked.",
        consequence="With padding on the right every row continues at position 1, over the "
        "positions of its own prompt.",
        source="GenerationMixin._update_model_kwargs_for_generation",
        case=rope_case([[20, 21, 0]], mask=[[1, 1, 0]], decode_steps=1),
        sets={"decode": "last_column"},
    ),
    _transformers(
        "transformers-forward-counts-columns",
        meaning="A forward that is given a mask and no position_ids numbers all columns, masked "
        "ones too.",
        consequence="A row padded on the left stands as many positions too far on as it has "
        "padding; scores of a batch differ from those of its rows alone where absolute positions "
        "matter, and caches filled this way do not fit those of generate.",
        source="forward of every model: torch.arange over the length where position_ids is None",
        case=rope_case([[0, 20]], mask=[[0, 1]]),
        sets={"forward": "columns"},
    ),
    _genai(
        "genai-text-padding-by-last-ids",
        meaning="With 1-D positions, padding is what pad ids end a row of a batch; one row has "
        "none, and pad ids elsewhere are tokens.",
        consequence="Rows padded on the left attend to their padding and stand too far on; a "
        "prompt that ends in the pad id (often the end-of-text token) loses its last token as soon "
        "as it shares a batch.",
        case=rope_case([[0, 20]], mask=[[0, 1]]),
        sets={"padding": "ids_that_end_rows"},
    ),
    _genai(
        "genai-text-empty-row-undefined",
        meaning="The next position of a row of nothing but pad ids is read from memory that was "
        "never written.",
        consequence="That row generates from any position, another in every run.",
        case=rope_case([[0], [20]], mask=[[0], [1]], decode_steps=1),
        sets={"empty_row": "undefined"},
    ),
    _genai(
        "genai-multimodal-rewind-keeps-cache",
        meaning="rewind_to does not shorten the cache of a multimodal model with 1-D positions.",
        consequence="A decoder that appends to its cache fails with a shape error; one with a "
        "shared buffer attends to what was taken back.",
        source="src/models/multi_modal.cpp: MultiModalPipelineState has no RewindTo of its own",
        case=rope_case([[20, 20]], "gemma3", steps=(Step("rewind", 1), rope_append([20]))),
        sets={"rewound_cache": "kept_if_multimodal"},
    ),
    _genai(
        "genai-text-rewind-to-cache-refused",
        meaning="A rewind of a text model that takes back the one token which has not gone in yet "
        "is refused.",
        consequence="The last generated token cannot be taken back; one that was fed can.",
        source="src/models/kv_cache.cpp: a rewind to the cache's own length",
        case=rope_case([[20]], steps=(Step("generate", 1), Step("rewind", 1), rope_append([20]))),
        sets={"rewind_to_cache": "refused_for_text"},
    ),
    _genai(
        "genai-text-rewind-repeats-last-token",
        meaning="Generating directly after rewind_to feeds the last kept token once more, as a new "
        "token.",
        consequence="The model reads a word twice, and everything after it stands one too far on.",
        source="Generator::GenerateNextToken: after a rewind the last token is appended again",
        case=rope_case([[20, 20]], steps=(Step("rewind", 1), Step("generate", 2))),
        sets={"generate_after_rewind": "repeats_last"},
    ),
    _genai(
        "genai-text-last-generated-token-lost",
        meaning="The last generated token is counted, but never goes into the cache when tokens "
        "are appended.",
        consequence="The model never sees the end of its own answer, and a decoder that appends "
        "to its cache fails with a shape error.",
        source="Generator::AppendTokens: what was sampled last is not processed first",
        case=rope_case([[20]], steps=(Step("generate", 1), rope_append([20]))),
        sets={"last_generated": "lost"},
    ),
    _genai(
        "genai-window-padding-by-id",
        meaning="In the first window of a prompt, padding is every pad id.",
        consequence="A pad id that is a token (often the end-of-text token) is hidden from the "
        "model, and everything after it stands one too low.",
        case=rope_case([[0, 20]], window=2),
        sets={"window_padding": "ids"},
    ),
    _genai(
        "genai-later-windows-count-places",
        meaning="Windows after the first count every place, padding and filling too.",
        consequence="With tokens on the left, a prompt that does not fill its last window is "
        "continued too far on, and the model attends to the filling.",
        case=rope_case([[20, 20, 20]], window=2),
        sets={"later_windows": "places"},
    ),
    _genai(
        "genai-window-continues-from-last-place",
        meaning="What follows a window is numbered from its last place, which is 0 where no token "
        "is.",
        consequence="A prompt shorter than one window, aligned left, is continued at position 1, "
        "over its own positions.",
        case=rope_case([[20, 20]], window=3, decode_steps=1),
        sets={"window_follows": "last_place"},
    ),
    _genai(
        "genai-appended-window-one-position",
        meaning="A window that is appended gets one position and one place of the mask, however "
        "many tokens it holds.",
        consequence="A second turn of a windowed model is numbered and attended to as one token.",
        case=rope_case([[20, 20]], window=2, steps=(rope_append([20, 20]),)),
        sets={"appended_window": "one"},
    ),
    _genai(
        "genai-single-window-append-crash",
        meaning="Appending to a prompt that was one window of one token ends the process.",
        consequence="Only models with windows of one token are hit, and then every short turn.",
        case=rope_case([[20]], window=1, steps=(rope_append([20]),)),
        sets={"single_window": "crash"},
    ),
    _genai(
        "genai-empty-first-window-crash",
        meaning="A first window of nothing but padding ends the process.",
        consequence="One prompt that is padded on the left by a window takes the server down.",
        case=rope_case([[0, 20]], window=1),
        sets={"empty_window": "crash"},
    ),
    _genai(
        "genai-windowed-rewind-refused",
        meaning="A model whose prompt goes in by windows cannot be rewound.",
        consequence="Every turn starts the conversation anew.",
        source="Generator::RewindToLength names the type",
        case=rope_case([[20, 20]], window=2, steps=(Step("rewind", 1), rope_append([20]))),
        sets={"window_rewind": "refused"},
    ),
    _genai(
        "genai-windows-of-a-batch-refused",
        meaning="Several rows cannot go in by windows.",
        consequence="Requests run one after another.",
        source="src/models/input_ids.cpp names it",
        case=rope_case([[20], [20]], window=1),
        refuses=_several_rows_in_windows,
    ),
)
