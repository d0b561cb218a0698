"""Fitting the stage: rows held out for the weight, and the weight that is best on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from sparseleaf._arrays import hash_rows, smallest_hashes
from sparseleaf.metrics import precision_at_k
from sparseleaf.model.model import CANDIDATES
from sparseleaf.rerank.centroids import CentroidRerank, fit_centroids

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features

WEIGHTS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)
DEFAULT_WEIGHT = 0.5
HELD_SHARE = 0.1
MOST_HELD = 4000
FEWEST_ROWS = 50

Topk = Callable[["Features", int], tuple["Array", "Array"]]
"""Rows and k to the k best labels of the trees and their scores."""


def held_out_rows(n_rows: int, seed: int) -> Array:
    """Rows to choose the weight on: a tenth, at most 4,000; none of a set too small to spare them."""
    if n_rows < FEWEST_ROWS:
        return np.empty(0, np.int64)
    return smallest_hashes(hash_rows(n_rows, seed, 7), min(MOST_HELD, int(HELD_SHARE * n_rows)))


def all_but(n_rows: int, held: Array) -> Array:
    """The other rows."""
    return np.setdiff1d(np.arange(n_rows), held, assume_unique=True)


def choose_weight(rerank: CentroidRerank, X: Features, Y: sp.csr_matrix, topk: Topk, n_jobs: int) -> float:
    """β of highest mean P@1, P@3 and P@5 on rows that neither trees nor centroids have seen."""
    if X.shape[0] == 0:
        return DEFAULT_WEIGHT
    labels, scores = topk(X, CANDIDATES)
    found = []
    for weight in WEIGHTS:
        ranked, _ = rerank.with_weight(weight).topk(X, labels, scores, 5, n_jobs)
        found.append(sum(precision_at_k(Y, ranked, k) for k in (1, 3, 5)))
    # the trees' say is the larger, where it makes no difference
    return max(zip(found, WEIGHTS, strict=True))[1]


def fit_rerank(
    mix: str,
    weight: float | str,
    scale: float | None,
    X: Features,
    Y: sp.csr_matrix,
    held: Array,
    topk: Topk,
    n_jobs: int,
) -> CentroidRerank:
    """The stage, its weight chosen on the rows ``held`` (which the trees have not seen) where it is "auto"."""
    if weight == "auto":
        seen = all_but(X.shape[0], held)
        trial = fit_centroids(X[seen], Y[seen], mix, DEFAULT_WEIGHT, scale)
        weight = choose_weight(trial, X[held], Y[held], topk, n_jobs)
    return fit_centroids(X, Y, mix, float(weight), scale)
