"""The engines that the reference is compared with, and how to drive them.

To add an engine: a module with a class that follows `mmref.engines.base.Engine`,
and its name in `_CLASSES`.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import re
from collections.abc import Callable
from pathlib import Path

from mmref.differences import version_key
from mmref.engines.base import Engine
from mmref.errors import EngineFault, MissingProvider, UnknownName

__all__ = ["Engine", "add", "added", "get", "names"]

_CLASSES = {
    "transformers": ("mmref.engines.transformers", "Transformers"),
    "onnxruntime-genai": ("mmref.engines.genai", "GenAI"),
    "onnxruntime": ("mmref.engines.onnxruntime", "OnnxRuntime"),
}
_RELEASES = {
    "transformers": ("mmref.engines.transformers_release", "TransformersRelease"),
    "onnxruntime-genai": ("mmref.engines.genai_release", "GenAIRelease"),
    "sglang": ("mmref.engines.sglang_release", "SGLangRelease"),
    "vllm": ("mmref.engines.vllm_release", "VLLMRelease"),
}
_COMMAND = "command:"
_PACKAGE = "package:"


def names() -> tuple[str, ...]:
    """Names of the engines that mmref can drive.

    Returns
    -------
    tuple of str
        PyPI names.
    """
    return tuple(_CLASSES)


def add(specification: str) -> Engine:
    """Have pip fetch a release of an engine into the user's cache.

    Parameters
    ----------
    specification : str
        ``name==version``; for engines whose releases are read out of their wheels.

    Returns
    -------
    Engine
        Ready to run cases.

    Raises
    ------
    UnknownName
        If releases of that engine cannot be added.
    EngineFault
        If pip cannot fetch it, or the wheel does not have what is run.
    """
    from mmref.engines import wheels

    name, _, version = specification.partition("==")
    if name not in _RELEASES:
        raise UnknownName("engine", name, _RELEASES)
    if not re.fullmatch(r"[0-9][0-9A-Za-z.!+]*", version):
        raise EngineFault(
            "release-unclear",
            where=specification,
            got="no exact version",
            expected=f"{name}==VERSION",
        )
    wheel = wheels.add(name, version)
    module, attribute = _RELEASES[name]
    release: Callable[[str], Engine] = getattr(importlib.import_module(module), attribute)
    try:
        return release(version)
    except EngineFault:
        wheel.unlink(missing_ok=True)
        raise


def added() -> tuple[str, ...]:
    """The releases that were fetched.

    Returns
    -------
    tuple of str
        As for `get`: ``name==version``, oldest first.
    """
    from mmref.engines import wheels

    return tuple(
        f"{name}=={version}"
        for name in _RELEASES
        for version in sorted(wheels.fetched(name), key=version_key)
    )


def get(specification: str, *, provider: str = "cpu") -> Engine:
    """An installed engine.

    Parameters
    ----------
    specification : str
        A name of `names`, ``name==version`` for the installed version or one that was
        fetched (`add`), or
        ``command:PROGRAM ARGUMENTS`` for a program that reads cases and writes outcomes, or
        ``package:FOLDER`` for ONNX Runtime GenAI with that package's configuration.
    provider : str
        What it shall compute on: ``"cpu"`` or ``"cuda"``.

    Returns
    -------
    Engine
        Ready to run cases.

    Raises
    ------
    UnknownName
        If mmref cannot drive an engine of that name.
    MissingExtra
        If it is not installed; names the pip line.
    MissingProvider
        If it cannot compute there: no such build, or no such device.
    MissingRelease
        If it is neither installed nor fetched.
    EngineFault
        If another version is installed and mmref cannot drive that one from a wheel, or a
        program cannot be run.
    """
    if specification.startswith(_PACKAGE):
        from mmref.engines.package import PackageEngine

        return PackageEngine(Path(specification.removeprefix(_PACKAGE)))
    if specification.startswith(_COMMAND):
        if provider != "cpu":
            raise MissingProvider(specification, "a program chooses its provider itself")
        from mmref.engines.command import Command

        return Command(specification.removeprefix(_COMMAND))
    name, _, version = specification.partition("==")
    if name not in _CLASSES and (not version or name not in _RELEASES):
        hint = f"name a release: {name}==VERSION" if name in _RELEASES else ""
        raise UnknownName("engine", name, _CLASSES, hint=hint)
    if version and name in _RELEASES and version_key(version) != _installed(name):
        if provider != "cpu":
            raise MissingProvider(name, "what mmref asks it for is computed on the CPU")
        module, attribute = _RELEASES[name]
        release: Callable[[str], Engine] = getattr(importlib.import_module(module), attribute)
        return release(version)
    module, attribute = _CLASSES[name]
    factory: Callable[..., Engine] = getattr(importlib.import_module(module), attribute)
    if provider not in getattr(factory, "providers", ("cpu",)):
        raise MissingProvider(name, "what mmref asks it for is computed on the CPU")
    engine = factory() if provider == "cpu" else factory(provider=provider)
    if version and version_key(version) != version_key(engine.version):
        raise EngineFault(
            "engine-version",
            where=specification,
            got=f"{engine.version} is installed",
            expected=version,
            hint=f'pip install "{name}=={version}"',
        )
    return engine


def _installed(name: str) -> tuple[int, ...] | None:
    try:
        return version_key(importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        return None
