"""The engines that the reference is compared with, and how to drive them.

To add an engine: a module with a class that follows `mmref.engines.base.Engine`,
and its name in `_CLASSES`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable

from mmref.differences import version_key
from mmref.engines.base import Engine
from mmref.errors import EngineFault, MissingProvider, UnknownName

__all__ = ["Engine", "get", "names"]

_CLASSES = {
    "transformers": ("mmref.engines.transformers", "Transformers"),
    "onnxruntime-genai": ("mmref.engines.genai", "GenAI"),
}
_COMMAND = "command:"


def names() -> tuple[str, ...]:
    """Names of the engines that mmref can drive.

    Returns
    -------
    tuple of str
        PyPI names.
    """
    return tuple(_CLASSES)


def get(specification: str, *, provider: str = "cpu") -> Engine:
    """An installed engine.

    Parameters
    ----------
    specification : str
        A name of `names`, ``name==version`` to insist on a version, or
        ``command:PROGRAM ARGUMENTS`` for a program that reads cases and writes outcomes.
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
    EngineFault
        If another version is installed than the one asked for, or a program cannot be run.
    """
    if specification.startswith(_COMMAND):
        if provider != "cpu":
            raise MissingProvider(specification, "a program chooses its provider itself")
        from mmref.engines.command import Command

        return Command(specification.removeprefix(_COMMAND))
    name, _, version = specification.partition("==")
    if name not in _CLASSES:
        raise UnknownName("engine", name, _CLASSES)
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
