"""Cases and outcomes travel as JSON without loss; damaged ones are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from support import assert_same

from mmref.case import Case, Outcome
from mmref.errors import BadCase
from mmref.testing.strategies import cases, conversations, refused_cases


@settings(max_examples=300)
@given(cases() | refused_cases() | conversations())
def test_round_trip(case: Case) -> None:
    again = Case.from_json(case.to_json())
    assert again.to_json() == case.to_json()
    assert again.key == case.key
    assert again.family == case.family
    assert again.token_ids == case.token_ids
    assert dict(again.scalars) == dict(case.scalars)
    for name, array in case.arrays.items():
        other = again.arrays[name]
        assert other.dtype == array.dtype
        assert other.shape == array.shape
        assert np.array_equal(other, array, equal_nan=array.dtype.kind == "f")
    assert [step.action for step in again.steps] == [step.action for step in case.steps]


def test_outcome_round_trip() -> None:
    outcome = Outcome("answer", {"position_ids": np.zeros((3, 1, 2), np.int64)})
    again = Outcome.from_builtins(outcome.to_builtins())
    assert again.status == "answer"
    assert_same(outcome.arrays["position_ids"], again.arrays["position_ids"])


def test_a_typed_case_needs_little() -> None:
    case = Case.from_json('{"family": "qwen2_vl", "arrays": {"input_ids": [[5, 6]]}}')
    assert case.arrays["input_ids"].dtype == np.int64
    assert case.subject == "positions"
    vector = Case.from_json('{"family": "qwen2_vl", "arrays": {"input_ids": [5, 6]}}')
    assert vector.arrays["input_ids"].tolist() == [[5, 6]]


def _with_steps(steps: str, scalars: str = "") -> str:
    return _with_scalars(scalars)[:-1] + f', "steps": {steps}}}'


def _fusion(ids: str, scalars: str = "") -> str:
    arrays = f'"arrays": {{"input_ids": {ids}}}, "scalars": {{{scalars}}}'
    return f'{{"subject": "fusion", "family": "llava", {arrays}}}'


def _with_scalars(scalars: str) -> str:
    return f'{{"family": "qwen2_vl", "arrays": {{"input_ids": [[1]]}}, "scalars": {{{scalars}}}}}'


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "bad-json"),
        ("{", "bad-json"),
        ("[]", "bad-case"),
        ("{}", "missing required field"),
        ('{"family": "x", "arrays": {}}', "no input_ids"),
        ('{"family": "x", "arrays": {"input_ids": 5}}', "a list of numbers"),
        ('{"family": "x", "arrays": {"input_ids": [["a"]]}}', "a list of numbers"),
        ('{"family": "x", "arrays": {"input_ids": [[1], [2, 3]]}}', "not an array"),
        ('{"family": "x", "arrays": {"input_ids": {"dtype": "object"}}}', "dtype"),
        ('{"family": "x", "arrays": {"input_ids": {"dtype": "int64"}}}', "not an array"),
        (
            '{"family":"x","arrays":{"input_ids":{"dtype":"int64","shape":[9],"data":[]}}}',
            "not an array",
        ),
        ("[" * 100_000, "nested too deeply"),
        ('{"family": "x", "arrays": {"input_ids": [[1]], "pixels": [1]}}', "name that is known"),
        (_with_scalars('"speed": 3'), "name that is known"),
        (_with_scalars('"decode_steps": -1'), "from 0 to"),
        (_with_scalars('"decode_steps": 100000000'), "from 0 to"),
        (_with_scalars('"decode_steps": "many"'), "from 0 to"),
        (_with_scalars('"num_beams": 0'), "from 1 to"),
        (_with_scalars('"spatial_merge_size": 2.5'), "an integer"),
        (_with_scalars('"tokens_per_second": "fast"'), "a number"),
        (_with_scalars('"unset": ["colour"]'), "a list of"),
        (_with_steps("5"), "array"),
        (_with_steps("[5]"), "append"),
        (_with_steps('[{"generate": 0}]'), "from 1 on"),
        (_with_steps('[{"generate": true}]'), "from 1 on"),
        (_with_steps('[{"rewind": -1}]'), "from 0 on"),
        (_with_steps('[{"rewind": 1, "generate": 1}]'), "append"),
        (_with_steps('[{"append": {}}]'), "append"),
        (_with_steps('[{"append": {"input_ids": [[1]], "pixels": [1]}}]'), "not known"),
        (_with_steps('[{"append": {"input_ids": "a"}}]'), "a list of numbers"),
        (_with_steps("[" + ",".join(['{"rewind": 0}'] * 65) + "]"), "at most 64"),
        (_with_steps('[{"rewind": 0}]', '"decode_steps": 1'), "one of them"),
        ('{"family": "x", "arrays": {"input_ids": [[1]]}, "colour": 1}', "unknown field"),
        ('{"family": "x", "arrays": {"input_ids": [[1]]}, "subject": "y"}', "one of positions"),
        ('{"family": "x", "arrays": {"input_ids": [[1]]}, "token_ids": {"q": 1}}', "token id"),
        (_fusion("[[32]]"), "from 0 to 31"),
        (_fusion("[[1], [2, 3]]"), "rows of one length"),
        (_fusion("[]"), "rows of one length"),
        (_fusion("null"), "rows of one length"),
        (_fusion("[[true]]"), "rows of one length"),
        (_fusion("[[1]]", '"image_rows": -1'), "from 0 to"),
        (_fusion("[[1]]", '"image_rows": 1.0'), "from 0 to"),
        (_fusion("[[1]]", '"feature_width": 0'), "from 1 to"),
        (_fusion("[[1, 2]]", '"turn_start": 2'), "less than the tokens"),
        (_fusion("[[1]]", '"form": "gather_nd"'), "one of gather_elements"),
        (
            '{"subject": "fusion", "family": "llava", "arrays": {"input_ids": [[1]]},'
            ' "token_ids": {"image": 11}}',
            "ids that differ",
        ),
        (_fusion("[[1]]", '"texts": ["a"]'), "name that is known"),
    ],
)
def test_damaged_cases_are_refused(text: str, found: str) -> None:
    with pytest.raises(BadCase, match=found):
        Case.from_json(text)


def test_files(tmp_path: Path) -> None:
    file = tmp_path / "case.json"
    with pytest.raises(BadCase, match="unreadable-file"):
        Case.from_file(file)
    case = Case("qwen2_vl", {"input_ids": np.array([[5]])})
    file.write_bytes(b'{"id": "a finding", "case": ' + case.to_json(indent=1) + b"}")
    assert Case.from_file(file).key == case.key
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(BadCase, match="bad-json"):
        Case.from_file(file)
