"""How score components are weighed, chosen on rows that neither trees nor evidence have seen."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from sparseleaf import _kernels

if TYPE_CHECKING:
    from sparseleaf._arrays import Array

COARSE = 4
"""Shares are first tried as multiples of a quarter."""

STEPS = (0.1, 0.05)
"""Then moved from one component to another by these, as long as it helps."""

HIT_WORTH = np.array([15 + 5 + 3, 5 + 3, 5 + 3, 3, 3])
"""What a hit at each of the first five places adds to P@1 + P@3 + P@5, in fifteenths: equal sums must be equal."""


class Ranked:
    """Lists of candidates of which it is known which are true: what an order of them is worth."""

    def __init__(self, starts: Array, truth: Array, n_jobs: int) -> None:
        self._starts = np.ascontiguousarray(starts, np.int64)
        self._truth = np.ascontiguousarray(truth, np.uint8)
        self._n_jobs = n_jobs

    def hits(self, scores: Array) -> Array:
        """Whether the five best of every list are true: (lists, 5)."""
        hits = np.empty((len(self._starts) - 1, 5), np.uint8)
        scores = np.ascontiguousarray(scores, np.float32)
        _kernels.best_hits(self._starts, scores, self._truth, hits, self._n_jobs)
        return hits

    def worth(self, scores: Array) -> float:
        """P@1 + P@3 + P@5, times the lists."""
        return float(self.hits(scores).sum(axis=0, dtype=np.int64) @ HIT_WORTH) / 15


def mixed(components: Array, shares: Array) -> Array:
    """Opinions weighted by their shares; added up in their order, which BLAS does not promise."""
    total: Array = components[..., 0] * shares[0]
    for number in range(1, len(shares)):
        total += components[..., number] * shares[number]
    return total


def choose_shares(
    components: Array, starts: Array, truth: Array, trees: float | None = None, *, n_jobs: int = 1
) -> Array:
    """Shares of the components, adding up to 1, of highest mean P@1, P@3 and P@5; ``trees`` fixes the first."""
    width = components.shape[1]
    ranked = Ranked(starts, truth, n_jobs)

    def worth(shares: Array) -> float:
        return ranked.worth(mixed(components, shares))

    def whole(shares: Array) -> Array:
        if trees is not None:
            rest = shares[1:].sum()
            shares = np.concatenate(
                ([trees], (1 - trees) * (shares[1:] / rest if rest else np.full(width - 1, 1 / (width - 1))))
            )
        return shares.astype(np.float32)

    grid = [
        np.diff((-1, *bars, COARSE + width - 1)) - 1
        for bars in itertools.combinations(range(COARSE + width - 1), width - 1)
    ]
    found = [whole(parts / COARSE) for parts in reversed(grid)]  # the trees' share is the larger, in a tie
    best = max(found, key=worth)
    for step in STEPS:
        moved = True
        while moved:
            moved, value = False, worth(best)
            for giver, taker in itertools.permutations(range(width), 2):
                part = min(step, float(best[giver]))
                if part < 1e-6 or (trees is not None and 0 in (giver, taker)):
                    continue
                other = best.copy()
                other[giver] -= part
                other[taker] += part
                if worth(other) > value:
                    best, value, moved = other, worth(other), True
    return best
