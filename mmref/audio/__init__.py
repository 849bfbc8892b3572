"""Audio: how many frames and tokens a clip makes, and which of them are valid.

True means valid everywhere. Lengths count what a family's encoder takes: frames of its
feature extractor, or samples for families that read the waveform.

- `frames`, `output_lengths`, `token_count`: from samples to frames to tokens
- `downsample_mask`, `explain_mask`: which outputs are valid, and where the two ways of
  shortening a mask part
- `interleave`: the order of tokens where a video comes with its own sound
- `lengths_through`, `mask_by_stride`, `mask_from_lengths`: the same for any list of stages
- `check_right_padded`, `check_frames`, `check_placeholders`, `check_batch`,
  `check_mask_input`: what an encoder assumes about its mask
"""

from __future__ import annotations

from mmref.audio.arguments import REFUSALS, as_valid
from mmref.audio.checks import (
    check_batch,
    check_frames,
    check_mask_input,
    check_placeholders,
    check_right_padded,
)
from mmref.audio.interleave import interleave
from mmref.audio.lengths import frames, lengths_through, output_lengths, token_count
from mmref.audio.masks import (
    MaskParting,
    downsample_mask,
    explain_mask,
    mask_by_stride,
    mask_from_lengths,
)
from mmref.families.audio import Stage

__all__ = [
    "REFUSALS",
    "MaskParting",
    "Stage",
    "as_valid",
    "check_batch",
    "check_frames",
    "check_mask_input",
    "check_placeholders",
    "check_right_padded",
    "downsample_mask",
    "explain_mask",
    "frames",
    "interleave",
    "lengths_through",
    "mask_by_stride",
    "mask_from_lengths",
    "output_lengths",
    "token_count",
]
