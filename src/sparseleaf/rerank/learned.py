"""Re-ranking that learns: what trees, centroids, linear models and neighbours say of a candidate, weighed.

In: a row's best labels and their scores from the trees. Out: these and the labels of the row's neighbours, with new
scores from 0 to 1. ``"linear"`` is a weighted mean of four opinions; ``"boosted"`` asks boosted trees.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from scipy.special import expit
from sklearn.preprocessing import normalize

from sparseleaf import _kernels
from sparseleaf._arrays import row_blocks, sparse_parts
from sparseleaf._vectors import PackedLists
from sparseleaf.rerank.centroids import weighted
from sparseleaf.rerank.listed import ListedRerank
from sparseleaf.rerank.neighbours import NEIGHBOURS, ROW_FEATURES
from sparseleaf.rerank.weighing import mixed

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features
    from sparseleaf.model.model import Model
    from sparseleaf.rerank.centroids import CentroidRerank
    from sparseleaf.rerank.linear import LinearModels
    from sparseleaf.rerank.neighbours import Neighbours

LEARNED = ("linear", "boosted")

COLUMNS = ("score", "relative score", "log place", "votes", "sharp votes", "relative votes", "nearest", "voters",
           "cosine", "margin", "log rows")  # fmt: skip
"""What is known of a candidate. The first eight are the kernel's: the trees' score, also by the row's best, and its
place; Σ c and Σ c³ over the neighbours that have the label, the latter also by the row's largest, the largest c, and
how many they are. Then the cosine with the label's centroid, the margin of its linear model, and its training rows."""

OPINIONS = ("trees", "cosine", "margin", "votes")
"""What the weighted mean is of, each from 0 to 1."""

STEEPNESS = 3.0
"""A margin m counts as 1 / (1 + exp(-3 m))."""

NO_LISTS = PackedLists(np.zeros(1, np.int64), np.empty(0, np.uint8), 0)
"""Labels of neighbours where there are none."""

FEW = 1000
"""Candidates that one thread weighs."""


@dataclass(frozen=True)
class Candidates:
    """Candidates of some rows, rising by label within a row.

    Attributes
    ----------
    starts : int64 array, shape (n_rows + 1,)
    labels : int32 array, shape (n_candidates,)
    table : float32 array, shape (n_candidates, columns)
    """

    starts: Array
    labels: Array
    table: Array

    def rows(self, chosen: Array) -> Candidates:
        """Those of the rows that a mask chooses."""
        sizes = np.diff(self.starts)
        kept = np.repeat(chosen, sizes)
        starts = np.concatenate((self.starts[:1], np.cumsum(sizes[chosen], dtype=np.int64)))
        return Candidates(starts, self.labels[kept], self.table[kept])

    def opinions(self) -> Array:
        """The four opinions of every candidate: (n_candidates, 4)."""
        columns = dict(zip(COLUMNS, self.table.T, strict=True))
        return np.stack(
            [
                np.clip(columns["relative score"], 0, 1),
                np.clip(columns["cosine"], 0, 1),
                expit(np.float32(STEEPNESS) * columns["margin"]),
                columns["relative votes"],
            ],
            axis=1,
        )


@dataclass(frozen=True)
class Evidence:
    """All that is known of the labels besides the trees.

    Attributes
    ----------
    centroids : CentroidRerank
        By angle, with a weight of 0: the cosine alone.
    linear : LinearModels or None
        None while these are being trained.
    neighbours : Neighbours or None
    label_counts : int array, shape (n_labels,)
        Rows of every label.
    """

    centroids: CentroidRerank
    linear: LinearModels | None
    neighbours: Neighbours | None
    label_counts: Array

    def unit_rows(self, X: Features) -> sp.csr_matrix:
        """Rows as all of it sees them."""
        rows = weighted(
            sp.csr_matrix(X, dtype=np.float64), self.centroids.feature_weights
        )  # squares must fit
        return sp.csr_matrix(normalize(rows, copy=False), dtype=np.float32)

    def candidates(
        self, X: Features, labels: Array, scores: Array, n_jobs: int, own: Array | None = None
    ) -> Candidates:
        """Candidates from the trees' (labels, scores), both (n_rows, places), -1 for none.

        ``own`` tells which of the indexed rows each row is itself.
        """
        rows = self.unit_rows(X)
        theirs = NO_LISTS
        found, cosines = np.empty((rows.shape[0], 0), np.int32), np.empty((rows.shape[0], 0), np.float32)
        if self.neighbours is not None:
            found, cosines = self.neighbours.nearest(rows, own, n_jobs)
            theirs = self.neighbours.labels
        starts, joined, flat = _kernels.join_candidates(
            np.ascontiguousarray(labels, np.int32),
            np.ascontiguousarray(scores, np.float32),
            found,
            cosines,
            theirs.kernel,
            len(COLUMNS),
            n_jobs,
        )
        table = flat.reshape(-1, len(COLUMNS))
        if self.linear is not None:
            cosine = self.centroids.rescored(X, starts, joined, np.zeros(len(joined)), n_jobs)
            table[:, COLUMNS.index("cosine")] = cosine
            table[:, COLUMNS.index("margin")] = self.linear.margins(rows, starts, joined, n_jobs)
            table[:, COLUMNS.index("log rows")] = np.log1p(
                self.label_counts[joined],
                dtype=np.float64,  # a file has them in narrow types
            )
        return Candidates(starts, joined, table)


@dataclass(frozen=True)
class LearnedRerank(ListedRerank):
    """The stage: evidence, and how it is weighed.

    Attributes
    ----------
    mix : "linear" or "boosted"
    evidence : Evidence
    shares : float32 array, shape (4,), or empty
        Of the ``OPINIONS``, where the mix is linear.
    booster : Model or None
        Trees over the ``COLUMNS``, where it is boosted.
    """

    mix: str
    evidence: Evidence
    shares: Array
    booster: Model | None

    def __getstate__(self) -> dict[str, Any]:
        # the compiled part is made again where it is needed
        return {name: value for name, value in vars(self).items() if name != "ranker"}

    @cached_property
    def ranker(self) -> _kernels.OpinionRanker:
        """The compiled whole, for a linear mix: what :meth:`weigh` makes of candidates, without their table."""
        evidence = self.evidence
        assert evidence.linear is not None
        index, lists = evidence.neighbours, NO_LISTS
        if index is not None:
            lists = index.labels
        return _kernels.OpinionRanker(
            evidence.centroids.kernel,
            evidence.linear.kernel,
            evidence.linear.bias,
            None if index is None else index.kernel,
            lists.kernel,
            evidence.centroids.feature_weights,
            self.shares,
            NEIGHBOURS,
            ROW_FEATURES,
            STEEPNESS,
        )

    @property
    def n_labels(self) -> int:
        """See :class:`ListedRerank`."""
        return len(self.evidence.label_counts)

    @property
    def weight(self) -> float | None:
        """Share of the trees, where there is such a number."""
        return float(self.shares[0]) if self.mix == "linear" else None

    def weigh(self, candidates: Candidates, n_jobs: int) -> Array:
        """Scores from 0 to 1."""
        if self.booster is None:
            return mixed(candidates.opinions(), self.shares)
        threads = n_jobs if len(candidates.labels) > FEW else 1  # waking others costs more than it saves
        # never quite 0, which is the score of all other labels
        scores: Array = np.maximum(expit(self.booster.dense(candidates.table, None, threads)[:, 0]), 1e-30)
        return scores

    def ranked_candidates(
        self, X: Features, labels: Array, scores: Array, n_jobs: int
    ) -> tuple[Array, Array, Array]:
        """See :class:`ListedRerank`; they are scores already."""
        candidates = self.evidence.candidates(X, labels, scores, n_jobs)
        return candidates.starts, candidates.labels, self.weigh(candidates, n_jobs).astype(np.float32)

    def topk(self, X: Features, labels: Array, scores: Array, k: int, n_jobs: int) -> tuple[Array, Array]:
        """See :class:`ListedRerank`; a linear mix is compiled as a whole."""
        if self.booster is not None:
            return super().topk(X, labels, scores, k, n_jobs)
        best, ranked = np.empty((labels.shape[0], k), np.int32), np.empty((labels.shape[0], k), np.float32)
        labels, scores = np.ascontiguousarray(labels, np.int32), np.ascontiguousarray(scores, np.float32)
        for block, rows in row_blocks(X):
            self.ranker.topk(
                *sparse_parts(rows), labels[block], scores[block], best[block], ranked[block], n_jobs
            )
        return best, ranked
