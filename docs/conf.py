"""Sphinx configuration: ``pip install ".[docs]" && sphinx-build -W --keep-going docs docs/_build/html``."""

from __future__ import annotations

import os
import warnings
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]

project = "sparseleaf"
author = "The sparseleaf developers"
copyright = f"2026, {author}"
version = release = version_of("sparseleaf")

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "results", "gallery/*.ipynb", "gallery/*.py", "sg_execution_times.rst"]
suppress_warnings = ["config.cache"]  # sphinx-gallery's settings hold classes, which Sphinx cannot compare
smartquotes = False  # "auto" in a description is a string

# --- Markdown: the pages are read on GitHub, too, so they use none of MyST's own syntax but toctrees
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4

# --- API reference
templates_path = ["_templates"]
autosummary_generate = True
autodoc_typehints = "none"
toc_object_entries_show_parents = "hide"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False  # the template lists them

# --- gallery
sphinx_gallery_conf = {
    "examples_dirs": str(ROOT / "examples"),
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "ignore_pattern": r"__init__\.py",
    "abort_on_example_error": True,
    "within_subsection_order": "ExampleTitleSortKey",
    "download_all_examples": False,
    "show_signature": False,
    "remove_config_comments": True,
    "min_reported_time": 3600,
    "backreferences_dir": None,
}
os.environ.setdefault("OMP_NUM_THREADS", "2")
warnings.filterwarnings("ignore", category=UserWarning, message=".*non-interactive.*")

# --- HTML
html_theme = "pydata_sphinx_theme"
html_title = f"sparseleaf {release}"
html_show_sourcelink = False
html_theme_options = {
    "header_links_before_dropdown": 7,
    "navbar_align": "left",
    "show_prev_next": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "tango",
}
html_sidebars = {"quickstart": [], "benchmarks": []}  # pages without others below them
html_static_path = ["_static"]
html_css_files = ["site.css"]

# --- links to other sites: ``sphinx-build -b linkcheck``. Internal ones are checked by every build and by check_links.py.
linkcheck_timeout = 20
linkcheck_workers = 4


def escape_bars(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """|x| is an absolute value in our docstrings, not a substitution of reStructuredText."""
    for i, line in enumerate(lines):
        if not line.lstrip().startswith(">>>"):
            lines[i] = line.replace("|", "\\|")


def setup(app: Any) -> None:
    app.connect("autodoc-process-docstring", escape_bars, priority=100)  # before numpydoc, which adds tables
