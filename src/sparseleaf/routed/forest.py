"""The sketch forest's trees: rows parted by sketched labels, routers between the parts' mean rows.

Nodes are split by ``cpp/forest.cpp``; here trees grow, level by level, several at once, so that a kernel's call has
the nodes of a level of all of them to share out among threads. What comes of a node depends on its rows and its key
alone, and its key on seed, tree and way from the root: neither threads nor the trees beside it can change it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from sparseleaf import _kernels
from sparseleaf._arrays import csr_parts, derive_key, hash_numbers, mix64
from sparseleaf._threads import in_threads
from sparseleaf.rerank.centroids import rarity
from sparseleaf.routed.ensemble import FrozenTree
from sparseleaf.routed.growth import trees_abreast

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features

ROUNDS = 4
"""Rounds of k-means; more gain nothing."""

SAMPLE_ROWS = 2000
"""Rows of a node that k-means sees."""

WEIGHTS_PER_ROW = 4.0
"""Weights that a router may have for every row of its node: few rows need few, and most routers are deep down."""

DEPTH_LIMIT = 1000
"""Levels of a tree; only rows that no router can halve come anywhere near."""


@dataclass(frozen=True)
class ForestRule:
    """How nodes are split; see :class:`~sparseleaf.SketchForestClassifier`."""

    arity: int
    min_samples_leaf: int
    max_depth: int | None
    sketch_dim: int
    label_weight: float
    router_weights: int
    max_features: float


@dataclass(frozen=True)
class FeatureView:
    """How routers see rows.

    Attributes
    ----------
    weights : float32 array, shape (n_features,), or empty
        What features are multiplied by.
    unit_rows : bool
        Whether rows are then brought to length 1.
    """

    weights: Array
    unit_rows: bool

    @classmethod
    def of(cls, X: Features) -> FeatureView:
        """Sparse rows count by their angles, features that are only there or not by rarity; dense ones by deviation."""
        if sp.issparse(X):
            return cls(rarity(X), True)
        deviation = X.std(axis=0, dtype=np.float64)
        sound = (
            (deviation > 1e-6 * np.abs(X).max(axis=0, initial=0)) & (deviation > 1e-30) & (deviation < 1e30)
        )
        return cls((sound / np.where(sound, deviation, 1)).astype(np.float32), False)


class SketchForest:
    """Grows trees on the given rows.

    Parameters
    ----------
    X : float32 array or CSR matrix, shape (n_rows, n_features)
        May be memory-mapped: a level of a tree reads it twice.
    Y : CSR matrix, shape (n_rows, n_labels)
    view : FeatureView
    rule : ForestRule
    n_jobs : int
    """

    def __init__(
        self, X: Features, Y: sp.csr_matrix, view: FeatureView, rule: ForestRule, n_jobs: int
    ) -> None:
        self._rule, self._n_jobs, self._Y = rule, n_jobs, Y
        counts = np.bincount(Y.indices, minlength=Y.shape[1])
        self._splitter = _kernels.SketchSplitter(
            *csr_parts(X if sp.issparse(X) else sp.csr_matrix(X)),
            view.weights,
            view.unit_rows,
            np.ascontiguousarray(Y.indptr, np.int64),
            np.ascontiguousarray(Y.indices, np.int32),
            (np.maximum(counts, 1) ** -rule.label_weight).astype(np.float32),
            X.shape[1],
            rule.arity,
            rule.sketch_dim,
            ROUNDS,
            SAMPLE_ROWS,
            rule.router_weights,
            WEIGHTS_PER_ROW,
            rule.max_features,
            rule.min_samples_leaf,
            n_jobs,
        )

    def trees(
        self, roots: Callable[[int], Array], n_trees: int, seed: int, first: int = 0
    ) -> Iterator[FrozenTree]:
        """Trees in order, from number ``first``; ``roots(tree)`` are a tree's rows."""
        abreast = trees_abreast(n_trees, self._n_jobs)
        for begin in range(first, n_trees, abreast):
            numbers = range(begin, min(n_trees, begin + abreast))
            yield from self._grow(
                [roots(tree) for tree in numbers], [derive_key(seed, tree) for tree in numbers]
            )

    def _grow(self, rows: list[Array], keys: list[int]) -> list[FrozenTree]:
        rule = self._rule
        trees = [_GrowingTree() for _ in rows]
        level = _Level.of(rows, np.array(keys, np.uint64))
        limit = DEPTH_LIMIT if rule.max_depth is None else rule.max_depth
        for depth in range(limit + 1):
            large = level.sizes >= rule.arity * rule.min_samples_leaf
            level = level.split(self._splitter, rule.arity, large & (depth < limit), trees)
            if not len(level.sizes):
                break
        return in_threads(lambda tree: tree.frozen(self._Y, rule.arity), trees, self._n_jobs)


@dataclass
class _GrowingTree:
    """Parts of a tree, level by level."""

    inner: list[Array] = field(default_factory=list)
    sizes: list[Array] = field(default_factory=list)
    features: list[Array] = field(default_factory=list)
    weights: list[Array] = field(default_factory=list)
    scale: list[Array] = field(default_factory=list)
    bias: list[Array] = field(default_factory=list)
    leaf_rows: list[Array] = field(default_factory=list)
    leaf_sizes: list[Array] = field(default_factory=list)

    def frozen(self, Y: sp.csr_matrix, arity: int) -> FrozenTree:
        rows, sizes = np.concatenate(self.leaf_rows), np.concatenate(self.leaf_sizes)
        members = sp.csr_matrix(
            (np.ones(len(rows), np.float64), rows, np.concatenate(([0], np.cumsum(sizes)))),
            shape=(len(sizes), Y.shape[0]),
        )
        counts = sp.csr_matrix(members @ Y.astype(np.float64))
        counts.sort_indices()
        return FrozenTree(
            inner=np.concatenate(self.inner),
            sizes=np.concatenate([np.empty(0, np.int64), *self.sizes]),
            features=np.concatenate([np.empty(0, np.int32), *self.features]),
            weights=np.concatenate([np.empty((0, arity - 1), np.int8), *self.weights]),
            bias=np.concatenate([np.empty((0, arity - 1), np.float32), *self.bias]),
            leaf_counts=counts,
            splits=[],
            scale=np.concatenate([np.empty(0, np.float32), *self.scale]),
            leaf_rows=sizes,
        )


@dataclass
class _Level:
    """Nodes of one depth, those of a tree side by side.

    Attributes
    ----------
    rows : int32 array
        Of all nodes, one after the other.
    sizes : int64 array, shape (n_nodes,)
    keys : uint64 array, shape (n_nodes,)
    tree : int64 array, shape (n_nodes,)
    """

    rows: Array
    sizes: Array
    keys: Array
    tree: Array

    @classmethod
    def of(cls, roots: list[Array], keys: Array) -> _Level:
        sizes = np.array([len(rows) for rows in roots], np.int64)
        return cls(np.concatenate(roots), sizes, keys, np.arange(len(roots)))

    def split(
        self, splitter: _kernels.SketchSplitter, arity: int, wanted: Array, trees: list[_GrowingTree]
    ) -> _Level:
        """Split what is wanted, hand routers and leaves to their trees; the children are the next level."""
        moving = np.repeat(wanted, self.sizes)
        offsets = np.concatenate(([0], np.cumsum(self.sizes[wanted])))
        found, sizes, features, weights, scale, bias, rows, counts = splitter.split(
            self.rows[moving], offsets, self.keys[wanted]
        )
        done = found.astype(bool)
        split = np.zeros(len(self.sizes), bool)
        split[wanted] = done
        self.rows[moving] = rows
        entries = np.concatenate(([0], np.cumsum(sizes)))
        weights, bias = weights.reshape(-1, arity - 1), bias.reshape(-1, arity - 1)
        tried_tree = self.tree[wanted]
        in_leaf = np.repeat(~split, self.sizes)
        row_tree = np.repeat(self.tree, self.sizes)
        for number, tree in enumerate(trees):
            own = self.tree == number
            tree.inner.append(split[own])
            tree.leaf_sizes.append(self.sizes[own & ~split])
            tree.leaf_rows.append(self.rows[in_leaf & (row_tree == number)])
            begin, end = np.searchsorted(tried_tree, (number, number + 1))
            kept = slice(entries[begin], entries[end])
            routed = begin + np.flatnonzero(done[begin:end])
            tree.sizes.append(sizes[routed])
            tree.scale.append(scale[routed])
            tree.bias.append(bias[routed])
            tree.features.append(features[kept])
            tree.weights.append(weights[kept])
        children = np.tile(np.arange(1, arity + 1, dtype=np.uint64), int(done.sum()))
        return _Level(
            self.rows[~in_leaf],
            counts.reshape(-1, arity)[done].ravel(),
            mix64(np.repeat(mix64(self.keys[split]), arity) ^ children),
            np.repeat(self.tree[split], arity),
        )


def bag(rows: Array, seed: int, tree: int) -> Array:
    """As many of the rows, drawn with replacement, in order: the tree's own."""
    draws = hash_numbers(np.arange(len(rows)), seed, tree, 3) % np.uint64(max(1, len(rows)))
    drawn: Array = rows[np.sort(draws.astype(np.int64))]
    return drawn
