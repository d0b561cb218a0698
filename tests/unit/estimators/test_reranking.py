"""Adding re-ranking to a classifier that is fitted."""

import numpy as np
import pytest
import scipy.sparse as sp

import sparseleaf
from marks import first
from sparseleaf import (
    LdSMClassifier,
    MultiGBDTClassifier,
    SketchForestClassifier,
    SparseGBDTClassifier,
)
from sparseleaf.data import make_xc
from sparseleaf.metrics import precision_at_k

X, Y = make_xc(900, 120, 60, labels_per_row=3, nnz_per_row=20, seed=3)
CLASSIFIERS = [
    SparseGBDTClassifier(n_trees=5, projection=None),
    MultiGBDTClassifier(n_trees=5, max_leaves=8),
    LdSMClassifier(n_trees=2, max_nodes=30),
]


@pytest.mark.parametrize("clf", CLASSIFIERS, ids=lambda clf: type(clf).__name__)
@pytest.mark.parametrize("mix", ["centroid", "cosine", "log"])
def test_every_classifier_takes_it(clf, mix, tmp_path):
    clf.fit(X[:600], Y[:600])
    before, _ = clf.predict_topk(X[750:], 5)
    assert clf.fit_rerank(X[:600], Y[:600], rerank=mix, eval_set=(X[600:750], Y[600:750])) is clf
    labels, scores = clf.predict_topk(X[750:], 5)
    assert (np.diff(scores, axis=1) <= 0).all()
    assert precision_at_k(Y[750:], labels, 5) >= precision_at_k(Y[750:], before, 5) - 0.02
    clf.save(tmp_path / "m", compact=False)
    found, again = sparseleaf.load(tmp_path / "m").predict_topk(X[750:], 5)
    np.testing.assert_array_equal(found, labels)
    np.testing.assert_allclose(again, scores, rtol=1e-6)


def test_the_trees_alone_have_the_say_at_weight_one():
    clf = MultiGBDTClassifier(n_trees=5, max_leaves=8).fit(X, Y)
    before, _ = clf.predict_topk(X, 5)
    after, scores = clf.fit_rerank(X, Y, weight=1.0).predict_topk(X, 5)
    np.testing.assert_array_equal(after, before)
    assert scores.min() > 0
    assert scores.max() < 1


@pytest.mark.parametrize(("change", "match"), [
    ({"rerank": "nearest", "weight": 0.5}, "'rerank' parameter must be one of {'bayes', 'boosted', .* Got 'nearest'"),
    ({"weight": 2.0}, "'weight' parameter must be .* Got 2.0"),
    ({"weight": "auto"}, "'weight' parameter must be .* Got 'auto'"),
    ({"weight": 0.5, "scale": -1.0}, "'scale' parameter must be .* Got -1.0"),
    ({}, "Either 'weight' or 'eval_set' must be given"),
    ({"weight": 0.5, "eval_set": (X, Y)}, "Either 'weight' or 'eval_set' must be given"),
])  # fmt: skip
def test_bad_arguments_are_named(change, match):
    clf = SparseGBDTClassifier(n_trees=1).fit(X, Y)
    with pytest.raises(ValueError, match=match):
        clf.fit_rerank(X, Y, **change)


def test_missing_values_are_refused():
    dense = X.toarray()
    clf = MultiGBDTClassifier(n_trees=1).fit(dense, Y)
    dense[0, 0] = np.nan
    with pytest.raises(ValueError, match="contains NaN"):
        clf.fit_rerank(dense, Y, weight=0.5)


@pytest.mark.parametrize("clf", CLASSIFIERS, ids=lambda clf: type(clf).__name__)
@pytest.mark.parametrize("kind", first(2, ["auto", "linear", "boosted", "bayes"]))
@pytest.mark.parametrize("compact", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_learned_stages_are_added_and_saved(clf, kind, compact, tmp_path):
    clf.fit(X[:600], Y[:600])
    before, _ = clf.predict_topk(X[750:], 5)
    clf.fit_rerank(X[:600], Y[:600], rerank=kind, eval_set=(X[600:750], Y[600:750]))
    labels, scores = clf.predict_topk(X[750:], 5)
    assert precision_at_k(Y[750:], labels, 5) >= precision_at_k(Y[750:], before, 5) - 0.02
    clf.save(tmp_path / "m", compact=compact)
    found, again = sparseleaf.load(tmp_path / "m").predict_topk(X[750:], 5)
    if compact:  # numbers in 8 bits change the order of a few, not how good they are
        assert precision_at_k(Y[750:], found, 5) == pytest.approx(
            precision_at_k(Y[750:], labels, 5), abs=0.02
        )
    else:
        np.testing.assert_array_equal(found, labels)
        np.testing.assert_allclose(again, scores, rtol=1e-5)


def test_learned_stages_want_rows_to_learn_on():
    clf = SparseGBDTClassifier(n_trees=1).fit(X, Y)
    for kind in ("boosted", "auto"):
        with pytest.raises(ValueError, match=f"weight is not supported for rerank={kind!r}"):
            clf.fit_rerank(X, Y, rerank=kind, weight=0.5)
    assert clf.fit_rerank(X, Y, rerank="linear", weight=0.7).rerank_weight_ == pytest.approx(0.7)


@pytest.mark.parametrize("rerank", ["auto", "linear", "bayes", "cosine"])
def test_targets_without_labels_have_no_reranker(rerank):
    X = make_xc(60, 20, 5, labels_per_row=2, nnz_per_row=5)[0]
    for Y in ([[] for _ in range(60)], sp.csr_matrix((60, 3))):
        clf = SketchForestClassifier(n_trees=2, rerank=rerank).fit(X, Y)
        assert clf.model_.rerank is None
        assert clf.predict_topk(X, 2)[1].max() == -np.inf
