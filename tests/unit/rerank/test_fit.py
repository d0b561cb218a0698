"""Rows held out for the weight, and the weight chosen on them."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

from sparseleaf import LdSMClassifier, SketchForestClassifier, SparseGBDTClassifier
from sparseleaf.model import Role, Rows
from sparseleaf.model.threshold import best_threshold
from sparseleaf.rerank.centroids import WEIGHTS, CentroidReranker
from sparseleaf.rerank.crossfit import CrossFit
from sparseleaf.rerank.evidence import Evidence
from sparseleaf.rerank.fit import Reranking, all_but, held_out_rows, rows_to_hold_out
from sparseleaf.rerank.validation import Validation


def test_held_out_rows_are_a_tenth_and_the_seeds_own():
    assert len(held_out_rows(1000, 0)) == 100
    assert len(held_out_rows(10**6, 0)) == 4000
    assert len(held_out_rows(49, 0)) == 0
    assert not np.array_equal(held_out_rows(1000, 0), held_out_rows(1000, 1))
    assert np.array_equal(
        np.sort(np.concatenate([held_out_rows(99, 3), all_but(99, held_out_rows(99, 3))])), np.arange(99)
    )


@pytest.mark.parametrize(
    ("n_rows", "n_held_out"),
    [(49, 0), (100, 10), (3_745, 374), (3_750, 750), (5_000, 1_000), (9_000, 1_000), (12_000, 1_200), (10**6, 4_000)],
)  # fmt: skip
def test_a_larger_part_of_some_thousand_rows_is_held_out(n_rows, n_held_out):
    assert len(held_out_rows(n_rows, 0, preferred=1_000)) == n_held_out


@pytest.mark.parametrize(("classifier", "n_held_out"), [(SketchForestClassifier, 800), (LdSMClassifier, 400)])
def test_forests_tune_their_reranker_on_more_rows(classifier, n_held_out, monkeypatch):
    X, Y = (sp.vstack([part] * 5).tocsr()[:4_000] for part in make_tail())
    tuned = []

    def choose(self, trees, final, n_jobs):
        tuned.append(len(self.held_out))

    monkeypatch.setattr(Reranking, "choose", choose)
    classifier(n_trees=1, rerank="linear", calibrate=None).fit(X, Y)
    assert tuned == [n_held_out]


class Trees:
    """Trees that say what they are told."""

    def __init__(self, scores):
        self.scores = scores

    def candidates(self, X, k, n_trees, n_jobs):
        labels = np.tile(np.arange(self.scores.shape[1], dtype=np.int32), (X.shape[0], 1))
        return labels, self.scores


def chosen_weight(rerank, X, Y, scores):
    return rerank.tuned(Validation(X, Y, Trees(scores), 0, 1), None).weight


def test_weight_is_high_for_good_trees_and_low_for_good_centroids():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 8, 200)
    X, Y = np.eye(8, dtype=np.float32)[truth], sp.csr_matrix(np.eye(8, dtype=np.float32)[truth])
    noise = rng.random((200, 8)).astype(np.float32)
    rerank = CentroidReranker.fit(X, Y, "cosine", 0.5, None)
    assert chosen_weight(rerank, X, Y, noise) <= 0.5
    misleading = CentroidReranker.fit(X[rng.permutation(200)], Y, "cosine", 0.5, None)
    assert chosen_weight(misleading, X, Y, Y.toarray() + 0.1 * noise) == 1.0
    assert chosen_weight(rerank, X[:0], Y[:0], noise[:0]) == 0.5


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
    X, Y = X[np.diff(X.indptr) > 0], Y[np.diff(X.indptr) > 0]  # others get the prior
    clf = LdSMClassifier(n_trees=3, max_nodes=60, rerank="cosine", advanced={"rerank_weight": 0.2}).fit(X, Y)
    trees, mixed = clf.model_.tree_scores(X, None, 1), clf.decision_function(X)
    assert np.array_equal(trees.indices, mixed.indices)
    ids, scores = clf.predict_topk(X, 3)
    table = mixed.toarray()
    rows = np.arange(len(ids))[:, None]
    found = ids >= 0
    assert np.allclose(np.where(found, table[rows, ids], 0), np.where(found, scores, 0), atol=1e-6)


@pytest.mark.parametrize("classifier", [LdSMClassifier(n_trees=3), SketchForestClassifier(n_trees=3)])
def test_linear_models_learn_from_what_the_final_trees_propose(classifier):
    X, Y = make_tail()
    clf = classifier.set_params(rerank="linear").fit(X, Y)
    trees = clf.model_.with_stage(Role.RERANKER, None)
    expected = Evidence.fit(X, Y, trees, 0, 1).models
    found = clf.model_.rerank.evidence.models
    # nearly: it starts from the solution without the held-out rows
    found, expected = (models.weights.unpacked().toarray() for models in (found, expected))
    assert np.corrcoef(found.ravel(), expected.ravel())[0, 1] > 0.98


def test_a_label_of_held_out_rows_alone_has_negative_examples():
    """Its model must not be bias alone, which would put it on top of rows that have nothing to do with it."""
    X, Y = make_tail()
    Y = Y.tolil()
    held = held_out_rows(X.shape[0], 0)
    Y[:, 149] = 0
    Y[held[0], :] = 0
    Y[held[0], 149] = 1
    clf = SketchForestClassifier(n_trees=5, rerank="linear").fit(X, sp.csr_matrix(Y))
    reached = clf.model_.scorer.leaves(Rows(X, None, 1))
    beside = (reached @ reached[[held[0]]].T).toarray().ravel() > 0  # rows that share a leaf with it
    assert beside.sum() > 3
    assert clf.model_.rerank.evidence.models.bias[149] < 0


def test_more_rows_are_held_out_with_side_information():
    params = SimpleNamespace(rerank="boosted", rerank_weight="auto", calibrate=None)

    def held_out(side: bool):
        return rows_to_hold_out(params, 10**6, 0, has_validation=False, side=side)

    assert len(held_out(False)) == 4000
    assert len(held_out(True)) == 8000


def test_the_threshold_is_chosen_on_rows_to_which_the_reranker_was_not_fitted():
    """Labels without any relation to the rows: precision is by chance, as it will be on new rows."""
    rng = np.random.default_rng(0)
    X = sp.csr_matrix(rng.random((1_600, 20)) * (rng.random((1_600, 20)) < 0.3), dtype=np.float32)
    Y = sp.csr_matrix((np.ones(1_600, np.float32), rng.integers(0, 10, 1_600), np.arange(1_601)), (1_600, 10))
    clf = SketchForestClassifier(n_trees=3, rerank="boosted", random_state=0).fit(X[:800], Y[:800])
    assert clf.model_.rerank.kind == "boosted"
    assert clf.model_.validation["precision"][0] < 0.2
    clf.fit_rerank(X[:800], Y[:800], rerank="boosted", eval_set=(X[800:1_000], Y[800:1_000]))
    validation = Validation(X[800:1_000], Y[800:1_000], clf.model_.with_stage(Role.RERANKER, None), 0, 1)
    crossed = CrossFit.of(clf.model_.rerank, validation)
    for one, (rows, part, stage) in enumerate(crossed.halves):
        other = validation.rows(np.arange(200) % 2 != one)
        expected = clf.model_.rerank.retuned(other).scores(part.X, *part.found(stage.places), 1)
        assert abs(crossed.scores()[rows] - expected).max() == 0
        np.testing.assert_array_equal(
            crossed.topk(3)[1][rows], stage.topk(part.X, *part.found(stage.places), 3, 1)[1]
        )
    assert clf.threshold_ == best_threshold(crossed.scores(), Y[800:1_000])
    assert clf.threshold_ != best_threshold(clf.model_.scores(X[800:1_000], None, 1), Y[800:1_000])


def test_halves_of_so_few_rows_that_one_has_nothing_to_learn_from_keep_the_reranker():
    X, Y = make_tail()
    clf = SketchForestClassifier(n_trees=2, rerank="boosted", calibrate=None).fit(X[:400], Y[:400])
    no_label = sp.csr_matrix(Y.shape, dtype=np.float32)[:5]
    rows = sp.vstack([no_label, Y[400:405]]).tocsr()[
        [0, 5, 1, 6, 2, 7, 3, 8, 4, 9]
    ]  # halves without and with labels
    validation = Validation(X[400:410], rows, clf.model_.with_stage(Role.RERANKER, None), 0, 1)
    crossed = CrossFit.of(clf.model_.rerank, validation)
    assert {stage.kind for _, _, stage in crossed.halves} == {"boosted"}
