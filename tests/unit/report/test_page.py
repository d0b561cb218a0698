"""The HTML file: complete in itself, and no text of the data becomes markup."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfVectorizer

import sparseleaf
from pages import Elements, payload_of
from sparseleaf import MultiGBDTRegressor, SketchForestClassifier, SparseGBDTClassifier
from sparseleaf.data import make_xc
from sparseleaf.pipeline import make_pipeline
from sparseleaf.report import report as reports
from sparseleaf.report.page import SCRIPTS, decode, encode

COMPAT = Path(__file__).parents[2] / "compat"
HOSTILE = [
    "</script><script>window.hacked = 1</script>",
    '"><img src=x onerror="window.hacked = 1">',
    "<!-- <b>bold</b> & 'quoted' ${title} $title",
]


@pytest.fixture(scope="module")
def hostile():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(120, 3)), columns=HOSTILE)
    y = [[HOSTILE[int(np.argmax(row))]] for row in X.to_numpy()]
    clf = SparseGBDTClassifier(n_trees=3, projection=None).fit(X, y)
    return clf.report(X, y, title=HOSTILE[0], latency=False)


def test_hostile_names_stay_text(hostile):
    page = hostile.to_html()
    assert [tag for tag, _ in Elements(page).elements if tag == "script"] == ["script", "script"]
    assert not {"img", "b"} & {tag for tag, _ in Elements(page).elements}
    assert not [name for _, attributes in Elements(page).elements for name in attributes if name[:2] == "on"]
    assert HOSTILE[0] in Elements(page).text
    assert sorted(payload_of(page)["labels"]["names"]) == sorted(HOSTILE)
    assert set(payload_of(page)["features"]) == set(HOSTILE)


def test_hostile_outputs_stay_text():
    X = np.random.default_rng(0).normal(size=(80, 3))
    Y = pd.DataFrame(X, columns=HOSTILE)
    page = MultiGBDTRegressor(n_trees=2).fit(X, Y).report(X, Y, latency=False).to_html()
    tags = [tag for tag, _ in Elements(page).elements]
    assert tags.count("script") == 2
    assert "img" not in tags
    assert HOSTILE[1] in Elements(page).text


def test_nothing_is_loaded(problem):
    page = problem.report.to_html()
    assert "://" not in page
    assert "@import" not in page
    assert "url(" not in page
    for tag, attributes in Elements(page).elements:
        assert tag not in {"link", "img", "iframe", "object", "embed", "base"}
        assert not {"src", "href", "srcset", "action", "style"} & set(attributes)
        assert not [name for name in attributes if name.startswith("on")]


def test_policy_permits_this_script_and_style_only(problem):
    page = problem.report.to_html()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)[1]
    script = page.rpartition("<script>")[2].partition("</script>")[0]
    for text in (style, script):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy


def test_text_of_any_characters_is_encoded():
    values = {"names": ["</script>", "ß", "日本", "\u2028", "\x00", "🌲"], "numbers": [1, 2.5, None]}
    assert decode(encode(values)) == values
    assert re.fullmatch(r"[A-Za-z0-9+/=]+", encode(values))
    assert decode(encode({"name": "\ud800"})) == {"name": "?"}
    with pytest.raises(ValueError, match="not JSON compliant"):
        encode({"value": float("nan")})


def test_scripts_are_those_of_the_folder():
    folder = Path(sparseleaf.__file__).parent / "report" / "assets"
    assert {path.stem for path in folder.glob("*.js")} == set(SCRIPTS)


def test_every_control_has_a_name(problem):
    elements = Elements(problem.report.to_html()).elements
    identified = {attributes["id"] for _, attributes in elements if "id" in attributes}
    tabs = [attributes for _, attributes in elements if attributes.get("role") == "tab"]
    assert len(tabs) == 5
    assert all(tab["aria-controls"] in identified for tab in tabs)
    charts = [attributes for tag, attributes in elements if tag == "svg"]
    assert len(charts) == 3  # by k, learning curve, reliability
    assert all(chart["role"] == "img" and chart["aria-label"] for chart in charts)


def test_report_is_saved_and_shown(problem, tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    problem.report.save(path)
    assert path.read_text() == problem.report.to_html()
    frame = problem.report._repr_html_()
    assert html.unescape(re.search(r'srcdoc="([^"]*)"', frame)[1]) == problem.report.to_html()
    assert 'sandbox="allow-scripts"' in frame
    assert repr(problem.report).startswith("<Report 'SparseGBDTClassifier report'")
    monkeypatch.setattr(reports, "LARGEST_IN_NOTEBOOK", 1000)
    assert "too large for a notebook" in problem.report._repr_html_()


def test_summary_of_a_fitted_estimator(problem):
    shown = problem.clf._repr_mimebundle_()["text/html"]
    assert "400 rows, 60 features, 25 labels" in shown
    assert "valid precision@1" in shown
    assert "sparseleaf-summary" not in SparseGBDTClassifier()._repr_mimebundle_()["text/html"]


def test_facts_about_the_model(problem):
    about = problem.data["about"]
    assert about["n_trees"] == 15
    assert about["bytes"]["trees"] > 1000
    assert about["fingerprints"]["X"].startswith("200 × 60 (fingerprint ")
    assert about["latency"] is None
    assert problem.data["history"] == problem.clf.history_
    page = problem.clf.report(problem.X, problem.Y, n_examples=0, n_importances=0)
    assert page.data["about"]["latency"]["single_ms"] > 0
    assert "single row, median" in page.to_html()


def test_texts_and_names():
    texts = ["bake bread", "sail a boat", "bread and a boat", "plant a rose"] * 20
    labels = [["food"], ["sea"], ["food", "sea"], ["garden"]] * 20
    clf = SketchForestClassifier(n_trees=3, rerank="linear").fit(texts, labels)
    report = clf.report(
        texts, labels, label_names={"sea": "Maritime"}, titles=texts, n_examples=4, latency=False
    )
    assert report.data["labels"]["names"] == ["food", "garden", "Maritime (sea)"]
    row = report.data["examples"]["rows"][0]
    assert row["text"] == "bake bread"
    names = [report.data["features"][place] for place in row["predicted"][0]["reasons"]["features"]]
    assert "bread" in names
    assert row["predicted"][0]["reasons"]["neighbours"][0][2] == "bake bread"
    pipe = make_pipeline(TfidfVectorizer(), SketchForestClassifier(n_trees=3, rerank=None)).fit(texts, labels)
    names = pipe[0].get_feature_names_out()
    piped = pipe.report(texts, labels, feature_names=names, latency=False)
    assert "bread" in piped.data["features"]


def test_model_files_without_rows_of_nodes():
    clf = sparseleaf.load(COMPAT / "gbdt-sparse-v1.safetensors")
    X, Y = make_xc(20, clf.n_features_in_, clf.model_.n_labels, labels_per_row=2, nnz_per_row=5)
    names = [clf.classes_[row.indices].tolist() for row in Y]
    report = clf.report(X, names, latency=False)
    assert "version 1" in report.data["labels"]["note"]
    assert "version 1" in report.data["examples"]["note"]
    assert report.to_html()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_examples": -1}, "The 'n_examples' parameter must be an int >= 0. Got -1 instead."),
        ({"n_trees": 1.5}, "The 'n_trees' parameter must be an int >= 0. Got 1.5 instead."),
        (
            {"label_names": ["a"]},
            "The 'label_names' parameter must be a mapping from labels to names. Got list",
        ),
        ({"title": 3}, "The 'title' parameter must be a str or None. Got 3 instead."),
        ({"feature_names": ["a"]}, "The 'feature_names' parameter must have a name for each feature, 60."),
    ],
)
def test_invalid_options(problem, options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        problem.clf.report(problem.X, problem.Y, **options)


def test_no_rows(problem):
    with pytest.raises(ValueError, match=r"X must have at least one row\."):
        problem.clf.report(sp.csr_matrix((0, 60), dtype=np.float32), sp.csr_matrix((0, 25)))
