"""Fixed-point scales: gradients as 16-bit integers whose sums over all rows fit 32-bit histograms.

With few rows the limit is the 16 bits of a value, with many rows the 31 bits of a column's sum: with 10⁶ rows the mean
value has 2¹¹ levels, with 10⁹ rows two. With 2⁷ levels or more, values are rounded to nearest. With fewer, most values
would become 0, so rounding is stochastic instead: up with a probability equal to the fraction. The errors have mean 0
and cancel in sums over many rows, which are all that the split search uses. The random draw is a hash of seed, tree,
column and global row index: it does not depend on threads or workers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from sparseleaf._arrays import derive_key

if TYPE_CHECKING:
    from sparseleaf._arrays import Array

LARGEST_SUM = 2**31 - 1
"""Bound of Σ |value| of a column, so that the histogram of any subset of the rows is exact in 32 bits."""

NEAREST_LEVELS = 2**7
"""Levels of the mean value from which values are rounded to nearest: up to 2²⁴ rows."""

ROUNDING = 0x726F756E64
"""Purpose in the keys of the random draws."""

Quantise = Callable[["Array", int | None], "Array"]
"""Quantises columns with these scales, to nearest or, with a key, stochastically; returns Σ |value| of each."""


class ScaleFitter:
    """Finds the scales of every tree.

    Parameters
    ----------
    n_rows : int
        Over all workers.
    seed : int
    repeats : int
        Maximum number of times that a row is in the sample of a tree.
    """

    def __init__(self, n_rows: int, seed: int, repeats: int = 1) -> None:
        self._n_rows = n_rows
        self._seed = seed
        self._largest_sum = LARGEST_SUM // repeats
        self._halvings = np.empty(0)

    def fit(self, quantise: Quantise, largest: Array, groups: Sequence[slice], tree: int) -> Array:
        """The largest scales, by powers of two from ``largest`` down, for which every column's sum fits 31 bits.

        Columns of a group share one scale. The result does not depend on previous trees.
        """
        if NEAREST_LEVELS * self._n_rows <= self._largest_sum:
            return self._fit_nearest(quantise, largest, groups)
        key = derive_key(self._seed, ROUNDING, tree)
        halvings = np.zeros(len(largest))
        while True:
            scales = largest / 2.0**halvings
            # stochastic rounding keeps sums, up to a small relative error
            more = np.ceil(np.log2(np.maximum(quantise(scales, key) / self._largest_sum, 1.0)))
            for group in groups:
                more[group] = more[group].max(initial=0)
            if not more.any():
                return scales
            halvings += more

    def _fit_nearest(self, quantise: Quantise, largest: Array, groups: Sequence[slice]) -> Array:
        """Halve until the sums fit, starting from the previous tree's scales if larger ones provably do not fit."""
        halvings = self._halvings if len(self._halvings) == len(largest) else np.zeros(len(largest))
        guessed = bool(halvings.any())
        while True:
            scales = largest / 2.0**halvings
            sums = quantise(scales, None)
            # a lower bound of the sums with twice the scale, given rounding
            too_much = 2 * sums - 3 * self._n_rows // 2 > self._largest_sum
            over = sums > self._largest_sum
            for group in groups:
                too_much[group], over[group] = too_much[group].any(), over[group].any()
            if guessed and not (too_much | (halvings == 0)).all():
                halvings, guessed = np.zeros(len(largest)), False
                continue
            if not over.any():
                self._halvings = halvings
                return scales
            halvings = halvings + over
