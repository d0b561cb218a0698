"""Trees with linear routers (LdSM, the forest): what every worker does, and what is done beside it.

Trees do not depend on each other, and each takes all rows: all workers get all rows, and grow one tree each at a time.
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
from sparseleaf.data.rows import RowsInfo
from sparseleaf.data.targets import Targets, join_forms
from sparseleaf.distributed.failures import gather_results
from sparseleaf.metrics import precision_at_k
from sparseleaf.model import Role, Rows, in_order
from sparseleaf.progress import phase
from sparseleaf.rerank.fit import Reranking, all_but, rows_to_hold_out
from sparseleaf.routed.ensemble import with_more_rows
from sparseleaf.routed.growth import trees_abreast
from sparseleaf.routed.packing import pack_routed, unpack_routed
from sparseleaf.training.partition import describe_rows, stack_rows
from sparseleaf.training.program import Grown
from sparseleaf.training.resuming import describe_names_of, describe_watched
from sparseleaf.training.validation import EvalSet, eval_names, eval_sets

if TYPE_CHECKING:
    from sparseleaf import memory
    from sparseleaf._arrays import Array, Features
    from sparseleaf.callbacks import EarlyStopping
    from sparseleaf.checkpoint import Checkpoint
    from sparseleaf.distributed.communicator import Communicator
    from sparseleaf.distributed.launch import Workers
    from sparseleaf.estimators.routed import RoutedClassifier
    from sparseleaf.rerank.stage import Reranker
    from sparseleaf.routed.ensemble import FrozenTree
    from sparseleaf.training.partition import SparsePartition


@dataclass(frozen=True)
class RowsSize:
    """What the memory of a training depends on.

    Attributes
    ----------
    n_rows, n_features, n_labels : int
    n_entries, n_label_entries : int
        Stored numbers of the features, and labels of all rows.
    sparse : bool
    copied : int
        Bytes of the rows' indices, where they are copied: no other thread can change them then.
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
        """Of checked rows."""
        sparse = sp.issparse(X)
        copied = X.indices.nbytes + X.indptr.nbytes if sparse and X.indices.flags.writeable else 0
        n_entries = X.nnz if sparse else X.size
        return cls(X.shape[0], X.shape[1], Y.shape[1], n_entries, Y.nnz, sparse, copied)

    @classmethod
    def join(cls, parts: Sequence[RowsSize], n_labels: int) -> RowsSize:
        """Of the rows of all workers."""

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
    """What the rows of all workers are like."""

    rows: RowsInfo
    targets: Targets
    size: RowsSize
    n_workers: int


@dataclass(frozen=True)
class Plan:
    """What workers have to know: the seed, and numbers of the rows that trees must not see."""

    seed: int
    held: Array


@dataclass(frozen=True)
class Prepared:
    """All rows, and how routers see them."""

    X: Features
    Y: sp.csr_matrix
    view: Any


@dataclass(frozen=True)
class RoutedWork:
    """See :class:`~sparseleaf.training.program.WorkerProgram`."""

    estimator: RoutedClassifier

    def __getstate__(self) -> dict[str, Any]:
        return {"estimator": clone(self.estimator)}  # without a model that it may have

    def describe(self, comm: Communicator, part: SparsePartition) -> Description:
        """See :class:`~sparseleaf.training.program.WorkerProgram`."""
        rows = describe_rows(comm, part)
        found = comm.allgather((part.targets.form(), RowsSize.of(part.features, part.targets.matrix)))
        targets = join_forms([form for form, _ in found])
        part.relabel(targets)
        size = RowsSize.join([size for _, size in found], targets.n_labels)
        return Description(rows, targets, size, comm.size)

    def prepare(self, comm: Communicator, part: SparsePartition, plan: Plan) -> tuple[Prepared, RoutedGrowth]:
        """See :class:`~sparseleaf.training.program.WorkerProgram`."""
        found = comm.allgather((part.features, part.targets.matrix))
        X, Y = stack_rows([X for X, _ in found]), stack_rows([Y for _, Y in found])
        view = self.estimator._view_of(X)
        seen = all_but(X.shape[0], plan.held).astype(np.int32)
        grow = partial(self.estimator._trees, X, Y, seen, plan.seed, part.n_jobs, view)
        growth = RoutedGrowth(comm, grow, self.estimator._settings().n_trees)
        return Prepared(X, Y, view), growth


class RoutedGrowth:
    """See :class:`~sparseleaf.training.program.Growth`: every worker grows the tree whose turn is its rank's.

    Parameters
    ----------
    comm : Communicator
    grow : callable
        ``grow(first, end)`` are the trees of these numbers.
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
        if self._comm.size == 1:  # several trees at a time keep all threads busy
            self._trees = self._grow(self._number, self._n_trees)

    def next(self) -> list[Grown]:
        """See :class:`~sparseleaf.training.program.Growth`."""
        if self._comm.size == 1:
            found = [next(self._trees)]
        else:
            number = self._number + self._comm.rank
            own = gather_results(
                self._comm,
                lambda: next(self._grow(number, number + 1)) if number < self._n_trees else None,
            )
            found = [tree for tree in own if tree is not None]
        self._number += len(found)
        return [Grown(tree, tree.leaf_counts.shape[0], tree.leaf_counts.nnz) for tree in found]


class RoutedEnsemble:
    """See :class:`~sparseleaf.training.trainer.Ensemble`."""

    memory_advice = "Fewer rows, features or n_jobs need less, and sparse rows less than dense ones."
    per_round = 1
    n_before = 0

    def __init__(self, estimator: RoutedClassifier, eval_set: EvalSet) -> None:
        self._estimator = estimator
        self._params = estimator._settings()
        self._eval_set = eval_set
        self._n_jobs = effective_n_jobs(self._params.n_jobs)
        self.n_rounds = self._params.n_trees
        self.work = RoutedWork(estimator)
        self._watched: list[tuple[Features, sp.csr_matrix]] = []
        self._sums: list[sp.csr_matrix] = []

    def accept(self, description: Description, workers: Workers) -> memory.Estimate:
        """See :class:`~sparseleaf.training.trainer.Ensemble`."""
        estimator = self._estimator
        estimator._know_features(description.rows)
        self._description = description

        def check() -> None:  # one process has the rows, and all learn what is wrong with them
            self._watched = estimator._eval_rows(self._eval_set, description.targets)

        workers.once(check)
        self._names = workers.once(lambda: eval_names(len(eval_sets(self._eval_set))))
        self._sums = [sp.csr_matrix(Y.shape, dtype=np.float32) for _, Y in self._watched]
        abreast = 1 if description.n_workers > 1 else trees_abreast(self.n_rounds, self._n_jobs)
        return estimator._estimated(description.size, abreast, self._n_jobs)

    def summary(self) -> str:
        """See :class:`~sparseleaf.training.trainer.Ensemble`."""
        size = self._description.size
        return f"{size.n_rows:,} rows, {size.n_features:,} features, {size.n_labels:,} labels"

    def fingerprints(self) -> dict[str, str]:
        """See :class:`~sparseleaf.training.trainer.Ensemble`."""
        return describe_names_of(self._description.targets.names) | describe_watched(self._watched)

    def plan(self, checkpoint: Checkpoint) -> Plan:
        """See :class:`~sparseleaf.training.trainer.Ensemble`."""
        n_rows, validated = self._description.rows.n_rows, bool(self._names)
        held = rows_to_hold_out(self._params, n_rows, checkpoint.seed, has_validation=validated)
        self._plan = Plan(checkpoint.seed, held)
        return self._plan

    def adopt(self, prepared: Prepared, checkpoint: Checkpoint) -> Plan:
        """See :class:`~sparseleaf.training.trainer.Ensemble`."""
        self._prepared = prepared
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

    def follow(self, tree: FrozenTree) -> None:
        """See :class:`~sparseleaf.training.trainer.Ensemble`."""
        if not self._watched:
            return
        model = self._model([tree])
        for number, (X, Y) in enumerate(self._watched):
            scores = model.tree_scores(X, None, self._n_jobs)
            # labels that training never saw have no score
            scores = sp.csr_matrix((scores.data, scores.indices, scores.indptr), Y.shape)
            self._sums[number] = sp.csr_matrix(self._sums[number] + scores)

    def measure(self, workers: Workers) -> Mapping[str, float]:
        """See :class:`~sparseleaf.training.trainer.Ensemble`."""
        return workers.once(self._measure) if self._names else {}

    def _measure(self) -> dict[str, float]:
        return {
            f"{name} precision@1": precision_at_k(Y, scores, 1)
            for name, (_, Y), scores in zip(self._names, self._watched, self._sums, strict=True)
        }

    def finish(
        self, trees: Sequence[FrozenTree], history: dict[str, list[float]], seed: int, workers: Workers
    ) -> bool:
        """See :class:`~sparseleaf.training.trainer.Ensemble`."""
        estimator, X, Y, held = self._estimator, self._prepared.X, self._prepared.Y, self._plan.held
        validation = self._watched[-1] if self._watched else None
        reranking = Reranking.plan(self._params, X, Y, seed, validation)
        model = self._model(trees)

        def choose() -> tuple[Reranker | None, float | None]:
            stage = reranking.choose(model, self._n_jobs)
            return stage, reranking.threshold(model.with_stage(Role.RERANKER, stage), self._n_jobs)

        stage, threshold = workers.once(choose)
        if len(held):  # routers have not seen these rows, leaves shall
            with phase("adding held-out rows to the leaves"):
                scorer = model.scorer
                reached = scorer.leaves(Rows(X[held], None, self._n_jobs))
                more = with_more_rows(scorer.trees, trees, reached, Y[held], self._params.leaf_labels)
                model = model.with_stage(Role.SCORER, replace(scorer, trees=more))
        reranker, interrupted = workers.once(
            lambda: (reranking.refit(stage, model, self._n_jobs), reranking.interrupted)
        )
        estimator._adopt(
            replace(
                model,
                stages=in_order([model.scorer, reranker, estimator._empty_rows(X, Y, stage)]),
                label_counts=np.bincount(Y.indices, minlength=Y.shape[1]),
                n_train_rows=X.shape[0],
                parameters=estimator._saved_parameters(seed),
                history=history,
                feature_names=estimator._feature_names(),
                threshold=threshold,
            )
        )
        estimator._adopt_trees(trees)
        finished = estimator._finish(X, Y, all_but(X.shape[0], held).astype(np.int32))
        return interrupted or not finished

    def _model(self, trees: Sequence[FrozenTree]) -> Any:
        return self._estimator._joined_model(
            trees, self._prepared.view, self._description.size.n_features, self._description.targets
        )
