"""Tiny ONNX graphs and GenAI packages that make an engine show what it computed."""

from __future__ import annotations

from mmref.probes.genai import PackageConfig, write_package

__all__ = ["PackageConfig", "write_package"]
