"""Common base of classifiers whose trees route rows with linear routers on the raw features."""

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
from sparseleaf.data.weights import check_sample_weight
from sparseleaf.estimators.base import ModelClassifier
from sparseleaf.estimators.probabilities import SparseProbabilitiesMixin
from sparseleaf.estimators.reranking import RerankMixin, check_label_info
from sparseleaf.estimators.texts import are_texts
from sparseleaf.estimators.updating import UpdateMixin
from sparseleaf.model import Model, RoutedScorer
from sparseleaf.model.empty import EmptyRows
from sparseleaf.routed.ensemble import FrozenTree, join_trees
from sparseleaf.routed.growth import count_parallel_trees
from sparseleaf.training.partition import SparsePartition
from sparseleaf.training.routed import RoutedEnsemble, RowsSize
from sparseleaf.training.trainer import Trainer
from sparseleaf.training.validation import EvalSet

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features
    from sparseleaf.data.label_info import LabelInfo
    from sparseleaf.data.targets import Targets
    from sparseleaf.data.weights import TrainingWeights
    from sparseleaf.model.routed import RoutedTrees
    from sparseleaf.rerank.stage import Reranker


class RoutedClassifier(UpdateMixin, RerankMixin, SparseProbabilitiesMixin, ModelClassifier):
    """Base of classifiers with :class:`~sparseleaf.model.RoutedTrees`."""

    scorer_kind: ClassVar[str] = "routed"
    send_above: ClassVar[float]
    """A row is sent to the children whose margin is at least this."""

    small_routers: ClassVar[bool] = False
    """Whether router weights are stored in 8 bits."""

    preferred_held_out: ClassVar[int] = 0
    """Rows to tune the re-ranker on, if there are enough: see :func:`~sparseleaf.rerank.fit.held_out_rows`."""

    arity: int
    leaf_labels: int | None
    rerank: str | None
    verbose: int
    interrupted_: bool

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        sample_weight: Any = None,
        eval_set: EvalSet = None,
        callbacks: Sequence[Callback] | None = (),
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: int = EVERY,
        engine: Any = "local",
        label_info: LabelInfo | None = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_rows, n_features), or texts
            Features, without NaN. A sparse matrix may be memory-mapped: see :func:`sparseleaf.data.load_mapped`. A list
            of texts, or records, is converted by ``vectorizer``.
        y : sparse or dense 0/1 matrix, lists of label names, or one class per row
            Targets.
        sample_weight : array-like of shape (n_rows,), optional
            Weights of the rows. Rows of weight 0 are left out.
        eval_set : tuple (X, y) or list of such tuples, optional
            Validation sets. precision@1 is computed on each after every tree and stored in ``history_``. Re-ranking is
            tuned on the last one.
        callbacks : sequence of callables, or None, default=()
            Called after every tree with a :class:`~sparseleaf.callbacks.TrainingState`. Training stops when one of them
            returns True. None excludes this training from autologging, too.
        checkpoint : path-like, optional
            Checkpoint file: a local path or an fsspec URL. If it exists, training resumes from it; the model is
            byte-identical to that of an uninterrupted run.
        checkpoint_every : int, default=10
            Number of trees between two checkpoints.
        engine : {"local", "mpi", "dask"}, mpi4py communicator or Dask client, default="local"
            Where to train. Workers grow different trees, so every worker, and the process that calls ``fit``, receives
            all rows. With MPI, every rank calls ``fit`` with its partition of the rows.
        label_info : LabelInfo, optional
            Names and hierarchy of the labels, as evidence for the re-ranker: see :class:`~sparseleaf.data.LabelInfo`.
            Its labels can be suggested even if no row has them. Requires texts, and ``rerank`` "boosted" or "auto",
            which then means "boosted".

        Returns
        -------
        self : object
            Fitted estimator.
        """

        def prepare() -> tuple[RoutedEnsemble, dict[str, Any]]:
            self._check()
            return RoutedEnsemble(self, eval_set, label_info), {}

        check_label_info(label_info, self.rerank, engine)
        texts = are_texts(X, self.vectorizer)
        X, engine = self._vectorised(X, y, engine)
        X, y, label_info = self._with_labels(X, y, label_info, texts=texts)
        rows = {"X": X, "y": y, "sample_weight": sample_weight}
        Trainer(self, callbacks, (checkpoint, checkpoint_every)).fit(engine, rows, prepare)
        return self

    def _partition(self, X: Any, y: Any, sample_weight: Any = None) -> SparsePartition:
        """Validate the rows of one worker."""
        X, y = self._validate_features(own_indices(X), reset=True), own_indices(y)
        if y is None:  # scikit-learn's message
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        n_jobs = effective_n_jobs(self.n_jobs)
        targets = encode_targets(y, X.shape[0], n_jobs)
        weights = check_sample_weight(sample_weight, X.shape[0])
        return SparsePartition(X, self._feature_names(), targets, n_jobs, weights)

    def _check(self) -> None:
        self._check_parameters()
        effective_n_jobs(self.n_jobs)

    def estimate_memory(self, X: Any, y: Any) -> memory.RoutedEstimate:
        """Estimate the memory that :meth:`fit` needs in addition to X and y, without re-ranking; nothing is trained.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_rows, n_features), or texts
            Features.
        y : sparse or dense 0/1 matrix, lists of label names, or one class per row
            Targets.

        Returns
        -------
        estimate : RoutedEstimate
            Estimated memory in bytes, by purpose.
        """
        self._check()
        X = self._fit_vectorizer(X)[0] if are_texts(X, self.vectorizer) else X
        X = type(self)()._validate_features(X, reset=True)
        n_jobs = effective_n_jobs(self.n_jobs)
        size = RowsSize.of(X, encode_targets(y, X.shape[0]).matrix)
        return self._estimated(size, count_parallel_trees(self._most_trees(), n_jobs), n_jobs)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = False
        return tags

    def _validate_features(self, X: Any, *, reset: bool) -> Features:
        checked = super()._validate_features(X, reset=reset)
        refuse_nan(checked)
        return checked

    def _empty_rows(
        self, X: Features, Y: sp.csr_matrix, weights: TrainingWeights, stage: Reranker | None
    ) -> EmptyRows | None:
        return EmptyRows.fit(X, Y, weights, effective_n_jobs(self.n_jobs))

    def _estimated(self, size: RowsSize, n_parallel: int, n_jobs: int) -> memory.RoutedEstimate:
        """Memory to grow the trees, including the copy of the row indices."""
        estimate = self._estimate(size, n_parallel, n_jobs)
        return replace(estimate, rows=estimate.rows + size.copied)

    @abstractmethod
    def _estimate(self, size: RowsSize, n_parallel: int, n_jobs: int) -> memory.RoutedEstimate:
        """Memory to grow the trees, ``n_parallel`` at a time."""

    @abstractmethod
    def _trees(
        self,
        X: Features,
        Y: sp.csr_matrix,
        weights: TrainingWeights,
        seen: Array,
        seed: int,
        n_jobs: int,
        view: Any,
        first: int,
        end: int,
    ) -> Iterator[FrozenTree]:
        """Grow the trees ``first`` to ``end - 1`` in order, on the rows ``seen``."""

    def _most_trees(self) -> int:
        """Upper limit of the number of trees, before the training set is known."""
        n_trees: int = self._settings().n_trees
        return n_trees

    def _n_trees(self, Y: sp.csr_matrix) -> int:
        """Number of trees for these targets."""
        return self._most_trees()

    def _view_of(self, X: Features, weights: TrainingWeights) -> Any:
        """Feature weighting of the routers; None for the raw features."""
        return None

    def _join(self, trees: Sequence[FrozenTree], view: Any, label_weights: Array | None) -> RoutedTrees:
        return join_trees(trees, self.send_above, self.leaf_labels)

    def _finish(self, X: Features, Y: sp.csr_matrix, seen: Array) -> bool:
        """Compute attributes that need the training rows; False if interrupted."""
        return True

    def _adopt_trees(self, trees: Sequence[FrozenTree]) -> None:
        """Set attributes that are not part of the model."""

    def _joined_model(
        self,
        trees: Sequence[FrozenTree],
        view: Any,
        n_features: int,
        targets: Targets,
        label_weights: Array | None = None,
    ) -> Model:
        """A model for prediction only, without training metadata."""
        joined = self._join(trees, view, label_weights)
        return Model(
            stages=(RoutedScorer(joined, n_features, targets.n_labels),),
            method=self.method,
            n_features=n_features,
            n_labels=targets.n_labels,
            label_names=targets.names,
            target_kind=targets.kind,
            label_counts=np.empty(0, np.int64),
            n_train_rows=0,
        )
