"""Re-ranking by label centroids: how close a row is to the mean row of a label.

Only the trees' candidates are scored, so the cost does not depend on the number of labels.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from scipy.special import expit
from sklearn.preprocessing import normalize

from sparseleaf import _kernels
from sparseleaf._arrays import csr_parts, largest_entries, row_blocks, sparse_parts
from sparseleaf._vectors import PackedVectors
from sparseleaf.data.weights import NO_WEIGHTS
from sparseleaf.model.attribution import Attribution, Terms, added, secant_components, tiled_entries
from sparseleaf.model.candidates import look_up
from sparseleaf.model.importance import mixed_importances, normalised_rows
from sparseleaf.model.registry import register
from sparseleaf.rerank.stage import DEFAULT_WEIGHT, Reranker
from sparseleaf.rerank.terms import product_terms

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features
    from sparseleaf.data.weights import TrainingWeights
    from sparseleaf.model.attribution import Pairs
    from sparseleaf.model.source import StageSource
    from sparseleaf.model.stage import Scores
    from sparseleaf.model.update import NewRows
    from sparseleaf.rerank.rows import TrainingRows
    from sparseleaf.rerank.validation import Validation

MIXES = ("centroid", "cosine", "log")
"""How the trees' score t and the centroid are mixed, with weight β, scale γ, distance d and cosine c of row and
centroid: "centroid" is β t + (1 − β) / (1 + exp(γ d²/2)), as in LdSM; "cosine" is β t + (1 − β) c; "log" mixes
logarithms, β log t + (1 − β) γ (c − 1), and is stored as its exponential."""

CENTROID_FEATURES = 256
"""Maximum number of features per centroid, those of largest mean."""

BLOCK_LABELS = 4096

PLACES = 300
"""Number of candidates from the trees."""

LEAST = 1e-6
"""Lowest score of the trees whose logarithm is taken."""

WEIGHTS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)
"""Weights of the trees to try."""


@register(*MIXES)
@dataclass(frozen=True)
class CentroidReranker(Reranker):
    """Centroid re-ranker.

    Attributes
    ----------
    centroids : PackedVectors, shape (n_labels, n_features)
        Mean row of every label, truncated to its largest entries.
    squared_norms : float32 array, shape (n_labels,)
        Of the mean rows before truncation.
    kind : str
        One of ``MIXES``.
    weight : float
        β: 1 for the trees only, 0 for the centroids only.
    scale : float
        γ.
    feature_weights : float32 array, shape (n_features,), or empty
        Factors of the features.
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
        # without the compiled part, which is rebuilt on demand
        return {name: value for name, value in vars(self).items() if name not in ("kernel", "vectors")}

    @cached_property
    def kernel(self) -> _kernels.CentroidReranker:
        """The compiled part; its constructor validates all indices and values."""
        return _kernels.CentroidReranker(self.centroids.kernel, self.squared_norms)

    # --- fitting

    @classmethod
    def fit(
        cls,
        X: Features,
        Y: sp.csr_matrix,
        kind: str,
        weight: float,
        scale: float | None,
        feature_weights: Array | None = None,
        row_weights: TrainingWeights = NO_WEIGHTS,
    ) -> Self:
        """Compute the centroids; for kinds based on the cosine, rows are weighted and normalised first."""
        X = sp.csr_matrix(X, dtype=np.float32)
        weights = np.empty(0, np.float32)
        if kind != "centroid":
            weights = rarity(X, row_weights) if feature_weights is None else feature_weights
            X = normalize(weighted(X, weights))
        if scale is None:
            scale = 10.0
            if kind == "centroid" and X.nnz:
                scale /= float(np.square(X.data, dtype=np.float64).sum()) / X.shape[0]
        by_label = sp.csr_matrix(row_weights.weighted(Y).T, dtype=np.float32)
        counts = row_weights.counts(Y)
        counts = np.where(counts > 0, counts, 1).astype(np.float32)
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
        return cls.fit(rows.X, rows.Y, kind, DEFAULT_WEIGHT, rows.scale, row_weights=rows.weights)

    def tuned(self, validation: Validation, weight: float | None) -> CentroidReranker:
        """The stage with the weight of highest precision, the largest in a tie."""
        if weight is None and len(validation):
            precision = [validation.total_precision(replace(self, weight=one)) for one in WEIGHTS]
            weight = max(zip(precision, WEIGHTS, strict=True))[1]
        return replace(self, weight=DEFAULT_WEIGHT if weight is None else weight)

    def refit(self, rows: TrainingRows) -> CentroidReranker:
        """See :class:`Reranker`."""
        return self.fit(rows.X, rows.Y, self.kind, self.weight, rows.scale, row_weights=rows.weights)

    def updated(self, new: NewRows) -> CentroidReranker:
        """The centroids with new rows: means weighted by the number of rows; feature weights and settings are kept.

        Features that truncation had dropped count as 0 for the old rows.
        """
        X = sp.csr_matrix(new.X, dtype=np.float32)
        if self.kind != "centroid":
            X = normalize(weighted(X, self.feature_weights))
        by_label = sp.csr_matrix(new.Y.T, dtype=np.float32)
        changed = np.flatnonzero(new.counts)
        total = (new.old_counts + new.counts)[changed]
        share = (new.counts[changed] / total).astype(np.float32)
        centroids = self.centroids.unpacked()
        centroids.resize(new.n_labels, X.shape[1])
        before = np.zeros(new.n_labels, np.float32)
        before[: len(self.squared_norms)] = self.squared_norms
        parts, norms = [sp.csr_matrix((0, X.shape[1]), dtype=np.float32)], before.copy()
        for begin in range(0, len(changed), BLOCK_LABELS):
            block = slice(begin, begin + BLOCK_LABELS)
            labels, weight = changed[block], share[block]
            scale = weight / new.counts[labels].astype(np.float32)
            added = sp.csr_matrix(sp.diags(scale, dtype=np.float32) @ (by_label[labels] @ X))
            old = sp.csr_matrix(sp.diags(1 - weight, dtype=np.float32) @ centroids[labels])
            # ‖a + b‖² = ‖a‖² + 2 a·b + ‖b‖²: the old norm is that before truncation
            products = np.asarray((added.multiply(added) + 2 * old.multiply(added)).sum(axis=1)).ravel()
            norms[labels] = np.square(1 - weight) * before[labels] + products
            means = sp.csr_matrix(old + added)
            means.sort_indices()
            parts.append(largest_entries(means, CENTROID_FEATURES))
        vectors = sp.vstack(parts, "csr", dtype=np.float32)
        vectors.sort_indices()
        packed = self.centroids.replaced(changed, vectors, new.n_labels)
        return replace(self, centroids=packed, squared_norms=norms)

    # --- prediction

    def rescored(self, X: Features, starts: Array, labels: Array, scores: Array, n_jobs: int) -> Array:
        """New scores; the candidates of row i are ``labels[starts[i]:starts[i + 1]]``, -1 for none."""
        new = np.array(scores, np.float32).ravel()
        starts, labels = (
            np.ascontiguousarray(starts, np.int64),
            np.ascontiguousarray(labels, np.int32).ravel(),
        )
        for block, rows in row_blocks(X):
            entries = slice(starts[block.start], starts[block.stop])
            self.kernel.rescore(
                *csr_parts(
                    weighted(rows if sp.issparse(rows) else sp.csr_matrix(rows), self.feature_weights)
                ),
                starts[block.start : block.stop + 1] - starts[block.start],
                labels[entries],
                new[entries],
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
        matrix = sp.csr_matrix((rescored, labels[listed], starts), shape=(len(labels), self.n_labels))
        matrix.sort_indices()
        return matrix

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return int(self.centroids.shape[0])

    def topk(self, X: Features, labels: Array, scores: Array, k: int, n_jobs: int) -> tuple[Array, Array]:
        """The k best candidates of each row by their new scores, from arrays (n_rows, at least k)."""
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

    # --- explanation

    @cached_property
    def vectors(self) -> _kernels.LabelVectors:
        """The centroids, compiled for explanations."""
        return _kernels.LabelVectors(self.centroids.kernel)

    def explain(self, before: Scores, labels: Array, scores: Array, pairs: Pairs) -> Attribution:
        """See :class:`Reranker`."""
        listed, place = look_up(labels, pairs)
        some, rows = pairs.some(listed), before.rows
        trees = before.explain_candidates(some)
        score = scores[some.rows, place[listed]].astype(np.float64)
        return EXPLAIN[self.kind](self, trees, score, rows.X, some, rows.n_jobs).placed(listed)

    def label_importances(self, labels: Array, before: sp.csr_matrix, n_jobs: int) -> sp.csr_matrix:
        """See :class:`~sparseleaf.model.stage.Stage`; those of the trees and the centroids, by weight."""
        return mixed_importances(
            [(self.weight, before), (1 - self.weight, self.centroid_importances(labels))]
        )

    def centroid_importances(self, labels: Array) -> sp.csr_matrix:
        """Entries of the centroids."""
        return normalised_rows(weighted(self.centroids.unpacked()[labels], self.feature_weights))

    def cosines(self, X: Features, pairs: Pairs, n_jobs: int) -> Attribution:
        """The cosine with the centroid, which is linear in the features if the row's length is a constant."""
        rows = weighted(sp.csr_matrix(X), self.feature_weights)
        products = product_terms(self.vectors, rows, pairs, 0.0, n_jobs)
        with np.errstate(over="ignore", invalid="ignore"):
            squares = Terms.of(rows).sums(np.square(rows.data, dtype=np.float64))[pairs.rows]
            lengths = np.sqrt(squares * self.squared_norms[pairs.labels].astype(np.float64))
            factor = np.divide(
                1, lengths, out=np.zeros(len(pairs)), where=(lengths > 0) & np.isfinite(lengths)
            )
            cosines = products.scaled(factor)
        return cosines.through(np.zeros(len(pairs)), cosines.sums.clip(-1, 1))

    def _explain_cosine(
        self, trees: Attribution, scores: Array, X: Features, pairs: Pairs, n_jobs: int
    ) -> Attribution:
        cosines = self.cosines(X, pairs, n_jobs)
        parts = [trees.scaled(self.weight).named("trees"), cosines.scaled(1 - self.weight).named("cosine")]
        return added(parts)

    def _explain_centroid(
        self, trees: Attribution, scores: Array, X: Features, pairs: Pairs, n_jobs: int
    ) -> Attribution:
        """-d² is linear in 2 x c - x², the terms of the features; the base is that of an empty row."""
        rows = sp.csr_matrix(X)
        near = product_terms(self.vectors, rows, pairs, 0.0, n_jobs).scaled(2.0)
        near.terms.data[:] -= np.square(rows.data[tiled_entries(pairs, rows)], dtype=np.float64)
        norms = self.squared_norms[pairs.labels].astype(np.float64)
        half = self.scale / 2
        near = replace(near, base=-norms)
        base, final = (expit(half * np.minimum(0, distances)) for distances in (-norms, near.scores))
        near = near.through(base, final).scaled(1 - self.weight)
        return added([trees.scaled(self.weight).named("trees"), near.named("centroid")])

    def _explain_log(
        self, trees: Attribution, scores: Array, X: Features, pairs: Pairs, n_jobs: int
    ) -> Attribution:
        """The logarithm is a sum: contributions to it are scaled to the score."""
        cosines = self.cosines(X, pairs, n_jobs)
        steep, weight = (1 - self.weight) * self.scale, self.weight
        start, end = (weight * np.log(np.maximum(values, LEAST)) for values in (trees.base, scores))
        logs = added([trees.scaled(weight).through(start, end), cosines.scaled(steep)])
        logs = replace(logs, base=logs.base - steep)
        lowest = weight * np.log(LEAST) - steep
        parts = {"trees": end - weight * np.log(LEAST), "cosine": steep * cosines.sums}
        final = np.exp(logs.scores)
        components = secant_components(np.full(len(final), np.exp(lowest)), parts, final)
        return logs.through(np.exp(logs.base), final).named(components)

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
        """See :class:`~sparseleaf.model.stage.Stage`."""
        n_features, n_labels = source.n_features, source.n_labels
        settings, norms = source.take("settings", ("F32",), 1), source.take("squared_norms", ("F32",), 1)
        if len(settings) != 2 or not (0 <= settings[0] <= 1 and 0 <= settings[1] < np.inf):
            raise ValueError("settings must be a weight in [0, 1] and a scale of at least 0")
        if len(norms) != n_labels:
            raise ValueError(f"squared_norms must have one entry for each of {n_labels} labels")
        centroids = PackedVectors.from_tensors(source, n_labels, n_features)
        weights = source.take("feature_weights", ("F32",), 1)
        if len(weights) not in (0, n_features) or not np.isfinite(weights).all():
            raise ValueError(
                f"feature_weights must be empty or have a finite value for each of {n_features} features"
            )
        weight, scale = settings.tolist()
        stage = cls(centroids, norms, source.kind, weight, scale, weights)
        _ = stage.kernel  # validates indices and values
        return stage

    def describe(self) -> dict[str, Any]:
        """See :class:`Reranker`."""
        return {"rerank": {"mix": self.kind, "weight": self.weight, "scale": self.scale}}


EXPLAIN = {
    "centroid": CentroidReranker._explain_centroid,
    "cosine": CentroidReranker._explain_cosine,
    "log": CentroidReranker._explain_log,
}
"""By kind."""


def rarity(X: sp.csr_matrix, row_weights: TrainingWeights = NO_WEIGHTS) -> Array:
    """Inverse document frequency, log(rows / rows with the feature), if all stored values are equal; otherwise empty.

    Features with weights already, such as tf-idf, are left as they are.
    """
    if not X.nnz or X.data.min() != X.data.max():
        return np.empty(0, np.float32)
    having, total = row_weights.counts(X), row_weights.total(X.shape[0])
    weights: Array = np.log(total / np.where(having > 0, having, 1)).astype(np.float32)
    return weights


def weighted(X: sp.csr_matrix, weights: Array) -> sp.csr_matrix:
    """Multiply features by their weights, if any."""
    if not len(weights):
        return X
    with np.errstate(over="ignore"):  # an overflowing row is close to no centroid
        return sp.csr_matrix((X.data * weights[X.indices], X.indices, X.indptr), shape=X.shape)
