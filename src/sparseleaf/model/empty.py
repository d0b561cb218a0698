"""Predictions for rows without known features, such as a text of unknown words: the label prior.

Trees would route such a row arbitrarily, and linear models would score it by their bias. The prior is P(label | no
known feature): label frequencies of the empty training rows, shrunk towards those of all rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp

from sparseleaf._arrays import column_counts
from sparseleaf.data.weights import NO_WEIGHTS, TrainingWeights
from sparseleaf.model.attribution import Attribution
from sparseleaf.model.registry import register
from sparseleaf.model.stage import Role, Scores, Stage

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features
    from sparseleaf.model.attribution import Pairs
    from sparseleaf.model.source import StageSource
    from sparseleaf.model.update import NewRows

MAX_LABELS = 300
"""Maximum number of labels in the prior, the most frequent."""

MAX_FILLED = 0.25
"""Density of a sparse matrix up to which a zero means that a feature is absent."""

STRENGTH = 10.0
"""Shrinkage: the weight of the overall frequencies, in empty rows."""


@register("empty")
@dataclass(frozen=True)
class EmptyRows(Stage):
    """The label prior for rows without known features.

    Attributes
    ----------
    known : bool array, shape (n_features,)
        Features that are non-zero in some training row.
    labels : int32 array
        Best first.
    scores : float32 array
    n_empty : float
        Number of empty training rows, for updates; 0 for files of earlier versions.
    divisor : float
        Scores are the label rates divided by this; 0 if it is unknown, for files of earlier versions.
    """

    known: Array
    labels: Array
    scores: Array
    n_empty: float = 0.0
    divisor: float = 1.0

    kind: ClassVar[str] = "empty"
    role: ClassVar[Role] = Role.EMPTY_ROWS
    takes_nan: ClassVar[bool] = True

    @classmethod
    def from_counts(
        cls,
        feature_counts: Array,
        n_rows: int,
        labels: tuple[Array, float],
        of_empty: tuple[Array, float],
        label_weights: Array | None = None,
    ) -> EmptyRows | None:
        """From counts of sparse training rows.

        None if the matrix is so dense that a zero is an ordinary value.

        Parameters
        ----------
        feature_counts : array, shape (n_features,)
            Number of rows with each feature.
        n_rows : int
        labels, of_empty : (array, float)
            Weight of the rows with each label and of all rows; the same for empty rows only.
        label_weights : array or None
            See :class:`~sparseleaf.data.weights.TrainingWeights`.
        """
        if feature_counts.sum() > MAX_FILLED * n_rows * len(feature_counts):
            return None
        rates = labels[0] / (labels[1] or 1.0)
        prior = _prior(rates, *of_empty, label_weights)
        return cls(feature_counts > 0, *prior, float(of_empty[1]))

    @classmethod
    def fit(
        cls, X: Features, Y: sp.csr_matrix, weights: TrainingWeights = NO_WEIGHTS, n_jobs: int = 1
    ) -> EmptyRows | None:
        """From training rows and their labels; None for dense rows, where a zero is an ordinary value."""
        if not sp.issparse(X):
            return None
        empty = np.flatnonzero(find_empty(X))
        of_empty = weights.take(empty)
        return cls.from_counts(
            feature_counts(X, n_jobs),
            X.shape[0],
            (weights.counts(Y), weights.total(Y.shape[0])),
            (of_empty.counts(Y[empty]), of_empty.total(len(empty))),
            weights.labels,
        )

    def divided(self, divisor: float) -> EmptyRows:
        """A copy on another scale."""
        return replace(self, scores=self.scores / np.float32(divisor), divisor=divisor)

    def updated(self, new: NewRows) -> EmptyRows:
        """The prior with new rows, whose features are known from now on."""
        X = sp.csr_matrix(new.X)
        before = np.zeros(new.n_labels)
        before[: new.before.n_labels] = new.before.label_counts / max(1, new.before.n_train_rows)
        divisor = self.divisor
        if not divisor:  # a file of an earlier version: assume no empty rows
            divisor = (
                float(before[self.labels[:1]].sum() / self.scores[:1].sum()) if len(self.labels) else 1.0
            )
        empty_counts = np.zeros(new.n_labels)
        counts = self.scores * divisor * (self.n_empty + STRENGTH) - STRENGTH * before[self.labels]
        empty_counts[self.labels] = np.rint(counts).clip(0)
        empty = find_empty(X)
        empty_counts = new.keep * empty_counts + np.bincount(new.Y[empty].indices, minlength=new.n_labels)
        n_empty = new.keep * self.n_empty + int(empty.sum())
        total, n_rows = new.old_counts + new.counts, max(1, new.old_rows + new.n_rows)
        known = self.known | (feature_counts(X) > 0)
        again = EmptyRows(known, *_prior(total / n_rows, empty_counts, n_empty), n_empty)
        return again if divisor == 1 else again.divided(max(1.0, total.sum() / n_rows))

    def find(self, X: Features) -> Array:
        """Mask of the rows without known features."""
        if not sp.issparse(X):
            empty: Array = ~((X != 0) & self.known).any(axis=1)
            return empty
        return _rows_without(X, self.known[X.indices] & (X.data != 0))

    def apply(self, before: Scores) -> FilledScores:
        """Replace the scores of rows without known features."""
        return FilledScores(before, self)

    # --- tensors of the model file

    def tensors(self, compact: bool) -> dict[str, Array]:
        """Tensors by name."""
        return {
            "known": np.packbits(self.known),
            "labels": self.labels.astype(np.uint32),
            "scores": self.scores,
            "prior": np.array([self.n_empty, self.divisor]),
        }

    @classmethod
    def from_tensors(cls, source: StageSource) -> Self:
        """See :class:`~sparseleaf.model.stage.Stage`."""
        bits, labels = source.take("known", ("U8",), 1), source.take("labels", ("U32",), 1)
        scores, n_features = source.finite("scores", ("F32",), 1), source.n_features
        if len(bits) != -(-n_features // 8):
            raise ValueError(
                f"known must have one bit for each of {n_features} features, has {len(bits)} bytes"
            )
        if len(labels) != len(scores) or len(labels) > MAX_LABELS or len(np.unique(labels)) < len(labels):
            raise ValueError(
                f"labels and scores must be at most {MAX_LABELS} distinct labels with one score each"
            )
        if labels.max(initial=0) >= max(1, source.n_labels):
            raise ValueError("labels: index out of range")
        prior = source.finite("prior", ("F64",), 1) if source.has("prior") else np.zeros(2)
        if len(prior) != 2 or not (prior >= 0).all():
            raise ValueError("prior must be the number of empty rows and a divisor, both >= 0")
        known = np.unpackbits(bits, count=n_features).astype(bool)
        return cls(known, labels.astype(np.int32), scores, *prior.tolist())

    def describe(self) -> dict[str, Any]:
        """Number of known features."""
        return {"known_features": int(self.known.sum())}


class FilledScores(Scores):
    """Scores with the prior, or the base score if there is one, for rows without known features."""

    def __init__(self, before: Scores, stage: EmptyRows) -> None:
        self.rows, self.base = before.rows, before.base
        self._before, self._stage = before, stage

    def topk(self, k: int) -> tuple[Array, Array]:
        """See :class:`~sparseleaf.model.stage.Scores`."""
        labels, scores = self._before.topk(k)
        empty = self._stage.find(self.rows.X)
        if empty.any():
            best, their = self._prior()
            named = min(k, len(best))
            labels[empty], scores[empty] = -1, -np.inf
            labels[empty, :named], scores[empty, :named] = best[:named], their[:named]
        return labels, scores

    def sparse(self) -> sp.csr_matrix:
        """See :class:`~sparseleaf.model.stage.Scores`."""
        scores = self._before.sparse()
        empty = self._stage.find(self.rows.X)
        if not empty.any():
            return scores
        labels, their = self._prior()
        order = np.argsort(labels)
        n_empty = int(empty.sum())
        priors = sp.csr_matrix(
            (
                np.tile(their[order], n_empty),
                np.tile(labels[order], n_empty),
                np.arange(n_empty + 1) * len(order),
            ),
            shape=(n_empty, scores.shape[1]),
        )
        place = np.argsort(np.concatenate((np.flatnonzero(~empty), np.flatnonzero(empty))))
        return sp.csr_matrix(sp.vstack([scores[~empty], priors], "csr")[place])

    def dense(self) -> Array:
        """See :class:`~sparseleaf.model.stage.Scores`."""
        scores = self._before.dense()
        labels, their = self._prior()
        prior = np.zeros(scores.shape[1], np.float32)
        prior[labels] = their
        scores[self._stage.find(self.rows.X)] = prior
        return scores

    def candidates(self, k: int) -> tuple[Array, Array]:
        """See :class:`~sparseleaf.model.stage.Scores`; re-rankers get the trees' candidates for empty rows."""
        return self._before.candidates(k) if self.base is None else super().candidates(k)

    def explain(self, pairs: Pairs) -> Attribution:
        """See :class:`~sparseleaf.model.stage.Scores`; no feature contributes to the prior."""
        empty = self._stage.find(self.rows.X)[pairs.rows]
        if not empty.any():
            return self._before.explain(pairs)
        labels, their = self._prior()
        order = np.argsort(labels)
        place = order[np.searchsorted(labels, pairs.labels, sorter=order).clip(max=max(0, len(labels) - 1))]
        prior = np.where(labels[place] == pairs.labels, their[place], 0) if len(labels) else 0.0
        return self._before.explain(pairs.some(~empty)).placed(~empty, prior, "prior")

    def _prior(self) -> tuple[Array, Array]:
        """Labels and scores of an empty row, best first."""
        if self.base is None:
            return self._stage.labels, np.clip(self._stage.scores * self._before.prior_scale, 0, 1)
        best = np.argsort(-self.base, kind="stable").astype(np.int32)
        return best, self.base[best]


def _prior(
    rates: Array, empty_counts: Array, n_empty: float, label_weights: Array | None = None
) -> tuple[Array, Array]:
    """Labels and scores of an empty row, best first; ``rates`` are the label frequencies of all rows."""
    rates = (empty_counts + STRENGTH * rates) / (n_empty + STRENGTH)
    if label_weights is not None:
        rates = TrainingWeights(labels=label_weights).frequencies(rates, 1.0)
    best = np.argsort(-rates, kind="stable")[:MAX_LABELS]
    best = best[rates[best] > 0]
    return best.astype(np.int32), rates[best].astype(np.float32)


def feature_counts(X: sp.csr_matrix, n_jobs: int = 1) -> Array:
    """Number of rows in which each feature is non-zero, int64."""
    used = X.data != 0
    if used.all():  # nearly always
        return column_counts(X, n_jobs)
    return np.bincount(X.indices[used], minlength=X.shape[1])


def find_empty(X: sp.csr_matrix) -> Array:
    """Mask of the rows that are all zero."""
    return _rows_without(X, X.data != 0)


def _rows_without(X: sp.csr_matrix, useful: Array) -> Array:
    """Mask of the rows without useful entries."""
    if len(X.indptr) == 2:  # single-row prediction: what follows would take as long as the trees
        return np.array([not useful.any()])
    before = X.indptr if useful.all() else np.concatenate(([0], np.cumsum(useful)))[X.indptr]
    without: Array = before[1:] == before[:-1]
    return without
