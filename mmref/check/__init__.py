"""What is wrong with a model package, before it generates nonsense.

To add a check: one function in the file of its group, with `check` above it. The smallest
package that it finds something in, and the smallest that it does not, belong to
``tests/check``.
"""

from __future__ import annotations

from mmref.check import (  # noqa: F401 - they register
    attention,
    config,
    encoders,
    graph,
    processor,
    runtime,
    stages,
)
from mmref.check.base import CHECKS, CONSEQUENCES, Check, Finding, Target, chosen
from mmref.check.run import Report, check_path

__all__ = [
    "CHECKS",
    "CONSEQUENCES",
    "Check",
    "Finding",
    "Report",
    "Target",
    "check_path",
    "chosen",
]
