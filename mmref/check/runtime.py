"""Checks by what the installed engine does with a configuration, on probe graphs, in a child."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from mmref.case import Case, Outcome
from mmref.check.base import Problem, Target, check
from mmref.check.keys import MROPE_TYPES
from mmref.differences.base import small_case
from mmref.errors import EngineFault
from mmref.package import Package

__all__ = ["IMAGE", "TEXT", "outcomes"]

TEXT = small_case([[20, 21, 22]])
IMAGE = small_case(
    [[20, 12, *[10] * 6, 13, 21, 12, *[10] * 4, 13, 22]], images=[[1, 4, 6], [1, 4, 4]]
)


@check(
    "runtime/load",
    consequence="refusal",
    meaning="The installed engine does not run the configuration.",
    happens="The model does not load, or the first prompt fails.",
    fix="The engine's own message says what it does not take.",
    source="the installed ONNX Runtime GenAI, on probe graphs with this package's names and types",
)
def load(package: Package, target: Target) -> Iterator[Problem]:
    for outcome in outcomes(package)[:1]:
        if outcome.status == "answer":
            return
        crashed = outcome.status in ("crash", "timeout")
        happens = "The process is killed." if crashed else ""
        where = "genai_config.json"
        got = outcome.message or outcome.error
        yield Problem(where, got, happens, consequence="crash" if crashed else None)


@check(
    "runtime/positions",
    consequence="wrong answer",
    meaning="The installed engine gives two images other positions than the reference.",
    happens="The model answers, badly: images are numbered like text, or elsewhere.",
    fix="See what the other findings say of token ids, merge size and position_ids.",
    source="the installed ONNX Runtime GenAI, on probe graphs with this package's names and types",
)
def positions(package: Package, target: Target) -> Iterator[Problem]:
    if str(package.model.get("type")) not in MROPE_TYPES:
        return
    found = outcomes(package)
    if not found or found[0].status != "answer":
        return  # said by runtime/load
    outcome = found[1]
    where = "genai_config.json"
    if outcome.status in ("crash", "timeout"):
        got = f"{outcome.error} at the first image"
        yield Problem(where, got, "The process is killed.", consequence="crash")
    elif outcome.status == "refusal":
        yield Problem(where, outcome.message, "Images are refused.", consequence="refusal")
    else:
        expected = _reference(IMAGE)
        actual = outcome.arrays["position_ids"]
        if actual.shape != expected.shape or not np.array_equal(expected, actual):
            got = " ".join(map(str, actual.reshape(-1, actual.shape[-1])[-1].tolist()))
            right = " ".join(map(str, expected[2, 0].tolist()))
            yield Problem(where, f"widths {got}, and the reference has {right}")


def _reference(case: Case) -> Any:
    from mmref.mrope import position_ids

    return position_ids(**case.arguments()).position_ids


def outcomes(package: Package) -> tuple[Outcome, ...]:
    """What the installed engine does with text, and with two images, under a configuration.

    Parameters
    ----------
    package : Package
        The package.

    Returns
    -------
    tuple of Outcome
        Of the two prompts; none if the engine is not installed, or a graph is missing.
    """
    from mmref import families
    from mmref.engines.host import Hosted

    kind = package.model.get("type")
    if not isinstance(kind, str) or importlib.util.find_spec("onnxruntime_genai") is None:
        return ()
    if "decoder" not in package.graphs or package.missing:
        return ()
    if package.seen is not None:
        return package.seen
    names = (name for name in families.names() if families.get(name).genai_type == kind)
    family = next(names, "qwen2_5_vl")
    try:
        engine = Hosted(f"package:{package.folder}")
    except EngineFault as error:
        package.seen = (Outcome("refusal", {}, error.code, error.got),) * 2
        return package.seen
    found = []
    for case in (TEXT, IMAGE):
        found.append(engine.run(replace(case, family=family)))
    engine.close()
    package.seen = tuple(found)
    return package.seen
