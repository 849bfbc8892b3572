"""A model folder made for ONNX Runtime GenAI: read only, bounded, nothing in it is run or loaded.

Weights stay where they are: a graph is read for its nodes, names and shapes, and a
tensor that lies in a file of its own is looked at with `os.stat` alone.
"""

from __future__ import annotations

import json
import logging
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mmref.errors import BadPackage, MissingExtra

__all__ = ["GRAPHS", "PROCESSORS", "Package", "is_file", "read_graph", "read_json"]

GRAPHS = ("decoder", "embedding", "vision", "speech", "encoder")
"""The parts of a model that have a graph of their own, by their keys under ``model``."""

PROCESSORS = {"vision": "processor_config.json", "speech": "audio_processor_config.json"}
"""What the file of a part's processor is called where ``config_filename`` does not say it."""

_CONFIG = "genai_config.json"
_LARGEST_JSON = 64 * 2**20  # bytes; a tokenizer.json of a large vocabulary has about 20 MB
_MOST_VALUES = 6_000_000  # brackets and commas; three times what 250,000 tokens and merges make
_LARGEST_GRAPH = 2 * 2**30  # what protobuf can hold


@dataclass(slots=True)
class Package:
    """A folder and what was read of it.

    Parameters
    ----------
    folder : Path
        The folder.
    config : dict
        The content of genai_config.json.
    graphs : dict of str to onnx_ir.Model
        Graphs that were read, by the part's key under ``model``.
    missing : dict of str to str
        Parts whose graph is not there, and what the configuration says of it.
    processors : dict of str to dict
        Processor configurations that were read, by file name.
    tokenizer : dict or None
        The content of tokenizer.json, if there is one.
    seen : tuple of Outcome or None
        What the installed engine was seen to do with it, once it was asked.
    """

    folder: Path
    config: dict[str, Any]
    graphs: dict[str, Any] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    processors: dict[str, dict[str, Any]] = field(default_factory=dict)
    tokenizer: dict[str, Any] | None = None
    seen: tuple[Any, ...] | None = None

    @property
    def model(self) -> Mapping[str, Any]:
        """The object ``model`` of the configuration; empty if it has none."""
        model = self.config.get("model")
        return model if isinstance(model, dict) else {}

    def part(self, name: str) -> Mapping[str, Any]:
        """The object of one part of the model.

        Parameters
        ----------
        name : str
            A name of `GRAPHS`.

        Returns
        -------
        mapping
            Empty if the configuration has none.
        """
        part = self.model.get(name)
        return part if isinstance(part, dict) else {}

    @classmethod
    def read(cls, folder: Path) -> Package:
        """Read a folder.

        Parameters
        ----------
        folder : Path
            With a genai_config.json in it.

        Returns
        -------
        Package
            What is there.

        Raises
        ------
        BadPackage
            If there is no configuration, or a file that it names cannot be read.
        MissingExtra
            If onnx-ir is not installed.
        """
        if not os.path.isdir(folder):  # False, and no error, for a path that cannot be one
            raise BadPackage("no-package", where=str(folder), got="not a folder")
        config = read_json(folder / _CONFIG)
        package = cls(folder, config)
        for name in GRAPHS:
            file = package.part(name).get("filename")
            if file is None:
                continue
            path = inside(folder, file)
            if path is None or not is_file(path):
                package.missing[name] = str(file)
            else:
                package.graphs[name] = read_graph(path)
        for name, default in PROCESSORS.items():
            file = package.part(name).get("config_filename", default)
            path = inside(folder, file) if package.part(name) else None
            if path is not None and is_file(path):
                package.processors[str(file)] = read_json(path)
        tokenizer = folder / "tokenizer.json"
        if is_file(tokenizer):
            package.tokenizer = read_json(tokenizer)
        return package


def inside(folder: Path, name: object) -> Path | None:
    """A file of a folder, unless its name leads out of it.

    Parameters
    ----------
    folder : Path
        The folder.
    name : object
        What a configuration calls the file.

    Returns
    -------
    Path or None
        None for what is no relative name, leads out, or cannot be followed.
    """
    if not isinstance(name, str) or not name or "\0" in name:
        return None
    try:
        root = folder.resolve()
        path = (root / name).resolve()
    except (OSError, RuntimeError, ValueError):  # a loop of links, a name too long
        return None
    return path if path.is_relative_to(root) else None


def is_file(path: Path) -> bool:
    """Whether a path is a regular file, also for names that no file can have.

    Parameters
    ----------
    path : Path
        The path.

    Returns
    -------
    bool
        False for what is too long a name, a loop of links, a pipe or a device.
    """
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except (OSError, ValueError):
        return False


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    dict
        Its content.

    Raises
    ------
    BadPackage
        If it cannot be read, is too large, or is not a JSON object.
    """
    where = str(path)
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):  # opening a pipe would wait for its other end
            raise BadPackage("unreadable-file", where=where, got="not a regular file")
        if found.st_size > _LARGEST_JSON:
            raise BadPackage("file-too-large", where=where, got=f"{found.st_size} bytes")
        content = path.read_bytes()
        if sum(content.count(sign) for sign in (b"[", b"{", b",")) > _MOST_VALUES:
            got = f"more than {_MOST_VALUES} values"  # parsed, each is many times its length
            raise BadPackage("file-too-large", where=where, got=got)
        data = json.loads(content.decode("utf-8-sig"))
    except BadPackage:  # a ValueError too
        raise
    except OSError as error:
        got = error.strerror or "unreadable"
        raise BadPackage("unreadable-file", where=where, got=got) from error
    except (UnicodeDecodeError, ValueError) as error:
        raise BadPackage("bad-json", where=where, got=str(error).splitlines()[0]) from error
    except RecursionError:
        raise BadPackage("bad-json", where=where, got="nested too deeply") from None
    if not isinstance(data, dict):
        raise BadPackage("bad-json", where=where, got=type(data).__name__, expected="an object")
    return data


def read_graph(path: Path) -> Any:
    """A graph without the tensors that lie outside its file.

    Parameters
    ----------
    path : Path
        An ONNX file.

    Returns
    -------
    onnx_ir.Model
        The model.

    Raises
    ------
    BadPackage
        If it is not one.
    MissingExtra
        If onnx-ir is not installed.
    """
    try:
        import onnx_ir
    except ImportError as error:
        raise MissingExtra("onnx-ir", "onnx") from error
    where = str(path)
    try:
        if os.stat(path).st_size > _LARGEST_GRAPH:
            raise BadPackage("file-too-large", where=where, got="more than protobuf can hold")
        logging.getLogger("onnx_ir").setLevel(logging.ERROR)  # what it warns of is found below
        model = onnx_ir.load(path)
        if not model.graph.opset_imports:
            raise ValueError("no opset is imported")
        return model
    except BadPackage:
        raise
    except Exception as error:  # whatever a parser raises on bytes that are no model
        lines = str(error).splitlines() or [type(error).__name__]
        raise BadPackage(
            "bad-graph", where=where, got=lines[0][:200], expected="an ONNX model"
        ) from error
