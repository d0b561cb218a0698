"""A shard: the binned rows of one worker, and which node of the growing tree each row is in.

Subclasses hold what is fitted: sparse residuals or dense gradients.

A shard starts with all features of some rows. :meth:`Shard.columns_take` turns it into all rows of some features:
everything but the bins is then the same on every worker, so that only splits and partitions are exchanged.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from sparseleaf import _kernels
from sparseleaf._arrays import empty_aligned, even_ranges, hash_numbers
from sparseleaf._threads import in_threads
from sparseleaf.training.builder import HeldBins, TreeSample, gradient_columns
from sparseleaf.training.columns import padded_width

if TYPE_CHECKING:
    from typing import Any

    from sparseleaf._arrays import Array
    from sparseleaf.distributed.communicator import Communicator
    from sparseleaf.training.builder import TreeBuilder, Trees
    from sparseleaf.training.columns import Columns
    from sparseleaf.training.tree import FlatTree, GrownNodes, LeafVectors

BLOCK_ROWS = 16_384
"""Rows that are worked on at a time where that bounds memory. A power of two."""


FEW_BYTES = 4096
"""So little may always be sent."""


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
        self.missing_bins = missing_bins
        self._n_jobs = n_jobs
        self._first_row = first_row
        self._draws = np.arange(first_row, first_row + len(bins)) if draws is None else draws
        self._place, self._n_shards = 0, 1
        self._dealt = 1  # shards to which features are dealt out in turn, where all have all rows
        self._adopt_bins(bins)
        self._residuals = np.empty((0, 0), np.int16)
        self._count_column = -1
        self._rows, self._aside = _RowsByLeaf.of(np.empty(0, np.int32)), _RowsByLeaf.of(np.empty(0, np.int32))

    def _adopt_bins(self, bins: Array) -> None:
        self.bins = bins
        self.n_rows: int = bins.shape[0]
        self._builder: tuple[Trees, TreeBuilder] | None = None

    def take_place(self, place: int, n_shards: int) -> None:
        """Which of how many shards this is."""
        self._place, self._n_shards = place, n_shards

    @property
    def _all_rows(self) -> bool:
        """Whether this shard has all rows, and some of the features."""
        return self._dealt > 1

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

    def _quantise(self, values: Array, first: int, scales: Array, to: int, key: int | None) -> Array:
        """Columns of ``values`` from ``first`` on to integer columns from ``to`` on; Σ of absolute values of each.

        Rounded to nearest or, with a key, at random: see :mod:`sparseleaf.training.scales`.
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
        """Rows without a value, of every feature, int64."""

        def of_block(begin: int) -> Array:
            missing: Array = self.bins[begin : begin + BLOCK_ROWS] == self.missing_bins
            return np.asarray(missing.sum(axis=0))

        blocks = in_threads(of_block, range(0, self.n_rows, BLOCK_ROWS), self._n_jobs)
        counts: Array = sum(blocks, np.zeros(self.bins.shape[1], np.int64))
        return counts

    def plant(self, share: float, *key: int) -> int:
        """Put all rows, or a random share of them, into the root; how many."""
        if share >= 1.0:
            rows, others = np.arange(self.n_rows, dtype=np.int32), np.empty(0, np.int32)
        else:
            sampled = hash_numbers(self._draws, *key) < np.uint64(int(share * 2.0**64))
            rows, others = (np.flatnonzero(which).astype(np.int32) for which in (sampled, ~sampled))
        self._rows, self._aside = _RowsByLeaf.of(rows), _RowsByLeaf.of(others)
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
        """Grow a tree on the rows in the root; afterwards they are in its leaves."""
        if self._builder is None or self._builder[0] is not trees:
            held = HeldBins(self.bins, self.missing_bins, self._place if self._all_rows else 0, self._dealt)
            self._builder = trees, trees.make_builder(held, self._n_jobs)
        aside = self._aside.rows if self._all_rows else np.empty(0, np.int32)
        sample = TreeSample(self._rows.rows, aside, features, n_node_features, key)
        grown = self._builder[1].build(
            self._fitted(columns), sample, communicator, by_rows=not self._all_rows
        )
        self._rows = _RowsByLeaf(self._rows.rows, grown.starts, grown.ends)
        self._aside = _RowsByLeaf(self._aside.rows, grown.aside_starts, grown.aside_ends)
        return grown.nodes

    def _fitted(self, columns: Columns | None) -> Any:
        """What a tree is fitted to, as its builder takes it."""
        assert columns is not None
        return gradient_columns(self._residuals, self._count_column, columns)

    # --- leaves

    def add_leaves(self, tree: FlatTree, vectors: LeafVectors) -> None:
        """Give every row its leaf's vector, rows left out of the tree's sample too."""
        leaf_of_row = np.empty(self.n_rows, np.int32)
        self._rows.write_leaves(tree.leaf_nodes.tolist(), leaf_of_row)
        if self._all_rows:
            self._aside.write_leaves(tree.leaf_nodes.tolist(), leaf_of_row)
        else:
            self._route(self._aside.rows, tree, leaf_of_row)
        self._add(vectors, leaf_of_row)

    def follow(self, tree: FlatTree, vectors: LeafVectors) -> None:
        """Send all rows down a tree that is there, and give them its leaves' vectors, to the bit as when it grew.

        For rows that are only watched (a validation set), and for trees of a checkpoint.
        """
        leaf_of_row = np.empty(self.n_rows, np.int32)
        self._route(np.arange(self.n_rows, dtype=np.int32), tree, leaf_of_row)
        self._add(vectors, leaf_of_row)

    def _own_leaves(self, leaves: list[int], leaf_bytes: int) -> tuple[int, int] | None:
        """Where all shards have all rows: which of the leaves this one makes for all, if it pays to share them out.

        It does where telling the others takes no more than a quarter of the partition, of which every level takes
        a bit a row, and there are at least log₂ leaves of those.
        """
        partition = self.n_rows * math.log2(max(2, len(leaves))) / 8
        if len(leaves) * leaf_bytes > max(partition / 4, FEW_BYTES):
            return None
        starts, ends = self._rows.ranges(leaves)
        return even_ranges(ends - starts, self._n_shards)[self._place]

    # --- from rows to features

    def columns_give(self) -> list[Any]:
        """All rows' bins of every shard's features, each with everything else there is of the rows.

        Features are dealt out in turn: useful ones are often next to each other.
        """
        state = self._state()
        held = [slice(place, None, self._n_shards) for place in range(self._n_shards)]
        return [(np.ascontiguousarray(self.bins[:, own]), state) for own in held]

    def columns_take(self, pieces: list[Any]) -> None:
        """Become a shard of all rows with some of the features."""
        self._dealt = self._n_shards
        self._draws = np.concatenate([state[0] for _, state in pieces])
        self._first_row = 0
        self._adopt_state([state for _, state in pieces])
        self._adopt_bins(np.concatenate([bins for bins, _ in pieces]))

    # --- inside

    def _state(self) -> tuple[Any, ...]:
        """What there is of the rows besides their bins, their draws first."""
        raise NotImplementedError

    def _adopt_state(self, states: list[tuple[Any, ...]]) -> None:
        """Take the rows of all shards."""
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
        """Add to every row's scores the vector of its leaf."""
        raise NotImplementedError


class _RowsByLeaf:
    """Rows in ranges, one for each leaf of a tree."""

    def __init__(self, rows: Array, starts: Array, ends: Array) -> None:
        self.rows = rows
        self._starts = starts
        self._ends = ends

    @classmethod
    def of(cls, rows: Array) -> _RowsByLeaf:
        """All in the root."""
        return cls(rows, np.zeros(1, np.int64), np.full(1, len(rows), np.int64))

    def ranges(self, leaves: list[int]) -> tuple[Array, Array]:
        """Where the leaves' rows begin and end."""
        return self._starts[leaves], self._ends[leaves]

    def write_leaves(self, leaves: list[int], leaf_of_row: Array) -> None:
        """Note the leaf of every row here."""
        starts, ends = self.ranges(leaves)
        # leaves part the rows into ranges: in order of start, they follow each other without a gap
        order = np.lexsort((ends, starts))
        leaf_of_row[self.rows] = np.repeat(order.astype(np.int32), (ends - starts)[order])
