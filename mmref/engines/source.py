"""Single functions and methods out of a released file that cannot be imported as a whole.

Processor files insist on torchvision, which their size functions never use. The
named functions are taken out of the installed file's own text and compiled
unchanged; nothing of the file is copied into this project.
"""

from __future__ import annotations

import ast
import importlib.util
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mmref.errors import EngineFault

__all__ = ["class_of", "load", "load_text"]


class _Quiet:
    """Stands for a module's logger."""

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments, **named: None


def load(module: str, *names: str, scope: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Functions of a module, without importing it.

    Parameters
    ----------
    module : str
        Dotted name of an installed module.
    *names : str
        Top-level functions, or ``Class.method``.
    scope : mapping, optional
        Global names that they need beside math, NumPy and a silent logger.

    Returns
    -------
    dict
        Name to function; methods take ``self`` as any object.

    Raises
    ------
    EngineFault
        If the module has no such file or function any more.
    """
    path = _path(module)
    return load_text(path.read_text(encoding="utf-8"), str(path), *names, scope=scope)


def load_text(
    text: str, file: str, *names: str, scope: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Functions out of the text of a module.

    Parameters
    ----------
    text : str
        The module.
    file : str
        Its name, for tracebacks and errors.
    *names : str
        Top-level functions, or ``Class.method``.
    scope : mapping, optional
        As for `load`.

    Returns
    -------
    dict
        Name to function.

    Raises
    ------
    EngineFault
        If the text has no such function.
    """
    tree = ast.parse(text)
    flags = ast.parse("from __future__ import annotations").body
    space: dict[str, Any] = {"math": math, "np": np, "logger": _Quiet(), **(scope or {})}
    found: dict[str, Any] = {}
    for name in names:
        node = _find(tree, name, file)
        node.decorator_list = []
        body = ast.Module(body=[*flags, node], type_ignores=[])
        exec(compile(body, file, "exec"), space)
        found[name] = space[node.name]
    return found


def class_of(module: str, name: str, scope: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The plain values and the methods of a class, without importing its module.

    Parameters
    ----------
    module : str
        Dotted name of an installed module.
    name : str
        A class of it.
    scope : mapping, optional
        As for `load`.

    Returns
    -------
    dict
        Class attributes that are literals or arithmetic on literals, by name.

    Raises
    ------
    EngineFault
        If the module has no such class any more.
    """
    tree = ast.parse(_path(module).read_text(encoding="utf-8"))
    node = _find(tree, name, module)
    values: dict[str, Any] = {}
    for entry in node.body:
        if isinstance(entry, ast.Assign) and isinstance(entry.targets[0], ast.Name):
            expression = compile(ast.Expression(entry.value), module, "eval")
            try:
                values[entry.targets[0].id] = eval(expression, dict(scope or {}))
            except NameError:
                continue  # a constant of another module
    return values


def _path(module: str) -> Path:
    package, _, rest = module.partition(".")
    spec = importlib.util.find_spec(package)
    roots = list(spec.submodule_search_locations or ()) if spec is not None else []
    path = Path(roots[0]).joinpath(*rest.split(".")).with_suffix(".py") if roots else None
    if path is None or not path.is_file():
        raise EngineFault("source-missing", where=module, got="no such file")
    return path


def _find(tree: ast.Module, name: str, module: str) -> Any:
    body: list[ast.stmt] = tree.body
    node: Any = None
    for part in name.split("."):
        node = next((entry for entry in body if getattr(entry, "name", None) == part), None)
        if node is None:
            raise EngineFault("source-missing", where=module, got=f"no {name}")
        body = node.body
    return node
