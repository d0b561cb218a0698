"""Lists of candidate labels, one for each row: ranked, and compared with the true labels.

Candidates of row i are ``labels[starts[i]:starts[i + 1]]``, rising by label.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import scipy.sparse as sp

    from sparseleaf._arrays import Array

PLACES = 100
"""Labels of the trees, or of every member of a blend, that are candidates."""

BLOCK_ROWS = 4096
"""Rows at a time: a row has hundreds of candidates, and much is known of each."""


def topk_of(starts: Array, labels: Array, scores: Array, k: int) -> tuple[Array, Array]:
    """The k best of every list as arrays (n_lists, k); equal scores go to the lower label."""
    sizes = np.diff(starts)
    width = max(k, int(sizes.max(initial=0)))
    held = np.arange(width) < sizes[:, None]
    padded = np.full(held.shape, -np.inf, np.float32)
    padded[held] = scores
    order = np.argsort(-padded, axis=1, kind="stable")[:, :k]
    names = np.full(held.shape, -1, np.int32)
    names[held] = labels
    return np.take_along_axis(names, order, 1), np.take_along_axis(padded, order, 1)


def true_candidates(starts: Array, labels: Array, Y: sp.csr_matrix) -> Array:
    """Whether row i has the label, for every candidate."""
    width = np.int64(max(1, Y.shape[1]))
    own = np.repeat(np.arange(Y.shape[0]), np.diff(Y.indptr)) * width + Y.indices
    if not len(own):
        return np.zeros(len(labels), bool)
    own.sort()
    wanted = np.repeat(np.arange(len(starts) - 1), np.diff(starts)) * width + labels
    truth: Array = own[np.searchsorted(own, wanted).clip(max=len(own) - 1)] == wanted
    return truth
