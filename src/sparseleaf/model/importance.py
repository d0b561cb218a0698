"""Feature importances per output or label."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from sparseleaf._arrays import largest_entries
from sparseleaf.model.leaves import vectors_of_leaves

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.model.model import Model
    from sparseleaf.model.trees import Trees

BLOCK_LABELS = 256
"""Labels at a time, which bounds memory."""


def output_importances(model: Model) -> Array:
    """Importance of each feature for each output, float64 (n_features, n_outputs); columns sum to 1.

    The importance of a split for an output is Σ over both children of rows · (mean of the child − mean of the node)²,
    with means of the leaf values below weighted by training rows.
    """
    moved, _ = _moves(model.trees, model.n_labels, None)
    total = moved.sum(axis=0)
    share: Array = moved / np.where(total > 0, total, 1)
    return share


def tree_importances(trees: Trees, n_labels: int, labels: Array) -> sp.csr_matrix:
    """Importances of the columns for labels, as in :func:`output_importances`, CSR (n_labels, n_columns).

    Negative if higher values of the column lower the score, on average over its splits.
    """
    parts = [sp.csr_matrix((0, len(trees.feature_gain)))]
    for begin in range(0, len(labels), BLOCK_LABELS):
        moved, raised = _moves(trees, n_labels, labels[begin : begin + BLOCK_LABELS])
        parts.append(sp.csr_matrix(np.where(raised < 0, -moved, moved).T))
    return normalised_rows(sp.vstack(parts, "csr"))


def normalised_rows(matrix: sp.csr_matrix) -> sp.csr_matrix:
    """Rows divided by their sums of absolute values, if above 0."""
    matrix = sp.csr_matrix(matrix, dtype=np.float64)
    total = np.bincount(
        np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr)), np.abs(matrix.data), matrix.shape[0]
    )
    factor = np.divide(1, total, out=np.zeros(len(total)), where=total > 0)
    data = matrix.data * np.repeat(factor, np.diff(matrix.indptr))
    return sp.csr_matrix((data, matrix.indices, matrix.indptr), shape=matrix.shape)


def mixed_importances(parts: list[tuple[float, sp.csr_matrix]]) -> sp.csr_matrix:
    """Weighted sum of normalised importances."""
    total = sp.csr_matrix(parts[0][1].shape, dtype=np.float64)
    for weight, part in parts:
        total = total + weight * part
    return sp.csr_matrix(total)


def largest_importances(matrix: sp.csr_matrix, most: int) -> sp.csr_matrix:
    """Normalised rows with the ``most`` largest entries each."""
    matrix = sp.csr_matrix(matrix)
    matrix.eliminate_zeros()
    matrix.sort_indices()
    return largest_entries(normalised_rows(matrix), most)


def _moves(trees: Trees, n_labels: int, outputs: Array | None) -> tuple[Array, Array]:
    """Σ of the importances of splits by column, and by how much the right children are above the left ones."""
    if len(trees.cover) != len(trees.feature):
        raise ValueError(
            "Importances per output require the number of training rows per node, which model files of version 1 do"
            " not have. Train the model again."
        )
    width = n_labels if outputs is None else len(outputs)
    moved, raised = np.zeros((2, len(trees.feature_gain), width))
    leaves = _leaf_values(trees, n_labels, outputs)
    for begin, end in zip(trees.tree_offsets[:-1], trees.tree_offsets[1:], strict=True):
        feature, child = trees.feature[begin:end], trees.child[begin:end]
        rows = trees.cover[begin:end].astype(np.float64)[:, None]
        mean = np.zeros((end - begin, width))
        leaf = feature < 0
        mean[leaf] = leaves(child[leaf])
        inner = np.flatnonzero(~leaf)
        for v in inner[::-1]:  # children come after their parent
            left, right = child[v], child[v] + 1
            mean[v] = (rows[left] * mean[left] + rows[right] * mean[right]) / max(rows[v, 0], 1.0)
        left, right = child[inner], child[inner] + 1
        move = rows[left] * (mean[left] - mean[inner]) ** 2 + rows[right] * (mean[right] - mean[inner]) ** 2
        np.add.at(moved, feature[inner], move)
        np.add.at(raised, feature[inner], rows[inner] * (mean[right] - mean[left]))
    return moved, raised


def _leaf_values(trees: Trees, n_labels: int, outputs: Array | None) -> Callable[[Array], Array]:
    """A function from leaf indices to dense rows of values."""
    indptr, labels, values = vectors_of_leaves(trees, n_labels, outputs)
    shape = (len(indptr) - 1, n_labels if outputs is None else len(outputs))
    if not len(labels) and len(values):
        dense = values.reshape(shape)
        return lambda numbers: dense[numbers]
    matrix = sp.csr_matrix((values, labels, indptr), shape=shape)
    return lambda numbers: matrix[numbers].toarray()
