"""`fusion.fuse` against transformers' own models, at the door of the language model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmref import families, fusion
from mmref.errors import RefusedPrompt
from mmref.families import TokenIds

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from mmref.engines.transformers_fusion import Models  # noqa: E402

pytestmark = pytest.mark.engine
IDS = {"image": 10, "video": 11, "audio": 16}
PLACEHOLDERS = TokenIds(**IDS)
HIDDEN = 4
MODELS = Models()
NAMES = [name for name in families.names("fusion") if name not in ("gemma3n", "phi4_multimodal")]
SHARED = [name for name in NAMES if families.get(name).fusing.shared_id]


def merged(name: str, ids: np.ndarray, features: dict[str, np.ndarray]) -> dict[str, Any]:
    """What the language model is handed; raises what the model raises."""
    return MODELS.run(families.get(name), PLACEHOLDERS, ids, features)


def text_of(name: str, ids: np.ndarray) -> np.ndarray:
    """The model's own embeddings of the tokens, with its scale."""
    model, _ = MODELS.model(families.get(name), PLACEHOLDERS)
    with torch.no_grad():
        return model.get_input_embeddings()(torch.from_numpy(ids)).numpy()


def rows(count: int, first: int) -> np.ndarray:
    return -first - np.arange(count * HIDDEN, dtype=np.float32).reshape(count, HIDDEN)


def test_every_family_of_the_issue_is_here() -> None:
    wanted = {"qwen2_5_vl", "qwen3_vl", "gemma3", "gemma4", "llava", "qwen2_audio"}
    assert wanted <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_equals_the_model_at_the_language_models_door(name: str) -> None:
    kinds = families.get(name).fusing.kinds
    kinds = kinds[:1] if name in SHARED else kinds
    placeholders = [IDS[kind] for kind in kinds]
    token = st.sampled_from([20, 21, *placeholders, *placeholders])
    compared = 0

    @settings(max_examples=40)
    @given(
        st.lists(st.lists(token, min_size=6, max_size=6), min_size=1, max_size=3),
        st.sampled_from([None, None, np.nan, np.inf]),
    )
    def check(lines: list[list[int]], odd: float | None) -> None:
        nonlocal compared
        ids = np.array(lines)
        # with no two adjacent audio tokens this model falls back to one placeholder a clip
        adjacent = ((ids[:, 1:] == 16) & (ids[:, :-1] == 16)).any()
        if name == "qwen2_audio" and not adjacent:
            return
        features = {
            kind: rows(int((ids == IDS[kind]).sum()), 100 * (number + 1))
            for number, kind in enumerate(kinds)
        }
        if odd is not None and len(features[kinds[0]]):
            features[kinds[0]][0, 0] = odd
        given_features = {IDS[kind]: value for kind, value in features.items()}
        expected = fusion.fuse(ids, text_of(name, ids), given_features)
        actual = merged(name, ids, features)["inputs_embeds"].numpy()
        np.testing.assert_array_equal(actual, expected)
        compared += 1

    check()
    assert compared


@pytest.mark.parametrize("name", [name for name in NAMES if name != "qwen2_audio"])
def test_transformers_checks_elements_not_rows(name: str) -> None:
    """Two rows of hidden size 2 pass for one of size 4; the reference refuses them."""
    ids = np.array([[20, 10]])
    halves = np.array([[1, 2], [3, 4]], np.float32)
    embeds = merged(name, ids, {"image": halves})["inputs_embeds"]
    assert embeds[0, 1].tolist() == [1, 2, 3, 4]
    with pytest.raises(RefusedPrompt, match="features-hidden-size"):
        fusion.fuse(ids, text_of(name, ids), {10: halves})


def test_qwen2_audio_checks_rows_not_elements() -> None:
    """The elements that are left over of rows twice as wide are dropped."""
    wide = np.arange(16, dtype=np.float32).reshape(2, 8)
    embeds = merged("qwen2_audio", np.array([[16, 16]]), {"audio": wide})["inputs_embeds"]
    assert embeds[0].tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]


@pytest.mark.parametrize("name", SHARED)
def test_the_glm_line_refuses_images_and_videos_in_one_batch(name: str) -> None:
    ids = np.array([[20, 10, 14, 10, 15, 20]])
    features = {"image": rows(1, 1), "video": rows(1, 5)}
    with pytest.raises(Exception, match="do not match, tokens: 2, features: 1"):
        merged(name, ids, features)
    markers = TokenIds(image=10, video_start=14, video_end=15)
    apart = fusion.tell_videos_apart(ids, markers, video_id=11)
    fused = fusion.fuse(apart, text_of(name, ids), {10: features["image"], 11: features["video"]})
    assert fused[0, [1, 3], 0].tolist() == [-1, -5]


@pytest.mark.parametrize("name", ["qwen3_vl", "qwen3_vl_moe"])
def test_deepstack_rows_equal_those_the_model_hands_on(name: str) -> None:
    ids = np.array([[20, 11, 10, 10], [10, 20, 11, 21]])
    features = {"image": rows(3, 1), "video": rows(2, 50)}
    seen = merged(name, ids, features)
    expected = np.zeros((*ids.shape, HIDDEN), np.float32)
    expected[seen["visual_pos_masks"].numpy()] = seen["deepstack_visual_embeds"][0].numpy()
    deep = {IDS[kind]: value[None] for kind, value in features.items()}
    assert np.array_equal(expected, fusion.deepstack(ids, deep)[0])
