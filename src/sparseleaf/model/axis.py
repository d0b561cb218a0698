"""The scorer of boosted trees, whose nodes split on one feature: a row's scores are sums over its leaves.

In a file, nodes are in level order, so that the leaves determine a tree's shape: the j-th inner node has the children
2j + 1 and 2j + 2. Node arrays are stored losslessly in the narrowest integer type; equal thresholds are stored once.
Leaf values are stored as they are in memory: float32, or 16-bit integers with a scale per tree.
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
from sparseleaf.model.explain import attribute_trees
from sparseleaf.model.importance import tree_importances
from sparseleaf.model.mix import NO_FOREST, Mix
from sparseleaf.model.registry import register
from sparseleaf.model.shap_tables import ShapTables
from sparseleaf.model.stage import Scorer, Scores
from sparseleaf.model.trees import SET_BYTES, Trees, with_float_values

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features
    from sparseleaf.cuda.predictor import DevicePredictor
    from sparseleaf.model.attribution import Attribution, Pairs
    from sparseleaf.model.routed import RoutedTrees
    from sparseleaf.model.source import StageSource
    from sparseleaf.model.stage import Rows
    from sparseleaf.model.update import NewRows

BLOCK_ROWS = 16_384
"""Rows per block of dense scores for ``topk``."""


@register("trees")
@dataclass(frozen=True)
class AxisScorer(Scorer):
    """Scorer of boosted trees.

    Attributes
    ----------
    trees : Trees
    n_labels : int
    base_score : float32 array, shape (n_labels,), or None
        Initial scores; None if scores are sparse, starting at 0.
    mix : Mix
        Which trees are those of a forest.
    """

    trees: Trees
    n_labels: int
    base_score: Array | None = None
    mix: Mix = NO_FOREST

    kind: ClassVar[str] = "trees"
    takes_nan: ClassVar[bool] = True

    def __getstate__(self) -> dict[str, Any]:
        # without what is rebuilt on demand
        return {name: value for name, value in vars(self).items() if name not in ("predictor", "shap_tables")}

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return self.trees.n_trees

    @property
    def n_forest_trees(self) -> int:
        """Number of trees of the forest beside boosted models, the first ones."""
        return self.mix.n_forest_trees

    @property
    def axis_trees(self) -> Trees:
        """See :class:`~sparseleaf.model.stage.Scorer`."""
        return self.trees

    def importances(self) -> tuple[Array, Array]:
        """All columns, and their fractions of the total gain."""
        gain = self.trees.feature_gain
        total = gain.sum()
        return np.arange(len(gain)), gain / total if total > 0 else np.zeros_like(gain)

    def label_importances(self, labels: Array, before: sp.csr_matrix, n_jobs: int) -> sp.csr_matrix:
        """See :class:`~sparseleaf.model.stage.Stage`; gains of the splits for each label."""
        return tree_importances(self.trees, self.n_labels, labels)

    @cached_property
    def predictor(self) -> _kernels.Predictor:
        """The compiled predictor; its constructor validates all indices and values."""
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

    @cached_property
    def shap_tables(self) -> ShapTables:
        """Tables for Shapley values."""
        return ShapTables.of(self.trees, self.n_labels)

    def apply(self, before: Rows) -> TreeScores:
        """Scores of rows."""
        return TreeScores(before, self)

    def leaves(self, rows: Rows) -> Array:
        """The leaf of every row in every tree, numbered over all trees: int32 (n_rows, n_trees)."""
        used, threads = rows.used(self.n_trees), rows.threads
        leaves = np.empty((rows.n_rows, used), np.int32)
        for block, columns, missing in rows.columns():
            if sp.issparse(columns):
                self.predictor.apply_csr(*csr_parts(columns), used, missing, leaves[block], threads)
            else:
                self.predictor.apply(columns, used, missing, leaves[block], threads)
        return leaves

    def updated(self, new: NewRows) -> AxisScorer:
        """Refreshed leaves or more trees."""
        scorer: AxisScorer = new.boosted(self, new)
        return scorer

    # --- tensors of the model file

    def tensors(self, compact: bool) -> dict[str, Array]:
        """See :func:`encode_trees`."""
        tensors = encode_trees(self.trees, compact) | self.mix.tensors()
        return tensors if self.base_score is None else tensors | {"base_score": self.base_score}

    @classmethod
    def from_tensors(cls, source: StageSource) -> Self:
        """See :class:`~sparseleaf.model.stage.Stage`."""
        trees = decode_trees(source)
        base_score = source.finite("base_score", ("F32",), 1) if source.has("base_score") else None
        if base_score is not None and len(base_score) != source.n_labels:
            raise ValueError(
                f"base_score must have one entry for each of {source.n_labels} labels, has {len(base_score)}"
            )
        if base_score is None and not len(trees.leaf_labels) and len(trees.leaf_values):
            raise ValueError("base_score is missing, but required by leaves with values for all labels")
        if len(trees.feature_gain) != source.n_columns:
            raise ValueError(
                f"feature_gain must have {source.n_columns} entries, has {len(trees.feature_gain)}"
            )
        stage = cls(trees, source.n_labels, base_score, Mix.from_tensors(source, trees.n_trees))
        _ = stage.predictor  # validates indices and values
        return stage

    def describe(self) -> dict[str, Any]:
        """Sizes of the trees."""
        return describe_shape(self.trees, self.trees.depths())


class TreeScores(Scores):
    """Scores of boosted trees."""

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

    def explain(self, pairs: Pairs) -> Attribution:
        """See :class:`~sparseleaf.model.stage.Scores`; exact Shapley values."""
        return attribute_trees(self._scorer, self.rows, pairs)

    @cached_property
    def _on_device(self) -> DevicePredictor | None:
        """The predictor of these rows on a GPU, if they are so many that it pays."""
        rows, scorer = self.rows, self._scorer
        if rows.device == "cpu" or self.base is None:
            return None
        from sparseleaf.cuda.predictor import DevicePredictor, pays

        used = rows.used(scorer.n_trees)
        if not pays(rows.n_rows, used, len(scorer.trees.feature_gain) + scorer.n_labels):
            return None
        return DevicePredictor(scorer.trees, self.base, used)

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
        """Scores of a block of rows."""
        if not sp.issparse(columns) and self._on_device is not None:
            self._on_device.dense(columns, out)
            return
        out[:] = 0 if self.base is None else self.base
        predictor = self._scorer.predictor
        used, threads = self.rows.used(self._scorer.n_trees), self.rows.threads
        if sp.issparse(columns):
            predictor.dense_csr(*csr_parts(columns), used, missing, out, threads)
        else:
            predictor.dense(columns, used, missing, out, threads)


def describe_shape(trees: Trees | RoutedTrees, depths: Array) -> dict[str, Any]:
    """Sizes of trees with the given depths."""
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
    """Tensors by name; without ``compact``, leaf values are float32."""
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
    """Trees from tensors; ValueError if they are inconsistent. The predictor validates indices."""
    take, has, n_labels = source.take, source.has, source.n_labels
    n_nodes = take("n_nodes", UNSIGNED, 1).astype(np.int64)
    stored = take("feature", UNSIGNED, 1)
    tree_offsets = np.concatenate(([0], np.cumsum(n_nodes)))
    if tree_offsets[-1] != len(stored) or not np.all(n_nodes % 2):
        raise ValueError("n_nodes must be odd and sum to the length of feature")
    feature = stored.astype(np.int64) - 1
    inner = feature >= 0
    inner_before = np.concatenate(([0], np.cumsum(inner)))
    if not np.array_equal(np.diff(inner_before[tree_offsets]), n_nodes // 2):
        raise ValueError("feature: a tree must have one more leaf than inner nodes")
    if feature.max(initial=0) > np.iinfo(np.int32).max:
        raise ValueError("feature: index out of range")

    rank = np.cumsum(inner) - 1 - np.repeat(inner_before[tree_offsets[:-1]], n_nodes)
    child = np.where(inner, 2 * rank + 1, np.cumsum(~inner) - 1)
    n_inner, n_leaves = int(inner.sum()), int((~inner).sum())

    index = take("threshold_index", UNSIGNED, 1)
    thresholds = take("thresholds", ("F32",), 1)
    bits = take("missing_left", ("U8",), 1)
    if len(index) != n_inner or len(bits) != -(-n_inner // 8):
        raise ValueError(
            f"threshold_index and missing_left must have one entry for each of {n_inner} inner nodes"
        )
    if n_inner and int(index.max()) >= len(thresholds):
        raise ValueError("threshold_index: index out of range")
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
            raise ValueError(
                f"leaf_sizes must have one entry for each of {n_leaves} leaves, has {len(sizes)}"
            )
        leaf_indptr = np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))
    else:
        if len(values) != n_leaves * n_labels:
            raise ValueError(f"leaf_values must have {n_leaves} × {n_labels} entries, has {len(values)}")
        labels = np.empty(0, np.uint16)
        leaf_indptr = np.arange(n_leaves + 1, dtype=np.int64) * n_labels
    counted = has("cover")  # take() removes a tensor
    cover = take("cover", UNSIGNED, 1).astype(np.uint32) if counted else np.empty(0, np.uint32)
    if counted and len(cover) != len(feature):
        raise ValueError(f"cover must have one entry for each of {len(feature)} nodes, has {len(cover)}")
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
