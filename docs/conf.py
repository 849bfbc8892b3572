"""Sphinx: built with warnings as errors (sphinx-build -W docs docs/_build)."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "mmref"
extensions = ["myst_parser", "sphinx.ext.autodoc", "numpydoc", "tables"]
html_theme = "furo"
html_title = "mmref"
exclude_patterns = ["_build", "_ext"]
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
autodoc_typehints = "none"
autodoc_member_order = "bysource"
default_role = "code"  # `name` in a docstring is code, not a link to be resolved
