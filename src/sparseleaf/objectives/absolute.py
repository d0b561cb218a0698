"""Absolute error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sparseleaf.objectives.base import register
from sparseleaf.objectives.dense import RowObjective

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.objectives.targets import TargetStatistics


@register
@dataclass(frozen=True)
class Absolute(RowObjective):
    """``|z - y|``; the value of a leaf is the median of its residuals."""

    name = "absolute"
    task = "regression"
    description = "absolute error, which predicts the median"
    constant_hessian = True

    @property
    def quantile(self) -> float:
        """The median."""
        return 0.5

    def base_score(self, targets: TargetStatistics) -> Array:
        """The median."""
        return targets.quantiles(self.quantile)

    def losses(self, y: Array, z: Array) -> Array:
        """Loss of every pair, as defined in the class docstring."""
        size: Array = np.abs(z - y)
        return size
