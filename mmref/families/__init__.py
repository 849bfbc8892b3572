"""One frozen row per model family: which rule of each kind it follows, and its defaults.

A row names groups, it holds no code. To add a family that follows known rules,
add a row to `mmref.families.rows`; nothing else changes.

Every value comes from the family's configuration class in transformers 5.24
(``source`` names the module) unless a comment beside it says otherwise.
"""

from __future__ import annotations

from typing import Literal

from mmref.errors import UnknownName
from mmref.families.audio import Audio, Framing, Stage
from mmref.families.fusing import Fusing
from mmref.families.media import Media, Resize
from mmref.families.row import Family, TokenIds
from mmref.families.rows import ALIASES, ROWS

__all__ = [
    "Audio",
    "Family",
    "Framing",
    "Fusing",
    "Media",
    "Resize",
    "Stage",
    "TokenIds",
    "aliases",
    "get",
    "names",
]

_BY_NAME = {row.name: row for row in ROWS}
_BY_NAME.update({alias: _BY_NAME[name] for alias, name in ALIASES.items()})


def names(
    subject: Literal["positions", "tokens", "fusion", "audio", "omni", "rope", "all"] = "positions",
) -> tuple[str, ...]:
    """Names of the families that a subject covers, transformers' ``model_type`` names.

    Parameters
    ----------
    subject : {"positions", "tokens", "fusion", "audio", "omni", "rope", "all"}
        Families with 3-D positions of images and videos; with placeholders; with a merge of
        features; with audio; with 3-D positions that count audio too; with 1-D positions; or
        all. Aliases are left out.

    Returns
    -------
    tuple of str
        The names, in the order of the table.

    Examples
    --------
    >>> "qwen2_5_vl" in names()
    True
    >>> "gemma3" in names(), "gemma3" in names("tokens")
    (False, True)
    """
    if subject == "positions":
        return tuple(row.name for row in ROWS if row.positions == "3d")
    if subject == "tokens":
        return tuple(row.name for row in ROWS if row.media.placeholders)
    if subject == "fusion":
        return tuple(row.name for row in ROWS if row.fusing.kinds)
    if subject == "omni":
        return tuple(row.name for row in ROWS if row.positions == "omni")
    if subject == "rope":
        return tuple(row.name for row in ROWS if row.positions == "1d")
    if subject == "audio":
        return tuple(row.name for row in ROWS if row.audio is not None)
    return tuple(row.name for row in ROWS)


def aliases() -> dict[str, str]:
    """Other names that engines use for a family.

    Returns
    -------
    dict of str to str
        Alias to family name.

    Examples
    --------
    >>> aliases()["fara"]
    'qwen2_5_vl'
    """
    return dict(ALIASES)


def get(name: str) -> Family:
    """The row of a family.

    Parameters
    ----------
    name : str
        A name of `names` or an alias.

    Returns
    -------
    Family
        The row.

    Raises
    ------
    UnknownName
        If there is no such family; lists the known ones and the closest.

    Examples
    --------
    >>> get("fara").name
    'qwen2_5_vl'
    """
    try:
        return _BY_NAME[name]
    except (KeyError, TypeError):
        raise UnknownName("family", name, _BY_NAME) from None
