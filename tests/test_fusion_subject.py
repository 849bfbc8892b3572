"""The fusion subject without an engine: its prediction, its reference, what it shows."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import find, given, settings

from mmref import differences, families, fusion
from mmref.case import Case
from mmref.cli import main
from mmref.differences import Release
from mmref.differences.base import fusion_case
from mmref.differential import predict, reference, unlike
from mmref.differential.explain import explain
from mmref.differential.fusion import taken
from mmref.probes.fusion import passed_features, table
from mmref.testing.corners import fusion_corners
from mmref.testing.strategies import cases, refused_cases
from mmref.testing.strategies import fusion as strategies

NAMES = families.names("fusion")
GRAPHS = differences.release("onnxruntime", "1.32")
NOTHING = Release("engine", "1", ())


@pytest.mark.parametrize("form", fusion.FORMS)
def test_the_named_differences_are_what_predict_says(form: str) -> None:
    """Two ways to say what a graph does: named changes to the rule, and the forms one by one."""
    for batch in (1, 2, 3):
        for counts in itertools.product(range(4), repeat=batch):
            ids = [[10] * count + [20] * (4 - count) for count in counts]
            for available in range(4):
                case = fusion_case(ids, "llava", image_rows=available, form=form)
                outcome = predict(case, GRAPHS)
                said = fusion.predict(form, counts, available)
                assert outcome.status == said.status, (form, counts, available)
                if said.status == "refusal":
                    continue
                expected = [
                    [f"image {row}" if row >= 0 else "zeros" for row in line] for line in said.rows
                ]
                actual = [
                    line[:count]
                    for line, count in zip(
                        taken(case, outcome.arrays["inputs_embeds"]), counts, strict=True
                    )
                ]
                assert actual == expected, (form, counts, available)


@settings(max_examples=300)
@given(strategies.accepted(NAMES))
def test_without_a_difference_the_prediction_is_the_reference(case: Case) -> None:
    assert reference(case).status == "answer"
    assert unlike(reference(case), predict(case, NOTHING)) == ()


@settings(max_examples=300)
@given(strategies.refused(NAMES))
def test_what_is_refused_is_refused_for_one_of_three_reasons(case: Case) -> None:
    outcome = reference(case)
    assert outcome.status == predict(case, NOTHING).status == "refusal"
    assert outcome.error in strategies.FAULTS


@settings(max_examples=100)
@given(strategies.accepted(NAMES) | strategies.refused(NAMES))
def test_cases_have_a_json_form(case: Case) -> None:
    again = Case.from_json(case.to_json())
    assert again.key == case.key
    assert np.array_equal(again.arrays["input_ids"], case.arrays["input_ids"])


REACHED = {
    "a batch": lambda case: len(case.arrays["input_ids"]) == 3,
    "no media": lambda case: not passed_features(case),
    "two kinds": lambda case: len(passed_features(case)) == 2,
    "three kinds": lambda case: len(passed_features(case)) == 3,
    "a second turn": lambda case: "turn_start" in case.scalars,
    "a video between markers": lambda case: case.family == "glm4v" and "video_rows" in case.scalars,
    "one row alone with media": lambda case: (
        (case.arrays["input_ids"] == 10).any(1).sum() == 1 and len(case.arrays["input_ids"]) == 2
    ),
    **{form: lambda case, form=form: case.scalars.get("form") == form for form in fusion.FORMS},
}


@pytest.mark.parametrize("name", REACHED)
def test_accepted_cases_reach(name: str) -> None:
    assert find(strategies.accepted(NAMES), REACHED[name], settings=settings(max_examples=3000))


@pytest.mark.parametrize("code", strategies.FAULTS)
def test_refused_cases_reach_every_reason(code: str) -> None:
    drawn = refused_cases(kind=code, subject="fusion")
    found = find(drawn, lambda case: True)
    assert reference(found).error == code
    assert found.size <= 4

    @settings(max_examples=60)
    @given(drawn)
    def check(case: Case) -> None:
        assert reference(case).error == code

    check()


def test_cases_shrink_to_one_token_of_text() -> None:
    case = find(cases(subject="fusion"), lambda case: True)
    assert (case.arrays["input_ids"].tolist(), dict(case.scalars)) == ([[20]], {})


def test_corners_are_cases_of_fusion() -> None:
    for name, case in fusion_corners().items():
        assert case.subject == "fusion", name
        assert Case.from_json(case.to_json()).key == case.key, name


def test_what_a_token_takes_is_read_from_its_embedding() -> None:
    case = fusion_case([[20, 10, 11, 10]], image_rows=2, video_rows=1)
    embeds = reference(case).arrays["inputs_embeds"]
    assert taken(case, embeds) == [["text 20", "image 0", "video 0", "image 1"]]
    assert taken(case, np.zeros_like(embeds))[0] == ["zeros"] * 4
    assert taken(case, embeds + 0.5)[0][0] == "text 20" or taken(case, embeds + 0.5)[0][1] == "?"
    assert not set(map(tuple, table(32, 4).tolist())) & {(0.0,) * 4}


def test_explain_names_the_feature_row_of_every_token() -> None:
    case = fusion_case([[20, 10], [10, 11]], image_rows=2, video_rows=1)
    tokens = explain(case, []).tokens
    assert [token.kind for token in tokens] == ["text", "image", "image", "video"]
    assert [token.feature for token in tokens] == [-1, 0, 1, 0]
    marked = explain(fusion_case([[10, 14, 10, 15]], "glm4v", image_rows=1, video_rows=1), [])
    assert [token.kind for token in marked.tokens] == ["image", "text", "video", "text"]
    refused = explain(fusion_case([[10]]), [])
    assert refused.reference.status == "refusal"
    assert [token.feature for token in refused.tokens] == [-1]


def test_explain_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["explain", "graph-rows-restart", "--format", "pretty"])
    assert str(caught.value.code) == "0"
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["row", "token", "id", "kind", "feature"]
    assert lines[3].split() == ["1", "0", "10", "image", "1"]
    for option, file in (("--plot", "x.png"), ("--script", "x.py")):
        with pytest.raises(SystemExit) as caught:
            main(["explain", "graph-rows-restart", option, file])
        assert str(caught.value.code) == "2"


def test_the_how_to_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    text = Path(__file__).parents[1].joinpath("docs/how-to/check-an-embedding-graph.md").read_text()
    scope: dict[str, object] = {}
    for code, shown in re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", text, re.DOTALL):
        exec(code, scope)
        assert capsys.readouterr().out == shown
    assert "ids" in scope
