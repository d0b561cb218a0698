"""User-defined loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sparseleaf.objectives.dense import DenseObjective

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.objectives.targets import DenseTargets, TargetStatistics

LossFunction = Callable[[Any, Any], tuple[Any, Any]]
"""``loss(targets, scores)`` returns gradient and hessian, both (n_rows, n_outputs); the hessian is >= 0."""


@dataclass(frozen=True)
class Custom(DenseObjective):
    """Gradients and hessians computed by a callable."""

    function: LossFunction

    name = "custom"
    takes_classes = True
    measurable = False

    def gradients(
        self, targets: DenseTargets, scores: Array, g: Array, h: Array, n_jobs: int
    ) -> tuple[Array, Array]:
        """See :class:`DenseObjective`."""
        returned = self.function(targets.classes if len(targets.classes) else targets.values, scores.copy())
        if not isinstance(returned, tuple | list) or len(returned) != 2:
            raise ValueError("The 'loss' function must return a pair (gradient, hessian).")
        known = ~np.isnan(targets.as_matrix())
        for name, into, values in (("gradient", g, returned[0]), ("hessian", h, returned[1])):
            array = np.asarray(values, np.float32)
            if array.shape != scores.shape:
                raise ValueError(
                    f"The 'loss' function must return a {name} of shape {scores.shape}. Got {array.shape} instead."
                )
            into[:] = np.where(known, array, np.float32(0))
            if not np.isfinite(into).all():
                raise ValueError(f"The 'loss' function returned a {name} that is not finite.")
        if h.min(initial=0) < 0:
            raise ValueError("The 'loss' function must return a hessian >= 0. Got a negative one instead.")
        if len(targets.weights):
            np.multiply(g, targets.weights, out=g)
            np.multiply(h, targets.weights, out=h)
        return np.abs(g).max(axis=0, initial=0), h.max(axis=0, initial=0)

    def base_score(self, targets: TargetStatistics) -> Array:
        """Zero, since the scale of the scores is not known."""
        return np.zeros(len(targets.sums().weights), np.float32)

    def value(self, targets: DenseTargets, scores: Array) -> float:
        """Weighted mean ``|gradient|``, since the callable does not return the loss; 0 is optimal."""
        g, h = np.empty_like(scores), np.empty_like(scores)
        self.gradients(targets, scores, g, h, 1)
        return float(np.abs(g, dtype=np.float64).sum() / targets.known_weights().sum())
