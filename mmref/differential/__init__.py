"""Behind `mmref diff`: predict, compare, attribute, run."""

from __future__ import annotations

from mmref.differential.compare import Verdict, judge, unlike
from mmref.differential.run import Report, run, run_case
from mmref.differential.subjects import predict, reference

__all__ = ["Report", "Verdict", "judge", "predict", "reference", "run", "run_case", "unlike"]
