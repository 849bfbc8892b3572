"""A pytest plugin: cases for the suite of any engine.

It is loaded by pytest through its entry point and imports nothing until a
test asks for a fixture.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from mmref.case import Case

__all__ = ["mmref_cases", "mmref_rules"]

_GENERATED = 300


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of mmref.

    Parameters
    ----------
    parser : pytest.Parser
        pytest's own.
    """
    group = parser.getgroup("mmref", "multimodal positions")
    group.addoption(
        "--mmref-family",
        action="append",
        default=[],
        metavar="NAME",
        help="families of the cases in mmref_cases; may be repeated (default: all)",
    )
    group.addoption(
        "--mmref-rules",
        default="reference",
        metavar="NAME",
        help="what mmref_rules holds: reference, or a release such as transformers-5.24",
    )


@pytest.fixture(scope="session")
def mmref_rules(request: pytest.FixtureRequest) -> str:
    """The rules to compare with, from ``--mmref-rules``.

    Parameters
    ----------
    request : pytest.FixtureRequest
        pytest's own.

    Returns
    -------
    str
        A name that ``rules=`` takes.
    """
    from mmref import differences
    from mmref.errors import UnknownName

    name = str(request.config.getoption("--mmref-rules"))
    if name not in differences.rules_names():
        raise pytest.UsageError(str(UnknownName("rules", name, differences.rules_names())))
    return name


@pytest.fixture(scope="session")
def mmref_cases(request: pytest.FixtureRequest) -> list[Case]:
    """Cases that the reference accepts: curated ones, reported ones, and generated ones.

    Parameters
    ----------
    request : pytest.FixtureRequest
        pytest's own.

    Returns
    -------
    list of Case
        The same in every run, for the families of ``--mmref-family``.
    """
    from mmref.errors import UnknownName
    from mmref.testing.selection import selected_cases

    try:
        return selected_cases(request.config.getoption("--mmref-family"), generated=_GENERATED)
    except UnknownName as error:
        raise pytest.UsageError(str(error)) from error
