"""The forest beside bagged boosted models: extremely randomised trees, each without one fold of the rows.

Deep trees on all outputs complement the shallow ones of boosting, most on noisy targets and with many features. The
folds are those of the boosted models: every row has scores of both by trees without it, to which the weights of both
are fitted. Where the forest does not improve these scores, the model is that of boosting alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from sparseleaf import memory
from sparseleaf._settings import Settings
from sparseleaf.model.mix import Mix
from sparseleaf.objectives.mixing import HeldOut
from sparseleaf.objectives.targets import DenseTargets
from sparseleaf.progress import phase
from sparseleaf.training.bagging import Bagging as Samples
from sparseleaf.training.columns import padded_width
from sparseleaf.training.forest import (
    Forest,
    ForestGrowth,
    ForestPlan,
    ForestRows,
    MeanSquares,
    hessian_of,
    sketch_width,
)
from sparseleaf.training.out_of_bag import predict_out_of_bag

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.binning import BinThresholds
    from sparseleaf.distributed.communicator import Communicator
    from sparseleaf.objectives.dense import DenseObjective
    from sparseleaf.objectives.targets import TargetForm
    from sparseleaf.training.auto import Bagging
    from sparseleaf.training.boosted import BoostedTree
    from sparseleaf.training.dense import Plan
    from sparseleaf.training.dense_partition import DensePartition
    from sparseleaf.training.dense_shard import DenseShard

MIN_ROWS = 16
"""Number of usable rows below which no forest is grown."""

SKETCH_DIM = 32
"""Width of the sketch of more outputs, as in MultiForestRegressor."""


@dataclass(frozen=True)
class FoldSamples:
    """See :class:`~sparseleaf.training.bagging.Samples`: tree t leaves out fold t modulo ``n_folds``.

    Attributes
    ----------
    usable : int64 array
        The rows with a positive weight and a known target.
    fold : int32 array, shape (n_rows,)
    n_folds : int
    """

    usable: Array
    fold: Array
    n_folds: int

    bootstrap = False

    @property
    def enough(self) -> bool:
        """Whether every tree has at least half of the usable rows."""
        sizes = np.bincount(self.fold[self.usable], minlength=1)
        return len(self.usable) >= MIN_ROWS and 2 * int(sizes.max()) <= len(self.usable)

    def rows(self, tree: int) -> Array:
        """See :class:`~sparseleaf.training.bagging.Samples`."""
        rows: Array = self.usable[self.fold[self.usable] != tree % self.n_folds].astype(np.int32)
        return rows

    def oob_rows(self, tree: int) -> Array:
        """See :class:`~sparseleaf.training.bagging.Samples`."""
        rows: Array = self.usable[self.fold[self.usable] == tree % self.n_folds].astype(np.int32)
        return rows


@dataclass(frozen=True)
class MixedForest:
    """A grown forest and the mixing weights.

    Attributes
    ----------
    trees : list of BoostedTree
        Their mean is the forest's prediction, as a difference from that of the base score.
    boosted_weight, forest_weight : float
        Factors of the scores of the boosted models and of the forest.
    """

    trees: Sequence[BoostedTree]
    boosted_weight: float
    forest_weight: float

    @property
    def mix(self) -> Mix:
        """For the model."""
        return Mix(len(self.trees), self.boosted_weight, self.forest_weight)

    def mixed_with(self, boosted: Sequence[BoostedTree], n_models: int) -> list[BoostedTree]:
        """The trees of the forest, then the boosted ones, the average of ``n_models``, with weighted leaf values.

        Gains of the splits have the weights, too, relative to those of boosted trees, which are not averaged.
        """
        share = self.forest_weight / len(self.trees)
        by = share * n_models / self.boosted_weight
        return [
            *((replace(tree, gain=tree.gain * by), vectors.times(share)) for tree, vectors in self.trees),
            *((tree, vectors.times(self.boosted_weight)) for tree, vectors in boosted),
        ]


@dataclass(frozen=True)
class FoldForest:
    """What the forest is grown from after boosting: all rows, on every worker, which grows different trees.

    Attributes
    ----------
    comm : Communicator
    plan : Plan
    thresholds : BinThresholds
    rows : ForestRows
    samples : FoldSamples
    loss : DenseObjective
        Of all rows.
    base_score : float32 array, shape (n_outputs,)
    output_weights : float64 array or None
        Weights of the outputs, in the gain of a split and in the loss; None for equal ones.
    n_jobs : int
    labels : bool
        Whether outputs are classes or labels.
    """

    comm: Communicator
    plan: Plan
    thresholds: BinThresholds
    rows: ForestRows
    samples: FoldSamples
    loss: DenseObjective
    base_score: Array
    output_weights: Array | None
    n_jobs: int
    labels: bool

    @classmethod
    def of(
        cls,
        comm: Communicator,
        part: DensePartition,
        shard: DenseShard,
        fold: Array,
        plan: Plan,
        thresholds: BinThresholds,
        base_score: Array,
        output_weights: Array | None,
        *,
        labels: bool,
    ) -> FoldForest:
        """Gather the rows of all workers."""
        pieces = comm.allgather((shard.bins, part.targets, fold, shard.loss))
        bins, targets, folds, losses = zip(*pieces, strict=True)
        joined, all_targets = np.concatenate(bins), DenseTargets.join(list(targets))
        loss = shard.loss.joined(losses)
        if loss.row_weights is not None:
            all_targets = replace(all_targets, weights=loss.row_weights[:, None])
        usable = Samples.of(all_targets, bootstrap=False, subsample=1.0, seed=plan.seed).usable
        samples = FoldSamples(usable, np.concatenate(folds), plan.bagging.n_folds)
        rows = ForestRows(joined, all_targets, samples)
        n_jobs = part.n_jobs
        return cls(comm, plan, thresholds, rows, samples, loss, base_score, output_weights, n_jobs, labels)

    def grow(self, boosted: Array) -> MixedForest | None:
        """Grow the forest and fit the weights; None if it does not improve the held-out metric.

        ``boosted`` are the scores of the held-out rows by the boosted models that left them out, in order.
        """
        if not self.samples.enough or self.loss.mixing is None:
            return None
        trees = self._trees(self.loss.mixing.min_samples_leaf)
        means = predict_out_of_bag(self.rows, trees, None, self.n_jobs).scores
        held_out = np.flatnonzero(self.samples.fold < self.plan.bagging.n_models)
        weights = self.loss.mixing.weights(
            HeldOut(
                self.loss,
                self.rows.targets,
                held_out,
                self.base_score,
                boosted.astype(np.float64) - self.base_score,
                np.nan_to_num(means[held_out].astype(np.float64)),
                self.output_weights,
            )
        )
        weights = self.comm.broadcast(weights)  # workers may have different processors
        return None if weights is None else MixedForest(trees, *weights.tolist())

    def _trees(self, min_samples_leaf: int) -> list[BoostedTree]:
        problem, n_trees = replace(self.plan.problem, loss=MeanSquares()), self.plan.bagging.n_forest_trees
        plan = ForestPlan(self.plan.seed, problem, labels=False)
        start = self.loss.link.apply(self.base_score[None, :])[0].astype(np.float32)
        weights = self.output_weights
        forest = Forest.of(
            self._settings(min_samples_leaf),
            plan,
            self.thresholds,
            self.rows,
            start,
            self.n_jobs,
            output_weights=weights,
        )
        growth = ForestGrowth(self.comm, forest, n_trees, self.n_jobs)
        trees: list[BoostedTree] = []
        growth.replay(())
        with phase("forest", n_trees) as advance:
            while len(trees) < n_trees:
                trees += [grown.tree for grown in growth.next()]
                advance(len(trees), "")
        return trees

    def _settings(self, min_samples_leaf: int) -> Settings:
        """Parameters of the forest: MultiForestRegressor and MultiForestClassifier have them, too."""
        return Settings(
            **vars(self.plan.params)
            | {
                "max_features": "sqrt" if self.labels else 0.33,
                "splitter": "random",
                "min_samples_leaf": min_samples_leaf,
                "max_depth": None,
                "max_leaves": None,
                "sketch_dim": SKETCH_DIM,
            }
        )


def forest_memory(
    n_rows: int, n_features: int, form: TargetForm, bagging: Bagging, n_jobs: int
) -> memory.MemoryEstimate:
    """Memory estimate of the forest, in addition to that of the boosted models."""
    d, hessians = form.n_outputs, (0, 1, form.n_outputs)[hessian_of(form)]
    sketched = sketch_width(Settings(sketch_dim=SKETCH_DIM), form)
    return memory.estimate_multi_forest(
        n_rows,
        n_features,
        d,
        hessian_columns=hessians,
        sketch_width=sketched,
        width=padded_width((sketched or d) + hessians),
        n_trees=bagging.n_forest_trees,
        max_leaves=n_rows,
        leaf_outputs=d,
        oob=True,
        n_jobs=n_jobs,
    )
