"""The API reference: every public name is in it, with all parameters described and an example that runs."""

import doctest
import importlib
import inspect
import re
from pathlib import Path

import pytest

REFERENCE = (Path(__file__).parents[2] / "docs" / "api" / "index.rst").read_text()
WITHOUT_PAGE = {
    "sparseleaf.__version__",
    "sparseleaf.metrics.scorers",  # a dict, described on the page of RankingScorer
    # readers by format, which the command line uses
    *(
        f"sparseleaf.data.{name}"
        for name in ("READERS", "Columns", "Reader", "Rows", "Source", "read", "reader_of")
    ),
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
