"""Features into embeddings: the merge, what exported graphs do instead, and what a porter needs.

=====================  ========================================================
`fuse`                 the embeddings a model should see
`source_rows`          the same as row numbers
`deepstack`            rows for the layers of DeepStack models
`placeholders_before`  where a chunk of a prompt begins to take features
=====================  ========================================================
"""

from __future__ import annotations

from mmref.fusion.merge import REFUSALS, deepstack, fuse, placeholders_before, source_rows

__all__ = ["REFUSALS", "deepstack", "fuse", "placeholders_before", "source_rows"]
