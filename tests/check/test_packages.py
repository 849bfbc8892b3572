"""Every check of a package finds its smallest mistake, and nothing in a package that runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from check import packages

from mmref import check
from mmref.check import Report, Target, check_path, chosen
from mmref.errors import BadPackage, UnknownName

STATIC = ["config", "graph", "processor", "tokens"]
CONFIG, PROCESSOR, TOKENIZER = "genai_config.json", "processor_config.json", "tokenizer.json"


def checked(folder: Path, *select: str, target: Target | None = None) -> Report:
    return check_path(folder, chosen(select or STATIC), target or Target())


def setting(*path: str, value: Any = None, delete: bool = False) -> Callable[[Any], None]:
    def spoil(data: Any) -> None:
        for key in path[:-1]:
            data = data[key]
        if delete:
            del data[path[-1]]
        else:
            data[path[-1]] = value

    return spoil


def transforms(number: int, name: str | None = None, value: Any = None) -> Callable[[Any], None]:
    def spoil(data: Any) -> None:
        steps = data["processor"]["transforms"]
        if name is None:
            del steps[number]
        else:
            steps[number]["operation"]["attrs"][name] = value

    return spoil


def in_json(file: str, spoil: Callable[[Any], None]) -> Callable[[Path], None]:
    return lambda folder: packages.change(folder, file, spoil)


def model(*path: str, **how: Any) -> Callable[[Path], None]:
    return in_json(CONFIG, setting("model", *path, **how))


MISTAKES: dict[str, list[Callable[[Path], None]]] = {
    "config/unknown-key": [
        model("image_token", value=10),
        model("spatial_merge_size", value=2),
        model("vision", "image_token_id", value=10),
        in_json(CONFIG, setting("search", "max_len", value=5)),
    ],
    "config/wrong-kind": [
        model("vision", "inputs", value=7),
        model("decoder", "inputs", "position_ids", value=7),
        model("eos_token_id", value="two"),
        model("decoder", "num_hidden_layers", value="one"),
    ],
    "config/model-type": [model("type", value="qwen2_5_vl_text"), model("type", delete=True)],
    "config/token-id-missing": [
        model("image_token_id", delete=True),
        model("vision_start_token_id", delete=True),
    ],
    "config/token-id-value": [
        model("image_token_id", value="10"),
        model("image_token_id", value=1.5),
        model("image_token_id", value=-1),
        model("video_token_id", value=64),
    ],
    "config/token-ids-equal": [model("video_token_id", value=10)],
    "config/pad-token": [
        model("pad_token_id", delete=True),
        model("pad_token_id", value=10),
        model("pad_token_id", value=2),
    ],
    "config/merge-size": [
        model("vision", "spatial_merge_size", value=0),
        model("vision", "spatial_merge_size", value=-1),
        model("vision", "spatial_merge_size", value=4),
        model("vision", "spatial_merge_size", value="2"),
        in_json(PROCESSOR, transforms(2, "merge_size", 3)),
    ],
    "config/sizes": [
        model("vocab_size", value=70),
        model("vocab_size", delete=True),
        model("context_length", value=0),
    ],
    "config/file-missing": [
        model("vision", "filename", value="no.onnx"),
        model("decoder", "filename", value="../decoder.onnx"),
        model("embedding", "filename", delete=True),
        model("vision", delete=True),
        model("type", value="phi4mm"),
        lambda folder: (folder / "vision.onnx").unlink(),
    ],
    "config/name-not-in-graph": [
        model("decoder", "inputs", "position_ids", value="positions"),
        model("decoder", "inputs", "past_key_names", value="past.%d.k"),
        model("embedding", "outputs", "inputs_embeds", value="embeds"),
    ],
    "config/position-ids-rank": [
        lambda folder: packages.decoder(folder, rank=2),
        model("type", value="gemma3"),
    ],
    "config/position-ids-dtype": [lambda folder: packages.decoder(folder, kind="INT32")],
    "config/shared-buffer": [
        in_json(CONFIG, setting("search", "past_present_share_buffer", value=True))
    ],
    "config/decoder-sizes": [
        model("decoder", "hidden_size", value=8),
        model("decoder", "hidden_size", delete=True),
    ],
    "graph/stage-types": [lambda folder: packages.embedding(folder, kind="FLOAT16")],
    "graph/placeholder-beyond-table": [
        lambda folder: (packages.embedding(folder), model("video_token_id", value=200)(folder))[0]
    ],
    "graph/vision-rotary-size": [lambda folder: packages.vision(folder, frequencies=8)],
    "graph/full-attention-blocks": [lambda folder: packages.vision(folder, masks=1)],
    "graph/clipped-linears": [packages.unclipped_speech],
    "graph/rotary-table": [lambda folder: packages.decoder(folder, rotary_rows=100)],
    "processor/file-missing": [lambda folder: (folder / PROCESSOR).unlink()],
    "processor/layout": [in_json(PROCESSOR, lambda data: data.update(image=data.pop("processor")))],
    "processor/steps": [
        in_json(PROCESSOR, transforms(5)),
        in_json(PROCESSOR, lambda data: data["processor"]["transforms"].reverse()),
    ],
    "processor/patch-size": [
        in_json(PROCESSOR, transforms(2, "patch_size", 16)),
        model("vision", "patch_size", value=16),
    ],
    "processor/normalise": [
        in_json(PROCESSOR, transforms(4, "mean", [123.0, 116.0, 103.0])),
        in_json(PROCESSOR, transforms(4, "std", [0.0, 0.0, 0.0])),
        in_json(PROCESSOR, transforms(4, "mean", [0.5])),
    ],
    "tokens/id-differs": [
        in_json(TOKENIZER, lambda data: data["added_tokens"][0].update(id=20)),
        model("vision_start_token_id", value=13),
    ],
    "tokens/graph-constant": [lambda folder: packages.embedding(folder, constant=0)],
}


@pytest.mark.parametrize(
    ("identifier", "spoil"),
    [(name, spoil) for name, spoils in MISTAKES.items() for spoil in spoils],
)
def test_the_mistake_is_found(
    tmp_path: Path, identifier: str, spoil: Callable[[Path], None]
) -> None:
    folder = packages.good(tmp_path / "package")
    spoil(folder)
    found = {finding.check: finding for finding in checked(folder).findings}
    assert identifier in found
    assert found[identifier].where
    assert found[identifier].happens
    assert found[identifier].fix
    assert found[identifier].consequence in check.CONSEQUENCES


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"model_type": "qwen3_vl"},
        {"model_type": "fara", "tokens_per_second": 2.0},
        {"token_ids": tuple((packages.IDS | {"image_token_id": 20}).items())},
    ],
)
def test_nothing_is_found_in_a_package_that_runs(tmp_path: Path, config: dict[str, Any]) -> None:
    folder = packages.good(tmp_path / "package", **config)
    if "token_ids" in config:
        packages.change(folder, TOKENIZER, lambda data: data["added_tokens"][0].update(id=20))
    assert checked(folder).findings == []


def test_blocks_with_masks_and_tables_of_their_own_are_no_finding(tmp_path: Path) -> None:
    folder = packages.good(tmp_path / "package")
    packages.vision(folder)
    assert checked(folder, "graph").findings == []


def test_a_matching_constant_is_no_finding(tmp_path: Path) -> None:
    folder = packages.good(tmp_path / "package")
    packages.embedding(folder, constant=10)
    assert checked(folder).findings == []


def test_every_check_of_a_package_has_a_mistake() -> None:
    static = {entry.id for entry in chosen(STATIC) if entry.scope == "package"}
    assert static == set(MISTAKES)


def test_the_gravest_comes_first(tmp_path: Path) -> None:
    folder = packages.good(tmp_path / "package")
    model("vision", "spatial_merge_size", value=0)(folder)
    model("image_tokens", value=0)(folder)
    model("vision_start_token_id", delete=True)(folder)
    consequences = [finding.consequence for finding in checked(folder, "config").findings]
    assert consequences == ["wrong answer", "crash", "refusal"]


def test_an_unknown_check_is_named() -> None:
    with pytest.raises(UnknownName, match="did you mean 'config/merge-size'"):
        chosen(["config/merge-sise"])
    assert chosen(["config/merge-size"], ["config"]) == []


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "bad-json"),
        (b"{", "bad-json"),
        (b"[]", "bad-json"),
        (b"\xff\xfe{}", "bad-json"),
        (b'{"model": ' + b"[" * 200_000, "bad-json"),
        (None, "unreadable-file"),
    ],
)
def test_a_damaged_configuration_is_named(tmp_path: Path, content: bytes | None, code: str) -> None:
    folder = packages.good(tmp_path / "package")
    if content is None:
        (folder / CONFIG).unlink()
    else:
        (folder / CONFIG).write_bytes(content)
    with pytest.raises(BadPackage) as caught:
        checked(folder)
    assert caught.value.code == code
    assert CONFIG in caught.value.where


@pytest.mark.parametrize("content", [b"", b"\x00" * 100, b"\x08\x0a", b"x" * 1000, b"\xff" * 5000])
def test_a_damaged_graph_is_named(tmp_path: Path, content: bytes) -> None:
    folder = packages.good(tmp_path / "package")
    (folder / "decoder.onnx").write_bytes(content)
    with pytest.raises(BadPackage, match=r"decoder\.onnx.*bad-graph"):
        checked(folder)


@pytest.mark.parametrize(
    "config",
    [
        {"model": 5},
        {"model": {"vision": []}},
        {"model": {"decoder": {"inputs": 5, "filename": 7}}},
        {"search": []},
        {},
        {"model": {"type": "qwen2_5_vl", "eos_token_id": {}, "vocab_size": "x"}},
    ],
)
def test_a_strange_configuration_is_checked(tmp_path: Path, config: dict[str, Any]) -> None:
    folder = packages.good(tmp_path / "package")
    packages.write(folder, CONFIG, config)
    assert checked(folder).findings


def test_links_out_of_the_folder_are_not_followed(tmp_path: Path) -> None:
    folder = packages.good(tmp_path / "package")
    outside = tmp_path / "outside.onnx"
    (folder / "decoder.onnx").rename(outside)
    (folder / "decoder.onnx").symlink_to(outside)
    assert "config/file-missing" in {finding.check for finding in checked(folder).findings}
    (folder / "decoder.onnx").unlink()
    (folder / "decoder.onnx").symlink_to(folder / "decoder.onnx")  # a loop
    assert "config/file-missing" in {finding.check for finding in checked(folder).findings}
