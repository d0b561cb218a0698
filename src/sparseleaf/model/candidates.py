"""Lists of candidate labels: ranking, and comparison with the true labels.

The candidates of row i are ``labels[starts[i]:starts[i + 1]]``, increasing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sparseleaf import _kernels

if TYPE_CHECKING:
    import scipy.sparse as sp

    from sparseleaf._arrays import Array
    from sparseleaf.model.attribution import Pairs

PLACES = 100
"""Number of candidates from the trees, or from every member of a blend."""

BLOCK_ROWS = 4096
"""Rows per block, which bounds memory: a row has hundreds of candidates with many columns."""


def topk_of(starts: Array, labels: Array, scores: Array, k: int, n_jobs: int = 1) -> tuple[Array, Array]:
    """The k best of every list as arrays (n_lists, k), padded with -1 and -inf; ties go to the lower label."""
    shape = len(starts) - 1, k
    best, ranked = np.empty(shape, np.int32), np.empty(shape, np.float32)
    _kernels.best_of_lists(
        np.ascontiguousarray(starts, np.int64),
        np.ascontiguousarray(labels, np.int32),
        np.ascontiguousarray(scores, np.float32),
        best,
        ranked,
        n_jobs,
    )
    return best, ranked


def descending(scores: Array, n_jobs: int = 1) -> Array:
    """Positions of float32 scores, highest first; ties by position."""
    return _kernels.descending_order(np.ascontiguousarray(scores, np.float32), n_jobs)


def mixed(components: Array, weights: Array) -> Array:
    """Weighted sum of components, in their order: BLAS does not guarantee one."""
    total: Array = components[..., 0] * weights[0]
    for number in range(1, len(weights)):
        total += components[..., number] * weights[number]
    return total


def row_of_entry(matrix: sp.csr_matrix) -> Array:
    """Row number of every stored entry."""
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))


def by_rank(matrix: sp.csr_matrix, gains: Array) -> Array:
    """Stored entries of a CSR matrix row by row, highest gain first; ties go to the lower label."""
    return np.lexsort((matrix.indices, -gains, row_of_entry(matrix)))


def look_up(labels: Array, pairs: Pairs) -> tuple[Array, Array]:
    """Whether the labels of pairs are among the candidates of their rows, an array (n_rows, k), and their places."""
    same = labels[pairs.rows] == pairs.labels[:, None]
    return same.any(axis=1), same.argmax(axis=1) if same.shape[1] else np.zeros(len(pairs), np.int64)


def find_pairs(starts: Array, labels: Array, pairs: Pairs, n_labels: int) -> tuple[Array, Array]:
    """Whether pairs are among the candidates of their rows, lists of increasing labels, and their positions."""
    row = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    keys = row * np.int64(n_labels) + labels
    key = pairs.rows * np.int64(n_labels) + pairs.labels
    place = np.searchsorted(keys, key).clip(max=max(0, len(keys) - 1))
    return keys[place] == key if len(keys) else np.zeros(len(key), bool), place


def true_candidates(starts: Array, labels: Array, Y: sp.csr_matrix, n_jobs: int = 1) -> Array:
    """Whether a candidate is a true label of its row."""
    truth = np.empty(len(labels), np.uint8)
    _kernels.mark_true(
        np.ascontiguousarray(starts, np.int64),
        np.ascontiguousarray(labels, np.int32),
        np.ascontiguousarray(Y.indptr, np.int64),
        np.ascontiguousarray(Y.indices, np.int32),
        truth,
        n_jobs,
    )
    return truth.view(bool)
