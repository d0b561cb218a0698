"""What pyproject.toml declares is what the code needs."""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = SETTINGS["project"]
REQUIRED = PROJECT["dependencies"]
INTEGRATIONS = {"annif", "cuda", "mlflow"}
"""Extras with many requirements of their own, or a GPU, which are not part of the test environments."""
DISTRIBUTIONS = {"cupy": "cupy-cuda12x"}
"""Names of distributions that are not installed."""
EXTRAS = {
    name: needs
    for name, needs in PROJECT["optional-dependencies"].items()
    if name not in {"bench", "docs"} | INTEGRATIONS
}
TOOLS = {"clang-format", "httpx2", "hypothesis", "mypy", "pytest", "pytest-xdist", "ruff"}
PACKAGES_OF_EXTRAS = {"serve": "serve", "spark": "spark", "tuning": "tune"}
"""Extras of subpackages with modules that are imported only if the extra is installed."""


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
        yield from imports(ast.walk(ast.parse(path.read_text())))


def imports(nodes):
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module.partition(".")[0]


def extra_of(path):
    """Names of the extra that a file may require."""
    first, second, *_ = (*path.relative_to(ROOT / "src" / "sparseleaf").parts, "")
    return (
        {PACKAGES_OF_EXTRAS[first]}
        if first in PACKAGES_OF_EXTRAS
        else {second.removesuffix(".py")} & INTEGRATIONS
    )


def test_everything_imported_is_declared():
    extras = PROJECT["optional-dependencies"]
    needed = [text for name in {*EXTRAS, *INTEGRATIONS} & set(extras) for text in extras[name]]
    declared = set(parsed([*REQUIRED, *needed]))
    distributions = packages_distributions()
    for name in set(imported()) - set(sys.stdlib_module_names) - {"sparseleaf"}:
        assert declared & {
            found.lower().replace("_", "-")
            for found in distributions.get(name, [DISTRIBUTIONS.get(name, name)])
        }, name


def test_what_is_imported_without_asking_is_required():
    """A name that only an extra brings must be imported in a function, or under ``try`` or ``if TYPE_CHECKING``."""
    distributions = packages_distributions()
    for path in (ROOT / "src").rglob("*.py"):
        needed = [text for name in extra_of(path) for text in PROJECT["optional-dependencies"][name]]
        required = set(parsed([*REQUIRED, *needed]))
        names = set(imports(ast.parse(path.read_text()).body)) - set(sys.stdlib_module_names) - {"sparseleaf"}
        for name in names:
            provided = {found.lower().replace("_", "-") for found in distributions.get(name, [name])}
            assert required & provided, (path, name)


def test_what_is_required_is_imported():
    used, distributions = set(imported()), packages_distributions()
    provided = {found.lower().replace("_", "-") for name in used for found in distributions.get(name, ())}
    assert set(parsed(REQUIRED)) <= provided


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
    settings = SETTINGS["tool"]["scikit-build"]
    assert "build-dir" not in settings  # without it, scikit-build-core takes a temporary folder


def test_the_oldest_build_tools_declared_are_those_tested():
    lines = (ROOT / "tests" / "oldest.txt").read_text().splitlines()
    tested = parsed(line for line in lines if not line.startswith("#"))
    for name, version in parsed(SETTINGS["build-system"]["requires"]).items():
        assert tested[name] == version


def test_python_versions_declared_are_those_tested():
    """The oldest by .ci/run, the others by a job each; there are wheels up to where the stable ABI begins."""
    classifiers = [text.rpartition(" :: ")[2] for text in PROJECT["classifiers"] if ":: Python :: 3." in text]
    workflow = (ROOT / ".github" / "workflows" / "test.yml").read_text()
    full = re.search(r'python-version: "(3\.\d+)"', workflow).group(1)
    others = re.findall(r'"(3\.\d+)"', re.search(r"python: \[(.*)\]", workflow).group(1))
    assert [full, *others] == classifiers
    assert PROJECT["requires-python"] == f">={full}"
    tags = [f"cp{version.replace('.', '')}" for version in classifiers]
    stable = tags.index(SETTINGS["tool"]["scikit-build"]["wheel"]["py-api"])
    assert SETTINGS["tool"]["cibuildwheel"]["build"] == [f"{tag}-*" for tag in tags[: stable + 1]]


def test_the_citation_names_this_version():
    assert f"\nversion: {PROJECT['version']}\n" in (ROOT / "CITATION.cff").read_text()
