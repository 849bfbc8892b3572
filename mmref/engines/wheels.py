"""Released wheels: fetched by the user's own pip into the user's cache, read, never installed."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from mmref.errors import EngineFault, MissingRelease

__all__ = ["add", "cache_folder", "fetched", "find", "read", "unpack"]

_LARGEST_FILE = 16 * 2**20  # bytes of one source file; the largest known has half a megabyte
_PIP_SECONDS = 600.0
_LARGEST_WHEEL = 4 * 2**30  # bytes, unpacked


def cache_folder() -> Path:
    """Where fetched wheels are kept.

    Returns
    -------
    Path
        ``$MMREF_CACHE``, or ``mmref`` in the user's cache folder.
    """
    named = os.environ.get("MMREF_CACHE")
    if named:
        return Path(named)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData/Local")) / "mmref"
    if sys.platform == "darwin":
        return Path.home() / "Library/Caches/mmref"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mmref"


def fetched(name: str) -> tuple[str, ...]:
    """The versions of a project whose wheels are there.

    Parameters
    ----------
    name : str
        Its name on PyPI.

    Returns
    -------
    tuple of str
        In the order of the file names.
    """
    prefix = f"{name.replace('-', '_')}-"
    folder = cache_folder()
    found = folder.glob(f"{prefix}*.whl") if folder.is_dir() else ()
    return tuple(sorted(path.name.removeprefix(prefix).split("-")[0] for path in found))


def find(name: str, version: str) -> Path:
    """The wheel of a release.

    Parameters
    ----------
    name, version : str
        As on PyPI.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    MissingRelease
        If it was not fetched; names the command that does.
    """
    pattern = f"{name.replace('-', '_')}-{version}-*.whl"
    folder = cache_folder()
    for path in sorted(folder.glob(pattern)) if folder.is_dir() else ():
        return path
    raise MissingRelease(name, version)


def add(name: str, version: str) -> Path:
    """Have pip fetch the wheel of a release into the cache, without what it depends on.

    Parameters
    ----------
    name, version : str
        As on PyPI.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    EngineFault
        ``release-not-found`` if pip cannot get it, with what pip said;
        ``cache-unwritable``.
    """
    folder = cache_folder()
    specification = f"{name}=={version}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".part-") as part:
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
            command += ["--only-binary=:all:", "--disable-pip-version-check"]
            done = subprocess.run(
                [*command, "--dest", part, specification],
                capture_output=True,
                text=True,
                timeout=_PIP_SECONDS,
                check=False,
            )
            wheels = list(Path(part).glob("*.whl"))
            if done.returncode != 0 or len(wheels) != 1:
                lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
                raise EngineFault(
                    "release-not-found",
                    where=specification,
                    got=lines[-1].removeprefix("ERROR: ") if lines else "pip fetched nothing",
                    expected="a release that pip can fetch as a wheel",
                )
            return wheels[0].replace(folder / wheels[0].name)
    except subprocess.TimeoutExpired as error:
        got = f"pip took more than {_PIP_SECONDS:g} s"
        raise EngineFault("release-not-found", where=specification, got=got) from error
    except OSError as error:
        raise EngineFault(
            "cache-unwritable",
            where=str(folder),
            got=error.strerror or str(error),
            expected="a folder that can be written to",
            hint="set MMREF_CACHE",
        ) from error


def unpack(wheel: Path) -> Path:
    """A folder with the files of a wheel, to be put on a child's path.

    Parameters
    ----------
    wheel : Path
        The file, in the cache.

    Returns
    -------
    Path
        The folder, beside it; made once.

    Raises
    ------
    EngineFault
        ``wheel-damaged``, ``cache-unwritable``.
    """
    folder = wheel.with_suffix(".unpacked")
    if folder.is_dir():
        return folder
    try:
        with tempfile.TemporaryDirectory(dir=wheel.parent, prefix=".part-") as part:
            with zipfile.ZipFile(wheel) as archive:
                if sum(entry.file_size for entry in archive.infolist()) > _LARGEST_WHEEL:
                    raise EngineFault("wheel-damaged", where=wheel.name, got="far too large")
                archive.extractall(Path(part) / "whole")
            with contextlib.suppress(OSError):  # another process was first
                (Path(part) / "whole").rename(folder)
    except zipfile.BadZipFile as error:
        raise EngineFault("wheel-damaged", where=wheel.name, got=str(error)) from error
    except OSError as error:
        got = error.strerror or str(error)
        raise EngineFault("cache-unwritable", where=str(wheel.parent), got=got) from error
    return folder


def read(wheel: Path, member: str) -> str:
    """The text of one file of a wheel.

    Parameters
    ----------
    wheel : Path
        The file.
    member : str
        The name inside.

    Returns
    -------
    str
        Its text.

    Raises
    ------
    EngineFault
        ``source-missing`` if the wheel has no such file, ``wheel-damaged`` if it is none.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            if archive.getinfo(member).file_size > _LARGEST_FILE:
                raise EngineFault("wheel-damaged", where=wheel.name, got=f"{member} is too large")
            return archive.read(member).decode("utf-8")
    except KeyError as error:
        raise EngineFault("source-missing", where=wheel.name, got=f"no {member}") from error
    except (zipfile.BadZipFile, OSError, UnicodeDecodeError, NotImplementedError) as error:
        raise EngineFault(
            "wheel-damaged",
            where=wheel.name,
            got=str(error),
            hint="delete it and fetch it again with mmref engines add",
        ) from error
