"""One case token by token: spans, positions, and where an engine parts from them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from mmref import families, layout
from mmref.case import Case, Outcome
from mmref.differential import fusion
from mmref.differential.compare import Verdict, judge
from mmref.differential.expansions import ExpandedItem, expanded_items
from mmref.differential.run import release_for, skip_reason
from mmref.differential.subjects import reference
from mmref.engines import Engine

__all__ = ["Explanation", "Token", "explain"]


@dataclass(frozen=True, slots=True)
class Token:
    """One token of a prompt.

    Parameters
    ----------
    row, index : int
        Row of the batch, and column of the padded row.
    id : int
        The token id.
    kind : {"text", "image", "video", "audio", "masked"}
        What it stands for.
    item, frame : int
        Row of the kind's grid, and frame within it; -1 for text.
    position : tuple of int or float
        (t, h, w) by the reference; one number for a case of rope, none for one of fusion.
    slot : int
        Place in the cache: the index in the padded row, since padding is cached too.
    feature : int
        Row of the kind's features over the whole batch; -1 for text.
    """

    row: int
    index: int
    id: int
    kind: str
    item: int
    frame: int
    position: tuple[int | float, ...]
    slot: int
    feature: int


@dataclass(frozen=True, slots=True)
class Explanation:
    """What the reference and engines make of one case.

    Parameters
    ----------
    case : Case
        The case.
    reference : Outcome
        An answer or a refusal.
    tokens : tuple of Token
        Row by row; empty if the reference refuses the case, or where what is asked is not about
        the tokens of a prompt: audio, prompts that go in by windows; for a case of tokens see
        ``items``.
    spans : tuple of Span
        As `mmref.layout.scan` finds them.
    verdicts : dict of str to Verdict
        By engine and version.
    skipped : dict of str to str
        Engines that the case cannot be put to, and why.
    items : tuple of ExpandedItem
        For a case of tokens, what each placeholder becomes.
    """

    case: Case
    reference: Outcome
    tokens: tuple[Token, ...]
    spans: tuple[layout.Span, ...]
    verdicts: dict[str, Verdict]
    skipped: dict[str, str]
    items: tuple[ExpandedItem, ...] = ()

    def to_builtins(self) -> dict[str, Any]:
        """The JSON form.

        Returns
        -------
        dict
            ``case``, ``reference``, ``tokens``, ``engines``, ``skipped``; for a case of
            tokens ``items`` and ``boundary``.
        """
        names = Token.__slots__
        boundary = families.get(self.case.family).media.boundary
        about_tokens = {"boundary": boundary, "items": [item.to_builtins() for item in self.items]}
        return {
            **(about_tokens if self.case.subject == "tokens" else {}),
            "case": self.case.to_builtins(),
            "reference": self.reference.to_builtins(),
            "tokens": [{name: getattr(token, name) for name in names} for token in self.tokens],
            "engines": {
                name: {
                    "kind": verdict.kind,
                    "differences": [entry.id for entry in verdict.differences],
                    "where": list(verdict.where),
                    "outcome": verdict.actual.to_builtins(),
                }
                for name, verdict in self.verdicts.items()
            },
            "skipped": self.skipped,
        }


def explain(case: Case, engines: list[Engine]) -> Explanation:
    """Take a case apart and put it to engines.

    Parameters
    ----------
    case : Case
        A case of any subject.
    engines : list of Engine
        Engines to compare with; may be empty.

    Returns
    -------
    Explanation
        Tokens, spans and verdicts.

    """
    answer = reference(case)
    spans: tuple[layout.Span, ...] = ()
    tokens: list[Token] = []
    items = expanded_items(case) if case.subject == "tokens" else ()
    if case.subject == "fusion":
        tokens = _fused(case, answer)
    elif answer.status == "answer" and case.subject in ("omni", "rope"):
        tokens = _numbered(case, answer)
    elif answer.status == "answer" and case.subject == "positions":
        arguments = case.arguments()
        for name in ("second_per_grid_ts", "tokens_per_second"):
            arguments.pop(name, None)
        spans = layout.scan(**arguments).spans
        tokens = _tokens(case, answer, spans)
    verdicts: dict[str, Verdict] = {}
    skipped: dict[str, str] = {}
    for engine in engines:
        label = f"{engine.name} {engine.version}"
        reason = skip_reason(engine, case)
        if reason is not None:
            skipped[label] = reason
        else:
            verdicts[label] = judge(case, engine.run(case), release_for(engine))
    return Explanation(case, answer, tuple(tokens), spans, verdicts, skipped, items)


def _fused(case: Case, answer: Outcome) -> list[Token]:
    """Tokens with the feature row that each takes; also of a case that is refused."""
    rows = answer.arrays.get("source_rows", np.full(case.arrays["input_ids"].shape, -1))
    found = []
    kinds = fusion.kinds_of(case)
    for (row, index), token in np.ndenumerate(case.arrays["input_ids"]):
        feature = int(rows[row, index])
        kind = kinds[row][index]
        found.append(Token(row, index, int(token), kind, -1, -1, (), index, feature))
    return found


def _numbered(case: Case, answer: Outcome) -> list[Token]:
    """Tokens of prompts whose kinds are told by the ids alone."""
    if "position_ids" not in answer.arrays:  # by windows: positions of places, not of tokens
        return []
    positions = answer.arrays["position_ids"]
    known = (case.ids or families.get(case.family).token_ids).as_dict()
    kinds = {known[kind]: kind for kind in ("image", "video", "audio") if kind in known}
    mask = case.arrays.get("attention_mask", np.ones_like(case.arrays["input_ids"]))
    features = Counter[str]()
    found = []
    for (row, index), token in np.ndenumerate(case.arrays["input_ids"]):
        kind = kinds.get(int(token), "text") if mask[row, index] else "masked"
        feature = features[kind] if kind in kinds.values() else -1
        features[kind] += 1
        position = tuple(np.atleast_1d(positions[..., row, index]).tolist())
        found.append(Token(row, index, int(token), kind, -1, -1, position, index, feature))
    return found


def _tokens(case: Case, answer: Outcome, spans: tuple[layout.Span, ...]) -> list[Token]:
    ids = case.arrays["input_ids"]
    ids = ids.reshape(1, -1) if ids.ndim == 1 else ids
    mask, positions = answer.arrays["attention_mask"], answer.arrays["position_ids"]
    at = {(span.row, index): span for span in spans for index in range(span.start, span.stop)}
    features = {"image": 0, "video": 0}
    tokens = []
    for row, line in enumerate(ids.tolist()):
        for index, token in enumerate(line):
            t, h, w = positions[:, row, index].tolist()
            kept = bool(mask[row, index])
            span = at.get((row, index)) if kept else None
            kind = span.kind if span is not None else "masked"
            media = kind in features
            tokens.append(
                Token(
                    row,
                    index,
                    token,
                    kind,
                    span.item if span is not None else -1,
                    span.frame if span is not None and media else -1,
                    (t, h, w),
                    index,
                    features[kind] if media else -1,
                )
            )
            if media:
                features[kind] += 1
    return tokens
