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

    The hessian is tanh(r)/r, the least one with which no step raises the loss; the second derivative would vanish
    where residuals are large.
    """

    name = "log-cosh"
    description = "log of the hyperbolic cosine of the residual, a smooth Huber loss"
    task = "regression"

    def losses(self, y: Array, z: Array) -> Array:
        """See the class."""
        r = np.abs(z - y)
        value: Array = r + np.log1p(np.exp(-2 * r)) - np.log(2)
        return value
