"""Features into embeddings: the merge, what exported graphs do instead, and what a porter needs.

=====================  ========================================================
`fuse`                 the embeddings a model should see
`source_rows`          the same as row numbers
`deepstack`            rows for the layers of DeepStack models
`placeholders_before`  where a chunk of a prompt begins to take features
`predict`              what an exported ONNX embedding graph does instead
`lookup_ids`           which row of the table a placeholder has before
`tell_videos_apart`    ids for families whose videos share the image's
`merge_copies`         Phi-4 multimodal's merge, `gates` its adapters
`fixed_rows`           Gemma 3n's 188 rows for every clip
`image_blocks`         Gemma's two-way blocks, `may_attend` their mask
=====================  ========================================================
"""

from __future__ import annotations

from mmref.fusion.arguments import REFUSALS, Key
from mmref.fusion.forms import FORMS, RUNTIMES, UNWRITTEN, ZERO_ROW, Prediction, predict
from mmref.fusion.merge import deepstack, fuse, placeholders_before, source_rows
from mmref.fusion.porting import (
    GEMMA3N_ROWS,
    Gates,
    fixed_rows,
    gates,
    image_blocks,
    lookup_ids,
    may_attend,
    merge_copies,
    tell_videos_apart,
)

__all__ = [
    "FORMS",
    "GEMMA3N_ROWS",
    "REFUSALS",
    "RUNTIMES",
    "UNWRITTEN",
    "ZERO_ROW",
    "Gates",
    "Key",
    "Prediction",
    "deepstack",
    "fixed_rows",
    "fuse",
    "gates",
    "image_blocks",
    "lookup_ids",
    "may_attend",
    "merge_copies",
    "placeholders_before",
    "predict",
    "source_rows",
    "tell_videos_apart",
]
