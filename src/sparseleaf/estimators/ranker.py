"""GBDTRanker: boosted trees that rank the documents of a query (GBRank, SmoothDCG, LambdaMART)."""

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
from sparseleaf.training.dense import Problem, Watched
from sparseleaf.training.dense_targets import KnownTargets
from sparseleaf.training.trainer import Trainer
from sparseleaf.training.validation import EvalSet

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.estimators.base import ModelEstimator
    from sparseleaf.model import Model
    from sparseleaf.objectives.dense import DenseObjective
    from sparseleaf.objectives.queries import Queries
    from sparseleaf.training.dense_partition import DensePartition

ONE_OUTPUT: dict[str, Any] = {
    "leaf_labels": None,
    "leaf_min_gain": 0.0,
    "hessian": "diagonal",
    "split": "full",
    "sketch": "random-projection",
    "sketch_dim": 32,
    "tree_per_output": False,
}
"""What a tree with one output leaves no choice of."""


@documented
@named
class GBDTRanker(DenseGBDT):
    """Gradient boosted trees whose scores put the documents of a query in order.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    model_ : Model
    history_ : dict of str to list of float
        ``eval_metric`` after every tree, where there was a validation set: ``"valid ndcg@5"``, or ``"valid_0 ndcg@5"``,
        ``"valid_1 ndcg@5"``, … where there were several.
    best_iteration_ : int
        Trees in the model.
    interrupted_ : bool
        Whether Ctrl-C ended ``fit`` early, which keeps the trees grown so far.
    n_features_in_ : int

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
    parameter_table: ClassVar[Table] = RANKER

    def __init__(
        self,
        n_trees: int = 100,
        learning_rate: float = 0.1,
        loss: str = "lambdamart",
        *,
        metric: str = "ndcg",
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
        eval_metric: str = RankingObjective.default_metric,
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
        self.metric = metric
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
            NaN is a missing value.
        y : array-like, shape (n_rows,)
            Grades, 0 or more; the higher the better.
        qid : array-like, shape (n_rows,)
            The query of every row, in any order.
        group : array-like of int
            Instead of ``qid``: rows of every query, one query after the other.
        sample_weight : array-like, shape (n_queries,), optional
            Weights of queries, in order of first appearance; or one a row, the same within a query.
        eval_set : (X, y, qid) or list of such tuples, optional
            Validation sets, on which ``eval_metric`` is measured after every tree: see ``history_``. Early stopping
            looks at the last one.
        callbacks : sequence of callables
            Called with a :class:`~sparseleaf.callbacks.TrainingState` after every tree; True stops the training.
        init_model : fitted ranker or Model, optional
            Go on from its trees with ``n_trees`` more, on these rows.
        checkpoint : path, optional
            File that keeps the trees so far: where it is there, training goes on from it, to the same bytes as if it
            had never stopped. Local, or a URL that fsspec knows.
        checkpoint_every : int, default=10
            Trees between two writings.
        engine, layout
            See :meth:`MultiGBDTRegressor.fit`; all rows of a query must be in one part.

        Returns
        -------
        self
        """
        rows = {"X": X, "y": y, "qid": qid, "group": group, "sample_weight": sample_weight}
        prepare = partial(self._prepare, eval_set, init_model, layout)
        Trainer(self, callbacks, (checkpoint, checkpoint_every)).fit(engine, rows, prepare)
        return self

    def _partition(
        self, X: Any, y: Any, sample_weight: Any = None, qid: Any = None, group: Any = None
    ) -> DensePartition:
        part = super()._partition(X, y)
        part.queries = make_queries(part.targets.n_rows, qid, group, sample_weight)
        return part

    def predict(self, X: Any) -> Array:
        """Scores, float32 (n_rows,): within a query, the higher the better."""
        return self._scores(X)[:, 0]

    def score(self, X: Any, y: Any, qid: Any = None, *, group: Any = None) -> float:
        """Mean NDCG@5 over the queries that have a relevant document."""
        return mean_of(ndcg(y, self.predict(X), qid, group=group, k=5))

    def rank(self, X: Any, qid: Any = None, *, group: Any = None) -> list[tuple[Any, Array]]:
        """For every query, its id and its rows from best to worst."""
        scores = self.predict(X)
        queries = make_queries(len(scores), qid, group)
        found = []
        for q, name in enumerate(queries.ids.tolist()):
            rows = queries.order[queries.indptr[q] : queries.indptr[q + 1]]
            found.append((name, rows[np.argsort(-scores[rows], kind="stable")]))
        return found

    def shap_values(self, X: Any, *, memory_mb: int = MEMORY_MB) -> tuple[Array, Array]:
        """What every feature adds to the score of a row: exact Shapley values (path-dependent TreeSHAP).

        Parameters
        ----------
        X : array-like, DataFrame or sparse matrix, shape (n_rows, n_features)
        memory_mb : int, default=4096
            The answer may take so many MiB; more is refused.

        Returns
        -------
        values : float64 array, shape (n_rows, n_features, 1)
        expected : float64 array, shape (1,)
            Score of a row of which nothing is known: ``values.sum(axis=1) + expected`` are those of the rows.
        """
        return self._explain(X, None, memory_mb, "outputs")

    # --- inside

    def _settings(self) -> Settings:
        return Settings(**{**ONE_OUTPUT, **vars(super()._settings())})

    def _dense_loss(self, kind: str) -> RankingObjective:
        """The loss where only its form counts, not the queries."""
        params = self._settings()
        return ranking_objective(params.loss).of(params, make_queries(0, group=np.empty(0, np.int64)))

    def _encode(self, y: Any, n_rows: int, known: KnownTargets | None) -> tuple[KnownTargets, DenseTargets]:
        grades = check_grades(y, n_rows).astype(np.float32)[:, None]
        return KnownTargets("regression-column", None, np.array([n_rows])), DenseTargets(
            grades, NO_CLASSES, NO_VALUES, 1
        )

    def _loss_of_rows(self, loss: DenseObjective) -> Callable[[Queries | None], DenseObjective]:
        return _WithQueries(loss)

    def _eval_rows(self, problem: Problem, X: Any, y: Any, qid: Any = None) -> Watched:
        X = self._eval_features(X, problem.categories)
        _, targets = self._encode(y, X.shape[0], None)
        queries = make_queries(X.shape[0], qid)
        metric = _metric(self.eval_metric, queries.of_rows())
        if np.isnan(metric.measure(targets, targets.values)):
            raise ValueError(
                f"found no query that eval_metric={self.eval_metric!r} can tell a good ranking of; wanted one with"
                " documents of different grades, one of them above 0."
            )
        return Watched(X, targets, metric, queries)


@dataclass(frozen=True)
class _WithQueries:
    """The loss of some rows' queries."""

    loss: Any

    def __call__(self, queries: Queries | None) -> DenseObjective:
        found: DenseObjective = replace(self.loss, queries=queries)
        return found


def _metric(name: str, qid: Array) -> Metric:
    kind, _, depth = name.partition("@")

    def measure(targets: DenseTargets, scores: Array) -> float:
        y, found = targets.values[:, 0], scores[:, 0]
        if kind == "ndcg":
            return mean_of(ndcg(y, found, qid, k=int(depth)))
        each = {"map": average_precision, "mrr": reciprocal_rank, "pairwise": pairwise_accuracy}[kind]
        return mean_of(each(y, found, qid))

    return Metric(name, True, measure)
