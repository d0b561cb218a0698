"""The API reference: every public name is in it, with all parameters described and an example that runs."""

import doctest
import importlib
import inspect
import re
from pathlib import Path

import pytest

PAGES = [path for path in (Path(__file__).parents[2] / "docs" / "api").glob("*.rst") if path.stem != "index"]
REFERENCE = "\n".join(path.read_text() for path in sorted(PAGES))
WITHOUT_PAGE = {
    "sparseleaf.__version__",
    "sparseleaf.metrics.scorers",  # dicts, described on the pages of their modules
    "sparseleaf.data.READERS",
    "sparseleaf.tuning.TUNABLE",
}
INTERNAL = ("sparseleaf.projection",)  # of which LEML alone is public


def listed():
    """Module and name of every entry."""
    module = None
    for line in REFERENCE.splitlines():
        if found := re.fullmatch(r"\.\. currentmodule:: (\S+)", line):
            module = found[1]
        elif found := re.fullmatch(r"   (\w+)", line):
            yield module, found[1]


LISTED = list(listed())
MODULES = sorted({module for module, _ in LISTED} - set(INTERNAL))


def test_public_modules_are_listed():
    names = ("", ".callbacks", ".data", ".export", ".metrics", ".plotting", ".ranking")
    assert {*MODULES} >= {f"sparseleaf{name}" for name in names}


def test_what_has_no_page_is_described():
    assert all(f"``{name}``" in REFERENCE for name in WITHOUT_PAGE - {"sparseleaf.__version__"})


@pytest.mark.parametrize("module", MODULES)
def test_public_names_are_listed(module):
    public = getattr(importlib.import_module(module), "__all__", ())
    wanted = {f"{module}.{name}" for name in public} - WITHOUT_PAGE
    assert wanted <= {f"{home}.{name}" for home, name in LISTED}


@pytest.mark.parametrize(("module", "name"), LISTED)
def test_parameters_are_described(module, name):
    thing = getattr(importlib.import_module(module), name)
    if isinstance(thing, type) and issubclass(thing, Exception):
        return
    described = set()
    for line in re.findall(r"^(\*{0,2}\w[\w, *]*) ?(?::|$)", inspect.getdoc(thing), re.MULTILINE):
        described |= {part.strip(" *") for part in line.split(",")}
    assert set(inspect.signature(thing).parameters) <= described


@pytest.mark.parametrize(("module", "name"), LISTED)
def test_examples_run(module, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    thing = getattr(importlib.import_module(module), name)
    text = inspect.getdoc(thing)
    assert "\nExamples\n--------\n" in text
    test = doctest.DocTestParser().get_doctest(text, {}, f"{module}.{name}", None, 0)
    assert test.examples
    said = []
    doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=said.append)
    assert not said, "".join(said)
