"""The columns of a family row that say how audio becomes frames, and frames tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Audio", "Framing", "Stage"]


@dataclass(frozen=True, slots=True)
class Stage:
    """One strided layer along time: a convolution or a pooling.

    Parameters
    ----------
    kernel : int
        Frames that one output looks at.
    stride : int
        Frames from one output to the next.
    padding : int or (int, int)
        Frames of padding at each end; or before and behind, for causal layers.
    dilation : int
        Frames from one tap of the kernel to the next.
    """

    kernel: int
    stride: int
    padding: int | tuple[int, int] = 0
    dilation: int = 1

    @property
    def padded(self) -> int:
        """Frames of padding at both ends together."""
        return sum(self.padding) if isinstance(self.padding, tuple) else 2 * self.padding

    @property
    def span(self) -> int:
        """Frames from the first to the last tap of the kernel."""
        return self.dilation * (self.kernel - 1) + 1


@dataclass(frozen=True, slots=True)
class Framing:
    """How many frames a feature extractor makes of samples.

    Parameters
    ----------
    window : int
        Samples that one frame needs.
    hop : int
        Samples from one frame to the next.
    padding : int
        Samples of silence that are put in front.
    longest : int
        Samples after which a clip is cut; 0 if it is not.
    shortest : int
        Samples that a shorter clip is filled up to, silence that counts.
    """

    window: int = 1
    hop: int = 1
    padding: int = 0
    longest: int = 0
    shortest: int = 0


@dataclass(frozen=True, slots=True)
class Audio:
    """How a family's audio encoder shortens time; `mmref.audio` follows it.

    Parameters
    ----------
    stages : tuple of Stage
        The layers, in order.
    mask : {"length", "stride"}
        How the mask is shortened: rebuilt from the number of valid frames, or by taking
        every so many-th place.
    framing : Framing or None
        From samples to frames; None where it is decided outside the family's own files.
    window, window_outputs : int
        Frames of a window and outputs of a whole one, for families that work by windows.
    window_rest : {"stages", "whole"}
        What an incomplete window makes: what the stages make of it (windows come before the
        stages), or as much as a whole one (windows come after them).
    fixed_tokens : int
        Tokens of every clip, where its length does not matter; 0 elsewhere.
    in_prompt : bool
        Whether a placeholder in the prompt stands for each output.
    code : {"range", "last_index", "product_stride", "dilated"}
        How transformers marks the valid outputs: a range compared with the length; a one at
        the last valid index, summed from behind; every so many-th place although the length
        follows another formula; a convolution over the mask.
    arithmetic : {"integers", "float32", "toward_zero"}
        How transformers computes lengths: in integers that round down; in float32; as Python
        floats cut toward zero.
    """

    stages: tuple[Stage, ...]
    mask: Literal["length", "stride"] = "length"
    framing: Framing | None = None
    window: int = 0
    window_outputs: int = 0
    window_rest: Literal["stages", "whole"] = "stages"
    fixed_tokens: int = 0
    in_prompt: bool = False
    code: Literal["range", "last_index", "product_stride", "dilated"] = "range"
    arithmetic: Literal["integers", "float32", "toward_zero"] = "integers"
