"""Mixing weights of boosted models and a forest: factors of both scores, fitted to held-out rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from scipy.optimize import minimize

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sparseleaf._arrays import Array
    from sparseleaf.objectives.dense import DenseObjective
    from sparseleaf.objectives.targets import DenseTargets

BOUNDS = ((0.125, 4.0), (0.0, 4.0))
"""Bounds of both weights. Without an upper one, they grow forever if all held-out classes are predicted correctly."""

STEP = 2.0**-8
"""Weights are multiples of this, so that rounding errors of the optimiser do not change the model."""

RATIOS = (0.25, 0.5, 1.0, 2.0)
"""Standard deviation of the forest's scores relative to that of the boosted ones, for losses of rankings."""

ALONE = np.array([1.0, 0.0])
"""The weights of boosted models without a forest."""


@dataclass(frozen=True)
class HeldOut:
    """Scores of rows by the models and trees that left them out.

    Attributes
    ----------
    loss, targets
        Of all rows.
    rows : int array
        The held-out rows, to which the scores belong.
    base_score : float32 array, shape (n_outputs,)
    boosted, forest : float64 arrays, shape (n_held_out, n_outputs)
        Differences from the base score.
    output_weights : float64 array or None
        Weights of the outputs in the loss; None for equal ones.
    """

    loss: DenseObjective
    targets: DenseTargets
    rows: Array
    base_score: Array
    boosted: Array
    forest: Array
    output_weights: Array | None

    def metric(self, weights: Sequence[float] | Array) -> float:
        """Held-out metric of the loss with these weights of both scores."""
        scores = self.base_score + weights[0] * self.boosted + weights[1] * self.forest
        values, of_values = self.loss.held_out_parts(self.targets, scores, self.rows, self.output_weights)
        total = float(of_values.sum())
        return float(values.sum()) / total if total > 0 else 0.0

    def better(self, weights: Array, min_improvement: float) -> Array | None:
        """The weights, rounded; None unless they improve the metric by this fraction."""
        weights = np.rint(weights / STEP) * STEP
        before, after = self.metric(ALONE), self.metric(weights)
        gain = after - before if self.loss.held_out_higher_is_better else before - after
        earned = weights[1] > 0 and gain > min_improvement * abs(before)
        return weights if earned else None


class MixingRule(Protocol):
    """How the weights are fitted."""

    @property
    def min_samples_leaf(self) -> int:
        """Minimum number of rows in a leaf of the forest."""

    @property
    def min_improvement(self) -> float:
        """Relative improvement of the held-out metric without which no forest is added."""

    def weights(self, held_out: HeldOut) -> Array | None:
        """Weights of boosted scores and forest, float64 (2,); None if the forest does not improve the metric."""


class LowestLoss:
    """The weights with the lowest held-out loss, of a loss that is a smooth function of the scores."""

    min_samples_leaf = 1
    min_improvement = 0.005

    def weights(self, held_out: HeldOut) -> Array | None:
        """See :class:`MixingRule`."""
        scale = held_out.metric(ALONE)
        if not scale > 0:
            return None
        fitted = minimize(
            lambda weights: held_out.metric(weights) / scale,
            np.array([1.0, 0.5]),
            method="L-BFGS-B",
            bounds=BOUNDS,
            options={"eps": 1e-6},
        )
        return held_out.better(fitted.x, self.min_improvement)


class BestRatio:
    """The forest in one of a few ratios to the boosted scores: ranking metrics are not smooth, and have no scale."""

    min_samples_leaf = 10
    min_improvement = 0.002

    def weights(self, held_out: HeldOut) -> Array | None:
        """See :class:`MixingRule`."""
        spread = held_out.forest.std()
        if not spread > 0:
            return None
        unit = held_out.boosted.std() / spread
        best = max((np.array([1.0, ratio * unit]) for ratio in RATIOS), key=held_out.metric)
        return held_out.better(best, self.min_improvement)
