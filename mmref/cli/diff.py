"""``mmref diff``: the reference against the installed engines."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter, validators

if TYPE_CHECKING:
    from mmref.case import Case
    from mmref.engines import Engine

__all__ = ["diff"]

Format = Literal["pretty", "json", "markdown"]

FINE, DIFFERENT, NOTHING_COMPARED = 0, 1, 3
_QUIET_SECONDS = 2.0


def diff(
    *,
    subject: Literal["positions", "tokens", "fusion", "audio", "omni", "rope", "all"] = "all",
    family: Annotated[list[str], Parameter(negative="", consume_multiple=False)] | None = None,
    engine: Annotated[list[str], Parameter(negative="", consume_multiple=False)] | None = None,
    cases: Annotated[int, Parameter(validator=validators.Number(gte=0, lte=1_000_000))] = 4000,
    seed: Annotated[int, Parameter(validator=validators.Number(gte=0))] = 0,
    ep: Literal["cpu", "cuda"] = "cpu",
    format: Format | None = None,
    package: Path | None = None,
    matrix: Annotated[bool, Parameter(negative="")] = False,
    case: Annotated[str, Parameter(allow_leading_hyphen=True)] | None = None,
) -> int:
    """Compare the installed engines with the reference, on thousands of prompts.

    Every engine runs stored, curated and generated prompts. Each outcome is
    equal to the reference, a known difference (named, with its smallest
    prompt), or a new one.

    Exit code: 0 nothing new; 1 a new difference, or a known one that has
    vanished; 2 bad usage; 3 nothing was compared.

    Parameters
    ----------
    subject
        What to compare.
    family
        Only this family; may be repeated. Default: all.
    engine
        Only this engine, NAME or NAME==VERSION; may be repeated. Default: all.
    cases
        How many prompts to generate.
    seed
        Of the generator; the same seed draws the same prompts.
    ep
        The execution provider. Engines that have none of it, or no device,
        are left out, with the reason.
    format
        Default: pretty on a terminal, json when piped; markdown is for --matrix.
    package
        Compare ONNX Runtime GenAI with this package's configuration, on probe
        graphs, instead of with mmref's own packages.
    matrix
        Write a table of engines and differences instead, with how often each
        was met.
    case
        Run one case instead: a JSON file, - for standard input, or the id of
        a difference.
    """
    from mmref import differential
    from mmref.cli import render

    engines: list[str | Engine] = list(engine or ())
    if package is not None:
        from mmref.engines.host import Hosted

        engines.append(Hosted(f"package:{package}"))
    if case is not None:
        report = differential.run_case(_read_case(case), engine=engines, provider=ep)
    else:
        progress = _Progress()
        report = differential.run(
            subject=() if subject == "all" else (subject,),
            family=family or (),
            engine=engines,
            provider=ep,
            cases=cases,
            seed=seed,
            progress=progress.update,
        )
        progress.close()
    form = format or ("pretty" if sys.stdout.isatty() else "json")
    if form == "markdown":
        render.markdown(report)
    elif form == "json":
        titles, rows = report.matrix()
        table = {"matrix": [dict(zip(titles, row, strict=True)) for row in rows]} if matrix else {}
        render.json(report.to_builtins() | table)
    elif matrix:
        render.matrix(report)
    else:
        render.diff(report, f"mmref diff --package {package}" if package is not None else "")
    if report.total("compared") == 0:
        render.nothing_compared(report)
        return NOTHING_COMPARED
    return DIFFERENT if report.total("new") or report.total("vanished") else FINE


def _read_case(source: str) -> Case:
    from mmref import differences
    from mmref.case import Case

    if source == "-":
        return Case.from_json(sys.stdin.buffer.read())
    path = Path(source)
    if path.suffix != ".json" and not path.exists():
        return differences.get(source).case
    return Case.from_file(path)


class _Progress:
    """A line on standard error, for runs that take more than two seconds."""

    def __init__(self) -> None:
        self.started = time.monotonic()
        self.printed = 0.0
        self.shown = False
        self.live = sys.stderr.isatty()

    def update(self, done: int, total: int) -> None:
        now = time.monotonic()
        pause = 0.1 if self.live else 10.0
        if now - self.started < _QUIET_SECONDS or now - self.printed < pause:
            return
        self.printed = now
        self.shown = True
        end = "\r" if self.live else "\n"
        print(f"compared {done} of {total} cases", end=end, file=sys.stderr, flush=True)

    def close(self) -> None:
        if self.shown and self.live:
            print(" " * 40, end="\r", file=sys.stderr, flush=True)
