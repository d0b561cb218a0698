"""Refreshing the leaves of boosted trees with dense scores: Newton steps of new rows, tree by tree.

A leaf value becomes the mean of the old one and the step of the new rows in the leaf, weighted by their numbers of
rows. Splits, the outputs that a leaf stores and the weights of a forest and boosted models are kept.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sparseleaf import _kernels
from sparseleaf.data.targets import ONE_CLASS_PER_ROW
from sparseleaf.model.trees import with_float_values
from sparseleaf.objectives import dense_objective
from sparseleaf.objectives.targets import NO_CLASSES, NO_VALUES, DenseTargets
from sparseleaf.progress import phase
from sparseleaf.training.cover import leaf_cover, new_cover
from sparseleaf.training.rounds import Rounds

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.model import AxisScorer
    from sparseleaf.model.trees import Trees
    from sparseleaf.model.update import NewRows
    from sparseleaf.objectives.dense import DenseObjective


def refresh_dense(
    scorer: AxisScorer, leaves: Array, targets: DenseTargets, loss: DenseObjective, new: NewRows
) -> Trees:
    """Trees with refreshed leaf values.

    Parameters
    ----------
    scorer : AxisScorer
    leaves : int32 array, shape (n_rows, n_trees)
        The leaf that every new row reaches in every tree, numbered over all trees.
    targets, loss
        Of the new rows.
    new : NewRows
    """
    assert scorer.base_score is not None
    trees, parameters = with_float_values(scorer.trees), new.before.parameters
    _require_refreshable(parameters)
    rate, l2 = float(parameters["learning_rate"]), float(parameters["l2"])
    rounds, mix = Rounds.of(new.before), scorer.mix
    n_weighted = mix.n_forest_trees + rounds.n_bagged_trees
    cover = leaf_cover(trees, new.before.n_train_rows)
    outputs = trees.leaf_labels.astype(np.uint32)
    if not len(outputs):
        outputs = np.tile(np.arange(scorer.n_labels, dtype=np.uint32), len(cover))
    values = trees.leaf_values.astype(np.float32)
    boosted = slice(_n_entries(trees, mix.n_forest_trees), _n_entries(trees, n_weighted))
    values[boosted] /= np.float32(mix.boosted_weight)
    start = np.repeat(scorer.base_score[None, :], len(leaves), axis=0)
    forest, scores = np.zeros_like(start), start.copy()
    g, h = np.empty_like(scores), loss.hessian_room(targets, scores.shape)

    def refresh(tree: int, rows: _LeafRows, step: Array, total: Array) -> None:
        weight = (rows.counts / (new.keep * cover[rows.leaves] + rows.counts)).astype(np.float32)
        place, entries = rows.entries(trees.leaf_indptr)
        stepped = step[place, outputs[entries]].astype(np.float32)
        values[entries] += weight[place] * (stepped - values[entries])
        leaf = np.ascontiguousarray(leaves[:, tree])
        _kernels.add_leaves(total, leaf, trees.leaf_indptr, outputs, values, new.n_jobs)
        advance(tree + 1, "")

    with phase("leaves", trees.n_trees) as advance:
        for tree in range(mix.n_forest_trees):
            rows = _LeafRows(leaves[:, tree])
            share = mix.forest_weight / mix.n_forest_trees
            step = share * rows.newton(*_squared_error(targets, loss, scorer.base_score), 0.0)
            refresh(tree, rows, step, forest)
        for tree in range(mix.n_forest_trees, trees.n_trees):
            number = tree - mix.n_forest_trees
            if tree == n_weighted:  # trees that continue bagged models are fitted to the scores of all before
                scores = start + np.float32(mix.boosted_weight) * (scores - start) + forest
            if rounds.starts(number):
                loss.at(rounds.number(number)).gradients(targets, scores, g, h, new.n_jobs)
            rows = _LeafRows(leaves[:, tree])
            if loss.quantile is None:
                step = rows.newton(g, h, l2)
            else:
                step = rows.quantiles(targets, scores, loss.quantile, new.n_jobs)
            share = rate / rounds.n_models if tree < n_weighted else rate
            refresh(tree, rows, share * step, scores)
    values[boosted] *= np.float32(mix.boosted_weight)
    return replace(trees, leaf_values=values, cover=new_cover(trees, cover, leaves, new.keep))


def _n_entries(trees: Trees, n_trees: int) -> int:
    """Number of stored values of the first trees."""
    n_leaves = np.count_nonzero(trees.feature[: trees.tree_offsets[n_trees]] < 0)
    return int(trees.leaf_indptr[n_leaves])


def _squared_error(targets: DenseTargets, loss: DenseObjective, base_score: Array) -> tuple[Array, Array]:
    """Gradients and hessians that the trees of a forest are fitted to: at the prediction of the base score."""
    weights = targets.known_weights()
    start = loss.link.apply(base_score[None, :])
    return weights * (start - np.nan_to_num(targets.as_matrix())), weights


class _LeafRows:
    """New rows by the leaf that they reach in a tree."""

    def __init__(self, leaf: Array) -> None:
        self._order = np.argsort(leaf, kind="stable").astype(np.int32)
        self.leaves, self._starts = np.unique(leaf[self._order], return_index=True)
        self._ends = np.append(self._starts[1:], len(leaf))
        self.counts = self._ends - self._starts

    def newton(self, g: Array, h: Array, l2: float) -> Array:
        """Newton steps −G / (H + l2) of the leaves, float64 (n_leaves, n_outputs)."""
        gradients = self._sums(g)
        hessians = self._sums(h) if len(h) else self.counts[:, None].astype(np.float64)
        below = hessians + l2
        steps: Array = -gradients / np.where(below > 0, below, np.inf)  # zero hessian: no step
        return steps

    def quantiles(self, targets: DenseTargets, scores: Array, level: float, n_jobs: int) -> Array:
        """Quantiles of the residuals of the leaves."""
        out = np.empty((len(self.leaves), scores.shape[1]))
        starts, ends = self._starts.astype(np.int64), self._ends.astype(np.int64)
        _kernels.leaf_quantiles(
            targets.values, scores, targets.weights, level, self._order, starts, ends, out, n_jobs
        )
        return out

    def entries(self, indptr: Array) -> tuple[Array, Array]:
        """Stored values of the leaves: the number of the leaf among these, and the place of the value."""
        sizes = indptr[self.leaves + 1] - indptr[self.leaves]
        first = np.repeat(indptr[self.leaves] - np.concatenate(([0], np.cumsum(sizes)[:-1])), sizes)
        return np.repeat(np.arange(len(sizes)), sizes), first + np.arange(sizes.sum())

    def _sums(self, columns: Array) -> Array:
        sums: Array = np.add.reduceat(columns[self._order].astype(np.float64), self._starts, axis=0)
        return sums


def _require_refreshable(parameters: dict[str, Any]) -> None:
    """Raise ValueError for models whose leaves cannot be refreshed."""
    if parameters.get("monotone_constraints") is not None:
        raise ValueError("how='leaves' is not supported with monotone_constraints. Use how='trees'.")
    if parameters.get("loss") == "gbrank" and parameters.get("averaged", True):
        raise ValueError(
            "how='leaves' is not supported for loss='gbrank' with averaged=True. Use how='trees'."
        )


# --- new rows of a classifier, without its estimator: members of a blend


def label_objective(new: NewRows) -> DenseObjective:
    """The loss of a classifier with dense scores."""
    name = new.before.parameters["loss"]
    if name == "auto":
        name = "softmax" if new.before.target_kind in ONE_CLASS_PER_ROW else "logistic"
    return dense_objective(name)


def label_targets(new: NewRows) -> DenseTargets:
    """Targets of a classifier with dense scores, which cannot have new labels."""
    if new.n_labels > new.before.n_labels:
        raise ValueError(
            f"y must have only the {new.before.n_labels} labels of the model: {new.before.method!r} does not support"
            f" new ones. Got {new.n_labels - new.before.n_labels} new labels."
        )
    if new.before.target_kind in ONE_CLASS_PER_ROW and label_objective(new).takes_classes:
        return DenseTargets(NO_VALUES, new.Y.indices.astype(np.int32), NO_VALUES, new.n_labels)
    return DenseTargets(new.Y.toarray().astype(np.float32), NO_CLASSES, NO_VALUES, new.n_labels)
