"""A tokenizer that needs no training: one id for each byte, and the family's own tokens.

Text without special tokens is its UTF-8 bytes, so that what an engine did to a
prompt can be read from the ids.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import msgspec

from mmref.families import Family, TokenIds

__all__ = ["BYTES", "Vocabulary", "of"]

BYTES = 256
# the start of a turn in Mistral's prompts, where an engine puts images that have no placeholder
_TURNS = {"rows": ("[INST]",)}


class Vocabulary:
    """Ids of bytes and of a family's special tokens.

    Parameters
    ----------
    texts : tuple of (str, str)
        Name of each token id, and its text.
    others : tuple of str
        Further tokens, which an engine's processor looks for.
    """

    def __init__(self, texts: tuple[tuple[str, str], ...], others: tuple[str, ...] = ()) -> None:
        special = [*(text for _, text in texts), *others]
        self.specials = {text: BYTES + 1 + at for at, text in enumerate(special)}
        ids = {name: BYTES + 1 + at for at, (name, _) in enumerate(texts)}
        self.token_ids = replace(TokenIds(**ids), pad=BYTES)
        self._special = re.compile("|".join(map(re.escape, self.specials)) or r"(?!)")

    def encode(self, text: str) -> list[int]:
        """Ids of a text.

        Parameters
        ----------
        text : str
            Any text.

        Returns
        -------
        list of int
            Special tokens as one id each, everything else as bytes.
        """
        ids: list[int] = []
        last = 0
        for match in self._special.finditer(text):
            ids += text[last : match.start()].encode()
            ids.append(self.specials[match.group()])
            last = match.end()
        return [*ids, *text[last:].encode()]

    def write(self, folder: Path, specials: Mapping[str, int] | None = None) -> None:
        """Write tokenizer.json and tokenizer_config.json.

        Parameters
        ----------
        folder : Path
            An existing folder.
        specials : mapping of str to int, optional
            Special tokens and their ids instead of the vocabulary's own.
        """
        byte_level = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}
        special = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
        added = [
            {"id": number, "content": text, "special": True, **special}
            for text, number in {"<pad>": BYTES, **(specials or self.specials)}.items()
        ]
        tokenizer = {
            "version": "1.0",
            "added_tokens": added,
            "normalizer": None,
            "pre_tokenizer": byte_level,
            "post_processor": None,
            "decoder": byte_level,
            "model": {"type": "BPE", "vocab": _byte_names(), "merges": []},
        }
        config = {"tokenizer_class": "GPT2Tokenizer", "add_bos_token": False}
        for name, content in (("tokenizer", tokenizer), ("tokenizer_config", config)):
            (folder / f"{name}.json").write_bytes(msgspec.json.encode(content))


@lru_cache(maxsize=64)
def of(row: Family) -> Vocabulary:
    """The vocabulary of a family.

    Parameters
    ----------
    row : Family
        The family.

    Returns
    -------
    Vocabulary
        With an id for every token that its media are written with.
    """
    return Vocabulary(row.media.texts, _TURNS.get(row.media.image_form, ()))


def _byte_names() -> dict[str, int]:
    """How byte-level tokenizers spell bytes: printable ones as they are, others from 256 on."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    names = {byte: chr(byte) for byte in printable}
    others = (byte for byte in range(BYTES) if byte not in names)
    names |= {byte: chr(BYTES + at) for at, byte in enumerate(others)}
    return {names[byte]: byte for byte in range(BYTES)}
