"""Weights of training rows and of labels: the ``sample_weight`` argument and the ``class_weight`` parameter.

A label of a row counts as the weight of the row times the weight of the label. With one class per row this is the
weight of the row, as in scikit-learn; with several labels per row, rows without the label keep the weight of the row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_array

from sparseleaf.data.checks import check_values

if TYPE_CHECKING:
    from sparseleaf._arrays import Array

BALANCED = "balanced"


@dataclass(frozen=True)
class TrainingWeights:
    """Weights of some training rows and of all labels.

    Attributes
    ----------
    rows : float32 array, shape (n_rows,), or None
        None if all are 1.
    labels : float32 array, shape (n_labels,), or None
        Weights of the labels of a row, None if all are 1 or if they are part of the weights of the rows.
    """

    rows: Array | None = None
    labels: Array | None = None

    def take(self, which: Any) -> TrainingWeights:
        """Weights of some of the rows."""
        return self if self.rows is None else TrainingWeights(self.rows[which], self.labels)

    def total(self, n_rows: int) -> float:
        """Σ weights of the rows."""
        return float(n_rows) if self.rows is None else float(self.rows.sum(dtype=np.float64))

    def weighted(self, matrix: sp.csr_matrix) -> sp.csr_matrix:
        """The rows of a matrix times their weights, float64; the matrix itself if all weights are 1."""
        if self.rows is None:
            return matrix
        data = matrix.data * np.repeat(self.rows.astype(np.float64), np.diff(matrix.indptr))
        return sp.csr_matrix((data, matrix.indices, matrix.indptr), shape=matrix.shape)

    def counts(self, matrix: sp.csr_matrix) -> Array:
        """Σ weights of the rows with a stored entry in each column: int64, or float64 with weights."""
        if self.rows is None:
            return np.bincount(matrix.indices, minlength=matrix.shape[1])
        weights = np.repeat(self.rows.astype(np.float64), np.diff(matrix.indptr))
        return np.bincount(matrix.indices, weights=weights, minlength=matrix.shape[1])

    def frequencies(self, counts: Array, total: Array | float, labels: Any = slice(None)) -> Array:
        """Frequencies of labels with these weighted counts among rows of this total weight, label weights included.

        With weight c, count P and total W this is cP / (cP + W - P): the probability that minimises the weighted loss.
        """
        if self.labels is None:
            return np.asarray(counts / total)
        positive = self.labels[labels].astype(np.float64) * counts
        return np.asarray(positive / (positive + np.maximum(total - counts, 0)))

    def of_rows(self, Y: sp.csr_matrix) -> Array | None:
        """A weight per row for metrics: of the row, times the mean weight of its labels; None if all are 1."""
        if self.labels is None:
            return self.rows
        weights = np.ones(
            max(Y.shape[1], len(self.labels))
        )  # labels that are not in the training set have weight 1
        weights[: len(self.labels)] = self.labels
        sizes = np.diff(Y.indptr)
        row = np.repeat(np.arange(Y.shape[0]), sizes)
        sums = np.bincount(row, weights=weights[Y.indices], minlength=Y.shape[0])
        means = np.where(sizes > 0, sums / np.maximum(sizes, 1), 1.0)
        return (means if self.rows is None else means * self.rows).astype(np.float32)


NO_WEIGHTS = TrainingWeights()


def check_sample_weight(sample_weight: Any, n_rows: int) -> Array | None:
    """Validate ``sample_weight``: float32 (n_rows,), or None."""
    if sample_weight is None:
        return None
    if isinstance(sample_weight, int | float):
        sample_weight = np.full(n_rows, sample_weight)
    check_values(sample_weight, "sample_weight")
    weights: Array = check_array(
        sample_weight, dtype=np.float32, ensure_2d=False, order="C", input_name="sample_weight"
    )
    if weights.shape != (n_rows,):
        raise ValueError(
            f"The 'sample_weight' parameter must have shape ({n_rows},), one weight per row. Got {weights.shape}"
            " instead."
        )
    if weights.min() < 0 or not weights.any():
        raise ValueError("The 'sample_weight' parameter must be non-negative and not all zero.")
    return weights


def label_weights(class_weight: Any, names: Array | None, counts: Array) -> Array | None:
    """Weight of every label, float32, by the ``class_weight`` parameter; None if all are 1.

    Parameters
    ----------
    class_weight : "balanced", mapping, array-like or None
    names : array or None
        Names of the labels; without, their numbers.
    counts : array, shape (n_labels,)
        Σ weights of the rows with each label, for "balanced".
    """
    if class_weight is None:
        return None
    n_labels = len(counts)
    if isinstance(class_weight, str):  # the only valid one
        seen = counts > 0
        weights = np.ones(n_labels)
        weights[seen] = counts.sum() / (seen.sum() * counts[seen].astype(np.float64))
    elif isinstance(class_weight, Mapping):
        weights = _by_name(class_weight, names, n_labels)
    else:
        weights = _numbers(class_weight)
        if weights.shape != (n_labels,):
            raise ValueError(
                f"The 'class_weight' parameter must have {n_labels} weights, one per label. Got shape {weights.shape}"
                " instead."
            )
    with np.errstate(over="ignore"):
        narrow: Array = weights.astype(np.float32)
    wrong = ~((narrow > 0) & np.isfinite(narrow))
    if wrong.any():
        raise ValueError(
            "The 'class_weight' parameter must have finite positive weights. Got"
            f" {weights[wrong][0]:g} instead; to leave out rows, use sample_weight."
        )
    return None if (narrow == 1).all() else narrow


def _by_name(class_weight: Mapping[Any, Any], names: Array | None, n_labels: int) -> Array:
    """Labels that are not in the mapping have weight 1; its other keys are ignored, as labels may be in other rows."""
    known = range(n_labels) if names is None else names.tolist()
    place = {name: number for number, name in enumerate(known)}
    # model files have keys of type str
    place |= {str(name): number for name, number in place.items() if not isinstance(name, str)}
    weights = np.ones(n_labels)
    by_place = {place[name]: weight for name, weight in class_weight.items() if name in place}
    if class_weight and not by_place:
        raise ValueError(
            f"The 'class_weight' parameter must have labels of y as keys. Got {next(iter(class_weight))!r} instead."
        )
    weights[list(by_place)] = _numbers(list(by_place.values()))
    return weights


def _numbers(weights: Any) -> Array:
    try:
        return np.asarray(weights, np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"The 'class_weight' parameter must have numbers as weights. Got {weights!r:.80} instead."
        ) from None
