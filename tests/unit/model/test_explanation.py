"""Explanations as objects, JSON, text and HTML."""

from __future__ import annotations

import json
import pickle
from html.parser import HTMLParser

import numpy as np
import pytest
import scipy.sparse as sp

import sparseleaf
from sparseleaf import SketchForestClassifier, SparseGBDTClassifier

HOSTILE = '<script>alert("1")</script>\x1b[31m\n&'


@pytest.fixture(scope="module")
def explanation():
    rng = np.random.default_rng(0)
    X = sp.csr_matrix(rng.random((120, 12)) * (rng.random((120, 12)) < 0.4), dtype=np.float32)
    names = [HOSTILE, "plain"]
    y = [[names[int(row[0] > row[1])]] for row in X.toarray()]
    model = SketchForestClassifier(n_trees=3, rerank="linear").fit(X, y)
    titles = [f"{HOSTILE} {row}" for row in range(120)]
    return model.explain(X[:3], feature_names=[f"{HOSTILE} {i}" for i in range(12)], titles=titles)


class Page(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.open, self.text = [], [], ""

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.open.append(tag)
        assert not any(name.startswith("on") or name in ("src", "href") for name, _ in attrs)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_sequence(explanation):
    assert len(explanation) == 3
    assert explanation[-1].row == 2
    assert [row.row for row in explanation[1:]] == [1, 2]
    assert [len(row) for row in explanation] == [2, 2, 2]
    assert explanation[0][:1][0].label == explanation[0][0].label
    assert repr(explanation) == "<Explanation of 6 labels of 3 rows>"
    with pytest.raises(IndexError):
        explanation[3]


def test_json(explanation):
    values = json.loads(json.dumps(explanation.to_dict(n_features=2), allow_nan=False))
    one = values["rows"][0]["labels"][0]
    assert len(one["features"]) == 2
    total = one["base"] + sum(each["contribution"] for each in one["features"]) + one["other_features"]
    assert total == pytest.approx(one["score"], abs=1e-5)
    assert one["neighbours"][0]["row"] == 0
    assert one["features"][0]["name"] == explanation[0][0].feature_names[0]
    assert len(explanation.to_dict()["rows"][0]["labels"][0]["features"]) == len(explanation[0][0].features)


def test_text_has_no_control_characters(explanation):
    for text in (str(explanation), str(explanation[0]), str(explanation[0][0])):
        assert "\x1b" not in text
        assert "plain" in text or "script" in text
    assert "similar (" in str(explanation)
    short = explanation[0][0].to_text(1)
    assert f"{len(explanation[0][0].features) - 1} other features" in short


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_html_escapes_everything_and_is_closed(explanation, depth):
    thing = explanation
    for _ in range(depth):
        thing = thing[0]
    page = Page()
    page.feed(thing._repr_html_())
    assert not page.open
    assert "script" not in page.tags
    assert {"table", "caption", "th", "ul"} <= set(page.tags)
    assert '<script>alert("1")</script>' in page.text  # as text


def test_pickle(explanation):
    again = pickle.loads(pickle.dumps(explanation))
    assert str(again) == str(explanation)


def test_missing_values_are_null():
    X = np.random.default_rng(0).random((60, 3))
    X[X < 0.3] = np.nan
    model = SparseGBDTClassifier(n_trees=3, projection=None).fit(X, [[str(int(row[0] > 0.5))] for row in X])
    text = json.dumps(model.explain(X[:20]).to_dict(), allow_nan=False)
    assert '"value": null' in text


def test_public_names():
    for name in ("Explanation", "RowExplanation", "LabelExplanation", "Neighbour"):
        assert getattr(sparseleaf, name).__name__ == name
