"""Features into embeddings: the merge, what exported graphs do instead, and what a porter needs.

=====================  ========================================================
`fuse`                 the embeddings a model should see
`source_rows`          the same as row numbers
`deepstack`            rows for the layers of DeepStack models
`placeholders_before`  where a chunk of a prompt begins to take features
`predict`              what an exported ONNX embedding graph does instead
=====================  ========================================================
"""

from __future__ import annotations

from mmref.fusion.arguments import REFUSALS
from mmref.fusion.forms import FORMS, RUNTIMES, UNWRITTEN, ZERO_ROW, Prediction, predict
from mmref.fusion.merge import deepstack, fuse, placeholders_before, source_rows

__all__ = [
    "FORMS",
    "REFUSALS",
    "RUNTIMES",
    "UNWRITTEN",
    "ZERO_ROW",
    "Prediction",
    "deepstack",
    "fuse",
    "placeholders_before",
    "predict",
    "source_rows",
]
