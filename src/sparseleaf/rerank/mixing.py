"""Mixing weights of score components, chosen on validation rows."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from sparseleaf import _kernels
from sparseleaf.model.candidates import mixed

if TYPE_CHECKING:
    from sparseleaf._arrays import Array

COARSE = 4
"""The grid search first tries multiples of 1/4."""

STEPS = (0.1, 0.05)
"""Then weight is moved between pairs of components in these steps, as long as precision improves."""

HIT_GAINS = np.array([15 + 5 + 3, 5 + 3, 5 + 3, 3, 3])
"""What a hit at each of the first five ranks adds to P@1 + P@3 + P@5, in fifteenths: with integers, ties are exact."""


class Ranked:
    """Lists of candidates with known relevance, and weights; measures the precision of a ranking of them."""

    def __init__(self, starts: Array, truth: Array, n_jobs: int, weights: Array | None = None) -> None:
        self._starts = np.ascontiguousarray(starts, np.int64)
        self._truth = np.ascontiguousarray(truth, np.uint8)
        self._n_jobs = n_jobs
        self._weights = None if weights is None else weights.astype(np.float64)

    def hits(self, scores: Array) -> Array:
        """Whether the five best of every list are true: (lists, 5)."""
        hits = np.empty((len(self._starts) - 1, 5), np.uint8)
        scores = np.ascontiguousarray(scores, np.float32)
        _kernels.best_hits(self._starts, scores, self._truth, hits, self._n_jobs)
        return hits

    def precision(self, scores: Array) -> float:
        """Σ over lists of weight · (P@1 + P@3 + P@5)."""
        if self._weights is not None:
            return total_gain(self.hits(scores) @ HIT_GAINS, self._weights) / 15
        return float(self.hits(scores).sum(axis=0, dtype=np.int64) @ HIT_GAINS) / 15


def total_gain(gains: Array, weights: Array | None) -> float:
    """Σ weight · gain, the gains of lists in fifteenths."""
    if weights is None:
        return float(gains.sum(dtype=np.int64))
    return float((gains * weights.astype(np.float64, copy=False)).sum())


def choose_weights(
    components: Array,
    starts: Array,
    truth: Array,
    trees: float | None = None,
    *,
    n_jobs: int = 1,
    of_rows: Array | None = None,
) -> Array:
    """Weights of the components, of sum 1 and highest mean P@1, P@3 and P@5; ``trees`` fixes the first.

    ``of_rows`` are the weights of the rows in the mean.
    """
    width = components.shape[1]
    ranked = Ranked(starts, truth, n_jobs, of_rows)

    def precision(weights: Array) -> float:
        return ranked.precision(mixed(components, weights))

    def whole(weights: Array) -> Array:
        if trees is not None:
            rest = weights[1:].sum()
            weights = np.concatenate(
                ([trees], (1 - trees) * (weights[1:] / rest if rest else np.full(width - 1, 1 / (width - 1))))
            )
        return weights.astype(np.float32)

    grid = [
        np.diff((-1, *bars, COARSE + width - 1)) - 1
        for bars in itertools.combinations(range(COARSE + width - 1), width - 1)
    ]
    tried = [
        whole(parts / COARSE) for parts in reversed(grid)
    ]  # in a tie the larger weight of the trees wins
    best = max(tried, key=precision)
    for step in STEPS:
        moved = True
        while moved:
            moved, value = False, precision(best)
            for giver, taker in itertools.permutations(range(width), 2):
                part = min(step, float(best[giver]))
                if part < 1e-6 or (trees is not None and 0 in (giver, taker)):
                    continue
                other = best.copy()
                other[giver] -= part
                other[taker] += part
                if precision(other) > value:
                    best, value, moved = other, precision(other), True
    return best
