"""Gradient statistics: quantised columns from which splits are found, and exact sums for the leaf values.

Two kinds: sketches of the sparse residuals of GBDT-SPARSE, and the dense gradients and hessians of GBDT-MO.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
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
    from sparseleaf.training.sketches import Sketch
    from sparseleaf.training.sparse_shard import SparseShard
    from sparseleaf.training.tree import FlatTree


AnyShard = TypeVar("AnyShard", contravariant=True)


class Statistics(Protocol[AnyShard]):
    """The gradient statistics that a tree is fitted to."""

    def fill(self, place: Placement, shard: AnyShard, tree: int) -> Columns | None:
        """Compute a tree's quantised columns on this worker, in scales common to all workers."""

    def leaves(self, place: Placement, shard: AnyShard, tree: FlatTree, number: int) -> LeafVectors:
        """Leaf vectors of a grown tree."""


class SparseResiduals:
    """Sparse residuals; without a sketch the split search reads the full residuals (``split="exact"``).

    Parameters
    ----------
    sketch : Sketch or None
    rule : LeafRule
    l2 : float
    n_rows : int
        Over all workers.
    seed : int
    """

    def __init__(self, sketch: Sketch | None, rule: LeafRule, l2: float, *, n_rows: int, seed: int) -> None:
        self._sketch = sketch
        self._rule = rule
        self._l2 = l2
        self._seed = seed
        self._scales = ScaleFitter(n_rows, seed)

    def fill(self, place: Placement, shard: SparseShard, tree: int) -> Columns | None:
        """Quantised sketch of the residuals, all columns in one scale; with row weights, their sum is the hessian."""
        if self._sketch is None:
            return None
        norms = place.rows.allreduce(shard.label_norms()) if self._sketch.needs_norms else None
        plan = self._sketch.plan(derive_key(self._seed), tree, norms)
        width = self._sketch.width
        gathered = place.rows.allgather((shard.sketch(plan, width), shard.largest_weight))
        largest, weight = (max(values) for values in zip(*gathered, strict=True))
        first = np.full(width + (weight > 0), int16_scales(np.array([largest]))[0])
        first[width:] = int16_scales(np.array([weight]))[0]
        scales = self._scales.fit(
            lambda scales, key: place.rows.allreduce(shard.quantise(scales, key)),
            first,
            [slice(0, width), slice(width, None)],
            tree,
        )
        if not weight:
            return make_columns(COUNT, scales, np.ones(1), self._l2)
        return make_columns(SHARED, scales[:width], scales[width:], self._l2)

    def leaves(self, place: Placement, shard: SparseShard, tree: FlatTree, number: int) -> LeafVectors:
        """See :class:`Statistics`."""
        nodes, counts = tree.leaf_nodes.tolist(), tree.count[tree.feature < 0]
        return LeafVectors.join(shard.all_leaf_vectors(place, nodes, counts, self._rule)).rounded()


class DenseGradients:
    """Gradients and hessians of a dense loss.

    Parameters
    ----------
    n_outputs : int
    hessian : int
        What :meth:`DenseShard.gradients` computes: COUNT (1 in every row), SHARED (the row's weight), DIAGONAL or
        MATRIX.
    rule : NewtonLeaves
    sketch : Sketch or None
        Sketch of the gradients; splits are then scored with the number (or weight) of rows as hessian.
    tree_per_output : bool
        Tree ``t`` is fitted to output ``t % n_outputs`` only.
    n_rows : int
        Over all workers.
    n_models : int
        Bagged models, whose trees alternate.
    output_weights : float64 array or None
        Weights of the outputs in the gain of a split; None for equal ones.
    repeats : int
        Maximum number of times that a row is in the sample of a tree.
    """

    def __init__(
        self,
        n_outputs: int,
        hessian: int,
        rule: NewtonLeaves,
        sketch: Sketch | None,
        *,
        tree_per_output: bool,
        n_rows: int,
        seed: int,
        n_models: int = 1,
        output_weights: Array | None = None,
        repeats: int = 1,
    ) -> None:
        self._n_outputs = n_outputs
        self._hessian = hessian
        self._rule = rule
        self._sketch = sketch
        self._alone = tree_per_output
        self._n_rows = n_rows
        self._seed = seed
        self._scales = ScaleFitter(n_rows, seed, repeats)
        self._largest_g = self._largest_h = np.empty(0)
        self._n_models = n_models
        self._output_weights = output_weights

    def fill(self, place: Placement, shard: DenseShard, tree: int) -> Columns:
        """See :class:`Statistics`."""
        if not self._alone or tree % self._n_outputs == 0:
            self.gradients(place, shard, (tree // self._n_outputs if self._alone else tree) // self._n_models)
        return self.columns(place, shard, tree)

    def gradients(self, place: Placement, shard: DenseShard, number: int) -> None:
        """Compute the gradients of round ``number``."""
        # a custom loss may fail on one worker only
        largest = gather_results(place.rows, lambda: shard.gradients(number))
        self._largest_g, self._largest_h = (np.maximum.reduce(each) for each in zip(*largest, strict=True))
        if not np.isfinite(self._largest_g).all() or not np.isfinite(self._largest_h).all():
            raise ValueError("The gradients exceed the range of float32. Scale y or sample_weight down.")

    def columns(self, place: Placement, shard: DenseShard, tree: int) -> Columns:
        """Quantise the current gradients, or a tree's sketch of them, in scales common to all workers."""
        if self._sketch is not None:
            return self._fill_sketch(place, shard, self._sketch, tree)
        outputs = slice(tree % self._n_outputs, tree % self._n_outputs + 1) if self._alone else slice(None)
        largest_g, largest_h = self._largest_g[outputs], self._largest_h
        if self._hessian == DIAGONAL:
            largest_h = largest_h[outputs]
        elif self._hessian == MATRIX:  # a quadratic form requires one scale
            largest_g, largest_h = (np.full_like(a, a.max(initial=0)) for a in (largest_g, largest_h))
        first = outputs.start or 0
        g_scale, h_scale = self._fit_scales(
            lambda g, h, key: place.rows.allreduce(shard.quantise(g, h, key, first)),
            tree,
            int16_scales(largest_g),
            int16_scales(largest_h),
        )
        diagonal = h_scale[: len(g_scale)] if len(h_scale) else np.ones(1)
        columns = make_columns(self._hessian, g_scale, diagonal, self._rule.l2, first)
        if self._output_weights is None:
            return columns
        return replace(columns, weight=columns.weight * self._output_weights[outputs])

    def _fill_sketch(self, place: Placement, shard: DenseShard, sketch: Sketch, tree: int) -> Columns:
        norms = None
        if sketch.needs_norms:
            # one scale, so that outputs are comparable, small enough for the sum over all outputs
            together = fixed_point_scales(self._largest_g.max(keepdims=True), self._n_rows * self._n_outputs)
            norms = place.rows.allreduce(shard.output_norms(np.repeat(together, self._n_outputs)))
        plan = sketch.plan(derive_key(self._seed), tree, norms)
        factors = None if self._output_weights is None else np.sqrt(self._output_weights)
        largest = place.rows.allreduce(shard.sketch(plan, sketch.width, factors), "max")
        g_scale, h_scale = self._fit_scales(
            lambda g, h, key: place.rows.allreduce(shard.quantise_sketch(g, h, key)),
            tree,
            np.full(sketch.width, int16_scales(largest[:1])[0]),
            int16_scales(largest[1:]),
        )
        hessian = SHARED if len(h_scale) else COUNT
        return make_columns(hessian, g_scale, h_scale if len(h_scale) else np.ones(1), self._rule.l2)

    def _fit_scales(
        self,
        quantise: Callable[[Array, Array, int | None], Array],
        tree: int,
        g_scale: Array,
        h_scale: Array,
    ) -> tuple[Array, Array]:
        """The largest scales of gradients and hessians, from these down, for which all sums fit 32 bits."""
        n, largest = len(g_scale), np.concatenate((g_scale, h_scale))
        one_scale = self._hessian == MATRIX or self._sketch is not None
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
        gradients, hessians = (
            sums[:, : len(g_scale)] / g_scale,
            sums[:, len(g_scale) : len(g_scale) + len(h_scale)] / h_scale,
        )
        if not len(h_scale):
            hessians = sums[:, -1:].astype(np.float64)  # rows
        if self._alone:
            output = slice(number % self._n_outputs, number % self._n_outputs + 1)
            gradients, hessians = (
                gradients[:, output],
                hessians[:, output] if hessians.shape[1] > 1 else hessians,
            )
        values = None
        if self._rule.quantile is not None:
            counts = tree.count[tree.feature < 0]
            values = shard.all_leaf_quantiles(place, nodes, counts, self._rule.quantile)
            values = values[:, output] if self._alone else values
        vectors = self._rule.vectors(tree, gradients, hessians, values)
        return vectors.shifted(output.start) if self._alone else vectors
