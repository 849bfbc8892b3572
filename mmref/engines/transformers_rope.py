"""transformers' 1-D positions: what ``generate`` makes of a mask, and what a forward counts.

The first are functions of the generation mixin, called without a model. The second is read
in a tiny text model of random weights, where it asks for its rotary embedding.
"""

from __future__ import annotations

import importlib
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from mmref import families
from mmref.case import Case

__all__ = ["answer", "skip"]

Array = npt.NDArray[Any]

# family to module, model, configuration: the language model that the family runs
_MODELS = {
    "llama": ("llama", "LlamaModel", "LlamaConfig"),
    "llava": ("llama", "LlamaModel", "LlamaConfig"),
    "qwen3": ("qwen3", "Qwen3Model", "Qwen3Config"),
    "phi3": ("phi3", "Phi3Model", "Phi3Config"),
    "gemma3_text": ("gemma3", "Gemma3TextModel", "Gemma3TextConfig"),
    "gemma3": ("gemma3", "Gemma3TextModel", "Gemma3TextConfig"),
    "mistral3": ("mistral", "MistralModel", "MistralConfig"),
    "qwen2_audio": ("qwen2", "Qwen2Model", "Qwen2Config"),
}
_VOCABULARY = 64


def skip(case: Case) -> str | None:
    """Why a case cannot be put to transformers, or None.

    Parameters
    ----------
    case : Case
        A case of the subject ``rope``.

    Returns
    -------
    str or None
        A reason that holds for a whole kind of case.
    """
    if "window" in case.scalars:
        return "transformers takes a prompt at once, not by windows"
    if case.steps:
        return "steps are run on models with 3-D positions"
    return None


def answer(case: Case) -> dict[str, Array]:
    """Positions of a prompt.

    Parameters
    ----------
    case : Case
        A case of the subject ``rope``.

    Returns
    -------
    dict of str to numpy.ndarray
        ``position_ids`` and ``next_position_ids`` of ``generate``, and the
        ``forward_position_ids`` of a forward that is given the mask alone, without those of
        masked places.
    """
    import torch
    from transformers.generation.utils import GenerationMixin

    ids = torch.from_numpy(np.array(case.arrays["input_ids"]))
    given = case.arrays.get("attention_mask")
    mask = torch.from_numpy(np.ones(ids.shape, np.int64) if given is None else np.array(given))
    mask = mask.long()
    stub = SimpleNamespace()
    kwargs: dict[str, Any] = {"attention_mask": mask, "input_ids": ids}
    positions = GenerationMixin._prepare_position_ids_for_generation(stub, ids, kwargs)
    arrays = {"position_ids": positions.expand(ids.shape).numpy().astype(np.int64)}
    kwargs = {"position_ids": positions, "attention_mask": mask}
    following = []
    for _ in range(case.decode_steps):
        kwargs = GenerationMixin._update_model_kwargs_for_generation(stub, {}, kwargs)
        following.append(kwargs["position_ids"][:, -1:])
    if following:
        arrays["next_position_ids"] = torch.cat(following, dim=1).numpy().astype(np.int64)
        arrays["next_attention_mask"] = kwargs["attention_mask"].numpy().astype(np.int64)
    name = families.get(case.family).name
    if name in _MODELS:
        arrays["forward_position_ids"] = _forward(name, ids, mask)
    return arrays


def _forward(name: str, ids: Any, mask: Any) -> Array:
    import torch

    model, seen = _model(*_MODELS[name])
    seen.clear()
    with torch.no_grad():
        model(input_ids=ids % _VOCABULARY, attention_mask=mask, use_cache=False)
    positions = np.broadcast_to(seen[0], tuple(ids.shape))
    return np.where(mask.numpy() != 0, positions, 0)


@cache
def _model(module: str, model_class: str, config_class: str) -> tuple[Any, list[Array]]:
    import torch

    owner = importlib.import_module(f"transformers.models.{module}.modeling_{module}")
    package = importlib.import_module(f"transformers.models.{module}.configuration_{module}")
    sizes = {"hidden_size": 8, "intermediate_size": 8, "head_dim": 4}
    sizes |= {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    heads = {"num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1}
    config = getattr(package, config_class)(vocab_size=_VOCABULARY, **sizes, **heads)
    torch.manual_seed(0)
    model = getattr(owner, model_class)(config).eval()
    seen: list[Array] = []

    def look(_module: Any, arguments: Any, named: dict[str, Any]) -> None:
        positions = named["position_ids"] if "position_ids" in named else arguments[1]
        seen.append(positions.numpy().astype(np.int64))

    model.rotary_emb.register_forward_pre_hook(look, with_kwargs=True)
    return model, seen
