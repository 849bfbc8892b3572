"""ONNX Runtime GenAI's own image processors, on generated packages and real PNG bytes."""

from __future__ import annotations

import re
import tempfile
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mmref import families
from mmref.case import Case
from mmref.probes import pictures, vocabulary

__all__ = ["TokenProcessors", "dies_of"]

_LARGEST_PICTURE = 4_000_000  # pixels; the engine decodes and resizes every one of them


def dies_of(case: Case) -> bool:
    """Whether the engine is known to die of a case, so that it has to run in a child.

    Parameters
    ----------
    case : Case
        A case of the subject ``tokens``.

    Returns
    -------
    bool
        True for Gemma 3's empty prompt without images: its processor takes the last
        character off.
    """
    kind = pictures.model_type(case.family)
    return kind == "gemma3" and case.texts == ("",) and not _sizes(case)


class TokenProcessors:
    """One processor a family, made when it is first asked.

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
        if pictures.model_type(case.family) is None:
            return "no package is generated for this family's processor"
        if "audio_sizes" in case.arrays:
            return "no package is generated for the engine's audio processors"
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
        name = case.family if case.family == "fara" else row.name
        if name not in self._made:
            folder = tempfile.TemporaryDirectory(prefix="mmref-")
            pictures.write_processor_package(Path(folder.name), name)
            model = self._engine.Model(folder.name)
            self._made[name] = (model.create_multimodal_processor(), model, folder)
        processor = self._made[name][0]
        images = None
        if sizes := _sizes(case):
            files = [pictures.png(height, width) for height, width in sizes]
            images = self._engine.Images.open_bytes(*files)
        text = case.texts[0]
        phi4 = pictures.model_type(name) == "phi4mm"
        if phi4:  # its prompts number the images
            numbers = count(1)
            placeholder = re.escape(row.media.text("image"))
            text = re.sub(placeholder, lambda _: f"<|image_{next(numbers)}|>", text)
        outputs = processor(text, images=images)
        found = {key: np.array(outputs[key].as_numpy()) for key in outputs.keys()}  # noqa: SIM118
        tokens = found["input_ids"].reshape(-1).astype(np.int64)
        if phi4:
            image = vocabulary.of(row).token_ids.image or 0
            tokens[tokens == pictures.PHI4_IMAGE_ID] = image
        arrays = {"tokens": tokens, "lengths": np.array([len(tokens)], np.int64)}
        if "num_image_tokens" in found:  # one number, or one for each image
            arrays["image_tokens"] = found["num_image_tokens"].sum(keepdims=True).reshape(-1)
        if "token_type_ids" in found:
            arrays["token_types"] = found["token_type_ids"].reshape(-1).astype(np.int64)
        if "image_grid_thw" in found:
            arrays["image_grid_thw"] = found["image_grid_thw"]
        elif "image_sizes" in found and row.media.image_form == "rows":
            rule = row.media.image_resize
            assert rule is not None
            patches = found["image_sizes"] // rule.patch_size
            arrays["image_grid_thw"] = np.insert(patches, 0, 1, axis=1)
        return arrays


def _sizes(case: Case) -> list[list[int]]:
    found: list[list[int]] = case.arrays.get("image_sizes", np.empty((0, 2), np.int64)).tolist()
    return found
