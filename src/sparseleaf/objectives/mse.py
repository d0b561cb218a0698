"""Squared error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sparseleaf.objectives.base import register
from sparseleaf.objectives.dense import RowObjective
from sparseleaf.objectives.mixing import LowestLoss

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.objectives.targets import TargetStatistics


@register
@dataclass(frozen=True)
class MSE(RowObjective):
    """½ (z - y)²; the reported loss omits the factor ½."""

    name = "mse"
    task = "regression"
    description = "squared error"
    constant_hessian = True
    grows_with_targets = True
    mixing = LowestLoss()

    def base_score(self, targets: TargetStatistics) -> Array:
        """The mean."""
        return targets.sums().mean.astype(np.float32)

    def losses(self, y: Array, z: Array) -> Array:
        """(z - y)²."""
        squares: Array = (z - y) ** 2
        return squares
