"""How much every feature moves every output, read off a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from sparseleaf.model.leaves import leaf_vectors

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
    indptr, labels, values = leaf_vectors(model)
    shape = (len(indptr) - 1, model.n_labels)
    if not len(labels) and len(values):
        dense = values.reshape(shape)
        return lambda numbers: dense[numbers]
    matrix = sp.csr_matrix((values, labels, indptr), shape=shape)
    return lambda numbers: matrix[numbers].toarray()
