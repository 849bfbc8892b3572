"""`fusion.predict` against the graphs themselves, on every small combination."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

from mmref import fusion
from mmref.errors import MmrefError
from mmref.probes.fusion import embedding_graph, model_bytes, table

IMAGE, TEXT, HIDDEN = 10, 20, 2
ort = pytest.importorskip("onnxruntime")

Run = Callable[[np.ndarray, np.ndarray], np.ndarray]


def session(form: str, **options: Any) -> Any:
    quiet = ort.SessionOptions()
    quiet.log_severity_level = 4
    data = model_bytes(embedding_graph(form, [("image_features", IMAGE)], hidden=HIDDEN, **options))
    return ort.InferenceSession(data, quiet, providers=["CPUExecutionProvider"])


def runner(form: str, runtime: str) -> Run:
    if runtime == "onnxruntime-cpu":
        opened = session(form)
    else:
        import onnx
        from onnx.reference import ReferenceEvaluator

        data = model_bytes(embedding_graph(form, [("image_features", IMAGE)], hidden=HIDDEN))
        opened = ReferenceEvaluator(onnx.load_from_string(data))
    return lambda ids, image: opened.run(None, {"input_ids": ids, "image_features": image})[0]


def feature_rows(count: int) -> np.ndarray:
    return -1 - np.arange(count * HIDDEN, dtype=np.float32).reshape(count, HIDDEN)


def prompt(counts: Iterable[int]) -> np.ndarray:
    """Rows of seven tokens: text between the placeholders, or before or after them."""
    rows = []
    for number, count in enumerate(counts):
        row = [TEXT + number] * 7
        for k in range(count):
            row[(3 * k + number) % 7] = IMAGE
        rows.append(row)
    return np.array(rows, np.int64)


def check(form: str, runtime: str, batches: Iterable[int], largest: int = 6) -> int:
    run = runner(form, runtime)
    embeddings = table(32, HIDDEN)
    checked = 0
    for batch in batches:
        for counts in itertools.product(range(largest + 1), repeat=batch):
            ids = prompt(counts)
            assert ((ids == IMAGE).sum(1) == counts).all()
            for available in range(5):
                image = feature_rows(available)
                predicted = fusion.predict(form, counts, available, runtime)
                place = f"{form}, {runtime}: {counts} placeholders, {available} features"
                checked += 1
                try:
                    actual = run(ids, image)
                except Exception:
                    actual = None
                status = "refusal" if actual is None else "answer"
                assert predicted.status == status, f"{place}: {status}, predicted {predicted}"
                if actual is None:
                    continue
                expected = embeddings[ids]
                source = np.concatenate([image, np.zeros((1, HIDDEN), np.float32)])
                for row, taken in enumerate(predicted.rows):
                    expected[row, ids[row] == IMAGE] = source[list(taken)].reshape(-1, HIDDEN)
                assert np.array_equal(expected, actual), f"{place}: predicted {predicted}"
                matched = sum(counts) == available
                if matched:
                    fused = fusion.fuse(ids, embeddings[ids], {IMAGE: image})
                assert predicted.exact == (matched and np.array_equal(fused, actual)), place
    return checked


@pytest.mark.parametrize("form", fusion.FORMS)
def test_onnxruntime_on_every_combination(form: str) -> None:
    assert check(form, "onnxruntime-cpu", (1, 2, 3)) == (7 + 7**2 + 7**3) * 5


@pytest.mark.parametrize("form", fusion.FORMS)
def test_reference_evaluator_on_every_combination_of_two_rows(form: str) -> None:
    assert check(form, "onnx.reference", (1, 2)) == (7 + 7**2) * 5


@pytest.mark.slow
@pytest.mark.parametrize("form", fusion.FORMS)
def test_reference_evaluator_on_every_combination_of_three_rows(form: str) -> None:
    assert check(form, "onnx.reference", (3,)) == 7**3 * 5


@pytest.mark.parametrize(("available", "status"), [(62, "answer"), (63, "refusal")])
def test_reference_evaluator_looks_among_63_rows_at_most(available: int, status: str) -> None:
    form = "gather_elements"
    assert fusion.predict(form, [2], available, "onnx.reference").status == status
    run = runner(form, "onnx.reference")
    with contextlib.nullcontext() if status == "answer" else pytest.raises(ValueError, match="64"):
        run(prompt([2]), feature_rows(available))


def test_what_is_read_and_not_run_says_so() -> None:
    cuda = "onnxruntime-cuda"
    assert "not run" in fusion.predict("gather", [3], 1, cuda).evidence
    assert fusion.predict("gather", [3], 1, cuda).effects == ("zero-row",)
    assert fusion.predict("gather_elements", [3], 1, cuda).effects == ("zero-row", "unwritten")
    assert fusion.predict("gather_unpadded", [0], 0, cuda).exact
    assert fusion.predict("scatter_nd", [3], 1, cuda).status == "refusal"


@pytest.mark.parametrize(
    ("form", "counts", "features", "runtime", "code"),
    [
        ("gather_nd", [1], 1, "onnxruntime-cpu", "unknown-form"),
        ("gather", [1], 1, "tensorrt", "unknown-runtime"),
        ("gather", [], 1, "onnxruntime-cpu", "count-value"),
        ("gather", [-1], 1, "onnxruntime-cpu", "count-value"),
        ("gather", [1], 1.0, "onnxruntime-cpu", "count-value"),
    ],
)
def test_refuses(form: str, counts: list[int], features: Any, runtime: str, code: str) -> None:
    with pytest.raises(MmrefError) as caught:
        fusion.predict(form, counts, features, runtime)
    assert caught.value.code == code


@pytest.mark.parametrize("form", fusion.FORMS)
def test_nan_in_a_pad_row_never_leaks(form: str) -> None:
    opened = session(form, pad=np.nan)
    ids, image = prompt([4]), feature_rows(4)
    actual = opened.run(None, {"input_ids": ids, "image_features": image})[0]
    assert np.array_equal(fusion.fuse(ids, table(32, HIDDEN)[ids], {IMAGE: image}), actual)
    image[0] = np.nan  # text looks row 0 up too
    actual = opened.run(None, {"input_ids": ids, "image_features": image})[0]
    assert np.isnan(actual).any(-1).sum() == 1


@pytest.mark.parametrize("form", fusion.FORMS)
@pytest.mark.parametrize("first", [0, 1])
def test_two_passes_in_either_order(form: str, first: int) -> None:
    streams = [("image_features", IMAGE), ("audio_features", 16)]
    streams = [streams[first], streams[1 - first]]
    opened = ort.InferenceSession(
        model_bytes(embedding_graph(form, streams, hidden=HIDDEN)),
        providers=["CPUExecutionProvider"],
    )
    ids = np.array([[TEXT, IMAGE, 16, IMAGE, 16, 16]])
    given = {"image_features": feature_rows(2), "audio_features": 100 + feature_rows(3)}
    actual = opened.run(None, {"input_ids": ids, **given})[0]
    expected = fusion.fuse(
        ids,
        table(32, HIDDEN)[ids],
        {IMAGE: given["image_features"], 16: given["audio_features"]},
    )
    assert np.array_equal(expected, actual)


def test_placeholder_id_beyond_the_table_needs_safe_ids() -> None:
    streams = [("image_features", 40)]
    given = {"input_ids": np.array([[TEXT, 40]]), "image_features": feature_rows(1)}
    unsafe = embedding_graph("gather", streams, hidden=HIDDEN, safe_ids=False)
    with pytest.raises(Exception, match=r"out of data bounds|must be within"):
        ort.InferenceSession(model_bytes(unsafe)).run(None, given)
    safe = ort.InferenceSession(model_bytes(embedding_graph("gather", streams, hidden=HIDDEN)))
    assert safe.run(None, given)[0][0, 1].tolist() == feature_rows(1)[0].tolist()
