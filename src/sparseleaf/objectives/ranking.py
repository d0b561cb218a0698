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

    def value(self, targets: DenseTargets, scores: Array) -> float:
        """Not available: rankers are evaluated by ranking metrics."""
        raise NotImplementedError
