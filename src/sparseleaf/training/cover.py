"""Training rows of leaves and nodes, before and after an update."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.model.trees import Trees


def leaf_cover(trees: Trees, n_rows: int) -> Array:
    """Training rows of every leaf, float64; equal parts of ``n_rows`` for earlier files without ``cover``."""
    is_leaf = trees.feature < 0
    if len(trees.cover):
        return trees.cover[is_leaf].astype(np.float64)
    sizes = np.add.reduceat(is_leaf, trees.tree_offsets[:-1]) if trees.n_trees else np.empty(0, int)
    return np.repeat(n_rows / np.maximum(1, sizes), sizes)


def new_cover(trees: Trees, cover: Array, leaves: Array, keep: float) -> Array:
    """Rows of every node after an update: those of an inner node are the sum of its children's.

    Parameters
    ----------
    trees : Trees
    cover : float64 array, shape (n_leaves,)
        Old rows of every leaf, weighted by ``keep`` and rounded.
    leaves : int32 array, shape (n_rows, n_trees)
        The leaf of every new row in every tree.
    keep : float
    """
    total = np.rint(keep * cover).astype(np.int64) + np.bincount(leaves.ravel(), minlength=len(cover))
    nodes = np.zeros(len(trees.feature), np.int64)
    nodes[trees.feature < 0] = total
    for first, end in zip(trees.tree_offsets[:-1].tolist(), trees.tree_offsets[1:].tolist(), strict=True):
        child = trees.child[first:end]
        for node in np.flatnonzero(trees.feature[first:end] >= 0)[::-1].tolist():  # after its children
            nodes[first + node] = nodes[first + child[node]] + nodes[first + child[node] + 1]
    return nodes.astype(np.uint32)
