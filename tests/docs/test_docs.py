"""The documentation is run: its Python, its examples, its generated page, its links."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import sparseleaf
from benchmarks import tables
from marks import first
from sparseleaf.data import make_xc

ROOT = Path(__file__).parents[2]
FIRST_PAGES = ("README.md", "quickstart.md")
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
ESTIMATORS = [
    getattr(sparseleaf, name)
    for name in sparseleaf.__all__
    if name.startswith(("Multi", "Sparse", "Sketch", "LdSM", "GBDT"))
]
EXAMPLES = sorted(ROOT.glob("examples/*.py"))
SHORT = ("quickstart", "multi_output")
BLOCK = re.compile(r"^```python\n(.*?)^```(?:\n\n```text\n(.*?)^```)?", re.DOTALL | re.MULTILINE)


def run_page(page: Path) -> dict[str, object]:
    """Run the Python of a page from top to bottom; where output follows, it has to be that."""
    names: dict[str, object] = {"__name__": "__main__"}
    for code, expected in BLOCK.findall(page.read_text()):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, str(page), "exec"), names)
        if expected:
            assert printed.getvalue() == expected
    return names


@pytest.mark.parametrize(
    "page", first(2, sorted(PAGES, key=lambda page: page.name not in FIRST_PAGES)), ids=lambda page: page.name
)
def test_python_in_pages_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)  # Spark's default is the first python3 on the path
    run_page(page)


PEERS = {
    "xgboost.md": ["xgboost"],
    "lightgbm.md": ["lightgbm"],
    "omikuji-napkinxc.md": ["omikuji", "napkinxc"],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PEERS)
def test_code_of_other_libraries_runs(name, tmp_path, monkeypatch):
    """In pages on migrating, ```py is the other library's side."""
    for module in PEERS[name]:
        pytest.importorskip(module)
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "migrate" / name).read_text()
    assert "```py\n" in text
    names: dict[str, object] = {}
    for code in re.findall(r"^```py(?:thon)?\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        exec(compile(code, name, "exec"), names)


def test_parameters_of_the_tables_for_migrating_exist():
    """What the column of sparseleaf calls a parameter, and an advanced one, is one of some estimator."""
    plain, advanced = {"callbacks", "engine", "layout", "init_model"}, set()
    for estimator in ESTIMATORS:
        for parameter in estimator.parameter_table.values():
            (advanced if parameter.advanced else plain).add(parameter.name)
    n_names = 0
    for page in (ROOT / "docs" / "migrate").glob("*.md"):
        for row in re.findall(r"^\|(.*)\|$", page.read_text(), re.MULTILINE):
            cell = row.split("|")[-2]
            names = set(re.findall(r"[`(,] ?(\w+)=", cell)) | {
                name for name in re.findall(r"`(\w+)`", cell) if "_" in name and not name.endswith("_")
            }
            n_names += len(names)
            assert names <= plain | advanced, (page.name, row)
            if "*advanced*" in cell:
                assert names & advanced, (page.name, row)
            else:
                assert names <= plain, (page.name, row)
    assert n_names > 40


def anchors(page: Path) -> set[str]:
    """What links to the headings of a page, as GitHub and MyST make them."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target, anchor in re.findall(r"\]\(([^)#]*)(?:#([^)]+))?\)", page.read_text()):
        if target.startswith("https://"):
            continue
        path = page.parent / target if target else page
        assert path.exists(), target
        assert not anchor or path.suffix != ".md" or anchor in anchors(path), (target, anchor)


@pytest.mark.parametrize("page", sorted(ROOT.glob("docs/papers/*.md")), ids=lambda page: page.name)
def test_source_files_of_paper_pages_exist(page):
    for path in re.findall(r"`([a-z_]+(?:/[a-z_]+)*\.(?:py|[ch]pp))`", page.read_text()):
        assert (ROOT / path).exists() or (ROOT / "src" / "sparseleaf" / path).exists(), path


def test_gallery_has_every_example():
    conf = (ROOT / "docs" / "conf.py").read_text()
    listed = re.search(r"GALLERY_ORDER = \[(.*?)\]", conf, re.DOTALL)[1]
    assert sorted(re.findall(r'"(.*?)"', listed)) == [path.name for path in EXAMPLES]


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(path, marks=[pytest.mark.slow] * (path.stem not in SHORT), id=path.name)
        for path in EXAMPLES
    ],
)
def test_examples_run(script, tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", script], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["make_parameters", "make_search_spaces"])
def test_pages_made_of_declarations_are_up_to_date(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.PAGE.read_text() == module.page(), f"run python docs/{name}.py"


@pytest.mark.parametrize("page", tables.PAGES, ids=lambda page: page.name)
def test_pages_made_of_results_are_up_to_date(page):
    assert page.read_text() == tables.PAGES[page](), "run python -m benchmarks.tables"


@pytest.mark.parametrize("compact", [True, False])
@pytest.mark.parametrize("projection", [None, "pca"])
def test_reader_of_the_file_format_page_agrees(projection, compact, tmp_path):
    X, Y = make_xc(300, 30, 40, labels_per_row=3, nnz_per_row=8)
    X = X.toarray()
    if projection is None:
        X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    path = tmp_path / "m.safetensors"
    clf = sparseleaf.SparseGBDTClassifier(n_trees=8, projection=projection, projection_dim=5).fit(X, Y)
    clf.save(path, compact=compact)
    page = run_page(ROOT / "docs" / "file-format.md")
    header, tensors = page["read"](path)
    wanted = sparseleaf.load(path).decision_function(X[:50]).toarray()
    found = np.stack([page["scores"](header, tensors, row) for row in X[:50]])
    close = np.isclose(found, wanted, rtol=1e-5, atol=1e-6)
    # a projected value may lie within rounding of a cut
    assert close.all() if projection is None else close.mean() > 0.99


@pytest.mark.parametrize("compact", [False, True])
@pytest.mark.parametrize("leaf_outputs", [None, 1])
def test_file_format_page_reads_dense_models(compact, leaf_outputs, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 9, (200, 2)).astype(np.float32)
    X[rng.random(X.shape) < 0.1] = np.nan
    Y = np.nan_to_num(np.c_[np.sin(X[:, 0] * 7), X[:, 1]])
    path = tmp_path / "m.safetensors"
    model = sparseleaf.MultiGBDTRegressor(
        n_trees=6, leaf_labels=leaf_outputs, categorical_features=[0], min_samples_leaf=5
    )
    model.fit(X, Y).save(path, compact=compact)
    page = run_page(ROOT / "docs" / "file-format.md")
    header, tensors = page["read"](path)
    found = np.stack([page["scores"](header, tensors, row) for row in X])  # category c is the number c here
    np.testing.assert_allclose(found, sparseleaf.load(path).predict(X), rtol=1e-5, atol=1e-6)


def _table(text: str, heading: str) -> list[list[str]]:
    section = text.split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows[2:]]


def test_file_format_page_lists_all_that_is_in_a_file(tmp_path):
    text = (ROOT / "docs" / "file-format.md").read_text()
    listed = {row[0].strip("`"): row[1].replace(" or ", ", ").split(", ") for row in _table(text, "Tensors")}
    keys = {row[0].strip("`") for row in _table(text, "Header")}
    X, _ = make_xc(200, 30, 5, labels_per_row=2, nnz_per_row=6)
    names = [["red", "green"], ["blue"], ["red"], ["green", "blue"]] * 50
    path = tmp_path / "m.safetensors"
    sparse = sparseleaf.SparseGBDTClassifier(n_trees=2, projection="random", projection_dim=5).fit(X, names)
    categories = np.arange(200)[:, None] % 5
    dense = sparseleaf.MultiGBDTRegressor(n_trees=2, categorical_features=[0]).fit(categories, categories % 2)
    X = np.random.default_rng(0).normal(size=(200, 12))
    mixed = sparseleaf.MultiGBDTRegressor(learning_rate=0.4).fit(X, X[:, :8].sum(axis=1))  # with a forest
    found = set()
    for model in (sparse, dense, mixed):
        model.model_ = replace(model.model_, target_columns={"target": ["y"]})  # as `sparseleaf train` does
        model.save(path)
        raw = path.read_bytes()
        layout = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])
        header = json.loads(layout.pop("__metadata__")["sparseleaf"])
        assert set(header) == keys
        assert all(entry["dtype"] in listed[name] for name, entry in layout.items())
        found |= set(layout)
    assert found == set(listed)


def test_pictures_are_small():
    for picture in ROOT.glob("docs/images/*.png"):
        assert os.path.getsize(picture) < 60_000  # noqa: PTH202
