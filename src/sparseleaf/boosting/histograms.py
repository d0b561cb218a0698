"""The split search on histograms.

Of two siblings only the smaller is built from its rows; the larger is what remains of the parent. Histograms of
nodes that wait to be split are kept for that, up to a budget: past it the smallest waiting node gives its slot
up, and its children will be built from their rows instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sparseleaf import _kernels
from sparseleaf._arrays import empty_aligned
from sparseleaf.boosting.columns import padded_width
from sparseleaf.boosting.frontier import MOST_AT_ONCE
from sparseleaf.boosting.tree import SET_BYTES, Bounds, Node, Split

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.boosting.columns import Columns
    from sparseleaf.boosting.splits import Family, NodeFeatures, SplitLimits
    from sparseleaf.engine.shards import Shards


class HistogramPool:
    """Room for a fixed number of histograms, outputs innermost.

    Parameters
    ----------
    n_bins, has_missing, categorical : arrays
        Of all features: see :class:`HistogramSearch`.
    width, budget, max_nodes : int
        See :class:`HistogramSearch`.

    Attributes
    ----------
    sums : int32 array, shape (n_slots, n_bins, n_columns)
    counts : int32 array, shape (n_slots, n_bins)
    features : int32 array
        The features that have a histogram.
    has_missing, categorical : uint8 arrays
        Whether they have a bin for missing values, and whether their bins have no order.
    offsets : int32 array, shape (n_features + 1,)
        First bin of each of them.
    first : int32 array
        The same if every feature had a histogram; ``bin_at`` leads from there to the bins of this one, -1 for
        none, and is empty where every feature has.
    """

    def __init__(
        self,
        n_bins: Array,
        has_missing: Array,
        categorical: Array,
        width: int,
        budget: int,
        max_nodes: int,
    ) -> None:
        self._n_bins, self._all_missing, self._all_categorical = n_bins, has_missing, categorical
        self._columns = padded_width(width)
        self._budget, self._max_nodes = budget, max_nodes
        self.first = np.concatenate(([0], np.cumsum(n_bins))).astype(np.int32)
        self._sums = self._counts = self.features = np.empty(0, np.int32)

    def use(self, features: Array) -> None:
        """Start over, with histograms of the given features. Memory is kept from one tree to the next."""
        if not np.array_equal(features, self.features):
            self._lay_out(features)
        self.free = list(range(len(self.sums) - 1, -1, -1))

    def _lay_out(self, features: Array) -> None:
        n_bins = self._n_bins
        self.features = features.astype(np.int32)
        self.has_missing, self.categorical = self._all_missing[features], self._all_categorical[features]
        self.offsets = np.concatenate(([0], np.cumsum(n_bins[features]))).astype(np.int32)
        self.bin_at = np.empty(0, np.int32)
        if len(features) < len(n_bins):
            self.bin_at = np.full(self.first[-1], -1, np.int32)
            self.bin_at[np.isin(np.repeat(np.arange(len(n_bins)), n_bins), features)] = np.arange(
                self.offsets[-1]
            )
        size = max(1, int(self.offsets[-1]))
        columns = self._columns
        n_slots = max(
            MIN_SLOTS, min(self._budget // (size * (columns + 1) * 4), self._max_nodes + MORE_SLOTS)
        )
        if len(self._counts) < n_slots * size:
            # pages are taken from the system only when a slot is first written
            self._sums = empty_aligned((n_slots * size * columns,), np.int32)
            self._counts = np.empty(n_slots * size, np.int32)
        self.sums = self._sums[: n_slots * size * columns].reshape(n_slots, size, columns)
        self.counts = self._counts[: n_slots * size].reshape(n_slots, size)


MIN_SLOTS = 4
"""A parent without a slot needs two for its children; below that nothing can be searched."""

MORE_SLOTS = 2 * MOST_AT_ONCE
"""For the children of nodes that are split ahead of their turn."""


class HistogramSearch:
    """Best cuts from histograms (see :class:`~sparseleaf.boosting.splits.SplitSearch`).

    Parameters
    ----------
    n_bins, has_missing : int arrays, shape (n_features,)
        Bins of every feature, that of missing values included, and whether it has one.
    width : int
        Columns of a histogram.
    budget : int
        Bytes for histograms.
    max_nodes : int
        Nodes that can wait to be split at once.
    categorical : uint8 array, shape (n_features,), optional
        Whether a feature's bins have no order.
    directions : int8 array, shape (n_features, n_outputs), optional
        Sign of the difference right − left that a cut must not oppose; 0 for any.
    top : int
        Count only so many outputs of each side, 0 for all; ``shared``: the same ones of both.
    """

    def __init__(
        self,
        n_bins: Array,
        has_missing: Array,
        width: int,
        budget: int,
        limits: SplitLimits,
        n_jobs: int,
        max_nodes: int,
        *,
        categorical: Array | None = None,
        directions: Array | None = None,
        top: int = 0,
        shared: bool = False,
    ) -> None:
        if categorical is None:
            categorical = np.zeros(len(n_bins), np.uint8)
        self._pool = HistogramPool(n_bins, has_missing, categorical, width, budget, max_nodes)
        self._directions = directions
        self._top = top
        self._shared = shared
        self._limits = limits
        self._n_jobs = n_jobs
        self._columns: Columns | None = None
        self._waiting: dict[int, Node] = {}

    def start_tree(self, features: Array, columns: Columns | None) -> None:
        """See :class:`~sparseleaf.boosting.splits.SplitSearch`."""
        self._waiting.clear()
        self._pool.use(features)
        self._columns = columns

    def search(self, shards: Shards, families: list[Family], node_features: NodeFeatures) -> None:
        """Set ``split`` of every child that may be split and has a cut worth making."""
        pool = self._pool
        batch: list[Family] = []
        for family in families:
            wanted = [child for child in family.children if self._limits.may_split(child)]
            if not wanted:
                self._release(family.parent)
                continue
            needed = (
                1
                if family.parent is not None and family.parent.slot >= 0 and len(family.children) == 2
                else 2
            )
            if len(pool.free) < needed and batch:
                self._search_batch(shards, batch, node_features)
                batch = []
            while len(pool.free) < needed:
                self._evict(keep=family.parent)
            self._assign(family, wanted)
            batch.append(family)
        if batch:
            self._search_batch(shards, batch, node_features)

    def _assign(self, family: Family, wanted: list[Node]) -> None:
        """Give slots: the larger child inherits its parent's."""
        parent = family.parent
        if parent is not None and parent.slot >= 0:
            small, large = sorted(family.children, key=lambda node: (node.count, node.id))
            self._waiting.pop(parent.id, None)
            large.slot, parent.slot = parent.slot, -1
            small.slot = self._pool.free.pop()
            family.built, family.remaining = [small], large
        else:
            for child in wanted:
                child.slot = self._pool.free.pop()
            family.built = wanted

    def _search_batch(self, shards: Shards, batch: list[Family], node_features: NodeFeatures) -> None:
        pool = self._pool
        built = [node for family in batch for node in family.built]
        shards.sum("histograms", [node.id for node in built], [node.slot for node in built], pool)
        remaining = [(f.remaining.slot, f.built[0].slot) for f in batch if f.remaining is not None]
        if remaining:
            slots, minus = np.array(remaining, np.int32).T.copy()
            _kernels.subtract_histograms(slots, minus, pool.sums, pool.counts, self._n_jobs)
        children = [node for family in batch for node in family.children if node.slot >= 0]
        searched = [node for node in children if self._limits.may_split(node)]
        self._find(pool, searched, node_features)
        for node in children:
            if node.split is None:
                self._release(node)
            else:
                self._waiting[node.id] = node

    def _find(self, pool: HistogramPool, nodes: list[Node], node_features: NodeFeatures) -> None:
        columns = self._columns
        assert columns is not None
        n, d = len(nodes), len(columns.weight)
        feature, bin_, left = (np.empty(n, np.int32) for _ in range(3))
        gain, missing_left = np.empty(n, np.float64), np.empty(n, np.uint8)
        sets = np.empty((n, SET_BYTES), np.uint8)
        directions, low, high = self._constraints(pool, nodes, columns.first, d)
        middle = np.empty((n, d)) if len(directions) else np.empty((0, d))
        _kernels.find_splits(
            pool.sums,
            pool.counts,
            np.array([node.slot for node in nodes], np.int32),
            pool.offsets,
            pool.has_missing,
            pool.categorical,
            node_features.mask([node.id for node in nodes]),
            columns.curvature,
            columns.weight,
            columns.lambda_,
            columns.step,
            self._limits.l2,
            self._top,
            self._shared,
            directions,
            low,
            high,
            self._limits.min_samples_leaf,
            self._limits.min_curvature,
            feature,
            bin_,
            gain,
            missing_left,
            left,
            sets,
            middle,
            self._n_jobs,
        )
        found = zip(nodes, feature.tolist(), bin_.tolist(), gain.tolist(), left.tolist(), strict=True)
        for i, (node, f, cut, worth, n_left) in enumerate(found):
            if f >= 0 and worth > self._limits.min_gain:
                # no missing value was seen: should one come later, it goes the way of most rows
                to_left = bool(missing_left[i]) if pool.has_missing[f] else 2 * n_left > node.count
                node.split = Split(
                    int(pool.features[f]),
                    cut,
                    worth,
                    to_left,
                    n_left,
                    sets[i] if pool.categorical[f] else None,
                    _child_bounds(directions[f], low[i], high[i], middle[i]) if len(directions) else None,
                )

    def _constraints(
        self, pool: HistogramPool, nodes: list[Node], first: int, d: int
    ) -> tuple[Array, Array, Array]:
        """Directions of the pool's features and bounds of the nodes; no rows where nothing is constrained."""
        if self._directions is None:
            return np.empty((0, d), np.int8), np.empty((0, d)), np.empty((0, d))
        free = Bounds(np.full(d, -np.inf), np.full(d, np.inf))
        bounds = [node.bounds or free for node in nodes]
        return (
            np.ascontiguousarray(self._directions[pool.features, first : first + d]),
            np.stack([bound.low for bound in bounds]),
            np.stack([bound.high for bound in bounds]),
        )

    def _release(self, node: Node | None) -> None:
        if node is not None and node.slot >= 0:
            self._pool.free.append(node.slot)
            node.slot = -1
            self._waiting.pop(node.id, None)

    def _evict(self, keep: Node | None) -> None:
        others = [node for node in self._waiting.values() if node is not keep]
        self._release(min(others, key=lambda node: (node.count, node.id)) if others else keep)


def _child_bounds(directions: Array, low: Array, high: Array, middle: Array) -> tuple[Bounds, Bounds]:
    """Bounds of both children: constrained outputs may not pass half-way between the two."""
    up, down = directions > 0, directions < 0
    left = Bounds(np.where(down, np.maximum(low, middle), low), np.where(up, np.minimum(high, middle), high))
    right = Bounds(np.where(up, np.maximum(low, middle), low), np.where(down, np.minimum(high, middle), high))
    return left, right
