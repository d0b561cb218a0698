"""The scorer of routed trees: nodes with linear routers on the raw features, label frequencies in the leaves.

Nodes are in level order and every inner node has M children, so that the inner nodes determine a tree's shape: the j-th
inner node has the children M·j + 1 to M·j + M.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp

from sparseleaf import _kernels
from sparseleaf._arrays import csr_parts, row_blocks, sparse_parts
from sparseleaf._steps import UNSIGNED, decode_steps, narrow, restored
from sparseleaf.model.attribution import Attribution, tiled
from sparseleaf.model.axis import describe_shape
from sparseleaf.model.frequencies import add_labels
from sparseleaf.model.importance import normalised_rows
from sparseleaf.model.registry import register
from sparseleaf.model.stage import Scorer, Scores

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.model.attribution import Pairs
    from sparseleaf.model.source import StageSource
    from sparseleaf.model.stage import Rows
    from sparseleaf.model.update import NewRows

BEST_ONLY = float("inf")
"""Threshold of trees that route a row only to the child of largest margin."""


@dataclass(frozen=True)
class RoutedTrees:
    """All trees of a model.

    Attributes
    ----------
    tree_offsets : int64 array, shape (n_trees + 1,)
        First node of every tree; its nodes are in level order.
    child : int32 array, shape (n_nodes,)
        The first child, relative to the tree's first node; its siblings follow. In a leaf, its index over all trees.
    inner : int32 array, shape (n_nodes,)
        Index of an inner node over all trees; -1 in a leaf.
    router_indptr : int64 array, shape (n_inner + 1,)
        First entry of every inner node.
    router_steps : uint8, uint16 or uint32 array, shape (n_entries,)
        Delta-encoded features, increasing within a node; the first of a node is absolute.
    router_weights : float32 or int16 array, shape (n_entries, arity), or int8 array, shape (n_entries, arity - 1)
        Integers are multiplied by ``router_scale``. 8-bit routers have no weights for the first child, whose margin
        is 0.
    router_bias : float32 array, shape (n_inner, arity), or (n_inner, arity - 1)
    threshold : float
        A row goes to all children whose margin is at least this, or to that of largest margin if there are none.
        8-bit routers always use the child of largest margin.
    leaf_indptr : int64 array, shape (n_leaves + 1,)
    leaf_labels : uint16 array, or uint32 for more than 65,536 labels
        Increasing within a leaf.
    leaf_values : float16 or float32 array
    router_scale : float32 array, shape (n_inner,), or empty
        Scales of 8-bit or 16-bit weights.
    feature_weights : float32 array, shape (n_features,), or empty
        Factors of the features, for 8-bit routers.
    unit_rows : bool
        Whether rows are then normalised to length 1.
    leaf_totals : float64 array, shape (n_leaves,), or empty
        What leaf values are relative to, for updates: the rows of a leaf for 8-bit routers (forest), else its label
        occurrences (LdSM). Empty for files of earlier versions.
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
    leaf_totals: Array = field(default_factory=lambda: np.empty(0))

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.tree_offsets) - 1

    @property
    def counts_rows(self) -> bool:
        """Whether leaf values are relative to rows, not to label occurrences."""
        return self.router_weights.dtype == np.int8

    @property
    def arity(self) -> int:
        """Number of children of an inner node."""
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
        leaf_totals: Array | None = None,
    ) -> RoutedTrees:
        """Trees from sizes and inner nodes; ValueError if these are inconsistent."""
        arity = _arity(router_weights)
        tree_offsets = np.concatenate(([0], np.cumsum(n_nodes, dtype=np.int64)))
        if tree_offsets[-1] != len(inner):
            raise ValueError("n_nodes must sum to the length of inner")
        inner_before = np.concatenate(([0], np.cumsum(inner, dtype=np.int64)))
        if not np.array_equal(np.diff(inner_before[tree_offsets]) * arity + 1, n_nodes):
            raise ValueError(f"inner: a tree must have {arity} nodes per inner node, plus one")
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
            np.empty(0) if leaf_totals is None else leaf_totals,
        )

    def depths(self) -> Array:
        """Depth of every tree."""
        depth = np.zeros(len(self.child), np.int64)
        deepest = np.zeros(self.n_trees, np.int64)
        for tree, (first, end) in enumerate(zip(self.tree_offsets[:-1], self.tree_offsets[1:], strict=True)):
            inner = np.flatnonzero(self.inner[first:end] >= 0)
            children = self.child[first:end]
            levels = depth[first:end]
            for node in inner.tolist():  # parents come before their children
                levels[children[node] : children[node] + self.arity] = levels[node] + 1
            deepest[tree] = levels.max()
        return deepest


@register("routed")
@dataclass(frozen=True)
class RoutedScorer(Scorer):
    """Scorer of routed trees.

    Attributes
    ----------
    trees : RoutedTrees
    n_features, n_labels : int
    """

    trees: RoutedTrees
    n_features: int
    n_labels: int

    kind: ClassVar[str] = "routed"
    takes_nan: ClassVar[bool] = False  # routers sum over all features of a row
    base_score: ClassVar[None] = None
    axis_trees: ClassVar[None] = None

    def __getstate__(self) -> dict[str, Any]:
        # without the compiled parts, which are rebuilt on demand
        return {name: value for name, value in vars(self).items() if name not in ("predictor", "leaf_index")}

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return self.trees.n_trees

    def importances(self) -> tuple[Array, Array]:
        """Features used by routers, and their fractions of Σ |weight|; sparse, since n_features may be huge."""
        trees = self.trees
        weights = trees.router_weights if trees.router_weights.dtype == np.int8 else trees.whole_weights
        size = np.abs(weights.astype(np.float32)).sum(axis=1, dtype=np.float64)
        features, place = np.unique(trees.router_features, return_inverse=True)
        sums = np.bincount(place, size, minlength=len(features))
        total = sums.sum()
        return features, sums / total if total > 0 else sums

    def label_importances(self, labels: Array, before: sp.csr_matrix, n_jobs: int) -> sp.csr_matrix:
        """See :class:`~sparseleaf.model.stage.Stage`; mean path attribution.

        That of a row which reaches each leaf of a tree equally often, with the value 1 for all features.
        """
        indptr, features, values = self.predictor.label_importances(
            self.leaf_index, np.ascontiguousarray(labels, np.int32), n_jobs
        )
        shape = (len(labels), self.n_features)
        return normalised_rows(sp.csr_matrix((values, features, indptr), shape=shape))

    @cached_property
    def predictor(self) -> _kernels.RoutedPredictor:
        """The compiled predictor; its constructor validates all indices and values."""
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

    @cached_property
    def leaf_index(self) -> _kernels.LeafIndex:
        """Index of the leaves by label, for explanations; about 12 bytes per value of a leaf."""
        return self.predictor.leaf_index()

    def apply(self, before: Rows) -> RoutedScores:
        """Scores of rows."""
        return RoutedScores(before, self)

    def leaves(self, rows: Rows) -> sp.csr_matrix:
        """The leaves that rows reach, as a CSR matrix of ones, (n_rows, n_leaves of all trees)."""
        parts = []
        for _, block in row_blocks(rows.X):
            indptr, leaves = self.predictor.leaves(*sparse_parts(block), rows.threads)
            shape = (block.shape[0], len(self.trees.leaf_indptr) - 1)
            parts.append(sp.csr_matrix((np.ones(len(leaves), np.float32), leaves, indptr), shape=shape))
        return parts[0] if len(parts) == 1 else sp.vstack(parts, "csr")

    def updated(self, new: NewRows) -> RoutedScorer:
        """Add the labels of new rows to the leaves that these rows reach; the routers do not change."""
        reached = self.leaves(new.rows())
        most = new.before.parameters.get("leaf_labels")
        return replace(
            self, trees=add_labels(self.trees, reached, new.Y, new.keep, most), n_labels=new.n_labels
        )

    # --- tensors of the model file

    def tensors(self, compact: bool) -> dict[str, Array]:
        """See :func:`encode_routed`."""
        return encode_routed(self.trees, compact)

    @classmethod
    def from_tensors(cls, source: StageSource) -> Self:
        """See :class:`~sparseleaf.model.stage.Stage`."""
        if source.n_columns != source.n_features:
            raise ValueError("routers take raw features and do not support a projection")
        stage = cls(decode_routed(source), source.n_features, source.n_labels)
        _ = stage.predictor  # validates indices and values
        return stage

    def describe(self) -> dict[str, Any]:
        """Sizes of trees and routers."""
        routers = len(self.trees.router_steps) / max(1, len(self.trees.router_bias))
        return describe_shape(self.trees, self.trees.depths()) | {"features_per_router": routers}


class RoutedScores(Scores):
    """Scores of routed trees."""

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

    def explain(self, pairs: Pairs) -> Attribution:
        """See :class:`~sparseleaf.model.stage.Scores`; path attribution.

        The value of a node for a label is the mean of its leaf values below the node; the base is that of the roots. A
        step of the row's path adds the difference between the child and its parent, divided among the positive terms of
        the router's margin: the features that sent the row to this child. The share of the bias belongs to the base.
        """
        predictor, rows = self._scorer.predictor, sp.csr_matrix(self.rows.X)
        parts = csr_parts(rows)
        terms, base = tiled(pairs, rows), np.empty(len(pairs))
        predictor.explain(
            self._scorer.leaf_index,
            *parts,
            *predictor.leaves(*parts, self.rows.threads),
            pairs.starts(rows.shape[0]),
            pairs.labels,
            terms.indptr,
            terms.data,
            base,
            self.rows.threads,
        )
        return Attribution(base, terms, {}).named("trees")


def _arity(router_weights: Array) -> int:
    return int(router_weights.shape[1]) + (router_weights.dtype == np.int8)


# --- tensors of the model file


def encode_routed(trees: RoutedTrees, compact: bool) -> dict[str, Array]:
    """Tensors by name; without ``compact``, leaf values and 16-bit weights are float32."""
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
    if len(trees.leaf_totals):
        whole = np.array_equal(trees.leaf_totals, np.rint(trees.leaf_totals))
        totals = narrow(trees.leaf_totals) if whole else trees.leaf_totals.astype(np.float32)
        tensors["leaf_totals"] = totals
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
    """Trees from tensors; ValueError if they are inconsistent. The predictor validates indices."""
    take = source.take
    n_nodes = take("n_nodes", UNSIGNED, 1).astype(np.int64)
    bits, total = take("inner", ("U8",), 1), int(n_nodes.sum())
    if len(bits) != -(-total // 8):
        raise ValueError(f"inner must have one bit for each of {total} nodes, has {len(bits)} bytes")
    sizes, steps = take("router_sizes", UNSIGNED, 1), take("router_steps", UNSIGNED, 1, in_place=True)
    leaf_sizes = take("leaf_sizes", UNSIGNED, 1)
    if len(sizes) + len(leaf_sizes) != total:  # before allocating anything per node
        raise ValueError(f"router_sizes and leaf_sizes must have one entry for each of {total} nodes")
    weights = take("router_weights", ("F32", "I16", "I8"), 2, in_place=True)
    if len(weights) != len(steps):
        raise ValueError(f"router_weights must have {len(steps)} rows, has {len(weights)}")
    scale = feature_weights = None
    unit_rows = False
    if weights.dtype == np.int8:
        scale, feature_weights = take("router_scale", ("F32",), 1), take("feature_weights", ("F32",), 1)
        unit_rows = source.flag("unit_rows")
    elif weights.dtype != np.float32:
        scale = take("router_scale", ("F32",), 1)
    totals = take("leaf_totals", (*UNSIGNED, "F32"), 1) if source.has("leaf_totals") else np.empty(0)
    if len(totals) and not (
        len(totals) == len(leaf_sizes) and (totals >= 0).all() and np.isfinite(totals).all()
    ):
        raise ValueError(f"leaf_totals must be {len(leaf_sizes)} finite numbers >= 0, one per leaf")
    threshold = take("threshold", ("F32",), 1)
    if len(threshold) != 1:
        raise ValueError(f"threshold must be one number, has {len(threshold)}")
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
        leaf_totals=totals.astype(np.float64),
    )
