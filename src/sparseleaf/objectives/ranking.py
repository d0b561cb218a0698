"""Losses over the documents of each query."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Protocol, Self

import numpy as np

from sparseleaf import _kernels
from sparseleaf.objectives.base import Task
from sparseleaf.objectives.dense import NON_NEGATIVE, DenseObjective, TargetRange
from sparseleaf.objectives.queries import Queries

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.objectives.targets import DenseTargets, TargetStatistics

CHANGES = ("ndcg", "map", "pairwise")
"""Pair weights of LambdaMART: change of NDCG or average precision when the pair is swapped, or 1. In the order of the
kernel's codes."""


class RankingParameters(Protocol):
    """Parameters of the ranker that losses use."""

    metric: str
    places: int
    normalise: bool
    margin: float
    averaged: bool
    sigma: float | None
    start_rounds: int


@dataclass(frozen=True)
class RankingObjective(DenseObjective):
    """A ranking loss.

    Attributes
    ----------
    queries : Queries
    parameter : float
        σ or τ.
    """

    queries: Queries
    parameter: float = 1.0

    task: ClassVar[Task] = "ranking"
    default_metric: ClassVar[str] = "ndcg@5"
    target_range: ClassVar[TargetRange] = NON_NEGATIVE
    held_out_metric: ClassVar[str] = "ndcg"
    held_out_higher_is_better: ClassVar[bool] = True
    held_out_patience: ClassVar[int] = 100
    held_out_min_improvement: ClassVar[float] = 0.0

    @classmethod
    @abstractmethod
    def of(cls, parameters: RankingParameters, queries: Queries) -> Self:
        """Create the loss from the parameters of a ranker."""

    @property
    def kernel(self) -> str:
        """Name of the kernel function."""
        return self.name

    @property
    def factor(self) -> float:
        """Factor applied to the scores."""
        return 1.0

    @property
    def lambdas(self) -> tuple[str, int, bool]:
        """Parameters of LambdaMART: metric change (one of :data:`CHANGES`), places and normalise."""
        return CHANGES[0], 1, False

    @property
    def row_weights(self) -> Array | None:
        """See :class:`DenseObjective`: those of the queries."""
        queries = self.queries
        return queries.weights[queries.of_rows()] if len(queries.weights) else None

    def joined(self, parts: Sequence[Self]) -> Self:
        """The loss of all queries."""
        return replace(self, queries=Queries.join([part.queries for part in parts]))

    def gradients(
        self, targets: DenseTargets, scores: Array, g: Array, h: Array, n_jobs: int
    ) -> tuple[Array, Array]:
        """See :class:`DenseObjective`."""
        change, places, normalise = self.lambdas
        _kernels.rank_gradients(
            self.kernel,
            CHANGES.index(change),
            places,
            normalise,
            self.parameter,
            self.factor,
            scores[:, 0],
            targets.values[:, 0],
            self.queries.order,
            self.queries.indptr,
            self.queries.weights,
            g[:, 0],
            h[:, 0],
            n_jobs,
        )
        # the whole column at once: numpy is ten times slower along an axis
        largest = max(g.max(initial=0), -g.min(initial=0))
        return np.array([largest]), np.array([h.max(initial=0)])

    def base_score(self, targets: TargetStatistics) -> Array:
        """0, since only score differences matter."""
        return np.zeros(1, np.float32)

    def held_out_parts(
        self, targets: DenseTargets, scores: Array, rows: Array, output_weights: Array | None
    ) -> tuple[Array, Array]:
        """NDCG, over all documents, and weight of the held-out queries; 0 for queries without relevant documents.

        Ties are broken as by :func:`sparseleaf.ranking.ndcg`: the few leaves of early rounds make many of them, and the
        order of the rows may follow the grades.
        """
        query, gains = self.queries.of_rows()[rows], np.exp2(targets.values[rows, 0].astype(np.float64)) - 1
        numbers, starts = np.unique(np.sort(query), return_index=True)
        if not len(numbers):
            return np.empty(0), np.empty(0)
        place = np.arange(len(rows)) - np.repeat(starts, np.diff(np.append(starts, len(rows))))
        discounts = 1 / np.log2(place + 2)
        ranked, best = (
            np.add.reduceat(gains[np.lexsort((gains, -by, query))] * discounts, starts)
            for by in (scores[:, 0], gains)
        )
        weights = self.queries.weights[numbers] if len(self.queries.weights) else np.ones(len(numbers))
        weights = np.where(best > 0, weights, 0.0)
        return ranked / np.where(best > 0, best, 1.0) * weights, weights

    def value(self, targets: DenseTargets, scores: Array) -> float:
        """Not available: rankers are evaluated by ranking metrics."""
        raise NotImplementedError
