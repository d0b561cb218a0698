"""Nearest training rows by cosine, through an inverted index from features to rows.

Rows are normalised, and indexed and looked up by their largest features only, which takes a fraction of the work at no
loss of accuracy.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp

from sparseleaf import _kernels
from sparseleaf._arrays import csr_parts, largest_entries
from sparseleaf._steps import UNSIGNED, narrow
from sparseleaf._strings import PackedStrings
from sparseleaf._vectors import PackedLists, PackedVectors, starts_of
from sparseleaf.model.attribution import Attribution, SimilarRows, tiled
from sparseleaf.model.source import prefixed

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.model.attribution import Pairs
    from sparseleaf.model.source import StageSource

NEIGHBOURS = 50
"""Number of neighbours."""

ROW_FEATURES = 64
"""Maximum number of features to index a row by, those of largest value."""

QUERY_FEATURES = 40
"""Maximum number of features to look up a row by: the others are frequent and have the longest postings."""

MAX_POSTINGS = 1_000_000
"""Average number of postings per query above which no index is built."""


@dataclass(frozen=True)
class Neighbours:
    """Inverted index of the training rows, and their labels.

    Attributes
    ----------
    postings : PackedVectors, shape (n_features, n_rows)
        Postings of every feature: rows and their values.
    labels : PackedLists
        Labels of every row.
    titles : PackedStrings or None
        Titles of the rows, for explanations.
    query_features : int
        Maximum number of features to look up a row by.
    """

    postings: PackedVectors
    labels: PackedLists
    titles: PackedStrings | None = None
    query_features: int = QUERY_FEATURES

    def __getstate__(self) -> dict[str, Any]:
        # without the compiled part, which is rebuilt on demand
        return {name: value for name, value in vars(self).items() if name != "kernel"}

    @cached_property
    def kernel(self) -> _kernels.PostingIndex:
        """The compiled part; its constructor validates all indices and values."""
        return _kernels.PostingIndex(self.postings.kernel)

    def nearest(self, rows: sp.csr_matrix, exclude: Array | None, n_jobs: int) -> tuple[Array, Array]:
        """(training rows int32, cosines float32), both (n_rows, NEIGHBOURS), nearest first, padded with -1.

        ``exclude`` is for each row a training row that is no neighbour: the row itself.
        """
        shape = (rows.shape[0], NEIGHBOURS)
        nearest, products = np.empty(shape, np.int32), np.empty(shape, np.float32)
        itself = np.full(rows.shape[0], -1, np.int32) if exclude is None else exclude.astype(np.int32)
        short = largest_entries(rows, self.query_features, n_jobs)
        self.kernel.nearest(*csr_parts(short), itself, nearest, products, n_jobs)
        return nearest, products

    def explain(
        self, rows: sp.csr_matrix, nearest: Array, cosines: Array, pairs: Pairs, n_jobs: int
    ) -> Attribution:
        """Σ c³ over the neighbours with the label, with cosines c: sums of products over common features.

        A cosine is the sum of its terms, so that c³ is the sum of c² times its terms. The neighbours are as
        :meth:`nearest` returns them.
        """
        short = largest_entries(rows, self.query_features)
        terms, carriers = tiled(pairs, short), np.empty((len(pairs), NEIGHBOURS), np.uint8)
        starts = pairs.starts(rows.shape[0])
        self.kernel.votes(
            *csr_parts(short),
            nearest,
            cosines,
            self.labels.kernel,
            starts,
            pairs.labels,
            terms.indptr,
            terms.data,
            carriers,
            n_jobs,
        )
        similar = SimilarRows.of_mask(carriers > 0, nearest[pairs.rows], cosines[pairs.rows])
        return Attribution(np.zeros(len(pairs)), terms, {}, similar)

    @classmethod
    def fit(cls, rows: sp.csr_matrix, Y: sp.csr_matrix) -> Self | None:
        """Index normalised rows; None if queries would be too slow."""
        postings = sp.csr_matrix(largest_entries(rows, ROW_FEATURES).T, dtype=np.float32)
        postings.sort_indices()
        having = np.diff(postings.indptr).astype(np.float64)
        if np.square(having).sum() > MAX_POSTINGS * max(1, rows.shape[0]):
            return None
        labels = sp.csr_matrix(Y)
        labels.sort_indices()
        return cls(PackedVectors.of(postings), PackedLists.of(labels))

    def rows(self, numbers: Array) -> sp.csr_matrix:
        """The largest features of some indexed rows."""
        by_row = sp.csc_matrix(self.postings.unpacked())[:, numbers]
        return sp.csr_matrix(by_row.T)

    def n_dropped(self, keep: float) -> int:
        """Number of rows, the oldest, that leave the index if a fraction ``keep`` of them stays."""
        return round((1 - keep) * self.labels.n_lists)

    def updated(self, rows: sp.csr_matrix, Y: sp.csr_matrix, keep: float) -> Neighbours:
        """Append normalised rows; of the old ones, the newest stay, a fraction ``keep``."""
        first = self.n_dropped(keep)
        old = self.postings.unpacked()[:, first:] if first else self.postings.unpacked()
        postings = sp.hstack([old, largest_entries(rows, ROW_FEATURES).T], "csr", dtype=np.float32)
        postings.sort_indices()
        starts, indices = self.labels.indptr[first:], self.labels.indices
        listed = sp.csr_matrix(
            (np.ones(starts[-1] - starts[0], np.int8), indices[starts[0] :], starts - starts[0]),
            shape=(len(starts) - 1, Y.shape[1]),
        )
        labels = sp.vstack([listed, Y.astype(np.int8)], "csr")
        labels.sort_indices()
        titles = None if self.titles is None else self.titles.moved(first, rows.shape[0])
        return replace(
            self, postings=PackedVectors.of(postings), labels=PackedLists.of(labels), titles=titles
        )

    # --- tensors of the model file

    def tensors(self, compact: bool) -> dict[str, Array]:
        """Tensors by name; without ``compact``, values are float32."""
        tensors = {
            "label_sizes": narrow(np.diff(self.labels.indptr)),
            "label_steps": self.labels.steps,
            "query_features": np.array([self.query_features], np.uint32),
            **self.postings.tensors(compact),
        }
        return tensors if self.titles is None else tensors | prefixed("titles", self.titles.tensors())

    @classmethod
    def from_tensors(cls, source: StageSource) -> Self:
        """From tensors; ValueError if they are invalid."""
        starts = starts_of(source.take("label_sizes", UNSIGNED, 1))
        labels = PackedLists(starts, source.take("label_steps", UNSIGNED, 1, in_place=True), source.n_labels)
        titles = None
        if source.has("titles.sizes"):
            titles = PackedStrings.from_tensors(source.part("titles"), labels.n_lists)
        postings = PackedVectors.from_tensors(source, source.n_features, labels.n_lists)
        neighbours = cls(postings, labels, titles, source.count("query_features", ROW_FEATURES))
        _ = neighbours.kernel, labels.kernel  # validates indices and values
        return neighbours
