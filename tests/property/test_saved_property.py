"""What was evaluated is what is loaded: files predict, to the bit, what the fitted estimator does."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import sparseleaf
from sparseleaf import (
    BlendClassifier,
    GBDTRanker,
    LdSMClassifier,
    MultiGBDTClassifier,
    MultiGBDTRegressor,
    SketchForestClassifier,
    SparseGBDTClassifier,
)
from sparseleaf.model.registry import kinds_of
from sparseleaf.model.stage import Role

FOREST = SketchForestClassifier(n_trees=2, n_jobs=1)
LDSM = LdSMClassifier(n_trees=2, max_nodes=12, n_jobs=1)
SPARSE = SparseGBDTClassifier(n_trees=3, n_jobs=1)
TREES = {
    "forest": FOREST,
    "ldsm": LDSM,
    "ldsm of 3": LDSM.__class__(n_trees=2, arity=3, max_nodes=13),
    "gbdt": SPARSE,
}


def make(seed, n=90, d=8, k=6):
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.6)).astype(np.float32)
    X *= np.float32(10.0 ** rng.integers(-2, 3))
    Y = sp.csr_matrix(X @ rng.normal(size=(d, k)) > np.abs(X).max() / 3, dtype=np.float32)
    return sp.csr_matrix(X), Y


def check(estimator, X, *methods):
    with tempfile.TemporaryDirectory() as folder:
        for compact in (True, False):
            path = Path(folder) / f"{compact}.safetensors"
            estimator.save(path, compact=compact)
            loaded = sparseleaf.load(path)
            for method in methods:
                found, wanted = getattr(loaded, method)(X), getattr(estimator, method)(X)
                if sp.issparse(wanted):
                    found, wanted = found.toarray(), wanted.toarray()
                for a, b in zip(found, wanted, strict=True):
                    np.testing.assert_array_equal(a, b)
            again = Path(folder) / "again.safetensors"
            loaded.save(again, compact=compact)
            assert again.read_bytes() == path.read_bytes()


@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize("kind", [None, *kinds_of(Role.RERANKER)])
@settings(max_examples=1, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_classifiers_with_every_stage(name, kind, seed):
    X, Y = make(seed)
    clf = TREES[name].set_params(rerank=kind).fit(X, Y)
    check(clf, X, "predict_topk", "decision_function", "predict")


@pytest.mark.parametrize("kind", kinds_of(Role.RERANKER))
@settings(max_examples=1, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_stages_that_are_added_later(kind, seed):
    X, Y = make(seed)
    dense = MultiGBDTClassifier(n_trees=2, n_jobs=1).fit(X[:60].toarray(), Y[:60].toarray())
    for clf in (FOREST.set_params(rerank=None).fit(X[:60], Y[:60]), dense):
        rows = X if clf is not dense else X.toarray()
        truth = Y if clf is not dense else Y.toarray()
        clf.fit_rerank(rows[:60], truth[:60], rerank=kind, eval_set=(rows[60:], truth[60:]))
        check(clf, rows, "predict_topk")


@settings(max_examples=2, deadline=None)
@given(st.integers(0, 2**32 - 1), st.permutations([None, *kinds_of(Role.RERANKER)]))
def test_blends(seed, kinds):
    X, Y = make(seed)
    members = [
        FOREST.set_params(rerank=kinds[0]),
        LDSM.set_params(rerank=kinds[1]),
        SPARSE.set_params(rerank=kinds[2]),
    ]
    check(BlendClassifier(members).fit(X, Y), X, "predict_topk", "decision_function")


@settings(max_examples=2, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_dense_scores(seed):
    X, Y = make(seed)
    X, Y = X.toarray(), Y.toarray()
    check(MultiGBDTClassifier(n_trees=3, n_jobs=1).fit(X, Y), X, "predict_proba")
    check(MultiGBDTClassifier(n_trees=3, n_jobs=1, leaf_labels=2).fit(X, Y), X, "predict_proba")
    units = X[:, :3] * np.float32([1e6, 1, 1e-6])  # outputs in very different units
    regressor = MultiGBDTRegressor(n_trees=30, learning_rate=0.5, n_jobs=1).fit(X, units)
    check(regressor, X, "predict")
    assert min(np.corrcoef(regressor.predict(X)[:, j], units[:, j])[0, 1] for j in range(3)) > 0.3
    group = np.full(len(X) // 10, 10)
    check(GBDTRanker(n_trees=3, n_jobs=1).fit(X, np.arange(len(X)) % 3, group=group), X, "predict")
