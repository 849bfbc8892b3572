"""A broken port as a program, for the engine ``command``: one case a line, one outcome a line."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import msgspec

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]
Case = importlib.import_module("mmref.case").Case
engine = getattr(importlib.import_module("house.broken_engines"), sys.argv[1])()
for line in sys.stdin.buffer:
    outcome = engine.run(Case.from_json(line))
    sys.stdout.buffer.write(msgspec.json.encode(outcome.to_builtins()) + b"\n")
    sys.stdout.buffer.flush()
