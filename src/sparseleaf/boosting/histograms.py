"""The split search on histograms of reduced residuals.

Of two siblings only the smaller is built from its rows; the larger is what remains of the parent. Histograms of
nodes that wait to be split are kept for that, up to a budget: past it the smallest waiting node gives its slot
up, and its children will be built from their rows instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sparseleaf import _kernels
from sparseleaf._arrays import empty_aligned
from sparseleaf.boosting.tree import Node, Split
from sparseleaf.engine.shard import LANES

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.boosting.splits import Family, NodeFeatures, SplitLimits
    from sparseleaf.engine.shards import Shards


class HistogramPool:
    """Room for a fixed number of histograms, outputs innermost.

    Attributes
    ----------
    sums : int32 array, shape (n_slots, n_bins, n_columns)
    counts : int32 array, shape (n_slots, n_bins)
    features : int32 array
        The features that have a histogram.
    offsets : int32 array, shape (n_features + 1,)
        First bin of each of them.
    """

    def __init__(self, features: Array, n_bins: Array, width: int, budget: int, max_nodes: int) -> None:
        self.features = features.astype(np.int32)
        self.offsets = np.concatenate(([0], np.cumsum(n_bins[features]))).astype(np.int32)
        columns = -(-width // LANES) * LANES
        size = max(1, int(self.offsets[-1]))
        n_slots = max(MIN_SLOTS, min(budget // (size * (columns + 1) * 4), max_nodes + MIN_SLOTS))
        # pages are taken from the system only when a slot is first written
        self.sums = empty_aligned((n_slots, size, columns), np.int32)
        self.counts = np.empty((n_slots, size), np.int32)
        self.free = list(range(n_slots - 1, -1, -1))


MIN_SLOTS = 4
"""A parent without a slot needs two for its children; below that nothing can be searched."""


class HistogramSearch:
    """Best cuts from histograms of reduced residuals (see :class:`~sparseleaf.boosting.splits.SplitSearch`)."""

    def __init__(
        self,
        n_bins: Array,
        has_missing: Array,
        width: int,
        budget: int,
        limits: SplitLimits,
        n_jobs: int,
        max_nodes: int,
    ) -> None:
        self._n_bins = n_bins
        self._has_missing = has_missing
        self._width = width
        self._budget = budget
        self._limits = limits
        self._n_jobs = n_jobs
        self._max_nodes = max_nodes  # that can wait to be split at once
        self._pool: HistogramPool | None = None
        self._scale = 1.0
        self._waiting: dict[int, Node] = {}

    def start_tree(self, features: Array, scale: float) -> None:
        """Prepare for a tree that may use the given features; residuals were multiplied by ``scale``."""
        if self._pool is not None:
            self._pool.free += [node.slot for node in self._waiting.values()]
        self._waiting.clear()
        if self._pool is None or not np.array_equal(self._pool.features, features):
            self._pool = HistogramPool(features, self._n_bins, self._width, self._budget, self._max_nodes)
        self._scale = scale

    def search(self, shards: Shards, families: list[Family], node_features: NodeFeatures) -> None:
        """Set ``split`` of every child that may be split and has a cut worth making."""
        pool = self._pool
        assert pool is not None
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
        assert self._pool is not None
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
        assert pool is not None
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
        n = len(nodes)
        feature, bin_, left = (np.empty(n, np.int32) for _ in range(3))
        gain, missing_left = np.empty(n, np.float64), np.empty(n, np.uint8)
        _kernels.find_splits(
            pool.sums,
            pool.counts,
            np.array([node.slot for node in nodes], np.int32),
            pool.offsets,
            self._has_missing[pool.features],
            node_features.mask([node.id for node in nodes]),
            self._limits.l2,
            self._limits.min_samples_leaf,
            feature,
            bin_,
            gain,
            missing_left,
            left,
            self._n_jobs,
        )
        gain /= self._scale * self._scale
        for i, node in enumerate(nodes):
            if feature[i] >= 0 and gain[i] > self._limits.min_gain:
                f = int(pool.features[feature[i]])
                # no missing value was seen: should one come later, it goes the way of most rows
                to_left = bool(missing_left[i]) if self._has_missing[f] else 2 * int(left[i]) > node.count
                node.split = Split(f, int(bin_[i]), float(gain[i]), to_left, int(left[i]))

    def _release(self, node: Node | None) -> None:
        if node is not None and node.slot >= 0:
            assert self._pool is not None
            self._pool.free.append(node.slot)
            node.slot = -1
            self._waiting.pop(node.id, None)

    def _evict(self, keep: Node | None) -> None:
        others = [node for node in self._waiting.values() if node is not keep]
        self._release(min(others, key=lambda node: (node.count, node.id)) if others else keep)
