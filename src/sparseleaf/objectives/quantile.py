"""Quantile (pinball) loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sparseleaf.objectives.base import Number, register
from sparseleaf.objectives.dense import RowObjective

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.objectives.targets import TargetStatistics


@register
@dataclass(frozen=True)
class Quantile(RowObjective):
    """max(α (y - z), (α - 1) (y - z)); the value of a leaf is the quantile of its residuals."""

    name = "quantile"
    task = "regression"
    description = "quantile (pinball) loss at level x"
    number = Number(0.5, high=1.0)
    constant_hessian = True

    @property
    def quantile(self) -> float:
        """The level."""
        return self.parameter

    def base_score(self, targets: TargetStatistics) -> Array:
        """The quantile of the targets."""
        return targets.quantiles(self.quantile)

    def losses(self, y: Array, z: Array) -> Array:
        """Loss of every pair, as defined in the class docstring."""
        return np.maximum(self.parameter * (y - z), (self.parameter - 1) * (y - z))
