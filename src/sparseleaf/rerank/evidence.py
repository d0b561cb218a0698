"""What is known of a candidate label besides the trees: centroids, linear models and nearest training rows.

In: a row's best labels and their scores from the trees. Out: these and the labels of the row's neighbours, each with a
row of numbers, from which :mod:`~sparseleaf.rerank.linear` and :mod:`~sparseleaf.rerank.boosted` make new scores.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

import numpy as np
import scipy.sparse as sp
from scipy.special import expit
from sklearn.preprocessing import normalize

from sparseleaf import _kernels
from sparseleaf._steps import UNSIGNED, narrow
from sparseleaf._vectors import PackedLists
from sparseleaf.model.candidates import BLOCK_ROWS, PLACES
from sparseleaf.model.source import prefixed
from sparseleaf.progress import phase
from sparseleaf.rerank.centroids import CentroidReranker, weighted
from sparseleaf.rerank.models import LinearModels
from sparseleaf.rerank.neighbours import Neighbours
from sparseleaf.rerank.stage import ListedReranker
from sparseleaf.rerank.weighing import Ranked

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features
    from sparseleaf.model import Model
    from sparseleaf.model.source import StageSource
    from sparseleaf.rerank.validation import Validation

COLUMNS = ("score", "relative score", "log place", "votes", "sharp votes", "relative votes", "nearest", "voters",
           "cosine", "margin", "log rows")  # fmt: skip
"""What is known of a candidate. The first eight are the kernel's: the trees' score, also by the row's best, and its
place; Σ c and Σ c³ over the neighbours that have the label, the latter also by the row's largest, the largest c, and
how many they are. Then the cosine with the label's centroid, the margin of its linear model, and its training rows."""

COMPONENTS = ("trees", "cosine", "margin", "votes")
"""What the weighted mean is of, each from 0 to 1."""

STEEPNESS = 3.0
"""A margin m counts as 1 / (1 + exp(-3 m))."""

NO_LISTS = PackedLists(np.zeros(1, np.int64), np.empty(0, np.uint8), 0)
"""Labels of neighbours where there are none."""


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

    def components(self) -> Array:
        """The four score components of every candidate: (n_candidates, 4)."""
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
    centroids : CentroidReranker
        By angle, with a weight of 0: the cosine alone.
    models : LinearModels or None
        None while these are being trained.
    neighbours : Neighbours or None
    label_counts : int array, shape (n_labels,)
        Rows of every label.
    """

    centroids: CentroidReranker
    models: LinearModels | None
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
        if self.models is not None:
            cosine = self.centroids.rescored(X, starts, joined, np.zeros(len(joined)), n_jobs)
            table[:, COLUMNS.index("cosine")] = cosine
            table[:, COLUMNS.index("margin")] = self.models.margins(rows, starts, joined, n_jobs)
            table[:, COLUMNS.index("log rows")] = np.log1p(
                self.label_counts[joined],
                dtype=np.float64,  # a file has them in narrow types
            )
        return Candidates(starts, joined, table)

    # --- fitting

    @classmethod
    def fit(cls, X: Features, Y: sp.csr_matrix, trees: Model, seed: int, n_jobs: int) -> Self:
        """Centroids, neighbours and linear models of these rows; the latter see what the stage will propose.

        The trees may have seen the rows: which labels they propose in error is all that is taken from them.
        """
        centroids = CentroidReranker.fit(X, Y, "cosine", 0.0, None)
        counts = np.bincount(Y.indices, minlength=Y.shape[1])
        blind = cls(centroids, None, None, counts)
        rows = blind.unit_rows(X)
        blind = replace(blind, neighbours=Neighbours.fit(rows, Y))
        starts, labels = [np.zeros(1, np.int64)], []
        with phase("candidates", X.shape[0]) as advance:
            for begin in range(0, X.shape[0], BLOCK_ROWS):
                block = slice(begin, begin + BLOCK_ROWS)
                found = trees.candidates(X[block], PLACES, None, n_jobs)
                own = np.arange(begin, min(begin + BLOCK_ROWS, X.shape[0]))
                candidates = blind.candidates(X[block], *found, n_jobs, own)
                starts.append(candidates.starts[1:] + starts[-1][-1])
                labels.append(candidates.labels)
                advance(begin + len(own), "")
        models = LinearModels.fit(rows, Y, np.concatenate(starts), np.concatenate(labels), seed, n_jobs)
        return replace(blind, models=models)

    # --- tensors of the model file

    def tensors(self, compact: bool) -> dict[str, Array]:
        """Tensors by name; without ``compact`` entries of vectors are written as float32."""
        assert self.models is not None
        tensors = {"label_counts": narrow(self.label_counts)}
        tensors |= prefixed("centroids", self.centroids.tensors(compact))
        tensors |= prefixed("models", self.models.tensors(compact))
        if self.neighbours is not None:
            tensors |= prefixed("neighbours", self.neighbours.tensors(compact))
        return tensors

    @classmethod
    def from_tensors(cls, source: StageSource) -> Self:
        """From tensors; ValueError where they are not sound."""
        counts = source.take("label_counts", (*UNSIGNED, "U64"), 1)
        if len(counts) != source.n_labels:
            raise ValueError(f"label_counts must have a number for each of {source.n_labels} labels")
        centroids = CentroidReranker.from_tensors(source.part("centroids", kind="cosine"))
        neighbours = None
        if source.has("neighbours.sizes"):
            neighbours = Neighbours.from_tensors(source.part("neighbours"))
        models = LinearModels.from_tensors(source.part("models"))
        return cls(replace(centroids, weight=0.0), models, neighbours, counts)


class EvidenceReranker(ListedReranker):
    """Base of re-rankers that weigh evidence.

    Attributes
    ----------
    evidence : Evidence
    """

    evidence: Evidence

    @abstractmethod
    def weigh(self, candidates: Candidates, n_jobs: int) -> Array:
        """Scores from 0 to 1."""

    @property
    def n_labels(self) -> int:
        """See :class:`Reranker`."""
        return len(self.evidence.label_counts)

    def ranked_candidates(
        self, X: Features, labels: Array, scores: Array, n_jobs: int
    ) -> tuple[Array, Array, Array]:
        """See :class:`ListedReranker`; they are scores already."""
        candidates = self.evidence.candidates(X, labels, scores, n_jobs)
        return candidates.starts, candidates.labels, self.weigh(candidates, n_jobs).astype(np.float32)

    def hits(self, validation: Validation) -> Array:
        """See :class:`Reranker`; by the table of candidates, which is made once for all such re-rankers."""
        candidates, truth = validation.examples(self.evidence)
        ranked = Ranked(candidates.starts, truth, validation.n_jobs)
        return ranked.hits(self.weigh(candidates, validation.n_jobs))
