"""All prediction methods rank alike, ``predict`` returns a prefix, and rows without known features get the prior."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import sparseleaf
from marks import first
from sparseleaf import (
    BlendClassifier,
    LdSMClassifier,
    MultiGBDTClassifier,
    SketchForestClassifier,
    SparseGBDTClassifier,
)
from sparseleaf.data import make_xc
from sparseleaf.model.empty import EmptyRows
from sparseleaf.model.threshold import best_threshold

X, Y = make_xc(700, 120, 40, labels_per_row=3, nnz_per_row=10, seed=3)
X = sp.hstack([X, sp.csr_matrix((700, 5), dtype=np.float32)], "csr")  # five features that training never sees
TRAIN, TEST = slice(0, 500), slice(500, 700)

KINDS = [None, "centroid", "cosine", "log", "linear", "boosted", "bayes", "auto"]
CLASSIFIERS = {
    "forest": lambda kind: SketchForestClassifier(n_trees=4, rerank=kind),
    "ldsm": lambda kind: LdSMClassifier(n_trees=3, max_nodes=60, rerank=kind),
    "gbdt-sparse": lambda kind: SparseGBDTClassifier(n_trees=8, projection=None, rerank=kind),
}


def fitted(name, kind):
    if name == "gbdt-mo":
        clf = MultiGBDTClassifier(n_trees=8).fit(X[TRAIN], Y[TRAIN])
        return (
            clf
            if kind is None
            else clf.fit_rerank(X[TRAIN], Y[TRAIN], rerank=kind, eval_set=(X[TEST], Y[TEST]))
        )
    if name == "blend":
        members = [make("linear") for make in CLASSIFIERS.values()]
        return BlendClassifier(members).fit(X[TRAIN], Y[TRAIN])
    return CLASSIFIERS[name](kind).fit(X[TRAIN], Y[TRAIN])


CASES = first(
    10,
    [
        *(("forest", kind) for kind in KINDS[:-1]),
        *(("ldsm", None), ("gbdt-sparse", "linear"), ("gbdt-mo", "cosine")),
        *((name, kind) for name in ("ldsm", "gbdt-sparse") for kind in KINDS),
        *(("gbdt-mo", kind) for kind in (None, "linear", "boosted")),
        *(("forest", "auto"), ("blend", None)),
    ],
)


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_all_methods_rank_alike(name, kind, tmp_path):
    clf = fitted(name, kind)
    rows = sp.vstack([X[TEST], sp.csr_matrix((1, X.shape[1]), dtype=np.float32)], "csr")
    few, _ = clf.predict_topk(rows, 3)
    labels, scores = clf.predict_topk(rows, 40)
    assert np.array_equal(labels[:, :3], few)  # the order does not depend on how many are asked for
    table = clf.decision_function(rows)
    table = table.toarray() if sp.issparse(table) else table
    predicted = clf.predict(rows).toarray()
    for row in range(rows.shape[0]):
        named = labels[row] >= 0
        ranked, their = labels[row][named], scores[row][named]
        np.testing.assert_allclose(table[row, ranked], their, atol=1e-6)
        assert (np.diff(their) <= 1e-6).all()
        returned = set(np.flatnonzero(predicted[row]))
        assert returned == set(ranked[: len(returned)])
        assert all(table[row, label] >= clf.threshold_ for label in returned)
    clf.save(tmp_path / "m.safetensors", compact=False)
    again = sparseleaf.load(tmp_path / "m.safetensors")
    assert again.threshold_ == clf.threshold_
    assert (again.predict(rows) != clf.predict(rows)).nnz == 0


@pytest.mark.parametrize("name", ["forest", "ldsm"])
def test_predict_returns_about_as_many_labels_as_rows_have(name):
    """It returned none for most rows of long-tailed sets, or twice as many as there were."""
    clf = CLASSIFIERS[name]("auto").fit(X[TRAIN], Y[TRAIN])
    scores = clf.decision_function(X[TEST])

    def f1(threshold):
        returned = scores >= threshold
        return 2 * returned.multiply(Y[TEST]).sum() / (returned.sum() + Y[TEST].nnz)

    assert 0.5 < clf.predict(X[TEST]).nnz / Y[TEST].nnz < 1.5
    assert f1(clf.threshold_) > 0.9 * max(
        f1(value) for value in np.quantile(scores.data, np.linspace(0, 0.99, 50))
    )


def test_the_threshold_is_that_of_the_best_f1():
    rng = np.random.default_rng(0)
    scores = sp.random(60, 12, 0.5, "csr", dtype=np.float32, random_state=0)
    scores.data = rng.integers(1, 9, scores.nnz).astype(np.float32) / 8  # many are equal
    truth = sp.csr_matrix((rng.random((60, 12)) < scores.toarray() * 0.8).astype(np.float32))

    def f1(threshold):
        returned = scores.toarray() >= threshold
        return 2 * (returned * truth.toarray()).sum() / (returned.sum() + truth.nnz)

    assert f1(best_threshold(scores, truth)) == max(f1(value) for value in np.unique(scores.data))
    assert best_threshold(scores, sp.csr_matrix((60, 12), dtype=np.float32)) is None
    assert best_threshold(sp.csr_matrix((60, 12), dtype=np.float32), truth) is None


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_rows_without_known_features_get_the_prior(name, kind, tmp_path):
    clf = fitted(name, kind)
    strange = np.zeros((3, X.shape[1]), np.float32)
    strange[1, -1] = 4.0  # only a feature that training has never seen
    strange[2, X[TEST].indices[:3]] = 1.0
    frequent = np.argsort(-np.asarray(Y[TRAIN].sum(axis=0)).ravel(), kind="stable")[:5]
    rates = np.asarray(Y[TRAIN].mean(axis=0)).ravel()[frequent]
    if name == "ldsm" and kind is None:  # leaves hold shares of the label occurrences
        rates = rates / (Y[TRAIN].nnz / 500)
    for rows in (sp.csr_matrix(strange), strange):
        labels, scores = clf.predict_topk(rows, 5)
        assert labels[:2].tolist() == [frequent.tolist()] * 2
        assert labels[2].tolist() != frequent.tolist()
        if name == "gbdt-mo" and kind is None:
            scores = clf.predict_proba(rows)[:, frequent]
        np.testing.assert_allclose(scores[0], rates, rtol=1e-4)
        np.testing.assert_array_equal(scores[0], scores[1])
    clf.save(tmp_path / "m.safetensors")
    assert np.array_equal(
        sparseleaf.load(tmp_path / "m.safetensors").predict_topk(strange, 5)[0][:2], labels[:2]
    )


def test_dense_rows_of_zeros_are_rows_like_any_other():
    dense = SketchForestClassifier(n_trees=3, rerank=None).fit(X[TRAIN].toarray(), Y[TRAIN])
    assert dense.model_.empty is None


def test_empty_training_rows_count_more_than_others():
    labels = np.zeros((100, 3), np.float32)
    labels[:50, 0], labels[50:, 1] = 1, 1
    rows = np.zeros((100, 4), np.float32)
    rows[:80, 0] = 1
    empty = EmptyRows.fit(sp.csr_matrix(rows), sp.csr_matrix(labels))
    assert empty.labels.tolist() == [1, 0]
    assert empty.scores.tolist() == pytest.approx([(20 + 10 * 0.5) / 30, 10 * 0.5 / 30])
    assert empty.known.tolist() == [True, False, False, False]


def test_the_former_name_of_the_threshold_warns():
    clf = SparseGBDTClassifier(n_trees=2, projection=None).fit(X[TRAIN], Y[TRAIN])
    with pytest.warns(FutureWarning, match="renamed to 'threshold_'"):
        assert clf.score_threshold == clf.threshold_ == 0.5
