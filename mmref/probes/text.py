"""Packages for ONNX Runtime GenAI whose decoder takes 1-D positions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from mmref.probes import graphs
from mmref.probes.genai import VOCABULARY, PackageConfig

__all__ = ["PIPELINE", "WINDOWED_CONTEXT", "TextPackage", "write_text_package"]

PIPELINE = "decoder-pipeline"
WINDOWED_CONTEXT = 512  # the mask of a windowed package is always that wide
_SPEECH = ("gemma4", "phi4mm")


@dataclass(frozen=True, slots=True)
class TextPackage:
    """The values of a package that its 1-D positions depend on.

    Parameters
    ----------
    model_type : str
        ``model.type``; the type of pipelines where the inputs go in by windows.
    pad, eos : int
        ``model.pad_token_id``, ``model.eos_token_id``.
    favourite : int
        The token that is generated.
    multimodal : bool
        Whether embeddings are made by a graph of their own.
    window : int
        Tokens of a window; 0: the whole prompt goes in at once.
    alignment : str
        Where the tokens stand in a window that is not full.
    """

    model_type: str
    pad: int
    eos: int
    favourite: int
    multimodal: bool = False
    window: int = 0
    alignment: str = "left"

    def as_json(self) -> dict[str, Any]:
        """The content of genai_config.json.

        Returns
        -------
        dict
            Ready to encode.
        """
        ids = (("pad_token_id", self.pad), ("eos_token_id", self.eos))
        config = PackageConfig(self.model_type, ids).as_json()
        model, decoder = config["model"], config["model"]["decoder"]
        if self.model_type in _SPEECH:
            model["speech"] = {
                "filename": "speech.onnx",
                "config_filename": "audio_processor_config.json",
                "session_options": model["vision"]["session_options"],
                "inputs": {"audio_embeds": "audio_embeds", "audio_sizes": "audio_sizes"},
                "outputs": {"audio_features": "audio_features"},
            }
            model["embedding"]["inputs"]["audio_features"] = "audio_features"
        if not self.multimodal:
            del model["vision"], model["embedding"]
            decoder["inputs"] = {"input_ids": "input_ids", **decoder["inputs"]}
            del decoder["inputs"]["inputs_embeds"]
        if self.window:
            model["context_length"] = config["search"]["max_length"] = WINDOWED_CONTEXT
            del decoder["filename"]
            decoder["num_hidden_layers"] = 0  # the graph has no cache: windows differ in length
            names = ("input_ids", "attention_mask", "position_ids")
            decoder["inputs"] = {name: name for name in names}
            decoder["outputs"] = {"logits": "logits"}
            stage: dict[str, Any] = {
                "filename": "decoder.onnx",
                "inputs": list(names),
                "outputs": ["logits"],
            }
            stage |= {"run_on_prompt": True, "run_on_token_gen": True}
            decoder["pipeline"] = [{"decoder": stage}]
            decoder["sliding_window"] = {
                "window_size": self.window,
                "pad_value": self.pad,
                "alignment": self.alignment,
                "slide_key_value_cache": False,
                "slide_inputs": True,
            }
        return config


def write_text_package(folder: Path, package: TextPackage) -> None:
    """Write a package.

    Parameters
    ----------
    folder : Path
        An existing empty folder.
    package : TextPackage
        The values that differ between packages.
    """
    if package.multimodal:
        graphs.vision(str(folder / "vision.onnx"))
        features = ["image_features"]
        if package.model_type in _SPEECH:
            graphs.speech(str(folder / "speech.onnx"))
            features.append("audio_features")
        graphs.embedding(str(folder / "embedding.onnx"), features)
    graphs.decoder(
        str(folder / "decoder.onnx"),
        VOCABULARY,
        package.favourite,
        axes=1,
        from_ids=not package.multimodal,
        cache=not package.window,
    )
    text = msgspec.json.format(msgspec.json.encode(package.as_json()), indent=1)
    (folder / "genai_config.json").write_bytes(text)
