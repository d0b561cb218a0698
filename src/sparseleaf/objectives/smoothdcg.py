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
    """Smoothed DCG.

    The first rounds fit the gains by squared error: the gradient of the smoothed DCG is 0 while all scores are equal,
    and small far from a good ranking.

    Attributes
    ----------
    parameter : float
        σ, the width of the smoothing.
    start_rounds : int
        Number of rounds that fit the gains.
    starting : bool
        Whether the current round is one of them.
    """

    start_rounds: int = 30
    starting: bool = False

    name = "smoothdcg"
    description = "SmoothDCG: differentiable approximation of DCG"

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
