"""ONNX Runtime GenAI: packages that are written and loaded when they are first asked for."""

from __future__ import annotations

import tempfile
from collections import OrderedDict
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any

__all__ = ["KeptModels"]

_MOST = 32


class KeptModels:
    """The models of generated packages, the newest of them kept.

    Parameters
    ----------
    engine : module
        onnxruntime_genai.
    provider : str
        What their graphs run on.
    """

    def __init__(self, engine: Any, provider: str = "cpu") -> None:
        self._engine = engine
        self._provider = provider
        self._kept: OrderedDict[Hashable, tuple[Any, Any]] = OrderedDict()

    def get(self, key: Hashable, write: Callable[[Path], None]) -> Any:
        """A model.

        Parameters
        ----------
        key : hashable
            What its package is called here.
        write : callable
            Writes the package into an empty folder, where it is not there yet.

        Returns
        -------
        onnxruntime_genai.Model
            The model.
        """
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key][0]
        folder = tempfile.TemporaryDirectory(prefix="mmref-")
        write(Path(folder.name))
        configuration = self._engine.Config(folder.name)
        if self._provider != "cpu":
            configuration.clear_providers()
            configuration.append_provider(self._provider)
        self._kept[key] = (self._engine.Model(configuration), folder)
        if len(self._kept) > _MOST:
            self._kept.popitem(last=False)[1][1].cleanup()
        return self._kept[key][0]
