"""LambdaMART."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from sparseleaf.objectives.base import register
from sparseleaf.objectives.ranking import CHANGES, RankingObjective

if TYPE_CHECKING:
    from sparseleaf.objectives.queries import Queries
    from sparseleaf.objectives.ranking import RankingParameters

MOST_PLACES = 2**31
"""More than a query has documents."""


@register
@dataclass(frozen=True)
class LambdaMART(RankingObjective):
    """RankNet's gradients of pairs, each weighted by how much exchanging its documents would change a metric.

    Attributes
    ----------
    parameter : float
        σ, the steepness.
    change : str
        One of :data:`CHANGES`.
    places : int
        Pairs count whose better-ranked document is among so many.
    normalise : bool
        Divide by how far scores are apart, and bound the weight of a query.
    """

    change: str = CHANGES[0]
    places: int = 30
    normalise: bool = True

    name = "lambdamart"
    description = "LambdaMART weights pairs by what exchanging them changes"

    @classmethod
    def of(cls, parameters: RankingParameters, queries: Queries) -> Self:
        """See :class:`RankingObjective`."""
        places = min(parameters.places, MOST_PLACES)
        return cls(queries, parameters.sigma or 1.0, parameters.metric, places, parameters.normalise)

    @property
    def lambdas(self) -> tuple[str, int, bool]:
        """See :class:`RankingObjective`."""
        return self.change, self.places, self.normalise
