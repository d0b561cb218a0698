"""TreeBuilder: grows one tree from binned features and quantised gradients.

A worker creates its builder once per training. Here is the configuration; the loops are compiled (``cpp/tree``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from sparseleaf import _kernels
from sparseleaf._arrays import require_countable
from sparseleaf.binning import bin_positions, common_bins
from sparseleaf.training.tree import Bounds, GrownNodes

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.binning import BinThresholds
    from sparseleaf.cuda.builder import DeviceBins
    from sparseleaf.distributed.communicator import Communicator
    from sparseleaf.training.columns import Columns

MIN_SLOTS, EXTRA_SLOTS = _kernels.MIN_SLOTS, _kernels.EXTRA_SLOTS
"""Minimum number of histograms in memory, and how many there are beyond those of nodes waiting to be split."""


@dataclass(frozen=True)
class TreeSample:
    """The rows and features of one tree.

    Attributes
    ----------
    rows : int32 array
        The tree's sample; reordered by leaf as the tree grows.
    oob_rows : int32 array
        Rows outside the sample, routed along; only in the feature layout, where no worker can route them alone.
    features : int32 array
        Features sampled for the tree, increasing.
    n_node_features : int
        Number of features sampled for every node.
    key : int
        64-bit key of the node samples.
    """

    rows: Array
    oob_rows: Array
    features: Array
    n_node_features: int
    key: int

    def for_kernels(self) -> _kernels.TreeSample:
        """The same for compiled builders."""
        return _kernels.TreeSample(self.rows, self.oob_rows, self.features, self.n_node_features, self.key)


@dataclass(frozen=True)
class GrownTree:
    """A grown tree, and the range of every leaf's rows in the sample."""

    nodes: GrownNodes
    starts: Array
    ends: Array
    oob_starts: Array
    oob_ends: Array

    @classmethod
    def of(cls, tree: _kernels.GrownTree) -> GrownTree:
        """The tree that a compiled builder returns."""
        low, high = tree.low, tree.high
        nodes = GrownNodes(
            tree.feature,
            tree.bin,
            tree.missing_left,
            tree.gain,
            tree.child,
            tree.count,
            tree.categorical,
            tree.sets,
            Bounds(low, high) if low.size else None,
        )
        return cls(nodes, tree.starts, tree.ends, tree.oob_starts, tree.oob_ends)


@dataclass(frozen=True)
class BinnedColumns:
    """Binned columns of a worker: all features, or every ``stride``-th one from ``first`` on.

    Attributes
    ----------
    bins : uint8 or uint32 array, shape (n_rows, n_columns)
    missing_bins : int32 array, shape (n_features,)
        The bin of missing values of every feature, over all workers.
    on_device : DeviceBins or None
        The bins on a GPU, if they are there already.
    """

    bins: Array
    missing_bins: Array
    first: int = 0
    stride: int = 1
    on_device: DeviceBins | None = None


class TreeBuilder(Protocol):
    """Grows trees on the rows of this worker."""

    def build(
        self, fitted: Any, sample: TreeSample, communicator: Communicator, *, by_rows: bool
    ) -> GrownTree:
        """Grow a tree; a collective call of all workers.

        Parameters
        ----------
        fitted
            The statistics to fit: see :func:`gradient_columns` and :class:`ExactTrees`.
        sample : TreeSample
        communicator : Communicator
        by_rows : bool
            Row layout (every worker has all features of some rows) or feature layout.
        """


class Trees(Protocol):
    """Configuration from which every worker makes its builder."""

    @property
    def device(self) -> str:
        """Where rows and histograms are: "cpu" or "cuda"."""

    def make_builder(self, binned: BinnedColumns, n_jobs: int) -> TreeBuilder:
        """Create the builder of a worker."""


@dataclass(frozen=True)
class Growth:
    """Growth limits of a tree.

    Attributes
    ----------
    order : {"depth-wise", "best-first"}
        Level by level, or the node of highest gain next.
    max_leaves, max_depth : int or None
    min_samples_leaf : int
    min_gain : float
        Minimum gain of a split.
    """

    order: str
    max_leaves: int | None
    max_depth: int | None
    min_samples_leaf: int
    min_gain: float

    def rules(self, n_rows: int) -> _kernels.GrowthRules:
        """Limits for the kernels, clipped to ranges that make no difference for this number of rows."""
        return _kernels.GrowthRules(
            best_first=self.order == "best-first",
            max_leaves=-1 if self.max_leaves is None else self.max_leaves,
            max_depth=-1 if self.max_depth is None else min(self.max_depth, n_rows),
            min_samples=min(self.min_samples_leaf, n_rows + 1),
            min_gain=self.min_gain,
        )


@dataclass(frozen=True)
class HistogramTrees:
    """Trees whose splits are found on histograms of quantised gradients.

    Attributes
    ----------
    growth : Growth
    n_bins, has_missing : int arrays, shape (n_features,)
        Bins of every feature, including that of missing values, and whether there is one.
    categorical : uint8 array, shape (n_features,)
        Whether a feature is categorical.
    n_rows : int
        Over all workers.
    l2, min_hessian : float
    budget : int
        Bytes for histograms on every worker.
    max_nodes : int
        Nodes that can wait to be split at the same time.
    directions : int8 array, shape (n_features, n_outputs), or None
        Monotone constraints: the sign of the difference right − left that a split must not oppose; 0 for any.
    top : int
        Score only the best ``top`` outputs of each side, 0 for all; ``shared``: the same outputs on both sides.
    device : {"cpu", "cuda"}
        Where rows and histograms are. The trees are the same.
    """

    growth: Growth
    n_bins: Array
    has_missing: Array
    categorical: Array
    n_rows: int
    l2: float
    budget: int
    max_nodes: int
    min_hessian: float = 0.0
    directions: Array | None = None
    top: int = 0
    shared: bool = False
    device: str = "cpu"

    def __post_init__(self) -> None:
        require_countable("X, max_bins", int(np.sum(self.n_bins, dtype=np.int64)), "bins of all features")
        if self.device == "cpu":
            return
        for used, what in (
            (self.categorical.any(), "A categorical feature"),
            (self.top, "A top-k split search"),
        ):
            if used:
                raise ValueError(f"{what} requires device='cpu'. Got {self.device!r} instead.")

    def make_builder(self, binned: BinnedColumns, n_jobs: int) -> TreeBuilder:
        """See :class:`Trees`."""
        directions = np.empty((0, 0), np.int8) if self.directions is None else self.directions
        table = _kernels.FeatureTable(
            self.n_bins.astype(np.int32), binned.missing_bins, self.has_missing, self.categorical, directions
        )
        rules = _kernels.HistogramRules(
            self.l2, self.top, self.shared, self.min_hessian, self.budget, self.max_nodes
        )
        if self.device == "cuda":
            from sparseleaf.cuda.builder import DeviceTreeBuilder

            growth = self.growth.rules(self.n_rows)
            return DeviceTreeBuilder(self, binned, _kernels.DeviceTreeBuilder(table, growth, rules))
        return _CompiledBuilder(
            _kernels.HistogramTreeBuilder(
                binned.bins,
                common_bins(binned.bins, n_jobs),
                table,
                self.growth.rules(self.n_rows),
                rules,
                binned.first,
                binned.stride,
                n_jobs,
            )
        )


@dataclass(frozen=True)
class RowTrees:
    """Deep trees of a forest, whose splits are found from the rows of a node: see ``cpp/tree/row_finder.hpp``.

    Every tree is grown by one thread with all rows and features; a builder can grow several trees at the same time.

    Attributes
    ----------
    growth : Growth
    thresholds : BinThresholds
    categorical : uint8 array, shape (n_features,)
        Whether a feature is categorical.
    n_rows : int
    random : bool
        Whether a feature has one random candidate split per node (extremely randomised trees), not all.
    """

    growth: Growth
    thresholds: BinThresholds
    categorical: Array
    n_rows: int
    random: bool

    device: ClassVar[str] = "cpu"

    def make_builder(self, binned: BinnedColumns, n_jobs: int) -> TreeBuilder:
        """See :class:`Trees`."""
        missing_bins = self.thresholds.missing_bins
        table = _kernels.FeatureTable(
            missing_bins + np.int32(1),
            missing_bins,
            np.ones(len(missing_bins), np.uint8),
            self.categorical,
            np.empty((0, 0), np.int8),
        )
        offsets = np.concatenate(([0], np.cumsum(missing_bins, dtype=np.int64)))
        positions = _kernels.BinPositions(offsets, bin_positions(self.thresholds))
        growth = self.growth.rules(self.n_rows)
        return _CompiledBuilder(
            _kernels.RowTreeBuilder(binned.bins, table, positions, growth, 0.0, self.random)
        )


@dataclass(frozen=True)
class ExactTrees:
    """Trees by Algorithm 1 of GBDT-SPARSE: sorted rows, full residuals, the k largest sums on both sides.

    They are fitted to ``_kernels.ResidualBlocks``. Attributes as in :class:`HistogramTrees`, and:

    Attributes
    ----------
    leaf_labels : int or None
        k; None for all.
    step : float
        Rows between candidate splits, or a fraction of the node's rows if below 1.
    """

    growth: Growth
    leaf_labels: int | None
    step: float
    l2: float
    n_rows: int

    device: ClassVar[str] = "cpu"

    def make_builder(self, binned: BinnedColumns, n_jobs: int) -> TreeBuilder:
        """See :class:`Trees`."""
        n = len(binned.missing_bins)
        none = np.zeros(n, np.uint8)
        table = _kernels.FeatureTable(
            np.ones(n, np.int32), binned.missing_bins, none, none, np.empty((0, 0), np.int8)
        )
        k = -1 if self.leaf_labels is None else self.leaf_labels
        rules = _kernels.ExactRules(k, self.step, self.l2)
        growth = self.growth.rules(self.n_rows)
        return _CompiledBuilder(
            _kernels.ExactTreeBuilder(binned.bins, table, growth, rules, binned.first, binned.stride, n_jobs)
        )


def gradient_columns(values: Array, count_column: int, columns: Columns) -> _kernels.GradientColumns:
    """Quantised gradients with the scales that convert their sums to gains."""
    return _kernels.GradientColumns(
        values, count_column, columns.hessian, columns.weight, columns.lambda_, columns.step, columns.first
    )


class _CompiledBuilder:
    """See :class:`TreeBuilder`."""

    def __init__(self, builder: Any) -> None:
        self._builder = builder

    def build(
        self, fitted: Any, sample: TreeSample, communicator: Communicator, *, by_rows: bool
    ) -> GrownTree:
        """See :class:`TreeBuilder`."""
        tree = self._builder.build(fitted, sample.for_kernels(), communicator, by_rows)
        return GrownTree.of(tree)
