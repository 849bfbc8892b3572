"""Every way a merge is refused, and what the refusal says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mmref import fusion, layout
from mmref.errors import RefusedPrompt, UnknownName
from mmref.families import TokenIds

IDS = np.array([[5, 10, 10, 6]])
TEXT = np.zeros((1, 4, 2), np.float32)
TWO = np.ones((2, 2), np.float32)


def wide(shape: tuple[int, ...]) -> np.ndarray:
    return np.zeros(shape, np.float32)


READ_ONLY = np.zeros((1, 4, 2), np.float32)
READ_ONLY.setflags(write=False)

FUSE: list[tuple[str, dict[str, Any]]] = [
    ("array-ragged", {"input_ids": [[1, 2], [3]]}),
    ("array-type", {"text_embeddings": "text"}),
    ("input-ids-dtype", {"input_ids": [[1.0]]}),
    ("input-ids-rank", {"input_ids": np.zeros((1, 1, 1), int)}),
    ("input-ids-empty", {"input_ids": np.zeros((1, 0), int)}),
    ("token-id-type", {"features": {"10": TWO}}),
    ("token-id-type", {"features": {True: TWO}}),
    ("token-id-type", {"features": {2**63: TWO}}),
    ("token-ids-overlap", {"features": {10: TWO, (9, 10): TWO}}),
    ("token-ids-overlap", {"features": {(10, 10): TWO}}),
    ("embeddings-shape", {"text_embeddings": wide((1, 3, 2))}),
    ("embeddings-shape", {"text_embeddings": wide((4,))}),
    ("embeddings-shape", {"text_embeddings": wide((1, 4, 0))}),
    ("embeddings-shape", {"input_ids": np.repeat(IDS, 2, 0), "text_embeddings": wide((4, 2))}),
    ("embeddings-dtype", {"text_embeddings": np.zeros((1, 4, 2), int)}),
    ("embeddings-dtype", {"text_embeddings": np.zeros((1, 4, 2), ">f4")}),
    ("features-rank", {"features": {10: wide((1, 2, 2))}}),
    ("features-rank", {"features": {10: wide((2,))}}),
    ("features-hidden-size", {"features": {10: wide((2, 3))}}),
    ("features-hidden-size", {"features": {10: wide((4, 1))}}),
    ("features-dtype", {"features": {10: TWO.astype(np.float16)}}),
    ("features-dtype", {"features": {10: TWO.astype(int)}}),
    ("features-too-few", {"features": {10: wide((1, 2))}}),
    ("features-too-few", {"features": {10: wide((0, 2))}}),
    ("features-left-over", {"features": {10: wide((3, 2))}}),
    ("features-left-over", {"features": {10: TWO, 11: TWO}}),
    ("features-left-over", {"features": {10: wide((3, 2))}, "order": "row"}),
    ("before-value", {"before": {10: -1}}),
    ("before-value", {"before": {10: [0, 0]}}),
    ("before-value", {"before": {10: 0.5}}),
    ("before-value", {"before": {11: 0}}),
    ("features-too-few", {"before": {10: 1}}),
    ("out-shape", {"out": wide((1, 4, 3))}),
    ("out-shape", {"out": [[0]]}),
    ("out-dtype", {"out": np.zeros((1, 4, 2), np.float64)}),
    ("out-read-only", {"out": READ_ONLY}),
    ("out-overlaps", {"out": TEXT}),
    ("unknown-order", {"order": "column"}),
]


@pytest.mark.parametrize(("code", "changes"), FUSE)
def test_refuses(code: str, changes: dict[str, Any]) -> None:
    arguments = {"input_ids": IDS, "text_embeddings": TEXT, "features": {10: TWO}, **changes}
    with pytest.raises((RefusedPrompt, UnknownName)) as caught:
        fusion.fuse(**arguments)
    assert caught.value.code == code
    assert code == "unknown-order" or code in fusion.REFUSALS
    assert not TEXT.any(), "a refusal must leave the inputs alone"


def test_out_that_overlaps_features_in_part() -> None:
    memory = np.zeros(12, np.float32)
    out, image = memory[:8].reshape(1, 4, 2), memory[6:10].reshape(2, 2)
    with pytest.raises(RefusedPrompt, match="out-overlaps"):
        fusion.fuse(IDS, TEXT, {10: image}, out=out)


def test_out_beside_an_input_in_one_array_is_fine() -> None:
    memory = np.zeros((2, 1, 4, 2), np.float32)
    assert fusion.fuse(IDS, memory[0], {10: TWO}, out=memory[1]).sum() == 4


@pytest.mark.parametrize("value", [-1, 1.5, True, "2"])
def test_refuses_counts_that_are_none(value: Any) -> None:
    with pytest.raises(RefusedPrompt, match="count-value"):
        fusion.source_rows(IDS, {10: value})


def test_deepstack_depths() -> None:
    with pytest.raises(RefusedPrompt, match="features-depth"):
        fusion.deepstack([10, 11], {10: wide((2, 1, 2)), 11: wide((3, 1, 2))})
    with pytest.raises(RefusedPrompt, match="features-depth"):
        fusion.deepstack([10], {})
    with pytest.raises(RefusedPrompt, match="features-rank"):
        fusion.deepstack([10], {10: wide((1, 2))})


@pytest.mark.parametrize("start", [-1, 5, 1.5])
def test_chunk_start(start: Any) -> None:
    with pytest.raises(RefusedPrompt, match="chunk-start"):
        fusion.placeholders_before(IDS, [10], start)


def test_names_the_item() -> None:
    ids = [[5, 10, 10, 10, 10, 6, 10, 10]]
    found = layout.scan(
        ids,
        family="qwen2_vl",
        image_grid_thw=[[1, 4, 4], [1, 2, 4]],
        token_ids=TokenIds(image=10),
    )
    with pytest.raises(RefusedPrompt) as caught:
        fusion.source_rows(ids, {10: 5}, layout=found)
    assert caught.value.where == "row 0, image 1 (tokens 6..7), token 7"
    with pytest.raises(RefusedPrompt) as caught:
        fusion.source_rows(ids, {10: 5})
    assert caught.value.where == "row 0, placeholders (tokens 6..7), token 7"


@pytest.mark.parametrize(
    ("ids", "count", "cause"),
    [
        ([[10, 10]], 8, "not merged"),
        ([[10, 10]], 3, "truncated"),
        ([[5, 5]], 3, "placeholder id of the prompt"),
        ([[10, 10]], 0, "were the features"),
        ([[10], [10]], 1, 'order="row"'),
        ([[10, 5, 10, 10]], 2, "placeholder of its own"),
    ],
)
def test_likely_cause(ids: Any, count: int, cause: str) -> None:
    with pytest.raises(RefusedPrompt) as caught:
        fusion.source_rows(ids, {10: count})
    assert cause in caught.value.hint


CLIPS = np.zeros((1, 2, 4), np.float32)
ROW = np.zeros(4, np.float32)
MARKERS = TokenIds(image=10, video_start=14, video_end=15)
BESIDE: list[tuple[str, Any]] = [
    ("id-beyond-table", lambda: fusion.lookup_ids([5, 32], [10], table_rows=32)),
    ("id-beyond-table", lambda: fusion.lookup_ids([5, -1], [10], table_rows=32)),
    ("id-beyond-table", lambda: fusion.lookup_ids([40], [40], "own", table_rows=32)),
    ("id-beyond-table", lambda: fusion.lookup_ids([40], [40], "pad", table_rows=32, pad_id=32)),
    ("table-rows", lambda: fusion.lookup_ids([5], [10], "zero_beyond_table")),
    ("unknown-rule", lambda: fusion.lookup_ids([5], [10], "none")),  # type: ignore[arg-type]
    ("token-id-type", lambda: fusion.lookup_ids([5], ["10"])),  # type: ignore[list-item]
    ("token-ids-overlap", lambda: fusion.gates([5], image_id=10, audio_id=10)),
    ("input-ids-dtype", lambda: fusion.gates([5.0], image_id=10, audio_id=16)),
    ("input-ids-rank", lambda: fusion.image_blocks(np.zeros((1, 1, 1), int), [10])),
    ("blocks-dtype", lambda: fusion.may_attend([0.5])),
    ("blocks-rank", lambda: fusion.may_attend(np.zeros((1, 1, 1), int))),
    ("blocks-empty", lambda: fusion.may_attend(np.zeros((1, 0), int))),
    ("features-rank", lambda: fusion.fixed_rows(CLIPS[0], ROW)),
    ("features-rank", lambda: fusion.fixed_rows(CLIPS, CLIPS)),
    ("features-hidden-size", lambda: fusion.fixed_rows(CLIPS, ROW[:3])),
    ("features-dtype", lambda: fusion.fixed_rows(CLIPS, ROW.astype(np.float16))),
    ("clip-too-long", lambda: fusion.fixed_rows(np.zeros((1, 189, 4), np.float32), ROW)),
    ("padding-shape", lambda: fusion.fixed_rows(CLIPS, ROW, [[True]])),
    ("padding-shape", lambda: fusion.fixed_rows(CLIPS, ROW, [[1, 0]])),
    ("token-ids-overlap", lambda: fusion.merge_copies(IDS, TEXT, image=(10, TWO), audio=(10, TWO))),
    ("features-too-few", lambda: fusion.merge_copies(IDS, TEXT, image=(10, TWO[:1]))),
    ("marker-missing", lambda: fusion.tell_videos_apart([5], TokenIds(image=10), video_id=11)),
    ("input-ids-empty", lambda: fusion.tell_videos_apart([], MARKERS, video_id=11)),
]


@pytest.mark.parametrize(("code", "call"), BESIDE)
def test_refuses_beside_the_merge(code: str, call: Any) -> None:
    with pytest.raises((RefusedPrompt, UnknownName)) as caught:
        call()
    assert caught.value.code == code
    assert code == "unknown-rule" or code in fusion.REFUSALS


def test_every_refusal_has_a_test() -> None:
    elsewhere = {"array-device", "count-value", "features-depth", "chunk-start"}
    tested = {code for code, _ in FUSE} | {code for code, _ in BESIDE} | elsewhere
    assert set(fusion.REFUSALS) <= tested
