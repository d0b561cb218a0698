"""What classifiers with routed trees share: fitting, and routing on the raw features, which must be numbers."""

from __future__ import annotations

import os
import time
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp

from sparseleaf import memory
from sparseleaf._arrays import effective_n_jobs, own_indices
from sparseleaf.callbacks import Callback, TrainingState
from sparseleaf.checkpoint import EVERY, Checkpoint
from sparseleaf.data.targets import encode_targets
from sparseleaf.engine.trees import tree_workers
from sparseleaf.estimators.base import ModelClassifier, refuse_nan
from sparseleaf.estimators.reranking import RerankMixin
from sparseleaf.estimators.resuming import describe_targets, describe_watched
from sparseleaf.estimators.validation import EvalSet, eval_names
from sparseleaf.metrics import precision_at_k
from sparseleaf.model import Model, Role, RoutedScorer, Rows, in_order
from sparseleaf.model.empty import EmptyRows
from sparseleaf.progress import phase, reporting, say, training_progress
from sparseleaf.rerank.fit import Reranking, all_but
from sparseleaf.routed.ensemble import FrozenTree, join_trees, with_more_rows
from sparseleaf.routed.growth import trees_abreast
from sparseleaf.routed.packing import pack_routed, unpack_routed

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features
    from sparseleaf.data.targets import Targets
    from sparseleaf.engine.trees import TreeWorkers
    from sparseleaf.model.routed import RoutedTrees
    from sparseleaf.rerank.stage import Reranker


class RoutedClassifier(RerankMixin, ModelClassifier):
    """Base of classifiers of :class:`~sparseleaf.model.RoutedTrees`."""

    scorer_kind: ClassVar[str] = "routed"
    send_above: ClassVar[float]
    """A row goes to the children whose margin is at least this."""

    small_routers: ClassVar[bool] = False
    """Whether routers are in 8 bits."""

    n_trees: int
    arity: int
    leaf_labels: int | None
    verbose: int
    interrupted_: bool

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        eval_set: EvalSet = None,
        callbacks: Sequence[Callback] = (),
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: int = EVERY,
        engine: Any = "local",
    ) -> Self:
        """Train.

        Parameters
        ----------
        X : array-like or sparse matrix, shape (n_rows, n_features)
            A sparse matrix may be memory-mapped: see :func:`sparseleaf.data.load_mapped`.
        y : sparse or dense 0/1 matrix, lists of label names, or one class a row
        eval_set : (X, y) or list of such tuples, optional
            Validation sets, on which precision@1 is measured after every tree: see ``history_``. The weight of
            re-ranking is chosen on the last one.
        callbacks : sequence of callables
            Called with a :class:`~sparseleaf.callbacks.TrainingState` after every tree; True stops the training.
        checkpoint : path, optional
            File that keeps the trees so far: where it is there, training goes on from it, to the same bytes as if it
            had never stopped. Local, or a URL that fsspec knows.
        checkpoint_every : int, default=10
            Trees between two writings.
        engine : {"local", "mpi", "dask"}, mpi4py communicator or Dask client, default="local"
            Who grows the trees, each of which takes all rows. With MPI every rank calls ``fit`` with rows of its own,
            and all of them are sent to all; X and y are then sparse matrices, arrays or lists.

        Returns
        -------
        self
        """
        with tree_workers(engine, self) as workers, reporting(self.verbose * workers.leads):
            kept = checkpoint, checkpoint_every
            return self._train(workers, *workers.rows(X, y), eval_set, callbacks, kept)

    def _train(
        self,
        workers: TreeWorkers,
        X: Any,
        y: Any,
        eval_set: EvalSet,
        callbacks: Sequence[Callback],
        checkpoint: tuple[str | os.PathLike[str] | None, int],
    ) -> Self:
        n_jobs = effective_n_jobs(self.n_jobs)
        seed = self._seed()
        X, y = self._validate_features(own_indices(X), reset=True), own_indices(y)
        if y is None:  # in scikit-learn's words
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        targets = encode_targets(y, X.shape[0])
        estimated = self._estimated(X, targets.matrix, workers.abreast(self.n_trees, n_jobs), n_jobs)
        memory.require(
            estimated, "Fewer rows, features or n_jobs need less, and sparse rows less than dense ones."
        )
        watched = self._eval_rows(eval_set, targets)
        prints = partial(describe_targets, X, targets)
        keeper = workers.once(
            lambda: Checkpoint.open(self, *checkpoint, seed, lambda: prints() | describe_watched(watched))
        )
        if not workers.leads:
            keeper = keeper.without_file()
        seed = keeper.seed
        told = self.verbose * workers.leads
        sizes = f"{X.shape[0]:,} rows, {X.shape[1]:,} features, {targets.n_labels:,} labels"
        say(f"{sizes}; {estimated}", told)

        reranking = Reranking.plan(
            self._settings(), X, targets.matrix, seed, watched[-1] if watched else None
        )
        held = reranking.held
        watch = None if not watched else _Watch(watched, self._joined_model, X.shape[1], targets, n_jobs)
        seen = all_but(X.shape[0], held).astype(np.int32)
        self._prepare(X)
        self.interrupted_ = False
        with training_progress(self.n_trees, told) as shown:
            grown = self._grow(workers, X, targets.matrix, seen, keeper, n_jobs, watch, [*shown, *callbacks])

        model = self._joined_model(grown, X.shape[1], targets)
        stage = reranking.choose(model, n_jobs)
        threshold = reranking.threshold(model.with_stage(Role.RERANKER, stage), n_jobs)
        if len(held):  # routers have not seen these rows, leaves shall
            with phase("adding held-out rows to the leaves"):
                scorer = model.scorer
                reached, labels = scorer.leaves(Rows(X[held], None, n_jobs)), targets.matrix[held]
                trees = with_more_rows(scorer.trees, grown, reached, labels, self.leaf_labels)
                model = model.with_stage(Role.SCORER, replace(scorer, trees=trees))
        reranker, empty = reranking.refit(stage, model, n_jobs), self._empty_rows(X, targets.matrix, stage)
        self._adopt(
            replace(
                model,
                stages=in_order([model.scorer, reranker, empty]),
                label_counts=np.bincount(targets.matrix.indices, minlength=targets.n_labels),
                n_train_rows=X.shape[0],
                parameters=self._saved_parameters(seed),
                history={} if watch is None else watch.history,
                feature_names=self._feature_names(),
                threshold=threshold,
            )
        )
        self.interrupted_ |= reranking.interrupted
        self._adopt_trees(grown)
        self._finish(X, targets.matrix, seen)
        return self

    def _check(self) -> None:
        self._check_parameters()
        effective_n_jobs(self.n_jobs)

    def estimate_memory(self, X: Any, y: Any) -> memory.RoutedEstimate:
        """Bytes that :meth:`fit` would take beyond X and y, without what re-ranking takes; nothing is trained."""
        self._check()
        X = type(self)()._validate_features(X, reset=True)
        n_jobs = effective_n_jobs(self.n_jobs)
        targets = encode_targets(y, X.shape[0]).matrix
        return self._estimated(X, targets, trees_abreast(self.n_trees, n_jobs), n_jobs)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = False
        return tags

    def _validate_features(self, X: Any, *, reset: bool) -> Features:
        checked = super()._validate_features(X, reset=reset)
        refuse_nan(checked)
        return checked

    def _empty_rows(self, X: Features, Y: sp.csr_matrix, stage: Reranker | None) -> EmptyRows | None:
        return EmptyRows.fit(X, Y)

    def _estimated(self, X: Features, Y: sp.csr_matrix, abreast: int, n_jobs: int) -> memory.RoutedEstimate:
        """What growing the trees takes, the copy of the rows' indices included."""
        estimate = self._estimate(X, Y, abreast, n_jobs)
        if not (sp.issparse(X) and X.indices.flags.writeable):
            return estimate
        return replace(estimate, rows=estimate.rows + X.indices.nbytes + X.indptr.nbytes)

    @abstractmethod
    def _estimate(self, X: Features, Y: sp.csr_matrix, abreast: int, n_jobs: int) -> memory.RoutedEstimate:
        """What growing the trees takes, so many at a time."""

    @abstractmethod
    def _trees(
        self, X: Features, Y: sp.csr_matrix, seen: Array, seed: int, n_jobs: int, first: int
    ) -> Iterator[FrozenTree]:
        """Grow the trees from number ``first``, one after the other, on the rows ``seen``."""

    def _join(self, trees: Sequence[FrozenTree]) -> RoutedTrees:
        return join_trees(trees, self.send_above, self.leaf_labels)

    def _prepare(self, X: Features) -> None:
        """Look at the rows before trees grow."""

    def _finish(self, X: Features, Y: sp.csr_matrix, seen: Array) -> None:
        """Measure what only training rows can tell."""

    def _adopt_trees(self, trees: Sequence[FrozenTree]) -> None:
        """Keep what the model does not hold."""

    def _grow(
        self,
        workers: TreeWorkers,
        X: Features,
        Y: sp.csr_matrix,
        seen: Array,
        checkpoint: Checkpoint,
        n_jobs: int,
        watch: _Watch | None,
        callbacks: Sequence[Callback],
    ) -> list[FrozenTree]:
        """Grow the trees, on from those of the checkpoint; Ctrl-C keeps those that are complete."""
        began = time.perf_counter()
        with checkpoint.refusing():
            kept = unpack_routed(
                checkpoint.part("trees"), self.arity, X.shape[1], Y.shape[1], small=self.small_routers
            )
        trees = kept[: self.n_trees]
        checkpoint.tell(len(trees), len(trees) >= self.n_trees, self.verbose)
        written = len(kept)

        def write() -> None:
            nonlocal written
            if not checkpoint.has_file or len(trees) <= written:
                return
            if checkpoint.keep("trees", pack_routed(trees, small=self.small_routers), {}):
                written = len(trees)

        if watch is not None:
            for tree in trees:
                watch.add(tree)
        try:
            for tree in workers.trees(self, (X, Y, seen, checkpoint.seed), n_jobs, len(trees)):
                if watch is not None:
                    watch.add(tree)
                trees.append(tree)
                state = TrainingState(
                    len(trees),
                    self.n_trees,
                    tree.leaf_counts.shape[0],
                    tree.leaf_counts.nnz,
                    time.perf_counter() - began,
                    {} if watch is None else watch.history,
                )
                stop = [callback(state) for callback in callbacks]  # all are called
                if any(stop):
                    break
                if len(trees) % checkpoint.every == 0:
                    write()
        except KeyboardInterrupt:
            if not trees:
                raise
            self.interrupted_ = True
            if watch is not None:
                for values in watch.history.values():
                    del values[len(trees) :]
            warnings.warn(f"interrupted: the model has the {len(trees)} trees grown so far", stacklevel=4)
        write()
        return trees

    def _joined_model(self, trees: Sequence[FrozenTree], n_features: int, targets: Targets) -> Model:
        """A model that can predict; what it does not need for that is left empty."""
        return Model(
            stages=(RoutedScorer(self._join(trees), n_features, targets.n_labels),),
            method=self.method,
            n_features=n_features,
            n_labels=targets.n_labels,
            label_names=targets.names,
            target_kind=targets.kind,
            label_counts=np.empty(0, np.int64),
            n_train_rows=0,
        )


class _Watch:
    """precision@1 on validation sets, after every tree."""

    def __init__(
        self,
        sets: Sequence[tuple[Features, sp.csr_matrix]],
        model_of: Callable[[Sequence[FrozenTree], int, Targets], Model],
        n_features: int,
        targets: Targets,
        n_jobs: int,
    ) -> None:
        self.history: dict[str, list[float]] = {f"{name} precision@1": [] for name in eval_names(len(sets))}
        self._sets, self._n_jobs = sets, n_jobs
        self._model_of: Callable[[FrozenTree], Model] = lambda tree: model_of([tree], n_features, targets)
        self._sums = [sp.csr_matrix(Y.shape, dtype=np.float32) for _, Y in sets]

    def add(self, tree: FrozenTree) -> None:
        """Measure with one more tree."""
        model = self._model_of(tree)
        for number, ((X, Y), values) in enumerate(zip(self._sets, self.history.values(), strict=True)):
            scores = model.tree_scores(X, None, self._n_jobs)
            # labels that training never saw have no score
            scores = sp.csr_matrix((scores.data, scores.indices, scores.indptr), Y.shape)
            self._sums[number] = sp.csr_matrix(self._sums[number] + scores)
            values.append(precision_at_k(Y, self._sums[number], 1))
