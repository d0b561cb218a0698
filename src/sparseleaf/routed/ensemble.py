"""Grown trees to the flat arrays of a model: nodes in level order, label shares or rates in the leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from sparseleaf._arrays import largest_entries, require_countable
from sparseleaf._steps import encode_steps, quantise
from sparseleaf.model.routed import RoutedTrees

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.routed.growth import GrowingTree


LARGEST_WEIGHT = 2**15 - 1
"""Of routers in 16 bits."""


@dataclass(frozen=True)
class SplitRecord:
    """How well a node was split.

    Attributes
    ----------
    depth : int
        0 for the root.
    n_rows : int
    objective : list of float
        J after every pass over the rows.
    balance, purity : float
        β and α of the paper's definitions 1 and 2: 0 is perfect.
    """

    depth: int
    n_rows: int
    objective: list[float]
    balance: float
    purity: float


@dataclass(frozen=True)
class FrozenTree:
    """A tree that is done: its part of :class:`~sparseleaf.model.routed.RoutedTrees`, and what its splits were like.

    Attributes
    ----------
    inner : bool array, shape (n_nodes,)
        Which nodes have children; nodes are in level order.
    sizes, features, weights, bias
        Routers of the inner nodes.
    leaf_counts : CSR matrix of float64, shape (n_leaves, n_labels)
        Rows of every leaf that have the label.
    splits : list of SplitRecord
    scale : float32 array, shape (n_inner,), or empty
        Of weights in 8 bits.
    leaf_rows : int64 array, shape (n_leaves,), or None
        Rows of every leaf, where leaves are to hold rates, label counts by rows; None for shares, by label occurrences.
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
    """Put a grown tree in level order."""
    order = [0]
    for number in order:  # grows while it is walked
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
) -> RoutedTrees:
    """All trees of a model; leaves hold the ``leaf_labels`` largest shares or rates of the labels.

    Weights and leaf values are rounded to what a file holds of them, 16 bits, here and not when they are saved: a saved
    model predicts what the fitted one does.
    """
    require_countable("n_trees", sum(len(tree.inner) for tree in trees), "nodes of all trees")
    # tree by tree: what is made on the way takes a multiple of the counts
    shares = [_shares(tree.leaf_counts, tree.leaf_rows, leaf_labels) for tree in trees]
    leaves = sp.vstack(shares, "csr")
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
        leaf_sizes=np.diff(leaves.indptr),
        leaf_labels=_narrow_labels(leaves),
        leaf_values=_rounded(leaves.data),
        router_scale=scale,
        feature_weights=feature_weights,
        unit_rows=unit_rows,
    )


def all_leaf_counts(trees: Sequence[FrozenTree]) -> sp.csr_matrix:
    """Label counts of the leaves of all trees: (leaves, labels)."""
    return sp.vstack([tree.leaf_counts for tree in trees], "csr")


def all_leaf_rows(trees: Sequence[FrozenTree]) -> Array | None:
    """Rows of the leaves of all trees, where they hold rates."""
    counts = [tree.leaf_rows for tree in trees if tree.leaf_rows is not None]
    return np.concatenate(counts) if counts else None


def with_more_rows(
    trees: RoutedTrees,
    grown: Sequence[FrozenTree],
    leaves: sp.csr_matrix,
    Y: sp.csr_matrix,
    leaf_labels: int | None,
) -> RoutedTrees:
    """The same routers over leaves that have the labels of more rows as well; ``leaves``: where these rows come to."""
    counts = sp.csr_matrix(all_leaf_counts(grown) + leaves.T @ Y)
    rows = all_leaf_rows(grown)
    if rows is not None:
        rows = rows + np.asarray(leaves.sum(axis=0)).ravel()
    shares = _shares(counts, rows, leaf_labels)
    return replace(
        trees,
        leaf_indptr=shares.indptr.astype(np.int64),
        leaf_labels=_narrow_labels(shares),
        leaf_values=_rounded(shares.data),
    )


def _rounded(shares: Array) -> Array:
    """Shares in 16 bits; one too small for these, which is above 0, stays a candidate."""
    return np.maximum(shares, np.finfo(np.float16).smallest_subnormal).astype(np.float16)


def _narrow_labels(leaves: sp.csr_matrix) -> Array:
    labels: Array = leaves.indices.astype(np.uint16 if leaves.shape[1] <= 2**16 else np.uint32)
    return labels


def _shares(counts: sp.csr_matrix, rows: Array | None, most: int | None) -> sp.csr_matrix:
    """Label counts of a leaf by its rows, or else by its label occurrences; the ``most`` largest, labels rising."""
    totals = np.asarray(counts.sum(axis=1)).ravel() if rows is None else rows
    shares = sp.csr_matrix(sp.diags(1 / np.maximum(1, totals)) @ counts)
    shares.sort_indices()
    return (shares if most is None else largest_entries(shares, most)).astype(np.float32)


def _joined(parts: list[Array], dtype: type[np.generic]) -> Array:
    return np.concatenate([np.empty(0, dtype), *parts]).astype(dtype, copy=False)
