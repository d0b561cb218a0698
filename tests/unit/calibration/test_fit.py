"""Fitting of calibrators: maps of groups against scikit-learn, groups, and sets with hardly any data."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

from sparseleaf.calibration import fit
from sparseleaf.calibration.fit import RankedLabels, fit_calibrator, fit_isotonic, fit_platt, merged_bins


def make_ranked(n_rows=400, n_labels=40, *, seed=0, skewed=True):
    """Scores that are probabilities squared, of labels of very different frequency."""
    rng = np.random.default_rng(seed)
    p = rng.beta(0.5, 2.0, (n_rows, n_labels)) * (np.linspace(1, 0.05, n_labels) if skewed else 1)
    truth = rng.random(p.shape) < p
    scores = (p**2).astype(np.float32)
    order = np.argsort(-scores, axis=1, kind="stable")
    counts = 1 + np.round(1000 * p.mean(axis=0)).astype(np.int64)
    ranked = RankedLabels.of(
        order.astype(np.int32), np.take_along_axis(scores, order, 1), sp.csr_matrix(truth.astype(np.float32))
    )
    return ranked, counts, np.take_along_axis(p, order, 1)


def probabilities(calibrator, ranked):
    n_rows, n = ranked.labels.shape
    starts = np.arange(n_rows + 1, dtype=np.int64) * n
    return calibrator.probabilities(starts, ranked.labels.ravel(), ranked.scores.ravel(), 1).reshape(
        n_rows, n
    )


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.floats(-2, 2, width=32), st.booleans()), min_size=1, max_size=40))
def test_isotonic_is_scikit_learns_with_one_true_and_one_false_label_at_the_ends(pairs):
    scores, truth = np.array([s for s, _ in pairs], np.float32), np.array([t for _, t in pairs])
    x, y = fit_isotonic(scores, truth)
    ends = np.concatenate(([scores.min()], scores, [scores.max()])), np.concatenate(([1], truth, [0]))
    oracle = IsotonicRegression(out_of_bounds="clip").fit(*ends)
    at = np.linspace(-3, 3, 61)
    np.testing.assert_allclose(np.interp(at, x, y), oracle.predict(at), atol=1e-6)
    assert (np.diff(x) >= 0).all()
    assert (np.diff(y) >= 0).all()
    assert ((y > 0) & (y < 1)).all()


@pytest.mark.parametrize("seed", range(5))
def test_platt_is_logistic_regression_on_plattss_targets(seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(scale=rng.choice([0.1, 1, 20]), size=300) + rng.normal()
    truth = rng.random(300) < 1 / (1 + np.exp(-(x - x.mean()) / x.std() * 2 - rng.normal()))
    slope, intercept = fit_platt(x, truth)
    positives, negatives = truth.sum(), (~truth).sum()
    high, low = (positives + 1) / (positives + 2), 1 / (negatives + 2)
    share = np.where(truth, high, low)
    oracle = LogisticRegression(C=1e12, tol=1e-10, max_iter=10_000)
    scale = x.std()
    oracle.fit(
        np.tile(x / scale, 2)[:, None],
        np.repeat([1, 0], 300),
        sample_weight=np.concatenate([share, 1 - share]),
    )
    assert slope == pytest.approx(oracle.coef_[0, 0] / scale, rel=1e-3)
    assert intercept == pytest.approx(oracle.intercept_[0], rel=1e-3, abs=1e-3)


@pytest.mark.parametrize(
    ("x", "truth"),
    [
        ([0.0, 1.0, 2.0], [False, False, False]),
        ([0.0, 1.0, 2.0], [True, True, True]),
        ([1.0, 1.0, 1.0], [True, False, True]),
        ([0.0, 1.0, 2.0, 3.0], [True, True, False, False]),
        ([0.0, 0.0, 1.0, 1.0], [False, False, True, True]),
        ([], []),
        ([5.0], [True]),
    ],
)
def test_platt_of_hardly_any_data_is_monotone_and_finite(x, truth):
    slope, intercept = fit_platt(np.array(x, float), np.array(truth, bool))
    assert slope >= 0
    assert np.isfinite([slope, intercept]).all()


def test_groups_have_enough_true_labels():
    positives = np.repeat(np.arange(8), [3, 120, 40, 70, 500, 20, 130, 10])
    groups = merged_bins(positives)
    assert (np.diff(groups) >= 0).all()
    for number in range(groups.max() + 1):
        assert (groups[positives] == number).sum() >= fit.GROUP_POSITIVES
    assert groups.max() == 4 - 1


@pytest.mark.parametrize("counts", [[], [5], [99], [50, 49]])
def test_few_true_labels_make_one_group(counts):
    assert merged_bins(np.repeat(np.arange(len(counts)), counts)).max() == 0


@pytest.mark.parametrize("method", ["isotonic", "platt", "auto"])
def test_calibrated_probabilities_are_close_to_the_true_ones(method):
    ranked, counts, _ = make_ranked()
    calibrator = fit_calibrator(method, ranked, counts, counts)
    new, _, p_new = make_ranked(seed=1)
    found = probabilities(calibrator, new)
    assert np.abs(found - p_new).mean() < 0.25 * np.abs(new.scores - p_new).mean()
    assert ((found > 0) & (found < 1)).all()
    assert (np.diff(found, axis=1) < 0).all()  # the ranking of every row


def test_labels_of_a_group_share_a_map():
    ranked, counts, _ = make_ranked()
    calibrator = fit_calibrator("isotonic", ranked, counts, counts)
    assert calibrator.n_groups > 1
    assert set(calibrator.group.tolist()) == set(range(calibrator.n_groups))
    by_count = calibrator.group[np.argsort(counts, kind="stable")]
    assert (np.diff(by_count.astype(int)) >= 0).all()


def test_labels_without_validation_rows_use_the_group_of_their_frequency():
    ranked, counts, _ = make_ranked()
    unseen = np.append(counts, [0, 1, counts.max()])
    calibrator = fit_calibrator("isotonic", ranked, np.append(counts, [0, 0, 0]), unseen)
    assert len(calibrator.group) == len(counts) + 3
    assert calibrator.group[-3] == calibrator.group[-2] == 0
    assert calibrator.group[-1] == calibrator.group.max()


@pytest.mark.parametrize("method", ["isotonic", "platt", "auto"])
@pytest.mark.parametrize("value", [False, True])
def test_labels_that_are_all_false_or_all_true(method, value):
    labels = np.tile(np.arange(3, dtype=np.int32), (20, 1))
    scores = np.tile(np.array([0.9, 0.5, 0.1], np.float32), (20, 1))
    ranked = RankedLabels(labels, scores, np.full(labels.shape, value))
    calibrator = fit_calibrator(method, ranked, np.full(3, 5), np.full(3, 5))
    found = probabilities(calibrator, ranked)
    assert (np.diff(found, axis=1) < 0).all()
    assert (found > 0.8).all() if value else (found < 0.2).all()


def test_one_row_with_one_label():
    ranked = RankedLabels(np.zeros((1, 1), np.int32), np.ones((1, 1), np.float32), np.ones((1, 1), bool))
    calibrator = fit_calibrator("auto", ranked, np.ones(1, int), np.ones(1, int))
    assert calibrator.kind == "platt"
    assert (
        fit_calibrator("auto", make_ranked(2_000)[0], np.ones(40, int), np.ones(40, int)).kind == "isotonic"
    )
    assert 0 < probabilities(calibrator, ranked)[0, 0] < 1


def test_rows_without_scored_labels_give_no_calibrator():
    labels = np.full((4, 3), -1, np.int32)
    ranked = RankedLabels(labels, np.full(labels.shape, -np.inf, np.float32), np.zeros(labels.shape, bool))
    assert fit_calibrator("auto", ranked, np.ones(3, int), np.ones(3, int)) is None


def test_scores_that_are_relative_to_the_row_are_calibrated_by_rank():
    """Every row has scores 1, 1/2, 1/3, …, whatever its probabilities."""
    rng = np.random.default_rng(0)
    p = np.tile(np.array([0.9, 0.5, 0.3, 0.2, 0.1, 0.05]), (600, 1)) * rng.uniform(0.5, 1, (600, 1))
    labels = rng.permuted(np.tile(np.arange(6, dtype=np.int32), (600, 1)), axis=1)
    scores = np.tile((1 / np.arange(1, 7)).astype(np.float32), (600, 1))
    ranked = RankedLabels(labels, scores, rng.random(p.shape) < p)
    calibrator = fit_calibrator("isotonic", ranked, np.full(6, 100), np.full(6, 100))
    assert calibrator.by_rank.n_curves > 1
    np.testing.assert_allclose(probabilities(calibrator, ranked).mean(axis=0), p.mean(axis=0), atol=0.04)
