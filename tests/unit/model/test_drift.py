"""Drift: when to retrain."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from sparseleaf import Drift, SketchForestClassifier, TextVectorizer
from sparseleaf.data import make_xc
from sparseleaf.metrics import precision_at_k

FITS = Drift(
    n_rows=1000,
    n_new_labels=0,
    new_label_rate=0.0,
    unknown_features=0.0,
    n_evaluated=1000,
    precision=(0.6, 0.4, 0.3),
    n_expected=1000,
    expected=(0.61, 0.4, 0.3),
    growth=0.5,
    value=0.6,
    expected_value=0.61,
)


def test_a_model_that_fits_is_not_retrained():
    assert FITS.reasons == []
    assert FITS.loss == pytest.approx(0.01)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"precision": (0.5, 0.4, 0.3)}, "precision@1 fell from 61.0 to 50.0 %"),
        ({"unknown_features": 0.2}, "20 % of the feature values are of unknown features"),
        ({"growth": 1.5}, "updates have 1.5 times the rows of training"),
        (
            {"metric": "rmse", "value": 2.0, "expected_value": 1.0, "higher_is_better": False},
            "rmse changed from 1 to 2",
        ),
        ({"metric": "ndcg@5", "value": 0.5, "expected_value": 0.7}, "ndcg@5 changed from 0.7 to 0.5"),
    ],
)
def test_reasons_to_retrain(change, match):
    drift = replace(FITS, **change)
    assert drift.reasons == [match]


@pytest.mark.parametrize(
    "change",
    [
        {"precision": (0.5, 0.4, 0.3), "n_evaluated": 30},  # within two standard errors
        {"precision": (0.5, 0.4, 0.3), "n_expected": 0},  # nothing to compare with
        {"metric": "rmse", "value": 0.5, "expected_value": 1.0, "higher_is_better": False},  # better
        {"metric": "rmse", "value": 2.0, "expected_value": math.nan, "higher_is_better": False},
    ],
)
def test_no_reason_to_retrain(change):
    assert replace(FITS, **change).reasons == []


def test_the_model_is_evaluated_before_the_update():
    X, Y = make_xc(600, 60, 30, labels_per_row=3, nnz_per_row=12, seed=0, n_topics=8)
    clf = SketchForestClassifier(n_trees=5, rerank="cosine").fit(X[:400], Y[:400])
    before = clf.predict_topk(X[400:], 5)[0]
    drift = clf.update(X[400:], Y[400:]).drift_
    assert drift.precision == pytest.approx([precision_at_k(Y[400:], before, k) for k in (1, 3, 5)])
    assert drift.n_expected == 40  # held out by fit
    again = clf.update(X[400:], Y[400:][:, ::-1], forget=0.1).drift_  # labels that do not fit
    assert again.expected == drift.expected
    assert any("precision@1 fell" in reason for reason in again.reasons)
    assert again.growth == 1.0


def test_features_that_no_earlier_row_had():
    X, Y = make_xc(300, 60, 30, labels_per_row=3, nnz_per_row=12, seed=0)
    narrow = X.copy()
    narrow.data[narrow.indices >= 30] = 0
    clf = SketchForestClassifier(n_trees=3).fit(narrow[:200], Y[:200])
    drift = clf.update(X[200:], Y[200:]).drift_
    assert drift.unknown_features == pytest.approx(np.mean(X[200:].indices >= 30))
    assert any("unknown features" in reason for reason in drift.reasons)
    assert clf.update(X[200:], Y[200:]).drift_.unknown_features == 0


@pytest.mark.parametrize("ngrams", [(1, 1), (1, 2)])
def test_words_that_the_vocabulary_lacks(ngrams):
    texts = [f"red green word{i % 40}" for i in range(60)]
    labels = [[i % 2] for i in range(60)]
    new = ["red novel words", "green word3 unheard unheard", ""]
    vectorizer = TextVectorizer(ngram_range=ngrams)
    clf = SketchForestClassifier(n_trees=2, rerank=None, vectorizer=vectorizer).fit(texts, labels)
    drift = clf.update(new, labels[:3]).drift_
    assert drift.unknown_features == pytest.approx(3 / 6)  # novel, words and unheard of six words
    assert drift.expected_unknown == pytest.approx(20 / 180)  # 20 of the 40 numbered words are in one text
    assert drift.reasons == ["50 % of the feature values are of unknown features"]
    limited = SketchForestClassifier(n_trees=2, rerank=None, vectorizer=TextVectorizer(min_df=2))
    assert limited.fit(texts, labels).update(new, labels[:3]).drift_.unknown_features == 0


def test_as_many_unknown_words_as_expected():
    many = replace(FITS, unknown_features=0.3, expected_unknown=0.2)
    assert many.reasons == []
    assert replace(many, unknown_features=0.5).reasons
