"""Dense losses: gradient and curvature of every (row, output) pair, where boosting starts, and what scores mean.

Formulas for a score z and a target y; g is the derivative of the loss with respect to z, h the second one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from scipy.special import expit, log_softmax, softmax

from sparseleaf import _kernels

if TYPE_CHECKING:
    from sparseleaf._arrays import Array

NO_VALUES = np.empty((0, 0), np.float32)
NO_CLASSES = np.empty(0, np.int32)
BLOCK_ROWS = 4_096

LossFunction = Callable[[Any, Any], tuple[Any, Any]]
"""``f(targets, scores)`` answers gradient and curvature, both (n_rows, n_outputs); curvatures are not negative."""


@dataclass(frozen=True)
class DenseTargets:
    """What rows should have.

    Attributes
    ----------
    values : float32 array, shape (n_rows, n_outputs)
        NaN is unknown. No rows where there are classes.
    classes : int32 array, shape (n_rows,)
        One class a row, -1 for unknown. Empty where there are values.
    weights : float32 array, shape (n_rows, 1) or (n_rows, n_outputs)
        No rows where all weigh 1.
    n_outputs : int
    unknown : bool or None
        Whether a target is unknown, here or in rows that live elsewhere; None asks these rows alone.
    """

    values: Array
    classes: Array
    weights: Array
    n_outputs: int
    unknown: bool | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.values) or len(self.classes)

    @cached_property
    def has_unknown(self) -> bool:
        """Whether a target is unknown."""
        if self.unknown is not None:
            return self.unknown
        return bool(np.isnan(self.values).any()) if len(self.values) else bool((self.classes < 0).any())

    @property
    def form(self) -> TargetForm:
        """What there is to fit, without the rows."""
        columns = self.weights.shape[1] if len(self.weights) else 0
        return TargetForm(self.n_outputs, self.has_unknown, columns)

    @staticmethod
    def join(parts: list[DenseTargets]) -> DenseTargets:
        """All rows of several."""
        values, classes, weights = (
            np.concatenate([getattr(part, name) for part in parts])
            if len(getattr(parts[0], name))
            else getattr(parts[0], name)
            for name in ("values", "classes", "weights")
        )
        return DenseTargets(values, classes, weights, parts[0].n_outputs, any(p.has_unknown for p in parts))

    @property
    def any_known(self) -> bool:
        """Whether a target is known."""
        return not np.isnan(self.values).all() if len(self.values) else bool((self.classes >= 0).any())

    def as_matrix(self) -> Array:
        """Targets as numbers, NaN where unknown: for classes, 1 in the column of the row's."""
        if len(self.values):
            return self.values
        matrix = np.zeros((len(self.classes), self.n_outputs), np.float32)
        known = self.classes >= 0
        matrix[known, self.classes[known]] = 1
        matrix[~known] = np.nan
        return matrix

    def rows(self, which: slice) -> DenseTargets:
        """Some of the rows."""
        parts = self.values[which], self.classes[which], self.weights[which]
        return DenseTargets(*parts, self.n_outputs, self.unknown)

    def known_weights(self) -> Array:
        """Weight of every pair, 0 where the target is unknown; float64 (n_rows, n_outputs)."""
        known = ~np.isnan(self.values) if len(self.values) else np.repeat((self.classes >= 0)[:, None], 1, 1)
        shape = (self.n_rows, self.n_outputs)
        weights = self.weights if len(self.weights) else np.ones((1, 1))
        return np.broadcast_to(known * weights.astype(np.float64), shape)


@dataclass(frozen=True)
class TargetForm:
    """What there is to fit, over all rows.

    Attributes
    ----------
    n_outputs : int
    has_unknown : bool
        Whether a target is unknown.
    weight_columns : int
        0 where all weigh 1, 1 for a weight a row, else one for each output.
    """

    n_outputs: int
    has_unknown: bool
    weight_columns: int


@dataclass(frozen=True)
class TargetSums:
    """Σ weights and Σ weight · target of every output, over the known ones.

    They are sums of integers in scales that all shards share, so that the order of rows cannot matter.
    """

    weights: Array
    weighted: Array


def largest_targets(targets: DenseTargets) -> Array:
    """The largest weight, and |weight · target|, of every output: float64 (2, n_outputs)."""
    largest = np.zeros((2, targets.n_outputs))
    for weights, weighted in _weighted_blocks(targets):
        np.maximum(largest[0], weights.max(axis=0, initial=0), out=largest[0])
        np.maximum(largest[1], np.abs(weighted).max(axis=0, initial=0), out=largest[1])
    return largest


def target_sums(targets: DenseTargets, scales: Array) -> Array:
    """Σ weights and Σ weight · target times their scales: int64 (2, n_outputs)."""
    sums = np.zeros((2, targets.n_outputs), np.int64)
    for block in _weighted_blocks(targets):
        for i, values in enumerate(block):
            sums[i] += np.rint(values * scales[i]).astype(np.int64).sum(axis=0)
    return sums


def _weighted_blocks(targets: DenseTargets) -> Iterator[tuple[Array, Array]]:
    for begin in range(0, targets.n_rows, BLOCK_ROWS):  # in float64, of which a block at a time is enough
        block = targets.rows(slice(begin, begin + BLOCK_ROWS))
        weights = block.known_weights()
        yield weights, np.nan_to_num(block.as_matrix() * weights)


class Loss(Protocol):
    """A loss with a gradient for every (row, output) pair."""

    @property
    def name(self) -> str:
        """What users write."""

    @property
    def curved(self) -> bool:
        """Whether the curvature differs from 1."""

    @property
    def quantile(self) -> float | None:
        """The quantile of its residuals that is a leaf's best value, for losses whose curvature says nothing."""

    def at(self, round_number: int) -> Loss:
        """The loss as it is in a round."""

    def curvature_room(self, targets: DenseTargets, shape: tuple[int, ...]) -> Array:
        """Room for curvatures: as the scores, one column of weights, or none where all are 1."""

    def gradients(
        self, targets: DenseTargets, scores: Array, g: Array, h: Array, n_jobs: int
    ) -> tuple[Array, Array]:
        """Fill g, and h where it differs from row to row; the largest absolute value of every column."""

    def matrices(self, targets: DenseTargets, scores: Array, g: Array, n_jobs: int) -> Array:
        """The packed lower triangle of every row's matrix of curvatures, float32."""

    def base_score(self, sums: TargetSums) -> Array:
        """The best score that is the same for all rows, float32 (n_outputs,); not for a quantile."""

    def joined(self, parts: list[Loss]) -> Loss:
        """The loss of all rows, from those of some."""

    def predict(self, scores: Array) -> Array:
        """What scores mean."""

    def value(self, targets: DenseTargets, scores: Array) -> float:
        """Mean loss."""


@dataclass(frozen=True)
class DenseLoss:
    """A loss that the kernels know by its code.

    Attributes
    ----------
    name : str
    code : int
    curved : bool
        Whether h differs from 1.
    by_class : bool
        Whether a row has one class, and outputs depend on each other.
    parameter : float
        δ of Huber, the share of quantile.
    """

    name: str
    code: int
    curved: bool
    by_class: bool = False
    parameter: float = 0.0

    @property
    def quantile(self) -> float | None:
        """The quantile of its residuals that is a leaf's best value, for losses whose h says nothing."""
        return {"absolute": 0.5, "quantile": self.parameter}.get(self.name)

    def at(self, round_number: int) -> Loss:
        """The loss as it is in a round: the same in each."""
        return self

    def curvature_room(self, targets: DenseTargets, shape: tuple[int, ...]) -> Array:
        """Room for curvatures: as the scores, one column of weights, or none where all are 1."""
        if self.curved or targets.has_unknown or targets.weights.shape[1:] == shape[1:] != (1,):
            return np.empty(shape, np.float32)
        return targets.weights.copy()

    def gradients(
        self, targets: DenseTargets, scores: Array, g: Array, h: Array, n_jobs: int
    ) -> tuple[Array, Array]:
        """Fill g, and h where it differs from row to row; the largest absolute value of every column."""
        d = scores.shape[1]
        own_h = h if h.shape == scores.shape and (d > 1 or self._fills_one_column(targets)) else NO_VALUES
        largest_g, largest_h = np.empty(d, np.float32), np.empty(d, np.float32)
        _kernels.gradients(
            self.code,
            self.parameter,
            scores,
            targets.values,
            targets.classes,
            targets.weights,
            g,
            own_h,
            largest_g,
            largest_h,
            n_jobs,
        )
        return largest_g, largest_h if len(own_h) else h.max(axis=0) if len(h) else np.empty(0, np.float32)

    def _fills_one_column(self, targets: DenseTargets) -> bool:
        return self.curved or targets.has_unknown

    def matrices(self, targets: DenseTargets, scores: Array, g: Array, n_jobs: int) -> Array:
        """The packed lower triangle of every row's matrix of curvatures, float32."""
        d = scores.shape[1]
        out = np.empty((len(scores), d * (d + 1) // 2), np.float32)
        _kernels.softmax_hessians(g, targets.classes, targets.weights, out, n_jobs)
        return out

    def joined(self, parts: list[Loss]) -> Loss:
        """The loss of all rows, which is that of any."""
        return self

    def base_score(self, sums: TargetSums) -> Array:
        """The best score that is the same for all rows, float32 (n_outputs,); not for a quantile."""
        total = sums.weights
        mean: Array = sums.weighted / np.where(total > 0, total, 1)
        rare = 0.5 / np.maximum(total, 1)  # an output that is never (or always) on has no log-odds
        if self.name == "logistic":
            mean = mean.clip(rare, 1 - rare)
            mean = np.log(mean / (1 - mean))
        elif self.name in ("softmax", "poisson"):
            mean = np.log(np.maximum(mean, rare))
        start: Array = mean.astype(np.float32)
        return start

    def predict(self, scores: Array) -> Array:
        """What scores mean: probabilities, rates, or themselves."""
        if self.name == "logistic":
            probabilities: Array = expit(scores)
            return probabilities
        if self.name == "softmax":
            shares: Array = softmax(scores, axis=1)
            return shares
        return np.exp(scores) if self.name == "poisson" else scores

    def value(self, targets: DenseTargets, scores: Array) -> float:
        """Mean loss over rows and outputs, by weight; for softmax, over rows."""
        z = scores.astype(np.float64)
        weights = targets.known_weights()
        if self.by_class:
            known = targets.classes >= 0
            own = -log_softmax(z[known], axis=1)[np.arange(known.sum()), targets.classes[known]]
            return float(np.average(own, weights=weights[known, 0]))
        y = np.nan_to_num(targets.values.astype(np.float64))
        r = np.abs(y - z)
        if self.name == "mse":
            each = r**2
        elif self.name == "absolute":
            each = r
        elif self.name == "logistic":
            each = np.logaddexp(0, z) - y * z
        elif self.name == "poisson":
            each = np.exp(z) - y * z
        elif self.name == "huber":
            each = np.where(r <= self.parameter, r**2 / 2, self.parameter * (r - self.parameter / 2))
        else:
            each = np.maximum(self.parameter * (y - z), (self.parameter - 1) * (y - z))
        return float(np.average(each, weights=weights))


@dataclass(frozen=True)
class CustomLoss:
    """A loss that a user wrote: gradient and curvature from a function of targets and scores."""

    function: LossFunction
    name: str = "custom"
    curved: bool = True
    by_class: bool = False
    quantile: float | None = None

    def at(self, round_number: int) -> Loss:
        """See :class:`DenseLoss`."""
        return self

    def curvature_room(self, targets: DenseTargets, shape: tuple[int, ...]) -> Array:
        """See :class:`DenseLoss`."""
        return np.empty(shape, np.float32)

    def gradients(
        self, targets: DenseTargets, scores: Array, g: Array, h: Array, n_jobs: int
    ) -> tuple[Array, Array]:
        """See :class:`DenseLoss`."""
        found = self.function(targets.classes if len(targets.classes) else targets.values, scores.copy())
        if not isinstance(found, tuple | list) or len(found) != 2:
            raise ValueError(
                "loss: found a function that does not answer a pair; wanted (gradient, curvature)."
            )
        known = ~np.isnan(targets.as_matrix())
        for name, into, values in (("gradient", g, found[0]), ("curvature", h, found[1])):
            array = np.asarray(values, np.float32)
            if array.shape != scores.shape:
                raise ValueError(f"loss: found a {name} of shape {array.shape}; wanted {scores.shape}.")
            into[:] = np.where(known, array, np.float32(0))
            if not np.isfinite(into).all():
                raise ValueError(f"loss: found a {name} that is not finite.")
        if h.min(initial=0) < 0:
            raise ValueError("loss: found a negative curvature; wanted 0 or more.")
        if len(targets.weights):
            np.multiply(g, targets.weights, out=g)
            np.multiply(h, targets.weights, out=h)
        return np.abs(g).max(axis=0, initial=0), h.max(axis=0, initial=0)

    def matrices(self, targets: DenseTargets, scores: Array, g: Array, n_jobs: int) -> Array:
        """No function gives a matrix."""
        raise NotImplementedError

    def joined(self, parts: list[Loss]) -> Loss:
        """See :class:`DenseLoss`."""
        return self

    def base_score(self, sums: TargetSums) -> Array:
        """Zero: only the function's author would know better."""
        return np.zeros(len(sums.weights), np.float32)

    def predict(self, scores: Array) -> Array:
        """Scores as they are."""
        return scores

    def value(self, targets: DenseTargets, scores: Array) -> float:
        """Mean |gradient| by weight: a function of gradients does not tell its value, but 0 is the best."""
        g, h = np.empty_like(scores), np.empty_like(scores)
        self.gradients(targets, scores, g, h, 1)
        return float(np.abs(g, dtype=np.float64).sum() / targets.known_weights().sum())


def base_quantiles(targets: DenseTargets, share: float) -> Array:
    """The quantile of every output's targets, by weight: float32 (n_outputs,)."""
    weights = targets.known_weights()
    return np.array(
        [_quantile(y, w, share) for y, w in zip(targets.values.T, weights.T, strict=True)], np.float32
    )


def _quantile(values: Array, weights: Array, share: float) -> float:
    known = weights > 0
    values, weights = values[known], weights[known]
    if not len(values):
        return 0.0
    order = np.argsort(values, kind="stable")
    so_far = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(so_far, share * so_far[-1])])


REGRESSION_LOSSES = ("mse", "absolute", "huber", "quantile", "poisson")
CLASSIFICATION_LOSSES = ("logistic", "softmax")


def dense_loss(loss: str | LossFunction) -> Loss:
    """The loss of that name, or around that function; ``"huber:2"`` and ``"quantile:0.9"`` carry their number."""
    if callable(loss):
        return CustomLoss(loss)
    name, _, number = loss.partition(":")
    return {
        "mse": DenseLoss("mse", 0, False),
        "logistic": DenseLoss("logistic", 1, True),
        "softmax": DenseLoss("softmax", 2, True, by_class=True),
        "absolute": DenseLoss("absolute", 3, False),
        "huber": DenseLoss("huber", 4, False, parameter=float(number or 1.0)),
        "quantile": DenseLoss("quantile", 5, False, parameter=float(number or 0.5)),
        "poisson": DenseLoss("poisson", 6, True),
    }[name]
