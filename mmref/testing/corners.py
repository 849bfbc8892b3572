"""Curated cases: corners that a generator reaches seldom or never."""

from __future__ import annotations

import numpy as np

from mmref.case import Case, Step
from mmref.differences.base import audio_case, fusion_case, small_case, token_case
from mmref.differences.omni import omni_case
from mmref.differences.rope import rope_append, rope_case
from mmref.fusion import FORMS

__all__ = [
    "audio_corners",
    "corners",
    "fusion_corners",
    "omni_corners",
    "rope_corners",
    "token_corners",
]

_REAL_IDS = {"image": 151655, "video": 151656, "vision_start": 151652, "vision_end": 151653}


def corners() -> dict[str, Case]:
    """Named corner cases of the positions subject.

    Returns
    -------
    dict of str to Case
        Name to case.

    Examples
    --------
    >>> corners()["one-token"].arrays["input_ids"].shape
    (1, 1)
    """
    second = [[1, 4, 4], [1, 4, 6]]
    long_text = [[20] * 20_000]
    images = [12, *[10] * 4, 13, 20] * 100
    found: dict[str, Case] = {
        "one-token": small_case([[20]], decode_steps=2),
        "text-only-batch": small_case([[20, 21, 22], [0, 0, 23]], mask=[[1, 1, 1], [0, 0, 1]]),
        "twenty-thousand-tokens": small_case(long_text, decode_steps=1),
        "hundred-images": small_case([images], images=[[1, 4, 4]] * 100, decode_steps=1),
        "long-video": small_case(
            [[12, *[11] * 2000, 13, 20]],
            videos=[[500, 4, 4]],
            seconds=np.array([0.7], np.float32),
            tokens_per_second=25.0,
        ),
        "wide-image": small_case([[12, *[10] * 8192, 13]], images=[[1, 2, 16384]]),
        "over-the-largest-grid": small_case([[12, *[10] * 8193, 13]], images=[[1, 2, 16386]]),
        "ends-in-image": small_case([[20, 12, *[10] * 6]], images=[[1, 4, 6]], decode_steps=2),
        "ends-in-vision-start": small_case([[20, 12]], decode_steps=1),
        "image-video-image": small_case(
            [[12, *[10] * 4, 13, 12, *[11] * 8, 13, 20, 12, *[10] * 6, 13]],
            images=second,
            videos=[[2, 4, 4]],
            decode_steps=2,
        ),
        "adjacent-images-one-block": small_case([[12, *[10] * 10, 13, 20]], images=second),
        "adjacent-images-own-blocks": small_case(
            [[12, *[10] * 4, 13, 12, *[10] * 6, 13]], images=second
        ),
        "no-boundary": small_case([[20, *[10] * 4, 21]], images=[[1, 4, 4]]),
        "text-after-vision-start": small_case([[12, 20, *[10] * 4, 13]], images=[[1, 4, 4]]),
        "pad-equals-eos-in-text": small_case([[20, 2, 21]], token_ids={"pad": 2}),
        "pad-equals-image": small_case(
            [[12, *[10] * 4, 13]], images=[[1, 4, 4]], token_ids={"pad": 10}
        ),
        "unset-pad": small_case([[20, 0, 21]], token_ids={"pad": 9}, unset=["pad"]),
        "unset-image": small_case([[12, 10, 10, 13]], images=[[1, 2, 4]], unset=["image"]),
        "real-token-ids": small_case(
            [[9707, 151652, *[151655] * 4, 151653, 374]], images=[[1, 4, 4]], token_ids=_REAL_IDS
        ),
        "hole-in-image": small_case(
            [[20, 12, 10, 0, 10, 10, 10, 13]],
            images=[[1, 4, 4]],
            mask=[[1, 1, 1, 0, 1, 1, 1, 1]],
            decode_steps=1,
        ),
        "hole-at-vision-start": small_case(
            [[20, 0, 10, 10, 13]], images=[[1, 2, 4]], mask=[[1, 0, 1, 1, 1]]
        ),
        "all-rows-masked": small_case([[0, 0], [0, 0]], mask=[[0, 0], [0, 0]], decode_steps=1),
        "frames-already-split": small_case(
            [[20, 12, 11, 13, 21, 12, 11, 13]], "qwen3_vl", videos=[[1, 2, 2], [1, 2, 2]]
        ),
        "frames-in-one-block": small_case(
            [[12, 11, 11, 13, 20, 20, 20]], "qwen3_vl", videos=[[2, 2, 2]]
        ),
        "image-between-videos": small_case(
            [[14, 12, 10, 13, 12, 10, 13, 15, 12, *[10] * 4, 13, 14, 12, 10, 13, 15]],
            "glm4v",
            images=[[1, 4, 4]],
            videos=[[2, 2, 2], [1, 2, 2]],
            token_ids={"video_start": 14, "video_end": 15},
        ),
        "alias": small_case([[20, 12, *[10] * 4, 13]], "fara", images=[[1, 4, 4]]),
        "seconds-of-many-videos": small_case(
            [[12, 11, 11, 13] * 5],
            videos=[[2, 2, 2]] * 5,
            seconds=np.array([0.25, 0.5, 0.74, 1.0, 1.26], np.float32),
        ),
        "batch-of-twenty": small_case(
            [[20, 12, 10, 10, 13]] * 20, images=[[1, 2, 4]] * 20, decode_steps=1
        ),
    }
    return found


def token_corners() -> dict[str, Case]:
    """Named corner cases of the tokens subject.

    Returns
    -------
    dict of str to Case
        Name to case.

    Examples
    --------
    >>> token_corners()["no-media"].texts
    ('a',)
    """
    start, image, video, end = (
        f"<|{name}|>" for name in ("vision_start", "image_pad", "video_pad", "vision_end")
    )
    block = f"{start}{image}{end}"
    square, wide = [56, 56], [56, 112]
    return {
        "no-media": token_case("a"),
        "bytes": token_case("é\u4f60\U0001f600\n\t "),
        "eight-images": token_case(f"{block}a" * 8, images=[square, wide] * 4),
        "start-alone": token_case(f"{start}a"),
        "video-placeholder-in-text": token_case(video),
        "no-end": token_case(f"{start}{image}a", images=[square]),
        "no-end-before-another": token_case(
            f"{start}{image}bc{start}{image}{end}d", images=[square, wide]
        ),
        "two-in-one-block": token_case(f"{start}{image}{image}{end}", images=[square]),
        "two-images-in-one-block": token_case(f"{start}{image}{image}{end}", images=[square, wide]),
        "end-before-start": token_case(f"{end}{block}", images=[square]),
        "halves": token_case(block * 3, images=[[14, 42], [70, 98], [126, 154]]),
        "upper-limit": token_case(block, images=[[1000, 1100]]),
        "thin": token_case(block, images=[[2, 400]]),
        "alias": token_case(block, "fara", images=[square]),
        "video-in-its-block": token_case(f"{start}{video}{end}", "qwen3_vl", videos=[[3, 56, 56]]),
        "odd-frames": token_case(
            f"a{video}b{image}", "qwen3_vl", images=[square], videos=[[5, 70, 90]], video_fps=29.97
        ),
        "video-then-image": token_case(
            "<|begin_of_video|><|video|><|end_of_video|><|image|><|end_of_image|>",
            "glm46v",
            images=[[100, 60]],
            videos=[[5, 60, 100]],
        ),
        "over-an-hour": token_case("<|video|>", "gemma4", videos=[[3, 90, 90]], video_fps=0.0005),
        "many-tiles": token_case("<|image|>", "phi4_multimodal", images=[[3000, 500]]),
        "clips-of-a-batch": token_case("<|audio_pad|>" * 3, "qwen3_asr", audio=[1, 8961, 16001]),
        "video-with-its-sound": token_case(
            "<|VIDEO|><|AUDIO|>",
            "qwen2_5_omni",
            videos=[[8, 56, 56]],
            audio=[40000, 2000],
            use_audio_in_video=1,
        ),
        "longest-edge": token_case("[IMG][IMG]", "mistral3", images=[[1541, 3], [3000, 2999]]),
    }


def fusion_corners() -> dict[str, Case]:
    """Named corner cases of the fusion subject.

    Returns
    -------
    dict of str to Case
        Name to case.

    Examples
    --------
    >>> fusion_corners()["text-only"].arrays["input_ids"].tolist()
    [[20]]
    """
    found = {
        "text-only": fusion_case([[20]]),
        "image-and-video": fusion_case(
            [[10, 11, 10, 20], [11, 20, 10, 10]], image_rows=4, video_rows=2
        ),
        "rows-of-different-counts": fusion_case([[10, 10, 20], [20, 20, 10]], image_rows=3),
        "a-row-without-media": fusion_case([[20, 20], [10, 10]], image_rows=2),
        "two-missing": fusion_case([[10, 10, 10]], image_rows=1),
        "second-turn": fusion_case([[10, 20, 10, 10]], image_rows=3, turn_start=2),
        "second-turn-of-text": fusion_case([[10, 10, 20, 20]], image_rows=2, turn_start=2),
        "video-between-markers": fusion_case([[14, 10, 10, 15]], "glm4v", video_rows=2),
        "equal-numbers-of-both": fusion_case(
            [[10, 14, 10, 15]], "glm4v", image_rows=2, video_rows=2
        ),
        "three-kinds": fusion_case(
            [[16, 10, 11, 16, 20, 10]], "gemma4", image_rows=2, video_rows=1, audio_rows=2
        ),
        "audio-with-wide-rows": fusion_case(
            [[16, 16]], "qwen2_audio", audio_rows=2, feature_width=8
        ),
        "audio-and-image": fusion_case(
            [[10, 16, 10, 16]], "phi4_multimodal", image_rows=2, audio_rows=2
        ),
        "one-column": fusion_case([[10, 10]], "phi4_multimodal", image_rows=2, feature_width=1),
        "alias": fusion_case([[10, 20]], "fara", image_rows=1),
    }
    wide = fusion_case([[10, 10, 20]], image_rows=2)
    for form in FORMS:
        found[f"form-{form}"] = wide.with_scalars(form=form)
        found[f"form-{form}-batch"] = fusion_case([[10], [10]], image_rows=2, form=form)
        found[f"form-{form}-missing"] = fusion_case([[10, 10]], image_rows=1, form=form)
    return found


def audio_corners() -> dict[str, Case]:
    """Named corner cases of the audio subject.

    Returns
    -------
    dict of str to Case
        Name to case.

    Examples
    --------
    >>> audio_corners()["window-boundaries"].family
    'qwen3_omni_moe'
    """
    last = 2**24
    return {
        "window-boundaries": audio_case(
            "qwen3_omni_moe", lengths=[0, 1, 99, 100, 101, 199, 200, 3000, 3001]
        ),
        "two-steps-of-few": audio_case("qwen2_audio", lengths=[0, 1, 2, 3, 4, 3000]),
        "whisper-thirty-seconds": audio_case("whisper", lengths=[0, 1, 2999, 3000]),
        "powers-of-two": audio_case("parakeet_ctc", lengths=[last - 1, last, last + 2]),
        "causal-steps": audio_case("nemotron_asr_streaming", lengths=[0, 1, 2, 7, 8, 9, 16]),
        "waveform-of-few": audio_case("wav2vec2", lengths=[0, 9, 10, 399, 400, 401]),
        "moonshine-of-few": audio_case("moonshine", lengths=[0, 63, 126, 127, 574, 575, 895]),
        "holes": audio_case("gemma4", mask=[[0, 1, 1, 1, 0, 0, 0, 1], [1, 0] * 4]),
        "holes-of-sixteen": audio_case("gemma3n", mask=[[1, 0] * 20, [0] * 40]),
        "one-row-of-padding": audio_case("wav2vec2", mask=[[1] * 800, [0] * 800]),
        "too-few-for-an-index": audio_case("wav2vec2", mask=[[1] * 400, [0] * 400]),
        "rows-of-padding": audio_case("seamless_m4t", mask=[[0] * 9, [1] * 9]),
        "sliced-by-384": audio_case("moonshine", mask=[[1] * 1000 + [0] * 1000]),
        "samples-around-a-frame": audio_case(
            "gemma4", samples=[160, 161, 320, 321, 400, 16000, 16001]
        ),
        "samples-around-a-block": audio_case("granite_speech", samples=[0, 159, 160, 4799, 4800]),
    }


def omni_corners() -> dict[str, Case]:
    """Named corner cases of the omni subject.

    Returns
    -------
    dict of str to Case
        Name to case.

    Examples
    --------
    >>> omni_corners()["text-alone"].subject
    'omni'
    """
    clip, still = [15, 14, 16], [12, 10, 13]
    sounding = [20, 12, 15, *([11] * 9), 14, 14, 16, 13, 21]
    return {
        "text-alone": omni_case([[20, 21]]),
        "clip-alone": omni_case([[20, *clip, 21]], lengths=[4]),
        "clip-of-a-window": omni_case([[15, *([14] * 13), 16]], "qwen3_omni_moe", lengths=[100]),
        "still-and-clip": omni_case([[*still, *clip, 20]], images=[[1, 2, 2]], lengths=[4]),
        "silent-video": omni_case(
            [[12, 11, 11, 13, 20]], "qwen3_omni_moe", videos=[[2, 2, 2]], seconds=[0.5]
        ),
        "sounding-video": omni_case(
            [sounding], videos=[[1, 6, 6]], seconds=[2.0], lengths=[8], in_video=True
        ),
    }


def rope_corners() -> dict[str, Case]:
    """Named corner cases of the rope subject.

    Returns
    -------
    dict of str to Case
        Name to case.

    Examples
    --------
    >>> rope_corners()["one-token"].subject
    'rope'
    """
    return {
        "one-token": rope_case([[20]], decode_steps=2),
        "left-padding": rope_case(
            [[0, 0, 20], [20, 21, 22]], mask=[[0, 0, 1], [1, 1, 1]], decode_steps=2
        ),
        "right-padding": rope_case(
            [[20, 0, 0], [20, 21, 22]], "gemma3", mask=[[1, 0, 0], [1, 1, 1]], decode_steps=2
        ),
        "ends-in-the-pad-id": rope_case([[20, 0], [20, 21]], "mistral3", decode_steps=1),
        "nothing-but-padding": rope_case([[0, 0]], mask=[[0, 0]]),
        "image-is-numbered-like-text": rope_case([[20, 10, 10, 21]], "gemma4", decode_steps=1),
        "windows-that-fit": rope_case([[20, 21, 22, 23]], window=2, decode_steps=2),
        "windows-aligned-right": rope_case(
            [[20, 21, 22]], window=2, window_alignment="right", decode_steps=2
        ),
        "taken-back-after-a-repeat": rope_case(
            [[20, 20]],
            steps=(Step("rewind", 1), Step("generate", 1), Step("rewind", 2), rope_append([20])),
        ),
        "windows-and-turns": rope_case(
            [[20, 21, 22]], window=2, steps=(Step("generate", 3), rope_append([23, 24, 25]))
        ),
    }
