"""The rows of every tree of a forest: a bootstrap sample, a sample without replacement, or all rows.

Draws are hashes of (seed, tree, draw or row), so that samples do not depend on threads or workers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from sparseleaf._arrays import hash_numbers

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.objectives.targets import DenseTargets

ROWS = 21
"""Purpose of random draws: part of their keys."""

MOST_REPEATS = 16
"""Maximum number of times that a row is in a bootstrap sample, for the range of fixed-point sums. The probability of
more is below 10⁻¹⁴."""


class Samples(Protocol):
    """The rows of every tree."""

    @property
    def bootstrap(self) -> bool:
        """Whether a row can be in the sample of a tree several times."""

    def rows(self, tree: int) -> Array:
        """The sample of a tree, increasing; int32."""

    def oob_rows(self, tree: int) -> Array:
        """The usable rows that are not in the sample of a tree, int32."""


@dataclass(frozen=True)
class Bagging:
    """How the rows of a tree are sampled.

    Attributes
    ----------
    usable : int64 array
        The rows with a positive weight and a known target.
    bootstrap : bool
        Whether rows are drawn with replacement.
    subsample : float
        Number of draws as a fraction of the usable rows.
    seed : int
    """

    usable: Array
    bootstrap: bool
    subsample: float
    seed: int

    @classmethod
    def of(cls, targets: DenseTargets, *, bootstrap: bool, subsample: float, seed: int) -> Bagging:
        """For these rows."""
        usable = np.ones(targets.n_rows, bool)
        if len(targets.weights):
            usable &= (targets.weights > 0).any(axis=1)
        if targets.has_unknown:
            usable &= targets.classes >= 0 if len(targets.classes) else ~np.isnan(targets.values).all(axis=1)
        return cls(np.flatnonzero(usable), bootstrap, subsample, seed)

    @property
    def leaves_out(self) -> bool:
        """Whether trees have out-of-bag rows."""
        return self.bootstrap or self.subsample < 1

    def counts(self, tree: int) -> Array:
        """How often every usable row is in the sample of a tree."""
        n = len(self.usable)
        n_draws = max(1, round(self.subsample * n))
        if self.bootstrap:
            draws = hash_numbers(np.arange(n_draws), self.seed, tree, ROWS) % np.uint64(n)
            counts = np.bincount(draws.astype(np.int64), minlength=n)
            return np.minimum(counts, MOST_REPEATS)
        counts = np.zeros(n, np.int64)
        hashes = hash_numbers(self.usable, self.seed, tree, ROWS)
        counts[np.argpartition(hashes, n_draws - 1)[:n_draws]] = 1
        return counts

    def rows(self, tree: int) -> Array:
        """The sample of a tree, increasing, with repeats; int32."""
        if not self.leaves_out:
            return self.usable.astype(np.int32)
        return np.repeat(self.usable, self.counts(tree)).astype(np.int32)

    def oob_rows(self, tree: int) -> Array:
        """The usable rows that are not in the sample of a tree, int32."""
        rows: Array = self.usable[self.counts(tree) == 0].astype(np.int32)
        return rows
