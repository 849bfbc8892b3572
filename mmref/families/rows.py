"""The table of families. Adding a family that follows known rules is adding a row."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from mmref.families import encoders, expansions, fusing
from mmref.families.audio import Audio
from mmref.families.fusing import Fusing
from mmref.families.media import Media
from mmref.families.row import Family, TokenIds

__all__ = ["ALIASES", "ROWS"]

# Qwen2-VL to Qwen3-VL share one tokenizer. <|endoftext|> pads, <|im_end|> ends a turn
# (tokenizer_config.json of the released checkpoints; the config classes leave pad unset).
_QWEN = TokenIds(
    image=151655,
    video=151656,
    vision_start=151652,
    vision_end=151653,
    pad=151643,
    eos=151645,
)
_QWEN3_5 = TokenIds(image=248056, video=248057, vision_start=248053, vision_end=248054)
_PADDLE = TokenIds(image=100295, video=100296, vision_start=101305, vision_end=101306, pad=0, eos=2)
_QWEN2_5_OMNI = replace(_QWEN, audio=151646, audio_start=151647, audio_end=151648)
_QWEN3_OMNI = replace(_QWEN, audio=151675, audio_start=151669, audio_end=151670)


def _glm(image: int, video: int, first_marker: int, video_start: int) -> TokenIds:
    return TokenIds(
        image=image,
        video=video,
        vision_start=first_marker,
        vision_end=first_marker + 1,
        video_start=video_start,
        video_end=video_start + 1,
    )


def _whole(
    name: str,
    token_ids: TokenIds,
    transformers_class: str,
    media: Media,
    since: str,
    group: Fusing = fusing.IMAGE_THEN_VIDEO,
) -> Family:
    """Groups M1: a video is one item, its time axis counts grid steps."""
    return Family(
        name=name,
        media_kinds="by_id",
        video_frames="whole",
        time="index",
        spatial_merge_size=2,
        tokens_per_second=None,
        token_ids=token_ids,
        transformers_class=transformers_class,
        genai_type=None,
        source=f"transformers.models.{name}",
        media=media,
        fusing=fusing.of_model(group, name, transformers_class),
        transformers_since=since,
    )


def _split(
    name: str,
    token_ids: TokenIds,
    transformers_class: str,
    media: Media,
    since: str,
    genai_type: str | None = None,
    *,
    markers: bool = False,
    group: Fusing = fusing.IMAGE_THEN_VIDEO,
) -> Family:
    """Group M3: every frame of a video is an item of its own, between timestamps."""
    return Family(
        name=name,
        media_kinds="by_video_markers" if markers else "by_id",
        video_frames="split",
        time="index",
        spatial_merge_size=2,
        tokens_per_second=None,
        token_ids=token_ids,
        transformers_class=transformers_class,
        genai_type=genai_type,
        source=f"transformers.models.{name}",
        media=media,
        fusing=fusing.of_model(fusing.SHARED_ID if markers else group, name, transformers_class),
        transformers_since=since,
    )


def _text_positions(
    name: str,
    token_ids: TokenIds,
    media: Media,
    group: Fusing = fusing.NONE,
    merging_class: str = "",
    audio: Audio | None = None,
) -> Family:
    """Families whose tokens are numbered like text: no 3-D positions, only placeholders."""
    return Family(
        name=name,
        media_kinds="by_id",
        video_frames="whole",
        time="index",
        spatial_merge_size=1,
        tokens_per_second=None,
        token_ids=token_ids,
        transformers_class="",
        genai_type=None,
        source=f"transformers.models.{name}",
        media=media,
        positions="1d",
        fusing=fusing.of_model(group, name, merging_class) if merging_class else group,
        audio=audio,
    )


def _speech(
    name: str,
    audio: Audio,
    module: str = "",
    media: Media | None = None,
    token_ids: TokenIds | None = None,
) -> Family:
    """Families of which only the audio is described."""
    row = _text_positions(name, token_ids or TokenIds(), media or Media(), audio=audio)
    return replace(row, source=f"transformers.models.{module or name}", positions="none")


def _text(name: str, pad: int | None = None, eos: int | None = None, module: str = "") -> Family:
    """Text models: 1-D positions, nothing else."""
    row = _text_positions(name, TokenIds(pad=pad, eos=eos), Media())
    return replace(row, source=f"transformers.models.{module or name}")


def _omni(
    name: str,
    token_ids: TokenIds,
    audio: Audio,
    tokens_per_second: float,
    audio_in_video: Literal["chunks", "merge"],
    media: Media,
) -> Family:
    """Groups M9 and M10: 3-D positions of prompts that also hold audio."""
    return replace(
        _speech(name, audio, media=media),
        time="seconds",
        spatial_merge_size=2,
        tokens_per_second=tokens_per_second,
        token_ids=token_ids,
        positions="omni",
        audio_in_video=audio_in_video,
    )


ROWS: tuple[Family, ...] = (
    _whole("qwen2_vl", _QWEN, "Qwen2VLModel", expansions.QWEN2, "4.49"),
    _whole("paddleocr_vl", _PADDLE, "PaddleOCRVLModel", expansions.PADDLE, "5.0", fusing.ONE_KIND),
    Family(
        name="qwen2_5_vl",
        media_kinds="by_id",
        video_frames="whole",
        time="seconds",
        spatial_merge_size=2,
        tokens_per_second=2.0,  # the released checkpoints; the config class says 4
        token_ids=_QWEN,
        transformers_class="Qwen2_5_VLModel",
        genai_type="qwen2_5_vl",
        source="transformers.models.qwen2_5_vl",
        media=expansions.QWEN2_5,
        fusing=fusing.of_model(fusing.IMAGE_THEN_VIDEO, "qwen2_5_vl", "Qwen2_5_VLModel"),
    ),
    _split(
        "qwen3_vl",
        _QWEN,
        "Qwen3VLModel",
        expansions.QWEN3,
        "4.57",
        "qwen3_vl",
        group=fusing.DEEPSTACK,
    ),
    _split(
        "qwen3_vl_moe", _QWEN, "Qwen3VLMoeModel", expansions.QWEN3, "4.57", group=fusing.DEEPSTACK
    ),
    _split("qwen3_5", _QWEN3_5, "Qwen3_5Model", expansions.QWEN3, "5.2", "qwen3_5"),
    _split("qwen3_5_moe", _QWEN3_5, "Qwen3_5MoeModel", expansions.QWEN3, "5.2", "qwen3_5_moe"),
    _split(
        "glm4v",
        _glm(151343, 151344, 151339, 151341),
        "Glm4vModel",
        expansions.GLM4V,
        "4.57",
        markers=True,
    ),
    _split(
        "glm4v_moe",
        _glm(151363, 151364, 151339, 151341),
        "Glm4vMoeModel",
        expansions.GLM4V,
        "4.57",
        markers=True,
    ),
    _split(
        "glm46v",
        _glm(151343, 151344, 151339, 151361),
        "Glm46VModel",
        expansions.GLM46V,
        "5.0",
        markers=True,
    ),
    # glm_ocr's checkpoint names GLM-4.6V's processor
    _split(
        "glm_ocr",
        _glm(59280, 59281, 59256, 59258),
        "GlmOcrModel",
        expansions.GLM46V,
        "5.2",
        markers=True,
    ),
    _text_positions(
        "gemma3",
        TokenIds(image=262144, vision_start=255999, vision_end=256000, pad=0, eos=1),
        expansions.GEMMA3,
        fusing.GEMMA3,
        "Gemma3Model",
    ),
    _text_positions(
        "gemma4",
        TokenIds(
            image=258880,
            video=258884,
            audio=258881,
            vision_start=255999,
            vision_end=258882,
            audio_start=256000,
            audio_end=258883,
            pad=0,
            eos=1,
        ),
        expansions.GEMMA4,
        fusing.GEMMA4,
        "Gemma4Model",
        encoders.GEMMA4,
    ),
    _text_positions(
        "gemma3n",
        TokenIds(
            image=262145,
            audio=262273,
            vision_start=255999,
            vision_end=262144,
            audio_start=256000,
            audio_end=262272,
            pad=0,
            eos=1,
        ),
        expansions.GEMMA3N,
        fusing.GEMMA3N,
        "Gemma3nModel",
        encoders.GEMMA3N,
    ),
    _text_positions(
        "llava", TokenIds(image=32000), expansions.LLAVA, fusing.ONE_KIND, "LlavaModel"
    ),
    _text_positions("llava_next", TokenIds(image=32000), expansions.LLAVA_NEXT),
    # ids of <img> and </img>: the released tokenizers
    _text_positions(
        "internvl",
        TokenIds(image=151667, vision_start=151665, vision_end=151666, pad=151643, eos=151645),
        expansions.INTERNVL,
    ),
    _text_positions(
        "qwen2_audio",
        TokenIds(audio=151646, audio_start=151647, audio_end=151648),
        expansions.QWEN2_AUDIO,
        fusing.AUDIO,
        "Qwen2AudioModel",
        encoders.TWO_STEPS,
    ),
    # ids of [IMG], [IMG_BREAK] and [IMG_END]: the released tokenizers
    _text_positions(
        "mistral3",
        TokenIds(image=10, row_break=12, vision_end=13),
        expansions.MISTRAL3,
        fusing.ONE_KIND,
        "Mistral3Model",
    ),
    _text_positions("pixtral", TokenIds(image=10, row_break=12, vision_end=13), expansions.PIXTRAL),
    _text_positions(
        "phi4_multimodal",
        TokenIds(image=200010, audio=200011, pad=199999),
        expansions.PHI4,
        fusing.TWO_COPIES,
        "Phi4MultimodalFeatureEmbedding",
        encoders.PHI4,
    ),
    # encoder and decoder: audio goes through cross attention, the prompt holds no placeholder
    replace(_speech("whisper", encoders.WHISPER), token_ids=TokenIds(pad=50256, eos=50256)),
    _text("llama"),
    _text("qwen3", pad=151643, eos=151645),
    _text("phi3", pad=32000, eos=32000),
    _text("gemma3_text", pad=0, eos=1, module="gemma3"),
    _omni(
        "qwen2_5_omni",
        _QWEN2_5_OMNI,
        encoders.TWO_STEPS_LONG,
        25.0,
        "chunks",
        expansions.QWEN2_5_OMNI,
    ),
    _speech(
        "audioflamingo3",
        encoders.TEN_MINUTES,
        media=expansions.AUDIO_FLAMINGO,
        token_ids=TokenIds(audio=151669),
    ),
    _speech(
        "musicflamingo",
        encoders.TEN_MINUTES,
        media=expansions.MUSIC_FLAMINGO,
        token_ids=TokenIds(audio=151669, audio_start=151670, audio_end=151671),
    ),
    _speech("voxtral", encoders.VOXTRAL),
    # positions a second: the processor and the released checkpoints; the config class says 25
    _omni(
        "qwen3_omni_moe", _QWEN3_OMNI, encoders.WINDOWS_OF_100, 13.0, "merge", expansions.QWEN3_OMNI
    ),
    _speech(
        "qwen3_asr",
        encoders.WINDOWS_OF_100_ASR,
        media=expansions.QWEN3_ASR,
        token_ids=TokenIds(audio=151676),
    ),
    _speech("parakeet_ctc", encoders.PARAKEET, "parakeet"),
    _speech("nemotron_asr_streaming", encoders.NEMOTRON),
    _speech("nemotron3_5_asr", encoders.NEMOTRON),
    _speech("wav2vec2", encoders.WAV2VEC2),
    _speech("wav2vec2-conformer", encoders.WAV2VEC2, "wav2vec2_conformer"),
    _speech("wavlm", encoders.WAV2VEC2),
    _speech("data2vec-audio", encoders.WAV2VEC2, "data2vec"),
    _speech("hubert", encoders.WAV2VEC2),
    _speech("unispeech", encoders.WAV2VEC2),
    _speech("unispeech-sat", encoders.WAV2VEC2, "unispeech_sat"),
    _speech("speecht5", encoders.WAV2VEC2),
    _speech("sew", encoders.SEW),
    _speech("sew-d", encoders.SEW, "sew_d"),
    _speech("speech_to_text", encoders.SPEECH_TO_TEXT),
    _speech("wav2vec2-bert", encoders.WAV2VEC2_BERT, "wav2vec2_bert"),
    _speech("seamless_m4t", encoders.SEAMLESS),
    _speech("seamless_m4t_v2", encoders.SEAMLESS),
    _speech("moonshine", encoders.MOONSHINE),
    _speech("moonshine_streaming", encoders.MOONSHINE_STREAMING),
    _speech(
        "granite_speech",
        encoders.GRANITE,
        media=expansions.GRANITE,
        token_ids=TokenIds(audio=49155),
    ),
)

ALIASES: dict[str, str] = {
    "fara": "qwen2_5_vl",  # ONNX Runtime GenAI's model type of a Qwen2.5-VL derivative
    "phi4mm": "phi4_multimodal",  # ONNX Runtime GenAI's model type
    "parakeet_tdt": "parakeet_ctc",  # one encoder, other decoders
    "parakeet_rnnt": "parakeet_ctc",
}
