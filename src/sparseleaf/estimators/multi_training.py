"""How GBDT-MO trains: which search and curvature its parameters ask for, and the parts put together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from sparseleaf.binning import Cuts, bin_features
from sparseleaf.boosting.builder import Growth, HistogramTrees
from sparseleaf.boosting.columns import COUNT, DIAGONAL, MATRIX, SHARED
from sparseleaf.boosting.leaves import NewtonLeaves
from sparseleaf.boosting.loop import Booster, Recipe
from sparseleaf.boosting.reducers import make_reducer
from sparseleaf.boosting.statistics import DenseGradients
from sparseleaf.engine.dense import DenseShard
from sparseleaf.engine.part import agree_on_cuts
from sparseleaf.estimators.parameters import Settings, most_leaves
from sparseleaf.estimators.training import TrainingRun

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features
    from sparseleaf.boosting.dense_losses import DenseTargets, Loss, TargetForm
    from sparseleaf.boosting.ranking_losses import Queries
    from sparseleaf.boosting.tree import FlatTree, LeafVectors
    from sparseleaf.checkpoint import Checkpoint
    from sparseleaf.data.rows import RowsInfo
    from sparseleaf.engine.shards import Shards
    from sparseleaf.estimators.evaluation import Metric
    from sparseleaf.estimators.multi import MultiGBDT
    from sparseleaf.estimators.multi_targets import KnownTargets
    from sparseleaf.model import Model

MOST_FULL_OUTPUTS = 32
"""``split="auto"`` searches all outputs up to this many, and a sketch of them above."""

MOST_MATRIX_OUTPUTS = 32


@dataclass(frozen=True)
class Watched:
    """Rows that are measured on after every round; ``queries`` are those of a ranking."""

    features: Features
    targets: DenseTargets
    metric: Metric
    queries: Queries | None = None


@dataclass(frozen=True)
class Problem:
    """What is to be learned, from rows that the shards hold.

    Attributes
    ----------
    rows : RowsInfo
    categories : dict of int to list
        By feature, the names of its categories.
    known : KnownTargets
    form : TargetForm
    loss : Loss
    watched : dict of str to Watched
        Validation sets by name, where they are measured on.
    """

    rows: RowsInfo
    categories: dict[int, list[Any]]
    known: KnownTargets
    form: TargetForm
    loss: Loss
    watched: Mapping[str, Watched] = field(default_factory=dict)


class SearchPlan:
    """How the gradients of one training become histograms.

    Attributes
    ----------
    split : str
        The search, "auto" resolved.
    curvature : int
        See :mod:`sparseleaf.boosting.columns`.
    matrix : bool
        Whether the full matrix of curvatures is used.
    sketch : int
        Columns of reduced gradients, 0 for none.
    width : int
        Columns of a histogram.
    top : int
        Outputs of a side that count, 0 for all; ``shared``: the same ones of both.
    all_outputs : bool
        Whether every leaf has a value for each output.
    """

    def __init__(
        self,
        params: Settings,
        loss: Loss,
        targets: TargetForm,
        directions: Array | None,
    ) -> None:
        d = targets.n_outputs
        k = params.leaf_labels
        alone = params.tree_per_output
        self.loss = loss
        self.directions = directions
        split = params.split
        if split == "auto":
            few = d <= max(MOST_FULL_OUTPUTS, params.sketch_dim)
            split = (
                "sketch"
                if not few and not alone
                else "full"
                if k is None or k >= d or alone
                else "topk-shared"
            )
            if directions is not None:
                split = "full"
        if split == "sketch" and params.sketch_dim >= d:
            split = "full"  # the outputs are no more than a sketch of them would be
        self.split = split
        self.matrix = params.hessian == "exact" and d > 1
        self.sketch = params.sketch_dim if split == "sketch" else 0
        self._refuse(params, targets)
        if self.matrix:
            self.curvature = MATRIX
        elif not loss.constant_hessian or targets.has_unknown or targets.weight_columns > 1:
            self.curvature = DIAGONAL
        elif targets.weight_columns:
            self.curvature = SHARED if d > 1 else DIAGONAL
        else:
            self.curvature = COUNT
        self.top = k if split.startswith("topk") and k is not None and k < d else 0
        self.shared = split == "topk-shared"
        self.all_outputs = (k is None or k >= d) and params.leaf_min_gain == 0 and not alone
        if self.sketch:
            self.width = self.sketch + bool(targets.weight_columns)
        else:
            own = 1 if alone else d
            self.width = own + (0, 1, own, own * (own + 1) // 2)[self.curvature]

    def _refuse(self, params: Settings, targets: TargetForm) -> None:
        """Parameters that are each sound and together are not."""
        d = targets.n_outputs
        if self.matrix:
            if targets.weight_columns > 1:
                raise ValueError("hessian='exact': found a sample_weight per output; wanted one a row.")
            if not self.loss.full_hessian:
                raise ValueError(
                    f"hessian='exact': loss {self.loss.name!r} has no hessian across outputs; wanted 'diagonal'."
                )
            if d > MOST_MATRIX_OUTPUTS:
                raise ValueError(f"hessian='exact': found {d} outputs; wanted at most {MOST_MATRIX_OUTPUTS}.")
            if self.split != "full" or params.tree_per_output or self.directions is not None:
                raise ValueError(
                    "hessian='exact' searches all outputs at once; wanted split='full', no tree_per_output,"
                    " leaf_labels or monotone_constraints."
                )
        if self.split.startswith("topk") and params.leaf_labels is None:
            raise ValueError(
                f"split={self.split!r} counts the leaf_labels best outputs; wanted leaf_labels=k."
            )
        if params.tree_per_output and self.split != "full":
            raise ValueError(
                f"tree_per_output: found split={self.split!r}; one output at a time wants 'full'."
            )
        if self.directions is not None and (
            self.split != "full" or params.leaf_labels is not None or params.leaf_min_gain > 0
        ):
            raise ValueError(
                "monotone_constraints hold for leaves that keep all outputs, searched in full; wanted split='full'"
                " (or 'auto'), leaf_labels=None and leaf_min_gain=0."
            )
        if self.directions is not None and self.loss.quantile is not None:
            raise ValueError(f"monotone_constraints: not with loss={self.loss.name!r}.")


class MultiTraining:
    """One run of :meth:`MultiGBDT.fit`: the parts put together."""

    def __init__(
        self,
        estimator: MultiGBDT,
        shards: Shards,
        plan: SearchPlan,
        problem: Problem,
        base_score: Array,
        before: Model | None,
        checkpoint: Checkpoint,
        n_jobs: int,
    ) -> None:
        seed = checkpoint.seed
        self._params = params = estimator._settings()
        self._shards = shards
        self._plan = plan
        self._base_score = base_score
        self._before = before
        self._n_jobs = n_jobs
        rows, categories = problem.rows, problem.categories
        cuts = agree_on_cuts(shards, params.max_bins, seed, rows.n_rows)
        self.cuts = _with_categories(cuts, categories)
        self.categorical = np.zeros(rows.n_features, np.uint8)
        self.categorical[list(categories)] = 1
        shards.call(
            "make_shard",
            self.cuts,
            estimator._loss_of_rows(problem.loss),
            plan.matrix,
            base_score,
            before,
            getattr(params, "subsample_by", "row") == "query",
        )
        has_missing = (shards.sum("missing_features") > 0).astype(np.uint8)
        per_round = problem.form.n_outputs if params.tree_per_output else 1
        self.run = TrainingRun(
            self._make_booster(problem, has_missing, seed),
            checkpoint,
            first=0 if before is None else before.n_trees,
            per_round=per_round,
        )
        self._per_round = per_round
        self._seen = 0
        self._watched = [
            (name, self._shard(watched.features, watched.targets), watched.metric)
            for name, watched in problem.watched.items()
        ]

    def replay(self, tree: FlatTree, vectors: LeafVectors) -> None:
        """Add a tree of a checkpoint to all scores."""
        self._shards.follow_tree(tree, vectors)
        self._seen += 1
        for _, shard, _ in self._watched:
            shard.follow(tree, vectors)

    def measure(self, tree: FlatTree, vectors: LeafVectors) -> dict[str, float] | None:
        """The metric on the watched rows, with the new tree, when a round is complete."""
        return self._shards.once(lambda: self._measure(tree, vectors))

    def _measure(self, tree: FlatTree, vectors: LeafVectors) -> dict[str, float] | None:
        self._seen += 1
        for _, shard, _ in self._watched:
            shard.follow(tree, vectors)
        if self._seen % self._per_round:
            return None
        return {
            f"{name} {metric.name}": metric.measure(shard.targets, shard.scores)
            for name, shard, metric in self._watched
        }

    def _shard(self, X: Features, targets: DenseTargets) -> DenseShard:
        bins = bin_features([X], self.cuts, np.uint8, self._n_jobs)
        if self._before is not None:
            scores = self._before.dense(X, None, self._n_jobs)
        else:
            scores = np.repeat(self._base_score[None, :], X.shape[0], axis=0)
        return DenseShard(bins, self.cuts.missing_bins, targets, scores, self._plan.loss, self._n_jobs)

    def _make_booster(self, problem: Problem, has_missing: Array, seed: int) -> Booster:
        params, plan = self._params, self._plan
        growth = Growth(
            params.growth, params.max_leaves, params.max_depth, params.min_samples_leaf, params.min_gain
        )
        n_outputs, n_rows = problem.form.n_outputs, problem.rows.n_rows
        rule = NewtonLeaves(
            params.leaf_labels,
            plan.shared,
            params.leaf_min_gain,
            params.l2,
            params.learning_rate,
            plan.loss.quantile,
        )
        statistics = DenseGradients(
            n_outputs,
            plan.curvature,
            rule,
            make_reducer(params.sketch, plan.sketch, n_outputs) if plan.sketch else None,
            tree_per_output=params.tree_per_output,
            n_rows=n_rows,
            seed=seed,
        )
        trees = HistogramTrees(
            growth,
            np.diff(self.cuts.offsets) + 1 + has_missing,
            has_missing,
            self.categorical,
            n_rows,
            params.l2,
            params.histogram_mb << 20,
            most_leaves(params, n_rows),
            params.min_hessian_leaf,
            plan.directions,
            plan.top,
            plan.shared,
        )
        recipe = Recipe(
            trees=trees,
            cuts=self.cuts,
            statistics=statistics,
            n_features=self.cuts.n_features,
            subsample=params.subsample,
            colsample_bytree=params.colsample_bytree,
            colsample_bynode=params.colsample_bynode,
            seed=seed,
        )
        return Booster(self._shards, recipe)


def _with_categories(cuts: Cuts, categories: dict[int, list[Any]]) -> Cuts:
    """Cuts that give every category a bin of its own."""
    if not categories:
        return cuts
    parts = [
        np.arange(0.5, max(len(categories[f]) - 1, 0), dtype=np.float32)
        if f in categories
        else cuts.values[cuts.offsets[f] : cuts.offsets[f + 1]]
        for f in range(cuts.n_features)
    ]
    return Cuts(np.cumsum([0, *map(len, parts)]).astype(np.int64), np.concatenate(parts).astype(np.float32))
