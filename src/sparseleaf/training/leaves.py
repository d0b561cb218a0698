"""Leaf values: from the gradient sums of a leaf's rows to the sparse vector it stores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sparseleaf import _kernels
from sparseleaf._arrays import on_grid
from sparseleaf.training.tree import LeafVectors

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.training.tree import FlatTree

LabelSums = tuple["Array", "Array", "Array", "Array"]
"""Σ residuals of leaves, in the kernels' fixed point, as CSR: indptr, labels, sums; and, with label weights, Σ weights
of the rows with each label."""


@dataclass(frozen=True)
class LeafRule:
    """Eq. 19: the k labels of largest |p| = |Σ residuals|, with value rate · p / (n + l2); n is the weight of the rows.

    Attributes
    ----------
    leaf_labels : int or None
        k; None keeps every label.
    min_gain : float
        Drops entries that reduce the loss by less than this: p²/(n + l2) < min_gain (an L0 penalty).
    """

    leaf_labels: int | None
    min_gain: float
    l2: float
    rate: float

    def vectors(
        self,
        blocks: list[tuple[Array, Array, Array, Array]],
        rows: Array,
        starts: Array,
        ends: Array,
        n_labels: int,
        loss: int,
        n_jobs: int,
        weights: _kernels.LossWeights | None = None,
        totals: Array | None = None,
    ) -> LeafVectors:
        """Leaf vectors, computed from the full residuals of ``rows[start:end]`` of every leaf.

        ``totals`` are the weights of the leaves' rows; None for their number.
        """
        k = -1 if self.leaf_labels is None else self.leaf_labels
        return LeafVectors(
            *_kernels.leaf_vectors(
                blocks,
                rows,
                starts,
                ends,
                n_labels,
                loss,
                k,
                self.l2,
                self.min_gain,
                self.rate,
                n_jobs,
                weights,
                totals,
            )
        )

    def vectors_of_sums(
        self,
        pieces: list[LabelSums],
        totals: Array,
        n_labels: int,
        n_jobs: int,
        weights: _kernels.LossWeights | None = None,
    ) -> LeafVectors:
        """Leaf vectors of leaves distributed over workers, from the Σ residuals of every worker and their weight."""
        k = -1 if self.leaf_labels is None else self.leaf_labels
        return LeafVectors(
            *_kernels.leaf_vectors_of_sums(
                pieces, totals, n_labels, k, self.l2, self.min_gain, self.rate, n_jobs, weights
            )
        )


@dataclass(frozen=True)
class NewtonLeaves:
    """Eq. 15 of GBDT-MO: value −rate · G/(H + l2) for the outputs of largest G²/(H + l2).

    Attributes
    ----------
    leaf_outputs : int or None
        k; None keeps every output.
    shared : bool
        Siblings store the same outputs, those of largest total score (the restricted form, Algorithm 4).
    min_gain : float
        Drops entries with G²/(H + l2) below this.
    quantile : float or None
        For losses without a useful hessian: the leaf value is this quantile of the residuals.
    """

    leaf_outputs: int | None
    shared: bool
    min_gain: float
    l2: float
    rate: float
    quantile: float | None = None

    def vectors(
        self, tree: FlatTree, gradients: Array, hessians: Array, values: Array | None = None
    ) -> LeafVectors:
        """Leaf vectors from gradient and hessian sums, float64 (n_leaves, n_outputs).

        ``hessians`` may have one column for all outputs, or the packed lower triangle of the hessian matrix.
        """
        n_leaves, d = gradients.shape
        if hessians.shape[1] > d > 1:
            values = _matrix_step(gradients, hessians, self.l2)
            hessians = hessians[:, [i * (i + 3) // 2 for i in range(d)]]
        below = hessians + self.l2
        safe = np.where(below > 0, below, np.inf)  # zero hessian: no step
        if values is None:
            values = -gradients / safe
        if tree.leaf_bounds is not None:
            values = values.clip(tree.leaf_bounds.low, tree.leaf_bounds.high)
        if self.min_gain <= 0 and (self.leaf_outputs is None or self.leaf_outputs >= d):
            outputs = np.broadcast_to(np.arange(d, dtype=np.uint32), (n_leaves, d)).ravel()
            return LeafVectors(
                np.arange(0, n_leaves * d + 1, d), outputs, (self.rate * values).astype(np.float32).ravel()
            )
        kept = np.ones((n_leaves, d), bool)
        if self.min_gain > 0:
            kept = gradients**2 / safe >= self.min_gain
        if self.leaf_outputs is not None and self.leaf_outputs < d:
            scores = gradients**2 / safe
            if self.shared:
                scores = _sibling_scores(tree, gradients, hessians, self.l2)
            chosen = np.argsort(-scores, axis=1, kind="stable")[:, : self.leaf_outputs]
            among = np.zeros((n_leaves, d), bool)
            np.put_along_axis(among, chosen, True, axis=1)
            kept &= among
        indptr = np.concatenate(([0], np.cumsum(kept.sum(axis=1)))).astype(np.int64)
        return LeafVectors(
            indptr, np.nonzero(kept)[1].astype(np.uint32), (self.rate * values)[kept].astype(np.float32)
        )


def _sibling_scores(tree: FlatTree, gradients: Array, hessians: Array, l2: float) -> Array:
    """For every leaf, Σ G²/(H + l2) over itself and its sibling; the root's own score if it is the only leaf."""
    n = len(tree.feature)
    hessians = np.broadcast_to(hessians, gradients.shape)
    sums = np.zeros((n, 2, gradients.shape[1]))
    leaf = tree.feature < 0
    sums[leaf, 0], sums[leaf, 1] = gradients[tree.child[leaf]], hessians[tree.child[leaf]]
    for v in np.flatnonzero(~leaf)[::-1]:  # children come after their parent
        sums[v] = sums[tree.child[v]] + sums[tree.child[v] + 1]
    below = sums[:, 1] + l2
    node_scores = sums[:, 0] ** 2 / np.where(below > 0, below, np.inf)
    both = node_scores.copy()
    for v in np.flatnonzero(~leaf):
        left = tree.child[v]
        both[left] = both[left + 1] = node_scores[left] + node_scores[left + 1]
    scores = np.empty_like(gradients)
    scores[tree.child[leaf]] = both[leaf]
    return scores


def _matrix_step(gradients: Array, packed: Array, l2: float) -> Array:
    """Eq. 13: −(H + l2)⁻¹ G with the full hessian matrix."""
    n, d = gradients.shape
    rows, columns = np.tril_indices(d)
    matrix = np.zeros((n, d, d))
    matrix[:, rows, columns] = matrix[:, columns, rows] = packed
    matrix[:, range(d), range(d)] += max(l2, 1e-12)
    step: Array = -np.linalg.solve(matrix, gradients[:, :, None])[:, :, 0]
    return on_grid(step.T, 26).T
