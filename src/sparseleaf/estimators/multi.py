"""Common base of MultiGBDTRegressor and MultiGBDTClassifier: parameters and ``fit``."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from sparseleaf.callbacks import Callback
from sparseleaf.checkpoint import EVERY
from sparseleaf.estimators.base import ModelEstimator
from sparseleaf.estimators.dense import DenseGBDT
from sparseleaf.estimators.updating_dense import update_dense
from sparseleaf.features import TextVectorizer
from sparseleaf.objectives import DenseObjective
from sparseleaf.training.trainer import Trainer
from sparseleaf.training.validation import EvalSet

if TYPE_CHECKING:
    from sparseleaf.model import Model


class MultiGBDT(DenseGBDT):
    """Common base of the multi-output regressor and classifier; not public."""

    def __init__(
        self,
        n_trees: int | str = "auto",
        learning_rate: float | str = "auto",
        loss: Any = "auto",
        *,
        leaf_labels: int | None = None,
        max_depth: int | None = None,
        max_leaves: int | str | None = "auto",
        min_samples_leaf: int | str = "auto",
        l2: float = 1.0,
        max_bins: int = 255,
        subsample: float | str = "auto",
        colsample_bytree: float = 1.0,
        n_models: int | str = "auto",
        categorical_features: Any = "auto",
        monotone_constraints: Any = None,
        early_stopping_rounds: int | None = None,
        eval_metric: Any = DenseObjective.default_metric,
        warm_start: bool = False,
        vectorizer: TextVectorizer | None = None,
        n_jobs: int | None = None,
        random_state: Any = 0,
        verbose: int = 0,
        advanced: Mapping[str, Any] | None = None,
        **former: Any,
    ) -> None:
        self.n_trees = n_trees
        self.learning_rate = learning_rate
        self.loss = loss
        self.leaf_labels = leaf_labels
        self.max_depth = max_depth
        self.max_leaves = max_leaves
        self.min_samples_leaf = min_samples_leaf
        self.l2 = l2
        self.max_bins = max_bins
        self.subsample = subsample
        self.colsample_bytree = colsample_bytree
        self.n_models = n_models
        self.categorical_features = categorical_features
        self.monotone_constraints = monotone_constraints
        self.early_stopping_rounds = early_stopping_rounds
        self.eval_metric = eval_metric
        self.warm_start = warm_start
        self.vectorizer = vectorizer
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.advanced = advanced
        if former:
            self._take_former(former)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    # --- training

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        sample_weight: Any = None,
        eval_set: EvalSet = None,
        callbacks: Sequence[Callback] | None = (),
        init_model: ModelEstimator | Model | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: int = EVERY,
        engine: Any = "local",
        layout: str = "rows",
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : {array-like, DataFrame, sparse matrix} of shape (n_rows, n_features), or texts
            Features. NaN is a missing value; every split learns a default direction for it. A list of texts, or
            records, is converted by ``vectorizer``.
        y : array-like, DataFrame or sparse matrix
            Targets. Regressor: numbers of shape (n_rows,) or (n_rows, n_outputs), NaN if unknown. Classifier: one class
            per row, a 0/1 matrix (NaN if unknown), or lists of label names.
        sample_weight : array-like of shape (n_rows,) or (n_rows, n_outputs), optional
            Weights of the rows, or of each row and output.
        eval_set : tuple (X, y) or list of such tuples, optional
            Validation sets. ``eval_metric`` is computed on each after every tree and stored in ``history_``. Early
            stopping uses the last one.
        callbacks : sequence of callables, or None, default=()
            Called after every tree with a :class:`~sparseleaf.callbacks.TrainingState`. Training stops when one of them
            returns True. None excludes this training from autologging, too.
        init_model : fitted estimator or Model, optional
            Continue training: add ``n_trees`` trees to those of this model.
        checkpoint : path-like, optional
            Checkpoint file: a local path or an fsspec URL. If it exists, training resumes from it; the model is
            byte-identical to that of an uninterrupted run.
        checkpoint_every : int, default=10
            Number of trees between two checkpoints.
        engine : {"local", "mpi", "dask"}, mpi4py communicator or Dask client, default="local"
            Where to train. With MPI, every rank calls ``fit`` with its partition of the rows, and the ``eval_set`` of
            rank 0 is used. The model is byte-identical to the one trained on all rows in a single process.
        layout : {"rows", "features"}, default="rows"
            How the training data is partitioned across workers: by rows or by features.

        Returns
        -------
        self : object
            Fitted estimator.
        """
        X, engine = self._vectorised(X, y, engine, self._init_vectorizer(init_model))
        rows = {"X": X, "y": y, "sample_weight": sample_weight}
        prepare = partial(self._prepare, eval_set, init_model, layout)
        Trainer(self, callbacks, (checkpoint, checkpoint_every)).fit(engine, rows, prepare)
        return self

    def update(
        self,
        X: Any,
        y: Any,
        *,
        sample_weight: Any = None,
        how: str = "trees",
        n_trees: int | None = None,
        forget: float = 0.0,
    ) -> Self:
        """Update the fitted model with new rows. The trees are not regrown.

        Classes, labels and outputs are those of the model: new rows may lack some of them, but have no new ones. Before
        the update, the model is evaluated on the new rows: see ``drift_``.

        Parameters
        ----------
        X : {array-like, DataFrame, sparse matrix} of shape (n_rows, n_features)
            Features of the new rows, as in ``fit``. Zero rows change nothing.
        y : array-like, DataFrame or sparse matrix
            Targets, in the form passed to ``fit``.
        sample_weight : array-like of shape (n_rows,) or (n_rows, n_outputs), optional
            Weights of the rows, or of each row and output.
        how : {"trees", "leaves"}, default="trees"
            "trees" adds trees that are boosted on the new rows. "leaves" refreshes the leaf values: the mean of the old
            value and that of the new rows in the leaf, weighted by their numbers of rows.
        n_trees : int, optional
            Number of trees to add with "trees". By default ``n_trees`` of the estimator, times the fraction of the rows
            that are new.
        forget : float, default=0.0
            Forgetting factor in [0, 1) with "leaves": earlier rows are weighted by 1 - ``forget``.

        Returns
        -------
        self : object
            The estimator with the updated model.
        """
        update_dense(self, X, y, how, n_trees, forget, {"sample_weight": sample_weight})
        return self
