"""Common base of MultiForestRegressor and MultiForestClassifier: parameters, ``fit`` and ``update``."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from sparseleaf import memory
from sparseleaf._arrays import effective_n_jobs
from sparseleaf._settings import most_leaves
from sparseleaf.callbacks import Callback
from sparseleaf.checkpoint import EVERY
from sparseleaf.estimators.dense import DenseGBDT
from sparseleaf.estimators.updating_forest import update_forest
from sparseleaf.features import TextVectorizer
from sparseleaf.model import Model, Role, with_scaled_values
from sparseleaf.training.columns import padded_width
from sparseleaf.training.forest import MeanSquares, hessian_of, sketch_width
from sparseleaf.training.forest_ensemble import ForestEnsemble
from sparseleaf.training.trainer import Trainer
from sparseleaf.training.validation import EvalSet

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.objectives.dense import DenseObjective
    from sparseleaf.objectives.targets import TargetForm
    from sparseleaf.training.out_of_bag import OutOfBag


class MultiForest(DenseGBDT):
    """Common base of the forest regressor and classifier; not public."""

    warm_start = False

    def __init__(
        self,
        n_trees: int = 100,
        *,
        max_features: Any = 0.33,
        min_samples_leaf: int = 1,
        max_depth: int | None = None,
        max_leaves: int | None = None,
        splitter: str = "best",
        bootstrap: bool | str = "auto",
        subsample: float = 1.0,
        oob_score: bool = False,
        max_bins: int = 255,
        categorical_features: Any = "auto",
        eval_metric: Any = "rmse",
        vectorizer: TextVectorizer | None = None,
        n_jobs: int | None = None,
        random_state: Any = 0,
        verbose: int = 0,
        advanced: Mapping[str, Any] | None = None,
        **former: Any,
    ) -> None:
        self.n_trees = n_trees
        self.max_features = max_features
        self.min_samples_leaf = min_samples_leaf
        self.max_depth = max_depth
        self.max_leaves = max_leaves
        self.splitter = splitter
        self.bootstrap = bootstrap
        self.subsample = subsample
        self.oob_score = oob_score
        self.max_bins = max_bins
        self.categorical_features = categorical_features
        self.eval_metric = eval_metric
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
        callbacks: Sequence[Callback] = (),
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_every: int = EVERY,
        engine: Any = "local",
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
            Weights of the rows, or of each row and output. Rows of weight 0 are not sampled.
        eval_set : tuple (X, y) or list of such tuples, optional
            Validation sets. ``eval_metric`` is computed on each after every tree and stored in ``history_``.
        callbacks : sequence of callables, default=()
            Called after every tree with a :class:`~sparseleaf.callbacks.TrainingState`. Training stops when one of them
            returns True.
        checkpoint : path-like, optional
            Checkpoint file: a local path or an fsspec URL. If it exists, training resumes from it; the model is
            byte-identical to that of an uninterrupted run.
        checkpoint_every : int, default=10
            Number of trees between two checkpoints.
        engine : {"local", "mpi", "dask"}, mpi4py communicator or Dask client, default="local"
            Where to train. With MPI, every rank calls ``fit`` with its partition of the rows, and the ``eval_set`` of
            rank 0 is used. Every worker receives all binned rows and grows different trees. The model is byte-identical
            to the one trained on all rows in a single process.

        Returns
        -------
        self : object
            Fitted estimator.
        """
        X, engine = self._vectorised(X, y, engine)
        rows = {"X": X, "y": y, "sample_weight": sample_weight}
        prepare = partial(self._prepare_forest, eval_set)
        Trainer(self, callbacks, (checkpoint, checkpoint_every)).fit(engine, rows, prepare)
        return self

    def update(
        self, X: Any, y: Any, *, sample_weight: Any = None, how: str = "trees", n_trees: int | None = None
    ) -> Self:
        """Update the fitted model with new rows, by trees that are grown on them.

        The model averages old and new trees. Classes, labels and outputs are those of the model: new rows may lack some
        of them, but have no new ones. Before the update, the model is evaluated on the new rows: see ``drift_``.

        Parameters
        ----------
        X : {array-like, DataFrame, sparse matrix} of shape (n_rows, n_features)
            Features of the new rows, as in ``fit``. Zero rows change nothing.
        y : array-like, DataFrame or sparse matrix
            Targets, in the form passed to ``fit``.
        sample_weight : array-like of shape (n_rows,) or (n_rows, n_outputs), optional
            Weights of the rows, or of each row and output.
        how : {"trees"}, default="trees"
            How to update. Leaves of fully grown trees, which have few rows, are not refreshed.
        n_trees : int, optional
            Number of trees to add. By default ``n_trees`` of the estimator, times the fraction of the rows that are
            new.

        Returns
        -------
        self : object
            The estimator with the updated model.
        """
        update_forest(self, X, y, how, n_trees, sample_weight)
        return self

    # --- inside

    def _prepare_forest(self, eval_set: EvalSet) -> tuple[ForestEnsemble, dict[str, Any]]:
        """See :data:`~sparseleaf.training.trainer.Prepare`."""
        self._check()
        return ForestEnsemble(self, eval_set), {}

    def _dense_loss(self, kind: str) -> DenseObjective:
        return MeanSquares()

    def _first_trees(self, n_trees: int | None) -> Model:
        """The model, or one whose first ``n_trees`` trees add up to their mean."""
        model = self._model()
        if not n_trees:
            return model
        scorer = model.scorer
        trees = with_scaled_values(scorer.trees, model.n_trees / n_trees)
        return model.with_stage(Role.SCORER, replace(scorer, trees=trees))

    def _scores(self, X: Any, n_trees: int | None = None) -> Array:
        model = self._first_trees(n_trees)
        return model.outputs(self._features(X), n_trees, effective_n_jobs(self.n_jobs))

    def _stages(self, X: Any, every: int) -> Iterator[Array]:
        if every < 1:
            raise ValueError(f"The 'every' parameter must be an int >= 1. Got {every!r} instead.")
        n_trees, features = self._model().n_trees, self._features(X)
        for used in sorted({*range(every, n_trees + 1, every), n_trees}):
            yield self._scores(features, used)

    def _adopt_out_of_bag(self, out_of_bag: OutOfBag) -> None:
        """Set the attributes of out-of-bag predictions."""
        raise NotImplementedError

    def _estimate_rows(
        self, n_rows: int, n_features: int, kind: str, form: TargetForm
    ) -> memory.MemoryEstimate:
        params, d = self._settings(), form.n_outputs
        sketch = sketch_width(params, form)
        return memory.estimate_multi_forest(
            n_rows,
            n_features,
            d,
            hessian_columns=(0, 1, d)[hessian_of(form)],
            sketch_width=sketch,
            width=padded_width((sketch or d) + (0, 1, d)[hessian_of(form)]),
            n_trees=params.n_trees,
            max_leaves=most_leaves(params, n_rows),
            leaf_outputs=min(d, 2) if self.predicts_labels else d,
            oob=params.oob_score,
            n_jobs=effective_n_jobs(params.n_jobs),
        )
