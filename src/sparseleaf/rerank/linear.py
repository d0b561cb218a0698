"""A linear model for every label, trained only on the rows that the label is a candidate of.

In: unit rows, their labels, their candidates. Out: sparse weights and a bias for every label, whose margin tells a row
that has the label from rows that only look as if they had it. Positives are the rows with the label; negatives those
that trees or neighbours propose it for in error. Each label is a small support vector machine with squared hinge.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from sparseleaf import _kernels
from sparseleaf._arrays import csr_parts

if TYPE_CHECKING:
    from sparseleaf._arrays import Array

COST = 3.0
"""C: what a unit of squared loss costs."""

EPOCHS = 8
TOLERANCE = 0.1

PRUNE = 0.1
"""Weights smaller than this are dropped, as Parabel does."""

MOST_WEIGHTS = 1000
"""Weights that a label keeps, the largest."""

AGAIN = 2
"""Passes without the rows held out, on from the weights with them."""

NO_ROWS = -1.0
"""Bias of a label that no row has: as sure as a margin is that a row has it not."""


@dataclass(frozen=True)
class LinearModels:
    """Weights and biases of the labels.

    Attributes
    ----------
    weights : float32 CSR matrix, shape (n_labels, n_features)
    bias : float32 array, shape (n_labels,)
    """

    weights: sp.csr_matrix
    bias: Array

    def __getstate__(self) -> dict[str, Any]:
        # the compiled part is made again where it is needed
        return {name: value for name, value in vars(self).items() if name != "kernel"}

    @cached_property
    def kernel(self) -> _kernels.LabelVectors:
        """The compiled part; making it checks every index and number."""
        return _kernels.LabelVectors(*csr_parts(self.weights), self.weights.shape[1])

    def margins(self, rows: sp.csr_matrix, starts: Array, labels: Array, n_jobs: int) -> Array:
        """Margins of candidates; those of row i are ``labels[starts[i]:starts[i + 1]]``."""
        out = np.empty(len(labels), np.float32)
        self.kernel.products(*csr_parts(rows), starts, labels, out, n_jobs)
        return out + self.bias[labels]


@dataclass(frozen=True)
class LeftOut:
    """Margins of rows by models that have not seen them.

    Attributes
    ----------
    keys : int64 array, rising
        row · n_labels + label.
    margins : float32 array
    n_labels : int
    """

    keys: Array
    margins: Array
    n_labels: int

    def of(self, rows: Array, labels: Array) -> Array:
        """Margins of candidates; a label that no other row has is refused."""
        keys = rows.astype(np.int64) * self.n_labels + labels
        at = np.minimum(np.searchsorted(self.keys, keys), max(0, len(self.keys) - 1))
        known = self.keys[at] == keys if len(self.keys) else np.zeros(len(keys), bool)
        found = np.full(len(keys), NO_ROWS, np.float32)
        found[known] = self.margins[at[known]]
        return found


def fit_linear(
    rows: sp.csr_matrix, Y: sp.csr_matrix, starts: Array, labels: Array, held: Array, seed: int, n_jobs: int
) -> tuple[LinearModels, LeftOut]:
    """Train on unit rows whose candidates are ``labels[starts[i]:starts[i + 1]]``.

    The models are of all rows; what is left out are margins of the rows ``held``, by models without them.
    """
    counts = np.bincount(Y.indices, minlength=Y.shape[1])
    positive = counts > 0
    proposed = sp.csr_matrix((np.full(len(labels), -1, np.int8), labels, starts), shape=Y.shape)
    # candidates in error are -1, labels that were found 1, labels that were missed 2
    examples = sp.csc_matrix(proposed + 2 * sp.csr_matrix(Y, dtype=np.int8))
    sizes = np.where(positive, np.diff(examples.indptr), 0)  # a label without rows needs no model
    kept = np.repeat(positive, np.diff(examples.indptr))
    row, is_held = examples.indices[kept].astype(np.int32), np.zeros(rows.shape[0], np.uint8)
    is_held[held] = 1
    indptr, features, weights, bias, margins = _kernels.fit_linear(
        *csr_parts(rows),
        rows.shape[1],
        np.concatenate(([0], np.cumsum(sizes, dtype=np.int64))),
        row,
        np.where(examples.data[kept] > 0, 1, -1).astype(np.int8),
        COST,
        EPOCHS,
        TOLERANCE,
        PRUNE,
        MOST_WEIGHTS,
        is_held if len(held) else np.empty(0, np.uint8),
        AGAIN,
        seed,
        n_jobs,
    )
    matrix = sp.csr_matrix((weights, features, indptr), shape=(Y.shape[1], rows.shape[1]))
    models = LinearModels(matrix, np.where(positive, bias, np.float32(NO_ROWS)).astype(np.float32))
    judged = np.flatnonzero(is_held[row])
    label = np.repeat(np.arange(Y.shape[1]), sizes)[judged]
    others = counts - np.bincount(Y[held].indices, minlength=Y.shape[1])
    margins = np.where(others[label] > 0, margins, np.float32(NO_ROWS))
    keys = row[judged].astype(np.int64) * Y.shape[1] + label
    order = np.argsort(keys)
    return models, LeftOut(keys[order], margins[order], Y.shape[1])
