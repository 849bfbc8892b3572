"""``mmref fuzz``: campaigns against the installed engines."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter, validators

from mmref.errors import MmrefError

if TYPE_CHECKING:
    from mmref.differential.fuzz import Campaign

__all__ = ["fuzz", "seconds_of"]

FINE, DIFFERENT, NOTHING_COMPARED = 0, 1, 3
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
_LIVE_PAUSE, _PIPED_PAUSE = 0.5, 30.0


def fuzz(
    *,
    engine: Annotated[list[str], Parameter(negative="", consume_multiple=False)] | None = None,
    subject: Annotated[list[str], Parameter(negative="", consume_multiple=False)] | None = None,
    family: Annotated[list[str], Parameter(negative="", consume_multiple=False)] | None = None,
    time: str = "10m",
    cases: Annotated[int, Parameter(validator=validators.Number(gte=1))] | None = None,
    workers: Annotated[int, Parameter(validator=validators.Number(gte=1, lte=256))] = 1,
    seed: Annotated[int, Parameter(validator=validators.Number(gte=0))] = 0,
    ep: Literal["cpu", "cuda"] = "cpu",
    found: Path = Path("fuzz/found"),
    format: Literal["pretty", "json"] | None = None,
) -> int:
    """Compare engines with the reference until the time is up, and keep what is new.

    Each engine runs in a process of its own. A new difference is written to the
    folder of findings at once, and again when a smaller case shows it; what
    lies there is run first the next time.

    Exit code: 0 nothing new; 1 a new difference; 2 bad usage, or a folder or
    file of findings that cannot be used; 3 nothing was compared.

    Parameters
    ----------
    engine
        NAME, NAME==VERSION or "command:PROGRAM ARGUMENTS"; may be repeated.
        Default: all that are installed.
    subject
        Only this subject; may be repeated. Default: all.
    family
        Only this family; may be repeated. Default: all.
    time
        How long: 90s, 10m, 2h.
    cases
        Stop after so many cases for each worker, if the time is not up before.
    workers
        Processes; each has its own engines.
    seed
        Of the generator.
    ep
        The execution provider. Engines that have none of it, or no device,
        are left out, with the reason.
    found
        The folder of findings.
    format
        Default: pretty on a terminal, json when piped.
    """
    from mmref.cli import render
    from mmref.differential.fuzz import Settings
    from mmref.differential.fuzz import fuzz as run

    settings = Settings(
        engines=tuple(engine or ()),
        found=found,
        subjects=tuple(subject or ()),
        families=tuple(family or ()),
        seconds=seconds_of(time),
        cases=cases,
        workers=workers,
        seed=seed,
        provider=ep,
    )
    progress = _Progress()
    campaign = run(settings, progress.update)
    progress.close()
    if (format or ("pretty" if sys.stdout.isatty() else "json")) == "json":
        render.json(campaign.to_builtins())
    else:
        render.campaign(campaign)
    if campaign.total("compared") == 0:
        print("mmref: nothing was compared", file=sys.stderr)
        for error in campaign.missing:
            print(render.unavailable(error), file=sys.stderr)
        return NOTHING_COMPARED
    return DIFFERENT if campaign.findings or campaign.faults else FINE


def seconds_of(text: str) -> float:
    """A length of time in seconds.

    Parameters
    ----------
    text : str
        A number with s, m or h behind it, or without: seconds.

    Returns
    -------
    float
        Seconds.

    Raises
    ------
    MmrefError
        ``bad-time``.

    Examples
    --------
    >>> seconds_of("10m")
    600.0
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text.strip())
    if match is None or float(match[1]) == 0:
        raise MmrefError("bad-time", where="--time", got=repr(text), expected="90s, 10m or 2h")
    return float(match[1]) * _UNITS[match[2]]


class _Progress:
    """A line on standard error: rewritten on a terminal, now and then elsewhere."""

    def __init__(self) -> None:
        self.live = sys.stderr.isatty()
        self.printed = time.monotonic()
        self.width = 0

    def update(self, campaign: Campaign) -> None:
        now = time.monotonic()
        if now - self.printed < (_LIVE_PAUSE if self.live else _PIPED_PAUSE):
            return
        self.printed = now
        rate = campaign.cases / max(campaign.seconds, 1e-9)
        line = (
            f"{campaign.seconds:.0f} s, {campaign.cases} cases, {rate:.0f} a second, "
            f"{len(campaign.findings)} new"
        )
        self.width = len(line)
        print(line, end="\r" if self.live else "\n", file=sys.stderr, flush=True)

    def close(self) -> None:
        if self.width and self.live:
            print(" " * self.width, end="\r", file=sys.stderr, flush=True)
