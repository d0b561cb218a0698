"""TreeBuilder: binned features, and what a tree is fitted to, in; one grown tree out.

A builder lives where the rows do, as long as the training. The loops are compiled (``cpp/tree``); what is decided once
for a training is said here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from sparseleaf import _kernels
from sparseleaf._arrays import require_countable
from sparseleaf.binning import common_bins
from sparseleaf.training.tree import Bounds, GrownNodes

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.distributed.communicator import Communicator
    from sparseleaf.training.columns import Columns

MIN_SLOTS, MORE_SLOTS = _kernels.MIN_SLOTS, _kernels.MORE_SLOTS
"""Histograms that are kept at least, and beside those of the nodes that can wait to be split."""


@dataclass(frozen=True)
class TreeSample:
    """The rows and features of one tree.

    Attributes
    ----------
    rows : int32 array
        Rows that the tree learns from; they are sorted by leaf as it grows.
    aside : int32 array
        Rows that take the same way without being learnt from, where workers have some of the features each.
    features : int32 array
        Features that the tree may use, increasing.
    n_node_features : int
        Features drawn for every node.
    key : int
        Key of those draws, 64 bits.
    """

    rows: Array
    aside: Array
    features: Array
    n_node_features: int
    key: int


@dataclass(frozen=True)
class GrownTree:
    """A grown tree, and where in the sample the rows of every leaf begin and end."""

    nodes: GrownNodes
    starts: Array
    ends: Array
    aside_starts: Array
    aside_ends: Array


@dataclass(frozen=True)
class HeldBins:
    """The bins that a worker has: of all features, or of every ``step``-th from ``first``.

    Attributes
    ----------
    bins : uint8 or uint32 array, shape (n_rows, n_held)
    missing_bins : int32 array, shape (n_features,)
        The bin of missing values, of all features.
    """

    bins: Array
    missing_bins: Array
    first: int = 0
    step: int = 1


class TreeBuilder(Protocol):
    """Grows one tree after the other on the rows of this worker."""

    def build(
        self, fitted: Any, sample: TreeSample, communicator: Communicator, *, by_rows: bool
    ) -> GrownTree:
        """Grow a tree, together with the other workers, who call this at the same time.

        Parameters
        ----------
        fitted
            What the tree is fitted to: see :func:`gradient_columns` and :class:`ExactTrees`.
        sample : TreeSample
        communicator : Communicator
        by_rows : bool
            Whether every worker has all features of some rows, not all rows of some features.
        """


class Trees(Protocol):
    """How the trees of a training are grown: what every worker makes its builder of."""

    def make_builder(self, held: HeldBins, n_jobs: int) -> TreeBuilder:
        """The builder of a worker."""


@dataclass(frozen=True)
class Growth:
    """How far a tree grows.

    Attributes
    ----------
    order : {"depth-wise", "best-first"}
        A level at a time, or the node of highest gain next.
    max_leaves, max_depth : int or None
    min_samples_leaf : int
    min_gain : float
        A split must bring more than this.
    """

    order: str
    max_leaves: int | None
    max_depth: int | None
    min_samples_leaf: int
    min_gain: float

    def rules(self, n_rows: int) -> _kernels.GrowthRules:
        """For the kernels, with numbers that a set of so many rows cannot tell from larger ones."""
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
        Bins of every feature, that of missing values included, and whether it has one.
    categorical : uint8 array, shape (n_features,)
        Whether a feature's bins have no order.
    n_rows : int
        Of all workers.
    l2, min_hessian : float
    budget : int
        Bytes for histograms, in every worker.
    max_nodes : int
        Nodes that can wait to be split at once.
    directions : int8 array, shape (n_features, n_outputs), or None
        Monotone constraints: the sign of the difference right − left that a split must not oppose; 0 for any.
    top : int
        Count only so many outputs of each side, 0 for all; ``shared``: the same ones of both.
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

    def __post_init__(self) -> None:
        require_countable("X, max_bins", int(np.sum(self.n_bins, dtype=np.int64)), "bins of all features")

    def make_builder(self, held: HeldBins, n_jobs: int) -> TreeBuilder:
        """See :class:`Trees`."""
        directions = np.empty((0, 0), np.int8) if self.directions is None else self.directions
        table = _kernels.FeatureTable(
            self.n_bins.astype(np.int32), held.missing_bins, self.has_missing, self.categorical, directions
        )
        rules = _kernels.HistogramRules(
            self.l2, self.top, self.shared, self.min_hessian, self.budget, self.max_nodes
        )
        return _CompiledBuilder(
            _kernels.HistogramTreeBuilder(
                held.bins,
                common_bins(held.bins, n_jobs),
                table,
                self.growth.rules(self.n_rows),
                rules,
                held.first,
                held.step,
                n_jobs,
            )
        )


@dataclass(frozen=True)
class ExactTrees:
    """Trees of Algorithm 1 of the paper: sorted rows, full residuals, the k largest sums of both sides.

    They are fitted to ``_kernels.ResidualBlocks``. Attributes as in :class:`HistogramTrees`, and:

    Attributes
    ----------
    leaf_labels : int or None
        k; None for all.
    step : float
        Rows between candidates, or a share of a node's rows where it is below 1.
    """

    growth: Growth
    leaf_labels: int | None
    step: float
    l2: float
    n_rows: int

    def make_builder(self, held: HeldBins, n_jobs: int) -> TreeBuilder:
        """See :class:`Trees`."""
        n = len(held.missing_bins)
        none = np.zeros(n, np.uint8)
        table = _kernels.FeatureTable(
            np.ones(n, np.int32), held.missing_bins, none, none, np.empty((0, 0), np.int8)
        )
        k = -1 if self.leaf_labels is None else self.leaf_labels
        rules = _kernels.ExactRules(k, self.step, self.l2)
        growth = self.growth.rules(self.n_rows)
        return _CompiledBuilder(
            _kernels.ExactTreeBuilder(held.bins, table, growth, rules, held.first, held.step, n_jobs)
        )


def gradient_columns(values: Array, count_column: int, columns: Columns) -> _kernels.GradientColumns:
    """What a tree on histograms is fitted to: integers, and the scales by which their sums become gains."""
    return _kernels.GradientColumns(
        values, count_column, columns.curvature, columns.weight, columns.lambda_, columns.step, columns.first
    )


class _CompiledBuilder:
    """See :class:`TreeBuilder`."""

    def __init__(self, builder: _kernels.HistogramTreeBuilder | _kernels.ExactTreeBuilder) -> None:
        self._builder: Any = builder

    def build(
        self, fitted: Any, sample: TreeSample, communicator: Communicator, *, by_rows: bool
    ) -> GrownTree:
        """See :class:`TreeBuilder`."""
        tree = self._builder.build(
            fitted,
            _kernels.TreeSample(
                sample.rows, sample.aside, sample.features, sample.n_node_features, sample.key
            ),
            communicator,
            by_rows,
        )
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
        return GrownTree(nodes, tree.starts, tree.ends, tree.aside_starts, tree.aside_ends)
