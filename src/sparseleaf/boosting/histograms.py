"""The split search on histograms.

Of two siblings only the smaller is built from its rows; the larger is what remains of the parent. Histograms of
nodes that wait to be split are kept for that, up to a budget: past it the smallest waiting node gives its slot
up, and its children will be built from their rows instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sparseleaf import _kernels
from sparseleaf._arrays import empty_aligned, require_countable
from sparseleaf.boosting.columns import padded_width
from sparseleaf.boosting.frontier import MOST_AT_ONCE
from sparseleaf.boosting.tree import SET_BYTES, Bounds, GrownNodes, Node, Split

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.boosting.columns import Columns
    from sparseleaf.boosting.splits import Family, NodeFeatures, SplitLimits
    from sparseleaf.engine.shards import GrowingShards, Shards


class HistogramPool:
    """Room for a number of histograms, outputs innermost. Memory is kept from one tree to the next.

    Parameters
    ----------
    n_bins : int array
        Bins of the features that could have a histogram.
    width : int
        Columns of a histogram.
    own : slice
        Those features; places are counted among them.

    Attributes
    ----------
    sums : int32 array, shape (n_slots, n_bins, n_columns)
    counts : int32 array, shape (n_slots, n_bins)
    features : int array
        The features that have a histogram; ``places`` are theirs.
    offsets : int32 array, shape (n_features + 1,)
        First bin of each of them.
    first : int32 array
        The same if every feature had a histogram.
    """

    def __init__(self, n_bins: Array, width: int, own: slice = slice(0, None)) -> None:
        self._n_bins = n_bins
        self._columns = padded_width(width)
        self._own = own
        require_countable("X, max_bins", int(np.sum(n_bins, dtype=np.int64)), "bins of all features")
        self.first = np.concatenate(([0], np.cumsum(n_bins))).astype(np.int32)
        self._sums = self._counts = np.empty(0, np.int32)
        self._lay_out(np.empty(0, np.int64))

    def use(self, features: Array, n_slots: int) -> None:
        """Start over, with room for so many histograms of the given features."""
        if not np.array_equal(features, self.features):
            self._lay_out(features)
        size, columns = max(1, int(self.offsets[-1])), self._columns
        if len(self._counts) < n_slots * size:
            # pages are taken from the system only when a slot is first written
            self._sums = empty_aligned((n_slots * size * columns,), np.int32)
            self._counts = np.empty(n_slots * size, np.int32)
        self.sums = self._sums[: n_slots * size * columns].reshape(n_slots, size, columns)
        self.counts = self._counts[: n_slots * size].reshape(n_slots, size)

    def _lay_out(self, features: Array) -> None:
        n_bins = self._n_bins
        self.features = features
        self.places = ((features - self._own.start) // (self._own.step or 1)).astype(np.int32)
        self.offsets = np.concatenate(([0], np.cumsum(n_bins[self.places]))).astype(np.int32)


MIN_SLOTS = 4
"""A parent without a slot needs two for its children; below that nothing can be searched."""

MORE_SLOTS = 2 * MOST_AT_ONCE
"""For the children of nodes that are split ahead of their turn; as many as kMostEarly in cpp/frontier.hpp."""


@dataclass(frozen=True)
class CutRules:
    """What makes a cut good, the same for all trees of a training.

    Attributes
    ----------
    n_bins, has_missing : int arrays, shape (n_features,)
        Bins of every feature, that of missing values included, and whether it has one.
    width : int
        Columns of a histogram.
    limits : SplitLimits
    categorical : uint8 array, shape (n_features,)
        Whether a feature's bins have no order.
    directions : int8 array, shape (n_features, n_outputs), or None
        Sign of the difference right − left that a cut must not oppose; 0 for any.
    top : int
        Count only so many outputs of each side, 0 for all; ``shared``: the same ones of both.
    """

    n_bins: Array
    has_missing: Array
    width: int
    limits: SplitLimits
    categorical: Array
    directions: Array | None = None
    top: int = 0
    shared: bool = False


@dataclass(frozen=True)
class CutTask:
    """Histograms to make, and nodes to find cuts of.

    Attributes
    ----------
    built, built_slots : int32 arrays
        Nodes whose histograms are made from their rows, and where those go.
    remaining, minus : int32 arrays
        Slots that hold a parent, and those of the child to take away, so that its sibling remains.
    nodes, slots : int32 arrays
        Nodes to find cuts of.
    mask : uint8 array, shape (n_nodes, n_features of the tree)
        Which features a node may use; no rows where all may use all.
    low, high : float64 arrays, shape (n_nodes, n_outputs)
        Bounds of the nodes' values; no rows where nothing is constrained.
    """

    built: Array
    built_slots: Array
    remaining: Array
    minus: Array
    nodes: Array
    slots: Array
    mask: Array
    low: Array
    high: Array


class CutFinder:
    """Histograms of some of the features, and the best cuts in them. It lives where the rows do.

    Parameters
    ----------
    rules : CutRules
    own : slice
        The features that are searched here.
    """

    def __init__(self, rules: CutRules, own: slice, n_jobs: int) -> None:
        self.rules = rules
        self._own = np.zeros(len(rules.n_bins), bool)
        self._own[own] = True
        self._n_jobs = n_jobs
        self.columns: Columns | None = None
        self._places = np.empty(0, np.int64)
        self.pool = HistogramPool(rules.n_bins[own], rules.width, own)

    def start_tree(self, features: Array, columns: Columns | None, n_slots: int) -> None:
        """Prepare for a tree that may use the given features, on histograms of the given columns."""
        self.columns = columns
        self._places = np.flatnonzero(self._own[features])
        self.pool.use(features[self._places], n_slots)

    def find(self, task: CutTask) -> Array:
        """The best cut of every node of the task among the own features (see :func:`cut_type`).

        The histograms of the built nodes are in their slots already.
        """
        pool, columns = self.pool, self.columns
        if len(task.remaining):
            _kernels.subtract_histograms(task.remaining, task.minus, pool.sums, pool.counts, self._n_jobs)
        n, d = len(task.nodes), 1 if columns is None else len(columns.weight)
        rules = self.rules
        found = np.zeros(n, cut_type(rules.directions is not None, d))
        found["feature"] = -1
        if not len(pool.features) or not n:
            return found
        assert columns is not None
        directions = np.empty((0, d), np.int8)
        if rules.directions is not None:
            first = columns.first
            directions = np.ascontiguousarray(rules.directions[pool.features, first : first + d])
        feature, bin_, left = (np.empty(n, np.int32) for _ in range(3))
        gain, missing_left = np.empty(n, np.float64), np.empty(n, np.uint8)
        sets = np.empty((n, SET_BYTES), np.uint8)
        middle = np.empty((n, d)) if len(directions) else np.empty((0, d))
        _kernels.find_splits(
            pool.sums,
            pool.counts,
            task.slots,
            pool.offsets,
            rules.has_missing[pool.features],
            rules.categorical[pool.features],
            np.ascontiguousarray(task.mask[:, self._places]),
            columns.curvature,
            columns.weight,
            columns.lambda_,
            columns.step,
            rules.limits.l2,
            rules.top,
            rules.shared,
            directions,
            task.low,
            task.high,
            rules.limits.min_samples_leaf,
            rules.limits.min_curvature,
            feature,
            bin_,
            gain,
            missing_left,
            left,
            sets,
            middle,
            self._n_jobs,
        )
        some = feature >= 0
        found["feature"][some] = pool.features[feature[some]]
        found["gain"], found["bin"], found["left"] = gain, bin_, left
        found["missing_left"], found["set"] = missing_left, sets
        if len(directions):
            found["middle"] = middle
        return found


def cut_type(constrained: bool, n_outputs: int) -> np.dtype[np.void]:
    """A cut as it travels: 53 bytes, or more where values are constrained."""
    fields: list[tuple[Any, ...]] = [
        ("gain", "f8"),
        ("feature", "i4"),
        ("bin", "i4"),
        ("left", "i4"),
        ("missing_left", "u1"),
        ("set", "u1", SET_BYTES),
    ]
    return np.dtype(fields + [("middle", "f8", (n_outputs,))] * constrained)


def best_of(found: list[Array]) -> Array:
    """The best cut of every node among those of several shares of the features. Ties: the lower feature."""
    if len(found) == 1:
        return found[0]
    cuts = np.stack(found)
    gains = np.where(cuts["feature"] >= 0, cuts["gain"], -np.inf)
    tied = np.where(gains == gains.max(axis=0), cuts["feature"], np.iinfo(np.int32).max)
    best: Array = cuts[tied.argmin(axis=0), np.arange(cuts.shape[1])]
    return best


class HistogramSearch:
    """Best cuts from histograms (see :class:`~sparseleaf.boosting.splits.SplitSearch`).

    Here is decided which histograms are made, kept and given up; shards make them and look into them.

    Parameters
    ----------
    rules : CutRules
    budget : int
        Bytes for histograms, in every shard.
    max_nodes : int
        Nodes that can wait to be split at once.
    """

    def __init__(self, rules: CutRules, budget: int, max_nodes: int) -> None:
        self._rules = rules
        self._limits = rules.limits
        self._budget = budget
        self._max_nodes = max_nodes
        self._n_slots = 0
        self._free: list[int] = []
        self._columns: Columns | None = None
        self._waiting: dict[int, Node] = {}

    def prepare(self, shards: Shards) -> None:
        """See :class:`~sparseleaf.boosting.splits.SplitSearch`."""
        shards.call("search_cuts", self._rules)

    def start_tree(self, shards: GrowingShards, features: Array, columns: Columns | None) -> None:
        """See :class:`~sparseleaf.boosting.splits.SplitSearch`."""
        size = max(1, int(self._rules.n_bins[features].sum()))
        slot_bytes = size * (padded_width(self._rules.width) + 1) * 4
        self._n_slots = max(MIN_SLOTS, min(self._budget // slot_bytes, self._max_nodes + MORE_SLOTS))
        self._free = list(range(self._n_slots - 1, -1, -1))
        self._waiting.clear()
        self._columns = columns
        shards.call("start_tree", features, columns, self._n_slots)

    def search(self, shards: GrowingShards, families: list[Family], node_features: NodeFeatures) -> None:
        """Set ``split`` of every child that may be split and has a cut worth making."""
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
            if len(self._free) < needed and batch:
                self._search_batch(shards, batch, node_features)
                batch = []
            while len(self._free) < needed:
                self._evict(keep=family.parent)
            self._assign(family, wanted)
            batch.append(family)
        if batch:
            self._search_batch(shards, batch, node_features)

    def grow(
        self,
        shards: GrowingShards,
        n_rows: int,
        node_features: NodeFeatures,
        max_leaves: int | None,
        *,
        best_first: bool,
    ) -> GrownNodes | None:
        """See :class:`~sparseleaf.boosting.splits.SplitSearch`.

        One shard can, unless nodes have features or bounds of their own, or histograms no room.
        """
        rules = self._rules
        if (
            shards.n_shards > 1
            or rules.directions is not None
            or not node_features.all
            or self._n_slots < self._max_nodes + MORE_SLOTS
        ):
            return None
        most = n_rows if max_leaves is None else min(max_leaves - 1, n_rows)
        found = shards.gather("grow_tree", most, best_first)[0]
        feature, bin_, gain, missing_left, child, count, sets = found
        inner = np.flatnonzero(feature >= 0)
        unseen = inner[rules.has_missing[feature[inner]] == 0]
        missing_left[unseen] = _way_of_most(count[child[unseen]], count[unseen])
        unordered = inner[rules.categorical[feature[inner]] != 0]
        return GrownNodes(
            feature,
            bin_,
            missing_left,
            gain,
            child,
            np.arange(len(feature) // 2 + 1),
            count,
            unordered,
            sets.reshape(-1, SET_BYTES)[unordered],
        )

    def _assign(self, family: Family, wanted: list[Node]) -> None:
        """Give slots: the larger child inherits its parent's."""
        parent = family.parent
        if parent is not None and parent.slot >= 0:
            small, large = sorted(family.children, key=lambda node: (node.count, node.id))
            self._waiting.pop(parent.id, None)
            large.slot, parent.slot = parent.slot, -1
            small.slot = self._free.pop()
            family.built, family.remaining = [small], large
        else:
            for child in wanted:
                child.slot = self._free.pop()
            family.built = wanted

    def _search_batch(self, shards: GrowingShards, batch: list[Family], node_features: NodeFeatures) -> None:
        built = [node for family in batch for node in family.built]
        remaining = [(f.remaining.slot, f.built[0].slot) for f in batch if f.remaining is not None]
        children = [node for family in batch for node in family.children if node.slot >= 0]
        searched = [node for node in children if self._limits.may_split(node)]
        low, high = self._bounds(searched)
        task = CutTask(
            np.array([node.id for node in built], np.int32),
            np.array([node.slot for node in built], np.int32),
            np.array([slot for slot, _ in remaining], np.int32),
            np.array([slot for _, slot in remaining], np.int32),
            np.array([node.id for node in searched], np.int32),
            np.array([node.slot for node in searched], np.int32),
            node_features.mask([node.id for node in searched]),
            low,
            high,
        )
        self._adopt(searched, shards.best("histogram_cuts", task), low, high)
        for node in children:
            if node.split is None:
                self._release(node)
            else:
                self._waiting[node.id] = node

    def _adopt(self, nodes: list[Node], found: Array, low: Array, high: Array) -> None:
        rules, columns = self._rules, self._columns
        names = ("feature", "bin", "gain", "missing_left", "left")
        cuts = zip(nodes, *(found[name].tolist() for name in names), strict=True)
        for i, (node, f, bin_, gain, missing_left, left) in enumerate(cuts):
            if f < 0 or gain <= self._limits.min_gain:
                continue
            bounds = None
            if rules.directions is not None:
                assert columns is not None
                outputs = slice(columns.first, columns.first + low.shape[1])
                bounds = _child_bounds(rules.directions[f, outputs], low[i], high[i], found["middle"][i])
            node.split = Split(
                f,
                bin_,
                gain,
                bool(missing_left if rules.has_missing[f] else _way_of_most(left, node.count)),
                left,
                found["set"][i].copy() if rules.categorical[f] else None,
                bounds,
            )

    def _bounds(self, nodes: list[Node]) -> tuple[Array, Array]:
        """Bounds of the nodes; no rows where nothing is constrained."""
        d = 1 if self._columns is None else len(self._columns.weight)
        if self._rules.directions is None:
            return np.empty((0, d)), np.empty((0, d))
        free = Bounds(np.full(d, -np.inf), np.full(d, np.inf))
        bounds = [node.bounds or free for node in nodes]
        return (
            np.array([bound.low for bound in bounds]).reshape(-1, d),
            np.array([bound.high for bound in bounds]).reshape(-1, d),
        )

    def _release(self, node: Node | None) -> None:
        if node is not None and node.slot >= 0:
            self._free.append(node.slot)
            node.slot = -1
            self._waiting.pop(node.id, None)

    def _evict(self, keep: Node | None) -> None:
        others = [node for node in self._waiting.values() if node is not keep]
        self._release(min(others, key=lambda node: (node.count, node.id)) if others else keep)


def _way_of_most(left: Any, count: Any) -> Any:
    """Whether a missing value goes left where none was seen: should one come later, it goes the way of most rows."""
    return 2 * left > count


def _child_bounds(directions: Array, low: Array, high: Array, middle: Array) -> tuple[Bounds, Bounds]:
    """Bounds of both children: constrained outputs may not pass half-way between the two."""
    up, down = directions > 0, directions < 0
    left = Bounds(np.where(down, np.maximum(low, middle), low), np.where(up, np.minimum(high, middle), high))
    right = Bounds(np.where(up, np.maximum(low, middle), low), np.where(down, np.minimum(high, middle), high))
    return left, right
