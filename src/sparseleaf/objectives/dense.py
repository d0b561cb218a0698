"""Losses with a gradient for every (row, output) pair.

For a raw score z and a target y, g is the derivative of the loss with respect to z and h the second derivative or an
upper bound of it.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from sparseleaf import _kernels
from sparseleaf.objectives.base import Objective
from sparseleaf.objectives.targets import BLOCK_ROWS, NO_VALUES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sparseleaf._arrays import Array
    from sparseleaf.objectives.haste import Haste
    from sparseleaf.objectives.mixing import MixingRule
    from sparseleaf.objectives.targets import DenseTargets, TargetStatistics


@dataclass(frozen=True)
class TargetRange:
    """Valid targets of a loss: y >= ``low``, or y > ``low`` if ``above``."""

    words: str
    low: float = -math.inf
    above: bool = False

    def check(self, loss: str, lowest: float) -> None:
        """Raise ValueError if the lowest target is outside the range."""
        if lowest < self.low or (self.above and lowest == self.low):
            raise ValueError(f"loss={loss!r} requires {self.words} y. Got {lowest:g} instead.")


ANY = TargetRange("finite")
NON_NEGATIVE = TargetRange("non-negative", 0.0)
POSITIVE = TargetRange("strictly positive", 0.0, above=True)


@dataclass(frozen=True)
class DenseObjective(Objective):
    """A loss with dense gradients.

    Attributes
    ----------
    constant_hessian : bool
        Whether h is 1 for every pair.
    full_hessian : bool
        Whether the full hessian matrix across outputs is available.
    takes_classes, needs_classes : bool
        Whether targets with one class per row may, or must, be passed as class indices instead of a matrix.
    target_range : TargetRange
        Valid targets.
    grows_with_targets : bool
        Whether the loss of an output is proportional to the variance of its targets.
    held_out_metric : str
        Metric of held-out rows by which training stops; ``held_out_higher_is_better``: whether it measures a gain;
        ``held_out_patience``: rounds without a relative improvement of ``held_out_min_improvement`` after which
        training stops.
    haste : Haste or None
        How bagged models of many rows are trained in less time; None if they take their time.
    measurable : bool
        Whether the loss of held-out rows is known, not only its gradients.
    on_device : bool
        Whether gradients can be computed on a GPU.
    mixing : MixingRule or None
        How the weights of boosted models and a forest of the targets are fitted to held-out rows; None if a forest,
        which minimises squared errors, is not added.
    """

    default_metric: ClassVar[str] = "loss"
    constant_hessian: ClassVar[bool] = False
    full_hessian: ClassVar[bool] = False
    takes_classes: ClassVar[bool] = False
    needs_classes: ClassVar[bool] = False
    target_range: ClassVar[TargetRange] = ANY
    grows_with_targets: ClassVar[bool] = False
    held_out_metric: ClassVar[str] = "loss"
    held_out_higher_is_better: ClassVar[bool] = False
    held_out_patience: ClassVar[int] = 30
    held_out_min_improvement: ClassVar[float] = 0.005
    haste: ClassVar[Haste | None] = None
    measurable: ClassVar[bool] = True
    on_device: ClassVar[bool] = False
    mixing: ClassVar[MixingRule | None] = None

    @property
    def quantile(self) -> float | None:
        """Level of the residual quantile that is the optimal leaf value; None for Newton steps."""
        return None

    @property
    def row_weights(self) -> Array | None:
        """Weights of the rows that are part of the loss, not of the targets; None if there are none."""
        return None

    def at(self, round_number: int) -> DenseObjective:
        """The loss in a boosting round."""
        return self

    def joined(self, parts: Sequence[Self]) -> Self:
        """The loss of all rows, from those of several partitions."""
        return self

    def hessian_room(self, targets: DenseTargets, shape: tuple[int, ...]) -> Array:
        """Allocate hessians: shaped as the scores, one column of weights, or empty if all are 1."""
        return np.empty(shape, np.float32)

    @abstractmethod
    def gradients(
        self, targets: DenseTargets, scores: Array, g: Array, h: Array, n_jobs: int
    ) -> tuple[Array, Array]:
        """Compute g, and h unless it is constant; returns the maximum absolute value of every column."""

    def full_hessians(self, targets: DenseTargets, g: Array, n_jobs: int) -> Array:
        """Packed lower triangle of the hessian matrix of every row, float32, from the gradients g."""
        raise NotImplementedError

    def base_score(self, targets: TargetStatistics) -> Array:
        """The constant score with the lowest loss, float32 (n_outputs,)."""
        return targets.minimiser(self)

    def held_out_parts(
        self, targets: DenseTargets, scores: Array, rows: Array, output_weights: Array | None
    ) -> tuple[Array, Array]:
        """Loss times weight, and weight, of the held-out rows, to whose scores ``scores`` belong; float64.

        Only if the loss is ``measurable``.
        """
        raise NotImplementedError

    @abstractmethod
    def value(self, targets: DenseTargets, scores: Array) -> float:
        """Weighted mean loss over pairs with a known target."""


@dataclass(frozen=True)
class RowObjective(DenseObjective):
    """A loss that is a sum over rows, computed by the kernel function with the name of the loss.

    Attributes
    ----------
    parameter : float
        Numeric parameter of the loss.
    """

    parameter: float = 0.0
    on_device: ClassVar[bool] = True

    def hessian_room(self, targets: DenseTargets, shape: tuple[int, ...]) -> Array:
        """See :class:`DenseObjective`."""
        by_pair = targets.weights.shape[1:] == shape[1:] != (1,)
        if not self.constant_hessian or targets.has_unknown or by_pair:
            return np.empty(shape, np.float32)
        return targets.weights.copy()

    def fills(self, h: Array, targets: DenseTargets, shape: tuple[int, ...]) -> bool:
        """Whether hessians, in the room that there is for them, differ from round to round."""
        differs = not self.constant_hessian or targets.has_unknown or shape[1] > 1
        return h.shape == shape and differs

    def gradients(
        self, targets: DenseTargets, scores: Array, g: Array, h: Array, n_jobs: int
    ) -> tuple[Array, Array]:
        """See :class:`DenseObjective`."""
        d = scores.shape[1]
        filled_h = h if self.fills(h, targets, scores.shape) else NO_VALUES
        largest_g, largest_h = np.empty(d, np.float32), np.empty(d, np.float32)
        _kernels.gradients(
            self.name,
            self.parameter,
            scores,
            targets.values,
            targets.classes,
            targets.weights,
            g,
            filled_h,
            largest_g,
            largest_h,
            n_jobs,
        )
        return largest_g, largest_h if len(filled_h) else h.max(axis=0) if len(h) else np.empty(0, np.float32)

    def value(self, targets: DenseTargets, scores: Array) -> float:
        """See :class:`DenseObjective`."""
        y = np.nan_to_num(targets.values.astype(np.float64))
        each = self.losses(y, scores.astype(np.float64))
        return float(np.average(each, weights=targets.known_weights()))

    def held_out_parts(
        self, targets: DenseTargets, scores: Array, rows: Array, output_weights: Array | None
    ) -> tuple[Array, Array]:
        """See :class:`DenseObjective`."""
        some = targets.at(rows)
        weights = some.known_weights()
        each = self.losses(np.nan_to_num(some.values.astype(np.float64)), scores.astype(np.float64)) * weights
        if output_weights is not None:
            each = each * output_weights
        return each.sum(axis=1), weights.sum(axis=1)

    def losses(self, y: Array, z: Array) -> Array:
        """Loss of every (row, output) pair, float64."""
        raise NotImplementedError


def gradient_sums(
    objective: DenseObjective, targets: DenseTargets, score: Array, scale: Array | None, n_jobs: int
) -> Array:
    """Sum of the gradients of every output at a constant score, times ``scale``, int64.

    Without a scale: the maximum absolute gradient, from which all workers derive a common scale.
    """
    largest, sums = np.zeros(len(score)), np.zeros(len(score), np.int64)
    for begin in range(0, targets.n_rows, BLOCK_ROWS):
        block = targets.rows(slice(begin, begin + BLOCK_ROWS))
        scores = np.repeat(score[None, :].astype(np.float32), block.n_rows, axis=0)
        g, h = np.empty_like(scores), np.empty_like(scores)
        np.maximum(largest, objective.gradients(block, scores, g, h, n_jobs)[0], out=largest)
        if scale is not None:
            sums += np.rint(g * scale).astype(np.int64).sum(axis=0)
    return largest if scale is None else sums


def log_mean(targets: TargetStatistics) -> Array:
    """Logarithm of the mean target: the base score of losses with a log link."""
    sums = targets.sums()
    logarithm: Array = np.log(np.where(sums.mean > 0, sums.mean, sums.rare)).astype(np.float32)
    return logarithm
