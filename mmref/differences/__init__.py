"""The named differences between the reference and releases of engines.

To add a difference: one entry in the engine's file. To add a release: its
number in `RELEASES` and, where needed, ``before`` on entries that it mended.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from mmref.differences import (
    audio,
    fusion,
    genai,
    genai_steps,
    omni,
    rope,
    serving,
    tokens,
    transformers,
    transformers_releases,
)
from mmref.differences.base import Difference, version_key
from mmref.differences.rules import (
    REFERENCE,
    AudioRules,
    FusionRules,
    OmniRules,
    PositionRules,
    RopeRules,
    TokenRules,
)
from mmref.errors import UnknownName
from mmref.families.row import Family

__all__ = [
    "ALL",
    "REFERENCE",
    "RELEASES",
    "AudioRules",
    "Difference",
    "FusionRules",
    "OmniRules",
    "PositionRules",
    "Release",
    "RopeRules",
    "TokenRules",
    "described",
    "get",
    "nearest_release",
    "release",
    "rules_names",
    "version_key",
]

RELEASES: dict[str, tuple[str, ...]] = {
    "transformers": ("4.49", "4.52", "4.57", "5.0", "5.2", "5.3", "5.6", "5.17", "5.19", "5.24"),
    "onnxruntime-genai": ("0.16", "0.18"),
    "sglang": ("0.5.23",),
    "vllm": ("0.33",),
    "onnxruntime": ("1.32",),
}
"""The releases whose behaviour is described, oldest first."""

_QWEN3 = ("qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe")
_GLM = ("glm4v", "glm4v_moe", "glm46v", "glm_ocr")
_SERVED = {
    "sglang": ("qwen2_vl", "qwen2_5_vl", *_QWEN3, *_GLM),
    "vllm": ("qwen2_vl", "qwen2_5_vl", "paddleocr_vl", *_QWEN3, *_GLM),
}
"""The families whose position code was read, of engines that serve requests."""

ALL: tuple[Difference, ...] = (
    transformers.DIFFERENCES
    + transformers_releases.DIFFERENCES
    + genai.DIFFERENCES
    + genai_steps.DIFFERENCES
    + tokens.DIFFERENCES
    + fusion.DIFFERENCES
    + audio.DIFFERENCES
    + omni.DIFFERENCES
    + rope.DIFFERENCES
    + serving.DIFFERENCES
)
"""Every named difference."""

_WITH_POSITIONS = tuple(dict.fromkeys(e.engine for e in ALL if e.subject == "positions"))
_BY_ID = {difference.id: difference for difference in ALL}


@dataclass(frozen=True, slots=True)
class Release:
    """A release of an engine, as the reference and its differences.

    Parameters
    ----------
    engine : str
        The engine's name on PyPI.
    version : str
        A release of `RELEASES`.
    differences : tuple of Difference
        Those that hold.
    """

    engine: str
    version: str
    differences: tuple[Difference, ...]

    @property
    def name(self) -> str:
        """The name for ``rules=``."""
        return f"{self.engine}-{self.version}"

    @property
    def rules(self) -> PositionRules:
        """The reference's rules of positions with every change of the release."""
        return replace(REFERENCE, **self.changes("positions"))

    def changes(self, subject: str) -> dict[str, Any]:
        """The fields of a subject's rules that the release changes.

        Parameters
        ----------
        subject : str
            What the rules are about.

        Returns
        -------
        dict of str to str
            Field to value.
        """
        changes: dict[str, Any] = {}
        for difference in self.differences:
            if difference.subject == subject:
                changes.update(difference.sets)
        return changes

    def refuses(self, subject: str, request: Any, scalars: Any = None) -> Difference | None:
        """The difference by which the release refuses what the reference accepts, if any.

        Parameters
        ----------
        subject : str
            What the request is about.
        request : object
            What the differences of that subject look at.
        scalars : mapping, optional
            Scalars of the case.

        Returns
        -------
        Difference or None
            The first that does.
        """
        for entry in self.differences:
            asked = entry.refuses if entry.subject == subject else None
            if asked is not None and asked(request, None, scalars or {}):
                return entry
        return None

    def without(self, left_out: Difference) -> Release:
        """The release as if one of its differences were mended.

        Parameters
        ----------
        left_out : Difference
            The one to leave out.

        Returns
        -------
        Release
            The rest.
        """
        rest = tuple(entry for entry in self.differences if entry is not left_out)
        return Release(self.engine, self.version, rest)


def release(engine: str, version: str) -> Release:
    """A described release with its differences.

    Parameters
    ----------
    engine : str
        The engine's name on PyPI.
    version : str
        One of `RELEASES`.

    Returns
    -------
    Release
        The release.

    Raises
    ------
    UnknownName
        If that release is not described.
    """
    if version not in RELEASES.get(engine, ()):
        raise UnknownName("rules", f"{engine}-{version}", rules_names())
    held = (entry for entry in ALL if entry.engine == engine and entry.holds_for(version))
    return Release(engine, version, tuple(held))


def described(subject: str) -> dict[str, Release]:
    """The releases of which a subject is described: some difference of it is known.

    Parameters
    ----------
    subject : str
        A name of `mmref.case.SUBJECTS`.

    Returns
    -------
    dict of str to Release
        By the name for ``rules=``.

    Examples
    --------
    >>> list(described("audio"))
    ['transformers-5.24', 'onnxruntime-genai-0.18']
    """
    found = [release(engine, version) for engine in RELEASES for version in RELEASES[engine]]
    return {
        entry.name: entry for entry in found if any(d.subject == subject for d in entry.differences)
    }


def nearest_release(engine: str, version: str) -> Release:
    """The described release nearest below an installed version.

    Parameters
    ----------
    engine : str
        The engine's name on PyPI.
    version : str
        What is installed.

    Returns
    -------
    Release
        The newest described release that is not newer, else the oldest.

    Raises
    ------
    UnknownName
        If the engine has no described release.

    Examples
    --------
    >>> nearest_release("transformers", "5.24.3").version
    '5.24'
    """
    known = RELEASES.get(engine)
    if not known:
        raise UnknownName("engine", engine, RELEASES)
    lower = [entry for entry in known if version_key(entry) <= version_key(version)]
    return release(engine, lower[-1] if lower else known[0])


def rules_names(family: Family | None = None) -> tuple[str, ...]:
    """The names that ``rules=`` takes.

    Parameters
    ----------
    family : Family, optional
        Only the releases that shipped this family.

    Returns
    -------
    tuple of str
        ``"reference"`` and one for each described release of an engine that has positions.

    Examples
    --------
    >>> rules_names()[0]
    'reference'
    """
    names = ["reference"]
    for engine in _WITH_POSITIONS:
        if family is not None and engine == "onnxruntime-genai" and family.genai_type is None:
            continue
        if family is not None and family.name not in _SERVED.get(engine, (family.name,)):
            continue
        first = family.transformers_since if family and engine == "transformers" else "0"
        names += [
            f"{engine}-{version}"
            for version in RELEASES[engine]
            if version_key(version) >= version_key(first)
        ]
    return tuple(names)


def get(identifier: str) -> Difference:
    """A difference by its id.

    Parameters
    ----------
    identifier : str
        The id.

    Returns
    -------
    Difference
        The entry.

    Raises
    ------
    UnknownName
        If there is none.
    """
    try:
        return _BY_ID[identifier]
    except KeyError:
        raise UnknownName("difference", identifier, _BY_ID) from None
