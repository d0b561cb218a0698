"""Refreshing the leaves of boosted trees by the residuals of new rows, for sparse scores.

Tree by tree, the residuals of the new rows are added to those that a leaf value stands for: as v = rate · p / (n + l2)
for n rows, the old Σ residuals is p = v (n + l2) / rate. Splits are kept. The old residuals are those of training,
although earlier trees have changed since: an approximation, as in the ``refit`` of other libraries.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from sparseleaf import _kernels
from sparseleaf._arrays import replace_rows
from sparseleaf.model.trees import short_scale, short_values, with_float_values, with_short_values
from sparseleaf.objectives import sparse_objective
from sparseleaf.progress import phase
from sparseleaf.training.cover import leaf_cover, new_cover
from sparseleaf.training.refresh_dense import label_objective, label_targets, refresh_dense

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.model import AxisScorer
    from sparseleaf.model.trees import Trees
    from sparseleaf.model.update import NewRows
    from sparseleaf.training.leaves import LabelSums

TRUTH_BIT = np.uint32(1 << 31)

LeafRanges = tuple["Array", "Array", "Array"]
"""Rows by leaf, and where the range of every leaf begins and ends."""


@dataclass(frozen=True)
class LeafSettings:
    """Parameters of the leaf values; see :class:`~sparseleaf.SparseGBDTClassifier`."""

    loss: int
    rate: float
    l2: float
    leaf_labels: int | None
    min_gain: float

    @classmethod
    def of(cls, parameters: dict[str, Any]) -> LeafSettings:
        """From the parameters of a model."""
        return cls(
            sparse_objective(parameters["loss"]).code,
            float(parameters["learning_rate"]),
            float(parameters["l2"]),
            parameters["leaf_labels"],
            float(parameters["leaf_min_gain"]),
        )


def refresh(scorer: AxisScorer, new: NewRows) -> AxisScorer:
    """The scorer of a classifier with refreshed leaves: see :attr:`~sparseleaf.model.update.NewRows.boosted`."""
    leaves = scorer.leaves(new.rows())
    if scorer.base_score is not None:
        trees = refresh_dense(scorer, leaves, label_targets(new), label_objective(new), new)
        return replace(scorer, trees=trees)
    return replace(scorer, trees=refresh_leaves(scorer.trees, leaves, new), n_labels=new.n_labels)


def refresh_leaves(trees: Trees, leaves: Array, new: NewRows) -> Trees:
    """Trees with refreshed leaf values.

    Parameters
    ----------
    trees : Trees
    leaves : int32 array, shape (n_rows, n_trees)
        The leaf that every new row reaches in every tree, numbered over all trees.
    new : NewRows
    """
    short = len(trees.value_scale) > 0
    trees, rule = with_float_values(trees), LeafSettings.of(new.before.parameters)
    cover = leaf_cover(trees, new.before.n_train_rows)
    firsts = np.concatenate(([0], np.cumsum(trees.feature < 0)))[trees.tree_offsets]
    values = sp.csr_matrix(
        (trees.leaf_values, trees.leaf_labels.astype(np.int32), trees.leaf_indptr),
        shape=(len(cover), new.n_labels),
    )
    scores = _Scores(new.Y, new.n_jobs)
    parts = []
    with phase("leaves", trees.n_trees) as advance:
        for tree, (first, end) in enumerate(pairwise(firsts.tolist())):
            old, leaf = values[first:end], leaves[:, tree] - np.int32(first)
            counts = np.rint(new.keep * cover[first:end]).astype(np.int64)
            part = _with_residuals(old, leaf, counts, scores, rule, new.keep)
            if short:
                scale = short_scale(np.abs(part.data).max(initial=0))
                part.data = short_values(part.data, scale) * scale
            scores.add(part, leaf)
            parts.append(part)
            advance(tree + 1, "")
    return _replaced(trees, sp.vstack(parts, "csr"), new_cover(trees, cover, leaves, new.keep), short)


class _Scores:
    """Scores of the new rows and their true labels, in the form of the kernels."""

    def __init__(self, Y: sp.csr_matrix, n_jobs: int) -> None:
        self.n_labels, self.n_jobs = Y.shape[1], n_jobs
        indptr = Y.indptr.astype(np.int64)
        self._block = (
            indptr[:-1],
            indptr[1:],
            Y.indices.astype(np.uint32) | TRUTH_BIT,
            np.zeros(Y.nnz, np.float32),
        )

    def leaf_vectors(
        self, rows: LeafRanges, rule: LeafSettings, totals: Array, earlier: LabelSums
    ) -> tuple[Array, Array, Array]:
        """Leaf values from Σ residuals of the rows of every leaf and of earlier rows, as CSR arrays.

        ``totals`` are the numbers of all these rows.
        """
        return _kernels.leaf_vectors(
            [self._block],
            *rows,
            self.n_labels,
            rule.loss,
            -1 if rule.leaf_labels is None else rule.leaf_labels,
            rule.l2,
            rule.min_gain,
            rule.rate,
            self.n_jobs,
            totals=totals,
            earlier=earlier,
        )

    def add(self, leaves: sp.csr_matrix, leaf_of_row: Array) -> None:
        """Add the leaf values of a tree."""
        starts, ends, labels, scores = self._block
        leaf_of_row = np.ascontiguousarray(leaf_of_row, np.int32)
        size = int((ends - starts).sum() + np.diff(leaves.indptr)[leaf_of_row].sum(dtype=np.int64))
        out = np.empty(size, np.uint32), np.empty(size, np.float32)
        merged = _kernels.merge_leaves(
            starts,
            ends,
            labels,
            scores,
            leaf_of_row,
            leaves.indptr.astype(np.int64),
            leaves.indices.astype(np.uint32),
            leaves.data.astype(np.float32),
            *out,
            self.n_jobs,
        )
        self._block = (*merged, *out)


def _with_residuals(
    old: sp.csr_matrix, leaf: Array, counts: Array, scores: _Scores, rule: LeafSettings, keep: float
) -> sp.csr_matrix:
    """Values of a tree's leaves, (n_leaves, n_labels); those that no new row reaches are kept."""
    order = np.argsort(leaf, kind="stable").astype(np.int32)
    reached, starts = np.unique(leaf[order], return_index=True)
    ends = np.append(starts[1:], len(order)).astype(np.int64)
    before = old[reached]
    size = np.repeat(counts[reached] + rule.l2 * keep, np.diff(before.indptr))
    sums = np.rint(before.data.astype(np.float64) * size / rule.rate * _kernels.RESIDUAL_SCALE)
    none = np.empty(0, np.int64)
    kept = before.indptr.astype(np.int64), before.indices.astype(np.uint32), sums.astype(np.int64), none
    totals = (counts[reached] + (ends - starts)).astype(np.float64)
    ranges = order, starts.astype(np.int64), ends
    indptr, labels, values = scores.leaf_vectors(ranges, rule, totals, kept)
    changed = sp.csr_matrix((values, labels.astype(np.int32), indptr), shape=before.shape)
    changed.sort_indices()
    return replace_rows(old, reached, changed)


def _replaced(trees: Trees, leaves: sp.csr_matrix, cover: Array, short: bool) -> Trees:
    """Trees with these leaves."""
    label_type = np.uint16 if leaves.shape[1] <= 2**16 else np.uint32
    refreshed = replace(
        trees,
        leaf_indptr=leaves.indptr.astype(np.int64),
        leaf_labels=leaves.indices.astype(label_type),
        leaf_values=leaves.data.astype(np.float32),
        cover=cover,
    )
    return with_short_values(refreshed) if short else refreshed
