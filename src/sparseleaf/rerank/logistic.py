"""Logistic regression on one input, by Newton's method with all threads.

The steps are those of scikit-learn's ``LogisticRegression(solver="newton-cholesky")``, which takes several passes on
one thread for each of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sparseleaf import _kernels

if TYPE_CHECKING:
    from sparseleaf._arrays import Array

TOLERANCE = 1e-4
"""Of the largest gradient, and of half the squared Newton decrement."""

MAX_STEPS = 100
MAX_HALVINGS = 20

SUFFICIENT = 2.0**-11
"""Fraction of the decrease expected from the gradient that a step must reach (Armijo's condition)."""

ROUNDING = 16 * float(np.finfo(np.float64).eps)
"""Relative change of the loss that may be a rounding error."""


@dataclass(frozen=True)
class _Point:
    """Mean loss with the penalty, its gradient (2) and its hessian (2, 2), at coefficients (slope, intercept)."""

    coefficients: Array
    loss: float
    gradient: Array
    hessian: Array


def fit_logistic(
    inputs: Array, truth: Array, weights: Array | None = None, n_jobs: int = 1
) -> tuple[float, float]:
    """Slope and intercept of lowest Σ weight · log loss + slope² / 2.

    Parameters
    ----------
    inputs : float32 array, shape (n,)
    truth : bool array, shape (n,)
    weights : array, shape (n,), or None
        None if all are 1.
    n_jobs : int
    """
    inputs = np.ascontiguousarray(inputs, np.float32)
    hits = np.ascontiguousarray(truth, np.uint8)
    of_rows = np.empty(0) if weights is None else np.ascontiguousarray(weights, np.float64)
    total = float(len(inputs) if weights is None else of_rows.sum())

    def at(coefficients: Array) -> _Point:
        sums = np.empty(6)
        slope, intercept = coefficients.tolist()
        _kernels.logistic_sums(inputs, hits, of_rows, slope, intercept, sums, n_jobs)
        sums += [slope**2 / 2, slope, 0, 1, 0, 0]
        means = sums / total
        return _Point(coefficients, float(means[0]), means[1:3], means[[3, 4, 4, 5]].reshape(2, 2))

    point = at(np.zeros(2))
    for _ in range(MAX_STEPS):
        (a, b), (_, c) = point.hessian.tolist()
        g, h = point.gradient.tolist()
        if not a * c > b * b:  # the hessian is singular in float64
            break
        newton = np.array([b * h - c * g, b * g - a * h]) / (a * c - b * b)
        expected = float(point.gradient @ newton)
        for halving in range(MAX_HALVINGS + 1):
            step = 0.5**halving
            tried = at(point.coefficients + step * newton)
            gained = tried.loss - point.loss
            if gained <= SUFFICIENT * step * expected or (
                abs(gained) <= ROUNDING * abs(point.loss)
                and np.abs(tried.gradient).sum() < np.abs(point.gradient).sum()
            ):
                break
        else:
            break
        decrement = float(newton @ point.hessian @ newton)
        point = tried
        if np.abs(point.gradient).max() <= TOLERANCE and decrement / 2 <= TOLERANCE:
            break
    slope, intercept = point.coefficients.tolist()
    return slope, intercept
