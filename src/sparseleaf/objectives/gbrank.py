"""GBRank."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from sparseleaf.objectives.base import register
from sparseleaf.objectives.ranking import RankingObjective

if TYPE_CHECKING:
    from sparseleaf.objectives.queries import Queries
    from sparseleaf.objectives.ranking import RankingParameters


@register
@dataclass(frozen=True)
class GBRank(RankingObjective):
    """Squared hinge loss of document pairs with a margin.

    Attributes
    ----------
    parameter : float
        τ, the margin.
    averaged : bool
        Whether the model averages the trees (the paper's update) instead of summing them.
    n_trees : int
        Number of trees so far.
    """

    averaged: bool = True
    n_trees: int = 0

    name = "gbrank"
    description = "GBRank: squared hinge loss of document pairs with a margin"

    @classmethod
    def of(cls, parameters: RankingParameters, queries: Queries) -> Self:
        """See :class:`RankingObjective`."""
        return cls(queries, parameters.margin, parameters.averaged)

    def at(self, round_number: int) -> GBRank:
        """See :class:`DenseObjective`."""
        return replace(self, n_trees=round_number)

    @property
    def kernel(self) -> str:
        """See :class:`RankingObjective`."""
        return self.name if self.averaged else "gbrank-steps"

    @property
    def factor(self) -> float:
        """F after t trees is Σ g / (t + 1), since f_t = (t · f_{t-1} + g_t)/(t + 1)."""
        return 1.0 / (self.n_trees + 1) if self.averaged else 1.0
