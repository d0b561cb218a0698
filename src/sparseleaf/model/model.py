"""The frozen model: flat arrays, read-only, ready to predict.

Trees are concatenated; so are their leaves. A model never changes after it is made: any number of threads may
predict with it at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from scipy.special import expit

from sparseleaf import _kernels
from sparseleaf._arrays import csr_parts, has_nan, require_countable
from sparseleaf.boosting.tree import SET_BYTES, short_scale, short_values
from sparseleaf.data.targets import Targets

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features
    from sparseleaf.boosting.tree import FlatTree, LeafVectors
    from sparseleaf.model.empty import EmptyRows
    from sparseleaf.projection import Projection
    from sparseleaf.rerank import Rerank

BLOCK_ROWS = 16_384
"""Rows that are projected at a time, so that memory does not grow with a batch."""

LARGEST_SET = 2**24
"""Sets of categories are numbered by thresholds, which are exact up to here."""

ONE_THREAD_ROWS = 64
"""Rows below which waking other threads costs more than it saves."""


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
        The left child, counted from the tree's first node; the right one follows it. A leaf's number, over all trees.
    leaf_indptr : int64 array, shape (n_leaves + 1,)
    leaf_labels : uint16 array, or uint32 for more than 65,536 labels
        Increasing within a leaf. Empty where every leaf has a value for each label.
    leaf_values : float32 or int16 array
    value_scale : float32 array, shape (n_trees,), or empty for float32 values
        What the 16-bit values of a tree are to be multiplied by.
    feature_gain : float64 array, shape (n_tree_features,)
        Σ gain of the cuts on every feature.
    cover : uint32 array, shape (n_nodes,), or empty
        Training rows that came to every node.
    categorical : uint8 array, shape (n_tree_features,), or empty
        Whether a feature has categories; its cuts' thresholds are rows of ``sets``.
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


def concatenate_trees(
    grown: list[tuple[FlatTree, LeafVectors]],
    label_ids: Array,
    n_features: int,
    n_labels: int,
    *,
    categorical: Array | None = None,
    all_labels: bool = False,
    gain: Array | None = None,
) -> Trees:
    """Freeze grown trees; ``label_ids[rank]`` is the label that training kept under ``rank``.

    ``all_labels``: every leaf has a value for each label, and the labels are left out. ``gain``: that of the trees
    before these, from which ``feature_gain`` counts on.
    """
    require_countable("n_trees", sum(len(tree.feature) for tree, _ in grown), "nodes of all trees")
    label_type = np.uint16 if n_labels <= 2**16 else np.uint32
    features, thresholds, missing, children, indptrs, labels, values = ([] for _ in range(7))
    covers, sets = [], []
    tree_offsets, n_leaves, n_entries, n_sets = [0], 0, 0, 0
    gain = np.zeros(n_features, np.float64) if gain is None else gain.copy()
    for tree, vectors in grown:
        inner = tree.feature >= 0
        features.append(tree.feature)
        thresholds.append(np.where(tree.set_of >= 0, tree.threshold + np.float32(n_sets), tree.threshold))
        covers.append(tree.count)
        sets.append(tree.sets)
        n_sets += len(tree.sets)
        missing.append(tree.missing_left)
        children.append(np.where(inner, tree.child, tree.child + np.int32(n_leaves)).astype(np.int32))
        tree_offsets.append(tree_offsets[-1] + len(tree.feature))
        np.add.at(gain, tree.feature[inner], tree.gain[inner])
        ids = label_ids[vectors.labels.astype(np.int64)]
        leaf = np.repeat(np.arange(len(vectors.indptr) - 1), np.diff(vectors.indptr))
        order = np.lexsort((ids, leaf))
        labels.append(ids[order].astype(label_type))
        values.append(vectors.values[order])
        indptrs.append(vectors.indptr[1:] + n_entries)
        n_leaves += len(vectors.indptr) - 1
        n_entries += len(ids)
    if n_sets > LARGEST_SET:
        raise ValueError(f"max_leaves, n_trees: {n_sets} cuts of categories; a model holds {LARGEST_SET}.")
    return Trees(
        np.array(tree_offsets, np.int64),
        _joined(features, np.int32),
        _joined(thresholds, np.float32),
        _joined(missing, np.uint8),
        _joined(children, np.int32),
        _joined([np.zeros(1, np.int64), *indptrs], np.int64),
        _joined([] if all_labels else labels, label_type),
        _joined(values, np.float32),
        np.empty(0, np.float32),
        gain,
        _joined(covers, np.uint32),
        np.empty(0, np.uint8) if categorical is None else categorical,
        np.concatenate([np.empty((0, SET_BYTES), np.uint8), *sets]),
    )


def join_trees(first: Trees, more: Trees) -> Trees:
    """The trees of one model followed by others of the same features and labels, whose gain counts on from its."""
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
    """The same trees with leaf values as float32, where they are in 16 bits."""
    if not len(trees.value_scale):
        return trees
    first = np.concatenate(([0], np.cumsum(trees.feature < 0)))[trees.tree_offsets]
    scale = np.repeat(trees.value_scale, np.diff(trees.leaf_indptr[first]))
    return replace(
        trees, leaf_values=scale * trees.leaf_values.astype(np.float32), value_scale=np.empty(0, np.float32)
    )


def with_short_values(trees: Trees) -> Trees:
    """The same trees with leaf values rounded to 16-bit integers and a scale for every tree, as a file holds them."""
    n_leaves = (
        np.add.reduceat(trees.feature < 0, trees.tree_offsets[:-1]) if trees.n_trees else np.empty(0, int)
    )
    first = trees.leaf_indptr[np.concatenate(([0], np.cumsum(n_leaves)))].astype(np.int64)
    tree = np.repeat(np.arange(trees.n_trees), np.diff(first))
    largest = np.zeros(trees.n_trees, np.float32)
    np.maximum.at(largest, tree, np.abs(trees.leaf_values))
    scale = short_scale(largest)
    return replace(trees, leaf_values=short_values(trees.leaf_values, scale[tree]), value_scale=scale)


def _with_labels(trees: Trees, other: Trees) -> Trees:
    """Trees whose leaves name their labels, where those of the other do."""
    if len(trees.leaf_labels) or not len(trees.leaf_values) or not len(other.leaf_labels):
        return trees
    n_leaves = len(trees.leaf_indptr) - 1
    labels = np.tile(np.arange(len(trees.leaf_values) // n_leaves), n_leaves)
    return replace(trees, leaf_labels=labels.astype(other.leaf_labels.dtype))


def _joined(parts: list[Array], dtype: type[np.generic]) -> Array:
    return np.concatenate([np.empty(0, dtype), *parts]).astype(dtype, copy=False)


@dataclass(frozen=True)
class Model:
    """A trained model.

    Attributes
    ----------
    method : str
        Which system trained it, such as ``"gbdt-sparse"``.
    n_features : int
        Features of the rows that come in, before the projection.
    n_labels : int
    trees : Trees
    projection : Projection or None
    label_names : array of str or int, or None
    target_kind : str
        What the targets looked like: see :mod:`sparseleaf.data.targets`.
    label_counts : int array, shape (n_labels,)
        Training rows of every label, for propensities.
    n_train_rows : int
    parameters : dict
        The estimator's parameters.
    history : dict of str to list of float
        Metrics after every tree, where there was a validation set.
    base_score : float32 array, shape (n_labels,), or None
        Where scores start; None where they start at 0 and stay sparse.
    feature_names : list of str or None
        Columns of the DataFrame of training.
    categories : dict of int to list
        By feature, what its categories are called; category ``c`` is the c-th.
    rerank : Rerank or None
        The stage that scores the trees' candidates anew.
    empty : EmptyRows or None
        What rows without a known feature get; None where training rows were dense.
    threshold : float or None
        Score from which ``predict`` returns a label; None in files that do not have it.
    link : str
        How predictions are made of scores: see :mod:`sparseleaf.links`.
    """

    method: str
    n_features: int
    n_labels: int
    trees: Trees
    projection: Projection | None
    label_names: Array | None
    target_kind: str
    label_counts: Array
    n_train_rows: int
    parameters: dict[str, Any]
    history: dict[str, list[float]]
    base_score: Array | None = None
    feature_names: list[str] | None = None
    categories: dict[int, list[Any]] = field(default_factory=dict)
    rerank: Rerank | None = None
    empty: EmptyRows | None = None
    threshold: float | None = None
    link: str = "identity"

    def __getstate__(self) -> dict[str, Any]:
        # the compiled predictor is made again where it is needed
        return {name: value for name, value in vars(self).items() if name != "predictor"}

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return self.trees.n_trees

    @property
    def takes_nan(self) -> bool:
        """Whether NaN is a missing value, as trees on raw features have it; all else must be given numbers."""
        return self.projection is None and self.rerank is None

    @property
    def known_labels(self) -> Targets:
        """The labels of training, as targets without rows."""
        kind: Any = self.target_kind
        return Targets(sp.csr_matrix((0, self.n_labels), dtype=np.float32), self.label_names, kind)

    @cached_property
    def predictor(self) -> _kernels.Predictor:
        """The compiled predictor; making it checks every index and number of the trees."""
        trees = self.trees
        n_tree_features = self.n_features if self.projection is None else self.projection.width
        if len(trees.feature_gain) != n_tree_features:
            raise ValueError(f"feature_gain has {len(trees.feature_gain)} numbers; wanted {n_tree_features}")
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
            n_tree_features,
            self.n_labels,
        )

    def topk(self, X: Features, k: int, n_trees: int | None, n_jobs: int) -> tuple[Array, Array]:
        """The k best labels of every row, best first: ids int32 and scores float32, both (n_rows, k).

        Where a row has fewer candidates the id is -1 and the score -inf.
        """
        labels, scores = self._topk(X, k, n_trees, n_jobs)
        if self.empty is not None and (self.base_score is None or self.rerank is not None):
            self.empty.fill_topk(X, labels, scores)
        return labels, scores

    def scores(self, X: Features, n_trees: int | None, n_jobs: int) -> sp.csr_matrix:
        """Scores of every row as a CSR matrix (n_rows, n_labels), in the order of :meth:`topk`; the others are 0."""
        scores = self._scores(X, n_trees, n_jobs)
        return scores if self.empty is None else self.empty.filled(X, scores)

    def _topk(self, X: Features, k: int, n_trees: int | None, n_jobs: int) -> tuple[Array, Array]:
        """:meth:`topk`, whatever the rows."""
        if self.rerank is None:
            return self.tree_topk(X, k, n_trees, n_jobs)
        # always the same candidates, so that the order of labels does not depend on how many are asked for
        return self.rerank.topk(X, *self.candidates(X, self.rerank.places, n_trees, n_jobs), k, n_jobs)

    def _scores(self, X: Features, n_trees: int | None, n_jobs: int) -> sp.csr_matrix:
        """:meth:`scores`, whatever the rows."""
        if self.rerank is None:
            return self.tree_scores(X, n_trees, n_jobs)
        return self.rerank.scores(X, *self.candidates(X, self.rerank.places, n_trees, n_jobs), n_jobs)

    def candidates(self, X: Features, k: int, n_trees: int | None, n_jobs: int) -> tuple[Array, Array]:
        """The trees' k best labels for a re-ranking stage, with scores above 0 for what is likely."""
        labels, scores = self.tree_topk(X, k, n_trees, n_jobs)
        return labels, scores if self.base_score is None else expit(scores)

    def tree_topk(self, X: Features, k: int, n_trees: int | None, n_jobs: int) -> tuple[Array, Array]:
        """:meth:`topk` by the trees alone."""
        if self.base_score is not None:
            return self._dense_topk(X, k, n_trees, n_jobs)
        labels, scores = np.empty((X.shape[0], k), np.int32), np.empty((X.shape[0], k), np.float32)
        used, threads = self._used(n_trees), _threads(X.shape[0], n_jobs)
        for block, rows, missing in self._columns(X, n_jobs):
            if sp.issparse(rows):
                self.predictor.topk_csr(
                    *csr_parts(rows), used, missing, labels[block], scores[block], threads
                )
            else:
                self.predictor.topk(rows, used, missing, labels[block], scores[block], threads)
        return labels, scores

    def _dense_topk(self, X: Features, k: int, n_trees: int | None, n_jobs: int) -> tuple[Array, Array]:
        labels = np.full((X.shape[0], k), -1, np.int32)
        scores = np.full((X.shape[0], k), -np.inf, np.float32)
        for begin in range(0, X.shape[0], BLOCK_ROWS):
            block = slice(begin, begin + BLOCK_ROWS)
            own = self.outputs(X[block], n_trees, n_jobs)
            best = np.argsort(-own, axis=1, kind="stable")[:, :k]
            labels[block, : best.shape[1]] = best
            scores[block, : best.shape[1]] = np.take_along_axis(own, best, axis=1)
        return labels, scores

    def tree_scores(self, X: Features, n_trees: int | None, n_jobs: int) -> sp.csr_matrix:
        """:meth:`scores` by the trees alone."""
        used, threads = self._used(n_trees), _threads(X.shape[0], n_jobs)
        blocks = []
        for _, rows, missing in self._columns(X, n_jobs):
            if sp.issparse(rows):
                indptr, labels, values = self.predictor.scores_csr(*csr_parts(rows), used, missing, threads)
            else:
                indptr, labels, values = self.predictor.scores(rows, used, missing, threads)
            blocks.append(sp.csr_matrix((values, labels, indptr), shape=(len(indptr) - 1, self.n_labels)))
        return blocks[0] if len(blocks) == 1 else sp.vstack(blocks, "csr")

    def dense(self, X: Features, n_trees: int | None, n_jobs: int, start: Array | None = None) -> Array:
        """Scores of every row as a float32 array (n_rows, n_labels), on from ``start`` or the base score."""
        out = np.empty((X.shape[0], self.n_labels), np.float32)
        out[:] = start if start is not None else 0 if self.base_score is None else self.base_score
        used, threads = self._used(n_trees), _threads(X.shape[0], n_jobs)
        for block, rows, missing in self._columns(X, n_jobs):
            if sp.issparse(rows):
                self.predictor.dense_csr(*csr_parts(rows), used, missing, out[block], threads)
            else:
                self.predictor.dense(rows, used, missing, out[block], threads)
        return out

    def outputs(self, X: Features, n_trees: int | None, n_jobs: int) -> Array:
        """:meth:`dense`, and the base score for rows without a known feature."""
        out = self.dense(X, n_trees, n_jobs)
        if self.empty is not None:
            out[self.empty.find(X)] = self.base_score
        return out

    def apply(self, X: Features, n_trees: int | None, n_jobs: int) -> Array:
        """The leaf that every row comes to in every tree, counted over all trees: int32 (n_rows, n_trees)."""
        used, threads = self._used(n_trees), _threads(X.shape[0], n_jobs)
        leaves = np.empty((X.shape[0], used), np.int32)
        for block, rows, missing in self._columns(X, n_jobs):
            if sp.issparse(rows):
                self.predictor.apply_csr(*csr_parts(rows), used, missing, leaves[block], threads)
            else:
                self.predictor.apply(rows, used, missing, leaves[block], threads)
        return leaves

    def _used(self, n_trees: int | None) -> int:
        if n_trees is None:
            return self.n_trees
        if not 0 <= n_trees <= self.n_trees:
            raise ValueError(f"n_trees: {n_trees} were asked for; the model has {self.n_trees}.")
        return n_trees

    def _columns(self, X: Features, n_jobs: int) -> Iterator[tuple[slice, Features, bool]]:
        """What the trees see, block by block of rows, and whether it may hold NaN."""
        if self.projection is None:
            yield slice(None), X, has_nan(X)
            return
        for begin in range(0, max(1, X.shape[0]), BLOCK_ROWS):
            block = slice(begin, begin + BLOCK_ROWS)
            columns = self.projection.transform(X if X.shape[0] <= BLOCK_ROWS else X[block], n_jobs)
            # a product of huge values may be inf - inf, which training took for missing as well
            yield block, columns, has_nan(columns)


def _threads(n_rows: int, n_jobs: int) -> int:
    return 1 if n_rows <= ONE_THREAD_ROWS else n_jobs
