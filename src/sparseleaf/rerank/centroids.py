"""Re-ranking by label centroids: how close a row is to the mean row of a label.

In: a row's candidates and their scores from the trees. Out: the same candidates with new scores. Only candidates
are scored, so the cost does not grow with the number of labels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from sklearn.preprocessing import normalize

from sparseleaf import _kernels
from sparseleaf._arrays import csr_parts, largest_entries, row_blocks, sparse_parts
from sparseleaf._vectors import PackedVectors
from sparseleaf.model.registry import register
from sparseleaf.rerank.stage import DEFAULT_WEIGHT, Reranker

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features
    from sparseleaf.model.source import StageSource
    from sparseleaf.rerank.rows import TrainingRows
    from sparseleaf.rerank.validation import Validation

MIXES = ("centroid", "cosine", "log")
"""How tree score t and centroid are joined, with weight β and scale γ, d being the distance and c the cosine of row
and centroid: "centroid" is β t + (1 − β) / (1 + exp(γ d²/2)), as LdSM's authors have it; "cosine" is β t + (1 − β) c;
"log" mixes logarithms, β log t + (1 − β) γ (c − 1), and is stored as its exponential."""

CENTROID_FEATURES = 256
"""Features that a centroid keeps, those of largest mean."""

BLOCK_LABELS = 4096

PLACES = 300
"""Labels of the trees that are candidates."""

WEIGHTS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)
"""Shares of the trees that are tried."""


@register(*MIXES)
@dataclass(frozen=True)
class CentroidReranker(Reranker):
    """Centroids and how they are used.

    Attributes
    ----------
    centroids : PackedVectors, shape (n_labels, n_features)
        Mean row of every label, cut to its largest entries.
    squared_norms : float32 array, shape (n_labels,)
        Of the mean rows before the cut.
    kind : str
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
    kind: str
    weight: float
    scale: float
    feature_weights: Array

    places: ClassVar[int] = PLACES
    cross_validated: ClassVar[bool] = False

    def __getstate__(self) -> dict[str, Any]:
        # the compiled part is made again where it is needed
        return {name: value for name, value in vars(self).items() if name != "kernel"}

    @cached_property
    def kernel(self) -> _kernels.CentroidReranker:
        """The compiled part; making it checks every index and number."""
        return _kernels.CentroidReranker(self.centroids.kernel, self.squared_norms)

    # --- fitting

    @classmethod
    def fit(cls, X: Features, Y: sp.csr_matrix, kind: str, weight: float, scale: float | None) -> Self:
        """Centroids of the labels of training rows; the rows count as unit vectors where only angles matter."""
        X = sp.csr_matrix(X, dtype=np.float32)
        weights = np.empty(0, np.float32)
        if kind != "centroid":
            weights = rarity(X)
            X = normalize(weighted(X, weights))
        if scale is None:
            scale = 10.0
            if kind == "centroid" and X.nnz:
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
        return cls(PackedVectors.of(centroids), np.concatenate(norms), kind, weight, scale, weights)

    @classmethod
    def untuned(cls, kind: str, rows: TrainingRows) -> Self:
        """See :class:`Reranker`."""
        return cls.fit(rows.X, rows.Y, kind, DEFAULT_WEIGHT, rows.scale)

    def tuned(self, validation: Validation, weight: float | None) -> CentroidReranker:
        """With the weight of highest precision; the largest, where several are alike."""
        if weight is None and len(validation):
            found = [float(validation.precision(replace(self, weight=one)).sum()) for one in WEIGHTS]
            weight = max(zip(found, WEIGHTS, strict=True))[1]
        return replace(self, weight=DEFAULT_WEIGHT if weight is None else weight)

    def refit(self, rows: TrainingRows) -> CentroidReranker:
        """See :class:`Reranker`."""
        return self.fit(rows.X, rows.Y, self.kind, self.weight, rows.scale)

    # --- prediction

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
                MIXES.index(self.kind),
                self.weight,
                self.scale,
                n_jobs,
            )
        return new

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
                MIXES.index(self.kind),
                self.weight,
                self.scale,
                best[block],
                ranked[block],
                n_jobs,
            )
        return best, ranked

    # --- tensors of the model file

    def tensors(self, compact: bool) -> dict[str, Array]:
        """See :class:`Reranker`."""
        return {
            "settings": np.array([self.weight, self.scale], np.float32),
            "squared_norms": self.squared_norms,
            "feature_weights": self.feature_weights,
            **self.centroids.tensors(compact),
        }

    @classmethod
    def from_tensors(cls, source: StageSource) -> Self:
        """From tensors; ValueError where they are not sound."""
        n_features, n_labels = source.n_features, source.n_labels
        settings, norms = source.take("settings", ("F32",), 1), source.take("squared_norms", ("F32",), 1)
        if len(settings) != 2 or not (0 <= settings[0] <= 1 and 0 <= settings[1] < np.inf):
            raise ValueError("settings: wanted a weight from 0 to 1 and a scale of at least 0")
        if len(norms) != n_labels:
            raise ValueError(f"squared_norms must have a number for each of {n_labels} labels")
        centroids = PackedVectors.from_tensors(source, n_labels, n_features)
        weights = source.take("feature_weights", ("F32",), 1)
        if len(weights) not in (0, n_features) or not np.isfinite(weights).all():
            raise ValueError(
                f"feature_weights: wanted a finite number for each of {n_features} features, or none"
            )
        weight, scale = settings.tolist()
        stage = cls(centroids, norms, source.kind, weight, scale, weights)
        _ = stage.kernel  # checks that indices exist and numbers are finite
        return stage

    def describe(self) -> dict[str, Any]:
        """See :class:`Reranker`."""
        return {"rerank": {"mix": self.kind, "weight": self.weight, "scale": self.scale}}


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
