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
"""What LambdaMART weights a pair by: how much exchanging its documents would change NDCG, average precision, or 1. In
the order of the kernel's codes."""


class RankingParameters(Protocol):
    """The ranker's parameters that losses read."""

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

    @classmethod
    @abstractmethod
    def of(cls, parameters: RankingParameters, queries: Queries) -> Self:
        """The loss with a ranker's parameters."""

    @property
    def kernel(self) -> str:
        """The kernel's name."""
        return self.name

    @property
    def factor(self) -> float:
        """Scores are multiplied by it."""
        return 1.0

    @property
    def lambdas(self) -> tuple[str, int, bool]:
        """What LambdaMART alone has: the change, one of :data:`CHANGES`, places and normalise."""
        return CHANGES[0], 1, False

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
        # one column as a whole: along an axis numpy is ten times slower
        largest = max(g.max(initial=0), -g.min(initial=0))
        return np.array([largest]), np.array([h.max(initial=0)])

    def base_score(self, targets: TargetStatistics) -> Array:
        """0: only differences count."""
        return np.zeros(1, np.float32)

    def value(self, targets: DenseTargets, scores: Array) -> float:
        """Not a number that compares: ranking metrics are measured instead."""
        raise NotImplementedError
