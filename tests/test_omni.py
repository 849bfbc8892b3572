"""Positions of prompts with audio: by hand, refusals, the door; a video and its own sound."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mmref import audio, families, layout, mrope
from mmref.case import Case
from mmref.differences.omni import omni_case
from mmref.errors import BadCase, EngineRefusal, MmrefError, RefusedMedia, UnknownName
from mmref.omni import REFUSALS
from mmref.testing.corners import omni_corners

NAMES = families.names("omni")
RELEASE = "transformers-5.24"
MASKED = omni_case([[0, 20]], mask=[[0, 1]])


def answer(case: Case, rules: str = "reference") -> Any:
    return mrope.position_ids(**case.omni_arguments(), rules=rules)


def test_a_clip_is_counted_like_text() -> None:
    for name in NAMES:
        found = answer(omni_case([[20, 15, 14, 16, 21]], name, lengths=[4]))
        assert found.position_ids[:, 0].tolist() == [[0, 1, 2, 3, 4]] * 3
        assert found.deltas.tolist() == [0]
        assert found.next_positions(2)[0].tolist() == [[5, 6]]


def test_starts_and_ends_share_a_position_where_chunks_take_turns() -> None:
    """A public report's case: text, a sounding video of one grid step, text."""
    ids = [[20, 12, 15, 11, 11, 14, 14, 16, 13, 21]]
    case = omni_case(ids, videos=[[1, 2, 4]], seconds=[1.0], lengths=[8], in_video=True)
    time, height, width = answer(case).position_ids[:, 0].tolist()
    assert time == [0, 1, 1, 2, 2, 2, 3, 4, 4, 5]
    assert height == [0, 1, 1, 2, 2, 2, 3, 4, 4, 5]
    assert width == [0, 1, 1, 2, 3, 2, 3, 4, 4, 5]
    assert answer(case).position_ids.dtype == np.int64


def test_fractions_stay_where_the_family_keeps_them() -> None:
    ids = [[12, 11, 11, 13, 20]]
    found = answer(omni_case(ids, "qwen3_omni_moe", videos=[[2, 2, 2]], seconds=[0.5]))
    assert found.position_ids.dtype == np.float32
    assert found.position_ids[0, 0].tolist() == [0, 1, 7.5, 8.5, 9.5]
    assert found.deltas.dtype == np.float32
    assert found.next_positions(1).dtype == np.float32
    assert found.next_positions(1)[:, 0, 0].tolist() == [10.5] * 3
    whole = answer(omni_case(ids, videos=[[2, 2, 2]], seconds=[0.5]))
    assert whole.position_ids[0, 0].tolist() == [0, 1, 13, 14, 15]


def test_text_resumes_after_the_largest_position() -> None:
    wide = omni_case(
        [[12, 15, 11, 11, 11, 14, 16, 13, 20]],
        videos=[[1, 2, 6]],
        seconds=[1.0],
        lengths=[4],
        in_video=True,
    )
    assert answer(wide).position_ids[2, 0].tolist() == [0, 0, 1, 2, 3, 1, 4, 4, 5]
    engine = answer(wide, "transformers-5.24")
    assert engine.position_ids[2, 0].tolist() == [0, 0, 1, 2, 3, 1, 2, 2, 3]


def test_a_batch_equals_its_rows() -> None:
    case = omni_case(
        [[12, 10, 13, 15, 14, 16], [0, 0, 0, 20, 21, 22]],
        images=[[1, 2, 2]],
        lengths=[4],
        mask=[[1] * 6, [0, 0, 0, 1, 1, 1]],
    )
    found = answer(case)
    assert found.position_ids[:, 1, 3:].tolist() == [[0, 1, 2]] * 3
    assert not found.position_ids[:, 1, :3].any()
    assert found.attention_mask(1).tolist() == [[1] * 7, [0, 0, 0, 1, 1, 1, 1]]
    assert found.chunk(3, 5).tolist() == found.position_ids[:, :, 3:5].tolist()


def refused(**changes: Any) -> Any:
    given: dict[str, Any] = {"ids": [[12, 10, 13, 15, 14, 16]], "images": [[1, 2, 2]]}
    given |= {"lengths": [4], **changes}
    return lambda: answer(omni_case(given.pop("ids"), **given))


REFUSED: list[tuple[str, Any]] = [
    ("omni-block", refused(ids=[[12, 10, 15, 14, 16]])),
    ("omni-block", refused(ids=[[12, 13, 15, 14, 16]])),
    ("omni-block", refused(ids=[[12, 10, 13, 15, 14, 16, 13]])),
    ("omni-placeholder", refused(ids=[[10, 15, 14, 16]])),
    ("omni-placeholder", refused(ids=[[12, 10, 14, 13]])),
    ("omni-count", refused(images=[[1, 2, 4]])),
    ("omni-items", refused(images=[[1, 2, 2]] * 2)),
    ("omni-items", refused(lengths=None)),
    ("omni-audio-lengths", refused(lengths=[0])),
    ("omni-audio-lengths", refused(lengths=[-4])),
    ("omni-grid", refused(images=[[1, 2, 3]])),
    ("omni-grid", refused(images=[[2, 2, 2]])),
    ("omni-grid", refused(images=[[1, 0, 2]])),
    ("omni-seconds", refused(ids=[[12, 11, 13]], images=None, lengths=None, videos=[[1, 2, 2]])),
    (
        "omni-order-flag",
        refused(
            ids=[[12, 11, 13]],
            images=None,
            lengths=None,
            videos=[[1, 2, 2]],
            seconds=[1.0],
            in_video=True,
        ),
    ),
    (
        "omni-seconds",
        refused(
            ids=[[12, 11, 11, 13]],
            images=None,
            lengths=None,
            videos=[[2, 2, 2]],
            seconds=[1e9],
        ),
    ),
    ("mask-value", refused(mask=[[1, 1, 1, 1, 1, 2]])),
    ("mask-shape", refused(mask=[[1, 1]])),
    (
        "omni-audio-not-used",
        lambda: mrope.position_ids([20], family="qwen2_vl", audio_lengths=[4]),
    ),
    (
        "omni-audio-not-used",
        lambda: mrope.position_ids([20], family="qwen2_vl", use_audio_in_video=False),
    ),
    ("extend-batch", lambda: answer(omni_case([[20]])).extend([[21], [22]])),
    ("omni-items", lambda: answer(omni_case([[20]])).extend([[12, 10, 13]])),
    ("slot-outside", lambda: answer(omni_case([[20]])).rewind(2)),
    ("rows-outside", lambda: answer(omni_case([[20]])).take_rows([1])),
    ("rules-after-prompt", lambda: answer(MASKED, RELEASE).extend([21])),
    ("rules-after-prompt", lambda: answer(MASKED, RELEASE).rewind(0)),
    ("rules-after-prompt", lambda: answer(MASKED, RELEASE).take_rows([0])),
    ("rules-after-prompt", lambda: answer(MASKED, RELEASE).layout),
]


@pytest.mark.parametrize(("code", "call"), REFUSED, ids=[code for code, _ in REFUSED])
def test_refused(code: str, call: Any) -> None:
    with pytest.raises(MmrefError) as caught:
        call()
    assert caught.value.code == code
    assert caught.value.where
    assert code in REFUSALS or code in layout.REFUSALS


def test_rules_of_a_release() -> None:
    with pytest.raises(EngineRefusal) as caught:
        mrope.position_ids([20], family="qwen3_omni_moe", rules="transformers-5.24")
    assert caught.value.code == "transformers-omni-needs-a-mask"
    with pytest.raises(UnknownName):
        mrope.position_ids([20], family="qwen3_omni_moe", rules="transformers-4.49")


def test_cases_survive_their_json_form() -> None:
    for case in omni_corners().values():
        again = Case.from_json(case.to_json())
        assert answer(again).position_ids.tolist() == answer(case).position_ids.tolist()
    for broken in (
        {"subject": "omni", "family": "qwen2_5_omni", "arrays": {}},
        {
            "subject": "omni",
            "family": "qwen2_5_omni",
            "arrays": {"input_ids": [[1]]},
            "scalars": {"use_audio_in_video": 2},
        },
        {"subject": "audio", "family": "whisper", "arrays": {}},
        {"subject": "audio", "family": "whisper", "arrays": {"lengths": [1], "samples": [1]}},
        {
            "subject": "audio",
            "family": "whisper",
            "arrays": {"lengths": [1]},
            "scalars": {"texts": ["a"]},
        },
    ):
        with pytest.raises(BadCase):
            Case.from_builtins(broken)


def test_the_order_is_refused_where_there_is_none() -> None:
    with pytest.raises(RefusedMedia) as caught:
        audio.interleave((1, 2, 2), 3, family="qwen2_vl", seconds=1.0)
    assert caught.value.code == "audio-in-video-not-supported"
    for grid, sound, seconds in (
        ((0, 2, 2), 3, 1.0),
        ((1, 2, 3), 3, 1.0),
        ((1, 2), 3, 1.0),
        ((1, 2, 2), -1, 1.0),
        ((1, 2, 2), 3, float("nan")),
        ((1, 2, 2), 3.5, 1.0),
    ):
        with pytest.raises(RefusedMedia) as caught:
            audio.interleave(grid, sound, family="qwen2_5_omni", seconds=seconds)  # type: ignore[arg-type]
        assert caught.value.code == "audio-in-video-value"


@pytest.mark.engine
@pytest.mark.parametrize("name", NAMES)
def test_the_order_is_that_of_the_processor(name: str) -> None:
    pytest.importorskip("transformers")
    from mmref.engines.transformers_omni import order

    random = np.random.default_rng(4)
    for _ in range(60):
        grid = (int(random.integers(1, 20)), 2, int(random.choice([2, 4])))
        sound = int(random.integers(1, 400))
        seconds = float(random.choice([0.04, 0.5, 2.0, 2 / 7, 2 / 2.6, 2 / 15, 5.0]))
        expected = order(name, grid, sound, seconds)
        assert audio.interleave(grid, sound, family=name, seconds=seconds).tolist() == expected
