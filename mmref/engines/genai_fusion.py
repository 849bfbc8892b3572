"""ONNX Runtime GenAI: the embeddings that its decoder received, image features included.

Its pixels are the features themselves (the vision graph adds four patches to one), so that
every embedding says which feature row it took. Prompts have no vision_start: positions are
another subject, and without one the engine asks for no grid.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mmref import families
from mmref.case import Case
from mmref.engines.genai_models import KeptModels
from mmref.probes import PackageConfig, write_package
from mmref.probes import fusion as graphs

__all__ = ["Packages"]

_FORM = "gather"  # what exporters write for the model types of this engine
_PATCHES = 4
_NO_TOKEN = 4096


class Packages:
    """One package a model type, made when it is first asked.

    Parameters
    ----------
    engine : module
        onnxruntime_genai.
    provider : str
        What its graphs run on.
    """

    def __init__(self, engine: Any, provider: str = "cpu") -> None:
        self._engine = engine
        self._models = KeptModels(engine, provider)

    def skip(self, case: Case) -> str | None:
        """Why a case cannot be put to the engine, or None.

        Parameters
        ----------
        case : Case
            A case of the subject ``fusion``.

        Returns
        -------
        str or None
            A reason that holds for a whole kind of case.
        """
        row = families.get(case.family)
        if row.genai_type is None:
            return "no package is generated for this family's merge"
        if case.scalars.get("form", _FORM) != _FORM:
            return f"its packages hold the graph form {_FORM}"
        video = graphs.token_ids(case).video
        if "video_rows" in case.scalars or (case.arrays["input_ids"] == video).any():
            return "the engine takes no videos"
        if "feature_width" in case.scalars:
            return "a vision graph has one width"
        if "turn_start" in case.scalars and len(case.arrays["input_ids"]) > 1:
            return "turns of a batch"
        return None

    def answer(self, case: Case) -> dict[str, npt.NDArray[Any]]:
        """What the decoder received.

        Parameters
        ----------
        case : Case
            A case.

        Returns
        -------
        dict
            ``inputs_embeds``, float32 (batch, seq, hidden).
        """
        engine, ids = self._engine, case.arrays["input_ids"].astype(np.int32)
        start = int(case.scalars.get("turn_start", ids.shape[1]))  # type: ignore[arg-type]
        parameters = engine.GeneratorParams(self._model(case))
        parameters.set_search_options(
            max_length=ids.shape[1] + 1, batch_size=len(ids), do_sample=False
        )
        generator = engine.Generator(self._model(case), parameters)
        generator.set_inputs(self._tensors(case, np.ascontiguousarray(ids[:, :start])))
        parts = [np.array(generator.get_input("inputs_embeds"))]
        if start < ids.shape[1]:
            generator.append_tokens(np.ascontiguousarray(ids[:, start:]))
            parts.append(np.array(generator.get_input("inputs_embeds")))
        return {"inputs_embeds": np.concatenate(parts, axis=1)}

    def _tensors(self, case: Case, ids: npt.NDArray[np.int32]) -> Any:
        tensors = self._engine.NamedTensors()
        features = graphs.passed_features(case).get("image")
        if features is not None and len(features):
            patches = np.zeros((len(features) * _PATCHES, graphs.HIDDEN), np.float32)
            patches[::_PATCHES] = features
            tensors["pixel_values"] = patches
            # one image, or one of a single token and another of the rest
            columns = [1, len(features) - 1] if len(features) > 1 else [1]
            grids = np.array([[1, 2, 2 * column] for column in columns], np.int64)
            tensors["image_grid_thw"] = grids
            tensors["num_image_tokens"] = np.array([len(features)], np.int64)
        tensors["input_ids"] = ids
        return tensors

    def _model(self, case: Case) -> Any:
        row = families.get(case.family)
        model_type = case.family if case.family == "fara" else str(row.genai_type)
        image = int(graphs.token_ids(case).image or 0)
        ids = {"image_token_id": image, "pad_token_id": 0, "eos_token_id": 1}
        ids["vision_start_token_id"] = _NO_TOKEN

        def write(folder: Path) -> None:
            write_package(folder, PackageConfig(model_type, tuple(ids.items())))
            graphs.write(
                folder / "embedding.onnx",
                _FORM,
                [("image_features", image)],
                vocabulary=graphs.VOCABULARY,
                hidden=graphs.HIDDEN,
            )

        return self._models.get((model_type, image), write)
