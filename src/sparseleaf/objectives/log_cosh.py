"""Log-cosh error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sparseleaf.objectives.base import register
from sparseleaf.objectives.dense import RowObjective

if TYPE_CHECKING:
    from sparseleaf._arrays import Array


@register
@dataclass(frozen=True)
class LogCosh(RowObjective):
    """log cosh(z - y): squared error for small residuals, absolute error for large ones, smooth in between.

    The hessian is tanh(r)/r, the smallest value for which a Newton step never increases the loss; the second derivative
    would vanish for large residuals.
    """

    name = "log-cosh"
    description = "log of the hyperbolic cosine of the residual, a smooth Huber loss"
    task = "regression"

    def losses(self, y: Array, z: Array) -> Array:
        """Loss of every pair, as defined in the class docstring."""
        r = np.abs(z - y)
        value: Array = r + np.log1p(np.exp(-2 * r)) - np.log(2)
        return value
