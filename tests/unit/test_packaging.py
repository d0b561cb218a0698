"""What pyproject.toml declares is what the code needs."""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
REQUIRED = PROJECT["dependencies"]
EXTRAS = {name: needs for name, needs in PROJECT["optional-dependencies"].items() if name != "bench"}
TOOLS = {"clang-format", "hypothesis", "mypy", "pytest", "pytest-xdist", "ruff"}


def parsed(requirements):
    """Lowest versions by name."""
    found = {}
    for text in requirements:
        name, version = re.fullmatch(r"([\w-]+)(?:\[[\w,]+\])?[>=]=([\d.]+)", text).groups()
        found[name] = version.removesuffix(".0").removesuffix(".0")
    return found


def imported():
    """Top-level names of all modules that the package imports."""
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                yield from (alias.name.partition(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                yield node.module.partition(".")[0]


def test_everything_imported_is_declared():
    declared = set(parsed([*REQUIRED, *(text for needs in EXTRAS.values() for text in needs)]))
    distributions = packages_distributions()
    for name in set(imported()) - set(sys.stdlib_module_names) - {"sparseleaf"}:
        assert declared & {found.lower().replace("_", "-") for found in distributions[name]}, name


@pytest.mark.parametrize("extra", [None, *EXTRAS])
def test_the_oldest_versions_declared_are_those_tested(extra):
    lines = (ROOT / "tests" / "oldest.txt").read_text().splitlines()
    tested = parsed(line for line in lines if not line.startswith("#"))
    declared = parsed(REQUIRED if extra is None else EXTRAS[extra])
    assert {name: version for name, version in declared.items() if name not in TOOLS} == {
        name: tested[name] for name in declared if name not in TOOLS
    }


def test_builds_do_not_write_into_the_source_tree():
    """Two installs from one checkout would share what they write there."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["scikit-build"]
    assert "build-dir" not in settings  # without it, scikit-build-core takes a temporary folder
