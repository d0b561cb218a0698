"""A shard: a block of rows with all its state, and the few verbs the grower needs of it.

Here is what all shards have: bins, and which row is in which node of the tree that grows. What is fitted, sparse
residuals or dense gradients, is their subclasses'.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sparseleaf import _kernels
from sparseleaf._arrays import empty_aligned, hash_numbers
from sparseleaf.binning import common_bins
from sparseleaf.boosting.columns import padded_width

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.boosting.histograms import HistogramPool
    from sparseleaf.boosting.tree import FlatTree, LeafVectors

BLOCK_ROWS = 16_384
"""Rows that are worked on at a time where that bounds memory. A power of two."""


class Shard:
    """Rows with their bins, and which row is in which node.

    Parameters
    ----------
    bins : uint8 or uint32 array, shape (n_rows, n_features)
    missing_bins : int32 array, shape (n_features,)
    n_jobs : int
        Threads.
    first_row : int
        Global number of the first row: random draws depend on it, not on the shard.
    draws : int64 array, shape (n_rows,), optional
        Numbers to draw rows by, in place of their global ones: those with the same are drawn together.
    """

    def __init__(
        self,
        bins: Array,
        missing_bins: Array,
        n_jobs: int,
        *,
        first_row: int = 0,
        draws: Array | None = None,
    ) -> None:
        self.bins = bins
        self.missing_bins = missing_bins
        self.n_rows: int = bins.shape[0]
        self._n_jobs = n_jobs
        self._draws = np.arange(first_row, first_row + self.n_rows) if draws is None else draws
        # features with one common bin are also kept as the rows that have another, once histograms are wanted
        self._common = common_bins(bins)
        self._uncommon: tuple[Array, Array] | None = None
        self._features = np.empty(0, np.int32)
        self._sparse = np.empty(0, np.uint8)
        self._residuals = np.empty((0, 0), np.int16)
        self._count_column = -1
        self._rows = np.empty(0, np.int32)
        self._unsampled = np.empty(0, np.int32)
        self._starts: list[int] = []
        self._ends: list[int] = []

    def make_columns(self, width: int) -> None:
        """Room for the integer columns of the histograms."""
        padded = padded_width(width)
        if self._residuals.shape[1] == padded:
            return
        self._residuals = empty_aligned((self.n_rows, padded), np.int16)
        self._residuals[:] = 0
        if width < padded:  # padding leaves a column: rows are counted in it
            self._count_column = padded - 1
            self._residuals[:, -1] = 1

    def missing_features(self) -> Array:
        """Rows without a value, of every feature, int64."""
        counts = np.zeros(self.bins.shape[1], np.int64)
        for begin in range(0, self.n_rows, BLOCK_ROWS):
            counts += np.count_nonzero(self.bins[begin : begin + BLOCK_ROWS] == self.missing_bins, axis=0)
        return counts

    def plant(self, share: float, *key: int) -> int:
        """Put all rows, or a random share of them, into the root; how many."""
        if share >= 1.0:
            self._rows = np.arange(self.n_rows, dtype=np.int32)
            self._unsampled = np.empty(0, np.int32)
        else:
            sampled = hash_numbers(self._draws, *key) < np.uint64(int(share * 2.0**64))
            self._rows = np.flatnonzero(sampled).astype(np.int32)
            self._unsampled = np.flatnonzero(~sampled).astype(np.int32)
        self._starts, self._ends = [0], [len(self._rows)]
        return len(self._rows)

    def histograms(self, nodes: list[int], slots: list[int], pool: HistogramPool) -> None:
        """Fill the pool's slots with the histograms of the given nodes."""
        if self._uncommon is None:
            self._uncommon = _kernels.uncommon_bins(self.bins, self._common, pool.first, self._n_jobs)
        if self._features is not pool.features:
            self._features, self._sparse = pool.features, (self._common[pool.features] >= 0).astype(np.uint8)
        indptr, places = self._uncommon
        starts, ends = self._ranges(nodes)
        at = np.array(slots, np.int32)
        _kernels.build_histograms(
            self.bins,
            self._residuals,
            self._rows,
            starts,
            ends,
            at,
            pool.features,
            pool.offsets,
            self._sparse,
            self._count_column,
            pool.sums,
            pool.counts,
            self._n_jobs,
        )
        _kernels.build_sparse_histograms(
            indptr,
            places,
            pool.first,
            self._common,
            self._residuals,
            self._rows,
            starts,
            ends,
            at,
            pool.features,
            pool.offsets,
            pool.bin_at,
            self._count_column,
            pool.sums,
            pool.counts,
            self._n_jobs,
        )

    def apply_splits(
        self,
        nodes: list[int],
        feature: Array,
        bin_: Array,
        missing_left: Array,
        set_of: Array,
        sets: Array,
    ) -> None:
        """Part the nodes' rows; children are numbered on from the last node."""
        starts, ends = self._ranges(nodes)
        middles = np.empty(len(nodes), np.int64)
        _kernels.partition(
            self.bins,
            self._rows,
            starts,
            ends,
            feature,
            bin_,
            self.missing_bins[feature],
            missing_left,
            set_of,
            sets,
            middles,
            self._n_jobs,
        )
        for start, middle, end in zip(starts.tolist(), middles.tolist(), ends.tolist(), strict=True):
            self._starts += (start, middle)
            self._ends += (middle, end)

    def add_leaves(self, tree: FlatTree, vectors: LeafVectors) -> None:
        """Give every row its leaf's vector, rows left out of the tree's sample too."""
        leaf_of_row = np.empty(self.n_rows, np.int32)
        starts, ends = self._ranges(tree.leaf_nodes.tolist())
        # leaves part the tree's rows into ranges: in order of start, they follow each other without a gap
        order = np.lexsort((ends, starts))
        leaf_of_row[self._rows] = np.repeat(order, (ends - starts)[order])
        self._route(self._unsampled, tree, leaf_of_row)
        self._add(vectors, leaf_of_row)

    def follow(self, tree: FlatTree, vectors: LeafVectors) -> None:
        """Send all rows down a tree that is there, and give them its leaves' vectors, to the bit as when it grew.

        For rows that are only watched (a validation set), and for trees of a checkpoint.
        """
        leaf_of_row = np.empty(self.n_rows, np.int32)
        self._route(np.arange(self.n_rows, dtype=np.int32), tree, leaf_of_row)
        self._add(vectors, leaf_of_row)

    # --- inside

    def _ranges(self, nodes: list[int]) -> tuple[Array, Array]:
        return (
            np.array([self._starts[node] for node in nodes], np.int64),
            np.array([self._ends[node] for node in nodes], np.int64),
        )

    def _route(self, rows: Array, tree: FlatTree, leaf_of_row: Array) -> None:
        if len(rows):
            _kernels.route_binned(
                self.bins,
                rows,
                tree.feature,
                tree.bin,
                tree.missing_bin,
                tree.missing_left,
                tree.set_of,
                tree.sets,
                tree.child,
                leaf_of_row,
                self._n_jobs,
            )

    def _add(self, vectors: LeafVectors, leaf_of_row: Array) -> None:
        """Add to every row's scores the vector of its leaf."""
        raise NotImplementedError
