"""What classifiers with routed trees share: fitting, and routing on the raw features, which must be numbers."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp

from sparseleaf import memory
from sparseleaf._arrays import effective_n_jobs, own_indices
from sparseleaf.callbacks import Callback
from sparseleaf.checkpoint import EVERY
from sparseleaf.data.rows import refuse_nan
from sparseleaf.data.targets import encode_targets
from sparseleaf.estimators.base import ModelClassifier
from sparseleaf.estimators.reranking import RerankMixin
from sparseleaf.model import Model, RoutedScorer
from sparseleaf.model.empty import EmptyRows
from sparseleaf.routed.ensemble import FrozenTree, join_trees
from sparseleaf.routed.growth import trees_abreast
from sparseleaf.training.partition import SparsePartition
from sparseleaf.training.routed import RoutedEnsemble, RowsSize
from sparseleaf.training.trainer import Trainer
from sparseleaf.training.validation import EvalSet

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features
    from sparseleaf.data.targets import Targets
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
            Who grows the trees, each of which takes all rows. With MPI every rank calls ``fit`` with rows of its own.
            Every worker gets all rows, and so does the process that called ``fit``.

        Returns
        -------
        self
        """

        def prepare() -> tuple[RoutedEnsemble, dict[str, Any]]:
            self._check()
            return RoutedEnsemble(self, eval_set), {}

        Trainer(self, callbacks, (checkpoint, checkpoint_every)).fit(engine, {"X": X, "y": y}, prepare)
        return self

    def _partition(self, X: Any, y: Any) -> SparsePartition:
        """Rows, checked."""
        X, y = self._validate_features(own_indices(X), reset=True), own_indices(y)
        if y is None:  # in scikit-learn's words
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        targets = encode_targets(y, X.shape[0])
        return SparsePartition(X, self._feature_names(), targets, effective_n_jobs(self.n_jobs))

    def _check(self) -> None:
        self._check_parameters()
        effective_n_jobs(self.n_jobs)

    def estimate_memory(self, X: Any, y: Any) -> memory.RoutedEstimate:
        """Bytes that :meth:`fit` would take beyond X and y, without what re-ranking takes; nothing is trained."""
        self._check()
        X = type(self)()._validate_features(X, reset=True)
        n_jobs = effective_n_jobs(self.n_jobs)
        size = RowsSize.of(X, encode_targets(y, X.shape[0]).matrix)
        return self._estimated(size, trees_abreast(self.n_trees, n_jobs), n_jobs)

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

    def _estimated(self, size: RowsSize, abreast: int, n_jobs: int) -> memory.RoutedEstimate:
        """What growing the trees takes, the copy of the rows' indices included."""
        estimate = self._estimate(size, abreast, n_jobs)
        return replace(estimate, rows=estimate.rows + size.copied)

    @abstractmethod
    def _estimate(self, size: RowsSize, abreast: int, n_jobs: int) -> memory.RoutedEstimate:
        """What growing the trees takes, so many at a time."""

    @abstractmethod
    def _trees(
        self,
        X: Features,
        Y: sp.csr_matrix,
        seen: Array,
        seed: int,
        n_jobs: int,
        view: Any,
        first: int,
        end: int,
    ) -> Iterator[FrozenTree]:
        """Grow the trees from number ``first`` up to ``end``, one after the other, on the rows ``seen``."""

    def _view_of(self, X: Features) -> Any:
        """How routers see the rows; None: as they are."""
        return None

    def _join(self, trees: Sequence[FrozenTree], view: Any) -> RoutedTrees:
        return join_trees(trees, self.send_above, self.leaf_labels)

    def _finish(self, X: Features, Y: sp.csr_matrix, seen: Array) -> bool:
        """Measure what only training rows can tell; False after Ctrl-C."""
        return True

    def _adopt_trees(self, trees: Sequence[FrozenTree]) -> None:
        """Keep what the model does not hold."""

    def _joined_model(
        self, trees: Sequence[FrozenTree], view: Any, n_features: int, targets: Targets
    ) -> Model:
        """A model that can predict; what it does not need for that is left empty."""
        return Model(
            stages=(RoutedScorer(self._join(trees, view), n_features, targets.n_labels),),
            method=self.method,
            n_features=n_features,
            n_labels=targets.n_labels,
            label_names=targets.names,
            target_kind=targets.kind,
            label_counts=np.empty(0, np.int64),
            n_train_rows=0,
        )
