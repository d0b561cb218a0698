"""Dense targets, a number per (row, output) pair or a class per row, and their statistics."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np

from sparseleaf import _kernels

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.objectives.dense import DenseObjective

NO_VALUES = np.empty((0, 0), np.float32)
NO_CLASSES = np.empty(0, np.int32)
BLOCK_ROWS = 4_096


@dataclass(frozen=True)
class DenseTargets:
    """Targets of some rows.

    Attributes
    ----------
    values : float32 array, shape (n_rows, n_outputs)
        NaN is unknown. Empty if there are classes.
    classes : int32 array, shape (n_rows,)
        One class per row, -1 for unknown. Empty if there are values.
    weights : float32 array, shape (n_rows, 1) or (n_rows, n_outputs)
        Empty if all weights are 1.
    n_outputs : int
    unknown : bool or None
        Whether a target is unknown on any worker; None checks these rows only.
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
        """Properties of the targets, without the rows."""
        columns = self.weights.shape[1] if len(self.weights) else 0
        return TargetForm(self.n_outputs, self.has_unknown, columns)

    @staticmethod
    def join(parts: list[DenseTargets]) -> DenseTargets:
        """Concatenate the targets of several partitions."""
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
        """Targets as a matrix, NaN if unknown; classes are one-hot encoded."""
        if len(self.values):
            return self.values
        matrix = np.zeros((len(self.classes), self.n_outputs), np.float32)
        known = self.classes >= 0
        matrix[known, self.classes[known]] = 1
        matrix[~known] = np.nan
        return matrix

    def rows(self, which: slice) -> DenseTargets:
        """A slice of the rows."""
        parts = self.values[which], self.classes[which], self.weights[which]
        return DenseTargets(*parts, self.n_outputs, self.unknown)

    def at(self, rows: Array) -> DenseTargets:
        """Some of the rows, by index."""
        values, classes, weights = (
            part[rows] if len(part) else part for part in (self.values, self.classes, self.weights)
        )
        return DenseTargets(values, classes, weights, self.n_outputs, self.unknown)

    def known_weights(self) -> Array:
        """Weight of every pair, 0 if the target is unknown; float64 (n_rows, n_outputs)."""
        known = ~np.isnan(self.values) if len(self.values) else np.repeat((self.classes >= 0)[:, None], 1, 1)
        shape = (self.n_rows, self.n_outputs)
        weights = self.weights if len(self.weights) else np.ones((1, 1))
        return np.broadcast_to(known * weights.astype(np.float64), shape)


@dataclass(frozen=True)
class TargetForm:
    """Properties of the targets of all rows.

    Attributes
    ----------
    n_outputs : int
    has_unknown : bool
        Whether a target is unknown.
    weight_columns : int
        0 if all weights are 1, 1 for one weight per row, n_outputs for one per row and output.
    """

    n_outputs: int
    has_unknown: bool
    weight_columns: int


@dataclass(frozen=True)
class TargetSums:
    """Σ weights and Σ weight · target of every output, over known targets.

    Sums are over integers in a scale common to all workers, so that they do not depend on the order of rows.
    """

    weights: Array
    weighted: Array

    @property
    def mean(self) -> Array:
        """Weighted mean of every output, 0 if no target is known."""
        mean: Array = self.weighted / np.where(self.weights > 0, self.weights, 1)
        return mean

    @property
    def rare(self) -> Array:
        """Half a row relative to the total weight: replaces a mean of 0, which has no logarithm."""
        fraction: Array = 0.5 / np.maximum(self.weights, 1)
        return fraction


class TargetStatistics(Protocol):
    """Statistics of the known targets of all workers, per output, from which base scores are computed."""

    def sums(self) -> TargetSums:
        """Σ weights and Σ weight · target."""

    def quantiles(self, level: float) -> Array:
        """Weighted quantile of the targets of every output, float32."""

    def minimiser(self, objective: DenseObjective) -> Array:
        """Constant score that minimises the mean loss of every output, float32."""


@dataclass(frozen=True)
class KnownValues:
    """Values that are not NaN.

    Attributes
    ----------
    counts : int64 array, shape (n_columns,)
        Number of known values of every column.
    lowest, highest : float
        Of all known values: infinity and -infinity if there are none.
    """

    counts: Array
    lowest: float
    highest: float

    @classmethod
    def of(cls, values: Array, n_jobs: int) -> KnownValues:
        """From float32 values."""
        counts = np.empty(values.shape[1], np.int64)
        lowest, highest = _kernels.known_values(values, counts, n_jobs)
        return cls(counts, lowest, highest)

    @property
    def finite(self) -> bool:
        """Whether no value is infinite."""
        return not self.counts.any() or bool(np.isfinite([self.lowest, self.highest]).all())


def largest_targets(targets: DenseTargets, n_jobs: int) -> Array:
    """Maximum weight and maximum |weight · target| of every output, float64 (2, n_outputs)."""
    largest = np.empty((2, targets.n_outputs))
    _kernels.largest_targets(targets.values, targets.classes, targets.weights, largest, n_jobs)
    return largest


def target_sums(targets: DenseTargets, scales: Array, n_jobs: int) -> Array:
    """Σ weights and Σ weight · target, times their scales, int64 (2, n_outputs)."""
    sums = np.empty((2, targets.n_outputs), np.int64)
    _kernels.target_sums(targets.values, targets.classes, targets.weights, scales, sums, n_jobs)
    return sums


def base_quantiles(targets: DenseTargets, level: float) -> Array:
    """Weighted quantile of the targets of every output, float32 (n_outputs,)."""
    weights = targets.known_weights()
    return np.array(
        [_quantile(y, w, level) for y, w in zip(targets.values.T, weights.T, strict=True)], np.float32
    )


def _quantile(values: Array, weights: Array, level: float) -> float:
    known = weights > 0
    values, weights = values[known], weights[known]
    if not len(values):
        return 0.0
    order = np.argsort(values, kind="stable")
    cumulative = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(cumulative, level * cumulative[-1])])
