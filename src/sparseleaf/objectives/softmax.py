"""Cross-entropy of one class per row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sparseleaf import _kernels
from sparseleaf.links import SOFTMAX
from sparseleaf.objectives.base import register
from sparseleaf.objectives.dense import RowObjective, log_mean
from sparseleaf.objectives.haste import CLASSES
from sparseleaf.objectives.mixing import LowestLoss

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.objectives.targets import DenseTargets, TargetStatistics


@register
@dataclass(frozen=True)
class Softmax(RowObjective):
    """log Σ e^z - z of the row's class."""

    name = "softmax"
    task = "classification"
    haste = CLASSES
    description = "cross-entropy of one class per row"
    link = SOFTMAX
    full_hessian = True
    takes_classes = True
    needs_classes = True
    mixing = LowestLoss()

    def full_hessians(self, targets: DenseTargets, g: Array, n_jobs: int) -> Array:
        """See :class:`DenseObjective`."""
        d = g.shape[1]
        out = np.empty((len(g), d * (d + 1) // 2), np.float32)
        _kernels.softmax_hessians(g, targets.classes, targets.weights, out, n_jobs)
        return out

    def base_score(self, targets: TargetStatistics) -> Array:
        """Log of the class frequencies."""
        return log_mean(targets)

    def held_out_parts(
        self, targets: DenseTargets, scores: Array, rows: Array, output_weights: Array | None
    ) -> tuple[Array, Array]:
        """See :class:`DenseObjective`."""
        some = targets.at(rows)
        losses = _cross_entropies(scores, some.classes.clip(0))
        weights = some.known_weights()[:, 0]
        return losses * weights, weights

    def value(self, targets: DenseTargets, scores: Array) -> float:
        """Mean loss of the rows whose class is known."""
        known = targets.classes >= 0
        losses = _cross_entropies(scores[known], targets.classes[known])
        return float(np.average(losses, weights=targets.known_weights()[known, 0]))


def _cross_entropies(scores: Array, classes: Array) -> Array:
    """Cross-entropy of every row, float64; scipy's log_softmax takes several times as long for a few rows."""
    z = scores.astype(np.float64)
    z -= z.max(axis=1, keepdims=True)
    losses: Array = np.log(np.exp(z).sum(axis=1)) - z[np.arange(len(z)), classes]
    return losses
