"""Statistics: what a tree is fitted to, as integer columns for its structure and as exact sums for its leaves.

Two kinds: the sparse residuals of GBDT-SPARSE, reduced to a few columns, and the dense gradients and curvatures of
GBDT-MO.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np

from sparseleaf._arrays import derive_key
from sparseleaf.distributed.failures import gather_results
from sparseleaf.training.columns import (
    COUNT,
    DIAGONAL,
    MATRIX,
    SHARED,
    fixed_point_scales,
    int16_scales,
    make_columns,
)
from sparseleaf.training.scales import ScaleFitter
from sparseleaf.training.tree import LeafVectors

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.distributed.placement import Placement
    from sparseleaf.training.columns import Columns
    from sparseleaf.training.dense_shard import DenseShard
    from sparseleaf.training.leaves import LeafRule, NewtonLeaves
    from sparseleaf.training.sketches import Reducer
    from sparseleaf.training.sparse_shard import SparseShard
    from sparseleaf.training.tree import FlatTree


AnyShard = TypeVar("AnyShard", contravariant=True)


class Statistics(Protocol[AnyShard]):
    """What a tree is fitted to."""

    def fill(self, place: Placement, shard: AnyShard, tree: int) -> Columns | None:
        """Make the integer columns of a tree on all workers, in scales that all share."""

    def leaves(self, place: Placement, shard: AnyShard, tree: FlatTree, number: int) -> LeafVectors:
        """The vectors of a grown tree's leaves."""


class SparseResiduals:
    """Sparse residuals; the reducer is None where the split search reads them in full itself.

    Parameters
    ----------
    reducer : Reducer or None
    rule : LeafRule
    l2 : float
    n_rows : int
        Over all workers.
    seed : int
    """

    def __init__(self, reducer: Reducer | None, rule: LeafRule, l2: float, *, n_rows: int, seed: int) -> None:
        self._reducer = reducer
        self._rule = rule
        self._l2 = l2
        self._seed = seed
        self._scales = ScaleFitter(n_rows, seed)

    def fill(self, place: Placement, shard: SparseShard, tree: int) -> Columns | None:
        """Reduced residuals as 16-bit integers, in one scale."""
        if self._reducer is None:
            return None
        norms = place.rows.allreduce(shard.label_norms()) if self._reducer.needs_norms else None
        plan = self._reducer.plan(derive_key(self._seed), tree, norms)
        width = self._reducer.width
        largest = max(place.rows.allgather(shard.reduce(plan, width)))
        scales = self._scales.fit(
            lambda scales, key: place.rows.allreduce(shard.quantise(scales, key)),
            np.full(width, int16_scales(np.array([largest]))[0]),
            [slice(None)],
            tree,
        )
        return make_columns(COUNT, scales, np.ones(1), self._l2)

    def leaves(self, place: Placement, shard: SparseShard, tree: FlatTree, number: int) -> LeafVectors:
        """See :class:`Statistics`."""
        nodes, counts = tree.leaf_nodes.tolist(), tree.count[tree.feature < 0]
        return LeafVectors.join(shard.all_leaf_vectors(place, nodes, counts, self._rule)).rounded()


class DenseGradients:
    """Gradients and curvatures of a dense loss.

    Parameters
    ----------
    n_outputs : int
    curvature : int
        What :meth:`DenseShard.gradients` leaves: COUNT for 1 in every row, SHARED for the row's weight, DIAGONAL or
        MATRIX.
    rule : NewtonLeaves
    reducer : Reducer or None
        Makes few columns of many outputs; cuts are then valued by number (or weight) of rows.
    tree_per_output : bool
        Tree ``t`` is for output ``t % n_outputs`` alone.
    n_rows : int
        Over all workers.
    """

    def __init__(
        self,
        n_outputs: int,
        curvature: int,
        rule: NewtonLeaves,
        reducer: Reducer | None,
        *,
        tree_per_output: bool,
        n_rows: int,
        seed: int,
    ) -> None:
        self._n_outputs = n_outputs
        self._curvature = curvature
        self._rule = rule
        self._reducer = reducer
        self._alone = tree_per_output
        self._n_rows = n_rows
        self._seed = seed
        self._scales = ScaleFitter(n_rows, seed)
        self._largest_g = self._largest_h = np.empty(0)

    def fill(self, place: Placement, shard: DenseShard, tree: int) -> Columns:
        """See :class:`Statistics`."""
        if not self._alone or tree % self._n_outputs == 0:
            number = tree // self._n_outputs if self._alone else tree
            # a loss of the user's may fail on one worker
            found = gather_results(place.rows, lambda: shard.gradients(number))
            self._largest_g, self._largest_h = (np.maximum.reduce(each) for each in zip(*found, strict=True))
            if not np.isfinite(self._largest_g).all() or not np.isfinite(self._largest_h).all():
                raise ValueError(
                    "y, sample_weight: found numbers whose gradients pass float32; wanted smaller ones."
                )
        if self._reducer is not None:
            return self._fill_reduced(place, shard, self._reducer, tree)
        outputs = slice(tree % self._n_outputs, tree % self._n_outputs + 1) if self._alone else slice(None)
        largest_g, largest_h = self._largest_g[outputs], self._largest_h
        if self._curvature == DIAGONAL:
            largest_h = largest_h[outputs]
        elif self._curvature == MATRIX:  # a quadratic form wants one scale
            largest_g, largest_h = (np.full_like(a, a.max(initial=0)) for a in (largest_g, largest_h))
        first = outputs.start or 0
        g_scale, h_scale = self._fit_scales(
            lambda g, h, key: place.rows.allreduce(shard.quantise(g, h, key, first)),
            tree,
            int16_scales(largest_g),
            int16_scales(largest_h),
        )
        own_h = h_scale[: len(g_scale)] if len(h_scale) else np.ones(1)
        return make_columns(self._curvature, g_scale, own_h, self._rule.l2, first)

    def _fill_reduced(self, place: Placement, shard: DenseShard, reducer: Reducer, tree: int) -> Columns:
        norms = None
        if reducer.needs_norms:
            # one scale, so that outputs can be compared, and room for the sum of all
            together = fixed_point_scales(self._largest_g.max(keepdims=True), self._n_rows * self._n_outputs)
            norms = place.rows.allreduce(shard.output_norms(np.repeat(together, self._n_outputs)))
        plan = reducer.plan(derive_key(self._seed), tree, norms)
        found = place.rows.allreduce(shard.reduce(plan, reducer.width), "max")
        g_scale, h_scale = self._fit_scales(
            lambda g, h, key: place.rows.allreduce(shard.quantise_reduced(g, h, key)),
            tree,
            np.full(reducer.width, int16_scales(found[:1])[0]),
            int16_scales(found[1:]),
        )
        curvature = SHARED if len(h_scale) else COUNT
        return make_columns(curvature, g_scale, h_scale if len(h_scale) else np.ones(1), self._rule.l2)

    def _fit_scales(
        self,
        quantise: Callable[[Array, Array, int | None], Array],
        tree: int,
        g_scale: Array,
        h_scale: Array,
    ) -> tuple[Array, Array]:
        """Scales of gradients and hessians for which all sums fit, from the largest ones."""
        n, largest = len(g_scale), np.concatenate((g_scale, h_scale))
        one_scale = self._curvature == MATRIX or self._reducer is not None
        scales = self._scales.fit(
            lambda scales, key: quantise(scales[:n], scales[n:], key),
            largest,
            [slice(0, n), slice(n, None)] if one_scale else [],
            tree,
        )
        return scales[:n], scales[n:]

    def _fixed_scales(self) -> tuple[Array, Array]:
        return fixed_point_scales(self._largest_g, self._n_rows), fixed_point_scales(
            self._largest_h, self._n_rows
        )

    def leaves(self, place: Placement, shard: DenseShard, tree: FlatTree, number: int) -> LeafVectors:
        """See :class:`Statistics`."""
        nodes = tree.leaf_nodes.tolist()
        g_scale, h_scale = self._fixed_scales()
        sums = shard.all_leaf_sums(place, nodes, g_scale, h_scale)
        gradients, curvatures = (
            sums[:, : len(g_scale)] / g_scale,
            sums[:, len(g_scale) : len(g_scale) + len(h_scale)] / h_scale,
        )
        if not len(h_scale):
            curvatures = sums[:, -1:].astype(np.float64)  # rows
        if self._alone:
            own = slice(number % self._n_outputs, number % self._n_outputs + 1)
            gradients, curvatures = (
                gradients[:, own],
                curvatures[:, own] if curvatures.shape[1] > 1 else curvatures,
            )
        values = None
        if self._rule.quantile is not None:
            counts = tree.count[tree.feature < 0]
            values = shard.all_leaf_quantiles(place, nodes, counts, self._rule.quantile)
            values = values[:, own] if self._alone else values
        vectors = self._rule.vectors(tree, gradients, curvatures, values)
        return vectors.shifted(own.start) if self._alone else vectors
