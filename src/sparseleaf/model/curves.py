"""Monotone curves from scores to probabilities: isotonic regression, or logistic regression (Platt)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
from scipy.special import expit, logit

from sparseleaf._steps import UNSIGNED, narrow
from sparseleaf._threads import by_rows

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.model.source import StageSource

CLIPPED = 1e-4
"""Scores are clipped to [CLIPPED, 1 - CLIPPED] before their log-odds are taken."""


class Curves(ABC):
    """Several curves, by number."""

    if TYPE_CHECKING:

        @property
        def n_curves(self) -> int:
            """Number of curves."""

    @abstractmethod
    def mapped(self, number: int, scores: Array) -> Array:
        """Probabilities of scores by one curve, non-decreasing."""

    def mapped_by(self, numbers: Array, scores: Array, n_jobs: int = 1) -> Array:
        """Probabilities of scores by the curve of each."""
        values = np.empty(len(scores), np.float32)

        def map_block(block: slice) -> None:
            for number in range(self.n_curves):
                members = np.flatnonzero(numbers[block] == number)
                values[block][members] = self.mapped(number, scores[block][members])

        by_rows(map_block, len(scores), n_jobs)
        return values

    @abstractmethod
    def tensors(self) -> dict[str, Array]:
        """Tensors by name."""

    @classmethod
    @abstractmethod
    def from_tensors(cls, source: StageSource) -> Self:
        """From untrusted tensors; ValueError if they are invalid."""


@dataclass(frozen=True)
class IsotonicCurves(Curves):
    """Piecewise linear curves.

    Attributes
    ----------
    offsets : int64 array, shape (n_curves + 1,)
        Points of every curve.
    x, y : float32 arrays
        Scores and probabilities of the points, non-decreasing within a curve.
    """

    offsets: Array
    x: Array
    y: Array

    @property
    def n_curves(self) -> int:
        """See :class:`Curves`."""
        return len(self.offsets) - 1

    def mapped(self, number: int, scores: Array) -> Array:
        """See :class:`Curves`."""
        points = slice(self.offsets[number], self.offsets[number + 1])
        return np.interp(scores, self.x[points], self.y[points])

    def tensors(self) -> dict[str, Array]:
        """See :class:`Curves`."""
        return {"sizes": narrow(np.diff(self.offsets)), "x": self.x, "y": self.y}

    @classmethod
    def from_tensors(cls, source: StageSource) -> Self:
        """See :class:`Curves`."""
        sizes = source.take("sizes", UNSIGNED, 1).astype(np.int64)
        x, y = source.finite("x", ("F32",), 1), source.finite("y", ("F32",), 1)
        offsets = np.concatenate(([0], np.cumsum(sizes)))
        if len(x) != offsets[-1] or len(y) != len(x) or not len(sizes) or not (sizes > 0).all():
            raise ValueError("sizes must be positive and sum to the lengths of x and y")
        if ((y < 0) | (y > 1)).any():
            raise ValueError("y must be in [0, 1]")
        first = np.zeros(len(x), bool)
        first[offsets[:-1]] = True
        if ((np.diff(x) < 0) | (np.diff(y) < 0))[~first[1:]].any():
            raise ValueError("x and y must not decrease within a curve")
        return cls(offsets, x, y)


@dataclass(frozen=True)
class PlattCurves(Curves):
    """Logistic curves: 1 / (1 + exp(-(slope · s + intercept))).

    Attributes
    ----------
    slope, intercept : float32 arrays, shape (n_curves,)
        Slopes are non-negative.
    log_odds : bool
        Whether s is the log-odds of the score, clipped to (0, 1), instead of the score.
    """

    slope: Array
    intercept: Array
    log_odds: bool

    @property
    def n_curves(self) -> int:
        """See :class:`Curves`."""
        return len(self.slope)

    def mapped(self, number: int, scores: Array) -> Array:
        """See :class:`Curves`."""
        inputs = platt_input(scores, self.log_odds)
        mapped: Array = expit(float(self.slope[number]) * inputs + float(self.intercept[number]))
        return mapped

    def tensors(self) -> dict[str, Array]:
        """See :class:`Curves`."""
        log_odds = np.array([self.log_odds], np.uint8)
        return {"slope": self.slope, "intercept": self.intercept, "log_odds": log_odds}

    @classmethod
    def from_tensors(cls, source: StageSource) -> Self:
        """See :class:`Curves`."""
        slope, intercept = source.finite("slope", ("F32",), 1), source.finite("intercept", ("F32",), 1)
        if not len(slope) or len(intercept) != len(slope) or (slope < 0).any():
            raise ValueError("slope and intercept must have one number per curve, with slopes >= 0")
        return cls(slope, intercept, source.flag("log_odds"))


def platt_input(scores: Array, log_odds: bool) -> Array:
    """What the logistic regression takes: scores, or their log-odds, in float64."""
    numbers = scores.astype(np.float64)
    inputs: Array = logit(np.clip(numbers, CLIPPED, 1 - CLIPPED)) if log_odds else numbers
    return inputs
