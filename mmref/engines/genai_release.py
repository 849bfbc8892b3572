"""Any release of ONNX Runtime GenAI: its wheel, unpacked beside the installed one, in a child.

The child finds the unpacked release first and everything else where it is
installed; nothing of it is loaded into this process.
"""

from __future__ import annotations

from mmref.engines import wheels
from mmref.engines.host import Hosted
from mmref.errors import EngineFault

__all__ = ["GenAIRelease"]


class GenAIRelease(Hosted):
    """A release of ONNX Runtime GenAI that was fetched with ``mmref engines add``.

    Parameters
    ----------
    version : str
        As on PyPI.

    Raises
    ------
    MissingExtra
        If onnx-ir is not installed.
    MissingRelease
        If the wheel was not fetched.
    EngineFault
        If the release does not run here, or is not what it says.
    """

    def __init__(self, version: str) -> None:
        folder = wheels.unpack(wheels.find("onnxruntime-genai", version))
        super().__init__("onnxruntime-genai", path=folder)
        if self.version != version:
            self.close()
            raise EngineFault(
                "engine-version", where=str(folder), got=self.version, expected=version
            )
        self.subjects = ("positions", "rope")  # its processors and features were not compared
