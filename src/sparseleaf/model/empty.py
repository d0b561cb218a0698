"""Rows without any feature that training knew, such as a text of unknown words: they get the label prior.

Trees would send such a row somewhere, and linear models would score it by their bias alone; neither knows anything
about it. The prior is P(label | no known feature): label rates of the training rows that were empty themselves, shrunk
towards the rates of all rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp

from sparseleaf.model.registry import register
from sparseleaf.model.stage import Role, Scores, Stage

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features
    from sparseleaf.model.source import StageSource

MOST_LABELS = 300
"""Labels that the prior names, the most frequent."""

MOST_FILLED = 0.25
"""Share of entries that are not zero, up to which a zero of a sparse matrix says that a feature is absent."""

STRENGTH = 10.0
"""The rates of all rows count as much as so many empty rows."""


@register("empty")
@dataclass(frozen=True)
class EmptyRows(Stage):
    """What is returned for rows without a known feature.

    Attributes
    ----------
    known : bool array, shape (n_features,)
        Features that were not zero in some training row.
    labels : int32 array
        Best first.
    scores : float32 array
    """

    known: Array
    labels: Array
    scores: Array

    kind: ClassVar[str] = "empty"
    role: ClassVar[Role] = Role.EMPTY_ROWS
    takes_nan: ClassVar[bool] = True

    @classmethod
    def from_counts(
        cls, feature_counts: Array, label_counts: Array, n_rows: int, empty_counts: Array, n_empty: int
    ) -> EmptyRows | None:
        """Of sparse training rows: how many have each feature and each label, and how many of empty rows each label.

        None where so many entries are not zero that a zero is a value like any other.
        """
        if feature_counts.sum() > MOST_FILLED * n_rows * len(feature_counts):
            return None
        rates = label_counts / max(1, n_rows)
        rates = (empty_counts + STRENGTH * rates) / (n_empty + STRENGTH)
        best = np.argsort(-rates, kind="stable")[:MOST_LABELS]
        best = best[rates[best] > 0]
        return cls(feature_counts > 0, best.astype(np.int32), rates[best].astype(np.float32))

    @classmethod
    def fit(cls, X: Features, Y: sp.csr_matrix) -> EmptyRows | None:
        """Of training rows and their labels; None where they are dense: a zero is a value like any other there."""
        if not sp.issparse(X):
            return None
        counts = np.bincount(Y.indices, minlength=Y.shape[1])
        empty = find_empty(X)
        of_empty = np.bincount(Y[empty].indices, minlength=Y.shape[1])
        return cls.from_counts(feature_counts(X), counts, X.shape[0], of_empty, int(empty.sum()))

    def find(self, X: Features) -> Array:
        """Which rows have no known feature: a mask."""
        if not sp.issparse(X):
            found: Array = ~((X != 0) & self.known).any(axis=1)
            return found
        return _rows_without(X, self.known[X.indices] & (X.data != 0))

    def apply(self, before: Scores) -> FilledScores:
        """The same scores, but for rows without a known feature."""
        return FilledScores(before, self)

    # --- tensors of the model file

    def tensors(self, compact: bool) -> dict[str, Array]:
        """Tensors by name."""
        return {
            "known": np.packbits(self.known),
            "labels": self.labels.astype(np.uint32),
            "scores": self.scores,
        }

    @classmethod
    def from_tensors(cls, source: StageSource) -> Self:
        """From tensors; ValueError where they do not fit the features and labels."""
        bits, labels = source.take("known", ("U8",), 1), source.take("labels", ("U32",), 1)
        scores, n_features = source.finite("scores", ("F32",), 1), source.n_features
        if len(bits) != -(-n_features // 8):
            raise ValueError(f"known: {len(bits)} bytes; must have one bit for each of {n_features} features")
        if len(labels) != len(scores) or len(labels) > MOST_LABELS or len(np.unique(labels)) < len(labels):
            raise ValueError(
                f"labels, scores: must be at most {MOST_LABELS} different labels with a score each"
            )
        if labels.max(initial=0) >= max(1, source.n_labels):
            raise ValueError("labels: a label that does not exist")
        return cls(np.unpackbits(bits, count=n_features).astype(bool), labels.astype(np.int32), scores)

    def describe(self) -> dict[str, Any]:
        """How many features are known."""
        return {"known_features": int(self.known.sum())}


class FilledScores(Scores):
    """Scores with the prior in place of what rows without a known feature have: the base score, where there is one."""

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
        """What a stage is fitted on that scores labels again: it sees empty rows as the trees do."""
        return self._before.candidates(k) if self.base is None else super().candidates(k)

    def _prior(self) -> tuple[Array, Array]:
        """Labels and scores of an empty row, best first."""
        if self.base is None:
            return self._stage.labels, self._stage.scores
        best = np.argsort(-self.base, kind="stable").astype(np.int32)
        return best, self.base[best]


def feature_counts(X: sp.csr_matrix) -> Array:
    """Rows in which each feature is not zero."""
    return np.bincount(X.indices[X.data != 0], minlength=X.shape[1])


def find_empty(X: sp.csr_matrix) -> Array:
    """Which rows are all zero: a mask."""
    return _rows_without(X, X.data != 0)


def _rows_without(X: sp.csr_matrix, useful: Array) -> Array:
    """Rows none of whose entries is useful."""
    if len(X.indptr) == 2:  # a single row, for which all of this would take as long as the trees
        return np.array([not useful.any()])
    before = np.concatenate(([0], np.cumsum(useful)))
    without: Array = before[X.indptr[1:]] == before[X.indptr[:-1]]
    return without
