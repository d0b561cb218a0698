"""Growing the trees of a forest with vector leaves.

A tree is fitted to the squared error of all outputs: with class indicators as targets this is the Gini index, and leaf
values are class frequencies. Gradients are those at a constant score, the same for all trees. Trees are independent
and each needs all rows: every worker gets all binned rows and grows different trees.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sparseleaf._arrays import derive_key
from sparseleaf._settings import Settings
from sparseleaf.distributed.communicator import LocalCommunicator
from sparseleaf.distributed.failures import gather_results
from sparseleaf.distributed.placement import Placement
from sparseleaf.objectives.mse import MSE
from sparseleaf.objectives.targets import NO_CLASSES, DenseTargets
from sparseleaf.training.bagging import MOST_REPEATS, Samples
from sparseleaf.training.builder import Growth, RowTrees
from sparseleaf.training.columns import COUNT, DIAGONAL, SHARED
from sparseleaf.training.forest_shard import ForestShard
from sparseleaf.training.leaves import NewtonLeaves
from sparseleaf.training.program import Grown
from sparseleaf.training.search_plan import MAX_FULL_OUTPUTS
from sparseleaf.training.sketches import make_sketch
from sparseleaf.training.statistics import DenseGradients
from sparseleaf.training.tree import LeafVectors

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.binning import BinThresholds
    from sparseleaf.distributed.communicator import Communicator
    from sparseleaf.objectives.targets import TargetForm
    from sparseleaf.training.boosted import BoostedTree
    from sparseleaf.training.columns import Columns
    from sparseleaf.training.dense import Problem

NODES = 22
"""Purpose of random draws: part of their keys."""

SMALLEST_FREQUENCY = 1e-6
"""Lower frequencies of a label in a leaf are rounding errors."""

AHEAD = 2
"""Trees per thread that are grown ahead of the one that is returned next."""


@dataclass(frozen=True)
class MeanSquares(MSE):
    """Squared error, also of class indicators."""

    def value(self, targets: DenseTargets, scores: Array) -> float:
        """Mean squared error; of class probabilities, the Brier score per class."""
        y = np.nan_to_num(targets.as_matrix().astype(np.float64))
        each = self.losses(y, scores.astype(np.float64))
        return float(np.average(each, weights=targets.known_weights()))


@dataclass(frozen=True)
class ForestPlan:
    """What workers need to grow trees.

    Attributes
    ----------
    seed : int
    problem : Problem
    labels : bool
        Whether outputs are classes or labels. Leaves then have their frequencies, without zeros; otherwise differences
        from the mean of all rows, the base score of the model.
    """

    seed: int
    problem: Problem
    labels: bool


@dataclass(frozen=True)
class ForestRows:
    """All binned rows and what determines the samples of the trees, for out-of-bag predictions."""

    bins: Array
    targets: DenseTargets
    bagging: Samples


class Forest:
    """Grows the trees of a forest on all rows, in any order.

    Parameters
    ----------
    shard : ForestShard
        All rows, with their gradients.
    statistics : DenseGradients
    columns : Columns or None
        Those of all trees; None if every tree has a sketch of the gradients.
    trees : RowTrees
    bagging : Samples
    thresholds : BinThresholds
    n_node_features : int
    plan : ForestPlan
    start : float32 array, shape (n_outputs,)
        The constant score at which gradients are computed.
    """

    def __init__(
        self,
        shard: ForestShard,
        statistics: DenseGradients,
        columns: Columns | None,
        trees: RowTrees,
        bagging: Samples,
        thresholds: BinThresholds,
        n_node_features: int,
        plan: ForestPlan,
        start: Array,
    ) -> None:
        self._shard = shard
        self._statistics = statistics
        self._columns = columns
        self._trees = trees
        self._bagging = bagging
        self._thresholds = thresholds
        self._n_node_features = n_node_features
        self._plan = plan
        self._start = start
        self._place = Placement.by_rows(LocalCommunicator())

    @classmethod
    def of(
        cls,
        params: Settings,
        plan: ForestPlan,
        thresholds: BinThresholds,
        rows: ForestRows,
        start: Array,
        n_jobs: int,
        output_weights: Array | None = None,
    ) -> Forest:
        """For these rows; ``output_weights`` are those of the outputs in the gain of a split, None for equal ones."""
        problem, n_rows = plan.problem, len(rows.bins)
        form, sketched = problem.form, sketch_width(params, problem.form)
        known = rows.targets
        targets = DenseTargets(
            known.as_matrix(), NO_CLASSES, known.weights, known.n_outputs, form.has_unknown
        )
        scores = np.repeat(start[None, :], n_rows, axis=0)
        shard = ForestShard(rows.bins, thresholds.missing_bins, targets, scores, problem.loss, n_jobs)
        statistics = DenseGradients(
            form.n_outputs,
            hessian_of(form),
            NewtonLeaves(None, False, 0.0, 0.0, 1.0),
            make_sketch(params.sketch, sketched, form.n_outputs) if sketched else None,
            tree_per_output=False,
            n_rows=n_rows,
            seed=plan.seed,
            output_weights=output_weights,
            repeats=MOST_REPEATS if rows.bagging.bootstrap else 1,
        )
        place = Placement.by_rows(LocalCommunicator())
        statistics.gradients(place, shard, 0)
        columns = None if sketched else statistics.columns(place, shard, 0)
        growth = Growth(
            "depth-wise" if params.max_leaves is None else "best-first",
            params.max_leaves,
            params.max_depth,
            params.min_samples_leaf,
            -np.inf,
        )
        trees = RowTrees(growth, thresholds, problem.categorical, n_rows, random=params.splitter == "random")
        count = n_node_features(params.max_features, thresholds.n_features)
        shard.freeze(trees)
        return cls(shard, statistics, columns, trees, rows.bagging, thresholds, count, plan, start)

    def grow(self, number: int, n_jobs: int) -> BoostedTree:
        """Grow tree ``number``; several can be grown at the same time."""
        place, statistics, columns = self._place, self._statistics, self._columns
        rows = self._bagging.rows(number)
        shard = self._shard.for_tree(rows, n_jobs, new_columns=columns is None)
        if columns is None:
            columns = statistics.columns(place, shard, number)
        features = np.arange(self._thresholds.n_features, dtype=np.int32)
        key = derive_key(self._plan.seed, number, NODES)
        grown = shard.build_tree(self._trees, columns, features, self._n_node_features, key, place.workers)
        tree = grown.flatten(self._thresholds)
        vectors = statistics.leaves(place, shard, tree, number)
        return tree, frequencies(vectors, self._start).rounded() if self._plan.labels else vectors


class ForestGrowth:
    """See :class:`~sparseleaf.training.program.Growth`: worker r grows every ``size``-th tree, from tree r on.

    Every thread grows a different tree.
    """

    def __init__(self, comm: Communicator, forest: Forest, n_trees: int, n_jobs: int) -> None:
        self._comm = comm
        self._forest = forest
        self._n_trees = n_trees
        self._n_jobs = n_jobs
        self._number = 0
        self._trees: Iterator[BoostedTree] = iter(())

    def replay(self, trees: Sequence[BoostedTree]) -> None:
        """See :class:`~sparseleaf.training.program.Growth`."""
        self._number = len(trees)
        first = self._number + self._comm.rank
        self._trees = self._grow(range(first, self._n_trees, self._comm.size))

    def next(self) -> list[Grown]:
        """See :class:`~sparseleaf.training.program.Growth`."""
        gathered = gather_results(self._comm, lambda: next(self._trees, None))
        trees = [tree for tree in gathered if tree is not None]
        self._number += len(trees)
        return [Grown(tree, len(tree[0].leaf_nodes), len(tree[1].values)) for tree in trees]

    def complete(self) -> None:
        """See :class:`~sparseleaf.training.program.Growth`; nothing."""

    def _grow(self, numbers: Sequence[int]) -> Iterator[BoostedTree]:
        """Trees in this order; others are grown ahead."""
        if self._n_jobs == 1 or len(numbers) == 1:
            for number in numbers:
                yield self._forest.grow(number, self._n_jobs)
            return
        pool = ThreadPoolExecutor(min(self._n_jobs, len(numbers)))
        waiting: deque[Future[BoostedTree]] = deque()
        try:
            for number in numbers:
                waiting.append(pool.submit(self._forest.grow, number, 1))
                if len(waiting) >= AHEAD * self._n_jobs:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            # without waiting: a garbage collector may run this within threading's own locks
            pool.shutdown(wait=False, cancel_futures=True)


def frequencies(vectors: LeafVectors, start: Array) -> LeafVectors:
    """Frequencies of classes or labels, without zeros, from their differences to ``start``."""
    values = np.clip(vectors.values + start[vectors.labels], 0, 1)
    kept = values > SMALLEST_FREQUENCY
    ends = np.concatenate(([0], np.cumsum(kept)))[vectors.indptr]
    return LeafVectors(ends, vectors.labels[kept], values[kept])


def bootstraps(params: Settings) -> bool:
    """The ``bootstrap`` parameter, "auto" resolved."""
    auto: bool = params.splitter == "best"
    return auto if params.bootstrap == "auto" else bool(params.bootstrap)


def n_node_features(max_features: Any, n_features: int) -> int:
    """The ``max_features`` parameter as a number of features."""
    if max_features == "sqrt":
        return max(1, int(np.sqrt(n_features)))
    if max_features == "log2":
        return max(1, int(np.log2(n_features)))
    return max(1, int(max_features * n_features))


def sketch_width(params: Settings, form: TargetForm) -> int:
    """Width of the gradient sketch, 0 for none."""
    return params.sketch_dim if form.n_outputs > max(MAX_FULL_OUTPUTS, params.sketch_dim) else 0


def hessian_of(form: TargetForm) -> int:
    """Kind of the hessian: see :mod:`sparseleaf.training.columns`."""
    if form.has_unknown or form.weight_columns > 1:
        return DIAGONAL
    if form.weight_columns:
        return SHARED if form.n_outputs > 1 else DIAGONAL
    return COUNT
