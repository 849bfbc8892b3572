"""Tiny models of transformers with random weights, built from a configuration alone."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["FAMILIES", "VOCABULARY", "tiny_model"]

VOCABULARY = 64
FAMILIES = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl")
"""Families that `tiny_model` builds."""

_PREFIX = {"qwen2_vl": "Qwen2VL", "qwen2_5_vl": "Qwen2_5_VL", "qwen3_vl": "Qwen3VL"}
_TEXT: dict[str, object] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "bos_token_id": 1,
    "eos_token_id": None,
    "pad_token_id": 0,
    "rope_parameters": {"rope_type": "default", "mrope_section": [2, 3, 3], "rope_theta": 1e4},
}
_VISION: dict[str, object] = {"depth": 1, "num_heads": 2, "patch_size": 2, "temporal_patch_size": 1}
_OWN: dict[str, dict[str, object]] = {
    "qwen2_vl": {"embed_dim": 32, "hidden_size": 32, "mlp_ratio": 1},
    "qwen2_5_vl": {
        "hidden_size": 32,
        "intermediate_size": 32,
        "out_hidden_size": 32,
        "window_size": 8,
        "fullatt_block_indexes": [0],
    },
    "qwen3_vl": {
        "hidden_size": 32,
        "intermediate_size": 32,
        "out_hidden_size": 32,
        "num_position_embeddings": 16,
        "deepstack_visual_indexes": [],
    },
}


def tiny_model(family: str) -> Any:
    """A model of a family, of one layer.

    Parameters
    ----------
    family : str
        One of `FAMILIES`.

    Returns
    -------
    transformers.PreTrainedModel
        Its ``...ForConditionalGeneration``; a pixel has 12 values, and token ids,
        merge size and rate can be set in its ``config`` at any time.
    """
    configurations = importlib.import_module(f"transformers.models.{family}.configuration_{family}")
    models = importlib.import_module(f"transformers.models.{family}.modeling_{family}")
    prefix = _PREFIX[family]
    config = getattr(configurations, f"{prefix}Config")(
        text_config=dict(_TEXT), vision_config={**_VISION, **_OWN[family]}
    )
    return getattr(models, f"{prefix}ForConditionalGeneration")(config).eval()
