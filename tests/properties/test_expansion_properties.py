"""Properties of expansion over generated prompts, and its definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from definitions import tokens as definition
from hypothesis import given, settings
from support import assert_same

from mmref import families, layout, mrope, tokens, vision
from mmref.case import Case
from mmref.errors import RefusedMedia
from mmref.probes import vocabulary
from mmref.testing.strategies import tokens as strategies

FAMILIES = families.names("tokens")
SIZES = ("images", "videos", "audio")
GRID_FAMILIES = [name for name in FAMILIES if families.get(name).positions == "3d"]


def media(case: Case) -> dict[str, Any]:
    """The arguments that describe a case's media."""
    images, videos = (case.arrays.get(name) for name in ("image_sizes", "video_sizes"))
    found: dict[str, Any] = {"family": case.family}
    if images is not None:
        found["images"] = [tuple(size) for size in images.tolist()]
    if videos is not None:
        found["videos"] = [tuple(size) for size in videos.tolist()]
        rate = float(case.scalars.get("video_fps", 24.0))  # type: ignore[arg-type]
        found["frame_seconds"] = [[at / rate for at in range(t)] for t, _, _ in found["videos"]]
    if "audio_sizes" in case.arrays:
        found["audio"] = case.arrays["audio_sizes"][:, 0].tolist()
    if case.scalars.get("use_audio_in_video"):
        found["use_audio_in_video"] = True
    if videos is not None and families.get(case.family).positions == "omni":
        rate = float(case.scalars.get("video_fps", 24.0))  # type: ignore[arg-type]
        found["second_per_grid_ts"] = [2 / rate] * len(found["videos"])
    elif found.get("use_audio_in_video"):
        found["second_per_grid_ts"] = []
    return found


def rows_of(case: Case) -> list[list[int]]:
    words = vocabulary.of(families.get(case.family))
    return [words.encode(text) for text in case.texts]


@pytest.mark.parametrize("family", FAMILIES)
def test_expansion(family: str) -> None:
    """Ids, text, definition, layout, counts, inverse and positions, of one generated prompt."""
    row = families.get(family)
    words = vocabulary.of(row)

    @settings(max_examples=60)
    @given(strategies.accepted([family]))
    def check(case: Case) -> None:
        arguments = media(case)
        by_id = {**arguments, "encode": words.encode, "token_ids": words.token_ids}
        prompt = rows_of(case)
        expanded = tokens.expand(prompt, **by_id)
        ids, mask = expanded.input_ids, expanded.attention_mask
        types, spans = expanded.mm_token_type_ids, expanded.layout
        assert ids is not None
        assert mask is not None
        assert types is not None
        assert spans is not None

        texts = tokens.expand(list(case.texts), **arguments).text
        assert isinstance(texts, list)
        kept = [line[keep != 0].tolist() for line, keep in zip(ids, mask, strict=True)]
        assert kept == [words.encode(text) for text in texts]

        assert kept == defined(case, words)
        assert tokens.collapse(ids, **by_id, attention_mask=mask) == prompt
        assert tokens.collapse(kept, **by_id) == prompt
        assert tokens.collapse(texts, **arguments) == list(case.texts)

        sizes = {name: arguments[name] for name in SIZES if name in arguments}
        counts = tokens.count(family, **sizes)
        assert counts.total == int((types > 0).sum())
        of_kind = dict.fromkeys(("image", "video", "text", "audio"), 0)
        for span in spans:
            of_kind[span.kind] += span.tokens
        assert of_kind["image"] == sum(counts.images)
        assert of_kind["video"] == sum(counts.videos)
        assert of_kind["audio"] == sum(counts.audio)
        assert sum(of_kind.values()) == int(mask.sum())

        if row.positions == "3d" and ids.size:
            given_ids = {"token_ids": words.token_ids}
            scanned = layout.scan(**expanded.position_arguments, **given_ids)
            assert_same(scanned.table, spans.table)
            mrope.position_ids(**expanded.position_arguments, **given_ids)
        if row.positions == "omni" and ids.size and in_blocks(case, row):
            found_positions = mrope.position_ids(
                **expanded.position_arguments, token_ids=words.token_ids
            )
            assert found_positions.position_ids.shape == (3, *ids.shape)
        left = tokens.expand(prompt, **by_id, padding_side="left")
        assert left.input_ids is not None
        assert tokens.collapse(left.input_ids, **by_id, attention_mask=left.attention_mask) == (
            prompt
        )
        if row.positions == "3d" and ids.size:
            scanned = layout.scan(**left.position_arguments, token_ids=words.token_ids)
            assert left.layout is not None
            assert_same(scanned.table, left.layout.table)
        visual = {"video_sizes", "audio_sizes"}.isdisjoint(case.arrays)
        if visual and row.media.image_form != "none" and ids.size:
            found = tokens.diagnose(
                ids,
                family=family,
                images=sizes.get("images"),
                attention_mask=mask,
                token_ids=words.token_ids,
            )
            assert found.fits

    check()


def in_blocks(case: Case, row: families.Family) -> bool:
    """Whether every item of a prompt stands between its marks, as positions need it."""
    texts = dict(row.media.texts)
    for kind in ("image", "video", "audio"):
        marks = "audio" if kind == "audio" else "vision"
        around = texts[f"{marks}_start"], texts[kind], texts[f"{marks}_end"]
        for text in case.texts:
            if text.count("".join(around)) != text.count(texts[kind]):
                return False
            if text.count(around[0]) != text.count(around[2]):
                return False
    marks = [texts[name] for name in texts if name.endswith(("start", "end"))]
    joined = "".join(case.texts)
    blocks = sum(joined.count(texts[kind]) for kind in ("image", "video", "audio"))
    return sum(joined.count(mark) for mark in marks) == 2 * blocks


def defined(case: Case, words: vocabulary.Vocabulary) -> list[list[int]]:
    """By the definition, whose words become the vocabulary's ids."""
    row = families.get(case.family)
    given_media = media(case)
    items: dict[str, list[Any]] = {"image": [], "video": []}
    for size in given_media.get("images", []):
        items["image"].append(measured(case.family, size, None, []))
    for size, times in zip(
        given_media.get("videos", []), given_media.get("frame_seconds", []), strict=True
    ):
        items["video"].append(measured(case.family, size[1:], size[0], times))
    names = {number: name for name, number in words.token_ids.as_dict().items()}
    placeholder = "vision_start" if case.family == "gemma3" else "image"
    clips = list(tokens.count(case.family, audio=given_media.get("audio", [])).audio)
    steps = given_media.get("second_per_grid_ts", [])
    step_seconds = steps[0] if steps and "use_audio_in_video" in given_media else None
    lines = []
    for ids in rows_of(case):
        line = []
        for token in ids:
            name = names.get(token, token)
            line.append("image" if name == placeholder else name)
        used = sum(word == "image" for word in line), sum(word == "video" for word in line)
        images = [items["image"].pop(0) for _ in range(used[0])]
        videos = [items["video"].pop(0) for _ in range(used[1])]
        films = len(videos) if step_seconds is not None else 0
        heard = [clips.pop(0) for _ in range(sum(word == "audio" for word in line) + films)]
        found = definition.expand(case.family, line, images, videos, heard, step_seconds)
        numbers = words.token_ids.as_dict()
        lines.append(
            [
                word if isinstance(word, int) else numbers[word] if word in numbers else ord(word)
                for word in found
            ]
        )
    assert row.media.texts
    return lines


def measured(
    family: str, size: tuple[int, int], frames: int | None, times: list[float]
) -> tuple[int, int, int, list[float]]:
    resized = vision.resize(*size, family=family, frames=frames)
    steps, rows, columns = resized.grid_thw
    media_row = families.get(family).media
    rule = media_row.image_resize if frames is None else media_row.video_resize
    assert rule is not None
    if rule.rule in ("tiles", "best_fit"):  # their tokens form no grid
        return 1, 1, resized.tokens, times
    return steps, rows // rule.merge_size, columns // rule.merge_size, times


@pytest.mark.parametrize("fault", strategies.FAULTS)
def test_refused_cases_are_refused(fault: str) -> None:
    possible = strategies.FAULTS[fault][0]
    able = [families.get(name) for name in FAMILIES if possible(families.get(name))]

    @settings(max_examples=40)
    @given(strategies._refused(able, fault))
    def check(case: Case) -> None:
        words = vocabulary.of(families.get(case.family))
        arguments = media(case)
        expected = {fault, "resized-to-nothing"} if fault == "aspect-ratio" else {fault}
        for prompt, more in (
            (rows_of(case), {"encode": words.encode, "token_ids": words.token_ids}),
            (list(case.texts), {}),
        ):
            with pytest.raises(RefusedMedia) as raised:
                tokens.expand(prompt, **arguments, **more)
            assert raised.value.code in expected

    check()


@pytest.mark.parametrize("family", GRID_FAMILIES)
def test_a_changed_expansion_is_not_collapsed(family: str) -> None:
    ids = vocabulary.of(families.get(family)).token_ids
    expanded = tokens.expand(
        [5, ids.image, 6], family=family, image_grid_thw=[[1, 4, 4]], token_ids=ids
    )
    assert expanded.input_ids is not None
    for changed in (expanded.input_ids[0, :-2], np.delete(expanded.input_ids[0], 2)):
        with pytest.raises(RefusedMedia, match="not-an-expansion"):
            tokens.collapse(changed, family=family, image_grid_thw=[[1, 4, 4]], token_ids=ids)
