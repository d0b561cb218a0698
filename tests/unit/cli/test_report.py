"""``sparseleaf report``."""

from __future__ import annotations

import json

import numpy as np
import pytest

import sparseleaf
from pages import Elements, payload_of
from sparseleaf import SketchForestClassifier, SparseGBDTClassifier
from sparseleaf.data import load_xc


@pytest.fixture(scope="module")
def model(files, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "m.safetensors"
    SparseGBDTClassifier(n_trees=3, projection=None).fit(*load_xc(files.train)).save(path)
    return path


def test_report_is_that_of_python(cli, files, model, tmp_path):
    out, names = tmp_path / "report.html", tmp_path / "names.tsv"
    names.write_text("3\tthird label\n")
    done = cli(
        "report", model, files.test, "-o", out, "--no-latency", "--title", "Mine", "--label-names", names
    )
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"wrote {out} (")
    X, Y = load_xc(files.test)
    options = {"title": "Mine", "label_names": {"3": "third label"}, "latency": False}
    python = payload_of(sparseleaf.load(model).report(X, Y, **options).to_html())
    assert payload_of(out.read_text()) == python
    assert python["labels"]["names"][3] == "third label (3)"
    assert "Mine" in Elements(out.read_text()).text


def test_options(cli, files, model, tmp_path):
    out, features = tmp_path / "report.html", tmp_path / "features.txt"
    n_features = sparseleaf.load(model).n_features_in_
    features.write_text("".join(f"term{number}\n" for number in range(n_features)))
    options = ["--examples", "2", "--importances", "1", "--trees", "1", "--decode", "top:2", "--no-latency"]
    done = cli("report", model, files.test, "-o", out, *options, "--feature-names", features)
    assert (done.code, done.err) == (0, "")
    shown = payload_of(out.read_text())
    X, _ = load_xc(files.test)
    assert sum(shown["labels"]["predicted"]) == 2 * X.shape[0]
    assert len(shown["examples"]["rows"]) == 2
    assert len(shown["trees"]["trees"]) == 1
    assert np.count_nonzero(np.diff(shown["labels"]["features"]["offsets"])) == 1
    assert all(name.startswith("term") for name in shown["features"])


def test_ids_of_xc_text_are_columns_of_a_model_with_names(cli, files, tmp_path):
    X, Y = load_xc(files.train)
    names = [[f"n{label:03}" for label in row.indices] for row in Y]
    path, out = tmp_path / "m.safetensors", tmp_path / "report.html"
    clf = SketchForestClassifier(n_trees=2, rerank=None).fit(X, names)
    clf.save(path)
    done = cli("report", path, files.test, "-o", out, "--no-latency")
    assert (done.code, done.err) == (0, "")
    labels = payload_of(out.read_text())["labels"]
    support = np.bincount(load_xc(files.test)[1].indices, minlength=len(labels["true"]))
    assert labels["true"] == support[: len(labels["true"])].tolist()


def test_tables_and_queries(cli, tmp_path):
    rng = np.random.default_rng(0)
    table, path, out = (tmp_path / name for name in ("t.csv", "m.safetensors", "report.html"))
    values = rng.normal(size=(120, 2)).round(3)
    lines = [f"{a},{b},{int(a > 0)},q{row // 10}" for row, (a, b) in enumerate(values.tolist())]
    table.write_text("\n".join(["a,b,grade,query", *lines]) + "\n")
    options = ["--target", "grade", "--qid", "query"]
    assert cli("train", table, "--method", "rank", *options, "-m", path, "--set", "n_trees=2").code == 0
    done = cli("report", path, table, *options, "-o", out, "--no-latency")
    assert (done.code, done.err) == (0, "")
    shown = payload_of(out.read_text())
    assert shown["task"] == "queries"
    assert len(shown["queries"]["names"]) == 12
    evaluated = json.loads(cli("evaluate", path, table, *options, "--json").out)
    assert np.mean(shown["queries"]["ndcg5"]) == pytest.approx(evaluated["ndcg@5"], abs=1e-5)


def test_errors_before_any_work(cli, files, model, tmp_path):
    done = cli("report", model, files.test, "-o", tmp_path / "none" / "report.html")
    assert done.code == 2
    assert "does not exist" in done.err
    done = cli("report", model, files.test, "-o", model)
    assert done.code == 2
    assert "would be overwritten" in done.err
    done = cli("report", model, files.test)
    assert done.code == 2
    assert "--output" in done.err
