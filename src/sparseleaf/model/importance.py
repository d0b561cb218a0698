"""How much every feature moves every output, read off a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from sparseleaf.model.model import with_float_values

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.model.model import Model


def output_importances(model: Model) -> Array:
    """Share of each feature in what moves each output, float64 (n_features, n_outputs).

    A cut moves an output by Σ over its two sides of rows · (mean of the side − mean of the node)²: means are those of
    the leaf values below, by training rows.
    """
    trees = model.trees
    if len(trees.cover) != len(trees.feature):
        raise ValueError("the model holds no numbers of rows; train it again with this version.")
    moved = np.zeros((len(trees.feature_gain), model.n_labels))
    leaves = _leaf_values(model)
    for begin, end in zip(trees.tree_offsets[:-1], trees.tree_offsets[1:], strict=True):
        feature, child = trees.feature[begin:end], trees.child[begin:end]
        rows = trees.cover[begin:end].astype(np.float64)[:, None]
        mean = np.zeros((end - begin, model.n_labels))
        leaf = feature < 0
        mean[leaf] = leaves(child[leaf])
        inner = np.flatnonzero(~leaf)
        for v in inner[::-1]:  # children come after their parent
            left, right = child[v], child[v] + 1
            mean[v] = (rows[left] * mean[left] + rows[right] * mean[right]) / max(rows[v, 0], 1.0)
        left, right = child[inner], child[inner] + 1
        move = rows[left] * (mean[left] - mean[inner]) ** 2 + rows[right] * (mean[right] - mean[inner]) ** 2
        np.add.at(moved, feature[inner], move)
    total = moved.sum(axis=0)
    share: Array = moved / np.where(total > 0, total, 1)
    return share


def _leaf_values(model: Model) -> Callable[[Array], Array]:
    """A function from leaf numbers to dense rows of values."""
    trees = with_float_values(model.trees)
    n_leaves = len(trees.leaf_indptr) - 1
    values = trees.leaf_values.astype(np.float64)
    if not len(trees.leaf_labels):
        dense = values.reshape(n_leaves, model.n_labels)
        return lambda numbers: dense[numbers]
    matrix = sp.csr_matrix((values, trees.leaf_labels, trees.leaf_indptr), shape=(n_leaves, model.n_labels))
    return lambda numbers: matrix[numbers].toarray()
