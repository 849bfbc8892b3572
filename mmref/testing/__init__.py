"""What other projects' suites import: strategies, corners, assert helpers, a pytest plugin."""

from __future__ import annotations

from mmref.testing.asserts import assert_positions

__all__ = ["assert_positions"]
