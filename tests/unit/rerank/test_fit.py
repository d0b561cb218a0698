"""Rows held out for the weight, and the weight chosen on them."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from sparseleaf import LdSMClassifier, SparseGBDTClassifier
from sparseleaf.rerank.centroids import fit_centroids
from sparseleaf.rerank.fit import WEIGHTS, all_but, choose_weight, held_out_rows


def test_held_out_rows_are_a_tenth_and_the_seeds_own():
    assert len(held_out_rows(1000, 0)) == 100
    assert len(held_out_rows(10**6, 0)) == 4000
    assert len(held_out_rows(49, 0)) == 0
    assert not np.array_equal(held_out_rows(1000, 0), held_out_rows(1000, 1))
    assert np.array_equal(
        np.sort(np.concatenate([held_out_rows(99, 3), all_but(99, held_out_rows(99, 3))])), np.arange(99)
    )


class Trees:
    """Trees that say what they are told."""

    def __init__(self, scores):
        self.scores = scores

    def candidates(self, X, k, n_trees, n_jobs):
        labels = np.tile(np.arange(self.scores.shape[1], dtype=np.int32), (X.shape[0], 1))
        return labels, self.scores


def test_weight_is_high_for_good_trees_and_low_for_good_centroids():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 8, 200)
    X, Y = np.eye(8, dtype=np.float32)[truth], sp.csr_matrix(np.eye(8, dtype=np.float32)[truth])
    noise = rng.random((200, 8)).astype(np.float32)
    rerank = fit_centroids(X, Y, "cosine", 0.5, None)
    assert choose_weight(rerank, X, Y, Trees(noise), 1) <= 0.5
    misleading = fit_centroids(X[rng.permutation(200)], Y, "cosine", 0.5, None)
    assert choose_weight(misleading, X, Y, Trees(Y.toarray() + 0.1 * noise), 1) == 1.0
    assert choose_weight(rerank, X[:0], Y[:0], Trees(noise[:0]), 1) == 0.5


def make_tail(seed=0):
    """Many labels of few rows each, told apart by a few features: where centroids help."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 150, 900)
    own = rng.random((150, 80)) < 0.06
    X = (own[labels] & (rng.random((900, 80)) < 0.8)) | (rng.random((900, 80)) < 0.02)
    return sp.csr_matrix(X, dtype=np.float32), sp.csr_matrix(np.eye(150, dtype=np.float32)[labels])


def test_every_classifier_can_end_with_it():
    X, Y = make_tail()
    for classifier in (
        LdSMClassifier(n_trees=3, max_nodes=60),
        SparseGBDTClassifier(n_trees=5, projection=None, leaf_labels=30, max_depth=4),
    ):
        plain = classifier.fit(X[:700], Y[:700]).score(X[700:], Y[700:])
        classifier.set_params(rerank="log").fit(X[:700], Y[:700])
        assert classifier.rerank_weight_ in WEIGHTS
        assert classifier.rerank_weight_ < 1
        assert classifier.score(X[700:], Y[700:]) > plain + 0.1
        judged = classifier.fit(X[:700], Y[:700], eval_set=(X[700:], Y[700:]))
        assert judged.model_.n_train_rows == 700


def test_only_candidates_of_the_trees_are_scored():
    X, Y = make_tail()
    clf = LdSMClassifier(n_trees=3, max_nodes=60, rerank="cosine", rerank_weight=0.2).fit(X, Y)
    trees, mixed = clf.model_.tree_scores(X, None, 1), clf.decision_function(X)
    assert np.array_equal(trees.indices, mixed.indices)
    ids, scores = clf.predict_topk(X, 3)
    table = mixed.toarray()
    rows = np.arange(len(ids))[:, None]
    found = ids >= 0
    assert np.allclose(np.where(found, table[rows, ids], 0), np.where(found, scores, 0), atol=1e-6)
