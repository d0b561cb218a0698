"""Trees whose nodes split on one feature, as concatenated flat arrays."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from sparseleaf._arrays import require_countable

if TYPE_CHECKING:
    from sparseleaf._arrays import Array

SET_BYTES = 32
"""A set of up to 256 bins, one bit each."""

LARGEST_SHORT = 2**15 - 1
"""Of a 16-bit leaf value."""


@dataclass(frozen=True)
class Trees:
    """All trees of a model.

    Attributes
    ----------
    tree_offsets : int64 array, shape (n_trees + 1,)
        First node of every tree; its nodes are in level order.
    feature : int32 array, shape (n_nodes,)
        -1 in a leaf.
    threshold : float32 array, shape (n_nodes,)
        ``x <= threshold`` goes left.
    missing_left : uint8 array, shape (n_nodes,)
        Whether NaN goes left.
    child : int32 array, shape (n_nodes,)
        The left child, relative to the tree's first node; the right one follows. In a leaf, its index over all trees.
    leaf_indptr : int64 array, shape (n_leaves + 1,)
    leaf_labels : uint16 array, or uint32 for more than 65,536 labels
        Increasing within a leaf. Empty if every leaf has a value for each label.
    leaf_values : float32 or int16 array
    value_scale : float32 array, shape (n_trees,), or empty for float32 values
        Factor of the 16-bit values of a tree.
    feature_gain : float64 array, shape (n_tree_features,)
        Σ gain of the splits on every feature.
    cover : uint32 array, shape (n_nodes,), or empty
        Training rows of every node.
    categorical : uint8 array, shape (n_tree_features,), or empty
        Whether a feature is categorical; the thresholds of its splits are rows of ``sets``.
    sets : uint8 array, shape (n_sets, 32)
        Categories that go left, one bit each.
    """

    tree_offsets: Array
    feature: Array
    threshold: Array
    missing_left: Array
    child: Array
    leaf_indptr: Array
    leaf_labels: Array
    leaf_values: Array
    value_scale: Array
    feature_gain: Array
    cover: Array = field(default_factory=lambda: np.empty(0, np.uint32))
    categorical: Array = field(default_factory=lambda: np.empty(0, np.uint8))
    sets: Array = field(default_factory=lambda: np.empty((0, SET_BYTES), np.uint8))

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.tree_offsets) - 1

    def depths(self) -> Array:
        """Depth of every tree.

        Children come after their parents, so one pass in order of nodes suffices, over node v of all trees at once.
        (A level-order traversal might not terminate on an untrusted file, in which nodes may share children.)
        """
        starts, sizes = self.tree_offsets[:-1], np.diff(self.tree_offsets)
        depth = np.zeros(len(self.feature), np.int64)
        deepest = np.zeros(len(starts), np.int64)
        for v in range(int(sizes.max(initial=0))):
            tree = np.flatnonzero(sizes > v)
            node = starts[tree] + v
            deepest[tree] = np.maximum(deepest[tree], depth[node])
            inner = self.feature[node] >= 0
            left = starts[tree[inner]] + self.child[node[inner]]
            for child in (left, left + 1):
                depth[child] = np.maximum(depth[child], depth[node[inner]] + 1)
        return deepest


def join_trees(first: Trees, more: Trees) -> Trees:
    """Append trees for the same features and labels, whose ``feature_gain`` includes that of ``first``."""
    first, more = with_float_values(first), with_float_values(more)
    first, more = _with_labels(first, more), _with_labels(more, first)
    n_leaves = len(first.leaf_indptr) - 1
    require_countable("n_trees", len(first.feature) + len(more.feature), "nodes of all trees")
    categorical = first.categorical if len(first.categorical) else more.categorical
    unordered = np.zeros(len(more.feature), bool)
    if len(categorical):
        unordered = (more.feature >= 0) & (categorical[more.feature] > 0)
    return Trees(
        np.concatenate((first.tree_offsets, more.tree_offsets[1:] + first.tree_offsets[-1])),
        np.concatenate((first.feature, more.feature)),
        np.concatenate(
            (
                first.threshold,
                np.where(unordered, more.threshold + np.float32(len(first.sets)), more.threshold),
            )
        ),
        np.concatenate((first.missing_left, more.missing_left)),
        np.concatenate(
            (first.child, np.where(more.feature >= 0, more.child, more.child + np.int32(n_leaves)))
        ),
        np.concatenate((first.leaf_indptr, more.leaf_indptr[1:] + first.leaf_indptr[-1])),
        np.concatenate((first.leaf_labels, more.leaf_labels)),
        np.concatenate((first.leaf_values, more.leaf_values)),
        first.value_scale,
        more.feature_gain,
        np.concatenate((first.cover, more.cover)),
        categorical,
        np.concatenate((first.sets, more.sets)),
    )


def with_float_values(trees: Trees) -> Trees:
    """Convert 16-bit leaf values to float32."""
    if not len(trees.value_scale):
        return trees
    first = np.concatenate(([0], np.cumsum(trees.feature < 0)))[trees.tree_offsets]
    scale = np.repeat(trees.value_scale, np.diff(trees.leaf_indptr[first]))
    return replace(
        trees, leaf_values=scale * trees.leaf_values.astype(np.float32), value_scale=np.empty(0, np.float32)
    )


def with_short_values(trees: Trees) -> Trees:
    """Round leaf values to 16-bit integers with a scale per tree."""
    n_leaves = (
        np.add.reduceat(trees.feature < 0, trees.tree_offsets[:-1]) if trees.n_trees else np.empty(0, int)
    )
    first = trees.leaf_indptr[np.concatenate(([0], np.cumsum(n_leaves)))].astype(np.int64)
    tree = np.repeat(np.arange(trees.n_trees), np.diff(first))
    largest = np.zeros(trees.n_trees, np.float32)
    np.maximum.at(largest, tree, np.abs(trees.leaf_values))
    scale = short_scale(largest)
    return replace(trees, leaf_values=short_values(trees.leaf_values, scale[tree]), value_scale=scale)


def with_scaled_values(trees: Trees, factor: float) -> Trees:
    """Multiply the leaf values by ``factor``."""
    if len(trees.value_scale):
        return replace(trees, value_scale=trees.value_scale * np.float32(factor))
    return replace(trees, leaf_values=trees.leaf_values * np.float32(factor))


def _with_labels(trees: Trees, other: Trees) -> Trees:
    """Make labels explicit, if those of ``other`` are."""
    if len(trees.leaf_labels) or not len(trees.leaf_values) or not len(other.leaf_labels):
        return trees
    n_leaves = len(trees.leaf_indptr) - 1
    labels = np.tile(np.arange(len(trees.leaf_values) // n_leaves), n_leaves)
    return replace(trees, leaf_labels=labels.astype(other.leaf_labels.dtype))


def short_scale(largest: Array) -> Array:
    """Scale of 16-bit leaf values: the smallest power of two with which the largest fits.

    Products with a power of two are exact, so that rounding is idempotent.
    """
    fraction, exponent = np.frexp(np.asarray(largest, np.float64) / LARGEST_SHORT)
    exponent = np.maximum(exponent - (fraction == 0.5), -149)  # the smallest float32
    scale: Array = np.where(largest > 0, np.ldexp(1.0, exponent), 1.0).astype(np.float32)
    return scale


def short_values(values: Array, scale: Array) -> Array:
    """Leaf values as 16-bit integers; no value is rounded to 0, so that every label stays a candidate."""
    integers = np.rint(values / scale).clip(-LARGEST_SHORT, LARGEST_SHORT)
    return np.where(integers == 0, np.sign(values), integers).astype(np.int16)
