"""The decision threshold: the score from which ``predict`` returns a label."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sparseleaf.model.candidates import true_candidates

if TYPE_CHECKING:
    import scipy.sparse as sp

    from sparseleaf._arrays import Array


def best_threshold(scores: sp.csr_matrix, Y: sp.csr_matrix, weights: Array | None = None) -> float | None:
    """The threshold of highest micro-F1; None if no scored label is true.

    ``scores``, ``Y`` and ``weights`` are of validation rows.
    """
    order = np.argsort(-scores.data, kind="stable")
    ranked = scores.data[order]
    hits = true_candidates(scores.indptr, scores.indices, Y)[order]
    if not hits.any():
        return None
    counts, n_true = np.ones(len(hits)), float(Y.nnz)
    if weights is not None:
        counts = np.repeat(weights.astype(np.float64), np.diff(scores.indptr))[order]
        n_true = float(np.repeat(weights.astype(np.float64), np.diff(Y.indptr)).sum())
    f1 = 2 * np.cumsum(hits * counts) / (np.cumsum(counts) + n_true)
    whole = np.append(ranked[1:] != ranked[:-1], True)  # equal scores are on the same side
    return float(ranked[np.argmax(np.where(whole, f1, -1))])
