"""Conversion of grown routed trees to the flat arrays of a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from sparseleaf._arrays import require_countable
from sparseleaf._steps import encode_steps, quantise
from sparseleaf._threads import in_threads
from sparseleaf.data.weights import NO_WEIGHTS
from sparseleaf.model.frequencies import label_frequencies, narrow_labels, rounded
from sparseleaf.model.routed import RoutedTrees

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.data.weights import TrainingWeights
    from sparseleaf.routed.growth import GrowingTree


LARGEST_WEIGHT = 2**15 - 1
"""Largest integer of a 16-bit router weight."""


@dataclass(frozen=True)
class SplitRecord:
    """Diagnostics of one split of an LdSM tree.

    Attributes
    ----------
    depth : int
        Depth of the node, 0 for the root.
    n_rows : int
        Number of training rows in the node.
    objective : list of float
        Objective J after every epoch.
    balance, purity : float
        β and α of the paper's definitions 1 and 2; 0 is best.

    Examples
    --------
    >>> from sparseleaf import LdSMClassifier
    >>> from sparseleaf.data import make_xc
    >>> X, Y = make_xc(200, 50, 20, labels_per_row=2, nnz_per_row=8)
    >>> clf = LdSMClassifier(n_trees=2, max_nodes=15).fit(X, Y)
    >>> root = clf.split_records_[0][0]
    >>> root.depth, root.n_rows
    (0, 200)
    """

    depth: int
    n_rows: int
    objective: list[float]
    balance: float
    purity: float


@dataclass(frozen=True)
class FrozenTree:
    """A grown tree: its part of :class:`~sparseleaf.model.routed.RoutedTrees`, and records of its splits.

    Attributes
    ----------
    inner : bool array, shape (n_nodes,)
        Whether each node has children; nodes are in level order.
    sizes, features, weights, bias
        Routers of the inner nodes.
    leaf_counts : CSR matrix of float64, shape (n_leaves, n_labels)
        Number, or weight, of the rows of each leaf with the label.
    splits : list of SplitRecord
    scale : float32 array, shape (n_inner,), or empty
        Scale of 8-bit weights.
    leaf_rows : float64 array, shape (n_leaves,), or None
        Number, or weight, of the rows of each leaf, to normalise label counts by rows; None to normalise by label
        occurrences, whose weights then include those of the labels.
    """

    inner: Array
    sizes: Array
    features: Array
    weights: Array
    bias: Array
    leaf_counts: sp.csr_matrix
    splits: list[SplitRecord]
    scale: Array = field(default_factory=lambda: np.empty(0, np.float32))
    leaf_rows: Array | None = None


def freeze_tree(tree: GrowingTree, n_labels: int) -> FrozenTree:
    """Convert a grown tree to arrays in level order."""
    order = [0]
    for number in order:  # extended during the iteration
        first = tree.nodes[number].first_child
        if first >= 0:
            order.extend(range(first, first + tree.arity))
    nodes = [tree.nodes[number] for number in order]
    splits = [(node, node.split) for node in nodes if node.split is not None]
    leaves = [node.histogram for node in nodes if node.histogram is not None]
    return FrozenTree(
        inner=np.array([node.split is not None for node in nodes]),
        sizes=np.array([len(split.features) for _, split in splits], np.int64),
        features=_joined([split.features for _, split in splits], np.int32),
        weights=np.concatenate(
            [np.empty((0, tree.arity), np.float32), *(split.weights for _, split in splits)]
        ),
        bias=np.stack([split.bias for _, split in splits])
        if splits
        else np.empty((0, tree.arity), np.float32),
        leaf_counts=sp.csr_matrix(
            (
                _joined([leaf.counts for leaf in leaves], np.float64),
                _joined([leaf.labels for leaf in leaves], np.int32),
                np.cumsum([0, *(len(leaf.labels) for leaf in leaves)], dtype=np.int64),
            ),
            shape=(len(leaves), n_labels),
        ),
        splits=[
            SplitRecord(node.depth, node.n_rows, split.objective.tolist(), split.balance, split.purity)
            for node, split in splits
        ],
    )


def join_trees(
    trees: Sequence[FrozenTree],
    threshold: float,
    leaf_labels: int | None,
    *,
    feature_weights: Array | None = None,
    unit_rows: bool = False,
    label_weights: Array | None = None,
    n_jobs: int = 1,
) -> RoutedTrees:
    """Join the trees of a model; leaves store the ``leaf_labels`` highest label frequencies.

    Weights and leaf values are rounded to 16 bits here, not when they are saved, so that a saved model returns
    identical predictions.
    """
    require_countable("n_trees", sum(len(tree.inner) for tree in trees), "nodes of all trees")
    totals = [_totals(tree.leaf_counts, tree.leaf_rows) for tree in trees]

    def leaves_of(number: int) -> tuple[Array, Array, Array]:
        tree = trees[number]
        of_labels = None if tree.leaf_rows is None else label_weights
        leaves = label_frequencies(tree.leaf_counts, totals[number], leaf_labels, of_labels, n_jobs)
        return np.diff(leaves.indptr), narrow_labels(leaves), rounded(leaves.data)

    # tree by tree: temporary arrays take a multiple of the memory of the leaves
    leaf_sizes, labels, values = zip(*in_threads(leaves_of, range(len(trees)), n_jobs), strict=True)
    sizes = _joined([tree.sizes for tree in trees], np.int64)
    indptr = np.concatenate(([0], np.cumsum(sizes)))
    _, steps = encode_steps(_joined([tree.features for tree in trees], np.int32), indptr)
    weights, scale = (
        np.concatenate([tree.weights for tree in trees]),
        _joined([tree.scale for tree in trees], np.float32),
    )
    if weights.dtype != np.int8:
        weights, scale = quantise(weights, indptr, LARGEST_WEIGHT)
    return RoutedTrees.from_shape(
        n_nodes=np.array([len(tree.inner) for tree in trees], np.int64),
        inner=_joined([tree.inner for tree in trees], np.bool_),
        router_sizes=sizes,
        router_steps=steps,
        router_weights=weights,
        router_bias=np.concatenate([tree.bias for tree in trees]),
        threshold=threshold,
        leaf_sizes=np.concatenate(leaf_sizes),
        leaf_labels=np.concatenate(labels),
        leaf_values=np.concatenate(values),
        router_scale=scale,
        feature_weights=feature_weights,
        unit_rows=unit_rows,
        leaf_totals=_joined(totals, np.float64),
    )


def all_leaf_counts(trees: Sequence[FrozenTree]) -> sp.csr_matrix:
    """Label counts of the leaves of all trees, (n_leaves, n_labels)."""
    return sp.vstack([tree.leaf_counts for tree in trees], "csr")


def all_leaf_rows(trees: Sequence[FrozenTree]) -> Array | None:
    """Number of rows of the leaves of all trees, if label counts are normalised by rows."""
    counts = [tree.leaf_rows for tree in trees if tree.leaf_rows is not None]
    return np.concatenate(counts) if counts else None


def with_more_rows(
    trees: RoutedTrees,
    grown: Sequence[FrozenTree],
    leaves: sp.csr_matrix,
    Y: sp.csr_matrix,
    leaf_labels: int | None,
    weights: TrainingWeights = NO_WEIGHTS,
    n_jobs: int = 1,
) -> RoutedTrees:
    """Add the labels of more rows to the leaves; ``leaves`` has the leaves that these rows reach."""
    weighted, rows = weights.weighted(Y), all_leaf_rows(grown)
    if rows is not None:
        rows = rows + np.asarray(weights.weighted(sp.csr_matrix(leaves)).sum(axis=0)).ravel()
    elif weights.labels is not None:
        weighted = sp.csr_matrix(weighted @ sp.diags(weights.labels.astype(np.float64)))
    counts, added = all_leaf_counts(grown), sp.csr_matrix(leaves.T @ weighted)
    if rows is None:
        counts, added = sp.csr_matrix(counts + added), None
    totals = _totals(counts, rows)
    of_labels = None if rows is None else weights.labels
    frequencies = label_frequencies(counts, totals, leaf_labels, of_labels, n_jobs, added=added)
    return replace(
        trees,
        leaf_indptr=frequencies.indptr.astype(np.int64),
        leaf_labels=narrow_labels(frequencies),
        leaf_values=rounded(frequencies.data),
        leaf_totals=totals,
    )


def _totals(counts: sp.csr_matrix, rows: Array | None) -> Array:
    """What the counts of each leaf are relative to: its rows, or its label occurrences."""
    totals = np.asarray(counts.sum(axis=1)).ravel() if rows is None else rows
    return totals.astype(np.float64)


def _joined(parts: list[Array], dtype: type[np.generic]) -> Array:
    return np.concatenate([np.empty(0, dtype), *parts]).astype(dtype, copy=False)
