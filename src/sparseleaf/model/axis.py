"""The scorer of boosted trees, whose nodes split on one column each: a row's scores are sums over its leaves.

In a file, nodes are in level order, so the shape of a tree is told by which nodes are leaves: the j-th inner node has
the children 2j + 1 and 2j + 2. Every other number of a node is stored without loss in the narrowest type that holds it;
thresholds, of which there are as many as splits, are shared. Leaf values are as the trees hold them: float32, or 16-bit
integers with a scale for every tree.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp

from sparseleaf import _kernels
from sparseleaf._arrays import csr_parts, row_blocks
from sparseleaf._steps import UNSIGNED, narrow
from sparseleaf.model.registry import register
from sparseleaf.model.stage import Scorer, Scores
from sparseleaf.model.trees import SET_BYTES, Trees, with_float_values

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features
    from sparseleaf.model.routed import RoutedTrees
    from sparseleaf.model.source import StageSource
    from sparseleaf.model.stage import Rows

BLOCK_ROWS = 16_384
"""Rows that have dense scores at a time, where only the best are asked for."""


@register("trees")
@dataclass(frozen=True)
class AxisScorer(Scorer):
    """The stage.

    Attributes
    ----------
    trees : Trees
    n_labels : int
    base_score : float32 array, shape (n_labels,), or None
        Where scores start; None where they start at 0 and stay sparse.
    """

    trees: Trees
    n_labels: int
    base_score: Array | None = None

    kind: ClassVar[str] = "trees"
    takes_nan: ClassVar[bool] = True

    def __getstate__(self) -> dict[str, Any]:
        # the compiled predictor is made again where it is needed
        return {name: value for name, value in vars(self).items() if name != "predictor"}

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return self.trees.n_trees

    @property
    def axis_trees(self) -> Trees:
        """See :class:`~sparseleaf.model.stage.Scorer`."""
        return self.trees

    def importances(self) -> tuple[Array, Array]:
        """All columns, and the share of the total gain that each brought."""
        gain = self.trees.feature_gain
        total = gain.sum()
        return np.arange(len(gain)), gain / total if total > 0 else np.zeros_like(gain)

    @cached_property
    def predictor(self) -> _kernels.Predictor:
        """The compiled predictor; making it checks every index and number of the trees."""
        trees = self.trees
        return _kernels.Predictor(
            trees.tree_offsets,
            trees.feature,
            trees.threshold,
            trees.missing_left,
            trees.child,
            trees.leaf_indptr,
            trees.leaf_labels,
            trees.leaf_values,
            trees.value_scale,
            trees.categorical,
            trees.sets,
            len(trees.feature_gain),
            self.n_labels,
        )

    def apply(self, before: Rows) -> TreeScores:
        """Scores of rows."""
        return TreeScores(before, self)

    def leaves(self, rows: Rows) -> Array:
        """The leaf that every row comes to in every tree, counted over all trees: int32 (n_rows, n_trees)."""
        used, threads = rows.used(self.n_trees), rows.threads
        leaves = np.empty((rows.n_rows, used), np.int32)
        for block, columns, missing in rows.columns():
            if sp.issparse(columns):
                self.predictor.apply_csr(*csr_parts(columns), used, missing, leaves[block], threads)
            else:
                self.predictor.apply(columns, used, missing, leaves[block], threads)
        return leaves

    # --- tensors of the model file

    def tensors(self, compact: bool) -> dict[str, Array]:
        """See :func:`encode_trees`."""
        tensors = encode_trees(self.trees, compact)
        return tensors if self.base_score is None else tensors | {"base_score": self.base_score}

    @classmethod
    def from_tensors(cls, source: StageSource) -> Self:
        """From tensors; ValueError where they are not sound."""
        trees = decode_trees(source)
        base_score = source.finite("base_score", ("F32",), 1) if source.has("base_score") else None
        if base_score is not None and len(base_score) != source.n_labels:
            raise ValueError(
                f"base_score has {len(base_score)} entries; wanted one for each of {source.n_labels} labels"
            )
        if base_score is None and not len(trees.leaf_labels) and len(trees.leaf_values):
            raise ValueError("base_score is missing: leaves with a value for every label need it")
        if len(trees.feature_gain) != source.n_columns:
            raise ValueError(f"feature_gain has {len(trees.feature_gain)} numbers; wanted {source.n_columns}")
        stage = cls(trees, source.n_labels, base_score)
        _ = stage.predictor  # checks that indices exist and numbers are finite
        return stage

    def describe(self) -> dict[str, Any]:
        """Sizes of the trees."""
        return describe_shape(self.trees, self.trees.depths())


class TreeScores(Scores):
    """Scores by the trees."""

    def __init__(self, rows: Rows, scorer: AxisScorer) -> None:
        self.rows, self.base, self._scorer = rows, scorer.base_score, scorer

    def topk(self, k: int) -> tuple[Array, Array]:
        """See :class:`~sparseleaf.model.stage.Scores`."""
        if self.base is not None:
            return self._dense_topk(k)
        rows, predictor = self.rows, self._scorer.predictor
        labels, scores = np.empty((rows.n_rows, k), np.int32), np.empty((rows.n_rows, k), np.float32)
        used, threads = rows.used(self._scorer.n_trees), rows.threads
        for block, columns, missing in rows.columns():
            if sp.issparse(columns):
                predictor.topk_csr(*csr_parts(columns), used, missing, labels[block], scores[block], threads)
            else:
                predictor.topk(columns, used, missing, labels[block], scores[block], threads)
        return labels, scores

    def sparse(self) -> sp.csr_matrix:
        """See :class:`~sparseleaf.model.stage.Scores`."""
        if self.base is not None:
            return sp.csr_matrix(self.dense())
        rows, predictor = self.rows, self._scorer.predictor
        used, threads = rows.used(self._scorer.n_trees), rows.threads
        blocks = []
        for _, columns, missing in rows.columns():
            if sp.issparse(columns):
                indptr, labels, values = predictor.scores_csr(*csr_parts(columns), used, missing, threads)
            else:
                indptr, labels, values = predictor.scores(columns, used, missing, threads)
            shape = (len(indptr) - 1, self._scorer.n_labels)
            blocks.append(sp.csr_matrix((values, labels, indptr), shape=shape))
        return blocks[0] if len(blocks) == 1 else sp.vstack(blocks, "csr")

    def dense(self) -> Array:
        """See :class:`~sparseleaf.model.stage.Scores`."""
        out = np.empty((self.rows.n_rows, self._scorer.n_labels), np.float32)
        for block, columns, missing in self.rows.columns():
            self._sum(columns, missing, out[block])
        return out

    def _dense_topk(self, k: int) -> tuple[Array, Array]:
        n_rows, end = self.rows.n_rows, 0
        labels, scores = np.full((n_rows, k), -1, np.int32), np.full((n_rows, k), -np.inf, np.float32)
        for _, columns, missing in self.rows.columns():
            for _, part in row_blocks(columns, BLOCK_ROWS):
                block = slice(end, end + part.shape[0])
                end = block.stop
                out = np.empty((part.shape[0], self._scorer.n_labels), np.float32)
                self._sum(part, missing, out)
                best = np.argsort(-out, axis=1, kind="stable")[:, :k]
                labels[block, : best.shape[1]] = best
                scores[block, : best.shape[1]] = np.take_along_axis(out, best, axis=1)
        return labels, scores

    def _sum(self, columns: Features, missing: bool, out: Array) -> None:
        """Scores of some rows."""
        out[:] = 0 if self.base is None else self.base
        predictor = self._scorer.predictor
        used, threads = self.rows.used(self._scorer.n_trees), self.rows.threads
        if sp.issparse(columns):
            predictor.dense_csr(*csr_parts(columns), used, missing, out, threads)
        else:
            predictor.dense(columns, used, missing, out, threads)


def describe_shape(trees: Trees | RoutedTrees, depths: Array) -> dict[str, Any]:
    """Sizes of trees, whose levels below the root are ``depths``."""
    n_leaves = len(trees.leaf_indptr) - 1
    return {
        "n_nodes": len(trees.child),
        "n_leaves": n_leaves,
        "depth_max": int(depths.max(initial=0)),
        "depth_mean": float(depths.mean()) if len(depths) else 0.0,
        "labels_per_leaf": len(trees.leaf_values) / n_leaves if n_leaves else 0.0,
    }


# --- tensors of the model file


def encode_trees(trees: Trees, compact: bool) -> dict[str, Array]:
    """Tensors by name; without ``compact`` leaf values are float32, whatever the trees hold."""
    if not compact:
        trees = with_float_values(trees)
    inner = trees.feature >= 0
    thresholds, index = np.unique(trees.threshold[inner], return_inverse=True)
    values, scale = trees.leaf_values, trees.value_scale
    tensors = {
        "n_nodes": narrow(np.diff(trees.tree_offsets)),
        "feature": narrow(trees.feature.astype(np.int64) + 1),
        "threshold_index": narrow(index),
        "thresholds": thresholds,
        "missing_left": np.packbits(trees.missing_left[inner]),
        "leaf_values": values,
        "feature_gain": trees.feature_gain,
    }
    if len(trees.leaf_labels) or not len(values):
        tensors |= {"leaf_sizes": narrow(np.diff(trees.leaf_indptr)), "leaf_labels": trees.leaf_labels}
    if len(trees.cover):
        tensors["cover"] = narrow(trees.cover)
    if len(trees.sets):
        tensors |= {"categorical": trees.categorical, "sets": trees.sets}
    if values.dtype != np.float32:
        tensors["value_scale"] = scale
    return tensors


def decode_trees(source: StageSource) -> Trees:
    """Trees from tensors; ValueError where they do not fit together. Indices are checked by the predictor."""
    take, has, n_labels = source.take, source.has, source.n_labels
    n_nodes = take("n_nodes", UNSIGNED, 1).astype(np.int64)
    stored = take("feature", UNSIGNED, 1)
    tree_offsets = np.concatenate(([0], np.cumsum(n_nodes)))
    if tree_offsets[-1] != len(stored) or not np.all(n_nodes % 2):
        raise ValueError("n_nodes must be odd numbers that add up to the nodes of feature")
    feature = stored.astype(np.int64) - 1
    inner = feature >= 0
    inner_before = np.concatenate(([0], np.cumsum(inner)))
    if not np.array_equal(np.diff(inner_before[tree_offsets]), n_nodes // 2):
        raise ValueError("feature: half the nodes of a tree, less one, must be inner nodes")
    if feature.max(initial=0) > np.iinfo(np.int32).max:
        raise ValueError("feature: a column that does not exist")

    rank = np.cumsum(inner) - 1 - np.repeat(inner_before[tree_offsets[:-1]], n_nodes)
    child = np.where(inner, 2 * rank + 1, np.cumsum(~inner) - 1)
    n_inner, n_leaves = int(inner.sum()), int((~inner).sum())

    index = take("threshold_index", UNSIGNED, 1)
    thresholds = take("thresholds", ("F32",), 1)
    bits = take("missing_left", ("U8",), 1)
    if len(index) != n_inner or len(bits) != -(-n_inner // 8):
        raise ValueError(
            f"threshold_index and missing_left must have an entry for each of {n_inner} inner nodes"
        )
    if n_inner and int(index.max()) >= len(thresholds):
        raise ValueError("threshold_index: a threshold that does not exist")
    threshold = np.zeros(len(feature), np.float32)
    threshold[inner] = thresholds[index]
    missing_left = np.zeros(len(feature), np.uint8)
    missing_left[inner] = np.unpackbits(bits, count=n_inner)

    values = take("leaf_values", ("F32", "I16"), 1, in_place=True)
    scale = take("value_scale", ("F32",), 1) if values.dtype != np.float32 else np.empty(0, np.float32)
    if has("leaf_sizes"):
        sizes = take("leaf_sizes", UNSIGNED, 1)
        labels = take("leaf_labels", ("U16", "U32"), 1, in_place=True)
        if len(sizes) != n_leaves:
            raise ValueError(f"leaf_sizes has {len(sizes)} entries; wanted one for each of {n_leaves} leaves")
        leaf_indptr = np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))
    else:
        if len(values) != n_leaves * n_labels:
            raise ValueError(f"leaf_values has {len(values)} numbers; wanted {n_leaves} leaves × {n_labels}")
        labels = np.empty(0, np.uint16)
        leaf_indptr = np.arange(n_leaves + 1, dtype=np.int64) * n_labels
    counted = has("cover")  # a tensor is there no longer once it was taken
    cover = take("cover", UNSIGNED, 1).astype(np.uint32) if counted else np.empty(0, np.uint32)
    if counted and len(cover) != len(feature):
        raise ValueError(f"cover has {len(cover)} entries; wanted one for each of {len(feature)} nodes")
    categorical, sets = np.empty(0, np.uint8), np.empty((0, SET_BYTES), np.uint8)
    if has("sets"):
        categorical, sets = take("categorical", ("U8",), 1), take("sets", ("U8",), 2)
    return Trees(
        tree_offsets=tree_offsets,
        feature=feature.astype(np.int32),
        threshold=threshold,
        missing_left=missing_left,
        child=child.astype(np.int32),
        leaf_indptr=leaf_indptr,
        leaf_labels=labels,
        leaf_values=values,
        value_scale=scale,
        feature_gain=source.finite("feature_gain", ("F64",), 1),
        cover=cover,
        categorical=categorical,
        sets=sets,
    )
