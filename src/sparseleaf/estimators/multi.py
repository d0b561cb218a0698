"""What the regressor and the classifier of GBDT-MO share: parameters and ``fit``."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from sparseleaf.callbacks import Callback
from sparseleaf.checkpoint import EVERY
from sparseleaf.estimators.base import ModelEstimator
from sparseleaf.estimators.dense import DenseGBDT
from sparseleaf.objectives import DenseObjective
from sparseleaf.training.trainer import Trainer
from sparseleaf.training.validation import EvalSet

if TYPE_CHECKING:
    from sparseleaf.model import Model


class MultiGBDT(DenseGBDT):
    """What the regressor and the classifier share; not public."""

    def __init__(
        self,
        n_trees: int = 100,
        learning_rate: float = 0.1,
        loss: Any = "auto",
        *,
        leaf_labels: int | None = None,
        max_depth: int | None = None,
        max_leaves: int | None = 31,
        min_samples_leaf: int = 20,
        l2: float = 1.0,
        max_bins: int = 255,
        subsample: float = 1.0,
        colsample_bytree: float = 1.0,
        categorical_features: Any = "auto",
        monotone_constraints: Any = None,
        early_stopping_rounds: int | None = None,
        eval_metric: Any = DenseObjective.default_metric,
        warm_start: bool = False,
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
        self.categorical_features = categorical_features
        self.monotone_constraints = monotone_constraints
        self.early_stopping_rounds = early_stopping_rounds
        self.eval_metric = eval_metric
        self.warm_start = warm_start
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
        callbacks: Sequence[Callback] = (),
        init_model: ModelEstimator | Model | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: int = EVERY,
        engine: Any = "local",
        layout: str = "rows",
    ) -> Self:
        """Train.

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix, shape (n_rows, n_features)
            NaN is a missing value; trees learn which way it goes.
        y : array-like, DataFrame or sparse matrix
            Numbers for the regressor, (n_rows,) or (n_rows, n_outputs), NaN where unknown. For the classifier one
            class a row, a 0/1 matrix (NaN where unknown) or lists of label names.
        sample_weight : array-like, shape (n_rows,) or (n_rows, n_outputs), optional
        eval_set : (X, y) or list of such tuples, optional
            Validation sets, on which ``eval_metric`` is measured after every tree: see ``history_``. Early stopping
            looks at the last one.
        callbacks : sequence of callables
            Called with a :class:`~sparseleaf.callbacks.TrainingState` after every tree; True stops the training.
        init_model : fitted estimator or Model, optional
            Go on from its trees with ``n_trees`` more, on these rows.
        checkpoint : path, optional
            File that keeps the trees so far: where it is there, training goes on from it, to the same bytes as if it
            had never stopped. Local, or a URL that fsspec knows.
        checkpoint_every : int, default=10
            Trees between two writings.
        engine : {"local", "mpi", "dask"}, mpi4py communicator or Dask client, default="local"
            Where training runs. With MPI every rank calls ``fit`` with rows of its own, and ``eval_set`` is that of
            the first rank. The model is the same, to the byte, as that of all rows in one process.
        layout : {"rows", "features"}, default="rows"
            With several workers: whether each holds some of the rows, or all rows of some of the features.

        Returns
        -------
        self
        """
        rows = {"X": X, "y": y, "sample_weight": sample_weight}
        prepare = partial(self._prepare, eval_set, init_model, layout)
        Trainer(self, callbacks, (checkpoint, checkpoint_every)).fit(engine, rows, prepare)
        return self
