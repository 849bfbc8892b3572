"""The command ``mmref``: one thin file per verb.

Exit codes: 0 compared and fine; 1 a new or vanished difference; 2 bad usage or
unreadable input; 3 nothing was compared.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError
from rich.console import Console

from mmref import __version__
from mmref.cli.check import check
from mmref.cli.diff import diff
from mmref.cli.engines import engines
from mmref.cli.explain import explain
from mmref.cli.fuzz import fuzz
from mmref.errors import MmrefError, Unavailable

__all__ = ["app", "main"]

BAD_USAGE = 2
NOTHING_COMPARED = 3

app = App(
    name="mmref",
    help="The reference for multimodal positions, checked against the engines people run.",
    version=__version__,
    help_format="markdown",
    result_action="return_value",
)
app.command(check)
app.command(diff)
app.command(engines)
app.command(explain)
app.command(fuzz)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and end the process with its exit code.

    Parameters
    ----------
    arguments : sequence of str, optional
        Default: those of the process.
    """
    errors = Console(stderr=True, soft_wrap=True)
    try:
        code = app(arguments, exit_on_error=False, print_error=False, error_console=errors)
    except CycloptsError as error:
        errors.print(f"mmref: {error}", style="red", markup=False, highlight=False)
        errors.print("Try 'mmref --help'.", markup=False, highlight=False)
        code = BAD_USAGE
    except Unavailable as error:
        errors.print(f"mmref: {error}", markup=False, highlight=False)
        code = NOTHING_COMPARED
    except MmrefError as error:
        errors.print(f"mmref: {error}", markup=False, highlight=False)
        code = BAD_USAGE
    except KeyboardInterrupt:
        code = 130
    sys.exit(code if isinstance(code, int) else 0)
