"""Merges of transformers that are run without their model: it is too large to be made small.

The forward of the class that merges is bound to a stub with the few attributes it reads;
encoders and projections give the features of the case.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from mmref.families import TokenIds
from mmref.probes.fusion import HIDDEN, VOCABULARY, table

__all__ = ["PARTS", "Door"]

Array = npt.NDArray[Any]


class Door(Exception):
    """Raised where the language model would begin."""


def phi4(ids: Array, placeholders: TokenIds, features: Mapping[str, Array]) -> Any:
    """Phi-4 multimodal's embedding of features, with its own index_put for each kind.

    Parameters
    ----------
    ids : numpy.ndarray
        int64, shape (batch, seq).
    placeholders : TokenIds
        Of images and audio.
    features : mapping of str to numpy.ndarray
        Rows of features by kind.

    Returns
    -------
    torch.Tensor
        What the language model is handed.
    """
    import torch
    from transformers.models.phi4_multimodal import modeling_phi4_multimodal as modeling

    config = types.SimpleNamespace(
        vision_config=types.SimpleNamespace(image_token_id=placeholders.image),
        audio_config=types.SimpleNamespace(audio_token_id=placeholders.audio),
    )
    given = {kind: torch.from_numpy(np.array(value)) for kind, value in features.items()}
    one = torch.ones(1)
    same = types.SimpleNamespace(bias=one)
    image = types.SimpleNamespace(
        config=config,
        crop_size=1,
        image_dim_out=1,
        drop=_unchanged,
        img_processor=types.SimpleNamespace(
            embeddings=types.SimpleNamespace(patch_embedding=types.SimpleNamespace(weight=one))
        ),
        get_img_features=lambda *_, **__: torch.ones(2, 1, 1),
        sub_img_feature_extensor=torch.zeros(1, 1, 1, 1),
        global_img_feature_extensor=torch.zeros(1, 1, 1),
        img_projection_up=_Projection(same.bias, _unchanged),
        img_projection_down=lambda _: given["image"][None],
    )
    up, down = _Projection(same.bias, _unchanged), lambda _: given["audio"][None]
    audio = types.SimpleNamespace(
        config=config,
        drop=_unchanged,
        encoder=lambda features, _: features,
        up_proj_for_speech=up,
        down_proj_for_speech=down,
        up_proj_for_vision_speech=up,
        down_proj_for_vision_speech=down,
    )
    both = types.SimpleNamespace(
        config=config,
        image_token_id=placeholders.image,
        audio_token_id=placeholders.audio,
        image_embed=types.MethodType(modeling.Phi4MultimodalImageEmbedding.forward, image),
        audio_embed=types.MethodType(modeling.Phi4MultimodalAudioEmbedding.forward, audio),
    )
    arguments: dict[str, Any] = {}
    if "image" in given:
        arguments["image_pixel_values"] = torch.ones(1, 2, 1, 1, 1)
        arguments["image_sizes"] = torch.ones(1, 2, dtype=torch.long)
        arguments["image_attention_mask"] = torch.ones(1, 2, 2, 2)
    if "audio" in given:
        arguments["audio_input_features"] = torch.ones(1, 1, 1)
        arguments["audio_embed_sizes"] = [len(given["audio"])]
    tokens, text = torch.from_numpy(np.array(ids)), torch.from_numpy(table(VOCABULARY, HIDDEN)[ids])
    return modeling.Phi4MultimodalFeatureEmbedding.forward(both, tokens, text, **arguments)


def gemma3n(ids: Array, placeholders: TokenIds, features: Mapping[str, Array]) -> Any:
    """Gemma 3n's forward up to the language model, for clips that have all their rows.

    Parameters
    ----------
    ids : numpy.ndarray
        int64, shape (batch, seq).
    placeholders : TokenIds
        Of images and audio.
    features : mapping of str to numpy.ndarray
        Rows of features by kind.

    Returns
    -------
    torch.Tensor
        What the language model is handed.
    """
    import torch
    from transformers.models.gemma3n.modeling_gemma3n import Gemma3nModel

    given = {kind: torch.from_numpy(np.array(value)) for kind, value in features.items()}
    rows = given.get("audio", torch.zeros(0, HIDDEN))
    text = torch.from_numpy(table(VOCABULARY, HIDDEN))
    stub = types.SimpleNamespace(
        config=types.SimpleNamespace(
            image_token_id=placeholders.image,
            audio_token_id=placeholders.audio,
            audio_soft_tokens_per_image=len(rows),
            return_dict=True,
        ),
        vocab_size=VOCABULARY,
        # the hard vocabularies begin where the table of text ends, and no case has their ids
        embed_vision=_Hard(VOCABULARY, HIDDEN),
        embed_audio=_Hard(2 * VOCABULARY, rows.shape[1]),
        get_input_embeddings=lambda: lambda tokens: text[tokens],
        language_model=_Language(),
        get_audio_features=lambda *_, **__: types.SimpleNamespace(
            pooler_output=rows[None], audio_mel_mask=torch.zeros(1, len(rows), dtype=torch.bool)
        ),
    )
    stub.get_placeholder_mask = types.MethodType(Gemma3nModel.get_placeholder_mask, stub)
    arguments: dict[str, Any] = {}
    if "image" in given:
        output = types.SimpleNamespace(pooler_output=given["image"][None])
        arguments["mm_encoder_outputs"] = {"image": output}
    if "audio" in given:
        arguments["input_features"] = torch.zeros(1, 1, 1)
        arguments["input_features_mask"] = torch.ones(1, 1, dtype=torch.bool)
    try:
        Gemma3nModel.forward(stub, input_ids=torch.from_numpy(np.array(ids)), **arguments)
    except Door:
        return stub.language_model.seen
    raise AssertionError("the language model was not reached")


def _unchanged(value: Any) -> Any:
    return value


class _Projection:
    """A layer as the code uses it: something to call, with a bias that has a type."""

    def __init__(self, bias: Any, call: Callable[[Any], Any]) -> None:
        self.bias, self.call = bias, call

    def __call__(self, value: Any) -> Any:
        return self.call(value)


class _Hard:
    """The embedding of a second vocabulary."""

    vocab_size = 4

    def __init__(self, offset: int, width: int) -> None:
        self.vocab_offset, self.width = offset, width

    def __call__(self, input_ids: Any) -> Any:
        import torch

        return torch.zeros(*input_ids.shape, self.width)


class _Language:
    """A language model that only shows what it is handed."""

    seen: Any = None

    def get_per_layer_inputs(self, tokens: Any) -> None:
        """No table for each layer."""

    def __call__(self, **arguments: Any) -> None:
        self.seen = arguments["inputs_embeds"]
        raise Door


PARTS: dict[str, Callable[[Array, TokenIds, Mapping[str, Array]], Any]] = {
    "phi4_multimodal": phi4,
    "gemma3n": gemma3n,
}
"""Family to its merge."""
