"""What holds for every merge."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from definitions import fusion as definition
from hypothesis import given, settings
from hypothesis import strategies as st

from mmref import fusion
from mmref.testing.strategies.merges import Merge, merges

DTYPES = (np.float32, np.float16, ml_dtypes.bfloat16, np.float64)


def assert_bits(expected: np.ndarray, actual: np.ndarray) -> None:
    """Equal to the last bit, also where a value is NaN or a negative zero."""
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    bits = np.dtype(f"u{expected.dtype.itemsize}")
    expected, actual = (np.ascontiguousarray(each).view(bits) for each in (expected, actual))
    np.testing.assert_array_equal(actual, expected)


def fuse(merge: Merge, **keywords: object) -> np.ndarray:
    return fusion.fuse(
        merge.input_ids, merge.text_embeddings, merge.features, order=merge.order, **keywords
    )


def rows_of(merge: Merge) -> np.ndarray:
    counts = {key: len(value) for key, value in merge.features.items()}
    return fusion.source_rows(merge.input_ids, counts, order=merge.order)


@settings(max_examples=400)
@given(merges(dtypes=DTYPES))
def test_equals_the_definition(merge: Merge) -> None:
    ids = merge.input_ids.tolist()
    counts = {key: len(value) for key, value in merge.features.items()}
    assert rows_of(merge).tolist() == definition.source_rows(ids, counts, merge.order)
    expected = definition.fuse(ids, merge.text_embeddings, merge.features, merge.order)
    assert_bits(np.array(expected, merge.text_embeddings.dtype), fuse(merge))


@settings(max_examples=300)
@given(merges(dtypes=DTYPES), st.booleans())
def test_out_is_written_whatever_its_memory(merge: Merge, contiguous: bool) -> None:
    shape, dtype = merge.text_embeddings.shape, merge.text_embeddings.dtype
    out = np.full((*shape[:2], 2 * shape[2]), 77, dtype)[..., ::2]
    if contiguous:
        out = np.ascontiguousarray(out)
    assert fuse(merge, out=out) is out
    assert_bits(fuse(merge), np.ascontiguousarray(out))


@settings(max_examples=200)
@given(merges())
def test_text_is_untouched_and_inputs_stay(merge: Merge) -> None:
    before = merge.text_embeddings.copy()
    result = fuse(merge)
    text = ~np.isin(merge.input_ids, list(merge.features))
    assert_bits(merge.text_embeddings[text], result[text])
    assert_bits(before, merge.text_embeddings)


@settings(max_examples=200)
@given(merges(order="batch"), st.randoms(use_true_random=False))
def test_permuting_features_permutes_placeholders_only(merge: Merge, random: object) -> None:
    permuted, orders = {}, {}
    for key, value in merge.features.items():
        orders[key] = list(range(len(value)))
        random.shuffle(orders[key])  # type: ignore[attr-defined]
        permuted[key] = value[orders[key]]
    expected, actual = fuse(merge), fuse(replace(merge, features=permuted))
    for key, order in orders.items():
        mine = merge.input_ids == key
        assert_bits(expected[mine][order], actual[mine])
    text = ~np.isin(merge.input_ids, list(merge.features))
    assert_bits(expected[text], actual[text])


@settings(max_examples=200)
@given(merges(order="batch"))
def test_batch_equals_rows_alone(merge: Merge) -> None:
    together = fuse(merge)
    used = dict.fromkeys(merge.features, 0)
    for row, ids in enumerate(merge.input_ids):
        own = {}
        for key, value in merge.features.items():
            count = int((ids == key).sum())
            own[key] = value[used[key] : used[key] + count]
            used[key] += count
        assert_bits(fusion.fuse(ids, merge.text_embeddings[row], own)[0], together[row])


@settings(max_examples=300)
@given(merges(), st.integers(0, 8), st.integers(0, 8))
def test_a_chunk_is_a_slice_of_the_whole(merge: Merge, start: int, stop: int) -> None:
    length = merge.input_ids.shape[1]
    start, stop = min(start, length - 1), min(stop, length)
    stop = max(stop, start + 1)
    before = fusion.placeholders_before(
        merge.input_ids, list(merge.features), start, order=merge.order
    )
    ids, text = merge.input_ids[:, start:stop], merge.text_embeddings[:, start:stop]
    chunk = fusion.fuse(ids, text, merge.features, order=merge.order, before=before)
    assert_bits(fuse(merge)[:, start:stop], chunk)
    deep = {key: np.stack([value, value]) for key, value in merge.features.items()}
    if deep:
        whole = fusion.deepstack(merge.input_ids, deep, order=merge.order)
        part = fusion.deepstack(ids, deep, order=merge.order, before=before)
        assert_bits(whole[:, :, start:stop], part)


@settings(max_examples=200)
@given(merges(dtypes=DTYPES))
def test_deepstack_is_fuse_into_zeros(merge: Merge) -> None:
    if not merge.features:
        return
    deep = {key: np.stack([value, value[::-1]]) for key, value in merge.features.items()}
    result = fusion.deepstack(merge.input_ids, deep, order=merge.order)
    zeros = np.zeros_like(merge.text_embeddings)
    for layer in range(2):
        own = {key: value[layer] for key, value in deep.items()}
        expected = fusion.fuse(merge.input_ids, zeros, own, order=merge.order)
        assert_bits(np.ascontiguousarray(expected), result[layer])


@settings(max_examples=200)
@given(merges(order="batch"))
def test_one_list_for_several_ids_is_one_id(merge: Merge) -> None:
    if len(merge.features) < 2:
        return
    key = tuple(merge.features)
    joined = np.concatenate(list(merge.features.values()))
    one = np.where(np.isin(merge.input_ids, key), key[0], merge.input_ids)
    text = merge.text_embeddings
    assert_bits(
        fusion.fuse(one, text, {key[0]: joined}),
        fusion.fuse(merge.input_ids, text, {key: joined}),
    )


@pytest.mark.engine
@settings(max_examples=400)
@given(merges(order="batch", dtypes=DTYPES))
def test_equals_torch_masked_scatter(merge: Merge) -> None:
    torch = pytest.importorskip("torch")

    def tensor(array: np.ndarray) -> object:
        array = np.ascontiguousarray(array)
        if array.dtype == ml_dtypes.bfloat16:
            return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
        return torch.from_numpy(array.copy())

    ids, embeds = torch.from_numpy(merge.input_ids), tensor(merge.text_embeddings)
    for key, value in merge.features.items():
        embeds = embeds.masked_scatter((ids == key).unsqueeze(-1), tensor(value))
    given_tensors = {key: tensor(value) for key, value in merge.features.items()}
    actual = fusion.fuse(ids, tensor(merge.text_embeddings), given_tensors)
    assert_bits(fuse(merge), actual)
    if embeds.dtype == torch.bfloat16:
        embeds = embeds.view(torch.int16)
        actual = actual.view(np.int16)
    assert_bits(embeds.numpy(), actual)
