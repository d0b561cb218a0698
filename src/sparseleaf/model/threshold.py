"""The decision threshold: the score from which ``predict`` returns a label."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sparseleaf.model.candidates import descending, true_candidates

if TYPE_CHECKING:
    import scipy.sparse as sp

    from sparseleaf._arrays import Array


def best_threshold(
    scores: sp.csr_matrix, Y: sp.csr_matrix, weights: Array | None = None, n_jobs: int = 1
) -> float | None:
    """The threshold of highest micro-F1; None if no scored label is true.

    ``scores``, ``Y`` and ``weights`` are of validation rows.
    """
    hits = true_candidates(scores.indptr, scores.indices, Y, n_jobs)
    if not hits.any():
        return None
    order = descending(scores.data, n_jobs)
    ranked, hits = scores.data[order], hits[order]
    if weights is None:
        f1 = 2 * np.cumsum(hits) / (np.arange(1, len(hits) + 1) + float(Y.nnz))
    else:
        counts = np.repeat(weights.astype(np.float64), np.diff(scores.indptr))[order]
        n_true = float(np.repeat(weights.astype(np.float64), np.diff(Y.indptr)).sum())
        f1 = 2 * np.cumsum(hits * counts) / (np.cumsum(counts) + n_true)
    whole = np.append(ranked[1:] != ranked[:-1], True)  # equal scores are on the same side
    return float(ranked[np.argmax(np.where(whole, f1, -1))])
