"""Fixed-point scales: gradients as 16-bit integers whose sums over all rows fit 32-bit histograms.

With few rows the 16 bits of a number are the limit, with many the 31 bits of a column's sum: 10⁶ rows leave the mean
number 2¹¹ levels, 10⁹ rows two. Where the mean number has 2⁷ levels or more, numbers are rounded to nearest. With
fewer, those that are close would become equal and most would become 0; there a number is rounded up with the
probability of its fraction instead. Errors then have mean 0 and cancel in the sums over many rows, which are all that
splits are made of. The draw is a hash of seed, tree, column and global row: it is the same for any number of threads
and workers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from sparseleaf._arrays import derive_key

if TYPE_CHECKING:
    from sparseleaf._arrays import Array

LARGEST_SUM = 2**31 - 1
"""Of the magnitudes of a column, so that any histogram of any subset of the rows is exact in 32 bits."""

NEAREST_LEVELS = 2**7
"""Levels of the mean number from which numbers are rounded to nearest: up to 2²⁴ rows."""

ROUNDING = 0x726F756E64
"""Purpose of the draws' keys."""

Quantise = Callable[["Array", int | None], "Array"]
"""Makes integer columns in these scales, rounded to nearest or, with a key, at random; Σ of magnitudes of each."""


class ScaleFitter:
    """Finds the scales of one tree after the other.

    Parameters
    ----------
    n_rows : int
        Over all workers.
    seed : int
    """

    def __init__(self, n_rows: int, seed: int) -> None:
        self._n_rows = n_rows
        self._seed = seed
        self._halvings = np.empty(0)

    def fit(self, quantise: Quantise, largest: Array, groups: Sequence[slice], tree: int) -> Array:
        """The largest scales, by powers of two from ``largest`` down, for which no column's sum passes 31 bits.

        Columns of a group share one scale. The result does not depend on the trees before.
        """
        if NEAREST_LEVELS * self._n_rows <= LARGEST_SUM:
            return self._fit_nearest(quantise, largest, groups)
        key = derive_key(self._seed, ROUNDING, tree)
        halvings = np.zeros(len(largest))
        while True:
            scales = largest / 2.0**halvings
            # a sum is that of the numbers themselves, but for a few of its last digits
            more = np.ceil(np.log2(np.maximum(quantise(scales, key) / LARGEST_SUM, 1.0)))
            for group in groups:
                more[group] = more[group].max(initial=0)
            if not more.any():
                return scales
            halvings += more

    def _fit_nearest(self, quantise: Quantise, largest: Array, groups: Sequence[slice]) -> Array:
        """Halve until sums fit; as often as for the last tree at once, if certain that fewer would not have done."""
        halvings = self._halvings if len(self._halvings) == len(largest) else np.zeros(len(largest))
        guessed = bool(halvings.any())
        while True:
            scales = largest / 2.0**halvings
            sums = quantise(scales, None)
            # numbers are rounded: twice the scale gives at least this
            too_much = 2 * sums - 3 * self._n_rows // 2 > LARGEST_SUM
            over = sums > LARGEST_SUM
            for group in groups:
                too_much[group], over[group] = too_much[group].any(), over[group].any()
            if guessed and not (too_much | (halvings == 0)).all():
                halvings, guessed = np.zeros(len(largest)), False
                continue
            if not over.any():
                self._halvings = halvings
                return scales
            halvings = halvings + over
