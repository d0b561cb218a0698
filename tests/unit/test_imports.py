"""Imports point downwards: a model predicts without anything that trains."""

import ast
from pathlib import Path

import pytest

import sparseleaf

ROOT = Path(sparseleaf.__file__).parent
ALLOWED = {
    "model": {"model", "data", "links", "cuda"},
    "features": {"features", "model", "progress"},
    "projection": {"projection", "model", "data", "progress"},
    "rerank": {"rerank", "model", "progress", "data", "features"},
    "calibration": {"calibration", "model"},
    "objectives": {"objectives", "links"},
    "distributed": {"distributed", "progress", "data"},
}
"""Packages and modules that a package may import, besides the private modules of the library."""

UPWARDS = {("rerank", "estimators")}
"""The boosted re-ranker trains its trees with an estimator."""


def imported(package):
    """All that files of a package import of this library, also inside functions and for type checks."""
    for path in (ROOT / package).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                assert node.level == 0, "imports are absolute"
                names = (
                    [node.module]
                    if node.module != "sparseleaf"
                    else [f"sparseleaf.{a.name}" for a in node.names]
                )
            yield from (name.split(".")[1] for name in names if name.startswith("sparseleaf."))


@pytest.mark.parametrize("package", ALLOWED)
def test_packages_import_only_what_is_below_them(package):
    found = {name for name in imported(package) if not name.startswith("_")}
    assert found, "there are imports"
    upwards = {name for name in found - ALLOWED[package] if (package, name) not in UPWARDS}
    assert not upwards
