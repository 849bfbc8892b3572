"""The steps beside the merge against transformers' own code."""

from __future__ import annotations

import types
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mmref import families, fusion
from mmref.families import TokenIds

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from mmref.engines.transformers_fusion import Door, Models  # noqa: E402

pytestmark = pytest.mark.engine
MODELS = Models()
ROWS = st.lists(
    st.lists(st.sampled_from([20, 21, 10, 10, 11, 14, 15]), min_size=6, max_size=6),
    min_size=1,
    max_size=3,
)


@settings(max_examples=60)
@given(ROWS)
def test_image_blocks_equal_gemmas(lines: list[list[int]]) -> None:
    from transformers.models.gemma3 import modeling_gemma3 as gemma3
    from transformers.models.gemma4 import modeling_gemma4 as gemma4

    ids = np.array(lines)
    image_types = torch.from_numpy((ids == 10).astype(np.int64))
    expected = gemma3.get_block_sequence_ids_for_mask(image_types).numpy()
    assert np.array_equal(fusion.image_blocks(ids, [10]), expected)
    kinds = torch.from_numpy((ids == 10).astype(np.int64) + 2 * (ids == 11))
    expected = gemma4.get_block_sequence_ids_for_mask(kinds, device=kinds.device).numpy()
    assert np.array_equal(fusion.image_blocks(ids, [10, 11]), expected)


@settings(max_examples=30)
@given(ROWS)
def test_may_attend_equals_the_overlay_on_the_causal_mask(lines: list[list[int]]) -> None:
    from transformers import masking_utils

    blocks = fusion.image_blocks(lines, [10])
    sees = masking_utils.or_masks(
        masking_utils.causal_mask_function,
        masking_utils.blockwise_overlay(torch.from_numpy(blocks)),
    )
    actual = fusion.may_attend(blocks)
    for row, query, key in np.ndindex(actual.shape):
        expected = bool(sees(row, 0, torch.tensor(query), torch.tensor(key)))
        assert actual[row, query, key] == expected, (row, query, key)


def looked_up(model: Any, run: Any) -> np.ndarray:
    """The ids that a model's table of embeddings was read by."""
    seen = []
    layer = model.get_input_embeddings()
    hook = layer.register_forward_pre_hook(
        lambda _, arguments, keywords: seen.append((*arguments, *keywords.values())[0].clone()),
        with_kwargs=True,
    )
    try:
        run()
    finally:
        hook.remove()
    found: np.ndarray = next(ids for ids in seen if ids.ndim == 2).numpy()
    return found


@pytest.mark.parametrize("image", [10, 31, 32, 40])
@pytest.mark.parametrize(("name", "rule"), [("gemma3", "zero_beyond_table"), ("gemma4", "pad")])
def test_lookup_ids_equal_those_the_table_is_read_by(name: str, rule: Any, image: int) -> None:
    row = families.get(name)
    assert row.fusing.lookup == rule
    placeholders = TokenIds(image=image, video=11, audio=16)
    ids = np.array([[20, image, image, 21], [image, 5, 20, 20]])
    features = {"image": -np.ones((3, 4), np.float32)}
    model, seen = MODELS.model(row, placeholders)
    actual = looked_up(model, lambda: MODELS.run(row, placeholders, ids, features))
    expected = fusion.lookup_ids(ids, [image, 11, 16], rule, table_rows=32)
    assert np.array_equal(expected, actual)
    if row.fusing.per_layer:
        own = model.language_model.get_per_layer_inputs(torch.from_numpy(expected))
        assert torch.equal(own, seen["per_layer_inputs"])


@settings(max_examples=60)
@given(ROWS)
def test_videos_are_told_apart_as_by_the_processor(lines: list[list[int]]) -> None:
    from transformers.models.glm4v.processing_glm4v import Glm4vProcessor

    processor = types.SimpleNamespace(
        image_token_id=10,
        video_token_id=11,
        image_token_ids=[10],
        video_token_ids=[11],
        audio_token_ids=[None],
        video_start_id=14,
        video_end_id=15,
    )
    lines = [[20 if token == 11 else token for token in line] for line in lines]
    expected = np.array(Glm4vProcessor.create_mm_token_type_ids(processor, lines))
    apart = fusion.tell_videos_apart(
        lines, TokenIds(image=10, video_start=14, video_end=15), video_id=11
    )
    kinds = (apart == 10) + 2 * (apart == 11)
    assert np.array_equal(kinds, expected)


@settings(max_examples=40)
@given(
    st.integers(1, 3),
    st.integers(0, 5),
    st.lists(st.booleans(), min_size=15, max_size=15),
)
def test_fixed_rows_equal_gemma3ns(clips: int, frames: int, flags: list[bool]) -> None:
    from transformers.models.gemma3n.modeling_gemma3n import Gemma3nModel

    audio = -1 - np.arange(clips * frames * 4, dtype=np.float32).reshape(clips, frames, 4)
    padding = np.array(flags[: clips * frames], bool).reshape(clips, frames)
    filler, seen = np.full(4, 77, np.float32), {}

    def door(**arguments: Any) -> None:
        seen.update(arguments)
        raise Door

    stub = types.SimpleNamespace(
        config=types.SimpleNamespace(
            image_token_id=25, audio_token_id=29, audio_soft_tokens_per_image=6, return_dict=True
        ),
        vocab_size=32,
        embed_vision=_Hard(24, torch.zeros(4)),
        embed_audio=_Hard(28, torch.from_numpy(filler)),
        get_input_embeddings=lambda: lambda ids: torch.zeros(*ids.shape, 4),
        language_model=_Language(door),
        get_audio_features=lambda *_, **__: types.SimpleNamespace(
            pooler_output=torch.from_numpy(audio), audio_mel_mask=torch.from_numpy(padding)
        ),
    )
    stub.get_placeholder_mask = types.MethodType(Gemma3nModel.get_placeholder_mask, stub)
    ids = torch.tensor([[20, *[29] * 6 * clips]])
    with pytest.raises(Door):
        Gemma3nModel.forward(
            stub,
            input_ids=ids,
            input_features=torch.zeros(clips, 1, 1),
            input_features_mask=torch.zeros(clips, 1, dtype=torch.bool),
        )
    expected = seen["inputs_embeds"][0, 1:].numpy()
    assert np.array_equal(fusion.fixed_rows(audio, filler, padding, rows=6), expected)


class _Hard:
    """An embedding of a second vocabulary: one row for every id."""

    def __init__(self, offset: int, row: Any) -> None:
        self.vocab_offset, self.vocab_size, self.row = offset, 4, row

    def __call__(self, input_ids: Any) -> Any:
        return self.row.expand(*input_ids.shape, 4)


class _Language:
    def __init__(self, door: Any) -> None:
        self.door = door

    def get_per_layer_inputs(self, ids: Any) -> None:
        return None

    def __call__(self, **arguments: Any) -> None:
        self.door(**arguments)


def phi4(ids: np.ndarray, text: np.ndarray, image: Any, audio: Any) -> tuple[np.ndarray, str]:
    """The embedding's own joining of two copies; the copies are made by index_put, as its parts."""
    from transformers.models.phi4_multimodal import modeling_phi4_multimodal as modeling

    mode = ""

    def put(token: int, rows: Any) -> Any:
        def embed(input_ids: Any, inputs_embeds: Any, **keywords: Any) -> Any:
            nonlocal mode
            mode = keywords.get("audio_projection_mode", mode)
            places = torch.nonzero(input_ids == token, as_tuple=True)
            return inputs_embeds.index_put(places, torch.from_numpy(rows), accumulate=False)

        return embed

    stub = types.SimpleNamespace(
        config=types.SimpleNamespace(vision_config=types.SimpleNamespace(image_token_id=10)),
        image_token_id=10,
        audio_token_id=16,
        image_embed=put(10, image),
        audio_embed=put(16, audio),
    )
    joined = modeling.Phi4MultimodalFeatureEmbedding.forward(
        stub,
        torch.from_numpy(ids),
        torch.from_numpy(text),
        image_pixel_values=0 if image is not None else None,
        audio_input_features=0 if audio is not None else None,
    )
    return joined.numpy(), mode


@settings(max_examples=80)
@given(
    st.lists(
        st.lists(st.sampled_from([20, 10, 16]), min_size=5, max_size=5), min_size=1, max_size=2
    ),
    st.sampled_from([None, np.nan, np.inf]),
)
def test_merge_of_copies_and_gates_equal_phi4(lines: list[list[int]], odd: float | None) -> None:
    ids = np.array(lines)
    text = np.arange(ids.size * 2, dtype=np.float32).reshape(*ids.shape, 2)
    counts = {token: int((ids == token).sum()) for token in (10, 16)}
    image, audio = (
        first - np.arange(counts[token] * 2, dtype=np.float32).reshape(-1, 2)
        for token, first in ((10, -1), (16, -100))
    )
    if odd is not None and counts[10]:
        image[0, 0] = odd
    if odd is not None:
        text[0, 0, 0] = odd
    expected, mode = phi4(ids, text, image if counts[10] else None, audio if counts[16] else None)
    actual = fusion.merge_copies(
        ids,
        text,
        image=(10, image) if counts[10] else None,
        audio=(16, audio) if counts[16] else None,
    )
    np.testing.assert_array_equal(actual, expected)
    gates = fusion.gates(ids, image_id=10, audio_id=16)
    assert gates.vision == bool(counts[10])
    assert gates.speech == (mode == "speech")


def test_phi4_puts_one_row_on_every_placeholder() -> None:
    """What the reference refuses: a single row is broadcast."""
    ids, text = np.array([[10, 10]]), np.zeros((1, 2, 2), np.float32)
    one = np.ones((1, 2), np.float32)
    assert phi4(ids, text, one, None)[0].tolist() == [[[1, 1], [1, 1]]]
    with pytest.raises(ValueError, match="features-too-few"):
        fusion.merge_copies(ids, text, image=(10, one))
