"""Trees with linear routers (LdSM, SketchForest): the worker program and the ensemble.

Trees are independent and each needs all rows: every worker gets all rows and grows a different tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from sparseleaf._arrays import effective_n_jobs
from sparseleaf._threads import started
from sparseleaf.data.rows import RowsInfo
from sparseleaf.data.targets import Targets, join_forms
from sparseleaf.distributed.failures import gather_results
from sparseleaf.metrics import precision_at_k
from sparseleaf.model import Role, Rows, in_order
from sparseleaf.progress import phase
from sparseleaf.rerank.fit import Reranking, all_but, rows_to_hold_out
from sparseleaf.rerank.side import SideEvidence
from sparseleaf.rerank.stage import with_known_features
from sparseleaf.routed.ensemble import with_more_rows
from sparseleaf.routed.growth import count_parallel_trees
from sparseleaf.routed.packing import pack_routed, unpack_routed
from sparseleaf.training.calibrating import calibrate, check_calibrate
from sparseleaf.training.partition import agree_on_weights, describe_rows, join_rows
from sparseleaf.training.program import Grown
from sparseleaf.training.resuming import describe_names_of, describe_validation_sets
from sparseleaf.training.validation import EvalSet, eval_names, eval_sets

if TYPE_CHECKING:
    from sparseleaf import memory
    from sparseleaf._arrays import Array, Features
    from sparseleaf.callbacks import EarlyStopping
    from sparseleaf.checkpoint import Checkpoint
    from sparseleaf.data.label_info import LabelInfo
    from sparseleaf.data.weights import TrainingWeights
    from sparseleaf.distributed.communicator import Communicator
    from sparseleaf.distributed.launch import Workers
    from sparseleaf.estimators.routed import RoutedClassifier
    from sparseleaf.model import Model
    from sparseleaf.model.stage import Stage
    from sparseleaf.rerank.stage import Reranker
    from sparseleaf.routed.ensemble import FrozenTree
    from sparseleaf.training.partition import SparsePartition


@dataclass(frozen=True)
class RowsSize:
    """Sizes from which memory is estimated.

    Attributes
    ----------
    n_rows, n_features, n_labels : int
    n_entries, n_label_entries : int
        Stored feature values and (row, label) pairs.
    sparse : bool
    copied : int
        Bytes of the CSR index arrays that are copied, because other threads could write to them.
    """

    n_rows: int
    n_features: int
    n_labels: int
    n_entries: int
    n_label_entries: int
    sparse: bool
    copied: int

    @classmethod
    def of(cls, X: Features, Y: sp.csr_matrix) -> RowsSize:
        """Sizes of validated rows."""
        sparse = sp.issparse(X)
        copied = X.indices.nbytes + X.indptr.nbytes if sparse and X.indices.flags.writeable else 0
        n_entries = X.nnz if sparse else X.size
        return cls(X.shape[0], X.shape[1], Y.shape[1], n_entries, Y.nnz, sparse, copied)

    @classmethod
    def join(cls, parts: Sequence[RowsSize], n_labels: int) -> RowsSize:
        """Sizes over all workers."""
        return cls(
            sum(part.n_rows for part in parts),
            parts[0].n_features,
            n_labels,
            sum(part.n_entries for part in parts),
            sum(part.n_label_entries for part in parts),
            parts[0].sparse,
            sum(part.copied for part in parts),
        )


@dataclass(frozen=True)
class Description:
    """Properties of the training set, over all workers."""

    rows: RowsInfo
    targets: Targets
    size: RowsSize
    n_workers: int


@dataclass(frozen=True)
class Plan:
    """What workers need: the seed and the global indices of held-out rows."""

    seed: int
    held_out: Array


@dataclass(frozen=True)
class Prepared:
    """All rows, their weights, and the feature weighting of the routers."""

    X: Features
    Y: sp.csr_matrix
    weights: TrainingWeights
    view: Any


@dataclass(frozen=True)
class RoutedProgram:
    """See :class:`~sparseleaf.training.program.WorkerProgram`."""

    estimator: RoutedClassifier

    def __getstate__(self) -> dict[str, Any]:
        return {"estimator": clone(self.estimator)}  # without a fitted model

    def describe(self, comm: Communicator, part: SparsePartition) -> Description:
        """See :class:`~sparseleaf.training.program.WorkerProgram`."""
        rows = describe_rows(comm, part)
        gathered = comm.allgather((part.targets.form(), RowsSize.of(part.features, part.targets.matrix)))
        targets = join_forms([form for form, _ in gathered])
        part.relabel(targets)
        agree_on_weights(comm, part, self.estimator._settings().class_weight, rows.n_rows)
        size = RowsSize.join([size for _, size in gathered], targets.n_labels)
        return Description(rows, targets, size, comm.size)

    def prepare(self, comm: Communicator, part: SparsePartition, plan: Plan) -> tuple[Prepared, RoutedGrowth]:
        """See :class:`~sparseleaf.training.program.WorkerProgram`."""
        X, Y, weights = join_rows(
            comm.allgather((part.features, part.targets.matrix, part.unscaled_weights()))
        )
        view = self.estimator._view_of(X, weights)
        seen = all_but(X.shape[0], plan.held_out).astype(np.int32)
        grow = partial(self.estimator._trees, X, Y, weights, seen, plan.seed, part.n_jobs, view)
        growth = RoutedGrowth(comm, grow, self.estimator._n_trees(Y))
        return Prepared(X, Y, weights, view), growth


class RoutedGrowth:
    """See :class:`~sparseleaf.training.program.Growth`: worker r grows every ``size``-th tree, from tree r on.

    Parameters
    ----------
    comm : Communicator
    grow : callable
        ``grow(first, end)`` yields trees ``first`` to ``end - 1``.
    n_trees : int
    """

    def __init__(
        self, comm: Communicator, grow: Callable[[int, int], Iterator[FrozenTree]], n_trees: int
    ) -> None:
        self._comm = comm
        self._grow = grow
        self._n_trees = n_trees
        self._number = 0
        self._trees: Iterator[FrozenTree] = iter(())

    def replay(self, trees: Sequence[FrozenTree]) -> None:
        """See :class:`~sparseleaf.training.program.Growth`."""
        self._number = len(trees)
        if self._comm.size == 1:  # several trees in parallel keep all threads busy
            self._trees = self._grow(self._number, self._n_trees)

    def next(self) -> list[Grown]:
        """See :class:`~sparseleaf.training.program.Growth`."""
        if self._comm.size == 1:
            trees = [next(self._trees)]
        else:
            number = self._number + self._comm.rank
            gathered = gather_results(
                self._comm,
                lambda: next(self._grow(number, number + 1)) if number < self._n_trees else None,
            )
            trees = [tree for tree in gathered if tree is not None]
        self._number += len(trees)
        return [Grown(tree, tree.leaf_counts.shape[0], tree.leaf_counts.nnz) for tree in trees]

    def complete(self) -> None:
        """See :class:`~sparseleaf.training.program.Growth`; nothing."""


class RoutedEnsemble:
    """See :class:`~sparseleaf.training.trainer.Ensemble`."""

    memory_advice = "Use fewer rows, features or n_jobs, or sparse rows."
    per_round = 1
    n_init_rounds = 0
    completes = False

    def __init__(
        self, estimator: RoutedClassifier, eval_set: EvalSet, label_info: LabelInfo | None = None
    ) -> None:
        self._estimator = estimator
        self._params = estimator._settings()
        self._eval_set, self._label_info = eval_set, label_info
        self._n_jobs = effective_n_jobs(self._params.n_jobs)
        self.n_rounds = estimator._most_trees()
        self.program = RoutedProgram(estimator)
        self._validation: list[tuple[Features, sp.csr_matrix]] = []
        self._sums: list[sp.csr_matrix] = []

    def validate(self, description: Description, workers: Workers) -> memory.Estimate:
        """See :class:`~sparseleaf.training.trainer.Ensemble`."""
        estimator = self._estimator
        check_calibrate(self._params.calibrate, description.targets.kind)
        estimator._know_features(description.rows)
        self._description = description

        def check() -> None:  # one process has the validation sets; an error is raised on all
            self._validation = estimator._eval_rows(self._eval_set, description.targets)

        workers.once(check)
        self._names = workers.once(lambda: eval_names(len(eval_sets(self._eval_set))))
        self._sums = [sp.csr_matrix(Y.shape, dtype=np.float32) for _, Y in self._validation]
        n_parallel = 1 if description.n_workers > 1 else count_parallel_trees(self.n_rounds, self._n_jobs)
        return estimator._estimated(description.size, n_parallel, self._n_jobs)

    def summary(self) -> str:
        """See :class:`~sparseleaf.training.trainer.Ensemble`."""
        size = self._description.size
        return f"{size.n_rows:,} rows, {size.n_features:,} features, {size.n_labels:,} labels"

    def fingerprints(self) -> dict[str, str]:
        """See :class:`~sparseleaf.training.trainer.Ensemble`."""
        return describe_names_of(self._description.targets.names) | describe_validation_sets(self._validation)

    def plan(self, checkpoint: Checkpoint) -> Plan:
        """See :class:`~sparseleaf.training.trainer.Ensemble`."""
        n_rows, validated = self._description.rows.n_rows, bool(self._names)
        held_out = rows_to_hold_out(
            self._params,
            n_rows,
            checkpoint.seed,
            has_validation=validated,
            side=self._label_info is not None,
            preferred=self._estimator.preferred_held_out,
        )
        self._plan = Plan(checkpoint.seed, held_out)
        return self._plan

    def adopt(self, prepared: Prepared, checkpoint: Checkpoint) -> Plan:
        """See :class:`~sparseleaf.training.trainer.Ensemble`."""
        self._prepared = prepared
        self.n_rounds = self._estimator._n_trees(prepared.Y)
        return self._plan

    def early_stopping(self, workers: Workers) -> EarlyStopping | None:
        """See :class:`~sparseleaf.training.trainer.Ensemble`."""
        return None

    def pack(self, trees: Sequence[FrozenTree]) -> dict[str, Array]:
        """See :class:`~sparseleaf.training.trainer.Ensemble`."""
        return pack_routed(list(trees), small=self._estimator.small_routers)

    def unpack(self, tensors: dict[str, Array]) -> list[FrozenTree]:
        """See :class:`~sparseleaf.training.trainer.Ensemble`."""
        size = self._description.size
        return unpack_routed(
            tensors,
            self._params.arity,
            size.n_features,
            size.n_labels,
            small=self._estimator.small_routers,
        )

    def check_tree(self, tree: FrozenTree) -> None:
        """See :class:`~sparseleaf.training.trainer.Ensemble`."""

    def update_validation(self, tree: FrozenTree) -> None:
        """See :class:`~sparseleaf.training.trainer.Ensemble`."""
        if not self._validation:
            return
        model = self._model([tree])
        for number, (X, Y) in enumerate(self._validation):
            scores = model.tree_scores(X, None, self._n_jobs)
            # labels that are not in the training set have no score
            scores = sp.csr_matrix((scores.data, scores.indices, scores.indptr), Y.shape)
            self._sums[number] = sp.csr_matrix(self._sums[number] + scores)

    def evaluate(self, workers: Workers) -> Mapping[str, float]:
        """See :class:`~sparseleaf.training.trainer.Ensemble`."""
        return workers.once(self._evaluate) if self._names else {}

    def _evaluate(self) -> dict[str, float]:
        return {
            f"{name} precision@1": precision_at_k(Y, scores, 1)
            for name, (_, Y), scores in zip(self._names, self._validation, self._sums, strict=True)
        }

    def finish(
        self,
        trees: Sequence[FrozenTree],
        completion: None,
        history: dict[str, list[float]],
        seed: int,
        workers: Workers,
    ) -> bool:
        """See :class:`~sparseleaf.training.trainer.Ensemble`."""
        estimator, X, Y, held_out = self._estimator, self._prepared.X, self._prepared.Y, self._plan.held_out
        weights = self._prepared.weights
        validation = self._validation[-1] if self._validation else None
        text, targets = estimator._vectorizer_stage(), self._description.targets
        side = None
        if self._label_info is not None:
            side = SideEvidence.fit(self._label_info, targets, text, X, self._n_jobs)
        preferred = estimator.preferred_held_out
        reranking = Reranking.plan(self._params, X, Y, weights, seed, validation, side, preferred)
        model = self._model(trees)
        final = started(lambda: self._with_held_out(model, trees), self._n_jobs)
        label_counts = np.bincount(Y.indices, minlength=Y.shape[1])

        def choose() -> tuple[Reranker | None, float | None, list[Stage], dict[str, Any] | None, bool]:
            stage = reranking.choose(model, final, self._n_jobs)
            tuned = replace(
                model.with_stage(Role.RERANKER, stage), label_counts=label_counts, n_train_rows=X.shape[0]
            )
            refitted = reranking.refit(stage, self._n_jobs)  # beside calibration, mostly on one thread
            decisions = calibrate(
                self._params,
                reranking,
                tuned,
                label_counts,
                Y[held_out],
                estimator._prior_scale(tuned),
                self._n_jobs,
            )
            threshold = reranking.threshold(tuned, self._n_jobs)
            return refitted(), threshold, decisions, reranking.precision, reranking.interrupted

        reranker, threshold, decisions, precision, interrupted = workers.once(choose)
        whole = replace(
            final(),
            stages=in_order(
                [
                    text,
                    final().scorer,
                    reranker,
                    *decisions,
                    estimator._empty_rows(X, Y, weights, reranker),
                ]
            ),
            label_counts=label_counts,
            n_train_rows=X.shape[0],
            parameters=estimator._saved_parameters(seed),
            history=history,
            feature_names=estimator._feature_names(),
            threshold=threshold,
            validation=precision,
        )
        estimator._adopt(with_known_features(whole))
        estimator._adopt_trees(trees)
        finished = estimator._finish(X, Y, all_but(X.shape[0], held_out).astype(np.int32))
        return interrupted or not finished

    def _with_held_out(self, model: Model, trees: Sequence[FrozenTree]) -> Model:
        """The model with the labels of the held-out rows, which the trees were grown without, in the leaves."""
        held_out, prepared = self._plan.held_out, self._prepared
        if not len(held_out):
            return model
        with phase("adding held-out rows to the leaves"):
            scorer = model.scorer
            more = with_more_rows(
                scorer.trees,
                trees,
                scorer.leaves(Rows(prepared.X[held_out], None, self._n_jobs)),
                prepared.Y[held_out],
                self._params.leaf_labels,
                prepared.weights.take(held_out),
                self._n_jobs,
            )
            return model.with_stage(Role.SCORER, replace(scorer, trees=more))

    def _model(self, trees: Sequence[FrozenTree]) -> Any:
        size, targets = self._description.size, self._description.targets
        prepared = self._prepared
        return self._estimator._joined_model(
            trees, prepared.view, size.n_features, targets, prepared.weights.labels
        )
