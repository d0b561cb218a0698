"""Gamma regression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sparseleaf.links import LOG
from sparseleaf.objectives.base import register
from sparseleaf.objectives.dense import POSITIVE, RowObjective, log_mean

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.objectives.targets import TargetStatistics


@register
@dataclass(frozen=True)
class Gamma(RowObjective):
    """y e^-z + z - ln y - 1: half the gamma deviance of the mean e^z."""

    name = "gamma"
    description = "gamma deviance with log link, for positive targets with a constant relative error"
    task = "regression"
    link = LOG
    target_range = POSITIVE

    def base_score(self, targets: TargetStatistics) -> Array:
        """The logarithm of the mean."""
        return log_mean(targets)

    def losses(self, y: Array, z: Array) -> Array:
        """Loss of every pair, as defined in the class docstring."""
        value: Array = (
            y * LOG.apply(-z) + z - np.log(np.where(y > 0, y, 1.0)) - 1
        )  # unknown targets are 0 here
        return value
