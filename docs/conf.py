"""Sphinx configuration: ``pip install ".[docs]" && sphinx-build -W --keep-going docs docs/_build/html``."""

from __future__ import annotations

import os
import sys
import warnings
from importlib.metadata import version as version_of
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs" / "_extensions"))

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
    "pages",  # _extensions/pages.py
]
exclude_patterns = [
    "_build",
    "_extensions",
    "results",
    "gallery/*.ipynb",
    "gallery/*.py",
    "gallery/sg_execution_times.rst",
    "sg_execution_times.rst",
]
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

# --- gallery, in the order of the user guide
GALLERY_ORDER = [
    "quickstart.py",
    "tag_texts.py",
    "label_names.py",
    "forest.py",
    "ldsm.py",
    "blend.py",
    "plot_leaf_labels.py",
    "early_stopping.py",
    "plot_tuning.py",
    "multi_output.py",
    "plot_quantiles.py",
    "insurance.py",
    "ranking.py",
    "explain.py",
    "report.py",
    "plot_shap.py",
    "plot_calibration.py",
    "plot_latency.py",
    "distributed.py",
    "checkpoint.py",
    "update.py",
    "weights.py",
]


def gallery_place(filename: str) -> int:
    return GALLERY_ORDER.index(filename)


sphinx_gallery_conf = {
    "examples_dirs": str(ROOT / "examples"),
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "ignore_pattern": r"__init__\.py",
    "abort_on_example_error": True,
    "within_subsection_order": gallery_place,
    "download_all_examples": False,
    "show_signature": False,
    "remove_config_comments": True,
    "min_reported_time": 3600,
    "backreferences_dir": None,
    "capture_repr": (),  # the axes that a last line returns are no output
    "default_thumb_file": str(ROOT / "docs" / "images" / "command-line.png"),
}
os.environ.setdefault("OMP_NUM_THREADS", "2")
warnings.filterwarnings("ignore", category=UserWarning, message=".*non-interactive.*")

# --- HTML
html_theme = "pydata_sphinx_theme"
html_title = f"sparseleaf {release}"
html_favicon = "_static/favicon.svg"
html_context = {"default_mode": "auto"}
html_show_sourcelink = False
TWO_COLUMNS = ["migrate/xgboost", "migrate/lightgbm", "migrate/omikuji-napkinxc"]  # of code: no sidebars
html_theme_options = {
    "header_links_before_dropdown": 7,
    "navbar_align": "left",
    "show_prev_next": False,
    "secondary_sidebar_items": {"**": ["page-toc"]} | {page: [] for page in TWO_COLUMNS},
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "tango",
}
html_sidebars = {page: [] for page in ["quickstart", "benchmarks", *TWO_COLUMNS]}
html_static_path = ["_static"]
html_css_files = ["site.css"]

# --- links to other sites: ``sphinx-build -b linkcheck``. Internal ones are checked by every build and by check_links.py.
linkcheck_timeout = 20
linkcheck_workers = 4
