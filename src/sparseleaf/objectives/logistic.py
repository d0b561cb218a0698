"""Logistic loss of each output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sparseleaf.links import LOGISTIC
from sparseleaf.objectives.base import register
from sparseleaf.objectives.dense import RowObjective
from sparseleaf.objectives.haste import CLASSES
from sparseleaf.objectives.mixing import LowestLoss

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.objectives.targets import TargetStatistics


@register
@dataclass(frozen=True)
class Logistic(RowObjective):
    """log(1 + e^z) - y z: binary cross-entropy."""

    name = "logistic"
    task = "classification"
    haste = CLASSES
    description = "binary cross-entropy of each label"
    link = LOGISTIC
    mixing = LowestLoss()

    def base_score(self, targets: TargetStatistics) -> Array:
        """Log-odds of the mean; constant outputs are treated as if half a row differed."""
        sums = targets.sums()
        mean = np.where(
            (sums.mean > 0) & (sums.mean < 1), sums.mean, sums.mean.clip(sums.rare, 1 - sums.rare)
        )
        odds: Array = np.log(mean / (1 - mean)).astype(np.float32)
        return odds

    def losses(self, y: Array, z: Array) -> Array:
        """Loss of every pair, as defined in the class docstring."""
        value: Array = np.logaddexp(0, z) - y * z
        return value
