"""How the opinions of a learned stage are weighed, fitted on rows that neither trees nor evidence have seen."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from sparseleaf import _kernels

if TYPE_CHECKING:
    import scipy.sparse as sp

    from sparseleaf._arrays import Array
    from sparseleaf.model.model import Model
    from sparseleaf.rerank.learned import Candidates

COARSE = 4
"""Shares are first tried as multiples of a quarter."""

STEPS = (0.1, 0.05)
"""Then moved from one opinion to another by these, as long as it helps."""

HIT_WORTH = np.array([15 + 5 + 3, 5 + 3, 5 + 3, 3, 3])
"""What a hit at each of the first five places adds to P@1 + P@3 + P@5, in fifteenths: equal sums must be equal."""

BOOSTER: dict[str, Any] = {
    "learning_rate": 0.1,
    "max_leaves": 8,
    "min_samples_leaf": 50,
    "advanced": {"places": 10},
}
"""The boosted trees over candidates."""

BOOSTER_TREES = (50, 100)
"""Fewest and most trees of the booster."""

ROWS_PER_TREE = 40
"""Between these, the booster has a tree for so many rows: more overfit, which is why it lost on few rows."""

BOOSTER_CANDIDATES = 50
"""Candidates per row that the booster is trained on, those of highest mean opinion. The others teach it nothing about
the top of the list, and would take two thirds of the time."""


def true_candidates(starts: Array, labels: Array, Y: sp.csr_matrix) -> Array:
    """Whether row i has the label, for every candidate ``labels[starts[i]:starts[i + 1]]``."""
    width = np.int64(max(1, Y.shape[1]))
    own = np.repeat(np.arange(Y.shape[0]), np.diff(Y.indptr)) * width + Y.indices
    row = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    truth: Array = np.isin(row * width + labels, own)
    return truth


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


def mixed(opinions: Array, shares: Array) -> Array:
    """Opinions weighted by their shares; added up in their order, which BLAS does not promise."""
    total: Array = opinions[..., 0] * shares[0]
    for number in range(1, len(shares)):
        total += opinions[..., number] * shares[number]
    return total


def choose_shares(
    opinions: Array, starts: Array, truth: Array, trees: float | None = None, *, n_jobs: int = 1
) -> Array:
    """Shares of the opinions, adding up to 1, of highest mean P@1, P@3 and P@5; ``trees`` fixes the first."""
    width = opinions.shape[1]
    ranked = Ranked(starts, truth, n_jobs)

    def worth(shares: Array) -> float:
        return ranked.worth(mixed(opinions, shares))

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
    found = [whole(parts / COARSE) for parts in reversed(grid)]  # the trees' say is the larger, in a tie
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


def fit_booster(candidates: Candidates, truth: Array, seed: int, n_jobs: int) -> Model:
    """Boosted trees over the columns of candidates: LambdaMART, whose queries are the rows."""
    from sparseleaf.estimators.ranker import GBDTRanker  # it is above this: estimators end with the stage

    n_rows = len(candidates.starts) - 1
    best = highest(candidates.opinions().mean(axis=1), candidates.starts, BOOSTER_CANDIDATES)
    row = np.repeat(np.arange(n_rows), np.diff(candidates.starts))[best]
    sizes = np.bincount(row, minlength=n_rows)
    n_trees = int(np.clip(n_rows // ROWS_PER_TREE, *BOOSTER_TREES))
    booster = GBDTRanker(n_trees=n_trees, **BOOSTER, random_state=seed, n_jobs=n_jobs)
    return booster.fit(candidates.table[best], truth[best].astype(np.int64), group=sizes[sizes > 0]).model_


def highest(scores: Array, starts: Array, most: int) -> Array:
    """Which candidates are among the ``most`` best of their row, the first in a tie."""
    sizes = np.diff(starts)
    order = np.lexsort((-scores, np.repeat(np.arange(len(sizes)), sizes)))
    place = np.empty(len(scores), np.int64)
    place[order] = np.arange(len(scores)) - np.repeat(starts[:-1], sizes)
    kept: Array = place < most
    return kept
