"""Tokens and sizes by hand, and every refusal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support import assert_same

from mmref import families, layout, mrope, tokens, vision
from mmref.errors import RefusedMedia, RefusedPrompt, UnknownName
from mmref.families import TokenIds

IDS = TokenIds(
    image=10, video=11, vision_start=12, vision_end=13, video_start=14, video_end=15, row_break=16
)


def spell(text: str) -> list[int]:
    return [100 + byte for byte in text.encode()]


def test_sizes_by_hand() -> None:
    # halves go to the even multiple: 42 / 28 = 1.5 -> 2, 70 / 28 = 2.5 -> 2, 98 / 28 = 3.5 -> 4
    for side, expected in ((42, 56), (70, 56), (98, 112)):
        assert vision.resize(side, side, family="qwen2_vl").height == expected
    # a thin picture at a tight limit keeps one factor: 31 x 639 at 20 tokens
    thin = vision.resize(31, 639, family="qwen2_vl", max_pixels=20 * 28 * 28)
    assert (thin.height, thin.width, thin.tokens) == (28, 560, 20)
    # upwards the limit is not looked at again
    tight = vision.resize(10, 15, family="qwen2_vl", min_pixels=3136, max_pixels=3136)
    assert (tight.height, tight.width) == (56, 84)
    # 16 frames of 720 x 1280 share 786,432 pixels
    video = vision.resize(720, 1280, family="qwen3_vl", frames=16)
    assert video == vision.Resized(160, 288, (8, 10, 18), 360)
    # an odd frame fills a step of its own
    assert vision.resize(56, 56, family="qwen2_vl", frames=5, min_pixels=1).grid_thw == (3, 4, 4)
    assert vision.resize(480, 640, family="gemma4").tokens == 266
    # 4 rows of 5 and a break each, the last one the image's end
    assert vision.resize(64, 80, family="pixtral").tokens == 24


def test_the_forms_by_hand() -> None:
    grid: dict[str, Any] = {"image_grid_thw": [[1, 4, 4]]}
    square = "<|image_pad|>" * 4
    assert tokens.expand("a<|image_pad|>b", family="qwen2_5_vl", **grid).text == f"a{square}b"
    assert tokens.expand(["a", "<|image_pad|>"], family="qwen2_5_vl", **grid).text == ["a", square]
    rows = tokens.expand("[IMG]", family="pixtral", images=[(32, 48)]).text
    assert rows == "[IMG][IMG][IMG][IMG_BREAK][IMG][IMG][IMG][IMG_END]"
    video: dict[str, Any] = {"video_grid_thw": [[2, 2, 2]], "frame_seconds": [[0, 0.5, 1, 1.5]]}
    one = "<|vision_start|><|video_pad|><|vision_end|>"
    qwen = tokens.expand("<|video_pad|>", family="qwen3_vl", **video).text
    assert qwen == f"<0.2 seconds>{one}<1.2 seconds>{one}"  # 0.25 and 1.25, halves to even
    frame = "<|begin_of_image|><|image|><|end_of_image|>"
    marked = "<|begin_of_video|><|video|><|end_of_video|>"
    glm = tokens.expand(marked, family="glm4v", **video).text
    assert glm == f"<|begin_of_video|>{frame}0{frame}1<|end_of_video|>"
    glm = tokens.expand(marked, family="glm46v", **video).text
    assert glm == f"<|begin_of_video|>{frame}0.0 seconds{frame}1.0 seconds<|end_of_video|>"
    gemma = tokens.expand("<start_of_image>", family="gemma3", images=[(9, 9)]).text
    soft = "<image_soft_token>" * 256
    assert gemma == f"\n\n<start_of_image>{soft}<end_of_image>\n\n"
    clock = tokens.expand(
        "<|video|>", family="gemma4", video_grid_thw=[[2, 3, 3]], frame_seconds=[[59.9, 3600]]
    ).text
    assert clock == "00:59 <|image><|video|><image|> 60:00 <|image><|video|><image|>"


def test_clips_by_hand() -> None:
    # 2000 samples: 13 frames, 7 after the convolution, 3 after pairs
    assert tokens.expand("a<|AUDIO|>", family="qwen2_audio", audio=[2000]).text == (
        "a<|AUDIO|><|AUDIO|><|AUDIO|>"
    )
    gemma = tokens.expand("<|audio|>", family="gemma4", audio_lengths=[5]).text
    assert gemma == "<|audio><|audio|><|audio|><audio|>"
    fixed = tokens.expand("<audio_soft_token>", family="gemma3n", audio=[1]).text
    soft = "<audio_soft_token>" * 188
    assert fixed == f"\n\n<start_of_audio>{soft}<end_of_audio>\n\n"
    # half a second at least: 50 frames, ceil(50 / 8) = 7 tokens
    assert tokens.count("qwen3_asr", audio=[1, 8000, 8961]).audio == (7, 7, 7)
    for family in ("voxtral", "whisper", "parakeet_ctc"):
        with pytest.raises(RefusedMedia, match="kind-not-supported"):
            tokens.expand("a", family=family, audio=[16000])


def test_a_video_with_its_own_sound_by_hand() -> None:
    """Half a second is 6.5 positions; a grid step stands before the sound of its time."""
    media: dict[str, Any] = {
        "family": "qwen3_omni_moe",
        "video_grid_thw": [[2, 2, 2]],
        "second_per_grid_ts": [0.5],
        "audio_lengths": [64],
        "use_audio_in_video": True,
    }
    prompt = "<|vision_start|><|video_pad|><|vision_end|>"
    found = tokens.expand(prompt, **media).text
    sound = "<|audio_pad|>"
    mixed = f"<|video_pad|>{sound * 7}<|video_pad|>{sound}"
    assert found == f"<|vision_start|><|audio_start|>{mixed}<|audio_end|><|vision_end|>"
    assert tokens.collapse(found, **media) == prompt
    ids = families.get("qwen3_omni_moe").token_ids
    expanded = tokens.expand([[ids.vision_start, ids.video, ids.vision_end]], **media)
    assert expanded.mm_token_type_ids is not None
    assert expanded.mm_token_type_ids[0].tolist() == [0, 0, 2, *[3] * 7, 2, 3, 0, 0]
    assert expanded.layout is not None
    assert [(span.kind, span.item, span.tokens) for span in expanded.layout] == [
        ("text", -1, 2), ("video", 0, 1), ("audio", 0, 7), ("video", 0, 1), ("audio", 0, 1),
        ("text", -1, 2),
    ]  # fmt: skip
    placed = mrope.position_ids(**expanded.position_arguments)
    # start tokens 0 and 1; video at 2 and 2 + 6.5, sound from 2 on
    assert placed.position_ids[0, 0].tolist() == [0, 1, 2, *range(2, 9), 8.5, 9, 10, 11]
    with pytest.raises(RefusedMedia, match="not-an-expansion"):
        tokens.collapse(found.replace(sound, "", 1), **media)


def test_types_and_layout_by_hand() -> None:
    found = tokens.expand(
        [[5, 12, 10, 13], [6, 11]],
        family="qwen2_vl",
        image_grid_thw=[[1, 4, 4]],
        video_grid_thw=[[2, 2, 4]],
        token_ids=IDS,
    )
    assert found.input_ids is not None
    assert found.mm_token_type_ids is not None
    expected = np.array([[5, 12, 10, 10, 10, 10, 13], [6, 11, 11, 11, 11, 0, 0]])
    assert_same(expected, found.input_ids)
    expected = np.array([[0, 0, 1, 1, 1, 1, 0], [0, 2, 2, 2, 2, 0, 0]])
    assert_same(expected, found.mm_token_type_ids)
    assert found.layout is not None
    assert [(span.kind, span.start, span.stop) for span in found.layout] == [
        ("text", 0, 2), ("image", 2, 6), ("text", 6, 7), ("text", 0, 1), ("video", 1, 5),
    ]  # fmt: skip
    assert found.boundary == "prompt"


def test_counts() -> None:
    found = tokens.count("qwen2_5_vl", images=[(100, 100)], videos=[(4, 100, 100)])
    assert found.images == (16,)
    assert found.total == 16 + sum(found.videos)


def test_families_without_3d_positions_are_refused_by_positions() -> None:
    for call in (mrope.position_ids, layout.scan):
        with pytest.raises(RefusedPrompt, match="family-without-3d-positions"):
            call([1, 2], family="gemma3")


def test_families_that_write_boundaries_say_so() -> None:
    for name in families.names("tokens"):
        assert families.get(name).media.boundary in ("prompt", "expansion", "none")
    assert families.get("phi4_multimodal").media.boundary == "none"


def test_literal_placeholders_in_user_text_are_kept_apart_by_id() -> None:
    """The same characters as ordinary tokens are text; as text they are a placeholder."""
    literal = spell("<|image_pad|>")
    found = tokens.expand(
        [*literal, 10], family="qwen2_vl", image_grid_thw=[[1, 2, 2]], token_ids=IDS
    )
    assert found.input_ids is not None
    assert found.input_ids[0].tolist() == [*literal, 10]
    with pytest.raises(RefusedMedia, match="character 14") as raised:
        tokens.expand("<|image_pad|> <|image_pad|>", family="qwen2_vl", image_grid_thw=[[1, 2, 2]])
    assert raised.value.code == "more-placeholders-than-items"


GRID: dict[str, Any] = {"image_grid_thw": [[1, 2, 2]]}
QWEN: dict[str, Any] = {"family": "qwen2_vl", "token_ids": IDS}
SOUNDING: dict[str, Any] = {
    "family": "qwen2_5_omni",
    "video_grid_thw": [[1, 2, 2]],
    "use_audio_in_video": True,
}
REFUSED: list[tuple[str, Callable[[], Any]]] = [
    ("size-not-positive", lambda: vision.resize(0, 5, family="qwen2_vl")),
    ("size-not-positive", lambda: vision.resize(5, -3, family="gemma3")),
    ("size-not-positive", lambda: vision.resize(5, 2.5, family="qwen2_vl")),  # type: ignore[arg-type]
    ("size-not-positive", lambda: vision.resize(True, 5, family="qwen2_vl")),
    ("size-not-positive", lambda: vision.resize(5, 5, family="qwen2_vl", frames=0)),
    ("aspect-ratio", lambda: vision.resize(1, 201, family="qwen2_vl")),
    ("aspect-ratio", lambda: vision.resize(1, 6000, family="glm4v")),
    ("aspect-ratio", lambda: vision.resize(1, 6000, family="phi4mm")),
    ("too-few-frames", lambda: vision.resize(64, 64, family="qwen3_vl", frames=1)),
    ("kind-not-supported", lambda: vision.resize(64, 64, family="gemma3", frames=4)),
    ("kind-not-supported", lambda: vision.resize(64, 64, family="whisper")),
    ("setting-not-used", lambda: vision.resize(64, 64, family="gemma3", min_pixels=4)),
    ("setting-not-used", lambda: vision.resize(64, 64, family="gemma4", max_pixels=4)),
    ("setting-not-positive", lambda: vision.resize(64, 64, family="qwen2_vl", max_pixels=0)),
    ("resized-to-nothing", lambda: vision.resize(1, 4000, family="pixtral")),
    ("size-shape", lambda: tokens.expand([10], images=[(1, 2, 3)], **QWEN)),  # type: ignore[list-item]
    ("sizes-and-grids", lambda: tokens.expand([10], images=[(9, 9)], **GRID, **QWEN)),
    ("grid-shape", lambda: tokens.expand([10], image_grid_thw=[1, 2, 2], **QWEN)),
    ("grid-value", lambda: tokens.expand([10], image_grid_thw=[[1, 3, 2]], **QWEN)),
    ("grid-value", lambda: tokens.expand([10], image_grid_thw=[[1, 0, 2]], **QWEN)),
    (
        "audio-and-lengths",
        lambda: tokens.expand("", family="gemma4", audio=[900], audio_lengths=[9]),
    ),
    ("clip-without-tokens", lambda: tokens.expand("", family="gemma4", audio=[100])),
    ("clip-without-tokens", lambda: tokens.expand("", family="gemma4", audio_lengths=[0])),
    ("kind-not-supported", lambda: tokens.expand("", family="qwen2_vl", audio=[900])),
    ("kind-not-supported", lambda: tokens.diagnose([5], family="qwen2_audio")),
    (
        "audio-in-video-not-supported",
        lambda: tokens.expand("", family="qwen2_vl", use_audio_in_video=True),
    ),
    ("seconds-length", lambda: tokens.expand("<|VIDEO|>", **SOUNDING)),
    (
        "seconds-length",
        lambda: tokens.expand("<|VIDEO|>", second_per_grid_ts=[1.0, 1.0], **SOUNDING),
    ),
    (
        "seconds-value",
        lambda: tokens.expand("<|VIDEO|>", second_per_grid_ts=[float("nan")], **SOUNDING),
    ),
    (
        "more-placeholders-than-items",
        lambda: tokens.expand("<|VIDEO|>", second_per_grid_ts=[1.0], **SOUNDING),
    ),
    (
        "not-an-expansion",
        lambda: tokens.collapse("<|VIDEO|>", second_per_grid_ts=[1.0], **SOUNDING),
    ),
    (
        "fewer-placeholders-than-items",
        lambda: tokens.expand("", family="qwen2_audio", audio=[900]),
    ),
    (
        "token-ids-missing",
        lambda: tokens.expand([1], family="qwen2_audio", token_ids=TokenIds(), audio=[900]),
    ),
    ("grid-not-used", lambda: tokens.expand("", family="phi4mm", **GRID)),
    (
        "seconds-length",
        lambda: tokens.expand("", family="qwen3_vl", videos=[(4, 9, 9)], frame_seconds=[[1.0]]),
    ),
    (
        "seconds-length",
        lambda: tokens.expand("", family="qwen3_vl", videos=[(4, 9, 9)], frame_seconds=[]),
    ),
    (
        "seconds-value",
        lambda: tokens.expand(
            "", family="qwen3_vl", videos=[(2, 9, 9)], frame_seconds=[[0, float("nan")]]
        ),
    ),
    ("prompt-type", lambda: tokens.expand([1.5, 2.5], **QWEN)),
    ("prompt-type", lambda: tokens.expand(np.zeros((1, 2, 3), int), **QWEN)),
    (
        "token-ids-missing",
        lambda: tokens.expand([10], family="gemma4", images=[(9, 9)], token_ids=TokenIds(image=10)),
    ),
    (
        "encode-missing",
        lambda: tokens.expand([12], family="gemma3", images=[(9, 9)], token_ids=IDS),
    ),
    (
        "encode-placeholder",
        lambda: tokens.expand(
            [12], family="gemma3", images=[(9, 9)], token_ids=IDS, encode=lambda text: [10]
        ),
    ),
    ("more-placeholders-than-items", lambda: tokens.expand([10, 5, 10], **GRID, **QWEN)),
    ("more-placeholders-than-items", lambda: tokens.expand("<|image_pad|>", family="qwen2_vl")),
    ("fewer-placeholders-than-items", lambda: tokens.expand([5], **GRID, **QWEN)),
    ("fewer-placeholders-than-items", lambda: tokens.collapse([5], **GRID, **QWEN)),
    (
        "nested-placeholder",
        lambda: tokens.expand([14, 10, 15], family="glm4v", token_ids=IDS, **GRID),
    ),
    (
        "boundary-missing",
        lambda: tokens.expand([11], family="glm4v", token_ids=IDS, video_grid_thw=[[1, 2, 2]]),
    ),
    ("not-an-expansion", lambda: tokens.collapse([10, 5], image_grid_thw=[[1, 2, 4]], **QWEN)),
    ("not-an-expansion", lambda: tokens.collapse([10, 5, 10], **GRID, **QWEN)),
    ("kind-not-supported", lambda: tokens.expand([5], family="whisper")),
    ("kind-not-supported", lambda: tokens.expand([5], family="gemma3", videos=[(2, 9, 9)])),
]


@pytest.mark.parametrize(("code", "call"), REFUSED)
def test_refusals(code: str, call: Callable[[], Any]) -> None:
    with pytest.raises(RefusedMedia) as raised:
        call()
    assert raised.value.code == code
    assert raised.value.where
    assert raised.value.got
    assert raised.value.expected


def test_every_refusal_has_a_test() -> None:
    assert {code for code, _ in REFUSED} == set(tokens.REFUSALS)


def test_unknown_family() -> None:
    with pytest.raises(UnknownName, match="gemma3"):
        tokens.count("gemma33")


def test_tiles_by_hand() -> None:
    """640 x 480 fills 48 x 36 of 48 x 48 patches: with row ends and the small copy of 24 x 24."""
    found = vision.resize(480, 640, family="llava_next")
    assert (found.height, found.width, found.grid_thw) == (672, 672, (1, 48, 48))
    assert found.tokens == 48 * 36 + 36 + 24 * 24
    # twice as wide as high: two tiles, a small copy, and the two tokens around them
    assert vision.resize(100, 200, family="internvl").tokens == 3 * 256 + 2
    # one tile needs no copy; large enough, the same shape takes more tiles
    assert tokens.count("internvl", images=[(90, 100), (1000, 1000)]).images == (258, 10 * 256 + 2)
    assert vision.resize(1000, 1000, family="internvl", max_tokens=4).tokens == 5 * 256 + 2
    assert tokens.count("llava", images=[(9, 999)]).total == 576


def test_the_tokens_around_an_image_of_internvl_are_its_own() -> None:
    found = tokens.expand([[5, 151667]], family="internvl", images=[(90, 100)])
    assert found.input_ids is not None
    assert found.mm_token_type_ids is not None
    assert found.input_ids[0].tolist() == [5, 151665, *[151667] * 256, 151666]
    assert found.mm_token_type_ids[0].tolist() == [0] + [1] * 258


@pytest.mark.parametrize(
    ("family", "arguments", "code"),
    [
        ("llava_next", {"max_tokens": 4}, "setting-not-used"),
        ("llava_next", {"patch_size": 28}, "setting-not-used"),
        ("internvl", {"max_pixels": 896}, "setting-not-used"),
        ("internvl", {"max_tokens": 0}, "setting-not-positive"),
        ("internvl", {"frames": 2}, "kind-not-supported"),
    ],
)
def test_what_tiles_cannot_be_asked(family: str, arguments: dict[str, int], code: str) -> None:
    with pytest.raises(RefusedMedia) as raised:
        vision.resize(100, 100, family=family, **arguments)
    assert raised.value.code == code


@pytest.mark.parametrize("family", ["llava", "llava_next", "internvl"])
def test_tiles_follow_from_no_grid(family: str) -> None:
    with pytest.raises(RefusedMedia, match="grid-not-used"):
        tokens.expand("", family=family, image_grid_thw=[[1, 24, 24]])


@pytest.mark.parametrize("family", ["llava", "llava_next", "internvl"])
def test_a_cut_image_of_tiles_is_diagnosed(family: str) -> None:
    sizes = [(90, 200), (200, 90)]
    image = families.get(family).token_ids.image
    found = tokens.expand([[5, image, 6, image]], family=family, images=sizes).input_ids
    assert found is not None
    whole = tokens.diagnose(found, family=family, images=sizes)
    assert whole.fits
    for line, cause in ((found[:, :-7], "truncated-right"), (found[:, 9:], "truncated-left")):
        cut = tokens.diagnose(line, family=family, images=sizes)
        assert cut.causes[0].code == cause
