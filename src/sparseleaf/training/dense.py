"""Boosted trees on dense gradients (GBDT-MO, ranking): the worker program and the ensemble."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sparseleaf import memory
from sparseleaf._arrays import effective_n_jobs
from sparseleaf._settings import Settings, most_leaves
from sparseleaf.binning import BinThresholds, bin_features
from sparseleaf.callbacks import EarlyStopping
from sparseleaf.cuda.device import assigned_gpu, require_layout, use_gpu
from sparseleaf.data.categories import join_categories
from sparseleaf.distributed.failures import run_together
from sparseleaf.model import AxisScorer, Model, Role, in_order, join_trees
from sparseleaf.model.mix import NO_FOREST
from sparseleaf.objectives.targets import TargetForm
from sparseleaf.progress import phase
from sparseleaf.training import sharing
from sparseleaf.training.auto import AUTO, N_TREES, Bagging, resolve
from sparseleaf.training.boosted import BoostedEnsemble, BoostedGrowth
from sparseleaf.training.boosting_round import BoostingRound
from sparseleaf.training.builder import Growth, HistogramTrees
from sparseleaf.training.dense_partition import common_base_score, common_output_weights, count_queries
from sparseleaf.training.dense_shard import DenseShard
from sparseleaf.training.dense_targets import KnownTargets, join_known
from sparseleaf.training.fold_forest import FoldForest
from sparseleaf.training.folds import BaggedGrowth, can_measure, fold_of, held_out_name
from sparseleaf.training.freeze import concatenate_trees
from sparseleaf.training.leaves import NewtonLeaves
from sparseleaf.training.packing import unpack_trees
from sparseleaf.training.partition import describe_prior, describe_rows, find_common_thresholds
from sparseleaf.training.resuming import describe_problem
from sparseleaf.training.rounds import continued_mix, n_rounds
from sparseleaf.training.search_plan import SearchPlan
from sparseleaf.training.sketches import make_sketch
from sparseleaf.training.statistics import DenseGradients

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features
    from sparseleaf.checkpoint import Checkpoint
    from sparseleaf.data.categories import Categories
    from sparseleaf.data.rows import RowsInfo
    from sparseleaf.distributed.communicator import Communicator
    from sparseleaf.distributed.launch import Workers
    from sparseleaf.estimators.dense import DenseGBDT
    from sparseleaf.estimators.evaluation import Metric
    from sparseleaf.model.empty import EmptyRows
    from sparseleaf.objectives.dense import DenseObjective
    from sparseleaf.objectives.queries import Queries
    from sparseleaf.objectives.targets import DenseTargets
    from sparseleaf.training.boosted import BoostedTree
    from sparseleaf.training.dense_partition import DensePartition
    from sparseleaf.training.fold_forest import MixedForest
    from sparseleaf.training.validation import EvalSet


@dataclass(frozen=True)
class ValidationSet:
    """A validation set, evaluated after every round; ``queries`` for ranking."""

    features: Features
    targets: DenseTargets
    metric: Metric
    queries: Queries | None = None


@dataclass(frozen=True)
class Problem:
    """The learning problem, over all workers.

    Attributes
    ----------
    rows : RowsInfo
    categories : dict of int to list
        Category names by feature.
    known : KnownTargets
    form : TargetForm
    loss : DenseObjective
    """

    rows: RowsInfo
    categories: dict[int, list[Any]]
    known: KnownTargets
    form: TargetForm
    loss: DenseObjective

    @property
    def categorical(self) -> Array:
        """Whether a feature is categorical, uint8 (n_features,)."""
        mask = np.zeros(self.rows.n_features, np.uint8)
        mask[list(self.categories)] = 1
        return mask


@dataclass(frozen=True)
class Description:
    """Properties of the training set, over all workers.

    Attributes
    ----------
    rows, categories, known, form
        See :class:`Problem`.
    lowest : float
        Minimum of the targets.
    n_workers : int
    empty : EmptyRows or None
        Predictions for rows without features, if outputs are labels.
    """

    rows: RowsInfo
    categories: Categories
    known: KnownTargets
    form: TargetForm
    lowest: float
    n_workers: int
    empty: EmptyRows | None


@dataclass(frozen=True)
class Plan:
    """What workers need before they bin their rows."""

    seed: int
    params: Settings
    bagging: Bagging
    search: SearchPlan
    loss_of: Callable[[Queries | None], DenseObjective]
    problem: Problem

    @property
    def standardises(self) -> bool:
        """Whether outputs count by the inverse variance of their targets."""
        loss = self.problem.loss
        return self.params.standardise and loss.grows_with_targets and self.problem.form.n_outputs > 1

    def settled(self, *, separate_trees: bool) -> Plan:
        """The plan after sharing was compared; ``separate_trees``: every output has trees of its own."""
        if not separate_trees:
            return replace(self, bagging=replace(self.bagging, compares_sharing=False))
        return self._with(sharing.with_separate_trees(self.params), sharing.separate_bagging(self.bagging))

    def unmeasured(self) -> Plan:
        """The plan if there are too few held-out rows to determine the number of rounds."""
        return replace(self, bagging=self.bagging.unmeasured)

    def compared(self) -> Plan:
        """The plan of a short model on the rows outside of one fold."""
        return self._with(sharing.compared_settings(self.params), sharing.compared_bagging(self.bagging))

    def _with(self, params: Settings, bagging: Bagging) -> Plan:
        search = SearchPlan(params, self.problem.loss, self.problem.form, self.search.directions)
        return replace(self, params=params, bagging=bagging, search=search)


@dataclass(frozen=True)
class Prepared:
    """Result of preparation, for the process that called ``fit``."""

    thresholds: BinThresholds
    base_score: Array
    separate_trees: bool
    """Whether sharing was compared and every output has trees of its own."""
    measured: bool
    """Whether held-out rows determine the number of rounds, or the number is fixed."""


@dataclass(frozen=True)
class DenseProgram:
    """See :class:`~sparseleaf.training.program.WorkerProgram`."""

    params: Settings
    layout: str
    init_model: Model | None
    predicts_labels: bool

    def describe(self, comm: Communicator, part: DensePartition) -> Description:
        """See :class:`~sparseleaf.training.program.WorkerProgram`."""
        infos = comm.allgather(part.describe_targets())
        categories = (
            join_categories([info.categories for info in infos])
            if self.init_model is None
            else self.init_model.categories
        )
        run_together(comm, lambda: part.encode_features(categories))
        rows = describe_rows(comm, part)
        known = join_known([info.known for info in infos])
        form = TargetForm(
            known.n_outputs,
            any(info.form.has_unknown for info in infos),
            max(info.form.weight_columns for info in infos),
        )
        part.relabel(known, form.has_unknown)
        class_weight = getattr(self.params, "class_weight", None)
        if class_weight is not None:
            form = part.weigh_labels(comm, class_weight, rows.n_rows)
        part.first_query = sum(count_queries([info.query_ids for info in infos])[: comm.rank])
        empty = describe_prior(comm, part, rows, known.counts) if self.predicts_labels else None
        lowest = min(info.lowest for info in infos)
        return Description(rows, categories, known, form, lowest, comm.size, empty)

    def prepare(self, comm: Communicator, part: DensePartition, plan: Plan) -> tuple[Prepared, BoostedGrowth]:
        """See :class:`~sparseleaf.training.program.WorkerProgram`."""
        init_model, problem = self.init_model, plan.problem
        use_gpu(assigned_gpu(plan.params.device, comm))
        if init_model is None:
            start = common_base_score(comm, part, problem.loss, problem.rows.n_rows)
        else:
            assert init_model.base_score is not None
            start = init_model.base_score
        with phase("bin thresholds"):
            thresholds = find_common_thresholds(comm, part, [part.features], plan.params.max_bins, plan.seed)
            thresholds = with_categories(thresholds, problem.categories)
        measured = not plan.bagging.stops or can_measure(
            comm, part, plan.loss_of(part.queries), plan.bagging, plan.seed, problem.form.n_outputs
        )
        plan = plan if measured else plan.unmeasured()
        separate_trees = False
        if plan.bagging.compares_sharing:
            with phase("comparing shared and separate trees"):
                prefers = self._prefers_separate_trees(comm, part, plan, thresholds, start)
            separate_trees = comm.broadcast(prefers)  # workers may have different processors
            plan = plan.settled(separate_trees=separate_trees)
        layout = self.layout if comm.size > 1 else "rows"
        with phase("binning"):
            growth = self._growth(comm, part, plan, thresholds, start, layout)
        return Prepared(thresholds, start, separate_trees, measured), growth

    def _prefers_separate_trees(
        self, comm: Communicator, part: DensePartition, plan: Plan, thresholds: BinThresholds, start: Array
    ) -> bool:
        """Whether held-out rows have a lower loss if every output has trees of its own."""

        def losses(compared: Plan) -> Array:
            growth = self._growth(comm, part, compared, thresholds, start, "rows")
            assert isinstance(growth, BaggedGrowth)
            return sharing.held_out_losses(growth)

        shared = plan.compared()
        separate = shared.settled(separate_trees=True)
        return sharing.prefers_separate_trees(losses(shared), losses(separate))

    def _growth(
        self,
        comm: Communicator,
        part: DensePartition,
        plan: Plan,
        thresholds: BinThresholds,
        start: Array,
        layout: str,
    ) -> BoostedGrowth:
        """The growth of this plan, on the binned rows."""
        params, bagging, problem = plan.params, plan.bagging, plan.problem
        by_query = getattr(params, "subsample_by", "row") == "query"
        shard = run_together(
            comm,
            lambda: part.make_shard(
                thresholds,
                plan.loss_of,
                plan.search.matrix,
                start,
                self.init_model,
                by_query,
                shard_class(plan),
            ),
        )
        has_missing = (comm.allreduce(shard.missing_features()) > 0).astype(np.uint8)
        weights = common_output_weights(comm, part, start, problem.rows.n_rows) if plan.standardises else None
        boosting_round = dense_round(plan, thresholds, has_missing, weights)
        if not bagging.n_folds:
            per_model = problem.form.n_outputs if params.tree_per_output else 1
            first = 0 if self.init_model is None else n_rounds(self.init_model) * per_model
            return BoostedGrowth(comm, shard, boosting_round, layout, first)
        fold = fold_of(part.fold_keys(), bagging.n_folds, plan.seed)
        run_together(comm, lambda: shard.bag(fold, bagging.n_models))
        forest = None
        if bagging.n_forest_trees:
            labels = self.predicts_labels
            forest = FoldForest.of(comm, part, shard, fold, plan, thresholds, start, weights, labels=labels)
        per_model = problem.form.n_outputs if params.tree_per_output else 1
        return BaggedGrowth(comm, shard, boosting_round, layout, bagging, per_model, weights, forest)


def shard_class(plan: Plan) -> type[DenseShard]:
    """Where the rows are: on a GPU if it computes the gradients and the split search uses them as they are.

    The few rows of models beside which a forest is grown stay in main memory, where the forest is.
    """
    bagged = plan.bagging.n_forest_trees > 0
    if plan.params.device == "cpu" or not plan.search.loss.on_device or plan.search.sketch or bagged:
        return DenseShard
    from sparseleaf.cuda.dense_shard import DeviceDenseShard

    return DeviceDenseShard


def dense_round(
    plan: Plan, thresholds: BinThresholds, has_missing: Array, output_weights: Array | None = None
) -> BoostingRound:
    """The boosting round for dense gradients; ``output_weights`` are those of the outputs in the gain of a split."""
    params, search, problem = plan.params, plan.search, plan.problem
    if search.matrix and params.device != "cpu":
        raise ValueError(f"A matrix of hessians requires device='cpu'. Got {params.device!r} instead.")
    growth = Growth(
        params.growth, params.max_leaves, params.max_depth, params.min_samples_leaf, params.min_gain
    )
    n_outputs, n_rows = problem.form.n_outputs, problem.rows.n_rows
    rule = NewtonLeaves(
        params.leaf_labels,
        search.shared,
        params.leaf_min_gain,
        params.l2,
        params.learning_rate,
        search.loss.quantile,
    )
    statistics = DenseGradients(
        n_outputs,
        search.hessian,
        rule,
        make_sketch(params.sketch, search.sketch, n_outputs) if search.sketch else None,
        tree_per_output=params.tree_per_output,
        n_rows=n_rows,
        seed=plan.seed,
        n_models=plan.bagging.n_models,
        output_weights=output_weights,
    )
    trees = HistogramTrees(
        growth,
        np.diff(thresholds.offsets) + 1 + has_missing,
        has_missing,
        problem.categorical,
        n_rows,
        params.l2,
        params.histogram_mb << 20,
        most_leaves(params, n_rows),
        params.min_hessian_leaf,
        search.directions,
        search.top,
        search.shared,
        params.device,
    )
    return BoostingRound(
        trees=trees,
        thresholds=thresholds,
        statistics=statistics,
        n_features=thresholds.n_features,
        subsample=params.subsample,
        colsample_bytree=params.colsample_bytree,
        colsample_bynode=params.colsample_bynode,
        seed=plan.seed,
    )


class DenseEnsemble(BoostedEnsemble):
    """See :class:`~sparseleaf.training.trainer.Ensemble`.

    Parameters
    ----------
    estimator : DenseGBDT
    eval_set : validation sets
    layout : {"rows", "features"}
    init_model : Model or None
        The model to continue training from.
    counts_init_trees : bool
        Whether its trees count towards ``n_trees``.
    """

    memory_advice = "Use fewer rows or outputs, or a smaller max_bins."

    def __init__(
        self,
        estimator: DenseGBDT,
        eval_set: EvalSet,
        layout: str,
        init_model: Model | None,
        *,
        counts_init_trees: bool,
    ) -> None:
        params = estimator._settings()
        super().__init__(params, eval_set, estimator.eval_set_form)
        self._estimator = estimator
        self._init_model = init_model
        self._counts_init_trees = counts_init_trees
        self._n_jobs = effective_n_jobs(params.n_jobs)
        self.program = DenseProgram(params, layout, init_model, estimator.predicts_labels)
        self._bagging = Bagging()
        self.per_round, self.n_rounds, self.n_init_rounds = 1, 0, 0
        self._validation: list[ValidationSet] = []

    def validate(self, description: Description, workers: Workers) -> memory.Estimate:
        """See :class:`~sparseleaf.training.trainer.Ensemble`."""
        estimator, rows = self._estimator, description.rows
        require_layout(self._params.device, self.program.layout, description.n_workers)
        form, known = description.form, description.known
        self._description = description
        estimator._know_features(rows)
        loss = estimator._dense_loss(known.kind)
        params = self._resolve_auto(rows.n_rows, form.n_outputs, loss)
        loss.target_range.check(loss.name, description.lowest)
        problem = Problem(rows, description.categories, known, form, loss)
        self._name_validation_sets(workers)

        def check() -> None:  # one process has the validation sets; an error is raised on all
            self._validation = estimator._validation_sets(self._eval_set, problem)

        workers.once(check)
        if self._init_model is not None:
            _require_same(self._init_model, rows.n_features, known)
        directions = estimator._directions(form.n_outputs, description.categories)
        self._problem, self._search = problem, SearchPlan(params, loss, form, directions)
        self._count_rounds()
        n_here = -(-rows.n_rows // description.n_workers)
        return estimator._estimate(
            rows.n_rows, n_here, rows.n_features, form, self._search, params, self._bagging
        )

    def _resolve_auto(self, n_rows: int, n_outputs: int, loss: DenseObjective) -> Settings:
        continues = self._init_model is not None or self._estimator.warm_start
        if continues and self._params.n_models not in (1, AUTO):
            raise ValueError(
                "Continued training (init_model, warm_start) requires n_models=1 or 'auto'."
                f" Got n_models={self._params.n_models} instead."
            )
        params = self._params
        if self._init_model is not None and params.tree_per_output == AUTO:
            separate_trees = self._init_model.parameters.get("tree_per_output") is True
            params = Settings(**vars(params) | {"tree_per_output": separate_trees})
        self._params, self._bagging = resolve(
            params,
            self._estimator.auto_values,
            n_rows,
            n_outputs,
            continues=continues,
            constant_hessian=loss.constant_hessian,
            measurable=loss.measurable,
            mixes=loss.mixing is not None,
            haste=loss.haste,
        )
        self.n_rounds = self._params.n_trees
        return self._params

    def _count_rounds(self) -> None:
        per_model = self._description.form.n_outputs if self._params.tree_per_output else 1
        self.per_round = per_model * self._bagging.n_models
        if self._init_model is None:
            return
        self.n_init_rounds = n_rounds(self._init_model)
        if self._counts_init_trees:
            self.n_rounds = self._params.n_trees - self.n_init_rounds
            if self.n_rounds < 0:
                raise ValueError(
                    f"The 'n_trees' parameter must be at least the {self.n_init_rounds} rounds of the fitted model with"
                    f" warm_start=True. Got {self._params.n_trees} instead."
                )

    @property
    def completes(self) -> bool:
        """See :class:`~sparseleaf.training.trainer.Ensemble`."""
        return self._bagging.n_forest_trees > 0

    def summary(self) -> str:
        """See :class:`~sparseleaf.training.trainer.Ensemble`."""
        rows, n_outputs = self._problem.rows, self._problem.form.n_outputs
        return (
            f"{rows.n_rows:,} rows, {rows.n_features:,} features, {n_outputs:,} outputs;"
            f" loss {self._problem.loss.name}, split {self._search.split}"
        )

    def fingerprints(self) -> dict[str, str]:
        """See :class:`~sparseleaf.training.trainer.Ensemble`."""
        prints = describe_problem(self._problem, self._validation, self._init_model)
        # n_trees and early_stopping_rounds may change, but not what they make of "auto"
        settings, resolved = self._estimator._settings(), self._params
        automatic = {
            name: getattr(resolved, name)
            for name, value in self._estimator.auto_values.items()
            if getattr(settings, name, None) == AUTO and getattr(resolved, name) != value.fixed
        }
        if self._bagging != Bagging() or automatic:
            decided = vars(self._bagging) | automatic
            prints["automatic parameters"] = ", ".join(f"{name}={value}" for name, value in decided.items())
        return prints

    def plan(self, checkpoint: Checkpoint) -> Plan:
        """See :class:`~sparseleaf.training.trainer.Ensemble`."""
        loss_of = self._estimator._loss_of_rows(self._problem.loss)
        self._plan = Plan(checkpoint.seed, self._params, self._bagging, self._search, loss_of, self._problem)
        return self._plan

    def adopt(self, prepared: Prepared, checkpoint: Checkpoint) -> Plan:
        """See :class:`~sparseleaf.training.trainer.Ensemble`."""
        self._prepared = prepared
        if not prepared.measured:
            self._plan, self.n_rounds = self._plan.unmeasured(), N_TREES
        self._plan = self._plan.settled(separate_trees=prepared.separate_trees)
        self._params, self._bagging, self._search = self._plan.params, self._plan.bagging, self._plan.search
        self._count_rounds()
        for one in self._validation:
            X = one.features
            bins = bin_features([X], prepared.thresholds, np.uint8, self._n_jobs)
            if self._init_model is not None:
                scores = self._init_model.dense(X, None, self._n_jobs)
            else:
                scores = np.repeat(prepared.base_score[None, :], X.shape[0], axis=0)
            self._shards.append(
                DenseShard(
                    bins,
                    prepared.thresholds.missing_bins,
                    one.targets,
                    scores,
                    self._problem.loss,
                    self._n_jobs,
                )
            )
        return self._plan

    def early_stopping(self, workers: Workers) -> EarlyStopping | None:
        """See :class:`~sparseleaf.training.trainer.Ensemble`."""
        rounds, loss = self._params.early_stopping_rounds, self._problem.loss
        if self._bagging.stops:
            haste = loss.haste if self._bagging.hurries else None
            return EarlyStopping(
                held_out_name(loss),
                loss.held_out_patience if haste is None else haste.patience,
                higher_is_better=loss.held_out_higher_is_better,
                min_improvement=loss.held_out_min_improvement,
            )
        if rounds is None:
            return None
        name, higher = workers.once(
            lambda: (self._validation[-1].metric.name, self._validation[-1].metric.higher_is_better)
        )
        return EarlyStopping(f"{self._names[-1]} {name}", rounds, higher_is_better=higher)

    def unpack(self, tensors: dict[str, Array]) -> list[BoostedTree]:
        """See :class:`~sparseleaf.training.trainer.Ensemble`."""
        return unpack_trees(tensors, self._prepared.thresholds.n_features, self._problem.form.n_outputs)

    def update_validation(self, tree: BoostedTree) -> None:
        """See :class:`~sparseleaf.training.trainer.Ensemble`."""
        if self._shards:
            super().update_validation(self._averaged(tree))

    def _averaged(self, tree: BoostedTree) -> BoostedTree:
        """The tree with its share of the average of the bagged models; exact for powers of two."""
        flat, vectors = tree
        return flat, vectors.times(1 / self._bagging.n_models)

    def _evaluate(self) -> dict[str, float]:
        return {
            f"{name} {one.metric.name}": one.metric.measure(shard.targets, shard.scores)
            for name, one, shard in zip(self._names, self._validation, self._shards, strict=True)
        }

    def finish(
        self,
        trees: Sequence[BoostedTree],
        completion: MixedForest | None,
        history: dict[str, list[float]],
        seed: int,
        workers: Workers,
    ) -> bool:
        """See :class:`~sparseleaf.training.trainer.Ensemble`."""
        estimator, init_model, problem = self._estimator, self._init_model, self._problem
        rows, known, n_outputs = problem.rows, problem.known, problem.form.n_outputs
        averaged, mix = [self._averaged(tree) for tree in trees], NO_FOREST
        if completion is not None:
            averaged, mix = completion.mixed_with(averaged, self._bagging.n_models), completion.mix
        elif init_model is not None:
            mix = continued_mix(init_model)
        grown = concatenate_trees(
            averaged,
            np.arange(n_outputs),
            rows.n_features,
            n_outputs,
            categorical=problem.categorical,
            all_labels=self._search.all_outputs,
            gain=None if init_model is None else init_model.trees.feature_gain,
        )
        if init_model is not None:
            grown = join_trees(init_model.trees, grown)
            history = {
                name: [*init_model.history.get(name, [])[: self.n_init_rounds], *values]
                for name, values in history.items()
            } or init_model.history
        scorer = AxisScorer(grown, n_outputs, self._prepared.base_score, mix)
        model = Model(
            stages=in_order([estimator._vectorizer_stage(), scorer, self._description.empty]),
            method=estimator.method,
            n_features=rows.n_features,
            n_labels=n_outputs,
            label_names=known.names,
            target_kind=known.kind,
            label_counts=known.counts,
            n_train_rows=rows.n_rows,
            parameters=estimator._saved_parameters(seed)
            | {"learning_rate": self._params.learning_rate}
            | ({"tree_per_output": True} if self._params.tree_per_output else {})
            | self._bagging.saved,
            history=history,
            feature_names=estimator._feature_names(),
            categories=problem.categories,
            link=estimator._link(problem.loss, known.kind).name,
        )
        if completion is not None and self._names:
            model = replace(model, history=history | self._final_metrics(model, workers))
        estimator._adopt(model)
        calibrator = workers.once(lambda: estimator._eval_calibrator(self._eval_set))
        if calibrator is not None:
            estimator._adopt(estimator.model_.with_stage(Role.CALIBRATOR, calibrator))
        return False

    def _final_metrics(self, model: Model, workers: Workers) -> dict[str, list[float]]:
        """History of the validation sets, with the metrics of the whole model in the best round."""

        def measure() -> dict[str, list[float]]:
            curves = {}
            for name, one in zip(self._names, self._validation, strict=True):
                key, scores = f"{name} {one.metric.name}", model.dense(one.features, None, self._n_jobs)
                curves[key] = list(model.history[key])
                curves[key][n_rounds(model) - 1] = one.metric.measure(one.targets, scores)
            return curves

        return workers.once(measure)


def with_categories(thresholds: BinThresholds, categories: dict[int, list[Any]]) -> BinThresholds:
    """Replace the thresholds of categorical features: one bin per category."""
    if not categories:
        return thresholds
    parts = [
        np.arange(0.5, max(len(categories[f]) - 1, 0), dtype=np.float32)
        if f in categories
        else thresholds.values[thresholds.offsets[f] : thresholds.offsets[f + 1]]
        for f in range(thresholds.n_features)
    ]
    return BinThresholds(
        np.cumsum([0, *map(len, parts)]).astype(np.int64), np.concatenate(parts).astype(np.float32)
    )


def _require_same(init_model: Model, n_features: int, known: KnownTargets) -> None:
    """Raise ValueError if ``init_model`` has other features or outputs."""
    if init_model.n_features != n_features or init_model.n_labels != known.n_outputs:
        raise ValueError(
            f"X and y must have {init_model.n_features} features and {init_model.n_labels} outputs, as the model to"
            f" continue training from. Got {n_features} features and {known.n_outputs} outputs instead."
        )
    names = [None if one is None else one.tolist() for one in (init_model.label_names, known.names)]
    if init_model.target_kind != known.kind or names[0] != names[1]:
        raise ValueError(
            "y must have the classes and the kind of targets of the model to continue training from."
        )
