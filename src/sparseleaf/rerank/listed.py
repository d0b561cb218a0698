"""What stages share that list candidates for every row, the trees' and their own, and weigh these.

Rows are taken in blocks, since a row has hundreds of candidates and much is known of each.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from sparseleaf._arrays import row_blocks

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features

PLACES = 100
"""Labels of the trees, or of every member of a blend, that are candidates."""

BLOCK_ROWS = 4096


class ListedRerank(ABC):
    """Base of such stages."""

    @property
    @abstractmethod
    def n_labels(self) -> int:
        """Labels that there are."""

    @abstractmethod
    def ranked_candidates(
        self, X: Features, labels: Array, scores: Array, n_jobs: int
    ) -> tuple[Array, Array, Array]:
        """Candidates, and numbers by which they are ranked.

        Parameters
        ----------
        X : rows
        labels, scores : arrays, shape (n_rows, places)
            The trees' best; -1 is none.
        n_jobs : int

        Returns
        -------
        starts : int64 array, shape (n_rows + 1,)
        candidates : int32 array
            Rising within a row.
        margins : float32 array
        """

    def scores_of(self, margins: Array) -> Array:
        """Scores from 0 to 1, which rise with the margins."""
        return margins

    @property
    def scale(self) -> None:
        """What is known of candidates has its own scale."""
        return

    @property
    def places(self) -> int:
        """Labels of the trees that it looks at."""
        return PLACES

    def topk(self, X: Features, labels: Array, scores: Array, k: int, n_jobs: int) -> tuple[Array, Array]:
        """The k best of each row's candidates, the trees' being (labels, scores), by their new scores."""
        best = np.empty((labels.shape[0], k), np.int32)
        margins = np.empty((labels.shape[0], k), np.float32)
        for block, starts, candidates, found in self._blocks(X, labels, scores, n_jobs):
            best[block], margins[block] = topk_of(starts, candidates, found, k)
        return best, np.where(best < 0, np.float32(-np.inf), self.scores_of(margins))

    def scores(self, X: Features, labels: Array, scores: Array, n_jobs: int) -> sp.csr_matrix:
        """Scores of all candidates as a CSR matrix."""
        parts = [sp.csr_matrix((0, self.n_labels), dtype=np.float32)]
        for _, starts, candidates, margins in self._blocks(X, labels, scores, n_jobs):
            shape = (len(starts) - 1, self.n_labels)
            parts.append(sp.csr_matrix((self.scores_of(margins), candidates, starts), shape=shape))
        return sp.vstack(parts, "csr")

    def _blocks(
        self, X: Features, labels: Array, scores: Array, n_jobs: int
    ) -> Iterator[tuple[slice, Array, Array, Array]]:
        for block, rows in row_blocks(X, BLOCK_ROWS):
            yield block, *self.ranked_candidates(rows, labels[block], scores[block], n_jobs)


def topk_of(starts: Array, labels: Array, scores: Array, k: int) -> tuple[Array, Array]:
    """The k best of lists that rise by label, as arrays (n_lists, k); equal scores go to the lower label."""
    sizes = np.diff(starts)
    width = max(k, int(sizes.max(initial=0)))
    held = np.arange(width) < sizes[:, None]
    padded = np.full(held.shape, -np.inf, np.float32)
    padded[held] = scores
    order = np.argsort(-padded, axis=1, kind="stable")[:, :k]
    names = np.full(held.shape, -1, np.int32)
    names[held] = labels
    return np.take_along_axis(names, order, 1), np.take_along_axis(padded, order, 1)
