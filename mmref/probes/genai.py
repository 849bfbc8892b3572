"""Packages for ONNX Runtime GenAI: a configuration and three graphs in a folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from mmref.probes import graphs

__all__ = ["CONTEXT_LENGTH", "VOCABULARY", "PackageConfig", "write_package"]

CONTEXT_LENGTH = 40_000
VOCABULARY = 64
# Refusals arrive as exceptions; no need to print them too. Graphs this small need no threads,
# and dozens of packages with a pool for each graph would use them up.
_SESSION = {"log_severity_level": 4, "intra_op_num_threads": 1, "inter_op_num_threads": 1}


@dataclass(frozen=True, slots=True)
class PackageConfig:
    """The values of a package that its positions depend on; one package for each set.

    Parameters
    ----------
    model_type : str
        ``model.type``.
    token_ids : tuple of (str, int)
        The ids that the configuration gives, by its own key names.
    spatial_merge_size : int
        ``vision.spatial_merge_size``.
    tokens_per_second : float or None
        ``vision.tokens_per_second``; None leaves it out.
    """

    model_type: str
    token_ids: tuple[tuple[str, int], ...]
    spatial_merge_size: int = 2
    tokens_per_second: float | None = None

    def as_json(self) -> dict[str, Any]:
        """The content of genai_config.json.

        Returns
        -------
        dict
            Ready to encode.
        """
        vision: dict[str, Any] = {
            "filename": "vision.onnx",
            "session_options": _SESSION,
            "spatial_merge_size": self.spatial_merge_size,
            "inputs": {"pixel_values": "pixel_values", "image_grid_thw": "image_grid_thw"},
            "outputs": {"image_features": "image_features"},
        }
        if self.tokens_per_second is not None:
            vision["tokens_per_second"] = self.tokens_per_second
        model: dict[str, Any] = {
            "type": self.model_type,
            "bos_token_id": 1,
            "vocab_size": VOCABULARY,
            "context_length": CONTEXT_LENGTH,
            **dict(self.token_ids),
            "vision": vision,
            "embedding": {
                "filename": "embedding.onnx",
                "session_options": _SESSION,
                "inputs": {"input_ids": "input_ids", "image_features": "image_features"},
                "outputs": {"inputs_embeds": "inputs_embeds"},
            },
            "decoder": {
                "filename": "decoder.onnx",
                "session_options": _SESSION,
                "hidden_size": graphs.HIDDEN,
                "head_size": graphs.HIDDEN,
                "num_attention_heads": 1,
                "num_key_value_heads": 1,
                "num_hidden_layers": 1,
                "inputs": {
                    "inputs_embeds": "inputs_embeds",
                    "attention_mask": "attention_mask",
                    "position_ids": "position_ids",
                    "past_key_names": "past_key_values.%d.key",
                    "past_value_names": "past_key_values.%d.value",
                },
                "outputs": {
                    "logits": "logits",
                    "present_key_names": "present.%d.key",
                    "present_value_names": "present.%d.value",
                },
            },
        }
        search = {"max_length": CONTEXT_LENGTH, "past_present_share_buffer": False}
        return {"model": model, "search": search}


def write_package(folder: Path, config: PackageConfig) -> None:
    """Write a package.

    Parameters
    ----------
    folder : Path
        An existing empty folder.
    config : PackageConfig
        The values that differ between packages.
    """
    taken = {value for _, value in config.token_ids}
    favourite = next(token for token in range(3, VOCABULARY) if token not in taken)
    graphs.vision(str(folder / "vision.onnx"))
    graphs.embedding(str(folder / "embedding.onnx"))
    graphs.decoder(str(folder / "decoder.onnx"), VOCABULARY, favourite)
    text = msgspec.json.format(msgspec.json.encode(config.as_json()), indent=1)
    (folder / "genai_config.json").write_bytes(text)
