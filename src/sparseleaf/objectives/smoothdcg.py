"""SmoothDCG."""

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
class SmoothDCG(RankingObjective):
    """A smoothed DCG.

    The first rounds fit the gains themselves: where all scores are equal the smoothed DCG has no slope, and far from a
    good ranking little.

    Attributes
    ----------
    parameter : float
        σ, the width of the smoothing.
    start_rounds : int
        Rounds that fit the gains.
    starting : bool
        Whether this is one of them.
    """

    start_rounds: int = 30
    starting: bool = False

    name = "smoothdcg"
    description = "SmoothDCG is a smoothed DCG"

    @classmethod
    def of(cls, parameters: RankingParameters, queries: Queries) -> Self:
        """See :class:`RankingObjective`."""
        return cls(queries, parameters.sigma or 0.3, parameters.start_rounds)

    def at(self, round_number: int) -> SmoothDCG:
        """See :class:`DenseObjective`."""
        return replace(self, starting=round_number < self.start_rounds)

    @property
    def kernel(self) -> str:
        """See :class:`RankingObjective`."""
        return "squared-gains" if self.starting else self.name
