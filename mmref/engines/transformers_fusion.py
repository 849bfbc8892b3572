"""transformers' own merge: tiny models from configurations, stopped at the language model's door.

The models have random weights, save the table of embeddings, which is that of
`mmref.probes.fusion`. Features are handed in as the outputs of their encoders, so that what
is seen is the model's own merge.
"""

from __future__ import annotations

import contextlib
import importlib
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from mmref import families
from mmref.case import Case
from mmref.engines.transformers_parts import PARTS, Door
from mmref.families import Family, TokenIds
from mmref.probes.fusion import HIDDEN, VOCABULARY, passed_features, table, token_ids

__all__ = ["Door", "Models", "tiny_configuration"]

Array = npt.NDArray[Any]

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
_AUDIO = {
    "num_mel_bins": 4,
    "encoder_layers": 1,
    "encoder_attention_heads": 1,
    "encoder_ffn_dim": 8,
    "d_model": 8,
    "max_source_positions": 64,
}


def tiny_configuration(row: Family, ids: TokenIds) -> dict[str, Any]:
    """The values of a tiny configuration of a family.

    Parameters
    ----------
    row : Family
        The family.
    ids : TokenIds
        Its placeholders.

    Returns
    -------
    dict
        Keyword arguments of the configuration class.
    """
    name = row.name
    if name == "gemma3":
        text = {"text_config": dict(_SMALL), "vision_config": dict(_TOWER)}
        return {"image_token_id": ids.image, "mm_tokens_per_image": 4, **text}
    if name == "gemma4":
        layered = {"pad_token_id": 0, "hidden_size_per_layer_input": 2, "global_head_dim": 4}
        heads = {"num_key_value_heads": 1, "head_dim": 8, "global_head_dim": 8}
        return {
            "image_token_id": ids.image,
            "video_token_id": ids.video,
            "audio_token_id": ids.audio,
            "text_config": {**_SMALL, **layered, "vocab_size_per_layer_input": VOCABULARY},
            "vision_config": {**_TOWER, **heads},
            "audio_config": None,
        }
    if name == "llava":
        return {
            "image_token_index": ids.image,
            "text_config": {"model_type": "llama", **_SMALL},
            "vision_config": {"model_type": "clip_vision_model", **_TOWER},
        }
    if name == "mistral3":
        return {
            "image_token_index": ids.image,
            "text_config": {"model_type": "mistral", **_SMALL},
            "vision_config": {"model_type": "pixtral", **_TOWER, "head_dim": 8},
        }
    if name == "qwen2_audio":
        return {
            "audio_token_index": ids.audio,
            "text_config": {"model_type": "qwen2", **_SMALL},
            "audio_config": dict(_AUDIO),
        }
    vision = dict(_VISION)
    if name == "qwen2_vl":
        vision |= {"embed_dim": 8, "hidden_size": HIDDEN}
    return {
        "image_token_id": ids.image,
        "video_token_id": ids.video,
        "text_config": dict(_TEXT),
        "vision_config": vision,
    }


class Models:
    """One tiny model a family, made when it is first asked."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, TokenIds], tuple[Any, dict[str, Any]]] = {}

    def skip(self, case: Case) -> str | None:
        """Why a case cannot be put to the model, or None.

        Parameters
        ----------
        case : Case
            A case of the subject ``fusion``.

        Returns
        -------
        str or None
            A reason that holds for a whole kind of case.
        """
        row, ids = families.get(case.family), case.arrays["input_ids"]
        if not row.fusing.model:
            return "the family merges nothing"
        if "turn_start" in case.scalars:
            return "a later call of transformers takes its own pixels"
        if row.name == "qwen2_audio":
            if case.scalars.get("audio_rows") == 0:
                return "a clip has at least one row"
            mine = ids == token_ids(case).audio
            if ids.shape[1] == 1:
                return "the model takes one token for a step of generation"
            plain = case.scalars.get("audio_rows") == 1 and "feature_width" not in case.scalars
            if mine.sum() == 1 and "audio_rows" in case.scalars and not plain:
                return "one audio placeholder stands for a whole clip and is expanded"
        return None

    def answer(self, case: Case) -> dict[str, Array]:
        """What the language model is handed; raises what the model raises.

        Parameters
        ----------
        case : Case
            A case.

        Returns
        -------
        dict
            ``inputs_embeds``, and ``deepstack`` where the family has it.
        """
        row = families.get(case.family)
        seen = self.run(row, token_ids(case), case.arrays["input_ids"], passed_features(case))
        arrays = {"inputs_embeds": seen["inputs_embeds"].numpy()}
        # rows of another width go no further than the first layer, which is not run
        if seen.get("deepstack_visual_embeds") is not None and "feature_width" not in case.scalars:
            deep = np.zeros((1, *arrays["inputs_embeds"].shape), np.float32)
            deep[0][seen["visual_pos_masks"].numpy()] = seen["deepstack_visual_embeds"][0].numpy()
            arrays["deepstack"] = deep
        return arrays

    def run(
        self, row: Family, placeholders: TokenIds, ids: Array, features: dict[str, Array]
    ) -> dict[str, Any]:
        """Put a prompt to a family's model.

        Parameters
        ----------
        row : Family
            The family.
        placeholders : TokenIds
            Its placeholders.
        ids : numpy.ndarray
            int64, shape (batch, seq).
        features : dict of str to numpy.ndarray
            Rows of features by kind, float32.

        Returns
        -------
        dict
            The keyword arguments of the language model.
        """
        import torch

        if row.name in PARTS:
            return {"inputs_embeds": PARTS[row.name](ids, placeholders, features)}
        model, seen = self.model(row, placeholders)
        seen.clear()
        tokens = torch.from_numpy(np.array(ids))
        arguments: dict[str, Any] = {
            "input_ids": tokens,
            "attention_mask": torch.ones_like(tokens),
        }
        rows = {kind: torch.from_numpy(np.array(value)) for kind, value in features.items()}
        if "audio" in rows:
            arguments |= _clip(model, row, rows.pop("audio"))
        outputs = {}
        for kind, value in rows.items():
            pooled = value[None] if row.name == "gemma3" else [value]
            outputs[kind] = types.SimpleNamespace(
                pooler_output=pooled, deepstack_features=[[value]]
            )
        if outputs:
            arguments["mm_encoder_outputs"] = outputs
        if row.positions == "3d":  # positions are another subject
            arguments["position_ids"] = torch.zeros(3, *ids.shape, dtype=torch.long)
        with torch.no_grad():
            try:
                model(**arguments)
            except Door:
                return seen
        raise AssertionError("the language model was not reached")

    def model(self, row: Family, placeholders: TokenIds) -> tuple[Any, dict[str, Any]]:
        """A family's tiny model.

        Parameters
        ----------
        row : Family
            The family.
        placeholders : TokenIds
            Its placeholders.

        Returns
        -------
        tuple
            The model, and a dictionary that holds what its language model is handed.
        """
        key = (row.name, placeholders)
        if key in self._made:
            return self._made[key]
        module, _, name = row.fusing.model.partition(":")
        package = f"transformers.models.{row.name}"
        configuration = importlib.import_module(f"{package}.configuration_{row.name}")
        settings = getattr(configuration, name.removesuffix("Model") + "Config")
        owner = getattr(importlib.import_module(f"transformers.models.{module}"), name)
        with _quiet():
            made = owner(settings(**tiny_configuration(row, placeholders))).eval()
        _set_table(made)
        seen: dict[str, Any] = {}

        def door(*_: Any, **arguments: Any) -> None:
            seen.update(arguments)
            raise Door

        made.language_model.forward = door
        self._made[key] = (made, seen)
        return self._made[key]


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without the warnings about configurations this small."""
    from transformers.utils import logging

    before = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(before)


def _set_table(model: Any) -> None:
    """Embeddings that say which token they are of, whatever the model multiplies them by."""
    import torch

    layer = model.get_input_embeddings()
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(table(VOCABULARY, HIDDEN)))
        scale = layer(torch.tensor([1]))[0, 0]
        layer.weight.div_(scale)


def _clip(model: Any, row: Family, audio: Any) -> dict[str, Any]:
    """The model's audio encoder made to give these rows, as one clip."""
    import torch

    if row.name == "gemma4":
        output = types.SimpleNamespace(
            pooler_output=audio[None], attention_mask=torch.ones(1, len(audio), dtype=torch.bool)
        )
        model.get_audio_features = lambda *_, **__: output
        return {
            "input_features": torch.zeros(1, 4, 4),
            "input_features_mask": torch.ones(1, 4, dtype=torch.bool),
        }
    hidden = types.SimpleNamespace(last_hidden_state=torch.zeros(1, len(audio), 8))
    lengths = torch.tensor([len(audio)])
    model.audio_tower.forward = lambda *_, **__: hidden
    model.audio_tower._get_feat_extract_output_lengths = lambda _: (lengths, lengths)
    model.multi_modal_projector.forward = lambda _: audio[None]
    return {
        "input_features": torch.zeros(1, 4, 64),
        "feature_attention_mask": torch.ones(1, 64, dtype=torch.long),
    }
