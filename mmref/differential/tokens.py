"""The tokens subject: what the reference, and a release of an engine, make of a case."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np

from mmref import families, tokens, vision
from mmref.case import Array, Case, Outcome
from mmref.differences import Release
from mmref.differences.rules import TokenRules
from mmref.differential import clips, processors
from mmref.differential.processors import TokenRequest
from mmref.errors import RefusedMedia
from mmref.families import Family
from mmref.probes import vocabulary

__all__ = ["TokenRequest", "frame_seconds", "predict", "reference"]

_REFERENCE = TokenRules()


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
    try:
        return Outcome("answer", _answer(case))
    except RefusedMedia as error:
        return Outcome.refusal(error)


def predict(case: Case, release: Release) -> Outcome:
    """The outcome of a release, as the reference plus its differences.

    Parameters
    ----------
    case : Case
        A case that the reference accepts.
    release : Release
        The release, or one with some of its differences taken away.

    Returns
    -------
    Outcome
        An answer, or a refusal where the release refuses.
    """
    row = families.get(case.family)
    request = TokenRequest(row, case.texts, tuple(_list(case, "image_sizes") or ()))
    for difference in release.differences:
        refuses = difference.subject == "tokens" and difference.refuses
        about = refuses and difference.is_about(case.family)
        if refuses and about and refuses(request, None, case.scalars):
            return Outcome("refusal", {}, difference.id, difference.meaning)
    rules = replace(TokenRules(), **release.changes("tokens"))
    form = row.media.image_form
    nothing = request.texts == ("",) and not request.images
    if rules.empty_prompt == "crash" and form == "paragraph" and nothing:
        return Outcome("crash", {}, "crash", "a prompt without text and images")
    try:
        if clips.changed(rules):
            return Outcome("answer", _answer(case, rules))
        if rules != TokenRules() and form in processors.BY_FORM:
            expected = _answer(case)
            return Outcome("answer", processors.BY_FORM[form](request, rules, expected))
        if rules != TokenRules() and row.genai_type is not None:
            return Outcome("answer", _by_engine(case, row, rules))
        return Outcome("answer", _answer(case))
    except RefusedMedia as error:
        return Outcome.refusal(error)


def _answer(case: Case, rules: TokenRules = _REFERENCE) -> dict[str, Array]:
    row = families.get(case.family)
    words = vocabulary.of(row)
    expansion = tokens.expand(
        [words.encode(text) for text in case.texts],
        family=case.family,
        images=_list(case, "image_sizes"),
        videos=_list(case, "video_sizes"),
        frame_seconds=frame_seconds(case),
        **clips.arguments(case, rules),
        encode=words.encode,
        token_ids=words.token_ids,
    )
    assert expansion.input_ids is not None
    assert expansion.attention_mask is not None
    assert expansion.mm_token_type_ids is not None
    kept = expansion.attention_mask != 0
    ids, types = expansion.input_ids[kept], expansion.mm_token_type_ids[kept]
    arrays: dict[str, Array] = {
        "tokens": ids,
        "lengths": kept.sum(-1),
        "token_types": clips.types(row, ids, types, rules),
        # those that take a feature: without the ends of an image's rows
        "image_tokens": np.array([((ids == words.token_ids.image) & (types == 1)).sum()]),
    }
    for name in ("image_grid_thw", "video_grid_thw"):
        grid = getattr(expansion, name)
        if grid is not None:
            arrays[name] = grid
    return arrays


def _list(case: Case, name: str) -> Any:
    sizes = case.arrays.get(name)
    return None if sizes is None else [tuple(size) for size in sizes.tolist()]


def frame_seconds(case: Case) -> list[list[float]] | None:
    """The time of every frame of a case's videos.

    Parameters
    ----------
    case : Case
        A case of the subject ``tokens``.

    Returns
    -------
    list of list of float or None
        None where the case gives no rate.
    """
    rate = case.scalars.get("video_fps")
    if rate is None:
        return None
    videos = case.arrays.get("video_sizes", np.empty((0, 3), np.int64)).tolist()
    return [[at / float(rate) for at in range(frames)] for frames, _, _ in videos]  # type: ignore[arg-type]


def _by_engine(case: Case, row: Family, rules: TokenRules) -> dict[str, Array]:
    """Sizes, and what an item replaces, by other rules than the reference's."""
    sizes = case.arrays.get("image_sizes", np.empty((0, 2), np.int64)).tolist()
    found = [_measured(row, height, width, rules) for height, width in sizes]
    words = vocabulary.of(row)
    grids = np.array([resized.grid_thw for resized in found]).reshape(-1, 3)
    if rules.replaces == "block":
        ids = words.encode(_by_blocks(case.texts[0], row, found))
    else:
        expansion = tokens.expand(
            words.encode(case.texts[0]),
            family=case.family,
            image_grid_thw=grids,
            token_ids=words.token_ids,
        )
        assert expansion.input_ids is not None
        ids = expansion.input_ids[0].tolist()
    arrays: dict[str, Array] = {
        "tokens": np.array(ids, np.int64),
        "lengths": np.array([len(ids)], np.int64),
        "image_tokens": np.array([sum(resized.tokens for resized in found)]),
    }
    return arrays | ({"image_grid_thw": grids} if found else {})


def _by_blocks(text: str, row: Family, found: list[vision.Resized]) -> str:
    """Each vision_start, up to the next vision_end wherever it stands, becomes one image.

    The way of ONNX Runtime GenAI (``ProcessImagePrompt`` of its Qwen processor): what stands
    between is lost; without a vision_end the rest of the prompt stays, placeholder and all.
    """
    media = row.media
    start, end, fill = (media.text(name) for name in ("vision_start", "vision_end", "image"))
    parts, last = [], 0
    # as many of both, or the engine has refused the prompt
    for match, resized in zip(re.finditer(re.escape(start), text), found, strict=False):
        # a start inside the block before it is written again, with what precedes it from there
        parts.append(_before(text, last, match.start()))
        parts.append(start + fill * resized.tokens + end)
        closing = text.find(end, match.end())
        last = match.end() if closing < 0 else closing + len(end)
    return "".join([*parts, text[last:]])


def _before(text: str, last: int, start: int) -> str:
    """Text up to a block; where that begins before the last one ended, the rest of the prompt.

    The engine subtracts unsigned numbers there, and a length below zero is an endless one.
    """
    return text[last:start] if last <= start else text[last:]


def _measured(row: Family, height: int, width: int, rules: TokenRules) -> vision.Resized:
    rule = row.media.image_resize
    assert rule is not None
    rule = replace(
        rule,
        rounding=rules.rounding,
        lifted=rules.small_sides == "factor",
        whole_pixels=rules.enlarged == "whole_pixels",
    )
    return vision.resize_by(rule, height, width)
