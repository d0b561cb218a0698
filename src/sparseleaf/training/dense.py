"""Boosted trees on dense gradients (GBDT-MO, ranking): what every worker does, and what is done beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sparseleaf import memory
from sparseleaf._arrays import effective_n_jobs
from sparseleaf._settings import Settings, most_leaves
from sparseleaf.binning import Cuts, bin_features
from sparseleaf.callbacks import EarlyStopping
from sparseleaf.data.categories import join_categories
from sparseleaf.distributed.failures import run_together
from sparseleaf.model import AxisScorer, Model, in_order, join_trees
from sparseleaf.objectives.targets import TargetForm
from sparseleaf.progress import phase
from sparseleaf.training.boosted import BoostedGrowth, ScoreBound
from sparseleaf.training.builder import Growth, HistogramTrees
from sparseleaf.training.columns import COUNT, DIAGONAL, MATRIX, SHARED
from sparseleaf.training.dense_partition import common_base_score, count_queries
from sparseleaf.training.dense_shard import DenseShard
from sparseleaf.training.dense_targets import KnownTargets, join_known
from sparseleaf.training.freeze import concatenate_trees
from sparseleaf.training.leaves import NewtonLeaves
from sparseleaf.training.packing import pack_trees, unpack_trees
from sparseleaf.training.partition import describe_prior, describe_rows, find_all_cuts
from sparseleaf.training.recipe import Recipe
from sparseleaf.training.resuming import describe_problem
from sparseleaf.training.sketches import make_reducer
from sparseleaf.training.statistics import DenseGradients
from sparseleaf.training.validation import EvalSet, eval_names, eval_sets

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
    """What is to be learned, from the rows of all workers.

    Attributes
    ----------
    rows : RowsInfo
    categories : dict of int to list
        By feature, the names of its categories.
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
        """Whether a feature has categories, uint8 (n_features,)."""
        found = np.zeros(self.rows.n_features, np.uint8)
        found[list(self.categories)] = 1
        return found


class SearchPlan:
    """How the gradients of one training become histograms.

    Attributes
    ----------
    split : str
        The search, "auto" resolved.
    curvature : int
        See :mod:`sparseleaf.training.columns`.
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
        loss: DenseObjective,
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


@dataclass(frozen=True)
class Description:
    """What the rows of all workers are like.

    Attributes
    ----------
    rows, categories, known, form
        See :class:`Problem`.
    lowest : float
        The smallest target.
    n_workers : int
    empty : EmptyRows or None
        What rows without features get, where outputs are labels.
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
    """What workers have to know before they bin their rows."""

    seed: int
    search: SearchPlan
    loss_of: Callable[[Queries | None], DenseObjective]
    problem: Problem


@dataclass(frozen=True)
class Prepared:
    """What the process that called ``fit`` has to know of the binned rows."""

    cuts: Cuts
    base_score: Array


@dataclass(frozen=True)
class DenseWork:
    """See :class:`~sparseleaf.training.program.WorkerProgram`."""

    params: Settings
    layout: str
    before: Model | None
    predicts_labels: bool

    def describe(self, comm: Communicator, part: DensePartition) -> Description:
        """See :class:`~sparseleaf.training.program.WorkerProgram`."""
        found = comm.allgather(part.describe_targets())
        categories = (
            join_categories([one.categories for one in found])
            if self.before is None
            else self.before.categories
        )
        run_together(comm, lambda: part.encode_features(categories))
        rows = describe_rows(comm, part)
        known = join_known([one.known for one in found])
        form = TargetForm(
            known.n_outputs,
            any(one.form.has_unknown for one in found),
            max(one.form.weight_columns for one in found),
        )
        part.relabel(known, form.has_unknown)
        part.first_query = sum(count_queries([one.query_ids for one in found])[: comm.rank])
        empty = describe_prior(comm, part, rows, known.counts) if self.predicts_labels else None
        lowest = min(one.lowest for one in found)
        return Description(rows, categories, known, form, lowest, comm.size, empty)

    def prepare(self, comm: Communicator, part: DensePartition, plan: Plan) -> tuple[Prepared, BoostedGrowth]:
        """See :class:`~sparseleaf.training.program.WorkerProgram`."""
        params, before, problem = self.params, self.before, plan.problem
        if before is None:
            start = common_base_score(comm, part, problem.loss, problem.rows.n_rows)
        else:
            assert before.base_score is not None
            start = before.base_score
        with phase("binning"):
            found = find_all_cuts(comm, part, [part.features], params.max_bins, plan.seed)
            cuts = _with_categories(found, problem.categories)
            by_query = getattr(params, "subsample_by", "row") == "query"
            shard = run_together(
                comm,
                lambda: part.make_shard(cuts, plan.loss_of, plan.search.matrix, start, before, by_query),
            )
            has_missing = (comm.allreduce(shard.missing_features()) > 0).astype(np.uint8)
        recipe = dense_recipe(params, plan, cuts, has_missing)
        first = 0 if before is None else before.n_trees
        return Prepared(cuts, start), BoostedGrowth(comm, shard, recipe, self.layout, first)


def dense_recipe(params: Settings, plan: Plan, cuts: Cuts, has_missing: Array) -> Recipe:
    """How trees are grown on dense gradients."""
    search, problem = plan.search, plan.problem
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
        search.curvature,
        rule,
        make_reducer(params.sketch, search.sketch, n_outputs) if search.sketch else None,
        tree_per_output=params.tree_per_output,
        n_rows=n_rows,
        seed=plan.seed,
    )
    trees = HistogramTrees(
        growth,
        np.diff(cuts.offsets) + 1 + has_missing,
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
    )
    return Recipe(
        trees=trees,
        cuts=cuts,
        statistics=statistics,
        n_features=cuts.n_features,
        subsample=params.subsample,
        colsample_bytree=params.colsample_bytree,
        colsample_bynode=params.colsample_bynode,
        seed=plan.seed,
    )


class DenseEnsemble:
    """See :class:`~sparseleaf.training.trainer.Ensemble`.

    Parameters
    ----------
    estimator : DenseGBDT
    eval_set : validation sets
    layout : {"rows", "features"}
    before : Model or None
        What training starts from.
    counts_before : bool
        Whether its trees are among the ``n_trees``.
    """

    memory_advice = "Fewer rows or outputs, or less max_bins, need less."

    def __init__(
        self,
        estimator: DenseGBDT,
        eval_set: EvalSet,
        layout: str,
        before: Model | None,
        *,
        counts_before: bool,
    ) -> None:
        self._estimator = estimator
        self._params = params = estimator._settings()
        self._eval_set = eval_set
        self._before = before
        self._counts_before = counts_before
        self._n_jobs = effective_n_jobs(params.n_jobs)
        self.work = DenseWork(params, layout, before, estimator.predicts_labels)
        self.per_round, self.n_rounds, self.n_before = 1, params.n_trees, 0
        self._bound = ScoreBound()
        self._sets: list[Watched] = []
        self._shards: list[DenseShard] = []

    def accept(self, description: Description, workers: Workers) -> memory.Estimate:
        """See :class:`~sparseleaf.training.trainer.Ensemble`."""
        estimator, params, rows = self._estimator, self._params, description.rows
        form, known = description.form, description.known
        self._description = description
        estimator._know_features(rows)
        loss = estimator._dense_loss(known.kind)
        loss.target_range.check(loss.name, description.lowest)
        problem = Problem(rows, description.categories, known, form, loss)
        self._names = workers.once(
            lambda: eval_names(len(eval_sets(self._eval_set, estimator.eval_set_form)))
        )
        if params.early_stopping_rounds is not None and not self._names:
            raise ValueError(
                f"early_stopping_rounds={params.early_stopping_rounds} requires a validation set,"
                f" eval_set={estimator.eval_set_form}."
            )

        def check() -> None:  # one process has the rows, and all learn what is wrong with them
            self._sets = estimator._watched(self._eval_set, problem)

        workers.once(check)
        if self._before is not None:
            _require_same(self._before, rows.n_features, known)
        directions = estimator._directions(form.n_outputs, description.categories)
        self._problem, self._search = problem, SearchPlan(params, loss, form, directions)
        self._count_rounds()
        n_rows = rows.n_rows // description.n_workers
        return estimator._estimate(n_rows, rows.n_features, form.n_outputs, self._search)

    def _count_rounds(self) -> None:
        self.per_round = self._description.form.n_outputs if self._params.tree_per_output else 1
        if self._before is None:
            return
        self.n_before = self._before.n_trees // self.per_round
        if self._counts_before:
            self.n_rounds = self._params.n_trees - self.n_before
            if self.n_rounds < 0:
                raise ValueError(
                    f"n_trees={self._params.n_trees}: with warm_start, wanted at least the {self.n_before} that are"
                    " there."
                )

    def summary(self) -> str:
        """See :class:`~sparseleaf.training.trainer.Ensemble`."""
        rows, n_outputs = self._problem.rows, self._problem.form.n_outputs
        return (
            f"{rows.n_rows:,} rows, {rows.n_features:,} features, {n_outputs:,} outputs;"
            f" loss {self._problem.loss.name}, split {self._search.split}"
        )

    def fingerprints(self) -> dict[str, str]:
        """See :class:`~sparseleaf.training.trainer.Ensemble`."""
        return describe_problem(self._problem, self._sets, self._before)

    def plan(self, checkpoint: Checkpoint) -> Plan:
        """See :class:`~sparseleaf.training.trainer.Ensemble`."""
        loss_of = self._estimator._loss_of_rows(self._problem.loss)
        self._plan = Plan(checkpoint.seed, self._search, loss_of, self._problem)
        return self._plan

    def adopt(self, prepared: Prepared, checkpoint: Checkpoint) -> Plan:
        """See :class:`~sparseleaf.training.trainer.Ensemble`."""
        self._prepared = prepared
        for one in self._sets:
            X = one.features
            bins = bin_features([X], prepared.cuts, np.uint8, self._n_jobs)
            if self._before is not None:
                scores = self._before.dense(X, None, self._n_jobs)
            else:
                scores = np.repeat(prepared.base_score[None, :], X.shape[0], axis=0)
            self._shards.append(
                DenseShard(
                    bins, prepared.cuts.missing_bins, one.targets, scores, self._problem.loss, self._n_jobs
                )
            )
        return self._plan

    def early_stopping(self, workers: Workers) -> EarlyStopping | None:
        """See :class:`~sparseleaf.training.trainer.Ensemble`."""
        rounds = self._params.early_stopping_rounds
        if rounds is None:
            return None
        name, higher = workers.once(
            lambda: (self._sets[-1].metric.name, self._sets[-1].metric.higher_is_better)
        )
        return EarlyStopping(f"{self._names[-1]} {name}", rounds, higher_is_better=higher)

    def pack(self, trees: Sequence[BoostedTree]) -> dict[str, Array]:
        """See :class:`~sparseleaf.training.trainer.Ensemble`."""
        return pack_trees(list(trees))

    def unpack(self, tensors: dict[str, Array]) -> list[BoostedTree]:
        """See :class:`~sparseleaf.training.trainer.Ensemble`."""
        return unpack_trees(tensors, self._prepared.cuts.n_features, self._problem.form.n_outputs)

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
        return {
            f"{name} {one.metric.name}": one.metric.measure(shard.targets, shard.scores)
            for name, one, shard in zip(self._names, self._sets, self._shards, strict=True)
        }

    def finish(
        self, trees: Sequence[BoostedTree], history: dict[str, list[float]], seed: int, workers: Workers
    ) -> bool:
        """See :class:`~sparseleaf.training.trainer.Ensemble`."""
        estimator, before, problem = self._estimator, self._before, self._problem
        rows, known, n_outputs = problem.rows, problem.known, problem.form.n_outputs
        grown = concatenate_trees(
            list(trees),
            np.arange(n_outputs),
            rows.n_features,
            n_outputs,
            categorical=problem.categorical,
            all_labels=self._search.all_outputs,
            gain=None if before is None else before.trees.feature_gain,
        )
        if before is not None:
            grown = join_trees(before.trees, grown)
            history = {
                name: [*before.history.get(name, []), *values] for name, values in history.items()
            } or before.history
        scorer = AxisScorer(grown, n_outputs, self._prepared.base_score)
        estimator._adopt(
            Model(
                stages=in_order([scorer, self._description.empty]),
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
                link=estimator._link(problem.loss, known.kind).name,
            )
        )
        return False


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


def _require_same(before: Model, n_features: int, known: KnownTargets) -> None:
    """Refuse to go on from a model of other features or outputs."""
    if before.n_features != n_features or before.n_labels != known.n_outputs:
        raise ValueError(
            f"init_model or warm_start: found {n_features} features and {known.n_outputs} outputs; the model has"
            f" {before.n_features} and {before.n_labels}."
        )
    names = [None if found is None else found.tolist() for found in (before.label_names, known.names)]
    if before.target_kind != known.kind or names[0] != names[1]:
        raise ValueError(
            "init_model or warm_start: found other classes or kind of targets than the model has."
        )
