"""What Shapley values of trees need beside the rows: made once per model, which takes longer than explaining a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sparseleaf import _kernels
from sparseleaf.model.leaves import vectors_of_leaves

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.model.trees import Trees


@dataclass(frozen=True)
class ShapTables:
    """Tables of a model's trees.

    Attributes
    ----------
    columns : int32 array
        Columns that the trees split on, increasing.
    trees : ShapTrees
        Nodes, with columns numbered as in ``columns``, and leaf values by label.
    expected : float64 array, shape (n_labels,)
        Mean scores of the training rows, without the base score.
    """

    columns: Array
    trees: _kernels.ShapTrees
    expected: Array

    @classmethod
    def of(cls, trees: Trees, n_labels: int) -> ShapTables:
        """Tables of trees whose nodes have a cover."""
        inner = trees.feature >= 0
        columns = np.unique(trees.feature[inner])
        feature = np.full(len(trees.feature), -1, np.int32)
        feature[inner] = np.searchsorted(columns, trees.feature[inner])
        vectors = vectors_of_leaves(trees, n_labels)
        prepared = _kernels.ShapTrees(
            trees.tree_offsets,
            feature,
            trees.threshold,
            trees.missing_left,
            trees.child,
            trees.cover,
            trees.categorical[columns] if len(trees.categorical) else trees.categorical,
            trees.sets,
            len(columns),
            *_by_label(*vectors, n_labels),
            n_labels,
        )
        return cls(columns, prepared, mean_leaf(trees, *vectors, n_labels))


def mean_leaf(trees: Trees, indptr: Array, labels: Array, values: Array, n_outputs: int) -> Array:
    """Σ over trees of the mean leaf values weighted by cover, float64 (n_outputs,)."""
    leaf = trees.feature < 0
    roots = np.repeat(trees.cover[trees.tree_offsets[:-1]], np.diff(trees.tree_offsets))
    share = trees.cover[leaf] / roots[leaf].astype(np.float64)  # leaves are numbered in order of node
    terms = values * np.repeat(share, np.diff(indptr))
    if len(labels) or not len(values):
        return np.bincount(labels, terms, n_outputs).astype(np.float64)
    mean: Array = terms.reshape(-1, n_outputs).sum(axis=0)
    return mean


def _by_label(indptr: Array, labels: Array, values: Array, n_labels: int) -> tuple[Array, Array, Array]:
    """Where the entries of every label begin, their leaves and values; no beginnings if leaves have all labels."""
    if not len(labels) and len(values):
        return np.empty(0, np.int64), np.empty(0, np.int32), values
    order = np.argsort(labels, kind="stable")
    starts = np.concatenate(([0], np.cumsum(np.bincount(labels, minlength=n_labels)))).astype(np.int64)
    leaf = np.repeat(np.arange(len(indptr) - 1, dtype=np.int32), np.diff(indptr))
    return starts, leaf[order], values[order]
