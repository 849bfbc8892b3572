"""ONNX Runtime GenAI's own audio processor, on a generated package and real WAV bytes."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mmref import families
from mmref.case import Case
from mmref.probes import clips, vocabulary

__all__ = ["AudioProcessor", "dies_of"]

_SHORTEST = 161  # samples of a clip with one frame
_LONGEST = 640_000  # samples; the engine computes a spectrogram of every one of them


class AudioProcessor:
    """The processor of a Gemma 4 package, made when it is first asked.

    Parameters
    ----------
    engine : module
        onnxruntime_genai.
    """

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self._made: tuple[Any, Any, Any] | None = None

    def skip(self, case: Case) -> str | None:
        """Why a case cannot be put to the engine, or None.

        Parameters
        ----------
        case : Case
            A case of the subject ``audio``.

        Returns
        -------
        str or None
            A reason that holds for a whole kind of case.
        """
        if "samples" not in case.arrays:
            return "the engine's processors show tokens alone, and take no masks"
        if families.get(case.family).name != "gemma4":
            return "no package is generated for this family's audio processor"
        samples = case.arrays["samples"]
        if samples.size and (samples.min() < 0 or samples.max() > _LONGEST):
            return f"clips below zero, or of more than {_LONGEST} samples"
        if dies_of(case) and samples.tolist() != [1]:
            return "a clip without a frame: the process ends, as one clip of one sample shows"
        return None

    def answer(self, case: Case) -> dict[str, npt.NDArray[Any]]:
        """The placeholders that the processor writes for each clip.

        Parameters
        ----------
        case : Case
            The case.

        Returns
        -------
        dict
            ``tokens``, int64, (clips,).
        """
        if self._made is None:
            folder = tempfile.TemporaryDirectory(prefix="mmref-")
            clips.write_audio_package(Path(folder.name))
            model = self._engine.Model(folder.name)
            self._made = (model.create_multimodal_processor(), model, folder)
        words = vocabulary.of(families.get("gemma4"))
        placeholder = dict(families.get("gemma4").media.texts)["audio"]
        counts = []
        for samples in case.arrays["samples"].tolist():
            sound = self._engine.Audios.open_bytes(clips.wav(samples))
            outputs = self._made[0](placeholder, audios=sound)
            ids = np.array(outputs["input_ids"].as_numpy())
            counts.append(int((ids == words.token_ids.audio).sum()))
        return {"tokens": np.array(counts, np.int64)}


def dies_of(case: Case) -> bool:
    """Whether a case is to be run in a child, since the engine dies of it.

    Parameters
    ----------
    case : Case
        A case that is not skipped.

    Returns
    -------
    bool
        True for a clip without a frame.
    """
    samples = case.arrays["samples"]
    return bool(samples.size and samples.min() < _SHORTEST)
