"""The fusion subject: what the reference, and a release of an engine, make of a case."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from mmref import families, fusion
from mmref.case import Array, Case, Outcome
from mmref.differences import FusionRules, Release
from mmref.errors import EngineRefusal, RefusedPrompt
from mmref.families import Family, TokenIds
from mmref.probes.fusion import HIDDEN, VOCABULARY, passed_features, table, token_ids

__all__ = ["FusionRequest", "kinds_of", "predict", "reference", "taken"]

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class FusionRequest:
    """A case as differences look at it."""

    row: Family
    ids: Array
    token_ids: TokenIds
    rows: Mapping[str, int]
    form: str


def reference(case: Case) -> Outcome:
    """The reference's outcome of a case.

    Parameters
    ----------
    case : Case
        The case.

    Returns
    -------
    Outcome
        An answer with every array that an engine might show, or a refusal.
    """
    row, ids = families.get(case.family), _told_apart(case)
    passed = passed_features(case)
    ids_of = token_ids(case)
    streams: dict[fusion.Key, Array] = {}
    for kind in row.fusing.kinds:
        key = _VIDEO_APART if row.fusing.shared_id and kind == "video" else getattr(ids_of, kind)
        streams[key] = passed.get(kind, np.zeros((0, HIDDEN), np.float32))
    try:
        arrays: dict[str, Array] = {
            "inputs_embeds": fusion.fuse(ids, _text(case), streams),
            "source_rows": fusion.source_rows(
                ids, {key: len(value) for key, value in streams.items()}
            ),
        }
        if row.fusing.deepstack:
            deep = {key: value[None] for key, value in streams.items()}
            arrays["deepstack"] = fusion.deepstack(ids, deep)
        return Outcome("answer", arrays)
    except RefusedPrompt as error:
        return Outcome.refusal(error)


def predict(case: Case, release: Release) -> Outcome:
    """The outcome of a release, as the reference plus its differences.

    Unlike the other subjects, this one also says what a release makes of what the reference
    refuses: which row lands where is the point of a count that does not match.

    Parameters
    ----------
    case : Case
        A case.
    release : Release
        The release, or one with some of its differences taken away.

    Returns
    -------
    Outcome
        An answer, or a refusal where the release refuses.
    """
    row = families.get(case.family)
    passed = passed_features(case)
    request = FusionRequest(
        row,
        case.arrays["input_ids"],
        token_ids(case),
        {kind: len(value) for kind, value in passed.items()},
        str(case.scalars.get("form", "gather")),
    )
    for difference in release.differences:
        refuses = difference.subject == "fusion" and difference.refuses
        if refuses and refuses(request, None, case.scalars):
            return Outcome("refusal", {}, difference.id, difference.meaning)
    rules = replace(FusionRules(), **release.changes("fusion"))
    start = case.scalars.get("turn_start")
    try:
        if start is None or rules.later_turns == "whole":
            return Outcome("answer", _Merge(case, rules, request, passed).arrays())
        first, later = (
            replace(case, arrays={"input_ids": ids})
            for ids in np.split(case.arrays["input_ids"], [int(start)], axis=1)  # type: ignore[arg-type]
        )
        parts = [
            _Merge(first, rules, request, passed).arrays()["inputs_embeds"],
            _Merge(later, rules, request, {}).arrays()["inputs_embeds"],
        ]
        return Outcome("answer", {"inputs_embeds": np.concatenate(parts, axis=1)})
    except EngineRefusal as error:
        return Outcome.refusal(error)


def kinds_of(case: Case) -> list[list[str]]:
    """What every token of a case stands for.

    Parameters
    ----------
    case : Case
        The case.

    Returns
    -------
    list of list of str
        ``"text"`` or a kind of media, for each row and token.
    """
    fusing, ids, ids_of = families.get(case.family).fusing, _told_apart(case), token_ids(case)
    names = {getattr(ids_of, kind): kind for kind in fusing.kinds}
    if fusing.shared_id:
        names = {ids_of.image: "image", _VIDEO_APART: "video"}
    return [[names.get(token, "text") for token in line] for line in ids.tolist()]


def taken(case: Case, embeds: Array) -> list[list[str]]:
    """Where every row of embeddings came from.

    Parameters
    ----------
    case : Case
        The case.
    embeds : numpy.ndarray
        ``inputs_embeds`` of an outcome.

    Returns
    -------
    list of list of str
        ``"image 2"`` (a feature row), ``"text 20"`` (a row of the table), ``"zeros"``, or
        ``"?"``, for each row and token.
    """
    known = {tuple(line): f"text {token}" for token, line in enumerate(_table_rows())}
    known[(0.0,) * HIDDEN] = "zeros"
    for kind, rows in passed_features(case).items():
        known |= {tuple(line): f"{kind} {row}" for row, line in enumerate(rows.tolist())}
    return [[known.get(tuple(line), "?") for line in rows] for rows in embeds.tolist()]


def _table_rows() -> list[list[float]]:
    rows: list[list[float]] = table(VOCABULARY, HIDDEN).tolist()
    return rows


_VIDEO_APART = -7  # no token of a case has this id


def _told_apart(case: Case) -> Array:
    """The ids, with an id of their own for video placeholders that share the image's."""
    row = families.get(case.family)
    if not row.fusing.shared_id:
        return case.arrays["input_ids"]
    return fusion.tell_videos_apart(
        case.arrays["input_ids"], token_ids(case), video_id=_VIDEO_APART
    )


def _text(case: Case) -> Array:
    return table(VOCABULARY, HIDDEN)[case.arrays["input_ids"]]


class _Merge:
    """The merge by rules that may be changed, one kind of media after the other."""

    def __init__(
        self, case: Case, rules: FusionRules, request: FusionRequest, passed: Mapping[str, Array]
    ) -> None:
        self.case = case
        self.rules = rules
        self.request = request
        self.passed = passed
        self.embeds = _text(case)
        self.deep = np.zeros((1, *self.embeds.shape), np.float32)

    def arrays(self) -> dict[str, Array]:
        fusing = self.request.row.fusing
        for kind in fusing.kinds:
            self.put(kind, self.places(kind))
        arrays = {"inputs_embeds": self.embeds}
        if fusing.deepstack:
            arrays["deepstack"] = self.deep
        return arrays

    def places(self, kind: str) -> Mask:
        ids = self.case.arrays["input_ids"]
        ids_of, shared = self.request.token_ids, self.request.row.fusing.shared_id
        if not shared:
            return np.asarray(ids == getattr(ids_of, kind))
        if self.rules.shared_id == "markers":
            wanted = _VIDEO_APART if kind == "video" else ids_of.image
            return np.asarray(_told_apart(self.case) == wanted)
        return np.asarray(ids == ids_of.image)

    def put(self, kind: str, places: Mask) -> None:
        features = self.passed.get(kind)
        if features is None and self.rules.not_passed == "looked_up":
            if self.request.row.fusing.lookup == "pad":
                self.embeds[places] = table(VOCABULARY, HIDDEN)[0]
            return
        if features is None:
            features = np.zeros((0, HIDDEN), np.float32)
        if self.request.row.fusing.counted == "nothing":
            if self.rules.unplaced == "ignored" and not places.any():
                return
            if self.rules.shape == "broadcast" and places.any():
                features = self.by_broadcast(features, int(places.sum()))
        if features.shape[1] != HIDDEN:
            features = self.by_elements(features, int(places.sum()))
        chosen = self.rows(places.sum(axis=1), len(features))
        with_zeros = np.concatenate([features, np.zeros((1, HIDDEN), np.float32)])
        self.embeds[places] = with_zeros[chosen]
        self.deep[0][places] = with_zeros[chosen]

    def by_broadcast(self, features: Array, count: int) -> Array:
        """One row for every place, and one column for every element, or as many."""
        try:
            return np.broadcast_to(features, (count, HIDDEN))
        except ValueError:
            raise _refused(f"features of shape {features.shape}") from None

    def by_elements(self, features: Array, count: int) -> Array:
        """The elements of features of another width, laid over the places."""
        counted = self.request.row.fusing.counted
        if self.rules.width == "checked" or counted == "nothing":
            raise _refused(f"features of width {features.shape[1]}")
        if counted == "rows" and len(features) == count and features.size >= count * HIDDEN:
            return features.reshape(-1)[: count * HIDDEN].reshape(count, HIDDEN)
        if features.size != count * HIDDEN or counted == "rows":
            raise _refused(f"{features.size} elements for {count} places")
        return features.reshape(count, HIDDEN)

    def rows(self, counts: npt.NDArray[np.int64], available: int) -> npt.NDArray[np.int64]:
        """The feature row of every place, row by row; the one after the last is zeros."""
        rules, form = self.rules, self.request.form
        restarts = rules.numbering == "row" and form != "scatter_nd"
        end_pad = rules.missing == "zero_row" and form in ("gather", "gather_elements")
        largest = int(counts.max() if restarts else counts.sum())
        if largest > available + end_pad:
            raise _refused(f"placeholder {largest} of {available} features")
        if counts.sum() < available and rules.surplus == "refused":
            raise _refused(f"{available} features for {counts.sum()} placeholders")
        if restarts:
            return np.concatenate([np.arange(count) for count in counts])
        return np.arange(counts.sum())


def _refused(why: str) -> EngineRefusal:
    return EngineRefusal("counts-do-not-match", where="features", got=why)
