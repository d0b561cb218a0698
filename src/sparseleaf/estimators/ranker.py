"""GBDTRanker: gradient boosted trees for learning to rank (LambdaMART, GBRank, SmoothDCG)."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from sparseleaf._settings import Settings
from sparseleaf.callbacks import Callback
from sparseleaf.checkpoint import EVERY
from sparseleaf.estimators.declarations import RANKER
from sparseleaf.estimators.dense import DenseGBDT
from sparseleaf.estimators.evaluation import Metric
from sparseleaf.estimators.naming import named
from sparseleaf.estimators.parameters import Table, documented
from sparseleaf.estimators.updating_dense import update_dense
from sparseleaf.features import TextVectorizer
from sparseleaf.model.explain import MEMORY_MB
from sparseleaf.objectives import RankingObjective, ranking_objective
from sparseleaf.objectives.targets import NO_CLASSES, NO_VALUES, DenseTargets
from sparseleaf.ranking import (
    average_precision,
    check_grades,
    make_queries,
    mean_of,
    ndcg,
    pairwise_accuracy,
    reciprocal_rank,
)
from sparseleaf.training.auto import RANKER_VALUES, AutoValue
from sparseleaf.training.dense import Problem, ValidationSet
from sparseleaf.training.dense_targets import KnownTargets
from sparseleaf.training.trainer import Trainer
from sparseleaf.training.validation import EvalSet

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.estimators.base import ModelEstimator
    from sparseleaf.model import Model
    from sparseleaf.objectives.dense import DenseObjective
    from sparseleaf.objectives.queries import Queries
    from sparseleaf.report import Report
    from sparseleaf.training.dense_partition import DensePartition

ONE_OUTPUT: dict[str, Any] = {
    "leaf_labels": None,
    "leaf_min_gain": 0.0,
    "hessian": "diagonal",
    "split": "full",
    "sketch": "random-projection",
    "sketch_dim": 32,
    "tree_per_output": False,
    "standardise": False,
}
"""Parameters of multi-output trees that have no effect with a single output."""


@documented
@named
class GBDTRanker(DenseGBDT):
    """Gradient boosted trees for learning to rank: scores that order the documents of a query.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    model_ : Model
        The trained model.
    history_ : dict of str to list of float
        ``eval_metric`` after every tree for each validation set: ``"valid ndcg@5"`` for a single set,
        ``"valid_0 ndcg@5"``, ``"valid_1 ndcg@5"``, … for several.
    best_iteration_ : int
        Number of rounds in the model: trees, unless there are bagged models.
    interrupted_ : bool
        Whether ``fit`` was stopped early by Ctrl-C; the model has the trees grown until then.
    vectorizer_ : TextVectorizer or None
        Fitted vectorizer; None if X was features.
    n_features_in_ : int
        Number of features seen in ``fit``.

    Examples
    --------
    >>> import numpy as np
    >>> from sparseleaf import GBDTRanker
    >>> X = np.random.default_rng(0).uniform(size=(200, 3))
    >>> grades = (3 * X[:, 0]).astype(int)
    >>> queries = np.repeat(np.arange(20), 10)
    >>> ranker = GBDTRanker(n_trees=20).fit(X, grades, qid=queries)
    >>> query, rows = ranker.rank(X, queries)[0]
    >>> len(rows)
    10
    """

    method: ClassVar[str] = "rank"
    eval_set_form: ClassVar[str] = "(X, y, qid)"
    auto_values: ClassVar[Mapping[str, AutoValue]] = RANKER_VALUES
    parameter_table: ClassVar[Table] = RANKER

    def __init__(
        self,
        n_trees: int | str = "auto",
        learning_rate: float | str = "auto",
        loss: str = "lambdamart",
        *,
        metric: str = "ndcg",
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
        eval_metric: str = RankingObjective.default_metric,
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
        self.metric = metric
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
        tags.target_tags.required = True
        tags.target_tags.positive_only = True
        return tags

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        qid: Any = None,
        group: Any = None,
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
            Features of the documents. NaN is a missing value.
        y : array-like of shape (n_rows,)
            Relevance grades >= 0; higher is more relevant.
        qid : array-like of shape (n_rows,), optional
            Query of each row, in any order. Pass either ``qid`` or ``group``.
        group : array-like of int, optional
            Number of rows of each query, for rows sorted by query.
        sample_weight : array-like of shape (n_queries,) or (n_rows,), optional
            Weights of the queries, in order of first appearance; or one weight per row, constant within a query.
        eval_set : tuple (X, y, qid) or list of such tuples, optional
            Validation sets. ``eval_metric`` is computed on each after every tree and stored in ``history_``. Early
            stopping uses the last one.
        callbacks : sequence of callables, or None, default=()
            Called after every tree with a :class:`~sparseleaf.callbacks.TrainingState`. Training stops when one of them
            returns True. None excludes this training from autologging, too.
        init_model : fitted ranker or Model, optional
            Continue training: add ``n_trees`` trees to those of this model.
        checkpoint : path-like, optional
            Checkpoint file: a local path or an fsspec URL. If it exists, training resumes from it; the model is
            byte-identical to that of an uninterrupted run.
        checkpoint_every : int, default=10
            Number of trees between two checkpoints.
        engine, layout
            See :meth:`MultiGBDTRegressor.fit`. All rows of a query must be on the same worker.

        Returns
        -------
        self : object
            Fitted estimator.
        """
        X, engine = self._vectorised(X, y, engine, self._init_vectorizer(init_model))
        rows = {"X": X, "y": y, "qid": qid, "group": group, "sample_weight": sample_weight}
        prepare = partial(self._prepare, eval_set, init_model, layout)
        Trainer(self, callbacks, (checkpoint, checkpoint_every)).fit(engine, rows, prepare)
        return self

    def update(
        self,
        X: Any,
        y: Any,
        *,
        qid: Any = None,
        how: str = "trees",
        n_trees: int | None = None,
        forget: float = 0.0,
    ) -> Self:
        """Update the fitted model with new rows. The trees are not regrown.

        Before the update, the model is evaluated on the new rows: see ``drift_``.

        Parameters
        ----------
        X : {array-like, DataFrame, sparse matrix} of shape (n_rows, n_features)
            Features of the new rows, as in ``fit``. Zero rows change nothing.
        y : array-like of shape (n_rows,)
            Relevance grades >= 0.
        qid : array-like of shape (n_rows,)
            Query of each row, in any order.
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
        update_dense(self, X, y, how, n_trees, forget, {"qid": qid})
        return self

    def _partition(
        self, X: Any, y: Any, sample_weight: Any = None, qid: Any = None, group: Any = None
    ) -> DensePartition:
        part = super()._partition(X, y)
        part.queries = make_queries(part.targets.n_rows, qid, group, sample_weight)
        return part

    def predict(self, X: Any) -> Array:
        """Predict ranking scores.

        Parameters
        ----------
        X : {array-like, DataFrame, sparse matrix} of shape (n_rows, n_features), or texts
            Features of the documents.

        Returns
        -------
        scores : ndarray of float32, shape (n_rows,)
            Within a query, a higher score is a better rank.
        """
        return self._scores(X)[:, 0]

    def score(self, X: Any, y: Any, qid: Any = None, *, group: Any = None) -> float:
        """Mean NDCG@5 over the queries that have a relevant document.

        Parameters
        ----------
        X : {array-like, DataFrame, sparse matrix} of shape (n_rows, n_features), or texts
            Features of the documents.
        y : array-like of shape (n_rows,)
            Relevance grades.
        qid, group
            Queries of the rows, as in :meth:`fit`.

        Returns
        -------
        score : float
            Mean NDCG@5.
        """
        return mean_of(ndcg(y, self.predict(X), qid, group=group, k=5))

    def rank(self, X: Any, qid: Any = None, *, group: Any = None) -> list[tuple[Any, Array]]:
        """Rank the documents of each query.

        Parameters
        ----------
        X : {array-like, DataFrame, sparse matrix} of shape (n_rows, n_features), or texts
            Features of the documents.
        qid, group
            Queries of the rows, as in :meth:`fit`.

        Returns
        -------
        rankings : list of (query, ndarray)
            For each query, its id and the numbers of its rows, best first.
        """
        scores = self.predict(X)
        queries = make_queries(len(scores), qid, group)
        rankings = []
        for q, name in enumerate(queries.ids.tolist()):
            rows = queries.order[queries.indptr[q] : queries.indptr[q + 1]]
            rankings.append((name, rows[np.argsort(-scores[rows], kind="stable")]))
        return rankings

    def report(self, X: Any, y: Any, qid: Any = None, *, group: Any = None, **options: Any) -> Report:
        """Evaluate the model on graded rows and make a report: one self-contained HTML file.

        Parameters
        ----------
        X : {array-like, DataFrame, sparse matrix} of shape (n_rows, n_features), or texts
            Features of the documents.
        y : array-like of shape (n_rows,)
            Relevance grades.
        qid, group
            Queries of the rows, as in :meth:`fit`.
        **options
            Keyword arguments of :meth:`MultiGBDTRegressor.report`.

        Returns
        -------
        report : Report
            Notebooks show it, ``report.save("report.html")`` writes it.
        """
        from sparseleaf.report.build import build_report
        from sparseleaf.report.options import Options

        return build_report(self, X, y, Options(**options), qid=qid, group=group)

    def shap_values(self, X: Any, *, memory_mb: int = MEMORY_MB) -> tuple[Array, Array]:
        """Explain scores by exact Shapley values (path-dependent TreeSHAP).

        Parameters
        ----------
        X : {array-like, DataFrame, sparse matrix} of shape (n_rows, n_features), or texts
            Features of the documents.
        memory_mb : int, default=4096
            Maximum size of the result in MiB.

        Returns
        -------
        values : ndarray of float64, shape (n_rows, n_features, 1)
            Contribution of each feature to the score of each row.
        expected : ndarray of float64, shape (1,)
            Expected score: ``values.sum(axis=1) + expected`` equals the scores of the rows.
        """
        return self._explain(X, None, memory_mb, "outputs")

    # --- inside

    def _settings(self) -> Settings:
        return Settings(**{**ONE_OUTPUT, **vars(super()._settings())})

    def _dense_loss(self, kind: str) -> RankingObjective:
        """The loss without queries, for its properties only."""
        params = self._settings()
        return ranking_objective(params.loss).of(params, make_queries(0, group=np.empty(0, np.int64)))

    def _encode(self, y: Any, n_rows: int, known: KnownTargets | None) -> tuple[KnownTargets, DenseTargets]:
        grades = check_grades(y, n_rows).astype(np.float32)[:, None]
        return KnownTargets("regression-column", None, np.array([n_rows])), DenseTargets(
            grades, NO_CLASSES, NO_VALUES, 1
        )

    def _loss_of_rows(self, loss: DenseObjective) -> Callable[[Queries | None], DenseObjective]:
        return _WithQueries(loss)

    def _eval_rows(self, problem: Problem, X: Any, y: Any, qid: Any = None) -> ValidationSet:
        X = self._eval_features(X, problem.categories)
        _, targets = self._encode(y, X.shape[0], None)
        queries = make_queries(X.shape[0], qid)
        metric = _metric(self.eval_metric, queries.of_rows())
        if np.isnan(metric.measure(targets, targets.values)):
            raise ValueError(
                f"eval_metric={self.eval_metric!r} is undefined on every query; eval_set must have a query with"
                " documents of"
                " different grades, at least one of them above 0."
            )
        return ValidationSet(X, targets, metric, queries)


@dataclass(frozen=True)
class _WithQueries:
    """Sets the queries of a loss."""

    loss: Any

    def __call__(self, queries: Queries | None) -> DenseObjective:
        loss: DenseObjective = replace(self.loss, queries=queries)
        return loss


def _metric(name: str, qid: Array) -> Metric:
    kind, _, depth = name.partition("@")

    def measure(targets: DenseTargets, scores: Array) -> float:
        y, predicted = targets.values[:, 0], scores[:, 0]
        if kind == "ndcg":
            return mean_of(ndcg(y, predicted, qid, k=int(depth)))
        each = {"map": average_precision, "mrr": reciprocal_rank, "pairwise": pairwise_accuracy}[kind]
        return mean_of(each(y, predicted, qid))

    return Metric(name, True, measure)
