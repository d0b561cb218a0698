"""Huber loss."""

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
class Huber(RowObjective):
    """½ r² up to a residual of δ, δ (``|r|`` - ½ δ) beyond. The hessian is set to 1."""

    name = "huber"
    task = "regression"
    description = "squared error up to a residual of x, linear beyond"
    number = Number(1.0)
    constant_hessian = True

    def base_score(self, targets: TargetStatistics) -> Array:
        """The mean, as an approximation of the minimiser, which has no closed form."""
        return targets.sums().mean.astype(np.float32)

    def losses(self, y: Array, z: Array) -> Array:
        """Loss of every pair, as defined in the class docstring."""
        r, delta = np.abs(z - y), self.parameter
        value: Array = np.where(r <= delta, r**2 / 2, delta * (r - delta / 2))
        return value
