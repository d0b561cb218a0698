"""Boosted trees on sparse residuals (GBDT-SPARSE): the worker program and the ensemble."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sparseleaf import memory
from sparseleaf._arrays import by_count, column_counts, effective_n_jobs
from sparseleaf._settings import most_leaves
from sparseleaf.binning import EXACT_BINS, BinThresholds, bin_features
from sparseleaf.callbacks import EarlyStopping
from sparseleaf.cuda.device import assigned_gpu, require_layout, use_gpu
from sparseleaf.data.rows import RowsInfo, refuse_nan
from sparseleaf.data.targets import Targets, join_forms
from sparseleaf.data.weights import NO_WEIGHTS
from sparseleaf.metrics import ndcg_at_k, precision_at_k
from sparseleaf.model import AxisScorer, Model, Role, in_order, with_short_values
from sparseleaf.objectives import sparse_objective
from sparseleaf.progress import phase
from sparseleaf.projection import choose_keep_raw, choose_projection
from sparseleaf.rerank.fit import Reranking, rows_to_hold_out
from sparseleaf.rerank.side import SideEvidence
from sparseleaf.rerank.stage import with_known_features
from sparseleaf.training.boosted import BoostedEnsemble, BoostedGrowth
from sparseleaf.training.boosting_round import BoostingRound
from sparseleaf.training.builder import ExactTrees, Growth, HistogramTrees, Trees
from sparseleaf.training.calibrating import calibrate, check_calibrate, warn_if_uncalibrated
from sparseleaf.training.freeze import concatenate_trees
from sparseleaf.training.leaves import LeafRule
from sparseleaf.training.packing import unpack_trees
from sparseleaf.training.partition import (
    agree_on_weights,
    common_counts,
    describe_empty_rows,
    describe_rows,
    find_common_thresholds,
    fit_common_projection,
    gather_rows,
)
from sparseleaf.training.resuming import describe_names_of, describe_validation_sets, kept_projection
from sparseleaf.training.sketches import make_sketch
from sparseleaf.training.sparse_shard import SparseShard
from sparseleaf.training.statistics import SparseResiduals

if TYPE_CHECKING:
    import scipy.sparse as sp

    from sparseleaf._arrays import Array, Features
    from sparseleaf._settings import Settings
    from sparseleaf.checkpoint import Checkpoint
    from sparseleaf.data.label_info import LabelInfo
    from sparseleaf.data.weights import TrainingWeights
    from sparseleaf.distributed.communicator import Communicator
    from sparseleaf.distributed.launch import Workers
    from sparseleaf.estimators.sparse import SparseGBDTClassifier
    from sparseleaf.model.empty import EmptyRows
    from sparseleaf.projection import Projection
    from sparseleaf.training.boosted import BoostedTree
    from sparseleaf.training.partition import SparsePartition
    from sparseleaf.training.validation import EvalSet


@dataclass(frozen=True)
class Description:
    """Properties of the training set, over all workers.

    Attributes
    ----------
    rows : RowsInfo
    targets : Targets
        Kind and names of the labels; no rows.
    n_entries, n_workers : int
        Number of (row, label) pairs, and of workers.
    label_counts : int64 array
    empty : EmptyRows or None
    weight_scale : float or None
        See :func:`~sparseleaf.training.partition.agree_on_weights`; None if all weights are 1.
    """

    rows: RowsInfo
    targets: Targets
    n_entries: int
    n_workers: int
    label_counts: Array
    empty: EmptyRows | None
    weight_scale: float | None


@dataclass(frozen=True)
class Plan:
    """What workers need before they bin their rows.

    Attributes
    ----------
    seed : int
    projection_kind : str or None
    keep_raw : bool
    projection : Projection or None
        A fitted projection, from a checkpoint.
    held_out : int array
        Global indices of the rows held out from the trees.
    gather : bool
        Whether to gather all rows on the process that called ``fit``, for re-ranking.
    verbose : int
    """

    seed: int
    projection_kind: str | None
    keep_raw: bool
    projection: Projection | None
    held_out: Array
    gather: bool
    verbose: int


@dataclass(frozen=True)
class Prepared:
    """Result of preparation, for the process that called ``fit``.

    Attributes
    ----------
    projection : Projection or None
    thresholds : BinThresholds
    label_ids : int32 array
        Labels by rank: most frequent first, labels without rows omitted.
    rows : (X, Y, weights) or None
        All rows, on the first worker, if the plan asks for them; otherwise the held-out rows, if there are some.
    """

    projection: Projection | None
    thresholds: BinThresholds
    label_ids: Array
    rows: tuple[Features, sp.csr_matrix, TrainingWeights] | None


@dataclass(frozen=True)
class SparseProgram:
    """See :class:`~sparseleaf.training.program.WorkerProgram`."""

    params: Settings
    layout: str
    init_model: Model | None = None

    def describe(self, comm: Communicator, part: SparsePartition) -> Description:
        """See :class:`~sparseleaf.training.program.WorkerProgram`."""
        rows = describe_rows(comm, part)
        gathered = comm.allgather((part.targets.form(), part.targets.matrix.nnz))
        targets = join_forms([form for form, _ in gathered])
        part.relabel(targets)
        label_counts = comm.allreduce(part.label_counts())
        agree_on_weights(comm, part, self.params.class_weight, rows.n_rows)
        empty = describe_empty_rows(comm, part, rows)
        n_entries = sum(n for _, n in gathered)
        unweighted = part.weights.rows is None and part.weights.labels is None
        scale = None if unweighted else part.weight_scale
        return Description(rows, targets, n_entries, comm.size, label_counts, empty, scale)

    def prepare(
        self, comm: Communicator, part: SparsePartition, plan: Plan
    ) -> tuple[Prepared, BoostedGrowth]:
        """See :class:`~sparseleaf.training.program.WorkerProgram`."""
        params, exact = self.params, self.params.split == "exact"
        use_gpu(assigned_gpu(params.device, comm))
        rows = gather_rows(comm, part) if plan.gather else None
        n_rows = part.number_rows(comm)
        if len(plan.held_out):
            numbers = np.arange(part.first_row, part.first_row + part.n_rows)
            held_out = np.isin(numbers, plan.held_out)
            rows = rows or gather_rows(comm, part, np.flatnonzero(held_out))
            part.keep(np.flatnonzero(~held_out))
            part.number_rows(comm)
        projection = plan.projection
        columns = [part.features]
        if plan.projection_kind is not None:
            with phase(f"projection {plan.projection_kind}"):
                projection = projection or fit_common_projection(
                    comm,
                    part,
                    plan.projection_kind,
                    params.projection_dim,
                    keep_raw=plan.keep_raw,
                    seed=plan.seed,
                    verbose=plan.verbose,
                )
                columns = projection.parts(part.features, part.n_jobs)
        with phase("binning"):
            thresholds = find_common_thresholds(
                comm, part, columns, EXACT_BINS if exact else params.max_bins, plan.seed
            )
            shard = make_sparse_shard(
                params,
                columns,
                thresholds,
                part.targets.matrix,
                part.n_jobs,
                first_row=part.first_row,
                weights=part.weights,
            )
            # most frequent first, for locality; labels without rows take no memory
            counts, _ = common_counts(comm, part.weights, part.targets.matrix, part.n_jobs)
            order = by_count(counts)
            scores, present, first = None, counts > 0, 0
            if self.init_model is not None:
                scores = self.init_model.tree_scores(part.features, None, part.n_jobs)
                scored = comm.allreduce(column_counts(scores, part.n_jobs)) > 0
                present[: len(scored)] |= scored  # new labels are the last ones
                first = self.init_model.n_trees
            label_ids = order[present[order]].astype(np.int32)
            rank_of = np.full(len(order), -1, np.int32)
            rank_of[label_ids] = np.arange(len(label_ids))
            shard.start(rank_of, len(label_ids), scores)
            has_missing = (comm.allreduce(shard.missing_features()) > 0).astype(np.uint8)
        boosting_round = sparse_round(
            params, thresholds, len(label_ids), n_rows, has_missing, plan.seed, part.weight_scale
        )
        growth = BoostedGrowth(comm, shard, boosting_round, self.layout, first)
        return Prepared(projection, thresholds, label_ids, rows), growth


def make_sparse_shard(
    params: Settings,
    columns: list[Features],
    thresholds: BinThresholds,
    labels: sp.csr_matrix,
    n_jobs: int,
    *,
    first_row: int = 0,
    weights: TrainingWeights = NO_WEIGHTS,
) -> SparseShard:
    """Bin the rows of a worker."""
    bins = bin_features(columns, thresholds, np.uint32 if params.split == "exact" else np.uint8, n_jobs)
    loss = sparse_objective(params.loss).code
    return SparseShard(
        bins, thresholds.missing_bins, labels, loss, n_jobs, first_row=first_row, weights=weights
    )


def sparse_round(
    params: Settings,
    thresholds: BinThresholds,
    n_labels: int,
    n_rows: int,
    has_missing: Array,
    seed: int,
    weight_scale: float = 1.0,
) -> BoostingRound:
    """The boosting round for sparse residuals; scaled weights scale gains and the regularisation with them."""
    growth = Growth(
        params.growth,
        params.max_leaves,
        params.max_depth,
        params.min_samples_leaf,
        weight_scale * params.min_gain,
    )
    l2 = weight_scale * params.l2
    trees: Trees
    if params.split == "exact":
        if params.device != "cpu":
            raise ValueError(f"split='exact' requires device='cpu'. Got {params.device!r} instead.")
        sketch = None
        trees = ExactTrees(growth, params.leaf_labels, params.exact_step, l2, n_rows)
    else:
        name = "none" if params.split == "full" else params.sketch
        sketch = make_sketch(name, params.sketch_dim, max(1, n_labels))
        trees = HistogramTrees(
            growth,
            np.diff(thresholds.offsets) + 1 + has_missing,
            has_missing,
            np.zeros(thresholds.n_features, np.uint8),
            n_rows,
            l2,
            params.histogram_mb << 20,
            most_leaves(params, n_rows),
            device=params.device,
        )
    return BoostingRound(
        trees=trees,
        thresholds=thresholds,
        statistics=SparseResiduals(
            sketch,
            LeafRule(params.leaf_labels, weight_scale * params.leaf_min_gain, l2, params.learning_rate),
            l2,
            n_rows=n_rows,
            seed=seed,
        ),
        n_features=thresholds.n_features,
        subsample=params.subsample,
        colsample_bytree=params.colsample_bytree,
        colsample_bynode=params.colsample_bynode,
        seed=seed,
    )


class SparseEnsemble(BoostedEnsemble):
    """See :class:`~sparseleaf.training.trainer.Ensemble`."""

    memory_advice = "Use fewer rows, a smaller sketch_dim, projection_dim or max_bins, or a projection."
    per_round = 1
    n_init_rounds = 0

    def __init__(
        self,
        estimator: SparseGBDTClassifier,
        eval_set: EvalSet,
        layout: str,
        init_model: Model | None = None,
        label_info: LabelInfo | None = None,
    ) -> None:
        params = estimator._settings()
        super().__init__(params, eval_set)
        self._label_info = label_info
        self._init_model = init_model
        self._estimator = estimator
        self._layout = layout
        self._n_jobs = effective_n_jobs(params.n_jobs)
        self.n_rounds = params.n_trees
        self.program = SparseProgram(params, layout, init_model)
        self._validation: list[tuple[Features, sp.csr_matrix]] = []

    def validate(self, description: Description, workers: Workers) -> memory.Estimate:
        """See :class:`~sparseleaf.training.trainer.Ensemble`."""
        params, rows, targets = self._params, description.rows, description.targets
        require_layout(params.device, self._layout, description.n_workers)
        check_calibrate(params.calibrate, targets.kind)
        self._estimator._know_features(rows)
        if params.split == "exact" and self._layout == "rows" and description.n_workers > 1:
            raise ValueError(
                "split='exact' with several workers requires layout='features'. Got 'rows' instead."
            )
        self._description = description
        self._name_validation_sets(workers)
        self._kind = choose_projection(params.projection, rows, params.projection_dim)
        self._keep_raw = choose_keep_raw(params.keep_raw, self._kind, rows)
        if self._init_model is not None:  # new trees split on the columns of the old ones
            projection = self._init_model.projection
            self._kind = None if projection is None else "leml"
            self._keep_raw = projection is not None and projection.keep_raw
        without_nan = self._kind is not None or params.rerank is not None
        if without_nan:
            refuse_nan(rows)

        def check() -> None:  # one process has the validation sets; an error is raised on all
            self._validation = self._estimator._eval_rows(self._eval_set, targets, without_nan=without_nan)

        workers.once(check)
        share = description.n_workers
        return self._estimator._estimate(
            rows.n_rows // share,
            rows.n_features,
            targets.n_labels,
            description.n_entries // share,
            self._kind,
            self._keep_raw,
            weighted=description.weight_scale is not None,
        )

    def summary(self) -> str:
        """See :class:`~sparseleaf.training.trainer.Ensemble`."""
        rows, n_labels = self._description.rows, self._description.targets.n_labels
        seen = (
            "raw features" + " (values are missing)" * rows.nan
            if self._kind is None
            else self._kind + " beside raw features" * self._keep_raw
        )
        return f"{rows.n_rows:,} rows, {rows.n_features:,} features, {n_labels:,} labels; trees on {seen}"

    def fingerprints(self) -> dict[str, str]:
        """See :class:`~sparseleaf.training.trainer.Ensemble`."""
        return describe_names_of(self._description.targets.names) | describe_validation_sets(self._validation)

    def plan(self, checkpoint: Checkpoint) -> Plan:
        """See :class:`~sparseleaf.training.trainer.Ensemble`."""
        rows = self._description.rows
        held_out = rows_to_hold_out(
            self._params,
            rows.n_rows,
            checkpoint.seed,
            has_validation=bool(self._names),
            side=self._label_info is not None,
        )
        projection = None
        if self._kind is not None:
            projection = kept_projection(checkpoint, rows.n_features, self._keep_raw)
            if self._init_model is not None:
                projection = self._init_model.projection
        self._plan = Plan(
            checkpoint.seed,
            self._kind,
            self._keep_raw,
            projection,
            held_out,
            self._params.rerank is not None,
            self._params.verbose,
        )
        return self._plan

    def adopt(self, prepared: Prepared, checkpoint: Checkpoint) -> Plan:
        """See :class:`~sparseleaf.training.trainer.Ensemble`."""
        self._prepared = prepared
        projection = prepared.projection
        if projection is not None and self._plan.projection is None:
            checkpoint.keep("projection", {"components": projection.components}, {})
        for X, Y in self._validation:
            columns = [X] if projection is None else projection.parts(X, self._n_jobs)
            shard = make_sparse_shard(self._params, columns, prepared.thresholds, Y, self._n_jobs)
            # no labels: only scores are needed, the truth is in Y
            shard.start(np.full(Y.shape[1], -1, np.int64), len(prepared.label_ids))
            self._shards.append(shard)
        return replace(self._plan, projection=projection, gather=False)

    def early_stopping(self, workers: Workers) -> EarlyStopping | None:
        """See :class:`~sparseleaf.training.trainer.Ensemble`."""
        rounds = self._params.early_stopping_rounds
        return (
            None if rounds is None else EarlyStopping(f"{self._names[-1]} {self._params.eval_metric}", rounds)
        )

    def unpack(self, tensors: dict[str, Array]) -> list[BoostedTree]:
        """See :class:`~sparseleaf.training.trainer.Ensemble`."""
        return unpack_trees(tensors, self._prepared.thresholds.n_features, len(self._prepared.label_ids))

    def _evaluate(self) -> dict[str, float]:
        name = self._params.eval_metric
        kind, _, k = name.partition("@")
        metric = precision_at_k if kind == "precision" else ndcg_at_k
        return {
            f"{one} {name}": metric(Y, shard.topk(int(k), self._prepared.label_ids), int(k))
            for one, (_, Y), shard in zip(self._names, self._validation, self._shards, strict=True)
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
        description, estimator, prepared = self._description, self._estimator, self._prepared
        rows, targets = description.rows, description.targets
        grown = concatenate_trees(
            list(trees),
            prepared.label_ids,
            prepared.thresholds.n_features,
            targets.n_labels,
            n_jobs=self._n_jobs,
        )
        scorer = AxisScorer(with_short_values(grown), targets.n_labels)
        model = Model(
            stages=in_order([estimator._vectorizer_stage(), prepared.projection, scorer, description.empty]),
            method=estimator.method,
            n_features=rows.n_features,
            n_labels=targets.n_labels,
            label_names=targets.names,
            target_kind=targets.kind,
            label_counts=description.label_counts,
            n_train_rows=rows.n_rows,
            parameters=estimator._saved_parameters(seed),
            history=history,
            feature_names=estimator._feature_names(),
        )
        interrupted = False
        has_validation = bool(self._names) or bool(len(self._plan.held_out))
        if self._params.rerank is not None or (self._params.calibrate is not None and has_validation):
            more, threshold, precision, interrupted = workers.once(lambda: self._rerank(model))
            stages = in_order([*model.stages, *more])
            model = replace(model, stages=stages, threshold=threshold, validation=precision)
            model = with_known_features(model)
        else:
            warn_if_uncalibrated(self._params.calibrate)
        estimator._adopt(model)
        return interrupted

    def _rerank(self, model: Model) -> tuple[list[Any], float | None, dict[str, Any] | None, bool]:
        """Fit the re-ranker and the calibrator on the process that has the rows.

        Returns the stages, the threshold, the precision on validation rows, and whether Ctrl-C interrupted a step.
        """
        validation, rows = self._validation[-1] if self._validation else None, self._prepared.rows
        held_out = None
        if self._params.rerank is None:  # the rows, if any, are the held-out ones
            held_out = None if rows is None else rows[1]
            rows = rows if validation is None else (*validation, NO_WEIGHTS)
            validation = None if rows is None else rows[:2]
        assert rows is not None
        side = None
        if self._label_info is not None:
            text = self._estimator._vectorizer_stage()
            side = SideEvidence.fit(self._label_info, model.known_labels, text, rows[0], self._n_jobs)
        reranking = Reranking.plan(self._params, *rows, self._plan.seed, validation, side)
        if len(reranking.held_out):
            held_out = rows[1][reranking.held_out]
        stage = reranking.choose(model, lambda: model, self._n_jobs)
        tuned = model.with_stage(Role.RERANKER, stage)
        refitted = reranking.refit(stage, self._n_jobs)  # beside calibration, mostly on one thread
        threshold = reranking.threshold(tuned, self._n_jobs)
        decisions = calibrate(
            self._params,
            reranking,
            tuned,
            model.label_counts,
            held_out,
            self._estimator._prior_scale(tuned),
            self._n_jobs,
        )
        stages = [refitted(), *decisions]
        return stages, threshold, reranking.precision, reranking.interrupted
