"""Lists of candidate labels: ranking, and comparison with the true labels.

The candidates of row i are ``labels[starts[i]:starts[i + 1]]``, increasing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import scipy.sparse as sp

    from sparseleaf._arrays import Array
    from sparseleaf.model.attribution import Pairs

PLACES = 100
"""Number of candidates from the trees, or from every member of a blend."""

BLOCK_ROWS = 4096
"""Rows per block, which bounds memory: a row has hundreds of candidates with many columns."""


def topk_of(starts: Array, labels: Array, scores: Array, k: int) -> tuple[Array, Array]:
    """The k best of every list as arrays (n_lists, k); ties go to the lower label."""
    sizes = np.diff(starts)
    width = max(k, int(sizes.max(initial=0)))
    listed = np.arange(width) < sizes[:, None]
    padded = np.full(listed.shape, -np.inf, np.float32)
    padded[listed] = scores
    order = np.argsort(-padded, axis=1, kind="stable")[:, :k]
    names = np.full(listed.shape, -1, np.int32)
    names[listed] = labels
    return np.take_along_axis(names, order, 1), np.take_along_axis(padded, order, 1)


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


def true_candidates(starts: Array, labels: Array, Y: sp.csr_matrix) -> Array:
    """Whether a candidate is a true label of its row."""
    width = np.int64(max(1, Y.shape[1]))
    true_keys = np.repeat(np.arange(Y.shape[0]), np.diff(Y.indptr)) * width + Y.indices
    if not len(true_keys):
        return np.zeros(len(labels), bool)
    true_keys.sort()
    candidate_keys = np.repeat(np.arange(len(starts) - 1), np.diff(starts)) * width + labels
    truth: Array = (
        true_keys[np.searchsorted(true_keys, candidate_keys).clip(max=len(true_keys) - 1)] == candidate_keys
    )
    return truth
