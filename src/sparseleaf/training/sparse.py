"""Boosted trees on sparse residuals (GBDT-SPARSE): what every worker does, and what is done beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sparseleaf import memory
from sparseleaf._arrays import effective_n_jobs
from sparseleaf._settings import most_leaves
from sparseleaf.binning import EXACT_BINS, Cuts, bin_features
from sparseleaf.callbacks import EarlyStopping
from sparseleaf.data.rows import RowsInfo, refuse_nan
from sparseleaf.data.targets import Targets, join_forms
from sparseleaf.metrics import ndcg_at_k, precision_at_k
from sparseleaf.model import AxisScorer, Model, Role, in_order, with_short_values
from sparseleaf.objectives import sparse_objective
from sparseleaf.progress import phase
from sparseleaf.projection import choose_keep_raw, choose_projection
from sparseleaf.rerank.fit import Reranking, rows_to_hold_out
from sparseleaf.training.boosted import BoostedGrowth, ScoreBound
from sparseleaf.training.builder import ExactTrees, Growth, HistogramTrees, Trees
from sparseleaf.training.freeze import concatenate_trees
from sparseleaf.training.leaves import LeafRule
from sparseleaf.training.packing import pack_trees, unpack_trees
from sparseleaf.training.partition import (
    describe_empty_rows,
    describe_rows,
    find_all_cuts,
    fit_common_projection,
    gather_rows,
)
from sparseleaf.training.recipe import Recipe
from sparseleaf.training.resuming import describe_names_of, describe_watched, kept_projection
from sparseleaf.training.sketches import make_reducer
from sparseleaf.training.sparse_shard import SparseShard
from sparseleaf.training.statistics import SparseResiduals
from sparseleaf.training.validation import EvalSet, eval_names, eval_sets

if TYPE_CHECKING:
    import scipy.sparse as sp

    from sparseleaf._arrays import Array, Features
    from sparseleaf._settings import Settings
    from sparseleaf.checkpoint import Checkpoint
    from sparseleaf.distributed.communicator import Communicator
    from sparseleaf.distributed.launch import Workers
    from sparseleaf.estimators.sparse import SparseGBDTClassifier
    from sparseleaf.model.empty import EmptyRows
    from sparseleaf.projection import Projection
    from sparseleaf.training.boosted import BoostedTree
    from sparseleaf.training.partition import SparsePartition


@dataclass(frozen=True)
class Description:
    """What the rows of all workers are like.

    Attributes
    ----------
    rows : RowsInfo
    targets : Targets
        Kind and names of the labels, without rows.
    n_entries, n_workers : int
        Labels of all rows; workers that the rows are divided among.
    label_counts : int64 array
    empty : EmptyRows or None
    """

    rows: RowsInfo
    targets: Targets
    n_entries: int
    n_workers: int
    label_counts: Array
    empty: EmptyRows | None


@dataclass(frozen=True)
class Plan:
    """What workers have to know before they bin their rows.

    Attributes
    ----------
    seed : int
    projection_kind : str or None
    keep_raw : bool
    projection : Projection or None
        One that is there already.
    held : int array
        Numbers of the rows that trees must not see.
    gather : bool
        Whether all rows are wanted by the process that called ``fit``.
    verbose : int
    """

    seed: int
    projection_kind: str | None
    keep_raw: bool
    projection: Projection | None
    held: Array
    gather: bool
    verbose: int


@dataclass(frozen=True)
class Prepared:
    """What the process that called ``fit`` has to know of the binned rows.

    Attributes
    ----------
    projection : Projection or None
    cuts : Cuts
    label_ids : int32 array
        Labels by rank: most frequent first, without those that no row has.
    rows : (X, Y) or None
        All rows, from the first worker, where they were asked for.
    """

    projection: Projection | None
    cuts: Cuts
    label_ids: Array
    rows: tuple[Features, sp.csr_matrix] | None


@dataclass(frozen=True)
class SparseWork:
    """See :class:`~sparseleaf.training.program.WorkerProgram`."""

    params: Settings
    layout: str

    def describe(self, comm: Communicator, part: SparsePartition) -> Description:
        """See :class:`~sparseleaf.training.program.WorkerProgram`."""
        rows = describe_rows(comm, part)
        found = comm.allgather((part.targets.form(), part.targets.matrix.nnz))
        targets = join_forms([form for form, _ in found])
        part.relabel(targets)
        label_counts = comm.allreduce(part.label_counts())
        empty = describe_empty_rows(comm, part, rows, label_counts)
        return Description(rows, targets, sum(n for _, n in found), comm.size, label_counts, empty)

    def prepare(
        self, comm: Communicator, part: SparsePartition, plan: Plan
    ) -> tuple[Prepared, BoostedGrowth]:
        """See :class:`~sparseleaf.training.program.WorkerProgram`."""
        params, exact = self.params, self.params.split == "exact"
        rows = gather_rows(comm, part) if plan.gather else None
        n_rows = part.number_rows(comm)
        if len(plan.held):
            numbers = np.arange(part.first_row, part.first_row + part.n_rows)
            part.keep(np.flatnonzero(~np.isin(numbers, plan.held)))
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
            cuts = find_all_cuts(comm, part, columns, EXACT_BINS if exact else params.max_bins, plan.seed)
            shard = make_sparse_shard(params, columns, cuts, part.targets.matrix, part.n_jobs, part.first_row)
            # most frequent first: what is used most lies together in memory, and labels never seen take no room
            counts = comm.allreduce(part.label_counts())
            order = np.argsort(-counts, kind="stable")
            label_ids = order[: int(np.count_nonzero(counts))].astype(np.int32)
            rank_of = np.full(len(order), -1, np.int64)
            rank_of[label_ids] = np.arange(len(label_ids))
            shard.start(rank_of, len(label_ids))
            has_missing = (comm.allreduce(shard.missing_features()) > 0).astype(np.uint8)
        recipe = sparse_recipe(params, cuts, len(label_ids), n_rows, has_missing, plan.seed)
        growth = BoostedGrowth(comm, shard, recipe, self.layout, 0)
        return Prepared(projection, cuts, label_ids, rows), growth


def make_sparse_shard(
    params: Settings,
    columns: list[Features],
    cuts: Cuts,
    labels: sp.csr_matrix,
    n_jobs: int,
    first_row: int = 0,
) -> SparseShard:
    """Binned rows with their labels."""
    bins = bin_features(columns, cuts, np.uint32 if params.split == "exact" else np.uint8, n_jobs)
    loss = sparse_objective(params.loss).code
    return SparseShard(bins, cuts.missing_bins, labels, loss, n_jobs, first_row=first_row)


def sparse_recipe(
    params: Settings, cuts: Cuts, n_labels: int, n_rows: int, has_missing: Array, seed: int
) -> Recipe:
    """How trees are grown on sparse residuals."""
    growth = Growth(
        params.growth, params.max_leaves, params.max_depth, params.min_samples_leaf, params.min_gain
    )
    trees: Trees
    if params.split == "exact":
        reducer = None
        trees = ExactTrees(growth, params.leaf_labels, params.exact_step, params.l2, n_rows)
    else:
        name = "none" if params.split == "full" else params.sketch
        reducer = make_reducer(name, params.sketch_dim, max(1, n_labels))
        trees = HistogramTrees(
            growth,
            np.diff(cuts.offsets) + 1 + has_missing,
            has_missing,
            np.zeros(cuts.n_features, np.uint8),
            n_rows,
            params.l2,
            params.histogram_mb << 20,
            most_leaves(params, n_rows),
        )
    return Recipe(
        trees=trees,
        cuts=cuts,
        statistics=SparseResiduals(
            reducer,
            LeafRule(params.leaf_labels, params.leaf_min_gain, params.l2, params.learning_rate),
            params.l2,
            n_rows=n_rows,
            seed=seed,
        ),
        n_features=cuts.n_features,
        subsample=params.subsample,
        colsample_bytree=params.colsample_bytree,
        colsample_bynode=params.colsample_bynode,
        seed=seed,
    )


class SparseEnsemble:
    """See :class:`~sparseleaf.training.trainer.Ensemble`."""

    memory_advice = "Fewer rows, projection_dim or max_bins, or a projection, need less."
    per_round = 1
    n_before = 0

    def __init__(self, estimator: SparseGBDTClassifier, eval_set: EvalSet, layout: str) -> None:
        self._estimator = estimator
        self._params = params = estimator._settings()
        self._eval_set = eval_set
        self._layout = layout
        self._n_jobs = effective_n_jobs(params.n_jobs)
        self.n_rounds = params.n_trees
        self.work = SparseWork(params, layout)
        self._bound = ScoreBound()
        self._watched: list[tuple[Features, sp.csr_matrix]] = []
        self._shards: list[SparseShard] = []

    def accept(self, description: Description, workers: Workers) -> memory.Estimate:
        """See :class:`~sparseleaf.training.trainer.Ensemble`."""
        params, rows, targets = self._params, description.rows, description.targets
        self._estimator._know_features(rows)
        if params.split == "exact" and self._layout == "rows" and description.n_workers > 1:
            raise ValueError("split='exact' wants all rows of a feature in one place: layout='features'.")
        self._description = description
        self._names = workers.once(lambda: eval_names(len(eval_sets(self._eval_set))))
        if params.early_stopping_rounds is not None and not self._names:
            raise ValueError(
                f"early_stopping_rounds={params.early_stopping_rounds} requires a validation set, eval_set=(X, y)."
            )
        self._kind = choose_projection(params.projection, rows, params.projection_dim)
        self._keep_raw = choose_keep_raw(params.keep_raw, self._kind, rows)
        without_nan = self._kind is not None or params.rerank is not None
        if without_nan:
            refuse_nan(rows)

        def check() -> None:  # one process has the rows, and all learn what is wrong with them
            self._watched = self._estimator._eval_rows(self._eval_set, targets, without_nan=without_nan)

        workers.once(check)
        share = description.n_workers
        return self._estimator._estimate(
            rows.n_rows // share,
            rows.n_features,
            targets.n_labels,
            description.n_entries // share,
            self._kind,
            self._keep_raw,
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
        return describe_names_of(self._description.targets.names) | describe_watched(self._watched)

    def plan(self, checkpoint: Checkpoint) -> Plan:
        """See :class:`~sparseleaf.training.trainer.Ensemble`."""
        rows = self._description.rows
        held = rows_to_hold_out(self._params, rows.n_rows, checkpoint.seed, has_validation=bool(self._names))
        projection = None
        if self._kind is not None:
            projection = kept_projection(checkpoint, rows.n_features, self._keep_raw)
        self._plan = Plan(
            checkpoint.seed,
            self._kind,
            self._keep_raw,
            projection,
            held,
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
        for X, Y in self._watched:
            columns = [X] if projection is None else projection.parts(X, self._n_jobs)
            shard = make_sparse_shard(self._params, columns, prepared.cuts, Y, self._n_jobs)
            # scores only, truth is in Y
            shard.start(np.full(Y.shape[1], -1, np.int64), len(prepared.label_ids))
            self._shards.append(shard)
        return replace(self._plan, projection=projection, gather=False)

    def early_stopping(self, workers: Workers) -> EarlyStopping | None:
        """See :class:`~sparseleaf.training.trainer.Ensemble`."""
        rounds = self._params.early_stopping_rounds
        return (
            None if rounds is None else EarlyStopping(f"{self._names[-1]} {self._params.eval_metric}", rounds)
        )

    def pack(self, trees: Sequence[BoostedTree]) -> dict[str, Array]:
        """See :class:`~sparseleaf.training.trainer.Ensemble`."""
        return pack_trees(list(trees))

    def unpack(self, tensors: dict[str, Array]) -> list[BoostedTree]:
        """See :class:`~sparseleaf.training.trainer.Ensemble`."""
        return unpack_trees(tensors, self._prepared.cuts.n_features, len(self._prepared.label_ids))

    def check_tree(self, tree: BoostedTree) -> None:
        """See :class:`~sparseleaf.training.trainer.Ensemble`."""
        self._bound.add(tree[1])

    def follow(self, tree: BoostedTree) -> None:
        """See :class:`~sparseleaf.training.trainer.Ensemble`."""
        for shard in self._shards:
            shard.follow(*tree)

    def measure(self, workers: Workers) -> Mapping[str, float]:
        """See :class:`~sparseleaf.training.trainer.Ensemble`."""
        return workers.once(self._measure) if self._names else {}

    def _measure(self) -> dict[str, float]:
        name = self._params.eval_metric
        kind, _, k = name.partition("@")
        metric = precision_at_k if kind == "precision" else ndcg_at_k
        return {
            f"{one} {name}": metric(Y, shard.topk(int(k), self._prepared.label_ids), int(k))
            for one, (_, Y), shard in zip(self._names, self._watched, self._shards, strict=True)
        }

    def finish(
        self, trees: Sequence[BoostedTree], history: dict[str, list[float]], seed: int, workers: Workers
    ) -> bool:
        """See :class:`~sparseleaf.training.trainer.Ensemble`."""
        found, estimator, prepared = self._description, self._estimator, self._prepared
        rows, targets = found.rows, found.targets
        grown = concatenate_trees(
            list(trees),
            prepared.label_ids,
            prepared.cuts.n_features,
            targets.n_labels,
            n_jobs=self._n_jobs,
        )
        scorer = AxisScorer(with_short_values(grown), targets.n_labels)
        model = Model(
            stages=in_order([prepared.projection, scorer, found.empty]),
            method=estimator.method,
            n_features=rows.n_features,
            n_labels=targets.n_labels,
            label_names=targets.names,
            target_kind=targets.kind,
            label_counts=found.label_counts,
            n_train_rows=rows.n_rows,
            parameters=estimator._saved_parameters(seed),
            history=history,
            feature_names=estimator._feature_names(),
        )
        interrupted = False
        if self._params.rerank is not None:
            stage, threshold, interrupted = workers.once(lambda: self._rerank(model))
            model = replace(model.with_stage(Role.RERANKER, stage), threshold=threshold)
        estimator._adopt(model)
        return interrupted

    def _rerank(self, model: Model) -> tuple[Any, float | None, bool]:
        """The re-ranking stage, the threshold and whether Ctrl-C ended it, in the process that has all rows."""
        assert self._prepared.rows is not None
        validation = self._watched[-1] if self._watched else None
        reranking = Reranking.plan(self._params, *self._prepared.rows, self._plan.seed, validation)
        stage = reranking.choose(model, self._n_jobs)
        threshold = reranking.threshold(model.with_stage(Role.RERANKER, stage), self._n_jobs)
        return reranking.refit(stage, model, self._n_jobs), threshold, reranking.interrupted
