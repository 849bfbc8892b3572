"""ONNX Runtime GenAI: the 1-D positions that its decoder received, also by windows."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mmref import families
from mmref.case import Case, Step
from mmref.engines.genai_models import KeptModels
from mmref.probes.genai import CONTEXT_LENGTH, VOCABULARY
from mmref.probes.text import PIPELINE, WINDOWED_CONTEXT, TextPackage, write_text_package

__all__ = ["TextModels", "dies_of"]

Array = npt.NDArray[Any]

_TYPES = {
    "gemma3": "gemma3",
    "gemma4": "gemma4",
    "mistral3": "mistral3",
    "phi4_multimodal": "phi4mm",
    "llama": "llama",
    "qwen3": "qwen3",
    "phi3": "phi3",
    "gemma3_text": "gemma3_text",
}
_EOS = 2


class TextModels:
    """One package for each set of values, made when it is first asked.

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
            A case of the subject ``rope``.

        Returns
        -------
        str or None
            A reason that holds for a whole kind of case.
        """
        if families.get(case.family).name not in _TYPES:
            return "no package with 1-D positions is generated for the family"
        ids, mask = case.arrays["input_ids"], case.arrays.get("attention_mask")
        if mask is not None and (mask.shape != ids.shape or not np.isin(mask, (0, 1)).all()):
            return "a mask that is none: the engine takes no mask at all"
        appended = [step.arrays for step in case.steps if step.arrays]
        several = len(ids) > 1 or any(len(arrays["input_ids"]) > 1 for arrays in appended)
        if case.steps and (several or any("attention_mask" in arrays for arrays in appended)):
            return "steps of several rows, or with padding: the engine continues one row of tokens"
        most = WINDOWED_CONTEXT if "window" in case.scalars else CONTEXT_LENGTH
        if _most_tokens(case) > most:
            return f"more than the {most} tokens of the package"
        return None

    def answer(self, case: Case) -> dict[str, Array]:
        """What the decoder received.

        Parameters
        ----------
        case : Case
            A case.

        Returns
        -------
        dict of str to numpy.ndarray
            As the reference shows it, without ``forward_position_ids``.
        """
        package = _package(case)
        engine, model = self._engine, self._model(package)
        ids = _given(case)
        parameters = engine.GeneratorParams(model)
        parameters.set_search_options(
            max_length=_most_tokens(case), batch_size=len(ids), do_sample=False
        )
        generator = engine.Generator(model, parameters)
        look = _Look(generator, bool(package.window))
        _append(engine, generator, ids, first=package.multimodal)
        positions, mask, _ = look.now()
        names = ("position_ids", "attention_mask")
        if package.window:
            names = ("window_position_ids", "window_attended")
        arrays = dict(zip(names, (positions, mask), strict=True))
        following = []
        for step in range(case.decode_steps + 1 if case.decode_steps else 0):
            generator.generate_next_token()
            if step:
                following.append(look.now())
        if following:
            arrays["next_position_ids"] = np.concatenate([seen[0] for seen in following], axis=1)
            shown = "next_attended" if package.window else "next_attention_mask"
            arrays[shown] = following[-1][1]
        pending = False
        for number, later in enumerate(case.steps, start=1):
            pending = self._step(generator, look, later, number, pending, arrays)
        return arrays

    def _step(
        self,
        generator: Any,
        look: _Look,
        step: Step,
        number: int,
        pending: bool,
        arrays: dict[str, Array],
    ) -> bool:
        if step.action == "rewind":
            total = generator.token_count()
            generator.rewind_to(step.count)
            return pending and step.count == total
        seen = []
        if step.action == "append":
            generator.append_tokens(step.arrays["input_ids"].astype(np.int32).ravel())
            seen.append(look.now())
        for call in range(step.count):  # a call shows what the one before it made
            generator.generate_next_token()
            if call or pending:
                seen.append(look.now())
        if seen:
            arrays[f"step_{number}_position_ids"] = np.concatenate([s[0] for s in seen], axis=1)
            name = "attended" if look.by_windows else "mask"
            arrays[f"step_{number}_{name}"] = seen[-1][1]
            if not look.by_windows:
                arrays[f"step_{number}_cached"] = np.array([seen[0][2]], np.int64)
        return step.action == "generate"

    def _model(self, package: TextPackage) -> Any:
        return self._models.get(package, lambda folder: write_text_package(folder, package))


class _Look:
    """Reads what the last call handed to the decoder."""

    def __init__(self, generator: Any, by_windows: bool) -> None:
        self._generator = generator
        self.by_windows = by_windows

    def now(self) -> tuple[Array, Array, int]:
        """Positions, the mask or how much of it is set, tokens in the cache."""
        positions = np.array(self._generator.get_input("position_ids"))
        mask = np.array(self._generator.get_input("attention_mask"))
        if self.by_windows:
            return positions, mask.sum(axis=1), 0
        return positions, mask, np.array(self._generator.get_input(_CACHE)).shape[2]


_CACHE = "past_key_values.0.key"


def dies_of(case: Case) -> bool:
    """Whether a case is to be run in a child: the engine dies of it, or reads what it never wrote.

    Parameters
    ----------
    case : Case
        A case of the subject ``rope``.

    Returns
    -------
    bool
        True for a first window of nothing but pad ids, for tokens that are generated after a
        row of nothing but pad ids, and for tokens appended to one window of one token.
    """
    there = _given(case) != _package(case).pad
    size = int(case.scalars.get("window", 0))  # type: ignore[arg-type]
    if not size:
        return case.decode_steps > 0 and not there.any(axis=1).all()
    if size == 1 and there.shape[1] == 1 and any(step.arrays for step in case.steps):
        return True
    fill = -there.shape[1] % size if case.scalars.get("window_alignment") == "right" else 0
    return not there[:, : size - fill].any(axis=1).all()


def _append(engine: Any, generator: Any, ids: Array, *, first: bool) -> None:
    if not first:
        generator.append_tokens(ids)
        return
    tensors = engine.NamedTensors()
    tensors["input_ids"] = ids
    generator.set_inputs(tensors)


def _given(case: Case) -> Array:
    """The tokens, with the pad id at masked places: the engine takes no mask."""
    ids = case.arrays["input_ids"]
    mask = case.arrays.get("attention_mask")
    if mask is not None:
        ids = np.where(np.asarray(mask) != 0, ids, _package(case).pad)
    return np.ascontiguousarray(ids.astype(np.int32))


def _package(case: Case) -> TextPackage:
    row = families.get(case.family)
    ids = case.ids or row.token_ids
    window = int(case.scalars.get("window", 0))  # type: ignore[arg-type]
    pad = ids.pad or 0
    taken = {pad, *ids.as_dict().values(), _EOS}
    return TextPackage(
        model_type=PIPELINE if window else _TYPES[row.name],
        pad=pad,
        eos=ids.eos if ids.eos is not None and ids.eos < VOCABULARY else _EOS,
        favourite=next(token for token in range(3, VOCABULARY) if token not in taken),
        multimodal=bool(row.fusing.kinds) and not window,
        window=window,
        alignment=str(case.scalars.get("window_alignment", "left")),
    )


def _most_tokens(case: Case) -> int:
    appended = sum(int(step.arrays["input_ids"].size) for step in case.steps if step.arrays)
    later = case.decode_steps + appended + sum(step.count for step in case.steps)
    size = int(case.scalars.get("window", 0))  # type: ignore[arg-type]
    calls = 2 + sum(bool(step.arrays) for step in case.steps)
    return int(case.arrays["input_ids"].shape[-1]) + later + 1 + size * calls
