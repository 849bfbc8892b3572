"""Where engines part from the reference in audio lengths and masks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mmref.case import Scalar
from mmref.differences.base import Difference, audio_case
from mmref.families.audio import Audio

__all__ = ["DIFFERENCES"]


def _formula(frames: int, row: Audio) -> int:
    """A length by the formula of a convolution alone, which goes below zero."""
    for stage in row.stages:
        frames = (frames + stage.padded - stage.span) // stage.stride + 1
    return frames


def _no_room_for_an_index(request: Any, spans: Any, scalars: Mapping[str, Scalar]) -> bool:
    """(columns, mask): the index before some row's length lies before the first output."""
    row, mask = request
    width = max(0, _formula(mask.shape[1], row))
    if row.code == "product_stride":  # its convolutions throw before
        return width == 0
    shortest = _formula(int(mask.sum(1).min()), row)
    return bool(row.code == "last_index" and width + shortest < 1)


def _not_whole_frames(request: Any, spans: Any, scalars: Mapping[str, Scalar]) -> bool:
    row, mask = request
    return bool(row.code == "dilated" and mask.shape[1] % row.stages[0].stride)


def _difference(identifier: str, **columns: Any) -> Difference:
    shared = {"engine": "transformers", "since": "5.24", "subject": "audio"}
    return Difference(id=identifier, **{**shared, **columns})


DIFFERENCES: tuple[Difference, ...] = (
    _difference(
        "transformers-no-frames-make-one-output",
        meaning="A clip without frames makes an output where the layers' padding alone has room "
        "for one.",
        consequence="An empty clip, and a row of padding alone, counts as one valid output.",
        source="_get_subsampling_output_length of nemotron_asr_streaming, "
        "_compute_sub_sample_lengths_from_attention_mask of seamless_m4t",
        case=audio_case("nemotron_asr_streaming", lengths=[0]),
        sets={"no_frames": "formula"},
    ),
    _difference(
        "transformers-short-clips-below-zero",
        meaning="A clip too short for a layer has a length below zero.",
        consequence="Lengths that are summed, or used as an index or a size, are wrong or throw.",
        source="_get_feat_extract_output_lengths of the wav2vec2 line",
        case=audio_case("wav2vec2", lengths=[4]),
        sets={"too_short": "formula"},
    ),
    _difference(
        "transformers-moonshine-cuts-toward-zero",
        meaning="Moonshine's lengths are quotients of floats cut toward zero, not rounded down.",
        consequence="Below 575 samples they are -1 or 0 where the formula of a convolution says "
        "-1 or -2, as in C.",
        source="transformers.models.moonshine.modeling_moonshine, _get_feat_extract_output_lengths",
        case=audio_case("moonshine", lengths=[0]),
        sets={"quotients": "toward_zero"},
    ),
    _difference(
        "transformers-lengths-in-float32",
        meaning="Parakeet and Nemotron compute lengths in float32.",
        consequence="Lengths beyond 2 ** 24 frames, two days of audio, are off.",
        source="_get_subsampling_output_length of parakeet and nemotron_asr_streaming",
        case=audio_case("parakeet_ctc", lengths=[2**24 + 1]),
        sets={"precision": "float32"},
    ),
    _difference(
        "transformers-all-padding-becomes-valid",
        meaning="A row without a valid output has its index before the first taken from the end: "
        "the row becomes valid.",
        consequence="Padding is attended to, and averages and losses count it.",
        source="_get_feature_vector_attention_mask of the wav2vec2 line and speech_to_text",
        case=audio_case("speech_to_text", mask=[[0]]),
        sets={"last_index": "wrapped"},
    ),
    _difference(
        "transformers-mask-parts-from-its-length",
        meaning="Moonshine slices its mask by the product of the strides, and Moonshine "
        "streaming convolves it with ones, while their lengths follow the layers.",
        consequence="More outputs count as valid than the clip makes.",
        source="MoonshineEncoder.forward, MoonshineStreamingCausalConv1d.forward",
        case=audio_case("moonshine_streaming", mask=[[1] * 80 + [0] * 320]),
        sets={"marks": "encoder"},
    ),
    _difference(
        "transformers-index-out-of-range",
        meaning="A batch too short for one output is refused, and so is a batch of one output "
        "with a row of padding alone.",
        consequence="IndexError or RuntimeError instead of an empty mask.",
        source="_get_feature_vector_attention_mask of the wav2vec2 line; MoonshineEncoder.forward",
        case=audio_case("wav2vec2", mask=[[1]]),
        refuses=_no_room_for_an_index,
    ),
    _difference(
        "transformers-samples-in-whole-frames",
        meaning="Moonshine streaming refuses a batch that is not a whole number of frames of 80 "
        "samples long.",
        consequence="A waveform that another feature extractor padded throws.",
        source="MoonshineStreamingEncoderEmbedder.forward, reshape",
        case=audio_case("moonshine_streaming", mask=[[1]]),
        refuses=_not_whole_frames,
    ),
    _difference(
        "transformers-left-padding-counted",
        meaning="Valid frames are counted wherever they stand, and the first so many outputs are "
        "valid.",
        consequence="A clip that is padded on the left loses its end and attends to padding.",
        source="every mask that is rebuilt from a sum",
        case=audio_case("phi4_multimodal", mask=[[0, 1]]),
        on_refused=frozenset({"mask-left-padded"}),
    ),
    _difference(
        "transformers-mask-without-frames-answered",
        meaning="A mask without frames is answered where only its sum is looked at.",
        consequence="An empty batch comes back as one valid output, or as none.",
        source="_get_output_attention_mask of nemotron_asr_streaming",
        case=audio_case("nemotron_asr_streaming", mask=[[]]),
        on_refused=frozenset({"mask-empty"}),
    ),
    _difference(
        "transformers-negative-lengths-answered",
        meaning="A negative number of frames is put through the formula.",
        consequence="A mistake further up comes back as a plausible number.",
        source="_get_feat_extract_output_lengths of every family",
        case=audio_case("whisper", lengths=[-3]),
        on_refused=frozenset({"length-negative"}),
    ),
    _difference(
        "genai-clip-without-a-frame-crashes",
        engine="onnxruntime-genai",
        since="0.18",
        meaning="A clip too short for one frame (160 samples or fewer) ends the process, by a "
        "division by zero.",
        consequence="A click, or an empty recording, kills a server; no exception can be caught.",
        source="onnxruntime-extensions' Gemma4LogMel, by a WAV file of one sample",
        case=audio_case("gemma4", samples=[1]),
        sets={"frameless": "crash"},
    ),
)
