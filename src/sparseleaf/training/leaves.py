"""Leaf: from the sums of a leaf's rows to the vector it stores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sparseleaf import _kernels
from sparseleaf._arrays import on_grid
from sparseleaf.training.tree import LeafVectors

if TYPE_CHECKING:
    import scipy.sparse as sp

    from sparseleaf._arrays import Array
    from sparseleaf.training.tree import FlatTree


@dataclass(frozen=True)
class LeafRule:
    """Eq. 19: the k labels of largest |p| = |Σ residuals|, with value rate · p / (n + l2).

    Attributes
    ----------
    leaf_labels : int or None
        k; None keeps every label.
    min_gain : float
        Drops an entry that lowers the loss by less than this: p²/(n + l2) < min_gain (an L0 penalty).
    """

    leaf_labels: int | None
    min_gain: float
    l2: float
    rate: float

    def vectors(
        self,
        blocks: list[tuple[Array, Array, Array]],
        rows: Array,
        starts: Array,
        ends: Array,
        n_labels: int,
        loss: int,
        n_jobs: int,
    ) -> LeafVectors:
        """Vectors of the leaves that hold ``rows[start:end]``."""
        k = -1 if self.leaf_labels is None else self.leaf_labels
        return LeafVectors(
            *_kernels.leaf_vectors(
                blocks, rows, starts, ends, n_labels, loss, k, self.l2, self.min_gain, self.rate, n_jobs
            )
        )

    def vectors_of_sums(self, sums: sp.csr_matrix, counts: Array) -> LeafVectors:
        """Vectors of leaves whose Σ residuals are known, in the kernels' fixed point: a row each."""
        leaf = np.repeat(np.arange(sums.shape[0]), np.diff(sums.indptr))
        below = counts + self.l2
        p = sums.data / _kernels.RESIDUAL_SCALE
        order = np.lexsort((sums.indices, -np.abs(sums.data), leaf))
        order = order[(sums.data[order] != 0) & (p[order] * p[order] / below[leaf[order]] >= self.min_gain)]
        sizes = np.bincount(leaf[order], minlength=sums.shape[0])
        if self.leaf_labels is not None:
            rank = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
            order = order[rank < self.leaf_labels]
            sizes = np.minimum(sizes, self.leaf_labels)
        order = np.sort(order)  # by leaf, then by label
        return LeafVectors(
            np.concatenate(([0], np.cumsum(sizes))).astype(np.int64),
            sums.indices[order].astype(np.uint32),
            (self.rate * p[order] / below[leaf[order]]).astype(np.float32),
        )


@dataclass(frozen=True)
class NewtonLeaves:
    """Eq. 15 of GBDT-MO: value −rate · G/(H + l2) for the outputs that count most, by G²/(H + l2).

    Attributes
    ----------
    leaf_outputs : int or None
        k; None keeps every output.
    shared : bool
        Siblings keep the same outputs, those of largest sum of both (the restricted form, Algorithm 4).
    min_gain : float
        Drops an entry with G²/(H + l2) below this.
    quantile : float or None
        Where the loss has no useful curvature: a leaf's value is this quantile of its residuals.
    """

    leaf_outputs: int | None
    shared: bool
    min_gain: float
    l2: float
    rate: float
    quantile: float | None = None

    def vectors(
        self, tree: FlatTree, gradients: Array, curvatures: Array, values: Array | None = None
    ) -> LeafVectors:
        """Vectors of a tree's leaves from their sums, float64 (n_leaves, n_outputs).

        ``curvatures`` may have one column for all outputs, or the packed lower triangle of their matrix.
        """
        n_leaves, d = gradients.shape
        if curvatures.shape[1] > d > 1:
            values = _matrix_step(gradients, curvatures, self.l2)
            curvatures = curvatures[:, [i * (i + 3) // 2 for i in range(d)]]
        below = curvatures + self.l2
        safe = np.where(below > 0, below, np.inf)  # no row counts: no step
        if values is None:
            values = -gradients / safe
        if tree.leaf_bounds is not None:
            values = values.clip(tree.leaf_bounds.low, tree.leaf_bounds.high)
        if self.min_gain <= 0 and (self.leaf_outputs is None or self.leaf_outputs >= d):
            outputs = np.tile(np.arange(d, dtype=np.uint32), n_leaves)
            return LeafVectors(
                np.arange(0, n_leaves * d + 1, d), outputs, (self.rate * values).astype(np.float32).ravel()
            )
        kept = np.ones((n_leaves, d), bool)
        if self.min_gain > 0:
            kept = gradients**2 / safe >= self.min_gain
        if self.leaf_outputs is not None and self.leaf_outputs < d:
            scores = gradients**2 / safe
            if self.shared:
                scores = _sibling_scores(tree, gradients, curvatures, self.l2)
            chosen = np.argsort(-scores, axis=1, kind="stable")[:, : self.leaf_outputs]
            among = np.zeros((n_leaves, d), bool)
            np.put_along_axis(among, chosen, True, axis=1)
            kept &= among
        indptr = np.concatenate(([0], np.cumsum(kept.sum(axis=1)))).astype(np.int64)
        return LeafVectors(
            indptr, np.nonzero(kept)[1].astype(np.uint32), (self.rate * values)[kept].astype(np.float32)
        )


def _sibling_scores(tree: FlatTree, gradients: Array, curvatures: Array, l2: float) -> Array:
    """For every leaf, Σ G²/(H + l2) of its parent's two children; of the root itself where it is the only leaf."""
    n = len(tree.feature)
    curvatures = np.broadcast_to(curvatures, gradients.shape)
    sums = np.zeros((n, 2, gradients.shape[1]))
    leaf = tree.feature < 0
    sums[leaf, 0], sums[leaf, 1] = gradients[tree.child[leaf]], curvatures[tree.child[leaf]]
    for v in np.flatnonzero(~leaf)[::-1]:  # children come after their parent
        sums[v] = sums[tree.child[v]] + sums[tree.child[v] + 1]
    below = sums[:, 1] + l2
    own = sums[:, 0] ** 2 / np.where(below > 0, below, np.inf)
    both = own.copy()
    for v in np.flatnonzero(~leaf):
        left = tree.child[v]
        both[left] = both[left + 1] = own[left] + own[left + 1]
    scores = np.empty_like(gradients)
    scores[tree.child[leaf]] = both[leaf]
    return scores


def _matrix_step(gradients: Array, packed: Array, l2: float) -> Array:
    """Eq. 13: −(H + l2)⁻¹ G with the full matrix of curvatures."""
    n, d = gradients.shape
    rows, columns = np.tril_indices(d)
    matrix = np.zeros((n, d, d))
    matrix[:, rows, columns] = matrix[:, columns, rows] = packed
    matrix[:, range(d), range(d)] += max(l2, 1e-12)
    step: Array = -np.linalg.solve(matrix, gradients[:, :, None])[:, :, 0]
    return on_grid(step.T, 26).T
