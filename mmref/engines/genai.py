"""ONNX Runtime GenAI: generated packages, and what its decoder graph received.

The engine is never given a mask: it recognises padding by the pad id, which
this adapter therefore writes at masked places. It reads grids without pixels,
so none are made. Values that kill the process run in a child.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from mmref import families
from mmref.case import Case, Outcome, Step
from mmref.engines import genai_audio, genai_rope, genai_tokens
from mmref.engines.genai_fusion import Packages
from mmref.engines.genai_models import KeptModels
from mmref.errors import MissingExtra, MissingProvider
from mmref.probes import PackageConfig, write_package
from mmref.probes.genai import CONTEXT_LENGTH, VOCABULARY

__all__ = ["GenAI"]

Array = npt.NDArray[Any]
_CHILD_SECONDS = 60
_ATTEMPTS = 20
# what the engine never wrote is to look like it: the C library fills memory that it hands out
_CHILD_ENVIRONMENT = {"PYTHONFAULTHANDLER": "", "MALLOC_PERTURB_": "85"}
_CONFIG_KEYS = {
    "pad": "pad_token_id",
    "image": "image_token_id",
    "video": "video_token_id",
    "vision_start": "vision_start_token_id",
}


_DIES_OF: dict[str, Callable[[Case], bool]] = {
    "tokens": genai_tokens.dies_of,
    "audio": genai_audio.dies_of,
    "rope": genai_rope.dies_of,
}


class _Part(Protocol):
    """What one subject other than positions is asked of."""

    def skip(self, case: Case) -> str | None: ...

    def answer(self, case: Case) -> dict[str, Array]: ...


class _EndedEarlyError(Exception):
    """A token was sampled that no probe favours.

    After a row of nothing but pad ids the engine samples from logits that it never wrote: once
    in a hundred runs the end of the text. What it does then says nothing of positions.
    """


def _generate(generator: Any, most: int) -> None:
    generator.generate_next_token()
    if generator.is_done() and generator.token_count() < most:
        raise _EndedEarlyError("the end of the text was sampled")


class GenAI:
    """The installed ONNX Runtime GenAI.

    Parameters
    ----------
    provider : {"cpu", "cuda"}
        The execution provider of every graph.
    in_child : bool
        Whether this process is a child that may be killed by a case.

    Raises
    ------
    MissingExtra
        If onnxruntime-genai or onnx-ir is not installed.
    MissingProvider
        If the build or the machine has no such provider.
    """

    name = "onnxruntime-genai"
    providers = ("cpu", "cuda")
    context_length = CONTEXT_LENGTH
    subjects: tuple[str, ...] = ("positions", "tokens", "fusion", "audio", "rope")

    def __init__(self, *, provider: str = "cpu", in_child: bool = False) -> None:
        try:
            import onnxruntime_genai
        except ImportError as error:
            raise MissingExtra(error.name or "onnxruntime-genai", "genai") from error
        if importlib.util.find_spec("onnx_ir") is None:
            raise MissingExtra("onnx-ir", "genai")
        self.version: str = onnxruntime_genai.__version__
        self.provider = provider
        self._og = onnxruntime_genai
        self._in_child = in_child
        self._parts: dict[str, _Part] = {
            "tokens": genai_tokens.TokenProcessors(onnxruntime_genai),
            "fusion": Packages(onnxruntime_genai, provider),
            "audio": genai_audio.AudioProcessor(onnxruntime_genai),
            "rope": genai_rope.TextModels(onnxruntime_genai, provider),
        }
        self._ended: dict[str, Outcome] = {}
        self._models = KeptModels(onnxruntime_genai, provider)
        with contextlib.suppress(AttributeError):
            onnxruntime_genai.set_log_options(enabled=False)
        if provider == "cuda":
            self._try_cuda()

    def _try_cuda(self) -> None:
        """Load a package there once: a build that has CUDA says nothing of the device."""
        if not self._og.is_cuda_available():
            line = "pip install onnxruntime-genai-cuda"
            raise MissingProvider(self.name, "a build without CUDA", line)
        try:
            self._model(PackageConfig("qwen2_5_vl", (("image_token_id", 3), ("pad_token_id", 0))))
        except Exception as error:
            raise MissingProvider(self.name, f"no CUDA device: {error}") from error

    def skip(self, case: Case) -> str | None:
        """Families without a model type, and prompts beyond the packages' context."""
        if case.subject in self._parts:
            return self._parts[case.subject].skip(case)
        family = families.get(case.family)
        if family.genai_type is None:
            return "the engine has no model type with 3-D positions for the family"
        ids, mask = case.arrays["input_ids"], case.arrays.get("attention_mask")
        if mask is not None and (mask.shape != ids.shape or not np.isin(mask, (0, 1)).all()):
            return "a mask that is none: the engine takes no mask at all"
        appended = [step.arrays for step in case.steps if step.arrays]
        if case.steps and (
            len(ids) > 1 or any(len(a["input_ids"]) > 1 or "attention_mask" in a for a in appended)
        ):
            return "steps of several rows, or with padding: the engine continues one row of tokens"
        if ids.shape[-1] + _later_tokens(case) + 1 > self.context_length:
            return f"more than the {self.context_length} tokens of the package"
        return None

    def run(self, case: Case) -> Outcome:
        """Positions and masks that the decoder received, its processor's tokens, or embeddings."""
        if not self._in_child and self._dies_of(case):
            return self._once_in_child(case)
        part = self._parts.get(case.subject)
        for _ in range(_ATTEMPTS):
            try:
                return Outcome("answer", part.answer(case) if part else self._answer(case))
            except _EndedEarlyError as error:
                ended = Outcome.refusal(error)
            except Exception as error:
                # whatever the engine raises on a prompt is its refusal; nothing else is known of it
                return Outcome.refusal(error)
        return ended

    def _dies_of(self, case: Case) -> bool:
        """Whether the process is known to end, or to read what it never wrote."""
        if case.subject == "positions":
            return self.package(case).spatial_merge_size <= 0
        return case.subject in _DIES_OF and _DIES_OF[case.subject](case)

    def package(self, case: Case) -> PackageConfig:
        """The package that a case needs.

        Parameters
        ----------
        case : Case
            The case.

        Returns
        -------
        PackageConfig
            One of few: cases with the same values share a package.
        """
        family = families.get(case.family)
        token_ids = case.ids or family.token_ids
        unset = case.scalars.get("unset", [])
        given = tuple(
            (key, value)
            for name, key in _CONFIG_KEYS.items()
            if (value := getattr(token_ids, name)) is not None
            and not (isinstance(unset, list) and name in unset)
        )
        # positions do not depend on eos, but the engine wants it, else pad, in the vocabulary
        eos = token_ids.eos if token_ids.eos is not None and token_ids.eos < VOCABULARY else 1
        given = (*given, ("eos_token_id", eos))
        rate = case.scalars.get("tokens_per_second", family.tokens_per_second)
        return PackageConfig(
            model_type=case.family if case.family == "fara" else str(family.genai_type),
            token_ids=given,
            spatial_merge_size=int(
                case.scalars.get("spatial_merge_size", family.spatial_merge_size)  # type: ignore[arg-type]
            ),
            tokens_per_second=None if rate is None else float(rate),  # type: ignore[arg-type]
        )

    def _model(self, config: PackageConfig) -> Any:
        return self._models.get(config, lambda folder: write_package(folder, config))

    def _answer(self, case: Case) -> dict[str, Array]:
        og = self._og
        model = self._model(self.package(case))
        ids = np.asarray(case.arrays["input_ids"])
        pad = (case.ids or families.get(case.family).token_ids).pad or 0
        mask = case.arrays.get("attention_mask")
        if mask is not None:
            ids = np.where(np.asarray(mask) != 0, ids, pad)
        parameters = og.GeneratorParams(model)
        most = ids.shape[1] + _later_tokens(case) + 1
        parameters.set_search_options(
            max_length=most,
            batch_size=ids.shape[0],
            do_sample=False,
            num_beams=int(case.scalars.get("num_beams", 1)),  # type: ignore[arg-type]
        )
        generator = og.Generator(model, parameters)
        self._start(generator, {**case.arrays, "input_ids": ids})
        arrays = {
            "position_ids": np.array(generator.get_input("position_ids")),
            "attention_mask": np.array(generator.get_input("attention_mask")),
        }
        following = []
        # the tensors of a step can be read after the call that follows it
        for step in range(case.decode_steps + 1 if case.decode_steps else 0):
            _generate(generator, most)
            if step:
                following.append(np.array(generator.get_input("position_ids")))
        if following:
            arrays["next_position_ids"] = np.concatenate(following, axis=-1)
            arrays["next_attention_mask"] = np.array(generator.get_input("attention_mask"))
        pending = False
        for number, later in enumerate(case.steps, start=1):
            pending = self._step(generator, later, number, pending, arrays, most)
        return arrays

    def _start(self, generator: Any, arrays: Mapping[str, Array]) -> None:
        generator.set_inputs(self._tensors(arrays))

    def _tensors(self, arrays: Mapping[str, Array]) -> Any:
        tensors = self._og.NamedTensors()
        for name in ("image_grid_thw", "video_grid_thw"):
            if name in arrays:
                tensors[name] = np.ascontiguousarray(arrays[name])
        if "second_per_grid_ts" in arrays:
            seconds = np.asarray(arrays["second_per_grid_ts"])
            tensors["second_per_grid_ts"] = seconds.astype(np.float32)
        ids = arrays["input_ids"]
        if ids.dtype.kind == "i":
            ids = ids.astype(np.int32)  # the type its tokenizer makes
        tensors["input_ids"] = np.ascontiguousarray(ids)
        return tensors

    def _step(
        self,
        generator: Any,
        step: Step,
        number: int,
        pending: bool,
        arrays: dict[str, Array],
        most: int,
    ) -> bool:
        """Do one step and add what the decoder got; whether a generated token waits to go in."""
        seen: list[Array] = []
        cached = 0

        def look() -> None:
            nonlocal cached
            if not seen:
                cached = np.array(generator.get_input("past_key_values.0.key")).shape[2]
            seen.append(np.array(generator.get_input("position_ids")))

        if step.action == "rewind":
            total = generator.token_count()
            generator.rewind_to(step.count)
            return pending and step.count == total
        if step.action == "append":
            if len(step.arrays) > 1:
                generator.set_inputs(self._tensors(step.arrays))
            else:
                generator.append_tokens(step.arrays["input_ids"].astype(np.int32).ravel())
            look()
        for call in range(step.count):  # a call shows what the one before it made
            _generate(generator, most)
            if call or pending:
                look()
        if seen:
            arrays[f"step_{number}_position_ids"] = np.concatenate(seen, axis=-1)
            arrays[f"step_{number}_mask"] = np.array(generator.get_input("attention_mask"))
            arrays[f"step_{number}_cached"] = np.array([cached], np.int64)
        return step.action == "generate"

    def _once_in_child(self, case: Case) -> Outcome:
        """The outcome of a child, which is kept: such cases are met again and again."""
        key = case.key
        if key not in self._ended:
            self._ended[key] = self._run_in_child(case)
        return self._ended[key]

    def _run_in_child(self, case: Case) -> Outcome:
        code = f"from mmref.engines.genai import child; child({self.provider!r})"
        try:
            with tempfile.TemporaryDirectory(prefix="mmref-") as folder:  # a crash leaves its own
                done = subprocess.run(
                    [sys.executable, "-c", code],
                    input=case.to_json(),
                    capture_output=True,
                    timeout=_CHILD_SECONDS,
                    check=False,
                    env={**os.environ, **_CHILD_ENVIRONMENT, "TMPDIR": folder},
                )
        except subprocess.TimeoutExpired:
            return Outcome("timeout", {}, "timeout", f"no answer in {_CHILD_SECONDS} s")
        if done.returncode < 0:
            return Outcome("crash", {}, f"signal {-done.returncode}", "the process was killed")
        if done.returncode != 0:
            return Outcome("crash", {}, f"exit {done.returncode}", "the process ended")
        return Outcome.from_builtins(msgspec.json.decode(done.stdout.splitlines()[-1]))


def _later_tokens(case: Case) -> int:
    appended = (int(step.arrays["input_ids"].size) for step in case.steps if step.arrays)
    return case.decode_steps + sum(step.count for step in case.steps) + sum(appended)


def child(provider: str) -> None:
    """Run the case on standard input and write its outcome as one line; for crash cases.

    Parameters
    ----------
    provider : str
        As for `GenAI`.
    """
    case = Case.from_json(sys.stdin.buffer.read())
    outcome = GenAI(provider=provider, in_child=True).run(case)
    sys.stdout.buffer.write(msgspec.json.encode(outcome.to_builtins()) + b"\n")
