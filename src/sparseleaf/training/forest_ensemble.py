"""Forests of axis-aligned trees with vector leaves: the ensemble, whose model averages the trees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from sparseleaf import memory
from sparseleaf._arrays import effective_n_jobs
from sparseleaf.binning import bin_features
from sparseleaf.model import AxisScorer, Model, Role, in_order, with_scaled_values, with_short_values
from sparseleaf.training.boosted import BoostedEnsemble
from sparseleaf.training.dense import Problem
from sparseleaf.training.dense_shard import DenseShard
from sparseleaf.training.forest import ForestPlan, MeanSquares, bootstraps
from sparseleaf.training.forest_program import ForestProgram
from sparseleaf.training.freeze import concatenate_trees
from sparseleaf.training.out_of_bag import predict_out_of_bag
from sparseleaf.training.packing import unpack_trees
from sparseleaf.training.resuming import describe_problem
from sparseleaf.training.validation import eval_names, eval_sets

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.callbacks import EarlyStopping
    from sparseleaf.checkpoint import Checkpoint
    from sparseleaf.distributed.launch import Workers
    from sparseleaf.estimators.multi_forest import MultiForest
    from sparseleaf.model.trees import Trees
    from sparseleaf.training.boosted import BoostedTree
    from sparseleaf.training.dense import Description, ValidationSet
    from sparseleaf.training.forest_program import PreparedForest
    from sparseleaf.training.validation import EvalSet


class ForestEnsemble(BoostedEnsemble):
    """See :class:`~sparseleaf.training.trainer.Ensemble`."""

    memory_advice = "Use fewer rows, outputs or trees, or a larger min_samples_leaf."
    per_round = 1
    n_init_rounds = 0

    def __init__(self, estimator: MultiForest, eval_set: EvalSet) -> None:
        params = estimator._settings()
        super().__init__(params, eval_set)
        self._estimator = estimator
        self._n_jobs = effective_n_jobs(params.n_jobs)
        self.n_rounds = params.n_trees
        self.program = ForestProgram(params, estimator.predicts_labels)
        self._validation: list[ValidationSet] = []
        self._n_evaluated = 0

    def validate(self, description: Description, workers: Workers) -> memory.Estimate:
        """See :class:`~sparseleaf.training.trainer.Ensemble`."""
        estimator, params, rows = self._estimator, self._params, description.rows
        if params.oob_score and not (bootstraps(params) or params.subsample < 1):
            raise ValueError(
                "oob_score=True requires out-of-bag rows: bootstrap=True or subsample < 1. Got"
                f" bootstrap={params.bootstrap!r} with splitter={params.splitter!r} and subsample=1 instead."
            )
        self._description = description
        estimator._know_features(rows)
        loss = estimator._dense_loss(description.known.kind)
        self._problem = Problem(rows, description.categories, description.known, description.form, loss)
        self._names = workers.once(lambda: eval_names(len(eval_sets(self._eval_set))))

        def check() -> None:  # one process has the validation sets; an error is raised on all
            self._validation = estimator._validation_sets(self._eval_set, self._problem)

        workers.once(check)
        return estimator._estimate_rows(
            rows.n_rows, rows.n_features, description.known.kind, description.form
        )

    def summary(self) -> str:
        """See :class:`~sparseleaf.training.trainer.Ensemble`."""
        rows, n_outputs = self._problem.rows, self._problem.form.n_outputs
        return f"{rows.n_rows:,} rows, {rows.n_features:,} features, {n_outputs:,} outputs"

    def fingerprints(self) -> dict[str, str]:
        """See :class:`~sparseleaf.training.trainer.Ensemble`."""
        return describe_problem(self._problem, self._validation, None)

    def plan(self, checkpoint: Checkpoint) -> ForestPlan:
        """See :class:`~sparseleaf.training.trainer.Ensemble`."""
        self._plan = ForestPlan(checkpoint.seed, self._problem, self._estimator.predicts_labels)
        return self._plan

    def adopt(self, prepared: PreparedForest, checkpoint: Checkpoint) -> ForestPlan:
        """See :class:`~sparseleaf.training.trainer.Ensemble`."""
        self._prepared = prepared
        n_outputs = self._problem.form.n_outputs
        for one in self._validation:
            bins = bin_features([one.features], prepared.thresholds, np.uint8, self._n_jobs)
            sums = np.zeros((len(bins), n_outputs), np.float32)
            missing_bins, loss = prepared.thresholds.missing_bins, self._problem.loss
            self._shards.append(DenseShard(bins, missing_bins, one.targets, sums, loss, self._n_jobs))
        return self._plan

    def early_stopping(self, workers: Workers) -> EarlyStopping | None:
        """See :class:`~sparseleaf.training.trainer.Ensemble`; more trees do not overfit."""
        return None

    def unpack(self, tensors: dict[str, Array]) -> list[BoostedTree]:
        """See :class:`~sparseleaf.training.trainer.Ensemble`."""
        return unpack_trees(tensors, self._prepared.thresholds.n_features, self._problem.form.n_outputs)

    def update_validation(self, tree: BoostedTree) -> None:
        """See :class:`~sparseleaf.training.trainer.Ensemble`."""
        super().update_validation(tree)
        self._n_evaluated += 1

    def _evaluate(self) -> dict[str, float]:
        start, scale = self._prepared.base_score, np.float32(1 / self._n_evaluated)
        base = np.zeros(self._problem.form.n_outputs, np.float32) if start is None else start
        return {
            f"{name} {one.metric.name}": one.metric.measure(shard.targets, base + scale * shard.scores)
            for name, one, shard in zip(self._names, self._validation, self._shards, strict=True)
        }

    def finish(
        self,
        trees: Sequence[BoostedTree],
        completion: None,
        history: dict[str, list[float]],
        seed: int,
        workers: Workers,
    ) -> bool:
        """See :class:`~sparseleaf.training.trainer.Ensemble`."""
        estimator, problem, prepared = self._estimator, self._problem, self._prepared
        rows, known, n_outputs = problem.rows, problem.known, problem.form.n_outputs
        scorer = AxisScorer(self._averaged(trees), n_outputs, prepared.base_score)
        estimator._adopt(
            Model(
                stages=in_order([estimator._vectorizer_stage(), scorer, self._description.empty]),
                method=estimator.method,
                n_features=rows.n_features,
                n_labels=n_outputs,
                label_names=known.names,
                target_kind=known.kind,
                label_counts=known.counts,
                n_train_rows=rows.n_rows,
                parameters=estimator._saved_parameters(seed),
                history=history,
                feature_names=estimator._feature_names(),
                categories=problem.categories,
                link=MeanSquares.link.name,
            )
        )
        calibrator = workers.once(lambda: estimator._eval_calibrator(self._eval_set))
        if calibrator is not None:
            estimator._adopt(estimator.model_.with_stage(Role.CALIBRATOR, calibrator))
        if prepared.rows is not None:
            estimator._adopt_out_of_bag(
                predict_out_of_bag(prepared.rows, trees, prepared.base_score, self._n_jobs)
            )
        return False

    def _averaged(self, trees: Sequence[BoostedTree]) -> Trees:
        """Trees whose leaf values, divided by the number of trees, add up to the mean."""
        problem, labels = self._problem, self._estimator.predicts_labels
        joined = concatenate_trees(
            list(trees),
            np.arange(problem.form.n_outputs),
            problem.rows.n_features,
            problem.form.n_outputs,
            categorical=problem.categorical,
            all_labels=not labels,
            n_jobs=self._n_jobs,
        )
        return with_scaled_values(with_short_values(joined) if labels else joined, 1 / len(trees))
