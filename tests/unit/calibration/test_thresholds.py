"""Thresholds chosen on validation rows, against trying all of them."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import f1_score, precision_score

from sparseleaf.calibration.thresholds import NEVER, choose_thresholds, parse_target


def make_scores(n_rows=60, n_labels=8, *, seed=0):
    rng = np.random.default_rng(seed)
    p = np.round(rng.beta(0.4, 1.5, (n_rows, n_labels)), 2).astype(np.float32)
    truth = (rng.random(p.shape) < p).astype(int)
    return sp.csr_matrix(p), sp.csr_matrix(truth)


def predicted(scores, thresholds):
    values = thresholds if np.ndim(thresholds) == 0 or len(thresholds) > 1 else thresholds[0]
    return ((scores.toarray() >= values) & (scores.toarray() > 0)).astype(int)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("target", "average"), [("f1", "micro"), ("macro-f1", "macro")])
def test_a_common_threshold_has_the_highest_f1(seed, target, average):
    scores, Y = make_scores(seed=seed)
    chosen = choose_thresholds(scores, Y, target, per_label=False, on_probabilities=True)
    assert chosen.values.shape == (1,)

    def f1(threshold):
        return f1_score(Y.toarray(), predicted(scores, threshold), average=average, zero_division=0)

    best = max(f1(threshold) for threshold in np.unique(scores.data))
    assert f1(chosen.values) == pytest.approx(best)


def test_thresholds_of_each_label_have_the_highest_f1_of_the_label():
    scores, Y = make_scores(n_rows=400, n_labels=4)
    chosen = choose_thresholds(scores, Y, "f1", per_label=True, on_probabilities=False)
    for label in range(4):
        column, truth = scores[:, [label]].toarray(), Y[:, [label]].toarray()
        best = max(f1_score(truth, column >= t) for t in np.unique(column))
        assert f1_score(truth, column >= chosen.values[label]) == pytest.approx(best)


def test_a_wanted_precision_is_reached_with_as_many_labels_as_possible():
    scores, Y = make_scores(n_rows=300)
    chosen = choose_thresholds(scores, Y, "precision:0.7", per_label=False, on_probabilities=True)

    def precision(threshold):
        return precision_score(Y.toarray(), predicted(scores, threshold), average="micro", zero_division=0)

    assert precision(chosen.values) >= 0.7
    assert all(precision(t) < 0.7 for t in np.unique(scores.data[scores.data < chosen.values[0]]))


def test_a_precision_that_cannot_be_reached_predicts_nothing():
    scores = sp.csr_matrix(np.full((5, 2), 0.5, np.float32))
    Y = sp.csr_matrix(np.array([[1, 0]] * 5))
    chosen = choose_thresholds(scores, Y, "precision:0.9", per_label=False, on_probabilities=True)
    assert chosen.values[0] == NEVER
    by_label = choose_thresholds(scores, Y, "precision:0.9", per_label=True, on_probabilities=False)
    assert by_label.values.shape == (2,)


def test_labels_with_few_true_rows_share_a_threshold_or_rely_on_probabilities():
    scores, Y = make_scores(n_rows=400, n_labels=4)
    Y = Y.tolil()
    Y[3:, 1] = 0
    Y[:, 2] = 0
    Y = sp.csr_matrix(Y)
    plain = choose_thresholds(scores, Y, "f1", per_label=True, on_probabilities=False)
    common = choose_thresholds(scores, Y, "macro-f1", per_label=False, on_probabilities=False)
    assert plain.values[1] == plain.values[2] == common.values[0]
    with_probabilities = choose_thresholds(scores, Y, "f1", per_label=True, on_probabilities=True)
    assert ((with_probabilities.values > 0) & (with_probabilities.values < 1)).all()


def test_thresholds_of_labels_with_few_true_rows_are_close_to_the_common_one():
    scores, Y = make_scores(n_rows=400, n_labels=4)
    Y = Y.tolil()
    Y[20:, 1] = 0
    Y[:, 2] = 0
    Y = sp.csr_matrix(Y)
    common = choose_thresholds(scores, Y, "macro-f1", per_label=False, on_probabilities=True).values[0]
    chosen = choose_thresholds(scores, Y, "macro-f1", per_label=True, on_probabilities=True).values
    assert chosen[2] == common
    column, truth = scores[:, [1]].toarray().ravel(), Y[:, [1]].toarray().ravel()
    share = truth.sum() / (truth.sum() + 10)
    outcomes = share * truth + (1 - share) * column
    total = share * truth.sum() + (1 - share) * column.sum()
    f1 = {t: 2 * outcomes[column >= t].sum() / ((column >= t).sum() + total) for t in np.unique(column)}
    best = max((value, t) for t, value in f1.items() if t > 0)[1]
    assert chosen[1] == pytest.approx(best**share * common ** (1 - share), rel=1e-5)


def test_labels_never_scored_have_the_common_threshold():
    scores, Y = make_scores()
    wide = sp.csr_matrix((scores.data, scores.indices, scores.indptr), shape=(60, 12))
    truth = sp.csr_matrix((Y.data, Y.indices, Y.indptr), shape=(60, 14))  # with labels not seen in training
    chosen = choose_thresholds(wide, truth, "macro-f1", per_label=True, on_probabilities=True)
    common = choose_thresholds(wide, truth, "macro-f1", per_label=False, on_probabilities=True)
    assert chosen.values.shape == (12,)
    assert (chosen.values[8:] == common.values[0]).all()


@pytest.mark.parametrize("target", ["f1", "macro-f1", "precision:0.5"])
@pytest.mark.parametrize("per_label", [False, True])
def test_rows_without_scores_or_true_labels(target, per_label):
    empty = sp.csr_matrix((3, 2), dtype=np.float32)
    chosen = choose_thresholds(empty, empty, target, per_label=per_label, on_probabilities=True)
    assert np.isfinite(chosen.values).all()
    scored = sp.csr_matrix(np.full((3, 2), 0.2, np.float32))
    chosen = choose_thresholds(scored, empty, target, per_label=per_label, on_probabilities=False)
    assert np.isfinite(chosen.values).all()


@pytest.mark.parametrize(
    "target", ["f2", "precision:", "precision:1", "precision:0", "precision:x", 0.5, None]
)
def test_invalid_targets(target):
    with pytest.raises(ValueError, match="The 'target' parameter must be"):
        parse_target(target)
