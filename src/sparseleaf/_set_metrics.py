"""Metrics of predicted label sets, and of probabilities: part of :mod:`sparseleaf.metrics`.

Label matrices are sparse; no array of size rows × labels is allocated.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sparseleaf._label_checks import MatrixLike, SparseMatrix, as_array, check_labels, check_scores

AVERAGES = ("micro", "macro", "samples")
Counts = NDArray[np.float64]


def f1_score(Y_true: MatrixLike, Y_pred: MatrixLike, average: str = "micro") -> float:
    """F1 of predicted label sets: the harmonic mean of precision and recall, 2 TP / (2 TP + FP + FN).

    Parameters
    ----------
    Y_true : sparse matrix or array-like of 0 and 1, shape (n_rows, n_labels)
        True labels.
    Y_pred : sparse matrix or array-like of 0 and 1, shape (n_rows, n_labels)
        Predicted labels.
    average : {"micro", "macro", "samples"}, default="micro"
        Counts are summed over all labels ("micro"), or the score is averaged over labels ("macro") or rows ("samples").
        Labels or rows without true and predicted labels score 0.

    Returns
    -------
    score : float
        In [0, 1].

    Examples
    --------
    >>> from sparseleaf.metrics import f1_score
    >>> f1_score([[1, 0, 1], [0, 1, 0]], [[1, 1, 0], [0, 1, 0]])
    0.6666666666666666
    """
    both, predicted, true = _counts(Y_true, Y_pred, average)
    return _mean(2 * both, predicted + true)


def precision_score(Y_true: MatrixLike, Y_pred: MatrixLike, average: str = "micro") -> float:
    """Precision of predicted label sets: fraction of the predicted labels that are true.

    Parameters
    ----------
    Y_true, Y_pred, average
        As for `f1_score`.

    Returns
    -------
    score : float
        In [0, 1].

    Examples
    --------
    >>> from sparseleaf.metrics import precision_score
    >>> precision_score([[1, 0, 1], [0, 1, 0]], [[1, 1, 0], [0, 1, 0]])
    0.6666666666666666
    """
    both, predicted, _ = _counts(Y_true, Y_pred, average)
    return _mean(both, predicted)


def recall_score(Y_true: MatrixLike, Y_pred: MatrixLike, average: str = "micro") -> float:
    """Recall of predicted label sets: fraction of the true labels that are predicted.

    Parameters
    ----------
    Y_true, Y_pred, average
        As for `f1_score`.

    Returns
    -------
    score : float
        In [0, 1].

    Examples
    --------
    >>> from sparseleaf.metrics import recall_score
    >>> recall_score([[1, 0, 1], [0, 1, 0]], [[1, 1, 0], [0, 1, 0]], average="samples")
    0.75
    """
    both, _, true = _counts(Y_true, Y_pred, average)
    return _mean(both, true)


def brier_score(Y_true: MatrixLike, probabilities: MatrixLike) -> float:
    """Brier score: mean squared difference between probability and truth; lower is better.

    Parameters
    ----------
    Y_true : sparse matrix or array-like of 0 and 1, shape (n_rows, n_labels)
        True labels.
    probabilities : sparse matrix or array-like of float, shape (n_rows, n_labels)
        Probabilities in [0, 1], such as those of ``predict_proba``. The mean is over the stored entries of a sparse
        matrix, and over all entries of an array.

    Returns
    -------
    score : float
        In [0, 1]; 0 without entries.

    Examples
    --------
    >>> from sparseleaf.metrics import brier_score
    >>> brier_score([[1, 0]], [[0.5, 0.0]])
    0.125
    """
    p, truth = _pairs(Y_true, probabilities)
    return float(np.mean((p - truth) ** 2)) if len(p) else 0.0


def expected_calibration_error(Y_true: MatrixLike, probabilities: MatrixLike, n_bins: int = 15) -> float:
    """Expected calibration error: mean difference between probability and frequency over bins of equal width.

    Parameters
    ----------
    Y_true, probabilities
        As for `brier_score`. For the k best labels of each row use ``predict_proba(X, k)``.
    n_bins : int, default=15
        Number of bins of [0, 1].

    Returns
    -------
    error : float
        In [0, 1]; 0 if, in every bin, labels are true as often as their mean probability.

    Examples
    --------
    >>> from sparseleaf.metrics import expected_calibration_error
    >>> expected_calibration_error([[1, 0], [1, 0]], [[0.5, 0.5], [0.5, 0.5]])
    0.0
    """
    predicted, frequency, counts = reliability_curve(Y_true, probabilities, n_bins)
    return float((np.abs(predicted - frequency) * counts).sum() / max(1, counts.sum()))


def reliability_curve(
    Y_true: MatrixLike, probabilities: MatrixLike, n_bins: int = 15
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """Points of a reliability diagram: mean probability and frequency of true labels in bins of equal width.

    Parameters
    ----------
    Y_true, probabilities, n_bins
        As for `expected_calibration_error`.

    Returns
    -------
    predicted : ndarray of float64
        Mean probability in each bin that is not empty.
    frequency : ndarray of float64
        Fraction of true labels in it.
    counts : ndarray of int64
        Number of entries in it.

    Examples
    --------
    >>> from sparseleaf.metrics import reliability_curve
    >>> reliability_curve([[1, 0], [1, 0]], [[0.9, 0.1], [0.9, 0.1]], n_bins=2)
    (array([0.1, 0.9]), array([0., 1.]), array([2, 2]))
    """
    if isinstance(n_bins, bool) or not isinstance(n_bins, int | np.integer) or n_bins < 1:
        raise ValueError(f"The 'n_bins' parameter must be an int >= 1. Got {n_bins!r} instead.")
    p, truth = _pairs(Y_true, probabilities)
    bins = np.minimum((p * n_bins).astype(np.int64), n_bins - 1)
    counts = np.bincount(bins, minlength=n_bins)
    used = counts > 0
    means = [np.bincount(bins, values, minlength=n_bins)[used] / counts[used] for values in (p, truth)]
    return means[0], means[1], counts[used]


def _counts(Y_true: Any, Y_pred: Any, average: str) -> tuple[Counts, Counts, Counts]:
    """True positives, predicted and true labels: in all (one number), by label or by row."""
    if average not in AVERAGES:
        raise ValueError(
            f"The 'average' parameter must be one of {{{', '.join(map(repr, AVERAGES))}}}. Got {average!r} instead."
        )
    true, predicted = check_labels(Y_true, "Y_true"), check_labels(Y_pred, "Y_pred")
    if true.shape != predicted.shape:
        raise ValueError(
            f"The 'Y_pred' parameter must have shape {true.shape}, as Y_true. Got {predicted.shape} instead."
        )
    parts = (true.multiply(predicted).tocsr(), predicted, true)
    if average == "samples":
        return tuple(np.diff(part.indptr).astype(np.float64) for part in parts)
    by_label = [np.bincount(part.indices, minlength=part.shape[1]).astype(np.float64) for part in parts]
    if average == "micro":
        by_label = [counts.sum(keepdims=True) for counts in by_label]
    return tuple(by_label)  # type: ignore[return-value]


def _mean(numerator: Counts, denominator: Counts) -> float:
    return float(
        np.mean(np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0))
    )


def _pairs(Y_true: Any, probabilities: Any) -> tuple[Counts, Counts]:
    """Probabilities and truth, 0 or 1, of the entries."""
    true = check_labels(Y_true, "Y_true")
    matrix: SparseMatrix = (
        probabilities if sp.issparse(probabilities) else as_array(probabilities, "probabilities")
    )
    matrix = check_scores(matrix, "probabilities", true.shape)
    if not sp.issparse(matrix):
        p, truth = matrix.ravel(), true.toarray().ravel()
    else:
        ones = sp.csr_array((np.ones(matrix.nnz), matrix.indices, matrix.indptr), shape=matrix.shape)
        # entries of both in the order of the first: 1 + 1 where they meet
        marked = ones + true.multiply(ones)
        p, truth = matrix.data, marked.data - 1
    p = p.astype(np.float64)
    if ((p < 0) | (p > 1)).any():
        raise ValueError("The 'probabilities' parameter must have values in [0, 1].")
    return p, truth.astype(np.float64)
