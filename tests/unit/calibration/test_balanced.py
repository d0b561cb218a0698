"""Thresholds that balance micro- and macro-averaged F1, against trying all of them."""

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import f1_score

from sparseleaf.calibration.balanced import GroupSums, Outcomes
from sparseleaf.calibration.thresholds import NEVER, choose_thresholds
from sparseleaf.model.candidates import true_candidates

GROUP = np.array([0, 0, 0, 0, 1, 1])


def make_rows(seed, n_rows=40):
    """Probabilities of four rare labels and two frequent ones, and truth; few values, many of them equal."""
    rng = np.random.default_rng(seed)
    p = rng.choice([0.05, 0.1, 0.2, 0.3], (n_rows, 6)) * np.where(GROUP == 1, 3, 1)
    truth = rng.random(p.shape) < p
    return sp.csr_matrix(p.astype(np.float32)), sp.csr_matrix(truth.astype(int))


def balance(Y, predicted):
    return np.prod(
        [f1_score(Y.toarray(), predicted, average=one, zero_division=0) for one in ("micro", "macro")]
    )


@pytest.mark.parametrize("seed", range(4))
def test_no_pair_of_thresholds_is_better(seed):
    scores, Y = make_rows(seed)
    chosen = choose_thresholds(
        scores, Y, "balanced-f1", per_label=False, on_probabilities=False, group=GROUP
    ).values
    assert chosen.shape == (6,)
    assert len(set(chosen[GROUP == 0])) == len(set(chosen[GROUP == 1])) == 1
    p = scores.toarray()
    candidates = np.unique(scores.data)
    best = max(balance(Y, p >= np.array(pair)[GROUP]) for pair in product(candidates, repeat=2))
    # each threshold is the best given the other: not always the best pair
    found = balance(Y, p >= chosen)
    alone = [balance(Y, p >= np.where(one == GROUP, value, chosen)) for one in (0, 1) for value in candidates]
    assert found == pytest.approx(max(alone))
    assert found >= 0.97 * best


def test_one_group_has_one_threshold():
    scores, Y = make_rows(5)
    chosen = choose_thresholds(scores, Y, "balanced-f1", per_label=False, on_probabilities=False).values
    assert chosen.shape == (1,)
    best = max(balance(Y, scores.toarray() >= value) for value in np.unique(scores.data))
    assert balance(Y, scores.toarray() >= chosen[0]) == pytest.approx(best)


def test_outcomes_of_rare_labels_are_mostly_probabilities():
    scores = sp.csr_matrix(np.array([[0.5, 0.2], [0.5, 0], [0, 0.4]], np.float32))
    Y = sp.csr_matrix(np.array([[1, 0], [0, 1], [0, 0]]))  # the label of the second row is not scored
    truth = true_candidates(scores.indptr, scores.indices, Y)
    outcomes = Outcomes.of(scores, truth, Y, on_probabilities=True)
    share = 1 / 11
    np.testing.assert_allclose(outcomes.share, [share, share])
    rest = 1 - share
    np.testing.assert_allclose(
        outcomes.hits, [share + rest * 0.5, rest * 0.2, rest * 0.5, rest * 0.4], rtol=1e-6
    )
    np.testing.assert_allclose(outcomes.n_true, [share + rest, rest * 0.6 + 1], rtol=1e-6)


def test_sums_are_of_labels_of_at_least_the_threshold():
    scores, Y = make_rows(1)
    truth = true_candidates(scores.indptr, scores.indices, Y)
    sums = GroupSums.of(Outcomes.of(scores, truth, Y, on_probabilities=False), GROUP)
    for step, threshold in enumerate(sums.thresholds):
        predicted = scores.toarray() >= threshold
        each = f1_score(Y.toarray(), predicted, average=None, zero_division=0)
        np.testing.assert_allclose(sums.predicted[step], np.bincount(GROUP, predicted.sum(axis=0)))
        np.testing.assert_allclose(sums.f1[step], np.bincount(GROUP, each))
        chosen = np.full(2, step)
        micro = f1_score(Y.toarray(), predicted, average="micro", zero_division=0)
        np.testing.assert_allclose(sums.averages(chosen), (micro, each.mean()))


def test_a_label_with_many_true_rows_departs_from_its_group():
    rng = np.random.default_rng(0)
    p = rng.random((2000, 2)).astype(np.float32)
    truth = np.column_stack((rng.random(2000) < p[:, 0], p[:, 1] > 0.9))  # the second is under- and overrated
    scores, Y = sp.csr_matrix(p), sp.csr_matrix(truth.astype(int))
    common, each = (
        choose_thresholds(scores, Y, "balanced-f1", per_label=per_label, on_probabilities=True).values
        for per_label in (False, True)
    )
    assert common.shape == (1,)
    assert each.shape == (2,)
    assert each[0] < common[0] < each[1]
    assert abs(each[1] - 0.9) < 0.05
    assert balance(Y, p >= each) > balance(Y, p >= common)


def test_nothing_true_predicts_nothing():
    scores = sp.csr_matrix(np.full((3, 6), 0.5, np.float32))
    chosen = choose_thresholds(
        scores, sp.csr_matrix((3, 6)), "balanced-f1", per_label=False, on_probabilities=True, group=GROUP
    )
    np.testing.assert_array_equal(chosen.values, np.full(6, NEVER))


@pytest.mark.parametrize("seed", range(3))
def test_sums_of_groups_are_those_of_every_threshold(seed):
    scores, Y = make_rows(seed, 400)
    truth = true_candidates(scores.indptr, scores.indices, Y)
    outcomes = Outcomes.of(scores, truth, Y, True)
    sums = GroupSums.of(outcomes, GROUP)
    assert len(np.unique(sums.thresholds)) == len(sums.thresholds)
    for step, threshold in enumerate(sums.thresholds):
        chosen = scores.data >= threshold
        labels = scores.indices[chosen]
        correct = np.bincount(labels, outcomes.hits[chosen], 6)
        predicted = np.bincount(labels, minlength=6)
        f1 = 2 * correct / (predicted + outcomes.n_true)
        for found, wanted in ((sums.correct, correct), (sums.predicted, predicted), (sums.f1, f1)):
            np.testing.assert_allclose(found[step], np.bincount(GROUP, wanted, 2), rtol=1e-12)
