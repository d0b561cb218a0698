"""Nearest training rows, through an inverted index: for every feature the rows that have it.

In: rows as unit vectors. Out: the training rows of largest cosine, and their labels' votes. A row is indexed, and
looked up, by its heaviest features alone: that costs no accuracy and saves half of the work.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp

from sparseleaf import _kernels
from sparseleaf._arrays import csr_parts, largest_entries
from sparseleaf._steps import UNSIGNED, narrow
from sparseleaf._vectors import PackedLists, PackedVectors, starts_of

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.model.source import StageSource

NEIGHBOURS = 50
"""Training rows that vote."""

ROW_FEATURES = 64
"""Features that a row is indexed and looked up by, those of largest value."""

MOST_POSTINGS = 1_000_000
"""Entries that a look-up may walk on average; a set that would need more has no neighbours."""


@dataclass(frozen=True)
class Neighbours:
    """The index, and the labels of its rows.

    Attributes
    ----------
    postings : PackedVectors, shape (n_features, n_rows)
        Values of the rows that have a feature.
    labels : PackedLists
        Labels of every row.
    """

    postings: PackedVectors
    labels: PackedLists

    def __getstate__(self) -> dict[str, Any]:
        # the compiled part is made again where it is needed
        return {name: value for name, value in vars(self).items() if name != "kernel"}

    @cached_property
    def kernel(self) -> _kernels.PostingIndex:
        """The compiled part; making it checks every index and number."""
        return _kernels.PostingIndex(self.postings.kernel)

    def nearest(self, rows: sp.csr_matrix, own: Array | None, n_jobs: int) -> tuple[Array, Array]:
        """(training rows int32, cosines float32), both (n_rows, NEIGHBOURS), closest first; -1 is none.

        ``own`` tells which training row each row is itself: it is no neighbour.
        """
        shape = (rows.shape[0], NEIGHBOURS)
        found, products = np.empty(shape, np.int32), np.empty(shape, np.float32)
        itself = np.full(rows.shape[0], -1, np.int32) if own is None else own.astype(np.int32)
        short = largest_entries(rows, ROW_FEATURES)
        self.kernel.nearest(*csr_parts(short), itself, found, products, n_jobs)
        return found, products

    @classmethod
    def fit(cls, rows: sp.csr_matrix, Y: sp.csr_matrix) -> Self | None:
        """Index of unit rows; None where looking a row up would take too long."""
        postings = sp.csr_matrix(largest_entries(rows, ROW_FEATURES).T, dtype=np.float32)
        postings.sort_indices()
        having = np.diff(postings.indptr).astype(np.float64)
        if np.square(having).sum() > MOST_POSTINGS * max(1, rows.shape[0]):
            return None
        labels = sp.csr_matrix(Y)
        labels.sort_indices()
        return cls(PackedVectors.of(postings), PackedLists.of(labels))

    # --- tensors of the model file

    def tensors(self, compact: bool) -> dict[str, Array]:
        """Tensors by name; without ``compact`` values are written as float32."""
        return {
            "label_sizes": narrow(np.diff(self.labels.indptr)),
            "label_steps": self.labels.steps,
            **self.postings.tensors(compact),
        }

    @classmethod
    def from_tensors(cls, source: StageSource) -> Self:
        """From tensors; ValueError where they are not sound."""
        starts = starts_of(source.take("label_sizes", UNSIGNED, 1))
        labels = PackedLists(starts, source.take("label_steps", UNSIGNED, 1, in_place=True), source.n_labels)
        neighbours = cls(PackedVectors.from_tensors(source, source.n_features, labels.n_lists), labels)
        _ = neighbours.kernel, labels.kernel  # checks that indices exist and numbers are finite
        return neighbours
