"""Focal loss of each output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sparseleaf.links import LOGISTIC
from sparseleaf.objectives.base import Number, register
from sparseleaf.objectives.dense import RowObjective
from sparseleaf.objectives.haste import CLASSES
from sparseleaf.objectives.search import minimise

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.objectives.targets import TargetStatistics


@register
@dataclass(frozen=True)
class Focal(RowObjective):
    """-(1 - p)^γ log p, where p is the probability of the truth: cross-entropy with less weight on easy pairs.

    The hessian is the second derivative without its negative term (see ``cpp/objectives/focal.cpp``).
    """

    name = "focal"
    description = "focal loss of each label with focusing parameter x, for rare labels"
    task = "classification"
    haste = CLASSES
    number = Number(2.0)
    link = LOGISTIC

    def base_score(self, targets: TargetStatistics) -> Array:
        """Minimiser of the mean loss; constant outputs are treated as if half a row differed."""
        sums = targets.sums()
        mean = np.where(
            (sums.mean > 0) & (sums.mean < 1), sums.mean, sums.mean.clip(sums.rare, 1 - sums.rare)
        )
        return minimise(lambda z: mean * self._slope(z) - (1 - mean) * self._slope(-z), len(mean))

    def _slope(self, s: Array) -> Array:
        """Derivative of the loss of a positive label at score s."""
        log_p, log_q = -np.logaddexp(0, -s), -np.logaddexp(0, s)
        slope: Array = np.exp(self.parameter * log_q) * (
            self.parameter * np.exp(log_p) * log_p - np.exp(log_q)
        )
        return slope

    def losses(self, y: Array, z: Array) -> Array:
        """Loss of every pair, as defined in the class docstring."""
        s = np.where(y > 0.5, z, -z)
        value: Array = np.exp(-self.parameter * np.logaddexp(0, s)) * np.logaddexp(0, -s)
        return value
