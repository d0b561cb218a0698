"""A shard: a block of rows with all its state, and the few verbs the grower needs of it.

Here is what all shards have: bins, and which row is in which node of the tree that grows. What is fitted, sparse
residuals or dense gradients, is their subclasses'.

A shard begins with all features of some rows, or of all. :meth:`Shard.columns_take` makes it one of all rows with some
of the features: everything but the bins is then the same in every shard, so that only cuts and partitions travel.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from sparseleaf import _kernels
from sparseleaf._arrays import empty_aligned, hash_numbers
from sparseleaf.binning import common_bins
from sparseleaf.boosting.columns import padded_width
from sparseleaf.boosting.histograms import CutFinder, HistogramPool
from sparseleaf.engine.partitions import bit_sizes, lengthen, shorten, told_sizes

if TYPE_CHECKING:
    from typing import Any

    from sparseleaf._arrays import Array
    from sparseleaf.boosting.columns import Columns
    from sparseleaf.boosting.histograms import CutRules, CutTask
    from sparseleaf.boosting.tree import FlatTree, LeafVectors

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
        self._draws = np.arange(first_row, first_row + len(bins)) if draws is None else draws
        self._place, self._n_shards = 0, 1
        self._dealt = 1  # shards to which features are dealt out in turn, where all have all rows
        self._adopt_bins(bins)
        self._residuals = np.empty((0, 0), np.int16)
        self._count_column = -1
        self._rows, self._aside = _RowsByNode.of(np.empty(0, np.int32)), _RowsByNode.of(np.empty(0, np.int32))
        self._finder: CutFinder | None = None
        self._scratch: HistogramPool | None = None
        self._tree_features = np.empty(0, np.int64)
        self._searched: list[tuple[int, int]] = []

    def _adopt_bins(self, bins: Array) -> None:
        self.bins = bins
        self.n_rows: int = bins.shape[0]
        # features with one common bin are also kept as the rows that have another, once histograms are wanted
        self._common = common_bins(bins, self._n_jobs)
        self._uncommon: tuple[Array, Array, Array, Array] | None = None
        self._sparse: tuple[Array, Array] = np.empty(0, np.int32), np.empty(0, np.uint8)

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

    def missing_features(self) -> Array:
        """Rows without a value, of every feature, int64."""
        counts = np.zeros(self.bins.shape[1], np.int64)
        for begin in range(0, self.n_rows, BLOCK_ROWS):
            counts += np.count_nonzero(self.bins[begin : begin + BLOCK_ROWS] == self.missing_bins, axis=0)
        return counts

    def plant(self, share: float, *key: int) -> int:
        """Put all rows, or a random share of them, into the root; how many."""
        if share >= 1.0:
            rows, others = np.arange(self.n_rows, dtype=np.int32), np.empty(0, np.int32)
        else:
            sampled = hash_numbers(self._draws, *key) < np.uint64(int(share * 2.0**64))
            rows, others = (np.flatnonzero(which).astype(np.int32) for which in (sampled, ~sampled))
        self._rows, self._aside = _RowsByNode.of(rows), _RowsByNode.of(others)
        return len(rows)

    # --- cuts from histograms

    def search_cuts(self, rules: CutRules) -> None:
        """What makes a cut good, before the first tree."""
        # every shard searches a share of the features: those it holds, or as many bins as the others
        self._searched = even_ranges(rules.n_bins, self._n_shards)
        own = slice(self._place, None, self._dealt) if self._all_rows else slice(*self._searched[self._place])
        self._finder = CutFinder(rules, own, self._n_jobs)

    def start_tree(self, features: Array, columns: Columns | None, n_slots: int) -> None:
        """Prepare for a tree that may use the given features, on histograms of the given columns."""
        assert self._finder is not None
        self._tree_features = features
        self._finder.start_tree(features, columns, n_slots)

    def histogram_cuts(self, task: CutTask) -> Array:
        """The best cuts among the features searched here, from histograms of the rows that are here."""
        self._build(task.built, task.built_slots, self.own_pool())
        return self.find_cuts(task)

    def histogram_cuts_give(self, task: CutTask) -> list[tuple[Array, Array]]:
        """Histograms of the task's nodes, parted by the shards that search the features."""
        built = self.build_histograms(task.built)
        borders = self.piece_borders(built)
        return [(built.sums[:, a:b], built.counts[:, a:b]) for a, b in pairwise(borders)]

    def histogram_cuts_take(self, pieces: list[tuple[Array, Array]], task: CutTask) -> Array:
        """The best cuts among the features searched here, from all shards' histograms."""
        pool = self.own_pool()
        if len(pool.features):
            for i, slot in enumerate(task.built_slots.tolist()):
                for into, found in (
                    (pool.sums[slot], [sums[i] for sums, _ in pieces]),
                    (pool.counts[slot], [counts[i] for _, counts in pieces]),
                ):
                    into[:] = found[0]
                    for other in found[1:]:
                        into += other
        return self.find_cuts(task)

    def build_histograms(self, nodes: Array) -> HistogramPool:
        """Histograms of some nodes' rows here, of all features of the tree, one slot each."""
        assert self._finder is not None
        if self._scratch is None:
            self._scratch = HistogramPool(self._finder.rules.n_bins, self._finder.rules.width)
        self._scratch.use(self._tree_features, len(nodes))
        self._build(nodes, np.arange(len(nodes), dtype=np.int32), self._scratch)
        return self._scratch

    def piece_borders(self, built: HistogramPool) -> list[int]:
        """Where, among the bins of all features of the tree, every shard's share begins, and the last one's ends."""
        begins = np.searchsorted(self._tree_features, [first for first, _ in self._searched])
        return [*built.offsets[begins].tolist(), int(built.offsets[-1])]

    def n_tree_bins(self) -> int:
        """Bins of all features of the tree."""
        assert self._finder is not None
        return int(self._finder.rules.n_bins[self._tree_features].sum())

    def own_pool(self) -> HistogramPool:
        """The kept histograms of the features searched here."""
        assert self._finder is not None
        return self._finder.pool

    def find_cuts(self, task: CutTask) -> Array:
        """The best cuts among the features searched here, once the built histograms are in their slots."""
        assert self._finder is not None
        return self._finder.find(task)

    def grow_tree(self, max_splits: int, best_first: bool) -> tuple[Array, ...]:
        """A whole tree on the rows here, whose root they are in; afterwards they are in its leaves.

        Answers feature, bin, gain, missing_left, child, rows and bins that go left, of every node in level order.
        """
        assert self._finder is not None
        finder, pool, rules = self._finder, self._finder.pool, self._finder.rules
        columns, limits = finder.columns, rules.limits
        assert columns is not None
        features = pool.features
        found = _kernels.grow_tree(
            self.bins,
            self._residuals,
            self._count_column,
            self._rows.rows,
            *self._uncommon_bins(pool),
            pool.first,
            self._common,
            pool.places,
            pool.offsets,
            rules.has_missing[features],
            rules.categorical[features],
            self.missing_bins[features],
            columns.curvature,
            columns.weight,
            columns.lambda_,
            columns.step,
            limits.l2,
            rules.top,
            rules.shared,
            min(limits.min_samples_leaf, self.n_rows + 1),
            limits.min_curvature,
            limits.min_gain,
            -1 if limits.max_depth is None else min(limits.max_depth, self.n_rows),
            max_splits,
            best_first,
            pool.sums,
            pool.counts,
            self._n_jobs,
        )
        self._rows = _RowsByNode(self._rows.rows, found[-2].tolist(), found[-1].tolist())
        return found[:-2]

    def _uncommon_bins(self, pool: HistogramPool) -> tuple[Array, Array, Array, Array]:
        """Entries of sparse features: row pointers, places, groups of features, entries of every group."""
        if self._uncommon is None:
            self._uncommon = _kernels.uncommon_bins(self.bins, self._common, pool.first, self._n_jobs)
        return self._uncommon

    def _build(self, nodes: Array, slots: Array, pool: HistogramPool) -> None:
        """Fill the pool's slots with the histograms of the given nodes."""
        if not len(nodes) or not len(pool.features):
            return
        if self._sparse[0] is not pool.places:
            self._sparse = pool.places, (self._common[pool.places] >= 0).astype(np.uint8)
        starts, ends = self._rows.ranges(nodes.tolist())
        _kernels.build_histograms(
            self.bins,
            self._residuals,
            self._rows.rows,
            starts,
            ends,
            slots,
            pool.places,
            pool.offsets,
            self._sparse[1],
            self._count_column,
            pool.sums,
            pool.counts,
            self._n_jobs,
        )
        if not self._sparse[1].any():
            return
        _kernels.build_sparse_histograms(
            *self._uncommon_bins(pool)[:3],
            pool.first,
            self._common,
            self._residuals,
            self._rows.rows,
            starts,
            ends,
            slots,
            pool.places,
            pool.offsets,
            self._count_column,
            pool.sums,
            pool.counts,
            self._n_jobs,
        )

    # --- parting rows

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
        starts, ends = self._rows.ranges(nodes)
        middles = np.empty(len(nodes), np.int64)
        _kernels.partition(
            self.bins,
            self._rows.rows,
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
        self._rows.add_children(starts, middles, ends)

    def tell_splits(
        self,
        nodes: list[int],
        lefts: Array,
        feature: Array,
        bin_: Array,
        missing_left: Array,
        set_of: Array,
        sets: Array,
    ) -> Array:
        """Which rows go left in the nodes whose feature is here: uint8, one node after the other.

        Those of the tree's rows come first, then those of the rows that were left out of its sample. ``lefts`` are the
        tree's rows that go left in each node.
        """
        own = np.flatnonzero(self._owners(feature) == self._place)
        kept = [nodes[i] for i in own.tolist()]
        parts = []
        for held, known in ((self._rows, lefts[own]), (self._aside, None)):
            starts, ends = held.ranges(kept)
            offsets, n_bytes = _offsets(bit_sizes(ends - starts))
            bits = np.empty(n_bytes, np.uint8)
            if n_bytes:
                _kernels.left_bits(
                    self.bins,
                    held.rows,
                    starts,
                    ends,
                    feature[own] // np.int32(self._dealt),
                    bin_[own],
                    self.missing_bins[feature[own]],
                    missing_left[own],
                    set_of[own],
                    sets,
                    offsets,
                    bits,
                    self._n_jobs,
                )
            parts.append(shorten(bits, ends - starts, known))
        return np.concatenate(parts)

    def told_splits(self, nodes: list[int], lefts: Array, feature: Array) -> list[int]:
        """How many bytes :meth:`tell_splits` answers in every shard."""
        told = sum(
            told_sizes(ends - starts, known)
            for (starts, ends), known in (
                (self._rows.ranges(nodes), lefts),
                (self._aside.ranges(nodes), None),
            )
        )
        sizes = np.bincount(self._owners(feature), told, minlength=self._n_shards)
        found: list[int] = sizes.astype(np.int64).tolist()
        return found

    def apply_told_splits(self, nodes: list[int], lefts: Array, feature: Array, told: list[Array]) -> None:
        """Part the nodes' rows as the shards that hold the features have said, in order of shard."""
        owners = self._owners(feature)
        begins = np.cumsum([0, *map(len, told[:-1])])
        everything = np.concatenate(told)
        for held, known in ((self._rows, lefts), (self._aside, None)):
            starts, ends = held.ranges(nodes)
            sizes = told_sizes(ends - starts, known)
            offsets = np.empty(len(nodes), np.int64)
            for place in range(self._n_shards):
                own = owners == place
                places, n_bytes = _offsets(sizes[own])
                offsets[own] = begins[place] + places
                begins[place] += n_bytes
            bits, offsets = lengthen(everything, offsets, ends - starts, known)
            middles = np.empty(len(nodes), np.int64)
            _kernels.partition_by_bits(held.rows, starts, ends, offsets, bits, middles, self._n_jobs)
            held.add_children(starts, middles, ends)

    def _owners(self, feature: Array) -> Array:
        owners: Array = feature % self._dealt
        return owners

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


class _RowsByNode:
    """Rows in ranges, one for each node of the tree that grows."""

    def __init__(self, rows: Array, starts: list[int], ends: list[int]) -> None:
        self.rows = rows
        self._starts = starts
        self._ends = ends

    @classmethod
    def of(cls, rows: Array) -> _RowsByNode:
        """All in the root."""
        return cls(rows, [0], [len(rows)])

    def ranges(self, nodes: list[int]) -> tuple[Array, Array]:
        """Where the nodes' rows begin and end."""
        return (
            np.array([self._starts[node] for node in nodes], np.int64),
            np.array([self._ends[node] for node in nodes], np.int64),
        )

    def add_children(self, starts: Array, middles: Array, ends: Array) -> None:
        """Two children of every node; they are numbered on from the last."""
        for start, middle, end in zip(starts.tolist(), middles.tolist(), ends.tolist(), strict=True):
            self._starts += (start, middle)
            self._ends += (middle, end)

    def write_leaves(self, leaves: list[int], leaf_of_row: Array) -> None:
        """Note the leaf of every row here."""
        starts, ends = self.ranges(leaves)
        # leaves part the rows into ranges: in order of start, they follow each other without a gap
        order = np.lexsort((ends, starts))
        leaf_of_row[self.rows] = np.repeat(order.astype(np.int32), (ends - starts)[order])


def _offsets(sizes: Array) -> tuple[Array, int]:
    """Where things of the given sizes begin, one after the other, and where the last one ends."""
    ends = np.cumsum(sizes, dtype=np.int64)
    return ends - sizes, int(ends[-1]) if len(ends) else 0


def even_ranges(weights: Array, n: int) -> list[tuple[int, int]]:
    """``n`` ranges that follow each other and have about the same weight; some are empty if there are few numbers."""
    so_far = np.concatenate(([0], np.cumsum(weights)))
    borders = np.searchsorted(so_far, so_far[-1] * np.arange(1, n) / n - 1e-9).tolist()
    return list(zip([0, *borders], [*borders, len(weights)], strict=True))
