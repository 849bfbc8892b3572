"""``mmref explain``: one prompt, token by token."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from mmref.errors import BadCase, MissingExtra, MmrefError

__all__ = ["explain"]

_PICTURES = (".png", ".svg")


def explain(
    case: str | None = None,
    /,
    *,
    family: str | None = None,
    ids: Annotated[list[int] | None, Parameter(negative="", consume_multiple=True)] = None,
    image_grid: Annotated[list[str] | None, Parameter(negative="")] = None,
    video_grid: Annotated[list[str] | None, Parameter(negative="")] = None,
    text: str | None = None,
    image: Annotated[list[str] | None, Parameter(negative="")] = None,
    video: Annotated[list[str] | None, Parameter(negative="")] = None,
    fps: float | None = None,
    engine: Annotated[list[str], Parameter(negative="", consume_multiple=False)] | None = None,
    plot: Path | None = None,
    script: Path | None = None,
    format: Literal["pretty", "json"] | None = None,
) -> int:
    """Show a prompt token by token, and where engines part from the reference.

    With --text, or for a case of tokens: what each placeholder becomes.

    Exit code: 0; 1 if an engine does something that no named difference
    explains; 2 for a prompt or file that cannot be read.

    Parameters
    ----------
    case
        A JSON file with a case or a finding, or the id of a difference.
    family
        Instead of a file: the family.
    ids
        Its token ids.
    image_grid
        Grid t,h,w of an image, in patches; may be repeated.
    video_grid
        Grid t,h,w of a video, in patches; may be repeated.
    text
        Instead of --ids: the prompt as text, with one placeholder for each item.
    image
        Size height,width of an image, in pixels; may be repeated.
    video
        Size frames,height,width of a video; may be repeated.
    fps
        Frames a second of the videos, for families that write times.
    engine
        Compare with this engine; may be repeated.
    plot
        Draw the three axes over the tokens into a .png or .svg file.
    script
        Write a script that shows the case on the (first) engine without mmref.
    format
        Default: pretty on a terminal, json when piped.
    """
    from mmref import engines
    from mmref.cli import render
    from mmref.differential.explain import explain as run

    if text is None and not (image or video or fps is not None):
        chosen = _case(case, family, ids, image_grid, video_grid)
    elif case is not None or ids or image_grid or video_grid:
        got = "--text, --image, --video or --fps beside a case, --ids or grids"
        raise MmrefError("bad-usage", where="explain", got=got)
    else:
        chosen = _text_case(family, text, image, video, fps)
    if chosen.subject != "positions" and (plot is not None or script is not None):
        option, expected = "--plot" if plot is not None else "--script", "a case of positions"
        got = f"a case of {chosen.subject}"
        raise MmrefError("bad-usage", where=option, got=got, expected=expected)
    opened = [engines.get(name) for name in engine or ()]
    explanation = run(chosen, opened)
    if script is not None:
        from mmref.differential.script import script_for

        if not opened:
            raise MmrefError("no-engine", where="--script", got="no engine", expected="--engine E")
        _write(script, script_for(chosen, opened[0].name).encode())
    if plot is not None:
        if plot.suffix not in _PICTURES:
            raise MmrefError("bad-plot", where=str(plot), got=plot.suffix, expected=".png or .svg")
        try:
            from mmref.cli import picture
        except ImportError as error:
            raise MissingExtra("matplotlib", "plot") from error
        picture.draw(explanation, plot)
    if (format or ("pretty" if sys.stdout.isatty() else "json")) == "json":
        render.json(explanation.to_builtins())
    else:
        render.explanation(explanation)
    return int(any(verdict.kind == "new" for verdict in explanation.verdicts.values()))


def _write(path: Path, content: bytes) -> None:
    try:
        path.write_bytes(content)
    except OSError as error:
        got = error.strerror or "cannot be written"
        raise MmrefError("unwritable-file", where=str(path), got=got) from error


def _case(
    source: str | None,
    family: str | None,
    ids: list[int] | None,
    image_grid: list[str] | None,
    video_grid: list[str] | None,
) -> Any:
    from mmref import differences, families
    from mmref.case import Case

    if source is not None and (family or ids):
        raise MmrefError("bad-usage", where="explain", got="a case and --family or --ids")
    if source is not None:
        path = Path(source)
        if path.suffix != ".json" and not path.exists():
            return differences.get(source).case
        return Case.from_file(path)
    if family is None or not ids:
        expected = "a case, or --family and --ids"
        raise MmrefError("bad-usage", where="explain", got="neither", expected=expected)
    arrays: dict[str, Any] = {"input_ids": [ids]}
    for name, grids in (("image_grid_thw", image_grid), ("video_grid_thw", video_grid)):
        if grids:
            arrays[name] = [_grid(grid) for grid in grids]
    return Case.from_builtins({"family": families.get(family).name, "arrays": arrays})


def _text_case(
    family: str | None,
    text: str | None,
    image: list[str] | None,
    video: list[str] | None,
    fps: float | None,
) -> Any:
    from mmref import families
    from mmref.case import Case

    if family is None or text is None:
        got, expected = f"no {'--family' if family is None else '--text'}", "both"
        raise MmrefError("bad-usage", where="explain", got=got, expected=expected)
    arrays: dict[str, Any] = {}
    for name, sizes, form in (
        ("image_sizes", image, "height,width"),
        ("video_sizes", video, "frames,height,width"),
    ):
        if sizes:
            arrays[name] = [_grid(size, form) for size in sizes]
    scalars: dict[str, Any] = {"texts": [text]}
    if fps is not None:
        scalars["video_fps"] = fps
    content = {"subject": "tokens", "family": families.get(family).name}
    return Case.from_builtins({**content, "arrays": arrays, "scalars": scalars})


def _grid(text: str, form: str = "t,h,w") -> list[int]:
    try:
        sides = [int(side) for side in text.split(",")]
    except ValueError as error:
        raise BadCase("bad-grid", where="grid", got=repr(text), expected=form) from error
    if len(sides) != len(form.split(",")):
        raise BadCase("bad-grid", where="grid", got=repr(text), expected=form)
    return sides
