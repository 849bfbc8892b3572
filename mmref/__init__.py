"""mmref: the reference for multimodal position and fusion logic.

``from mmref import mrope`` works with NumPy and Numba alone; importing the
package itself imports nothing heavy.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

__all__ = [
    "__version__",
    "errors",
    "families",
    "fusion",
    "layout",
    "mrope",
    "tokens",
    "vision",
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return importlib.import_module(f"mmref.{name}")
    raise AttributeError(f"module 'mmref' has no attribute {name!r}")
