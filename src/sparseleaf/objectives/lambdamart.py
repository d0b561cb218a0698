"""LambdaMART."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from sparseleaf.objectives.base import register
from sparseleaf.objectives.haste import RANKINGS
from sparseleaf.objectives.mixing import BestRatio
from sparseleaf.objectives.ranking import CHANGES, RankingObjective

if TYPE_CHECKING:
    from sparseleaf.objectives.queries import Queries
    from sparseleaf.objectives.ranking import RankingParameters

MOST_PLACES = 2**31
"""Upper bound of the number of documents of a query."""


@register
@dataclass(frozen=True)
class LambdaMART(RankingObjective):
    """RankNet gradients of document pairs, weighted by the change of a metric when the pair is swapped.

    Attributes
    ----------
    parameter : float
        σ, the steepness.
    change : str
        One of :data:`CHANGES`.
    places : int
        Truncation level: only pairs whose higher-ranked document is among the first ``places`` contribute.
    normalise : bool
        Whether to normalise by the score difference of the pair and by the sum per query.
    """

    change: str = CHANGES[0]
    places: int = 30
    normalise: bool = True

    name = "lambdamart"
    description = "LambdaMART: pairs weighted by the metric change when they are swapped"
    mixing = BestRatio()
    haste = RANKINGS

    @classmethod
    def of(cls, parameters: RankingParameters, queries: Queries) -> Self:
        """See :class:`RankingObjective`."""
        places = min(parameters.places, MOST_PLACES)
        return cls(queries, parameters.sigma or 1.0, parameters.metric, places, parameters.normalise)

    @property
    def lambdas(self) -> tuple[str, int, bool]:
        """See :class:`RankingObjective`."""
        return self.change, self.places, self.normalise
