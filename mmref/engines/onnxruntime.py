"""ONNX Runtime alone: embedding graphs in the forms that exporters write, without weights."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import numpy.typing as npt

from mmref import families
from mmref.case import Case, Outcome
from mmref.errors import MissingExtra, MissingProvider
from mmref.probes.fusion import (
    HIDDEN,
    VOCABULARY,
    embedding_graph,
    model_bytes,
    passed_features,
    token_ids,
)

__all__ = ["OnnxRuntime"]

_FATAL = 4
_PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}


class OnnxRuntime:
    """The installed ONNX Runtime.

    Parameters
    ----------
    provider : {"cpu", "cuda"}
        The execution provider of every graph.

    Raises
    ------
    MissingExtra
        If onnxruntime or onnx-ir is not installed.
    MissingProvider
        If the build or the machine has no such provider.
    """

    name = "onnxruntime"
    providers = ("cpu", "cuda")
    subjects: tuple[str, ...] = ("fusion",)

    def __init__(self, *, provider: str = "cpu") -> None:
        try:
            import onnxruntime
        except ImportError as error:
            raise MissingExtra(error.name or "onnxruntime", "onnx") from error
        if importlib.util.find_spec("onnx_ir") is None:
            raise MissingExtra("onnx-ir", "onnx")
        self.version: str = onnxruntime.__version__
        self._runtime = onnxruntime
        self.provider = provider
        if provider == "cuda" and _PROVIDERS["cuda"] not in onnxruntime.get_available_providers():
            line = "pip install onnxruntime-gpu"
            raise MissingProvider(self.name, "a build without CUDA", line)
        self._sessions: dict[tuple[Any, ...], Any] = {}

    def skip(self, case: Case) -> str | None:
        """Cases that no single graph is about."""
        if families.get(case.family).fusing.shared_id:
            return "a graph finds media by id, and the family's videos have none of their own"
        if "turn_start" in case.scalars:
            return "a graph knows no turns"
        return None

    def run(self, case: Case) -> Outcome:
        """The embeddings that the case's graph form computes."""
        try:
            return Outcome("answer", {"inputs_embeds": self._answer(case)})
        except MissingProvider:
            raise
        except Exception as error:
            # whatever the runtime raises on a prompt is its refusal; nothing else is known of it
            return Outcome.refusal(error)

    def _answer(self, case: Case) -> npt.NDArray[Any]:
        row = families.get(case.family)
        ids_of = token_ids(case).as_dict()
        streams = tuple((f"{kind}_features", ids_of[kind]) for kind in row.fusing.kinds)
        passed = passed_features(case)
        given = {
            f"{kind}_features": passed.get(kind, np.zeros((0, HIDDEN), np.float32))
            for kind in row.fusing.kinds
        }
        session = self._session(str(case.scalars.get("form", "gather")), streams)
        ids = np.ascontiguousarray(case.arrays["input_ids"], np.int64)
        result: npt.NDArray[Any] = session.run(None, {"input_ids": ids, **given})[0]
        return result

    def _session(self, form: str, streams: tuple[tuple[str, int], ...]) -> Any:
        key = (form, streams)
        if key not in self._sessions:
            options = self._runtime.SessionOptions()
            options.log_severity_level = _FATAL
            options.intra_op_num_threads = options.inter_op_num_threads = 1
            graph = embedding_graph(form, streams, vocabulary=VOCABULARY, hidden=HIDDEN)
            wanted = _PROVIDERS[self.provider]
            session = self._runtime.InferenceSession(
                model_bytes(graph), options, providers=[wanted]
            )
            if session.get_providers()[0] != wanted:  # it falls back to the CPU by itself
                raise MissingProvider(self.name, f"no device for {wanted}")
            self._sessions[key] = session
        return self._sessions[key]
