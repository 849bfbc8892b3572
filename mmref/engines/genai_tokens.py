"""ONNX Runtime GenAI's own image processors, on generated packages and real PNG bytes."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mmref import families
from mmref.case import Case
from mmref.probes import pictures

__all__ = ["TokenProcessors"]

_LARGEST_PICTURE = 4_000_000  # pixels; the engine decodes and resizes every one of them


class TokenProcessors:
    """One processor a model type, made when it is first asked.

    Parameters
    ----------
    engine : module
        onnxruntime_genai.
    """

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self._made: dict[str, tuple[Any, Any, Any]] = {}

    def skip(self, case: Case) -> str | None:
        """Why a case cannot be put to the engine, or None.

        Parameters
        ----------
        case : Case
            A case of the subject ``tokens``.

        Returns
        -------
        str or None
            A reason that holds for a whole kind of case.
        """
        row = families.get(case.family)
        if row.genai_type is None or row.media.image_form != "run":
            return "no package is generated for this family's processor"
        if "video_sizes" in case.arrays:
            return "the engine's processor takes no videos"
        if len(case.texts) != 1:
            return "the engine's processor takes one prompt"
        sizes = case.arrays.get("image_sizes")
        if (
            sizes is not None
            and sizes.size
            and (sizes.min() < 1 or int(sizes.prod(1).max()) > _LARGEST_PICTURE)
        ):
            return f"a picture without pixels, or with more than {_LARGEST_PICTURE}"
        return None

    def answer(self, case: Case) -> dict[str, npt.NDArray[Any]]:
        """What the processor makes of a case.

        Parameters
        ----------
        case : Case
            The case.

        Returns
        -------
        dict
            Arrays of an outcome.
        """
        row = families.get(case.family)
        model_type = case.family if case.family == "fara" else str(row.genai_type)
        if model_type not in self._made:
            folder = tempfile.TemporaryDirectory(prefix="mmref-")
            pictures.write_processor_package(Path(folder.name), row, model_type)
            model = self._engine.Model(folder.name)
            self._made[model_type] = (model.create_multimodal_processor(), model, folder)
        processor = self._made[model_type][0]
        sizes = case.arrays.get("image_sizes")
        images = None
        if sizes is not None and len(sizes):
            files = [pictures.png(height, width) for height, width in sizes.tolist()]
            images = self._engine.Images.open_bytes(*files)
        outputs = processor(case.texts[0], images=images)
        names = list(outputs.keys())
        tokens = np.array(outputs["input_ids"].as_numpy()).reshape(-1).astype(np.int64)
        arrays = {
            "tokens": tokens,
            "lengths": np.array([len(tokens)], np.int64),
            "image_tokens": np.array(outputs["num_image_tokens"].as_numpy()).astype(np.int64),
        }
        if "image_grid_thw" in names:
            arrays["image_grid_thw"] = np.array(outputs["image_grid_thw"].as_numpy())
        return arrays
