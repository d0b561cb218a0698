"""Tweedie regression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sparseleaf.links import LOG
from sparseleaf.objectives.base import Number, register
from sparseleaf.objectives.dense import NON_NEGATIVE, RowObjective, log_mean

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.objectives.targets import TargetStatistics


@register
@dataclass(frozen=True)
class Tweedie(RowObjective):
    """y e^((1-p) z)/(p - 1) + e^((2-p) z)/(2 - p) - y^(2-p)/((p - 1)(2 - p)): half the deviance of the mean e^z.

    p is the variance power: the variance of a target is proportional to its mean to the power of p.
    """

    name = "tweedie"
    description = "Tweedie deviance of variance power x with log link, for totals with many zeros"
    task = "regression"
    number = Number(1.5, low=1.0, high=2.0)
    link = LOG
    target_range = NON_NEGATIVE

    def base_score(self, targets: TargetStatistics) -> Array:
        """The logarithm of the mean."""
        return log_mean(targets)

    def losses(self, y: Array, z: Array) -> Array:
        """Loss of every pair, as defined in the class docstring."""
        p = self.parameter
        of_mean = y * LOG.apply((1 - p) * z) / (p - 1) + LOG.apply((2 - p) * z) / (2 - p)
        value: Array = of_mean - y ** (2 - p) / ((p - 1) * (2 - p))
        return value
