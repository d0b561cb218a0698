"""Examples of the linear models: which rows are positives and negatives of which labels."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from sparseleaf import _kernels
from sparseleaf.data.weights import NO_WEIGHTS

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.data.weights import TrainingWeights
    from sparseleaf.rerank.neighbours import Neighbours

NEGATIVES = (200, 20)
"""Negatives of a label, and more per positive: others hardly change the ranking, and take half of the time."""


@dataclass(frozen=True)
class Examples:
    """Rows and the labels that they are examples of: positives have the label, negatives are its false candidates.

    Attributes
    ----------
    rows : CSR matrix
        Normalised rows.
    Y : CSR matrix, shape (n_rows, n_labels)
    starts : int64 array, shape (n_rows + 1,)
    labels : int32 array
        The candidates of row i are ``labels[starts[i]:starts[i + 1]]``.
    held_out : bool array, shape (n_rows,), or empty
        Rows that the first of two solutions does without.
    weights : TrainingWeights
    negatives : tuple of int
        Negatives of a label, and more per positive.
    """

    rows: sp.csr_matrix
    Y: sp.csr_matrix
    starts: Array
    labels: Array
    held_out: Array = field(default_factory=lambda: np.empty(0, bool))
    weights: TrainingWeights = NO_WEIGHTS
    negatives: tuple[int, int] = NEGATIVES

    @property
    def positive(self) -> Array:
        """Mask of the labels with rows."""
        with_rows: Array = np.bincount(self.Y.indices, minlength=self.Y.shape[1]) > 0
        return with_rows

    def by_label(self, seed: int) -> tuple[Array, Array, Array, Array]:
        """Examples of every label: starts, rows int32, sides int8, 1 or -1, and how many are not held out.

        Negatives are a random sample if there are many. The last array is empty if no row is held out.
        """
        truth = sp.csr_matrix(self.Y)
        truth.sort_indices()
        held_out = np.zeros(self.Y.shape[0], np.uint8)
        held_out[: len(self.held_out)] = self.held_out
        starts, rows, sides, seen = _kernels.label_examples(
            self.starts.astype(np.int64),
            self.labels.astype(np.int32),
            truth.indptr.astype(np.int64),
            truth.indices.astype(np.int32),
            held_out,
            self.Y.shape[1],
            *self.negatives,
            seed,
        )
        return starts, rows, sides, seen if held_out.any() else seen[:0]

    def with_negatives(self, index: Neighbours, n_old: int, fresh: Array, n_jobs: int) -> Examples:
        """Add old rows as negatives of new labels: the nearest of the rows that have them.

        The new rows have too few negatives: a new label would be proposed for similar old rows, too.

        Parameters
        ----------
        index : Neighbours
            Of the old rows, followed by these.
        n_old : int
        fresh : bool array, shape (Y.nnz,)
            Which entries of Y are of new labels.
        n_jobs : int
        """
        row = np.repeat(np.arange(self.rows.shape[0]), np.diff(self.Y.indptr))[fresh]
        having, place = np.unique(row, return_inverse=True)
        if not len(having):
            return self
        nearest, _ = index.nearest(self.rows[having], n_old + having, n_jobs)
        old = (nearest >= 0) & (nearest < n_old)
        used, number = np.unique(nearest[old], return_inverse=True)
        near = sp.csr_matrix(
            (np.ones(len(number)), (number, np.nonzero(old)[0])), shape=(len(used), len(having))
        )
        labelled = sp.csr_matrix(
            (np.ones(len(place)), (place, self.Y.indices[fresh])), shape=(len(having), self.Y.shape[1])
        )
        negatives = sp.csr_matrix(near @ labelled)
        negatives.sort_indices()
        return Examples(
            sp.vstack([self.rows, index.rows(used)], "csr"),
            sp.vstack([self.Y, sp.csr_matrix((len(used), self.Y.shape[1]), dtype=self.Y.dtype)], "csr"),
            np.concatenate((self.starts, self.starts[-1] + negatives.indptr[1:])),
            np.concatenate((self.labels, negatives.indices.astype(self.labels.dtype))),
        )
