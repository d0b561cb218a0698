"""Trees of the sketch forest: rows are clustered by label sketches, and routers separate the cluster means.

Nodes are split by ``cpp/forest.cpp``. Several trees grow level by level in parallel, so that one kernel call has all
nodes of a level to distribute over threads. The split of a node depends only on its rows and its key, and the key on
the seed, the tree and the path from the root, so the result does not depend on threads or on the other trees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from sparseleaf import _kernels
from sparseleaf._arrays import csr_parts, derive_key, hash_numbers, mix64
from sparseleaf._threads import in_threads
from sparseleaf.data.weights import NO_WEIGHTS
from sparseleaf.rerank.centroids import rarity
from sparseleaf.routed.ensemble import FrozenTree
from sparseleaf.routed.growth import count_parallel_trees

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features
    from sparseleaf.data.weights import TrainingWeights

ROUNDS = 4
"""Iterations of k-means; more do not improve the accuracy."""

SAMPLE_ROWS = 2000
"""Maximum number of rows of a node used by k-means."""

WEIGHTS_PER_ROW = 4.0
"""Maximum number of router weights per row of the node; limits the size of the many routers of small nodes."""

DEPTH_LIMIT = 1000
"""Maximum depth; only reached by rows that no router can separate."""


@dataclass(frozen=True)
class ForestRule:
    """Parameters of the splits; see :class:`~sparseleaf.SketchForestClassifier`."""

    arity: int
    min_samples_leaf: int
    max_depth: int | None
    sketch_dim: int
    label_weight: float
    router_weights: int
    max_features: float


@dataclass(frozen=True)
class FeatureView:
    """Feature scaling of the routers.

    Attributes
    ----------
    weights : float32 array, shape (n_features,), or empty
        Feature weights.
    unit_rows : bool
        Whether rows are normalised to unit length after weighting.
    """

    weights: Array
    unit_rows: bool

    @classmethod
    def of(cls, X: Features, weights: TrainingWeights = NO_WEIGHTS) -> FeatureView:
        """Sparse: unit rows, with idf weights for binary features. Dense: inverse standard deviations."""
        if sp.issparse(X):
            return cls(rarity(X, weights), True)
        if weights.rows is None:
            deviation = X.std(axis=0, dtype=np.float64)
        else:
            mean = np.average(X, axis=0, weights=weights.rows.astype(np.float64))
            squares = np.average((X - mean) ** 2, axis=0, weights=weights.rows.astype(np.float64))
            deviation = np.sqrt(squares)
        usable = (
            (deviation > 1e-6 * np.abs(X).max(axis=0, initial=0)) & (deviation > 1e-30) & (deviation < 1e30)
        )
        return cls((usable / np.where(usable, deviation, 1)).astype(np.float32), False)


class SketchForest:
    """Grows trees.

    Parameters
    ----------
    X : float32 array or CSR matrix, shape (n_rows, n_features)
        May be memory-mapped; it is read twice per level of a tree.
    Y : CSR matrix, shape (n_rows, n_labels)
    weights : TrainingWeights
    view : FeatureView
    rule : ForestRule
    n_jobs : int
    """

    def __init__(
        self,
        X: Features,
        Y: sp.csr_matrix,
        weights: TrainingWeights,
        view: FeatureView,
        rule: ForestRule,
        n_jobs: int,
    ) -> None:
        self._rule, self._n_jobs, self._Y, self._weights = rule, n_jobs, Y, weights
        counts = weights.counts(Y)
        of_labels = np.where(counts > 0, counts, 1) ** -rule.label_weight
        if weights.labels is not None:
            of_labels = of_labels * weights.labels
        self._splitter = _kernels.SketchSplitter(
            *csr_parts(X if sp.issparse(X) else sp.csr_matrix(X)),
            view.weights,
            view.unit_rows,
            np.ascontiguousarray(Y.indptr, np.int64),
            np.ascontiguousarray(Y.indices, np.int32),
            of_labels.astype(np.float32),
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
            weights.rows,
        )

    def trees(
        self, roots: Callable[[int], Array], n_trees: int, seed: int, first: int = 0
    ) -> Iterator[FrozenTree]:
        """Yield the trees in order, starting with number ``first``; ``roots(tree)`` returns the rows of a tree."""
        n_parallel = count_parallel_trees(n_trees, self._n_jobs)
        for begin in range(first, n_trees, n_parallel):
            numbers = range(begin, min(n_trees, begin + n_parallel))
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
        n_jobs = self._n_jobs
        return in_threads(lambda tree: tree.frozen(self._Y, self._weights, rule.arity, n_jobs), trees, n_jobs)


@dataclass
class _GrowingTree:
    """Arrays of a tree, one entry per level."""

    inner: list[Array] = field(default_factory=list)
    sizes: list[Array] = field(default_factory=list)
    features: list[Array] = field(default_factory=list)
    weights: list[Array] = field(default_factory=list)
    scale: list[Array] = field(default_factory=list)
    bias: list[Array] = field(default_factory=list)
    leaf_rows: list[Array] = field(default_factory=list)
    leaf_sizes: list[Array] = field(default_factory=list)

    def frozen(self, Y: sp.csr_matrix, weights: TrainingWeights, arity: int, n_jobs: int) -> FrozenTree:
        rows, sizes = np.concatenate(self.leaf_rows), np.concatenate(self.leaf_sizes)
        starts = np.concatenate(([0], np.cumsum(sizes)))
        indptr, labels, counts = _kernels.sum_labels(
            starts,
            rows,
            np.empty(0) if weights.rows is None else weights.rows.astype(np.float64),
            np.ascontiguousarray(Y.indptr, np.int64),
            np.ascontiguousarray(Y.indices, np.int32),
            n_jobs,
        )
        leaf_rows = sizes.astype(np.float64)
        if weights.rows is not None:
            # no leaf is empty
            leaf_rows = np.add.reduceat(weights.rows[rows].astype(np.float64), starts[:-1])
        return FrozenTree(
            inner=np.concatenate(self.inner),
            sizes=np.concatenate([np.empty(0, np.int64), *self.sizes]),
            features=np.concatenate([np.empty(0, np.int32), *self.features]),
            weights=np.concatenate([np.empty((0, arity - 1), np.int8), *self.weights]),
            bias=np.concatenate([np.empty((0, arity - 1), np.float32), *self.bias]),
            leaf_counts=sp.csr_matrix((counts, labels, indptr), shape=(len(sizes), Y.shape[1])),
            splits=[],
            scale=np.concatenate([np.empty(0, np.float32), *self.scale]),
            leaf_rows=leaf_rows,
        )


@dataclass
class _Level:
    """Nodes of one depth of all trees, sorted by tree.

    Attributes
    ----------
    rows : int32 array
        Rows of all nodes, concatenated.
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
        self, splitter: _kernels.SketchSplitter, arity: int, candidates: Array, trees: list[_GrowingTree]
    ) -> _Level:
        """Split the candidate nodes and add routers and leaves to the trees; returns the children."""
        moving: Any = slice(None) if candidates.all() else np.repeat(candidates, self.sizes)
        offsets = np.concatenate(([0], np.cumsum(self.sizes[candidates])))
        accepted, sizes, features, weights, scale, bias, rows, counts = splitter.split(
            self.rows[moving], offsets, self.keys[candidates]
        )
        done = accepted.astype(bool)
        split = np.zeros(len(self.sizes), bool)
        split[candidates] = done
        self.rows[moving] = rows
        entries = np.concatenate(([0], np.cumsum(sizes)))
        weights, bias = weights.reshape(-1, arity - 1), bias.reshape(-1, arity - 1)
        tried_tree = self.tree[candidates]
        in_leaf = np.repeat(~split, self.sizes)
        leaf_rows, taken = self.rows[in_leaf], 0
        for number, tree in enumerate(trees):
            in_tree = self.tree == number
            tree.inner.append(split[in_tree])
            leaf_sizes = self.sizes[in_tree & ~split]
            tree.leaf_sizes.append(leaf_sizes)
            tree.leaf_rows.append(leaf_rows[taken : (taken := taken + leaf_sizes.sum())])
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
    """Bootstrap sample of the rows for a tree, sorted."""
    draws = hash_numbers(np.arange(len(rows)), seed, tree, 3) % np.uint64(max(1, len(rows)))
    drawn: Array = rows[np.sort(draws.astype(np.int64))]
    return drawn
