"""Settings of the suite."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from mmref import mrope
from mmref.families import TokenIds

# 2,000 examples where a property says so; the first Numba compile is longer than any deadline
settings.register_profile(
    "mmref",
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("mmref")

# wheels that the suite fetches are its own, and stay between runs
os.environ.setdefault("MMREF_CACHE", str(Path(__file__).parents[1] / ".pytest_cache/mmref-wheels"))

UNCOMPILED = os.environ.get("NUMBA_DISABLE_JIT") == "1"
_NOT_KERNELS = ("check", "cuda", "engines", "house", "testing")
CHECKED = os.environ.get("NUMBA_BOUNDSCHECK") == "1"


@pytest.fixture(scope="session", autouse=True)
def warm_kernels() -> None:
    """Compile before anything is measured or generated."""
    ids = TokenIds(image=10, video=11)
    mrope.position_ids([[10]], family="qwen2_vl", image_grid_thw=[[1, 2, 2]], token_ids=ids)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The two other modes test the kernels: by definitions, properties and refusals."""
    if not (UNCOMPILED or CHECKED):
        return
    skip = pytest.mark.skip(reason="does not change with the way kernels are run")
    for item in items:
        about_others = any(f"tests/{folder}/" in item.nodeid for folder in _NOT_KERNELS)
        if about_others or item.get_closest_marker("engine"):
            item.add_marker(skip)
