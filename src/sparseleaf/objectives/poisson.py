"""Poisson regression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from scipy.special import xlogy

from sparseleaf.links import LOG
from sparseleaf.objectives.base import register
from sparseleaf.objectives.dense import NON_NEGATIVE, RowObjective, log_mean

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.objectives.targets import TargetStatistics


@register
@dataclass(frozen=True)
class Poisson(RowObjective):
    """e^z - y z + y ln y - y: half the Poisson deviance of the mean e^z."""

    name = "poisson"
    task = "regression"
    description = "Poisson deviance with log link, for counts"
    link = LOG
    target_range = NON_NEGATIVE

    def base_score(self, targets: TargetStatistics) -> Array:
        """The logarithm of the mean."""
        return log_mean(targets)

    def losses(self, y: Array, z: Array) -> Array:
        """Loss of every pair, as defined in the class docstring."""
        value: Array = LOG.apply(z) - y * z + xlogy(y, y) - y
        return value
