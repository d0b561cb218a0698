"""The scorer of routed trees: nodes with linear routers on the raw features, label shares in the leaves.

Nodes of a tree are in level order and every inner node has M children, so the shape is told by which nodes are
inner ones: the j-th inner node of a tree has the children M·j + 1 to M·j + M.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp

from sparseleaf import _kernels
from sparseleaf._arrays import row_blocks, sparse_parts
from sparseleaf._steps import UNSIGNED, decode_steps, narrow, restored
from sparseleaf.model.axis import describe_shape
from sparseleaf.model.registry import register
from sparseleaf.model.stage import Scorer, Scores

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.model.source import StageSource
    from sparseleaf.model.stage import Rows

BEST_ONLY = float("inf")
"""The threshold of trees that send a row to one child, that of largest margin."""


@dataclass(frozen=True)
class RoutedTrees:
    """All trees of a model.

    Attributes
    ----------
    tree_offsets : int64 array, shape (n_trees + 1,)
        First node of every tree; its nodes are in level order.
    child : int32 array, shape (n_nodes,)
        The first child, counted from the tree's first node; its siblings follow it. A leaf's number, over all trees.
    inner : int32 array, shape (n_nodes,)
        Number of an inner node, over all trees; -1 in a leaf.
    router_indptr : int64 array, shape (n_inner + 1,)
        Where the entries of every inner node begin.
    router_steps : uint8, uint16 or uint32 array, shape (n_entries,)
        Features, which rise within a node: every one less the one before, the first of a node as it is.
    router_weights : float32 or int16 array, shape (n_entries, arity), or int8 array, shape (n_entries, arity - 1)
        Integers are to be multiplied by ``router_scale``. In 8 bits weights are of all children but the first, whose
        margin is 0.
    router_bias : float32 array, shape (n_inner, arity), or (n_inner, arity - 1)
    threshold : float
        A row goes to every child whose margin is at least this, or else to that of largest margin. Routers in 8 bits
        send it to that of largest margin.
    leaf_indptr : int64 array, shape (n_leaves + 1,)
    leaf_labels : uint16 array, or uint32 for more than 65,536 labels
        Rising within a leaf.
    leaf_values : float16 or float32 array
    router_scale : float32 array, shape (n_inner,), or empty
        Of weights in 8 or 16 bits.
    feature_weights : float32 array, shape (n_features,), or empty
        What features are multiplied by before routers in 8 bits see them.
    unit_rows : bool
        Whether rows are then brought to length 1.
    """

    tree_offsets: Array
    child: Array
    inner: Array
    router_indptr: Array
    router_steps: Array
    router_weights: Array
    router_bias: Array
    threshold: float
    leaf_indptr: Array
    leaf_labels: Array
    leaf_values: Array
    router_scale: Array = field(default_factory=lambda: np.empty(0, np.float32))
    feature_weights: Array = field(default_factory=lambda: np.empty(0, np.float32))
    unit_rows: bool = False

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.tree_offsets) - 1

    @property
    def arity(self) -> int:
        """Children of an inner node."""
        return _arity(self.router_weights)

    @property
    def router_features(self) -> Array:
        """Features of all entries, int32."""
        return decode_steps(self.router_indptr, self.router_steps)

    @property
    def whole_weights(self) -> Array:
        """Weights as float32."""
        if self.router_weights.dtype == np.float32:
            return self.router_weights
        return restored(self.router_weights, self.router_scale, np.diff(self.router_indptr))

    @classmethod
    def from_shape(
        cls,
        *,
        n_nodes: Array,
        inner: Array,
        router_sizes: Array,
        router_steps: Array,
        router_weights: Array,
        router_bias: Array,
        threshold: float,
        leaf_sizes: Array,
        leaf_labels: Array,
        leaf_values: Array,
        router_scale: Array | None = None,
        feature_weights: Array | None = None,
        unit_rows: bool = False,
    ) -> RoutedTrees:
        """Trees from sizes and which nodes are inner ones; ValueError where these do not fit together."""
        arity = _arity(router_weights)
        tree_offsets = np.concatenate(([0], np.cumsum(n_nodes, dtype=np.int64)))
        if tree_offsets[-1] != len(inner):
            raise ValueError("n_nodes must add up to the nodes of inner")
        inner_before = np.concatenate(([0], np.cumsum(inner, dtype=np.int64)))
        if not np.array_equal(np.diff(inner_before[tree_offsets]) * arity + 1, n_nodes):
            raise ValueError(f"inner: a tree must have {arity} nodes an inner node, and one more")
        rank = inner_before[1:] - 1
        within = rank - np.repeat(inner_before[tree_offsets[:-1]], n_nodes)
        child = np.where(inner, arity * within + 1, np.cumsum(~inner) - 1)
        return cls(
            tree_offsets,
            child.astype(np.int32),
            np.where(inner, rank, -1).astype(np.int32),
            np.concatenate(([0], np.cumsum(router_sizes, dtype=np.int64))),
            router_steps,
            router_weights,
            router_bias,
            threshold,
            np.concatenate(([0], np.cumsum(leaf_sizes, dtype=np.int64))),
            leaf_labels,
            leaf_values,
            np.empty(0, np.float32) if router_scale is None else router_scale,
            np.empty(0, np.float32) if feature_weights is None else feature_weights,
            unit_rows,
        )

    def depths(self) -> Array:
        """Levels of every tree below its root."""
        depth = np.zeros(len(self.child), np.int64)
        deepest = np.zeros(self.n_trees, np.int64)
        for tree, (first, end) in enumerate(zip(self.tree_offsets[:-1], self.tree_offsets[1:], strict=True)):
            inner = np.flatnonzero(self.inner[first:end] >= 0)
            children = self.child[first:end]
            own = depth[first:end]
            for node in inner.tolist():  # parents come before their children
                own[children[node] : children[node] + self.arity] = own[node] + 1
            deepest[tree] = own.max()
        return deepest


@register("routed")
@dataclass(frozen=True)
class RoutedScorer(Scorer):
    """The stage.

    Attributes
    ----------
    trees : RoutedTrees
    n_features, n_labels : int
    """

    trees: RoutedTrees
    n_features: int
    n_labels: int

    kind: ClassVar[str] = "routed"
    takes_nan: ClassVar[bool] = False  # routers add up all features of a row
    base_score: ClassVar[None] = None
    axis_trees: ClassVar[None] = None

    def __getstate__(self) -> dict[str, Any]:
        # the compiled predictor is made again where it is needed
        return {name: value for name, value in vars(self).items() if name != "predictor"}

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return self.trees.n_trees

    def importances(self) -> tuple[Array, Array]:
        """Features that routers have, and their shares of the weights, in size: n_features may be any number."""
        trees = self.trees
        weights = trees.router_weights if trees.router_weights.dtype == np.int8 else trees.whole_weights
        size = np.abs(weights.astype(np.float32)).sum(axis=1, dtype=np.float64)
        features, place = np.unique(trees.router_features, return_inverse=True)
        sums = np.bincount(place, size, minlength=len(features))
        total = sums.sum()
        return features, sums / total if total > 0 else sums

    @cached_property
    def predictor(self) -> _kernels.RoutedPredictor:
        """The compiled predictor; making it checks every index and number of the trees."""
        trees = self.trees
        return _kernels.RoutedPredictor(
            trees.tree_offsets,
            trees.child,
            trees.inner,
            trees.router_indptr,
            trees.router_steps,
            trees.router_weights,
            trees.router_scale,
            trees.router_bias,
            trees.threshold,
            trees.feature_weights,
            trees.unit_rows,
            trees.leaf_indptr,
            trees.leaf_labels,
            trees.leaf_values,
            self.n_features,
            self.n_labels,
        )

    def apply(self, before: Rows) -> RoutedScores:
        """Scores of rows."""
        return RoutedScores(before, self)

    def leaves(self, rows: Rows) -> sp.csr_matrix:
        """The leaves that rows reach: a CSR matrix of ones, (n_rows, leaves of all trees)."""
        parts = []
        for _, block in row_blocks(rows.X):
            indptr, leaves = self.predictor.leaves(*sparse_parts(block), rows.threads)
            shape = (block.shape[0], len(self.trees.leaf_indptr) - 1)
            parts.append(sp.csr_matrix((np.ones(len(leaves), np.float32), leaves, indptr), shape=shape))
        return parts[0] if len(parts) == 1 else sp.vstack(parts, "csr")

    # --- tensors of the model file

    def tensors(self, compact: bool) -> dict[str, Array]:
        """See :func:`encode_routed`."""
        return encode_routed(self.trees, compact)

    @classmethod
    def from_tensors(cls, source: StageSource) -> Self:
        """From tensors; ValueError where they are not sound."""
        if source.n_columns != source.n_features:
            raise ValueError("routers are on the raw features; wanted no projection before them")
        stage = cls(decode_routed(source), source.n_features, source.n_labels)
        _ = stage.predictor  # checks that indices exist and numbers are finite
        return stage

    def describe(self) -> dict[str, Any]:
        """Sizes of trees and routers."""
        routers = len(self.trees.router_steps) / max(1, len(self.trees.router_bias))
        return describe_shape(self.trees, self.trees.depths()) | {"features_per_router": routers}


class RoutedScores(Scores):
    """Scores by the trees."""

    def __init__(self, rows: Rows, scorer: RoutedScorer) -> None:
        self.rows, self._scorer = rows, scorer

    def topk(self, k: int) -> tuple[Array, Array]:
        """See :class:`~sparseleaf.model.stage.Scores`."""
        rows, used = self.rows, self.rows.used(self._scorer.n_trees)
        labels, scores = np.empty((rows.n_rows, k), np.int32), np.empty((rows.n_rows, k), np.float32)
        for block, part in row_blocks(rows.X):
            self._scorer.predictor.topk(*sparse_parts(part), used, labels[block], scores[block], rows.threads)
        return labels, scores

    def sparse(self) -> sp.csr_matrix:
        """See :class:`~sparseleaf.model.stage.Scores`."""
        rows, used = self.rows, self.rows.used(self._scorer.n_trees)
        parts = []
        for _, part in row_blocks(rows.X):
            indptr, labels, values = self._scorer.predictor.scores(*sparse_parts(part), used, rows.threads)
            shape = (part.shape[0], self._scorer.n_labels)
            parts.append(sp.csr_matrix((values, labels, indptr), shape=shape))
        return parts[0] if len(parts) == 1 else sp.vstack(parts, "csr")


def _arity(router_weights: Array) -> int:
    return int(router_weights.shape[1]) + (router_weights.dtype == np.int8)


# --- tensors of the model file


def encode_routed(trees: RoutedTrees, compact: bool) -> dict[str, Array]:
    """Tensors by name; without ``compact`` leaf values and weights in 16 bits are written as float32."""
    tensors = {
        "n_nodes": narrow(np.diff(trees.tree_offsets)),
        "inner": np.packbits(trees.inner >= 0),
        "router_sizes": narrow(np.diff(trees.router_indptr)),
        "router_steps": trees.router_steps,
        "router_weights": trees.router_weights,
        "router_bias": trees.router_bias,
        "threshold": np.array([trees.threshold], np.float32),
        "leaf_sizes": narrow(np.diff(trees.leaf_indptr)),
        "leaf_labels": trees.leaf_labels,
        "leaf_values": trees.leaf_values if compact else trees.leaf_values.astype(np.float32),
    }
    if trees.router_weights.dtype == np.int8:
        return tensors | {
            "router_scale": trees.router_scale,
            "feature_weights": trees.feature_weights,
            "unit_rows": np.array([trees.unit_rows], np.uint8),
        }
    if not compact or not len(trees.router_scale):
        return tensors | {"router_weights": trees.whole_weights}
    return tensors | {"router_scale": trees.router_scale}


def decode_routed(source: StageSource) -> RoutedTrees:
    """Trees from tensors; ValueError where they do not fit together. Indices are checked by the predictor."""
    take = source.take
    n_nodes = take("n_nodes", UNSIGNED, 1).astype(np.int64)
    bits, total = take("inner", ("U8",), 1), int(n_nodes.sum())
    if len(bits) != -(-total // 8):
        raise ValueError(f"inner: found {len(bits)} bytes; wanted a bit for each of {total} nodes")
    sizes, steps = take("router_sizes", UNSIGNED, 1), take("router_steps", UNSIGNED, 1, in_place=True)
    leaf_sizes = take("leaf_sizes", UNSIGNED, 1)
    if len(sizes) + len(leaf_sizes) != total:  # before anything is made for every node
        raise ValueError(f"router_sizes and leaf_sizes must have a number for each of {total} nodes")
    weights = take("router_weights", ("F32", "I16", "I8"), 2, in_place=True)
    if len(weights) != len(steps):
        raise ValueError(f"router_weights: found {len(weights)} lines; wanted {len(steps)}")
    scale = feature_weights = None
    unit_rows = False
    if weights.dtype == np.int8:
        scale, feature_weights = take("router_scale", ("F32",), 1), take("feature_weights", ("F32",), 1)
        unit_rows = source.flag("unit_rows")
    elif weights.dtype != np.float32:
        scale = take("router_scale", ("F32",), 1)
    threshold = take("threshold", ("F32",), 1)
    if len(threshold) != 1:
        raise ValueError(f"threshold: found {len(threshold)} numbers; wanted one")
    return RoutedTrees.from_shape(
        n_nodes=n_nodes,
        inner=np.unpackbits(bits, count=total).astype(bool),
        router_sizes=sizes,
        router_steps=steps,
        router_weights=weights,
        router_bias=take("router_bias", ("F32",), 2),
        threshold=float(threshold[0]),
        leaf_sizes=leaf_sizes,
        leaf_labels=take("leaf_labels", ("U16", "U32"), 1, in_place=True),
        leaf_values=take("leaf_values", ("F32", "F16"), 1, in_place=True),
        router_scale=scale,
        feature_weights=feature_weights,
        unit_rows=unit_rows,
    )
