"""Re-ranking by label centroids: how close a row is to the mean row of a label.

In: a row's candidates and their scores from the trees. Out: the same candidates with new scores. Only candidates
are scored, so the cost does not grow with the number of labels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from sklearn.preprocessing import normalize

from sparseleaf import _kernels
from sparseleaf._arrays import csr_parts, largest_entries, row_blocks, sparse_parts
from sparseleaf._vectors import PackedVectors

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features

MIXES = ("centroid", "cosine", "log")
"""How tree score t and centroid are joined, with weight β and scale γ, d being the distance and c the cosine of row
and centroid: "centroid" is β t + (1 − β) / (1 + exp(γ d²/2)), as LdSM's authors have it; "cosine" is β t + (1 − β) c;
"log" mixes logarithms, β log t + (1 − β) γ (c − 1), and is stored as its exponential."""

CENTROID_FEATURES = 256
"""Features that a centroid keeps, those of largest mean."""

BLOCK_LABELS = 4096

PLACES = 300
"""Labels of the trees that are candidates."""


@dataclass(frozen=True)
class CentroidRerank:
    """Centroids and how they are used.

    Attributes
    ----------
    centroids : PackedVectors, shape (n_labels, n_features)
        Mean row of every label, cut to its largest entries.
    squared_norms : float32 array, shape (n_labels,)
        Of the mean rows before the cut.
    mix : str
        One of ``MIXES``.
    weight : float
        β: 1 is the trees alone, 0 the centroids alone.
    scale : float
        γ.
    feature_weights : float32 array, shape (n_features,), or empty
        What features are multiplied by first.
    """

    centroids: PackedVectors
    squared_norms: Array
    mix: str
    weight: float
    scale: float
    feature_weights: Array

    def __getstate__(self) -> dict[str, Any]:
        # the compiled part is made again where it is needed
        return {name: value for name, value in vars(self).items() if name != "kernel"}

    @cached_property
    def kernel(self) -> _kernels.CentroidReranker:
        """The compiled part; making it checks every index and number."""
        return _kernels.CentroidReranker(self.centroids.kernel, self.squared_norms)

    def with_weight(self, weight: float) -> CentroidRerank:
        """The same with another β."""
        return replace(self, weight=weight)

    def rescored(self, X: Features, starts: Array, labels: Array, scores: Array, n_jobs: int) -> Array:
        """New scores; candidates of row i are ``labels[starts[i]:starts[i + 1]]``, -1 is none."""
        new = np.array(scores, np.float32).ravel()
        starts, labels = (
            np.ascontiguousarray(starts, np.int64),
            np.ascontiguousarray(labels, np.int32).ravel(),
        )
        for block, rows in row_blocks(X):
            own = slice(starts[block.start], starts[block.stop])
            self.kernel.rescore(
                *csr_parts(
                    weighted(rows if sp.issparse(rows) else sp.csr_matrix(rows), self.feature_weights)
                ),
                starts[block.start : block.stop + 1] - starts[block.start],
                labels[own],
                new[own],
                MIXES.index(self.mix),
                self.weight,
                self.scale,
                n_jobs,
            )
        return new

    @property
    def places(self) -> int:
        """Labels of the trees that it looks at."""
        return PLACES

    def scores(self, X: Features, labels: Array, scores: Array, n_jobs: int) -> sp.csr_matrix:
        """Scores of all candidates as a CSR matrix."""
        listed = labels >= 0
        starts = np.concatenate(([0], np.cumsum(listed.sum(axis=1), dtype=np.int64)))
        rescored = self.rescored(X, starts, labels[listed], scores[listed], n_jobs)
        found = sp.csr_matrix((rescored, labels[listed], starts), shape=(len(labels), self.n_labels))
        found.sort_indices()
        return found

    @property
    def n_labels(self) -> int:
        """Labels that there are."""
        return int(self.centroids.shape[0])

    def topk(self, X: Features, labels: Array, scores: Array, k: int, n_jobs: int) -> tuple[Array, Array]:
        """The k best of each row's candidates, both (n_rows, more than k), by their new scores."""
        best, ranked = np.empty((labels.shape[0], k), np.int32), np.empty((labels.shape[0], k), np.float32)
        labels, scores = np.ascontiguousarray(labels, np.int32), np.ascontiguousarray(scores, np.float32)
        for block, rows in row_blocks(X):
            self.kernel.topk(
                *sparse_parts(rows),
                self.feature_weights,
                labels[block],
                scores[block],
                MIXES.index(self.mix),
                self.weight,
                self.scale,
                best[block],
                ranked[block],
                n_jobs,
            )
        return best, ranked


def fit_centroids(
    X: Features, Y: sp.csr_matrix, mix: str, weight: float, scale: float | None
) -> CentroidRerank:
    """Centroids of the labels of training rows; the rows count as unit vectors where only angles matter."""
    X = sp.csr_matrix(X, dtype=np.float32)
    weights = np.empty(0, np.float32)
    if mix != "centroid":
        weights = rarity(X)
        X = normalize(weighted(X, weights))
    if scale is None:
        scale = 10.0
        if mix == "centroid" and X.nnz:
            scale /= float(np.square(X.data, dtype=np.float64).sum()) / X.shape[0]
    by_label = sp.csr_matrix(Y.T, dtype=np.float32)
    counts = np.maximum(1, np.diff(by_label.indptr)).astype(np.float32)
    parts, norms = [], []
    for begin in range(0, by_label.shape[0], BLOCK_LABELS):
        block = slice(begin, begin + BLOCK_LABELS)
        sums = sp.csr_matrix(by_label[block] @ X)
        means = sp.diags(1 / counts[block], dtype=np.float32) @ sums
        norms.append(np.asarray(means.multiply(means).sum(axis=1), np.float32).ravel())
        parts.append(largest_entries(sp.csr_matrix(means), CENTROID_FEATURES))
    centroids = sp.vstack(parts, "csr", dtype=np.float32)
    centroids.sort_indices()
    return CentroidRerank(PackedVectors.of(centroids), np.concatenate(norms), mix, weight, scale, weights)


def rarity(X: sp.csr_matrix) -> Array:
    """log(rows / rows that have it) of every feature, where values say only that a feature is there; else empty.

    Features that already carry weights, such as tf-idf, keep theirs.
    """
    if not X.nnz or X.data.min() != X.data.max():
        return np.empty(0, np.float32)
    having = np.bincount(X.indices, minlength=X.shape[1])
    weights: Array = np.log(X.shape[0] / np.maximum(having, 1)).astype(np.float32)
    return weights


def weighted(X: sp.csr_matrix, weights: Array) -> sp.csr_matrix:
    """Rows with every feature multiplied by its weight; by 1 where there are no weights."""
    if not len(weights):
        return X
    with np.errstate(over="ignore"):  # what overflows is close to nothing
        return sp.csr_matrix((X.data * weights[X.indices], X.indices, X.indptr), shape=X.shape)
