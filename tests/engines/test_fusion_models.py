"""`fusion.fuse` against transformers' own models, at the door of the language model.

The models are made from configurations, tiny and with random weights; features are handed in
as the outputs of their encoders, so that what is compared is the model's own merge.
"""

from __future__ import annotations

import importlib
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmref import families, fusion
from mmref.errors import RefusedPrompt

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

IMAGE, VIDEO, AUDIO, HIDDEN, VOCABULARY = 10, 11, 16, 4, 32
_SMALL = {
    "vocab_size": VOCABULARY,
    "hidden_size": HIDDEN,
    "intermediate_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "num_key_value_heads": 1,
    "head_dim": 4,
    "max_position_embeddings": 128,
}
_TEXT = {
    **_SMALL,
    "moe_intermediate_size": 8,
    "shared_expert_intermediate_size": 8,
    "num_experts": 2,
    "num_experts_per_tok": 1,
    "n_routed_experts": 2,
    "n_group": 1,
    "topk_group": 1,
    "layer_types": ["full_attention"],
    "rope_parameters": {"rope_type": "default", "mrope_section": [1, 1, 0], "rope_theta": 1e4},
}
_TOWER = {
    "hidden_size": 8,
    "intermediate_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "image_size": 28,
    "patch_size": 14,
}
_VISION = {
    "depth": 1,
    "hidden_size": 8,
    "num_heads": 1,
    "intermediate_size": 8,
    "out_hidden_size": HIDDEN,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "num_position_embeddings": 4,
    "deepstack_visual_indexes": [0],
    "image_size": 28,
}
KINDS = {
    **dict.fromkeys(families.names(), ("image", "video")),
    "gemma3": ("image",),
    "gemma4": ("image", "video"),
    "llava": ("image",),
    "qwen2_audio": ("audio",),
    "paddleocr_vl": ("image",),
}
SHARED = [name for name in families.names() if families.get(name).media_kinds != "by_id"]
IDS = {"image": IMAGE, "video": VIDEO, "audio": AUDIO}


class Door(Exception):
    """Raised where the language model would begin."""


def classes(name: str, model: str) -> tuple[Any, Any]:
    package = f"transformers.models.{name}"
    configuration = importlib.import_module(f"{package}.configuration_{name}")
    modeling = importlib.import_module(f"{package}.modeling_{name}")
    return getattr(configuration, model.removesuffix("Model") + "Config"), getattr(modeling, model)


@cache
def model_of(name: str) -> tuple[Any, dict[str, Any]]:
    """A tiny model, and a dictionary that holds what its language model is handed."""
    ids: dict[str, Any] = {"image_token_id": IMAGE}
    if name == "gemma3":
        config, model = classes(name, "Gemma3Model")
        ids |= {"text_config": dict(_SMALL), "vision_config": _TOWER, "mm_tokens_per_image": 4}
    elif name == "gemma4":
        config, model = classes(name, "Gemma4Model")
        layered = {"pad_token_id": 0, "hidden_size_per_layer_input": 2, "global_head_dim": 4}
        heads = {"num_key_value_heads": 1, "head_dim": 8, "global_head_dim": 8}
        ids |= {
            "text_config": {**_SMALL, **layered, "vocab_size_per_layer_input": VOCABULARY},
            "vision_config": {**_TOWER, **heads},
            "audio_config": None,
            "video_token_id": VIDEO,
            "audio_token_id": AUDIO,
        }
    elif name == "llava":
        config, model = classes(name, "LlavaModel")
        ids = {
            "image_token_index": IMAGE,
            "text_config": {"model_type": "llama", **_SMALL},
            "vision_config": {"model_type": "clip_vision_model", **_TOWER},
        }
    elif name == "qwen2_audio":
        config, model = classes(name, "Qwen2AudioModel")
        audio = {"num_mel_bins": 4, "encoder_layers": 1, "encoder_attention_heads": 1}
        audio |= {"encoder_ffn_dim": 8, "d_model": 8, "max_source_positions": 64}
        ids = {
            "audio_token_index": AUDIO,
            "text_config": {"model_type": "qwen2", **_SMALL},
            "audio_config": audio,
        }
    else:
        config, model = classes(name, families.get(name).transformers_class)
        vision = dict(_VISION)
        if name == "qwen2_vl":
            vision |= {"embed_dim": 8, "hidden_size": HIDDEN}
        ids |= {"text_config": dict(_TEXT), "vision_config": vision, "video_token_id": VIDEO}
    made = model(config(**ids)).eval()
    seen: dict[str, Any] = {}

    def door(*_: Any, **arguments: Any) -> None:
        seen.clear()
        seen.update(arguments)
        raise Door

    made.language_model.forward = door
    return made, seen


def merged(name: str, ids: np.ndarray, features: dict[str, np.ndarray]) -> np.ndarray:
    """What the language model is handed; raises what the model raises."""
    model, seen = model_of(name)
    tokens = torch.from_numpy(ids)
    arguments: dict[str, Any] = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}
    if name == "qwen2_audio":
        audio = torch.from_numpy(features["audio"])
        clip = audio.reshape(1, *audio.shape)
        hidden = SimpleNamespace(last_hidden_state=torch.zeros(1, len(audio), 8))
        model.audio_tower.forward = lambda *_, **__: hidden
        model.multi_modal_projector.forward = lambda _: clip
        lengths = torch.tensor([len(audio)])
        model.audio_tower._get_feat_extract_output_lengths = lambda _: (lengths, lengths)
        arguments["input_features"] = torch.zeros(1, 4, 64)
        arguments["feature_attention_mask"] = torch.ones(1, 64, dtype=torch.long)
    else:
        outputs = {}
        for kind, value in features.items():
            rows = torch.from_numpy(value)
            whole = rows.reshape(1, *rows.shape) if name == "gemma3" else [rows]
            outputs[kind] = SimpleNamespace(pooler_output=whole, deepstack_features=[[rows]])
        arguments["mm_encoder_outputs"] = outputs
    if name in families.names():  # positions are another subject
        arguments["position_ids"] = torch.zeros(3, *ids.shape, dtype=torch.long)
    with torch.no_grad(), pytest.raises(Door):
        model(**arguments)
    return seen["inputs_embeds"].numpy()


def text_of(name: str, ids: np.ndarray) -> np.ndarray:
    """The model's own embeddings of the tokens, with its scale."""
    with torch.no_grad():
        return model_of(name)[0].get_input_embeddings()(torch.from_numpy(ids)).numpy()


def rows(count: int, first: int) -> np.ndarray:
    return -first - np.arange(count * HIDDEN, dtype=np.float32).reshape(count, HIDDEN)


@pytest.mark.parametrize("name", KINDS)
def test_equals_the_model_at_the_language_models_door(name: str) -> None:
    kinds = KINDS[name][:1] if name in SHARED else KINDS[name]
    placeholders = [IDS[kind] for kind in kinds]
    token = st.sampled_from([20, 21, *placeholders, *placeholders])
    compared = 0

    @settings(max_examples=40)
    @given(st.lists(st.lists(token, min_size=6, max_size=6), min_size=1, max_size=3))
    def check(lines: list[list[int]]) -> None:
        nonlocal compared
        ids = np.array(lines)
        # with no two adjacent audio tokens this model falls back to one placeholder a clip
        adjacent = ((ids[:, 1:] == AUDIO) & (ids[:, :-1] == AUDIO)).any()
        if name == "qwen2_audio" and not adjacent:
            return
        features = {
            kind: rows(int((ids == IDS[kind]).sum()), 100 * (number + 1))
            for number, kind in enumerate(kinds)
        }
        given_features = {IDS[kind]: value for kind, value in features.items()}
        expected = fusion.fuse(ids, text_of(name, ids), given_features)
        assert np.array_equal(expected, merged(name, ids, features))
        compared += 1

    check()
    assert compared


@pytest.mark.parametrize("name", [name for name in KINDS if KINDS[name] != ("audio",)])
def test_transformers_checks_elements_not_rows(name: str) -> None:
    """Two rows of hidden size 2 pass for one of size 4; the reference refuses them."""
    ids = np.array([[20, IMAGE]])
    halves = np.array([[1, 2], [3, 4]], np.float32)
    assert merged(name, ids, {"image": halves})[0, 1].tolist() == [1, 2, 3, 4]
    with pytest.raises(RefusedPrompt, match="features-hidden-size"):
        fusion.fuse(ids, text_of(name, ids), {IMAGE: halves})


@pytest.mark.parametrize("name", SHARED)
def test_the_glm_line_refuses_images_and_videos_in_one_batch(name: str) -> None:
    ids = np.array([[20, IMAGE, IMAGE, 20]])
    features = {"image": rows(1, 1), "video": rows(1, 5)}
    with pytest.raises(Exception, match="do not match, tokens: 2, features: 1"):
        merged_without_door(name, ids, features)
    joined = np.concatenate([features["image"], features["video"]])
    assert fusion.source_rows(ids, {IMAGE: len(joined)}).tolist() == [[-1, 0, 1, -1]]


def merged_without_door(name: str, ids: np.ndarray, features: dict[str, np.ndarray]) -> None:
    """As `merged`, for prompts that the model refuses."""
    model, _ = model_of(name)
    outputs = {
        kind: SimpleNamespace(pooler_output=[torch.from_numpy(value)])
        for kind, value in features.items()
    }
    model(input_ids=torch.from_numpy(ids), mm_encoder_outputs=outputs)


@pytest.mark.parametrize("name", ["qwen3_vl", "qwen3_vl_moe"])
def test_deepstack_rows_equal_those_the_model_hands_on(name: str) -> None:
    ids = np.array([[20, VIDEO, IMAGE, IMAGE], [IMAGE, 20, VIDEO, 21]])
    features = {"image": rows(3, 1), "video": rows(2, 50)}
    merged(name, ids, features)
    seen = model_of(name)[1]
    expected = np.zeros((*ids.shape, HIDDEN), np.float32)
    expected[seen["visual_pos_masks"].numpy()] = seen["deepstack_visual_embeds"][0].numpy()
    deep = {IDS[kind]: value[None] for kind, value in features.items()}
    assert np.array_equal(expected, fusion.deepstack(ids, deep)[0])
