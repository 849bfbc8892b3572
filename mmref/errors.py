"""What can go wrong, and at which step.

=====================  =====================================================
step                   error
=====================  =====================================================
a foreign array        `RefusedPrompt` (codes ``input-ids-*``, ``mask-*``, ...)
scan and place         `RefusedPrompt` (codes of `mmref.layout.REFUSALS`)
a media size           `RefusedMedia` (codes of `mmref.vision.REFUSALS`)
tokens of a prompt     `RefusedMedia` (codes of `mmref.tokens.REFUSALS`)
a name                 `UnknownName` (family, rules, engine, difference)
rules of a release     `EngineRefusal`: the release refuses what the
                       reference accepts; names the difference
an optional library    `MissingExtra`, a build for a provider
                       `MissingProvider`, another release `MissingRelease`:
                       the line that brings it
reading a case         `BadCase`; a model folder or graph `BadPackage`
running an engine      `EngineFault`: the engine could not be driven at all
=====================  =====================================================

Every error has a stable ``code`` and the fields ``where``, ``got``,
``expected`` and ``hint``; the text is made from them in ``__str__``.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = [
    "BadCase",
    "BadPackage",
    "EngineFault",
    "EngineRefusal",
    "MissingExtra",
    "MissingProvider",
    "MissingRelease",
    "MmrefError",
    "RefusedMedia",
    "RefusedPrompt",
    "Unavailable",
    "UnknownName",
]


class MmrefError(Exception):
    """Base of every error that mmref raises on purpose.

    Parameters
    ----------
    code : str
        Stable kebab-case name of the fault.
    where : str
        The place: an argument, a row, an item, a file.
    got : str
        What was found there.
    expected : str
        What would have been right.
    hint : str
        The likely cause or the way out; may be empty.
    """

    def __init__(
        self, code: str, *, where: str, got: str, expected: str = "", hint: str = ""
    ) -> None:
        super().__init__(code, where, got, expected, hint)
        self.code = code
        self.where = where
        self.got = got
        self.expected = expected
        self.hint = hint

    def __str__(self) -> str:
        text = f"{self.where}: {self.got}"
        if self.expected:
            text += f", expected {self.expected}"
        if self.hint:
            text += f"; {self.hint}"
        return f"{text} [{self.code}]"


class RefusedPrompt(MmrefError, ValueError):
    """The reference gives this prompt no answer."""


class RefusedMedia(MmrefError, ValueError):
    """The reference gives a media size, or a prompt that is to be expanded, no answer."""


class EngineRefusal(MmrefError, ValueError):
    """Under the rules of a release: that engine refuses a prompt the reference accepts."""


class BadCase(MmrefError, ValueError):
    """A case or a file of cases cannot be read."""


class BadPackage(MmrefError, ValueError):
    """A model folder or a graph cannot be read."""


class EngineFault(MmrefError, RuntimeError):
    """An engine could not be driven at all (as opposed to refusing a prompt)."""


class Unavailable(MmrefError):
    """Something that is not part of mmref is not here; ``pip_line`` would bring it.

    Parameters
    ----------
    code : str
        Stable kebab-case name of the fault.
    library : str
        What is not here.
    got : str
        What was found instead.
    pip_line : str
        The command that installs it; may be empty.
    """

    def __init__(self, code: str, library: str, got: str, pip_line: str) -> None:
        super().__init__(code, where=library, got=got, hint=pip_line)
        self.library = library
        self.pip_line = pip_line


class MissingExtra(Unavailable, ImportError):
    """An optional library is not installed.

    Parameters
    ----------
    library : str
        The library that could not be imported.
    extra : str
        The extra of mmref that brings it.
    """

    def __init__(self, library: str, extra: str) -> None:
        line = f'pip install "mmref[{extra}]"'
        super().__init__("missing-extra", library, "not installed", line)
        self.extra = extra


class MissingProvider(Unavailable, RuntimeError):
    """An engine cannot compute on the provider that was asked for.

    Parameters
    ----------
    library : str
        The engine.
    got : str
        Why not: the build, or the device.
    pip_line : str
        The command that installs a build that can; empty if there is none.
    """

    def __init__(self, library: str, got: str, pip_line: str = "") -> None:
        super().__init__("missing-provider", library, got, pip_line)


class MissingRelease(Unavailable, RuntimeError):
    """A release of an engine was not fetched.

    Parameters
    ----------
    name, version : str
        As on PyPI.
    """

    def __init__(self, name: str, version: str) -> None:
        specification = f"{name}=={version}"
        line = f"mmref engines add {specification}"
        super().__init__("missing-release", specification, "not installed and not fetched", line)
        self.name = name
        self.version = version


class UnknownName(MmrefError, ValueError):
    """A name that is not known; lists the known ones and the closest.

    Parameters
    ----------
    kind : str
        What the name should have been: ``"family"``, ``"rules"``, ``"engine"``, ...
    name : str
        The name given.
    known : iterable of str
        The names that would have been accepted.
    """

    def __init__(self, kind: str, name: object, known: Iterable[str], *, hint: str = "") -> None:
        names = sorted(known)
        closest = difflib.get_close_matches(str(name), names, n=1, cutoff=0.4)
        if closest and not hint:
            hint = f"did you mean {closest[0]!r}?"
        super().__init__(
            f"unknown-{kind}",
            where=kind,
            got=f"{name!r} is not known",
            expected=f"one of {', '.join(names)}",
            hint=hint,
        )
        self.known = names
        self.closest = closest[0] if closest else None
