"""Audio: refusals, checks, conventions, and the families against their definitions."""

from __future__ import annotations

from typing import Any

import definitions.audio as definition
import numpy as np
import pytest

from mmref import audio, families, tokens
from mmref.audio.arguments import LARGEST
from mmref.errors import EngineRefusal, MmrefError, RefusedMedia, UnknownName

NAMES = families.names("audio")
TWICE = [(3, 2, 1), (3, 2, 1)]


def columns(name: str) -> families.Audio:
    row = families.get(name).audio
    assert row is not None
    return row


# families with the same columns give the same answers
DISTINCT = sorted({columns(name): name for name in NAMES}.values())


@pytest.mark.parametrize("name", DISTINCT)
def test_every_length_to_6400_follows_the_definition(name: str) -> None:
    lengths = np.arange(6401)
    expected = [definition.length(frames, columns(name)) for frames in range(6401)]
    actual = audio.output_lengths(lengths, family=name)
    assert actual.dtype == np.int64
    assert actual.tolist() == expected


@pytest.mark.parametrize("name", [name for name in DISTINCT if columns(name).framing is not None])
def test_frames_follow_the_definition(name: str) -> None:
    samples = [0, 1, 159, 160, 161, 320, 321, 399, 400, 401, 16000, 16001, 479_999, 480_001]
    expected = [definition.frames(count, columns(name)) for count in samples]
    assert audio.frames(samples, family=name).tolist() == expected


@pytest.mark.parametrize("name", DISTINCT)
def test_random_masks_follow_the_definition(name: str) -> None:
    random = np.random.default_rng(0)
    for _ in range(30):
        batch, width = random.integers(1, 5), int(random.integers(1, 1200))
        mask = (random.random((batch, width)) < 0.8).astype(np.int64)
        mask[:, 0] = 1
        mask[0, int(random.integers(1, width + 1)) :] = 0
        mask[-1] = 0
        expected = definition.mask(mask.tolist(), columns(name))
        actual = audio.downsample_mask(mask, family=name)
        assert actual.dtype == np.bool_
        assert actual.tolist() == expected


REFUSED: list[tuple[str, Any]] = [
    ("mask-value", lambda: audio.downsample_mask([[1.0, 0.5]], family="gemma4")),
    ("mask-value", lambda: audio.downsample_mask([[0.0, -np.inf]], family="gemma4")),
    ("mask-value", lambda: audio.downsample_mask([[1.0, np.nan]], family="gemma4")),
    ("mask-value", lambda: audio.downsample_mask([[1, 2]], family="phi4_multimodal")),
    ("mask-value", lambda: audio.downsample_mask([[3, 1], [1, 1]], family="gemma4")),
    ("mask-value", lambda: audio.downsample_mask([[1, -1]], family="gemma4")),
    ("mask-value", lambda: audio.as_valid([[1, 2]], convention="padding")),
    ("mask-rank", lambda: audio.downsample_mask(True, family="gemma4")),
    ("mask-rank", lambda: audio.downsample_mask(np.ones((1, 1, 4, 4)), family="gemma4")),
    ("mask-empty", lambda: audio.downsample_mask(np.ones((2, 0)), family="gemma4")),
    ("mask-convention", lambda: audio.as_valid([[1]], convention="inverted")),
    ("mask-left-padded", lambda: audio.downsample_mask([[1, 1], [0, 1]], family="whisper")),
    ("mask-left-padded", lambda: audio.check_right_padded([[1, 1], [0, 1]])),
    ("mask-value", lambda: audio.check_right_padded([[1, 0, 1]])),
    ("length-negative", lambda: audio.output_lengths([3, -1], family="gemma4")),
    ("length-dtype", lambda: audio.output_lengths([3.0], family="gemma4")),
    ("length-dtype", lambda: audio.output_lengths([True], family="gemma4")),
    ("length-rank", lambda: audio.output_lengths([[3]], family="gemma4")),
    ("length-too-large", lambda: audio.output_lengths([LARGEST + 1], family="gemma4")),
    ("length-too-large", lambda: audio.lengths_through(np.array([2**64 - 1], np.uint64), TWICE)),
    ("length-beyond-mask", lambda: audio.mask_from_lengths([3, 9], TWICE, frames=8)),
    ("stage-value", lambda: audio.lengths_through([3], [(3, 0, 1)])),
    ("stage-value", lambda: audio.lengths_through([3], [(0, 1)])),
    ("stage-value", lambda: audio.lengths_through([3], [(3, 2, -1)])),
    ("stage-value", lambda: audio.lengths_through([3], [(2**31, 1, 0, 2**31)])),
    ("stage-value", lambda: audio.lengths_through([3], [(3.5, 2)])),
    ("stage-value", lambda: audio.lengths_through([3], [3])),
    ("mask-too-short", lambda: audio.mask_by_stride([1, 1], [(2, 2, 1)])),
    ("mask-frames", lambda: audio.check_frames([[1, 1]], 3)),
    ("mask-batch", lambda: audio.check_batch([[1, 1]], 3)),
    ("mask-batch", lambda: audio.check_placeholders([[1, 1]], [2, 2])),
    ("placeholders-unequal", lambda: audio.check_placeholders([[1, 1], [1, 0]], [2, 2])),
    ("mask-missing", lambda: audio.check_mask_input(["audio_embeds", "audio_projection_mode"])),
    ("audio-not-supported", lambda: audio.output_lengths([3], family="qwen2_vl")),
    ("frames-not-defined", lambda: audio.frames([3], family="voxtral")),
    ("array-type", lambda: audio.output_lengths([object()], family="gemma4")),
    ("array-ragged", lambda: audio.downsample_mask([[1], [1, 1]], family="gemma4")),
    ("unknown-family", lambda: audio.output_lengths([3], family="gemma5")),
    ("unknown-rules", lambda: audio.output_lengths([3], family="gemma4", rules="gemma")),
]


@pytest.mark.parametrize(
    ("code", "call"), REFUSED, ids=[f"{number}-{entry[0]}" for number, entry in enumerate(REFUSED)]
)
def test_refused(code: str, call: Any) -> None:
    with pytest.raises(MmrefError) as caught:
        call()
    assert caught.value.code == code
    assert caught.value.where
    assert caught.value.got
    if isinstance(caught.value, RefusedMedia):
        assert code in audio.REFUSALS


def test_a_left_padded_row_is_fine_where_every_second_place_is_taken() -> None:
    assert audio.downsample_mask([[0, 0, 1, 1, 1]], family="gemma4").tolist() == [[False, True]]


def test_conventions_are_converted_by_name() -> None:
    valid = np.array([[1, 1, 1, 1, 1, 0], [1, 0, 0, 0, 0, 0]])
    expected = audio.downsample_mask(valid, family="gemma3n")
    actual = audio.downsample_mask(1 - valid, family="gemma3n", convention="padding")
    assert actual.tolist() == expected.tolist()


def test_dtypes_make_no_difference() -> None:
    mask = np.array([[1, 1, 1, 1, 1, 0, 0, 0, 0]])
    expected = audio.downsample_mask(mask, family="phi4_multimodal").tolist()
    for dtype in (np.bool_, np.uint8, np.int32, np.uint64, np.float32, np.float16):
        given = mask.astype(dtype)
        given.flags.writeable = False
        assert audio.downsample_mask(given, family="phi4_multimodal").tolist() == expected
    assert audio.output_lengths(np.uint8([5]), family="gemma4").tolist() == [2]
    assert audio.output_lengths([], family="gemma4").shape == (0,)


def test_hints_name_the_likely_cause() -> None:
    with pytest.raises(RefusedMedia, match="160 places a frame"):
        audio.check_frames(np.ones((1, 320_000)), 2000)
    with pytest.raises(RefusedMedia, match="ceil"):
        audio.check_placeholders(np.ones((1, 13)), [12])


def test_explain_says_where_the_two_ways_part() -> None:
    found = audio.explain_mask([[1, 0, 1, 1] * 4, [1] * 16], family="phi4_multimodal")
    assert found.way == "length"
    assert found.holed == (0,)
    assert found.left_padded == ()
    assert found.parted == ()
    assert str(found).endswith("both ways agree")
    found = audio.explain_mask([[0] * 8 + [1] * 8], family="phi4_multimodal")
    assert found.left_padded == (0,)
    assert found.parted == ((0, 0), (0, 1))
    assert "row 0, output 1 (frames from 8): padding by length, valid by stride" in str(found)
    many = audio.explain_mask([[1, 1, 0, 0, 0, 0, 0, 0] * 12 + [1]], family="gemma4")
    assert "... " in str(many)


def test_explain_answers_for_every_family() -> None:
    for name in NAMES:
        found = audio.explain_mask([[1] * 1000, [1] * 500 + [0] * 500], family=name)
        assert found.by_length.shape == found.by_stride.shape


def test_rules_of_a_release() -> None:
    engine = "transformers-5.24"
    accident = audio.downsample_mask([[1] * 800, [0] * 800], family="wav2vec2", rules=engine)
    assert accident.tolist() == [[True, True], [True, False]]
    ours = audio.downsample_mask([[1] * 800, [0] * 800], family="wav2vec2")
    assert ours.tolist() == [[True, True], [False, False]]
    with pytest.raises(EngineRefusal) as caught:
        audio.downsample_mask([[1]], family="wav2vec2", rules=engine)
    assert caught.value.code == "transformers-index-out-of-range"
    assert audio.output_lengths(3000, family="qwen3_omni_moe", rules=engine).tolist() == [390]
    for undescribed in ("transformers-4.49", "onnxruntime-genai-0.18"):
        with pytest.raises(UnknownName, match="5"):
            audio.downsample_mask([[1]], family="wav2vec2", rules=undescribed)


def test_tokens_of_prompts_count_clips() -> None:
    found = tokens.count("gemma4", images=[(480, 640)], audio=[16_001, 400])
    assert found.audio == (25, 1)
    assert found.total == sum(found.images) + 26
    assert tokens.count("granite_speech", audio=[16_000]).total == 12
    for name in ("whisper", "qwen2_vl"):
        with pytest.raises(RefusedMedia) as caught:
            tokens.count(name, audio=[16_000])
        assert caught.value.code == "kind-not-supported"


def test_reports() -> None:
    """Numbers that public reports ended with."""
    assert audio.output_lengths(2000, family="qwen3_omni_moe").tolist() == [260]
    assert audio.output_lengths(3001, family="qwen3_omni_moe").tolist() == [391]
    assert audio.token_count([16001, 400], family="gemma4").tolist() == [25, 1]
    assert audio.token_count(16000, family="whisper").tolist() == [1500]
