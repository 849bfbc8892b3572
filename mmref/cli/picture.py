"""The picture of `mmref explain`: three lanes of positions over the tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

from mmref.differential.explain import Explanation
from mmref.errors import MmrefError

__all__ = ["draw"]

_SHADES = {"text": "#ffffff", "image": "#dcebf7", "video": "#fdebd0", "masked": "#e4e4e4"}
_AXES = ("time", "height", "width")
_MARKS = ("o", "x", "+", "s")


def draw(explanation: Explanation, path: Path, *, row: int = 0) -> None:
    """Draw a row of a prompt into a file.

    Parameters
    ----------
    explanation : Explanation
        Of `mmref.differential.explain`.
    path : Path
        Its ending chooses the format.
    row : int
        Row of the batch.

    Raises
    ------
    MmrefError
        If there is nothing to draw, or the file cannot be written.
    """
    if not explanation.tokens:
        raise MmrefError("nothing-to-draw", where="--plot", got="the reference refuses the prompt")
    mpl.use("Agg")
    from matplotlib import pyplot

    tokens = [token for token in explanation.tokens if token.row == row]
    lanes: list[tuple[str, Any]] = [
        ("reference", explanation.reference.arrays["position_ids"][:, row])
    ]
    for name, verdict in explanation.verdicts.items():
        if "position_ids" in verdict.actual.arrays:
            lanes.append((name, verdict.actual.arrays["position_ids"][:, row]))
    width = min(24.0, max(6.0, 0.22 * len(tokens) + 2))
    figure, axes = pyplot.subplots(3, 1, sharex=True, figsize=(width, 6), layout="constrained")
    columns = np.arange(len(tokens))
    for axis, (plot, title) in enumerate(zip(axes, _AXES, strict=True)):
        for token in tokens:
            plot.axvspan(token.index - 0.5, token.index + 0.5, color=_SHADES[token.kind], lw=0)
        for number, (name, positions) in enumerate(lanes):
            mark = _MARKS[number % len(_MARKS)]
            size = 5 if number == 0 else 8
            plot.plot(columns, positions[axis], mark, ms=size, label=name, mfc="none")
        plot.set_ylabel(title)
        plot.yaxis.get_major_locator().set_params(integer=True)
        plot.grid(axis="y", lw=0.3)
    axes[-1].set_xlabel("token (blue: image, orange: video, grey: masked)")
    axes[-1].set_xlim(-0.5, len(tokens) - 0.5)
    axes[0].set_title(f"{explanation.case.family}, row {row}: positions", loc="left")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper right", ncols=4)
    try:
        figure.savefig(path, dpi=120)
    except OSError as error:
        got = error.strerror or "cannot be written"
        raise MmrefError("unwritable-file", where=str(path), got=got) from error
    finally:
        pyplot.close(figure)
