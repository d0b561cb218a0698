"""Fitting the stage: rows held out for the weight, and the weight that is best on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from sparseleaf._arrays import hash_rows, smallest_hashes
from sparseleaf.metrics import precision_at_k
from sparseleaf.model.model import CANDIDATES
from sparseleaf.rerank.centroids import CentroidRerank, fit_centroids

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features
    from sparseleaf.model import Model as AnyModel

WEIGHTS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)
DEFAULT_WEIGHT = 0.5
HELD_SHARE = 0.1
MOST_HELD = 4000
FEWEST_ROWS = 50


def held_out_rows(n_rows: int, seed: int) -> Array:
    """Rows to choose the weight on: a tenth, at most 4,000; none of a set too small to spare them."""
    if n_rows < FEWEST_ROWS:
        return np.empty(0, np.int64)
    return smallest_hashes(hash_rows(n_rows, seed, 7), min(MOST_HELD, int(HELD_SHARE * n_rows)))


def all_but(n_rows: int, held: Array) -> Array:
    """The other rows."""
    return np.setdiff1d(np.arange(n_rows), held, assume_unique=True)


def choose_weight(
    rerank: CentroidRerank, X: Features, Y: sp.csr_matrix, trees: AnyModel, n_jobs: int
) -> float:
    """β of highest mean P@1, P@3 and P@5 on rows that neither trees nor centroids have seen."""
    if X.shape[0] == 0:
        return DEFAULT_WEIGHT
    labels, scores = trees.tree_topk(X, CANDIDATES, None, n_jobs)
    found = []
    for weight in WEIGHTS:
        ranked, _ = rerank.with_weight(weight).topk(X, labels, scores, 5, n_jobs)
        found.append(sum(precision_at_k(Y, ranked, k) for k in (1, 3, 5)))
    # the trees' say is the larger, where it makes no difference
    return max(zip(found, WEIGHTS, strict=True))[1]


@dataclass(frozen=True)
class Reranking:
    """The stage of a classifier that is being fitted: which rows the trees see, and what is fitted after them.

    Attributes
    ----------
    mix : str or None
        One of ``MIXES``; None is no stage at all.
    weight : float or "auto"
    scale : float or None
    X, Y
        All training rows.
    held : int array
        Rows that the trees must not see, since the weight is chosen on them.
    judges : (X, Y) or None
        Other rows to choose the weight on.
    """

    mix: str | None
    weight: float | str
    scale: float | None
    X: Features
    Y: sp.csr_matrix
    held: Array
    judges: tuple[Features, sp.csr_matrix] | None

    @classmethod
    def plan(
        cls,
        estimator: Any,
        X: Features,
        Y: sp.csr_matrix,
        seed: int,
        judges: tuple[Features, sp.csr_matrix] | None = None,
    ) -> Reranking:
        """By the estimator's ``rerank``, ``rerank_weight`` and ``rerank_scale``."""
        needed = estimator.rerank is not None and estimator.rerank_weight == "auto" and judges is None
        held = held_out_rows(X.shape[0], seed) if needed else np.empty(0, np.int64)
        return cls(estimator.rerank, estimator.rerank_weight, estimator.rerank_scale, X, Y, held, judges)

    def tree_rows(self) -> tuple[Features, sp.csr_matrix]:
        """What the trees are to be trained on."""
        if not len(self.held):
            return self.X, self.Y
        seen = all_but(self.X.shape[0], self.held)
        return self.X[seen], self.Y[seen]

    def finish(self, trees: AnyModel, n_jobs: int) -> CentroidRerank | None:
        """The stage for these trees; centroids are of all rows."""
        if self.mix is None:
            return None
        weight = self.weight
        if weight == "auto":
            judges = self.judges or (self.X[self.held], self.Y[self.held])
            trial = fit_centroids(*self.tree_rows(), self.mix, DEFAULT_WEIGHT, self.scale)
            weight = choose_weight(trial, *judges, trees, n_jobs)
        return fit_centroids(self.X, self.Y, self.mix, float(weight), self.scale)
