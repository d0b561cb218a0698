"""Shard: the binned rows of one worker and the leaf that each row is in.

Subclasses add what trees are fitted to: sparse residuals or dense gradients.

A shard starts in the row layout, with all features of some rows. :meth:`Shard.take_columns` converts it to the feature
layout, all rows of some features: everything but the bins is then replicated on every worker, so that only splits and
partitions are exchanged.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from sparseleaf import _kernels
from sparseleaf._arrays import WORD, derive_key, empty_aligned, even_ranges
from sparseleaf._threads import fill_rows
from sparseleaf.training.builder import BinnedColumns, TreeSample, gradient_columns
from sparseleaf.training.columns import padded_width

if TYPE_CHECKING:
    from typing import Any

    from sparseleaf._arrays import Array
    from sparseleaf.distributed.communicator import Communicator
    from sparseleaf.training.builder import GrownTree, TreeBuilder, Trees
    from sparseleaf.training.columns import Columns
    from sparseleaf.training.tree import FlatTree, GrownNodes, LeafVectors

FEW_BYTES = 4096
"""Message size below which sharing work between workers always pays off."""


class Shard:
    """Binned rows, and the leaf of each.

    Parameters
    ----------
    bins : uint8 or uint32 array, shape (n_rows, n_features)
    missing_bins : int32 array, shape (n_features,)
    n_jobs : int
        Threads.
    first_row : int
        Global index of the first row: random draws are keyed by it, not by the shard.
    draws : int64 array, shape (n_rows,), optional
        Sampling keys of the rows instead of their global indices: rows with equal keys are sampled together.
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
        self.missing_bins = missing_bins
        self._n_jobs = n_jobs
        self._first_row = first_row
        self._draws = np.arange(first_row, first_row + len(bins)) if draws is None else draws
        self._rank, self._n_shards = 0, 1
        self._feature_stride = 1  # in the feature layout, the number of shards among which features alternate
        self._adopt_bins(bins)
        self._residuals = np.empty((0, 0), np.int16)
        self._count_column = -1
        self._rows, self._oob = RowsByLeaf.of(np.empty(0, np.int32)), RowsByLeaf.of(np.empty(0, np.int32))
        self._left_out: Array | None = None  # rows that are in no sample

    def _adopt_bins(self, bins: Array) -> None:
        self.bins = bins
        self.n_rows: int = bins.shape[0]
        self._builder: tuple[Trees, TreeBuilder] | None = None

    def set_rank(self, rank: int, n_shards: int) -> None:
        """Set the rank of this shard among all shards."""
        self._rank, self._n_shards = rank, n_shards

    @property
    def _all_rows(self) -> bool:
        """Whether this shard is in the feature layout."""
        return self._feature_stride > 1

    def make_columns(self, width: int) -> None:
        """Allocate the quantised columns."""
        padded = padded_width(width)
        if self._residuals.shape[1] == padded:
            return
        row = np.zeros(padded, np.int16)
        if width < padded:  # a free padding column counts the rows
            self._count_column = padded - 1
            row[-1] = 1
        self._residuals = empty_aligned((self.n_rows, padded), np.int16)
        fill_rows(self._residuals, row, self._n_jobs)

    def _quantise(self, values: Array, first: int, scales: Array, to: int, key: int | None) -> Array:
        """Quantise columns ``first``… of ``values`` into columns ``to``…; returns Σ of absolute values of each.

        Rounds to nearest or, with a key, stochastically: see :mod:`sparseleaf.training.scales`.
        """
        magnitude = np.empty(len(scales), np.int64)
        _kernels.quantise_columns(
            values,
            first,
            scales.astype(np.float32),
            self._residuals,
            to,
            key is not None,
            key or 0,
            self._first_row,
            magnitude,
            self._n_jobs,
        )
        return magnitude

    def missing_features(self) -> Array:
        """Number of missing values of every feature, int64."""

        counts = np.empty(self.bins.shape[1], np.int64)
        _kernels.count_bins(self.bins, self.missing_bins, counts, self._n_jobs)
        return counts

    def start_tree(self, share: float, *key: int) -> int:
        """Sample a fraction ``share`` of the rows for the next tree; returns the number of sampled rows."""
        if share >= 1.0 and self._left_out is None:
            rows, others = np.arange(self.n_rows, dtype=np.int32), np.empty(0, np.int32)
        else:
            left_out = np.empty(0, np.uint8) if self._left_out is None else self._left_out.view(np.uint8)
            highest = min(max(int(share * 2.0**64) - 1, 0), WORD)
            rows, others = _kernels.sample_rows(self._draws, left_out, derive_key(*key), highest)
        self._rows, self._oob = RowsByLeaf.of(rows), RowsByLeaf.of(others)
        return len(rows)

    def build_tree(
        self,
        trees: Trees,
        columns: Columns | None,
        features: Array,
        n_node_features: int,
        key: int,
        communicator: Communicator,
    ) -> GrownNodes:
        """Grow a tree on the sample and record the leaf of every row."""
        if self._builder is None or self._builder[0] is not trees:
            self._builder = trees, trees.make_builder(self._binned(), self._n_jobs)
        oob_rows = self._oob.rows if self._all_rows else np.empty(0, np.int32)
        sample = TreeSample(self._rows.rows, oob_rows, features, n_node_features, key)
        grown = self._grow(self._builder[1], columns, sample, communicator)
        self._rows = RowsByLeaf(self._rows.rows, grown.starts, grown.ends)
        self._oob = RowsByLeaf(self._oob.rows, grown.oob_starts, grown.oob_ends)
        return grown.nodes

    def _binned(self) -> BinnedColumns:
        first = self._rank if self._all_rows else 0
        return BinnedColumns(self.bins, self.missing_bins, first, self._feature_stride)

    def _grow(
        self, builder: Any, columns: Columns | None, sample: TreeSample, communicator: Communicator
    ) -> GrownTree:
        grown: GrownTree = builder.build(
            self._fitted(columns), sample, communicator, by_rows=not self._all_rows
        )
        return grown

    def _fitted(self, columns: Columns | None) -> Any:
        """The statistics to fit, as the builder takes them."""
        assert columns is not None
        return gradient_columns(self._residuals, self._count_column, columns)

    # --- leaves

    def add_leaves(self, tree: FlatTree, vectors: LeafVectors) -> None:
        """Add the leaf vectors to the scores of all rows, including out-of-bag rows."""
        leaf_of_row = np.empty(self.n_rows, np.int32)
        self._rows.write_leaves(tree.leaf_nodes.tolist(), leaf_of_row, self._n_jobs)
        if self._all_rows:
            self._oob.write_leaves(tree.leaf_nodes.tolist(), leaf_of_row, self._n_jobs)
        else:
            self._route(self._oob.rows, tree, leaf_of_row)
        self._add(vectors, leaf_of_row)

    def apply_tree(self, tree: FlatTree, vectors: LeafVectors) -> None:
        """Route all rows through a grown tree and add its leaf vectors, bit-identical to :meth:`add_leaves`.

        For validation sets and for trees of a checkpoint.
        """
        leaf_of_row = np.empty(self.n_rows, np.int32)
        self._route(np.arange(self.n_rows, dtype=np.int32), tree, leaf_of_row)
        self._add(vectors, leaf_of_row)

    def _leaf_share(self, leaves: list[int], leaf_bytes: int) -> tuple[int, int] | None:
        """In the feature layout, the range of leaves that this shard computes, or None to compute all everywhere.

        Dividing the leaves pays off if exchanging them takes at most a quarter of the traffic of the partitions: one
        bit per row and level, with at least log₂(leaves) levels.
        """
        if self._n_shards == 1:
            return None
        partition = self.n_rows * math.log2(max(2, len(leaves))) / 8
        if len(leaves) * leaf_bytes > max(partition / 4, FEW_BYTES):
            return None
        starts, ends = self._rows.ranges(leaves)
        return even_ranges(ends - starts, self._n_shards)[self._rank]

    # --- from rows to features

    def split_columns(self) -> list[Any]:
        """For every shard, the bins of its features and the other state of this shard's rows.

        Features alternate between shards, since useful ones are often adjacent.
        """
        state = self._state()
        strides = [slice(rank, None, self._n_shards) for rank in range(self._n_shards)]
        return [(np.ascontiguousarray(self.bins[:, stride]), state) for stride in strides]

    def take_columns(self, pieces: list[Any]) -> None:
        """Convert to the feature layout, given what all shards sent from :meth:`split_columns`."""
        self._feature_stride = self._n_shards
        self._draws = np.concatenate([state[0] for _, state in pieces])
        self._first_row = 0
        self._adopt_state([state for _, state in pieces])
        self._adopt_bins(np.concatenate([bins for bins, _ in pieces]))

    # --- internal

    def _state(self) -> tuple[Any, ...]:
        """State of the rows besides their bins; sampling keys first."""
        raise NotImplementedError

    def _adopt_state(self, states: list[tuple[Any, ...]]) -> None:
        """Replace the state by that of all shards' rows."""
        raise NotImplementedError

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
        """Add the vector of its leaf to every row's scores."""
        raise NotImplementedError


class RowsByLeaf:
    """Rows grouped by leaf."""

    def __init__(self, rows: Array, starts: Array, ends: Array) -> None:
        self.rows = rows
        self._starts = starts
        self._ends = ends

    @classmethod
    def of(cls, rows: Array) -> RowsByLeaf:
        """All rows in the root."""
        return cls(rows, np.zeros(1, np.int64), np.full(1, len(rows), np.int64))

    def sorted_as(self, rows: Array) -> RowsByLeaf:
        """The same ranges of other rows."""
        return RowsByLeaf(rows, self._starts, self._ends)

    def ranges(self, leaves: list[int]) -> tuple[Array, Array]:
        """Start and end of the leaves' rows."""
        return self._starts[leaves], self._ends[leaves]

    def write_leaves(self, leaves: list[int], leaf_of_row: Array, n_jobs: int) -> None:
        """Write the leaf of every row."""
        _kernels.write_leaves(self.rows, *self.ranges(leaves), leaf_of_row, n_jobs)
