"""A user's package, driven through ONNX Runtime GenAI on probe graphs.

Cases are put in the package's own terms first: its token ids, its merge size. What the
configuration does not give, the prompt still holds, under an id of its own: so the
engine meets the token that the model was trained on, and does not know it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mmref import families
from mmref.case import Case, Step
from mmref.engines.genai import GenAI
from mmref.package import Package
from mmref.probes import PackageConfig
from mmref.probes.transplant import transplant

__all__ = ["PackageEngine"]

Array = npt.NDArray[Any]
_IDS = {
    "pad": "pad_token_id",
    "image": "image_token_id",
    "video": "video_token_id",
    "vision_start": "vision_start_token_id",
}
_LARGEST_SIDE = 1024  # so that no scaled side comes to the engine's limit
_FREE = 1_000_003  # where ids of tokens begin that the configuration does not name


class PackageEngine(GenAI):
    """ONNX Runtime GenAI with one package's configuration.

    Parameters
    ----------
    folder : Path
        The package.

    Raises
    ------
    MissingExtra
        If onnxruntime-genai or onnx-ir is not installed.
    BadPackage
        If the package cannot be read.
    """

    subjects: tuple[str, ...] = ("positions",)

    def __init__(self, folder: Path) -> None:
        super().__init__(in_child=True)
        self._source = Package.read(folder)
        self._folder = tempfile.TemporaryDirectory(prefix="mmref-")
        transplant(self._source, Path(self._folder.name))
        self._loaded: Any = None
        given = self._source.model.get("context_length")
        self.context_length = given if type(given) is int else 0
        kind = str(self._source.model.get("type"))
        self._kind = "fara" if kind == "fara" else kind
        self._text_alone = "embedding" not in self._source.graphs
        merge = self._source.part("vision").get("spatial_merge_size", 2)
        self._merge = merge if type(merge) is int else 2

    def skip(self, case: Case) -> str | None:
        """Cases of other model types, and what a package decides itself."""
        family = families.get(case.family)
        known = {families.get(name).genai_type for name in families.names()} | {"fara"}
        if self._kind in known and self._kind not in (family.genai_type, case.family):
            return f"the package is a {self._kind}"
        ids = (case.ids or family.token_ids).as_dict()
        kept = [ids[name] for name in _IDS if name in ids]
        if "unset" in case.scalars or len(set(kept)) < len(kept):
            return "which ids are set, and which are equal, is the package's"
        merge = int(case.scalars.get("spatial_merge_size", family.spatial_merge_size))  # type: ignore[arg-type]
        for array in (case.arrays.get("image_grid_thw"), case.arrays.get("video_grid_thw")):
            if array is not None and array.ndim == 2 and array.size:
                sides = array[:, 1:]
                if merge < 1 or (sides % merge).any() or np.abs(sides).max() > _LARGEST_SIDE:
                    return "grids that cannot be put in the package's merge size"
        if merge < 1:
            return "the merge size is the package's"
        rate = self._source.part("vision").get("tokens_per_second", 2.0)
        if family.time == "seconds" and case.scalars.get("tokens_per_second", 2.0) != rate:
            return "tokens_per_second is the package's"
        return super().skip(case)

    def package(self, case: Case) -> PackageConfig:
        """Nothing of a case decides the package.

        Parameters
        ----------
        case : Case
            Any.

        Returns
        -------
        PackageConfig
            Always the same.
        """
        return PackageConfig(self._kind, (), self._merge)

    def _model(self, config: PackageConfig) -> Any:
        if self._loaded is None:
            self._loaded = self._og.Model(self._folder.name)
        return self._loaded

    def _answer(self, case: Case) -> dict[str, Array]:
        return super()._answer(self._recast(case))

    def _start(self, generator: Any, arrays: Mapping[str, Array]) -> None:
        if self._text_alone:  # the engine takes tokens there, and nothing else
            generator.append_tokens(arrays["input_ids"].astype(np.int32))
        else:
            super()._start(generator, arrays)

    def _recast(self, case: Case) -> Case:
        """The same prompt in the package's ids and merge size."""
        ids = (case.ids or families.get(case.family).token_ids).as_dict()
        to: dict[int, int] = {}
        for number, (name, value) in enumerate(ids.items()):
            given = self._source.model.get(_IDS.get(name, ""))
            to.setdefault(value, given if type(given) is int else _FREE + number)
        if "pad" in ids and type(self._source.model.get("pad_token_id")) is not int:
            to[ids["pad"]] = 0  # what the engine takes it for
        factor = (int(case.scalars.get("spatial_merge_size", 2)), self._merge)  # type: ignore[arg-type]
        arrays = {name: _recast(name, array, to, factor) for name, array in case.arrays.items()}
        steps = tuple(
            Step(
                step.action,
                step.count,
                {name: _recast(name, array, to, factor) for name, array in step.arrays.items()},
            )
            for step in case.steps
        )
        pad = {"pad": to[ids["pad"]]} if "pad" in ids else {}
        token_ids = {**{name: to[value] for name, value in ids.items()}, **pad}
        return replace(case, arrays=arrays, token_ids=token_ids, steps=steps)


def _recast(name: str, array: Array, to: dict[int, int], factor: tuple[int, int]) -> Array:
    if name == "input_ids" and array.dtype.kind in "iu":
        recast = array.copy()
        for old, new in to.items():
            recast[array == old] = new
        return recast
    if name.endswith("_grid_thw") and array.ndim == 2 and array.shape[1] == 3:
        old, new = factor
        scaled = array.copy()
        whole = (array[:, 1:] % old == 0).all()
        if whole and array.dtype.kind in "iu":
            scaled[:, 1:] = array[:, 1:] // old * new
        return np.asarray(scaled)
    return array
