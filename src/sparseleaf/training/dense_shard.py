"""A shard with dense targets, scores and gradients, rows × outputs, as dense losses require (GBDT-MO)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sparseleaf import _kernels
from sparseleaf._arrays import even_ranges
from sparseleaf.objectives.targets import DenseTargets
from sparseleaf.training.shard import Shard

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.distributed.placement import Placement
    from sparseleaf.objectives.dense import DenseObjective
    from sparseleaf.training.sketches import SketchPlan
    from sparseleaf.training.tree import LeafVectors


class DenseShard(Shard):
    """Rows with their bins, targets, weights and scores.

    Parameters
    ----------
    bins, missing_bins, n_jobs, first_row, draws
        See :class:`Shard`.
    targets : DenseTargets
    scores : float32 array, shape (n_rows, n_outputs)
        Initial scores; updated in place.
    loss : DenseObjective
    matrix : bool
        Whether to compute the full hessian matrix across outputs, not its diagonal.
    """

    def __init__(
        self,
        bins: Array,
        missing_bins: Array,
        targets: DenseTargets,
        scores: Array,
        loss: DenseObjective,
        n_jobs: int,
        *,
        matrix: bool = False,
        first_row: int = 0,
        draws: Array | None = None,
    ) -> None:
        super().__init__(bins, missing_bins, n_jobs, first_row=first_row, draws=draws)
        self.targets = targets
        self.scores = scores
        self.loss = loss
        self._matrix = matrix
        self._g = np.empty((0, 0), np.float32)
        self._diagonal = self._h = np.empty((0, 0), np.float32)
        self._columns = np.empty((0, 0), np.float32)
        self._fold = np.empty(0, np.int32)
        self._models: list[Array] = []

    # --- bagged models

    def bag(self, fold: Array, n_models: int) -> None:
        """Keep the scores of ``n_models`` models; model k leaves out the rows whose ``fold`` is k."""
        self._fold = fold
        self._models = [self.scores, *(self.scores.copy() for _ in range(n_models - 1))]

    def use_model(self, number: int) -> None:
        """The model of the next trees."""
        self.scores = self._models[number]
        self._left_out = self._fold == number

    def held_out(self) -> tuple[Array, Array]:
        """The rows that some model leaves out, and their scores by that model."""
        rows = np.flatnonzero(self._fold < len(self._models))
        scores = np.empty((len(rows), self.scores.shape[1]), np.float32)
        for number, of_model in enumerate(self._models):
            at = self._fold[rows] == number
            scores[at] = self._take(of_model, rows[at])
        return rows, scores

    def _take(self, scores: Any, rows: Array) -> Array:
        """Scores of some rows."""
        taken: Array = scores[rows]
        return taken

    # --- gradients

    def gradients(self, round_number: int) -> tuple[Array, Array]:
        """Compute gradients and hessians at the current scores and return the maximum per column of both."""
        loss = self.loss.at(round_number)
        if self._g.shape != self.scores.shape:
            self._g = np.empty_like(self.scores)
            self._diagonal = self.loss.hessian_room(self.targets, self.scores.shape)
        largest = loss.gradients(self.targets, self.scores, self._g, self._diagonal, self._n_jobs)
        if not self._matrix:
            self._h = self._diagonal
            return largest
        self._h = loss.full_hessians(self.targets, self._g, self._n_jobs)
        return largest[0], np.abs(self._h).max(axis=0, initial=0.0)

    def output_norms(self, scale: Array) -> Array:
        """Σ |gradient| · scale of every output, int64."""
        whole = np.array([0]), np.array([self.n_rows])
        sums = np.empty((1, self.scores.shape[1]), np.int64)
        rows = np.arange(self.n_rows, dtype=np.int32)
        _kernels.leaf_sums(np.abs(self._g), scale, rows, *whole, sums, self._n_jobs)
        total: Array = sums[0]
        return total

    def quantise(self, g_scale: Array, h_scale: Array, key: int | None, first: int) -> Array:
        """Quantise gradients and hessians from output ``first`` on; return Σ of absolute values per column."""
        first_h = first if self._h.shape[1] > 1 else 0
        return self._quantise_both(self._g, first, g_scale, self._h, first_h, h_scale, key)

    def sketch(self, plan: SketchPlan, width: int, factors: Array | None = None) -> Array:
        """Compute the sketched gradients; return their largest absolute value, and that of the weights if any.

        ``factors`` multiply the gradients of the outputs before.
        """
        if self._columns.shape[1] != width:
            self._columns = np.empty((self.n_rows, width), np.float32)
        gradients = self._g if factors is None else self._g * factors.astype(np.float32)
        largest = [plan.fill_dense(gradients, self._columns, self._n_jobs)]
        weights = self.targets.weights
        return np.array(largest + ([float(weights.mean(axis=1).max())] if len(weights) else []))

    def quantise_sketch(self, g_scale: Array, h_scale: Array, key: int | None) -> Array:
        """As :meth:`quantise`, for the sketched gradients; the hessian is the row's weight."""
        weights = self.targets.weights.mean(axis=1, keepdims=True) if len(h_scale) else self.targets.weights
        return self._quantise_both(self._columns, 0, g_scale, weights, 0, h_scale, key)

    def _quantise_both(
        self,
        g: Array,
        first_g: int,
        g_scale: Array,
        h: Array,
        first_h: int,
        h_scale: Array,
        key: int | None,
    ) -> Array:
        self.make_columns(len(g_scale) + len(h_scale))
        sums = self._quantise(g, first_g, g_scale, 0, key)
        if not len(h_scale):
            return sums
        return np.concatenate((sums, self._quantise(h, first_h, h_scale, len(g_scale), key)))

    def leaf_sums(self, leaves: list[int], g_scale: Array, h_scale: Array) -> Array:
        """Columns Σ gradients, Σ hessians (both fixed-point) and number of rows of every leaf, int64."""
        starts, ends = self._rows.ranges(leaves)
        sums = [
            self._sum_rows(values, scale, starts, ends)
            for values, scale in ((self._g, g_scale), (self._h, h_scale))
            if len(scale)
        ]
        return np.hstack([*sums, (ends - starts)[:, None]])

    def _sum_rows(self, values: Any, scale: Array, starts: Array, ends: Array) -> Array:
        """Σ value · scale over ranges of the rows, in fixed point, int64."""
        sums = np.empty((len(starts), len(scale)), np.int64)
        _kernels.leaf_sums(values, scale, self._rows.rows, starts, ends, sums, self._n_jobs)
        return sums

    def all_leaf_sums(self, place: Placement, leaves: list[int], g_scale: Array, h_scale: Array) -> Array:
        """As :meth:`leaf_sums`, over the rows of all workers."""
        if place.rows.size > 1:
            return place.rows.allreduce(self.leaf_sums(leaves, g_scale, h_scale))
        share = self._leaf_share(leaves, 8 * (len(g_scale) + len(h_scale) + 1))
        if share is None:
            return self.leaf_sums(leaves, g_scale, h_scale)
        return np.concatenate(
            place.workers.allgather(self.leaf_sums(leaves[slice(*share)], g_scale, h_scale))
        )

    def all_leaf_quantiles(self, place: Placement, leaves: list[int], counts: Array, share: float) -> Array:
        """Quantile of the residuals of every leaf's rows, per output, float64.

        ``counts`` are the leaves' rows over all workers, among which the leaves are divided.
        """
        if place.rows.size == 1:
            columns = self.targets.values, self.scores, self.targets.weights
            starts, ends = self._rows.ranges(leaves)
            return _quantiles(columns, share, self._rows.rows, starts, ends, self._n_jobs)
        pieces = place.rows.alltoall(self._residuals_by_worker(place, leaves, counts))
        first, end = even_ranges(counts, place.rows.size)[place.rows.rank]
        values = tuple(
            np.concatenate(columns) for columns in zip(*(arrays for arrays, _ in pieces), strict=True)
        )
        leaf = np.concatenate([np.repeat(np.arange(end - first), sizes) for _, sizes in pieces])
        rows = np.argsort(leaf, kind="stable").astype(np.int32)
        borders = np.concatenate(([0], np.cumsum(counts[first:end]))).astype(np.int64)
        quantiles = _quantiles(values, share, rows, borders[:-1], borders[1:], self._n_jobs)
        return np.concatenate(place.rows.allgather(quantiles))

    def _residuals_by_worker(self, place: Placement, leaves: list[int], counts: Array) -> list[Any]:
        """Targets, scores and weights of the leaves' rows, by the worker that computes the leaves."""
        starts, ends = self._rows.ranges(leaves)
        pieces = []
        for first, end in even_ranges(counts, place.rows.size):
            rows = [self._rows.rows[starts[leaf] : ends[leaf]] for leaf in range(first, end)]
            which = np.concatenate([np.empty(0, np.int32), *rows])
            weights = self.targets.weights[which] if len(self.targets.weights) else self.targets.weights
            pieces.append(((self.targets.values[which], self.scores[which], weights), [len(r) for r in rows]))
        return pieces

    def n_entries(self) -> int:
        """Number of stored (row, output) scores."""
        return self.scores.size

    def _add(self, vectors: LeafVectors, leaf_of_row: Array) -> None:
        _kernels.add_leaves(
            self.scores, leaf_of_row, vectors.indptr, vectors.labels, vectors.values, self._n_jobs
        )

    def _state(self) -> tuple[Any, ...]:
        return self._draws, self.targets, self.scores, self.loss, self._fold, self._models

    def _adopt_state(self, states: list[tuple[Any, ...]]) -> None:
        self.targets = DenseTargets.join([state[1] for state in states])
        self.scores = np.concatenate([state[2] for state in states])
        self.loss = self.loss.joined([state[3] for state in states])
        self._fold = np.concatenate([state[4] for state in states])
        self._models = [
            np.concatenate(scores) for scores in zip(*(state[5] for state in states), strict=True)
        ]


def _quantiles(
    columns: tuple[Array, ...], share: float, rows: Array, starts: Array, ends: Array, n_jobs: int
) -> Array:
    targets, scores, weights = columns
    out = np.empty((len(starts), scores.shape[1]))
    _kernels.leaf_quantiles(targets, scores, weights, share, rows, starts, ends, out, n_jobs)
    return out
