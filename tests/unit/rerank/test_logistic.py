"""Logistic regression on one input, against numpy and scikit-learn."""

import warnings

import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from sparseleaf import _kernels
from sparseleaf.rerank.logistic import fit_logistic


def made(seed, n, rate):
    rng = np.random.default_rng(seed)
    inputs = rng.normal(rng.normal() * 3, rng.choice([0.1, 1, 10]), n).astype(np.float32)
    slope = rng.choice([-2, 0.5, 3]) / inputs.std()
    truth = rng.random(n) < expit(slope * (inputs - inputs.mean()) + np.log(rate))
    return inputs, truth, rng.random(n)


def naive_sums(inputs, truth, weights, slope, intercept):
    x = inputs.astype(np.float64)
    z = slope * x + intercept
    error, hessian = weights * (expit(z) - truth), weights * expit(z) * expit(-z)
    parts = (
        weights * (np.logaddexp(0, z) - truth * z),
        error * x,
        error,
        hessian * x * x,
        hessian * x,
        hessian,
    )
    return [part.sum() for part in parts]


@pytest.mark.parametrize("weighted", [False, True])
def test_sums_are_those_of_numpy_and_the_same_for_any_number_of_threads(weighted):
    inputs, truth, weights = made(0, 20_000, 0.1)
    given, hits = weights if weighted else np.empty(0), truth.astype(np.uint8)
    for slope, intercept in ((0.0, 0.0), (0.7, -2.0), (-30.0, 400.0)):
        one, several = np.empty(6), np.empty(6)
        _kernels.logistic_sums(inputs, hits, given, slope, intercept, one, 1)
        _kernels.logistic_sums(inputs, hits, given, slope, intercept, several, 5)
        np.testing.assert_array_equal(one, several)
        wanted = naive_sums(inputs, truth, weights if weighted else 1.0, slope, intercept)
        np.testing.assert_allclose(one, wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(("n", "rate"), [(60, 0.5), (3_000, 0.5), (20_000, 0.01)])
def test_the_steps_are_those_of_scikit_learn(seed, n, rate):
    inputs, truth, weights = made(seed, n, rate)
    if truth.all() or not truth.any():
        return
    given = weights if seed % 2 else None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            oracle = LogisticRegression(solver="newton-cholesky").fit(
                inputs[:, None].astype(np.float64), truth.astype(np.float64), given
            )
        except Warning:
            pytest.skip("scikit-learn changes to another solver")
    wanted = oracle.coef_[0, 0], oracle.intercept_[0]
    assert fit_logistic(inputs, truth, given, 2) == pytest.approx(wanted, rel=1e-8, abs=1e-8)


def test_hopeless_data_has_finite_coefficients():
    for inputs in ([0, 0, 0, 0], [-1e30, 1e30, -1e30, 1e30], [1e-30, 0, 1e-30, 0], [-3e4, -2e4, 2e4, 3e4]):
        found = fit_logistic(np.array(inputs, np.float32), np.array([False, False, True, True]))
        assert np.isfinite(found).all()


def test_invalid_sizes_are_refused():
    inputs, truth, none, out = np.zeros(3, np.float32), np.zeros(3, np.uint8), np.empty(0), np.empty(6)
    with pytest.raises(ValueError, match="truth"):
        _kernels.logistic_sums(inputs, truth[:2], none, 0.0, 0.0, out, 1)
    with pytest.raises(ValueError, match="weights"):
        _kernels.logistic_sums(inputs, truth, np.ones(2), 0.0, 0.0, out, 1)
    with pytest.raises(ValueError, match="six"):
        _kernels.logistic_sums(inputs, truth, none, 0.0, 0.0, out[:5].copy(), 1)
