"""From a ranking to a set of labels: the score from which a label is returned."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sparseleaf.model.candidates import true_candidates

if TYPE_CHECKING:
    import scipy.sparse as sp


def best_threshold(scores: sp.csr_matrix, Y: sp.csr_matrix) -> float | None:
    """The score of highest micro-F1 where labels that reach it are returned; None where no scored label is true.

    ``scores`` are of rows that training has not seen, and ``Y`` are their labels.
    """
    order = np.argsort(-scores.data, kind="stable")
    ranked = scores.data[order]
    hits = np.cumsum(true_candidates(scores.indptr, scores.indices, Y)[order])
    if not len(hits) or not hits[-1]:
        return None
    f1 = 2 * hits / (np.arange(1, len(hits) + 1) + Y.nnz)
    whole = np.append(ranked[1:] != ranked[:-1], True)  # equal scores are returned together
    return float(ranked[np.argmax(np.where(whole, f1, -1))])
