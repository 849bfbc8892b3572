"""The project's own rules, checked on itself."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import pkgutil
import re
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from numpydoc.docscrape import FunctionDoc

import mmref
from mmref import audio, differences, families, fusion, layout, omni, rope, tokens
from mmref.differences.rules import (
    REFERENCE,
    AudioRules,
    FusionRules,
    OmniRules,
    RopeRules,
    TokenRules,
)

ROOT = Path(__file__).parents[2]
MODULES = sorted(
    found.name
    for found in pkgutil.walk_packages(mmref.__path__, "mmref.")
    if found.name != "mmref.__main__"
)
# words that say who or what made the text, or where; assembled so that this file passes itself
FORBIDDEN = re.compile("|".join(["/" + "work/", "/" + "root/", "/" + "opt/", "pypi" + r"\.org"]))
LONGEST_FILE = 490


def modules() -> list[ModuleType]:
    return [importlib.import_module(name) for name in MODULES]


@pytest.mark.parametrize("module", modules(), ids=MODULES)
def test_all_is_true(module: ModuleType) -> None:
    names = getattr(module, "__all__", None)
    if names is None:
        return
    assert list(names) == sorted(
        names, key=lambda name: (not name.isupper(), not name[0].isupper(), name)
    ) or list(names) == sorted(names)
    for name in names:
        assert hasattr(module, name), f"{module.__name__}.{name} does not exist"


def public_functions() -> list[tuple[str, Any]]:
    found = []
    for module in modules():
        if ".kernels" in module.__name__ or ".cli" in module.__name__:
            continue
        for name in getattr(module, "__all__", ()):
            thing = getattr(module, name)
            if inspect.isfunction(thing) and thing.__module__ == module.__name__:
                found.append((f"{module.__name__}.{name}", thing))
            elif inspect.isclass(thing) and thing.__module__ == module.__name__:
                for method, function in vars(thing).items():
                    if not method.startswith("_") and inspect.isfunction(function):
                        found.append((f"{module.__name__}.{name}.{method}", function))
    return found


@pytest.mark.parametrize(
    ("name", "function"), public_functions(), ids=[name for name, _ in public_functions()]
)
def test_docstring_parameters_equal_the_signature(name: str, function: Any) -> None:
    doc = inspect.getdoc(function)
    assert doc, f"{name} has no docstring"
    documented = [
        part.strip().lstrip("*")
        for parameter in FunctionDoc(function)["Parameters"]
        for part in parameter.name.split(",")
    ]
    actual = [
        parameter for parameter in inspect.signature(function).parameters if parameter != "self"
    ]
    if documented or "Parameters\n" in doc:
        assert documented == actual, f"{name}: documented {documented}, actual {actual}"
    else:
        refers = re.search(r"parameters are those of|; see `", doc)
        inherited = ".engines." in name and function.__name__ in ("skip", "run")
        assert not actual or refers or inherited, f"{name}: undocumented {actual}"


@pytest.mark.parametrize("module", modules(), ids=MODULES)
def test_examples_run(module: ModuleType) -> None:
    import numpy as np

    names = {"np": np, **vars(module)}
    result = doctest.testmod(module, extraglobs=names, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.failed == 0


def tracked() -> list[Path]:
    done = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in done.stdout.splitlines() if (ROOT / name).is_file()]


def test_no_path_of_a_machine_and_no_registry_host() -> None:
    for path in tracked():
        if path.suffix in (".png", ".svg", ".npz"):
            continue
        found = FORBIDDEN.search(path.read_text())
        assert found is None, f"{path.relative_to(ROOT)}: {found}"


def test_files_stay_readable() -> None:
    long = {
        str(path.relative_to(ROOT)): lines
        for path in tracked()
        if path.suffix == ".py"
        and path.parts[len(ROOT.parts)] == "mmref"
        and "differences" not in path.parts  # one entry after another, read by searching
        and (lines := len(path.read_text().splitlines())) > LONGEST_FILE
    }
    assert not long


def test_kernels_do_not_allocate_raise_or_import_objects() -> None:
    for path in (ROOT / "mmref" / "kernels").glob("*.py"):
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            assert not isinstance(node, (ast.Raise, ast.Try, ast.Dict, ast.ListComp)), path
            if isinstance(node, ast.Attribute) and node.attr in ("empty", "zeros", "array"):
                raise AssertionError(f"{path.name}:{node.lineno} allocates")


def test_every_rule_field_exists_because_a_difference_needs_it() -> None:
    rules = {
        "positions": REFERENCE,
        "tokens": TokenRules(),
        "fusion": FusionRules(),
        "audio": AudioRules(),
        "omni": OmniRules(),
        "rope": RopeRules(),
    }
    for subject, reference in rules.items():
        entries = [entry for entry in differences.ALL if entry.subject == subject]
        set_by_some = {field for entry in entries for field in entry.sets}
        assert set_by_some == set(type(reference).__dataclass_fields__)
        for entry in entries:
            for field, value in entry.sets.items():
                assert value != getattr(reference, field), f"{entry.id} changes nothing"


def test_differences_are_well_formed() -> None:
    ids = [entry.id for entry in differences.ALL]
    assert len(set(ids)) == len(ids)
    for entry in differences.ALL:
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", entry.id)
        changes = [bool(entry.sets), entry.refuses is not None, bool(entry.on_refused)]
        assert sum(changes) == 1, f"{entry.id}: exactly one change"
        codes = {
            "positions": layout.REFUSALS,
            "tokens": tokens.REFUSALS,
            "fusion": fusion.REFUSALS,
            "audio": audio.REFUSALS,
            "omni": omni.REFUSALS,
            "rope": layout.REFUSALS | rope.REFUSALS,
        }
        assert entry.on_refused <= set(codes[entry.subject]), entry.id
        assert entry.meaning.endswith(".")
        assert entry.consequence.endswith(".")
        assert entry.source
        assert entry.engine in differences.RELEASES
        families.get(entry.case.family)


def test_a_new_family_is_a_row_and_every_row_has_a_source() -> None:
    for name in families.names():
        row = families.get(name)
        assert row.source.startswith("transformers.models.")
        assert row.spatial_merge_size >= 1
        assert (row.tokens_per_second is None) == (row.time == "index")
