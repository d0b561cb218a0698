"""Votes of the nearest training rows, mixed into the scores of routed trees.

On text with a long tail of labels the rows nearest to one, by angle, know labels that no leaf has; trees know what
labels have in common. Rows are found by ``cpp/neighbours.cpp``, over lists of the rows that have a feature.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from sparseleaf import _kernels
from sparseleaf._arrays import csr_parts, largest_entries
from sparseleaf.metrics import precision_at_k
from sparseleaf.model.steps import quantise

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features

POWER = 3.0
"""A row's vote is its cosine to this power."""

WEIGHTS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
DEFAULT_WEIGHT = 0.5
CANDIDATES = 100
"""Labels of a row that count when the weight is chosen."""
LARGEST_VALUE = 2**7 - 1


@dataclass(frozen=True)
class NeighbourVotes:
    """Training rows and how they vote.

    Attributes
    ----------
    rows : int8 CSR matrix, shape (n_rows, n_features)
        As routers see them, weighted and of length 1, to be multiplied by ``scale``.
    scale : float32 array, shape (n_rows,)
    labels : CSR matrix of ones, shape (n_rows, n_labels)
    feature_weights : float32 array, shape (n_features,), or empty
    n_neighbours : int
        Rows that vote.
    weight : float
        Share of the trees in the mix: 1 is the trees alone.
    """

    rows: sp.csr_matrix
    scale: Array
    labels: sp.csr_matrix
    feature_weights: Array
    n_neighbours: int
    weight: float

    def __getstate__(self) -> dict[str, Any]:
        # the compiled part is made again where it is needed
        return {name: value for name, value in vars(self).items() if name != "kernel"}

    @cached_property
    def kernel(self) -> _kernels.NeighbourIndex:
        """The compiled part; making it checks every index and number."""
        return _kernels.NeighbourIndex(
            np.ascontiguousarray(self.rows.indptr, np.int64),
            np.ascontiguousarray(self.rows.indices, np.int32),
            np.ascontiguousarray(self.rows.data, np.int8),
            self.scale,
            np.ascontiguousarray(self.labels.indptr, np.int64),
            np.ascontiguousarray(self.labels.indices, np.int32),
            self.feature_weights,
            True,
            self.rows.shape[1],
            self.labels.shape[1],
        )

    def topk(self, X: sp.csr_matrix, trees: sp.csr_matrix, k: int, n_jobs: int) -> tuple[Array, Array]:
        """The k best labels of every row, best first: ids and scores, both (n_rows, k)."""
        labels, scores = np.empty((X.shape[0], k), np.int32), np.empty((X.shape[0], k), np.float32)
        self.kernel.topk(
            *csr_parts(X), *csr_parts(trees), self.n_neighbours, POWER, self.weight, labels, scores, n_jobs
        )
        return labels, scores

    def scores(self, X: sp.csr_matrix, trees: sp.csr_matrix, n_jobs: int) -> sp.csr_matrix:
        """Scores of the mix, for scores of the trees."""
        indptr, labels, values = self.kernel.scores(
            *csr_parts(X), *csr_parts(trees), self.n_neighbours, POWER, self.weight, n_jobs
        )
        return sp.csr_matrix((values, labels, indptr), shape=trees.shape)


def fit_neighbours(
    X: sp.csr_matrix, Y: sp.csr_matrix, feature_weights: Array, n_neighbours: int, weight: float
) -> NeighbourVotes:
    """Keep the rows, in 8 bits."""
    values = X.data * feature_weights[X.indices] if len(feature_weights) else X.data
    row = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    length = np.sqrt(np.bincount(row, np.square(values, dtype=np.float64), minlength=X.shape[0]))
    inverse = np.divide(1, length, out=np.zeros_like(length), where=length > 0)
    whole, scale = quantise((values * inverse[row]).astype(np.float32), row, X.shape[0], LARGEST_VALUE)
    rows = sp.csr_matrix((whole, X.indices, X.indptr), shape=X.shape)
    ones = sp.csr_matrix((np.ones(Y.nnz, np.int8), Y.indices, Y.indptr), shape=Y.shape)
    return NeighbourVotes(rows, scale, ones, feature_weights, n_neighbours, weight)


def choose_weight(
    votes: NeighbourVotes, X: Features, Y: sp.csr_matrix, trees: sp.csr_matrix, n_jobs: int
) -> float:
    """The share of highest mean P@1, P@3 and P@5 on rows that neither trees nor votes have seen."""
    if X.shape[0] == 0:
        return DEFAULT_WEIGHT
    # looking for the rows is what takes time: once is enough
    alone = replace(votes, weight=0.0).scores(X, sp.csr_matrix(trees.shape, dtype=np.float32), n_jobs)
    alone, trees = largest_entries(alone, CANDIDATES), largest_entries(trees, CANDIDATES)
    found = []
    for weight in WEIGHTS:
        mixed = sp.csr_matrix(weight * trees + (1 - weight) * alone)
        found.append(sum(precision_at_k(Y, mixed, k) for k in (1, 3, 5)))
    # the trees' say is the larger, where it makes no difference
    return max(zip(found, WEIGHTS, strict=True))[1]
