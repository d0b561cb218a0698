"""Ranking losses: GBRank, SmoothDCG and LambdaMART, over the documents of each query."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from sparseleaf import _kernels

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.boosting.dense_losses import DenseTargets, Loss, TargetSums

RANKING_LOSSES = ("lambdamart", "gbrank", "smoothdcg")
START = "squared-gains"
STEPS = "gbrank-steps"
KERNELS = (*RANKING_LOSSES, START, STEPS)
"""Losses in the order of their codes in the kernel."""

CHANGES = ("ndcg", "map", "pairwise")
"""What LambdaMART weighs a pair by: how much exchanging its documents would change NDCG, average precision, or 1."""


@dataclass(frozen=True)
class Queries:
    """Which rows belong together.

    Attributes
    ----------
    order : int32 array, shape (n_rows,)
        Rows by query, in their own order within each.
    indptr : int64 array, shape (n_queries + 1,)
        ``order[indptr[q]:indptr[q + 1]]`` are the rows of query ``q``.
    ids : array, shape (n_queries,)
        What queries are called.
    weights : float32 array, shape (n_queries,), or empty
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
        """Queries of rows that follow each other; none goes on from one part to the next."""
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
        """The number of every row's query, int64."""
        numbers = np.empty(len(self.order), np.int64)
        numbers[self.order] = np.repeat(np.arange(self.n_queries), np.diff(self.indptr))
        return numbers


@dataclass(frozen=True)
class RankingLoss:
    """See :class:`~sparseleaf.boosting.dense_losses.Loss`.

    Attributes
    ----------
    name : str
    queries : Queries
    change : str
        Of LambdaMART: one of :data:`CHANGES`.
    places : int
        Of LambdaMART: pairs count whose better-ranked document is among so many.
    normalise : bool
        Of LambdaMART: divide by how far scores are apart, and bound what a query weighs.
    parameter : float
        σ of LambdaMART and SmoothDCG, τ of GBRank.
    factor : float
        Scores are multiplied by it: GBRank's averaged update sees the mean of the trees so far.
    start_rounds : int
        Of SmoothDCG: rounds that fit the gains themselves first.
    averaged : bool
        Of GBRank: the averaged update; else trees are steps that add up.
    """

    name: str
    queries: Queries
    change: str = "ndcg"
    places: int = 30
    normalise: bool = True
    parameter: float = 1.0
    factor: float = 1.0
    start_rounds: int = 30
    averaged: bool = True

    curved = True
    quantile = None

    def at(self, round_number: int) -> Loss:
        """The loss as it is in a round.

        GBRank: f after t trees is Σ g / (t + 1), since f_t = (t · f_{t-1} + g_t)/(t + 1). SmoothDCG: the first rounds
        fit the gains themselves, since where all scores are equal it has no slope, and far from a good ranking little.
        """
        if self.name == "gbrank" and not self.averaged:
            return replace(self, name=STEPS)
        if self.name == "gbrank":
            return replace(self, factor=1.0 / (round_number + 1))
        if self.name == "smoothdcg" and round_number < self.start_rounds:
            return replace(self, name=START)
        return self

    def curvature_room(self, targets: DenseTargets, shape: tuple[int, ...]) -> Array:
        """See :class:`Loss`."""
        return np.empty(shape, np.float32)

    def gradients(
        self, targets: DenseTargets, scores: Array, g: Array, h: Array, n_jobs: int
    ) -> tuple[Array, Array]:
        """See :class:`Loss`."""
        _kernels.rank_gradients(
            KERNELS.index(self.name),
            CHANGES.index(self.change),
            self.places,
            self.normalise,
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

    def matrices(self, targets: DenseTargets, scores: Array, g: Array, n_jobs: int) -> Array:
        """One output has no matrix."""
        raise NotImplementedError

    def joined(self, parts: list[Loss]) -> Loss:
        """The loss of all queries."""
        queries = Queries.join([part.queries for part in parts if isinstance(part, RankingLoss)])
        return replace(self, queries=queries)

    def base_score(self, sums: TargetSums) -> Array:
        """0: only differences count."""
        return np.zeros(1, np.float32)

    def predict(self, scores: Array) -> Array:
        """Scores as they are."""
        return scores

    def value(self, targets: DenseTargets, scores: Array) -> float:
        """Not a number that compares: ranking metrics are measured instead."""
        raise NotImplementedError
