"""Centroids and the three mixes, against their formulas in numpy."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp

from sparseleaf import _kernels
from sparseleaf._vectors import PackedVectors
from sparseleaf.rerank import centroids as module
from sparseleaf.rerank.centroids import MIXES, CentroidReranker


def make_set(n=60, d=15, n_labels=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.random((n, d)) * (rng.random((n, d)) < 0.4)
    Y = (rng.random((n, n_labels)) < 0.3).astype(np.float32)
    return X.astype(np.float32), Y


def formula(mix, t, x, mu, beta, gamma):
    if mix == "centroid":
        return beta * t + (1 - beta) / (1 + np.exp(gamma * ((x - mu) ** 2).sum() / 2))
    cosine = x @ mu / np.sqrt((x @ x) * (mu @ mu)) if x.any() and mu.any() else 0.0
    if mix == "cosine":
        return beta * t + (1 - beta) * cosine
    return np.exp(beta * np.log(max(t, 1e-6)) + (1 - beta) * gamma * (cosine - 1))


@pytest.mark.parametrize("mix", MIXES)
def test_scores_are_the_formulas(mix):
    X, Y = make_set()
    X[0] = 0
    rerank = CentroidReranker.fit(sp.csr_matrix(X), sp.csr_matrix(Y), mix, 0.3, 2.0)
    units = X / np.maximum(1e-30, np.linalg.norm(X, axis=1, keepdims=True))
    rows = X if mix == "centroid" else units
    means = np.stack([rows[Y[:, k] > 0].mean(axis=0) for k in range(Y.shape[1])])
    labels = np.tile(np.array([4, 0, -1, 2], np.int32), (len(X), 1))
    t = np.random.default_rng(1).random(labels.shape).astype(np.float32)
    found = rerank.rescored(X, np.arange(len(X) + 1) * 4, labels, t, 2).reshape(labels.shape)
    for i, x in enumerate(X):
        for j, k in enumerate(labels[i]):
            wanted = t[i, j] if k < 0 else formula(mix, t[i, j], x, means[k], 0.3, 2.0)
            assert found[i, j] == pytest.approx(wanted, abs=5e-3)  # centroids are in 8 bits


@pytest.mark.parametrize("mix", MIXES)
def test_weight_one_keeps_the_trees_order(mix):
    X, Y = make_set()
    rerank = CentroidReranker.fit(X, sp.csr_matrix(Y), mix, 1.0, None)
    t = np.random.default_rng(1).random((len(X), 6)).astype(np.float32)
    labels = np.tile(np.arange(6, dtype=np.int32), (len(X), 1))
    ids, scores = rerank.topk(X, labels, t, 3, 1)
    assert np.array_equal(ids, np.argsort(-t, axis=1)[:, :3])
    assert scores == pytest.approx(-np.sort(-t, axis=1)[:, :3])


def test_topk_keeps_holes_at_the_end_and_ties_go_to_the_lower_label():
    X, Y = make_set()
    rerank = CentroidReranker.fit(X, sp.csr_matrix(Y), "cosine", 1.0, None)
    labels = np.array([[5, 2, 3, -1, -1]], np.int32)
    t = np.array([[0.5, 0.5, 0.9, -np.inf, -np.inf]], np.float32)
    ids, scores = rerank.topk(X[:1], labels, t, 4, 1)
    assert ids.tolist() == [[3, 2, 5, -1]]
    assert scores[0, 3] == -np.inf


def test_centroids_are_cut_to_their_largest_entries(monkeypatch):
    X, Y = make_set(d=30)
    full = CentroidReranker.fit(X, sp.csr_matrix(Y), "centroid", 0.5, None)
    monkeypatch.setattr(module, "CENTROID_FEATURES", 4)
    monkeypatch.setattr(module, "BLOCK_LABELS", 2)
    cut = CentroidReranker.fit(X, sp.csr_matrix(Y), "centroid", 0.5, None)
    assert np.diff(cut.centroids.indptr).tolist() == [4] * 6
    for row, whole in zip(
        cut.centroids.unpacked().toarray(), full.centroids.unpacked().toarray(), strict=True
    ):
        assert np.sort(row)[-4:] == pytest.approx(np.sort(whole)[-4:])
    assert cut.squared_norms == pytest.approx(full.squared_norms)


def test_labels_without_rows_and_rows_without_features():
    X, Y = make_set()
    Y[:, 2] = 0
    rerank = CentroidReranker.fit(X, sp.csr_matrix(Y), "log", 0.5, None)
    labels = np.full((2, 1), 2, np.int32)
    zero = np.zeros((2, 15), np.float32)
    assert np.isfinite(rerank.rescored(zero, np.arange(3), labels, np.ones(2), 1)).all()


@pytest.mark.parametrize("mix", MIXES)
def test_huge_rows_give_finite_scores(mix):
    X, Y = make_set()
    rerank = CentroidReranker.fit(X, sp.csr_matrix(Y), mix, 0.5, None)
    huge = np.full((1, 15), 3e38, np.float32)
    assert np.isfinite(rerank.rescored(huge, np.array([0, 1]), np.array([[1]]), np.ones(1), 1)).all()


def test_threads_do_not_matter_and_it_can_be_pickled():
    X, Y = make_set(n=2000)
    rerank = CentroidReranker.fit(X, sp.csr_matrix(Y), "log", 0.5, None)
    labels = np.tile(np.arange(6, dtype=np.int32), (len(X), 1))
    t = np.random.default_rng(1).random(labels.shape).astype(np.float32)
    one = rerank.topk(X, labels, t, 6, 1)
    other = pickle.loads(pickle.dumps(rerank)).topk(X, labels, t, 6, 3)
    assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_bad_arrays_are_refused():
    vectors = PackedVectors.of(sp.csr_matrix(np.eye(4, dtype=np.float32)[3:])).kernel
    norms = np.ones(1, np.float32)
    for bad in (-norms, norms * np.nan, np.ones(2, np.float32)):
        with pytest.raises(ValueError, match="norm"):
            _kernels.CentroidReranker(vectors, bad)
    kernel = _kernels.CentroidReranker(vectors, norms)
    row = np.array([0, 0]), np.empty(0, np.int32), np.empty(0, np.float32)
    with pytest.raises(ValueError, match="no such label"):
        kernel.rescore(
            *row, np.array([0, 1]), np.array([1], np.int32), np.ones(1, np.float32), 0, 0.5, 1.0, 1
        )
