"""Metrics of label sets and of probabilities, against scikit-learn."""

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.metrics as oracle
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve

from sparseleaf import metrics


def pair(seed, shape=(20, 7), density=0.3):
    rng = np.random.default_rng(seed)
    return [(rng.random(shape) < density).astype(int) for _ in range(2)]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(["micro", "macro", "samples"]), st.booleans())
def test_label_sets_are_scored_as_by_scikit_learn(seed, average, sparse):
    rng = np.random.default_rng(seed)
    true, predicted = pair(seed, (int(rng.integers(1, 12)), int(rng.integers(2, 6))), rng.random())
    given_ = (sp.csr_matrix(true), sp.csc_matrix(predicted)) if sparse else (true.tolist(), predicted)
    for name in ("f1_score", "precision_score", "recall_score"):
        expected = getattr(oracle, name)(true, predicted, average=average, zero_division=0)
        assert getattr(metrics, name)(*given_, average) == pytest.approx(expected)


def test_brier_score_is_that_of_scikit_learn():
    rng = np.random.default_rng(0)
    true, _ = pair(0)
    p = rng.random(true.shape)
    expected = oracle.brier_score_loss(true.ravel(), p.ravel())
    assert metrics.brier_score(true, p) == pytest.approx(expected)
    assert metrics.brier_score(sp.csr_matrix(true), sp.csr_matrix(p)) == pytest.approx(expected)


def test_only_stored_entries_of_a_sparse_matrix_count():
    p = sp.csr_matrix(([0.5, 0.9, 0.1], [2, 0, 1], [0, 1, 3]), shape=(2, 3))
    true = [[1, 0, 1], [1, 0, 0]]
    assert metrics.brier_score(true, p) == pytest.approx((0.25 + 0.01 + 0.01) / 3)
    predicted, frequency, counts = metrics.reliability_curve(true, p, n_bins=2)
    np.testing.assert_allclose(predicted, [0.1, 0.7])
    np.testing.assert_allclose(frequency, [0, 1])
    assert counts.tolist() == [1, 2]


def test_reliability_curve_is_that_of_scikit_learn():
    rng = np.random.default_rng(1)
    p = rng.random((200, 5))
    true = (rng.random(p.shape) < p**2).astype(int)
    frequency, predicted = calibration_curve(true.ravel(), p.ravel(), n_bins=10)
    ours = metrics.reliability_curve(true, p, n_bins=10)
    np.testing.assert_allclose(ours[0], predicted)
    np.testing.assert_allclose(ours[1], frequency)
    error = (np.abs(predicted - frequency) * ours[2]).sum() / 1000
    assert metrics.expected_calibration_error(true, p, n_bins=10) == pytest.approx(error)


def test_probabilities_of_0_and_1_and_no_entries():
    assert metrics.expected_calibration_error([[1, 0]], [[1.0, 0.0]]) == 0
    empty = sp.csr_matrix((1, 2), dtype=np.float32)
    assert metrics.expected_calibration_error([[1, 0]], empty) == 0
    assert metrics.brier_score([[1, 0]], empty) == 0


def test_invalid_arguments():
    true = [[1, 0], [0, 1]]
    with pytest.raises(ValueError, match="The 'average' parameter must be one of"):
        metrics.f1_score(true, true, "weighted")
    with pytest.raises(ValueError, match=r"The 'Y_pred' parameter must have shape \(2, 2\)"):
        metrics.f1_score(true, [[1, 0, 0], [0, 1, 0]])
    with pytest.raises(ValueError, match="must have values 0 and 1 only"):
        metrics.f1_score(true, [[2, 0], [0, 1]])
    with pytest.raises(ValueError, match=r"must have values in \[0, 1\]"):
        metrics.brier_score(true, [[0.1, 1.2], [0, 0]])
    with pytest.raises(ValueError, match="must not contain NaN"):
        metrics.brier_score(true, [[0.1, np.nan], [0, 0]])
    with pytest.raises(ValueError, match="The 'n_bins' parameter must be an int >= 1"):
        metrics.expected_calibration_error(true, [[0.1, 0.2], [0, 0]], n_bins=0)
