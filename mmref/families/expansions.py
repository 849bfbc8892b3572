"""The groups of `Media` that family rows name.

Limits are those of the processor classes in transformers 5.24; a checkpoint's
preprocessor_config.json may set others, which `mmref.vision.resize` takes as arguments.
"""

from __future__ import annotations

from dataclasses import replace

from mmref.families.media import Media, Resize, Sampling

_QWEN_TEXTS = (
    ("image", "<|image_pad|>"),
    ("video", "<|video_pad|>"),
    ("vision_start", "<|vision_start|>"),
    ("vision_end", "<|vision_end|>"),
)

_AUDIO_TEXTS = (
    ("audio", "<|audio_pad|>"),
    ("audio_start", "<|audio_start|>"),
    ("audio_end", "<|audio_end|>"),
)
# Qwen2-Audio and Qwen2.5-Omni spell the same ids in another way
_OLDER_AUDIO_TEXTS = (
    ("audio", "<|AUDIO|>"),
    ("audio_start", "<|audio_bos|>"),
    ("audio_end", "<|audio_eos|>"),
)

QWEN2 = Media(
    image_resize=Resize("area", 14, min_pixels=56 * 56, max_pixels=28 * 28 * 1280),
    video_resize=Resize("area", 14, min_pixels=128 * 28 * 28, max_pixels=28 * 28 * 768),
    image_form="run",
    video_form="run",
    texts=_QWEN_TEXTS,
    boundary="prompt",
    processor="qwen2_vl.processing_qwen2_vl:Qwen2VLProcessor",
    # the class samples nothing unless it is told to
    sampling=Sampling("by_step", min_frames=4, max_frames=768),
)
QWEN2_5 = replace(QWEN2, processor="qwen2_5_vl.processing_qwen2_5_vl:Qwen2_5_VLProcessor")
QWEN3 = Media(
    # the image processor is Qwen2-VL's; the checkpoints set its patch to 16
    image_resize=Resize("area", 16, min_pixels=56 * 56, max_pixels=28 * 28 * 1280),
    video_resize=Resize("area_frames", 16, min_pixels=128 * 32 * 32, max_pixels=32 * 32 * 768),
    image_form="run",
    video_form="seconds_first",
    seconds_format="<{:.1f} seconds>",
    texts=_QWEN_TEXTS,
    boundary="prompt",
    processor="qwen3_vl.processing_qwen3_vl:Qwen3VLProcessor",
    sampling=Sampling("spread", 2, min_frames=4, max_frames=768),
)
PADDLE = Media(
    image_resize=Resize(
        "area_lifted", 14, temporal_patch_size=1, min_pixels=384 * 384, max_pixels=1536 * 1536
    ),
    image_form="run",
    texts=(("image", "<|IMAGE_PLACEHOLDER|>"),),
    boundary="prompt",
    processor="paddleocr_vl.processing_paddleocr_vl:PaddleOCRVLProcessor",
)
GLM4V = Media(
    image_resize=Resize("area_frames", 14, min_pixels=112 * 112, max_pixels=28 * 28 * 15000),
    video_resize=Resize("area_frames", 14, min_pixels=112 * 112, max_pixels=28 * 28 * 2 * 30000),
    image_form="run",
    video_form="seconds_last",
    seconds_format="{:d}",  # the whole part
    texts=(
        ("image", "<|image|>"),
        ("video", "<|video|>"),
        ("vision_start", "<|begin_of_image|>"),
        ("vision_end", "<|end_of_image|>"),
        ("video_start", "<|begin_of_video|>"),
        ("video_end", "<|end_of_video|>"),
    ),
    boundary="prompt",
    processor="glm4v.processing_glm4v:Glm4vProcessor",
    sampling=Sampling("by_seconds", 2, max_seconds=300),
)
GLM46V = replace(
    GLM4V,
    seconds_format="{:.1f} seconds",
    processor="glm46v.processing_glm46v:Glm46VProcessor",
    sampling=Sampling("by_length", max_frames=640, max_seconds=2400),
)
GEMMA3 = Media(
    # the class default of the side is 224; the released checkpoints say 896
    image_resize=Resize("fixed", 14, 4, 1, min_pixels=896, max_pixels=896, max_tokens=256),
    image_form="paragraph",
    texts=(
        ("image", "<image_soft_token>"),
        ("vision_start", "<start_of_image>"),
        ("vision_end", "<end_of_image>"),
    ),
    boundary="expansion",
    processor="gemma3.processing_gemma3:Gemma3Processor",
)
GEMMA4 = Media(
    image_resize=Resize("patch_budget", 16, 3, 1, max_tokens=280),
    video_resize=Resize("patch_budget", 16, 3, 1, max_tokens=70),
    image_form="wrapped",
    video_form="clock",
    audio_form="wrapped",
    texts=(
        ("image", "<|image|>"),
        ("video", "<|video|>"),
        ("vision_start", "<|image>"),
        ("vision_end", "<image|>"),
        ("audio", "<|audio|>"),
        ("audio_start", "<|audio>"),
        ("audio_end", "<audio|>"),
    ),
    boundary="expansion",
    processor="gemma4.processing_gemma4:Gemma4Processor",
)
PIXTRAL = Media(
    image_resize=Resize("longest_edge", 16, 1, 1, max_pixels=1024),
    image_form="rows",
    texts=(("image", "[IMG]"), ("row_break", "[IMG_BREAK]"), ("vision_end", "[IMG_END]")),
    boundary="expansion",
    processor="pixtral.processing_pixtral:PixtralProcessor",
)
MISTRAL3 = replace(
    PIXTRAL,
    # the checkpoints' processor_config.json: patch 14, merged by 2, longest edge 1540
    image_resize=Resize("longest_edge", 14, 2, 1, max_pixels=1540),
)
PHI4 = Media(
    image_resize=Resize("tiles", 14, 2, 1, min_pixels=448, max_pixels=448, max_tokens=36),
    image_form="run",
    audio_form="run",
    texts=(("image", "<|image|>"), ("audio", "<|audio|>")),
    processor="phi4_multimodal.processing_phi4_multimodal:Phi4MultimodalProcessor",
)

QWEN2_5_OMNI = replace(
    QWEN2,
    audio_form="run",
    texts=(
        ("image", "<|IMAGE|>"),
        ("video", "<|VIDEO|>"),
        ("vision_start", "<|vision_bos|>"),
        ("vision_end", "<|vision_eos|>"),
        *_OLDER_AUDIO_TEXTS,
    ),
    processor="qwen2_5_omni.processing_qwen2_5_omni:Qwen2_5OmniProcessor",
)
QWEN3_OMNI = replace(
    QWEN2,
    # the processors are Qwen2-VL's; the checkpoints set their patch to 16
    image_resize=Resize("area", 16, min_pixels=56 * 56, max_pixels=28 * 28 * 1280),
    video_resize=Resize("area", 16, min_pixels=128 * 32 * 32, max_pixels=32 * 32 * 768),
    audio_form="run",
    texts=(*_QWEN_TEXTS, *_AUDIO_TEXTS),
    processor="qwen3_omni_moe.processing_qwen3_omni_moe:Qwen3OmniMoeProcessor",
)
# only the clips of these are described
QWEN2_AUDIO = Media(
    audio_form="run",
    texts=_OLDER_AUDIO_TEXTS,
    boundary="prompt",
    processor="qwen2_audio.processing_qwen2_audio:Qwen2AudioProcessor",
)
QWEN3_ASR = Media(
    audio_form="run",
    texts=_AUDIO_TEXTS,
    boundary="prompt",
    processor="qwen3_asr.processing_qwen3_asr:Qwen3ASRProcessor",
)
AUDIO_FLAMINGO = Media(
    audio_form="run",
    texts=(("audio", "<sound>"),),
    processor="audioflamingo3.processing_audioflamingo3:AudioFlamingo3Processor",
)
MUSIC_FLAMINGO = Media(
    audio_form="wrapped",
    texts=(
        ("audio", "<sound>"),
        ("audio_start", "<|sound_bos|>"),
        ("audio_end", "<|sound_eos|>"),
    ),
    boundary="expansion",
    processor="musicflamingo.processing_musicflamingo:MusicFlamingoProcessor",
)
GEMMA3N = Media(
    audio_form="paragraph",
    texts=(
        ("audio", "<audio_soft_token>"),
        ("audio_start", "<start_of_audio>"),
        ("audio_end", "<end_of_audio>"),
    ),
    boundary="expansion",
    processor="gemma3n.processing_gemma3n:Gemma3nProcessor",
)
GRANITE = Media(
    audio_form="run",
    texts=(("audio", "<|audio|>"),),
    processor="granite_speech.processing_granite_speech:GraniteSpeechProcessor",
)
# the released checkpoints of the following say: tiles of 336 and 448, a patch of 14
LLAVA = Media(
    # one place of the class token is added, and taken away again
    image_resize=Resize("fixed", 14, 1, 1, min_pixels=336, max_pixels=336, max_tokens=24 * 24),
    image_form="run",
    texts=(("image", "<image>"),),
    processor="llava.processing_llava:LlavaProcessor",
)
LLAVA_NEXT = replace(
    LLAVA,
    image_resize=Resize(
        "best_fit",
        14,
        1,
        1,
        min_pixels=336,
        max_pixels=336,
        tilings=((2, 1), (1, 2), (2, 2), (1, 3), (3, 1)),
    ),
    processor="llava_next.processing_llava_next:LlavaNextProcessor",
)
INTERNVL = Media(
    image_resize=Resize("canvas", 14, 2, 1, min_pixels=448, max_pixels=448, max_tokens=12),
    image_form="enclosed",
    texts=(("image", "<IMG_CONTEXT>"), ("vision_start", "<img>"), ("vision_end", "</img>")),
    boundary="expansion",
    processor="internvl.processing_internvl:InternVLProcessor",
)
