"""Assignment of rows to queries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from sparseleaf._arrays import Array


@dataclass(frozen=True)
class Queries:
    """Rows grouped by query.

    Attributes
    ----------
    order : int32 array, shape (n_rows,)
        Rows sorted by query, in the original order within a query.
    indptr : int64 array, shape (n_queries + 1,)
        ``order[indptr[q]:indptr[q + 1]]`` are the rows of query ``q``.
    ids : array, shape (n_queries,)
        Query ids.
    weights : float32 array, shape (n_queries,), or empty
        Query weights; empty if all are 1.
    """

    order: Array
    indptr: Array
    ids: Array
    weights: Array

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return len(self.ids)

    @staticmethod
    def join(parts: list[Queries]) -> Queries:
        """Concatenate the queries of several partitions; no query spans two of them."""
        first = np.cumsum([0, *(len(part.order) for part in parts)])
        sizes = np.concatenate([np.diff(part.indptr) for part in parts])
        return Queries(
            np.concatenate([part.order + at for part, at in zip(parts, first.tolist(), strict=False)]).astype(
                np.int32
            ),
            np.concatenate(([0], np.cumsum(sizes))).astype(np.int64),
            np.concatenate([part.ids for part in parts]),
            np.concatenate([part.weights for part in parts]),
        )

    def of_rows(self) -> Array:
        """Index of the query of every row, int64."""
        numbers = np.empty(len(self.order), np.int64)
        numbers[self.order] = np.repeat(np.arange(self.n_queries), np.diff(self.indptr))
        return numbers
