"""Updating fitted boosted trees with dense losses: regressors, classifiers and rankers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from sparseleaf.data.rows import RowsInfo
from sparseleaf.data.targets import Targets
from sparseleaf.estimators.updating import check_how, n_rows_of, new_rows
from sparseleaf.model.drift import measure_drift, measure_metric_drift, record_of
from sparseleaf.model.update import updated_model
from sparseleaf.objectives.targets import TargetForm
from sparseleaf.progress import phase, reporting
from sparseleaf.training.dense import Problem
from sparseleaf.training.dense_targets import KnownTargets, weighted
from sparseleaf.training.more_trees import n_more_trees
from sparseleaf.training.refresh_dense import refresh_dense
from sparseleaf.training.rounds import n_rounds
from sparseleaf.training.validation import validated

if TYPE_CHECKING:
    from sparseleaf.estimators.dense import DenseGBDT
    from sparseleaf.model import AxisScorer, Model
    from sparseleaf.model.update import NewRows
    from sparseleaf.objectives.targets import DenseTargets

Rows = Mapping[str, Any]
"""Arguments of ``fit`` besides X and y, such as sample_weight."""


def update_dense(
    estimator: DenseGBDT, X: Any, y: Any, how: str, n_trees: int | None, forget: float, rows: Rows
) -> None:
    """Update a fitted estimator: see :meth:`~sparseleaf.MultiGBDTRegressor.update`."""
    model = estimator._model()
    check_how(how, n_trees, forget)
    estimator._check()
    if y is None:  # scikit-learn's message
        raise ValueError(f"{type(estimator).__name__} requires y to be passed, but the target y is None.")
    if n_rows_of(X) == 0:
        return
    X = estimator._as_features(X)
    problem = problem_of(estimator, model)
    queries = {"qid": rows["qid"]} if "qid" in rows else {}
    valid = estimator._eval_rows(problem, X, y, **queries)
    targets = weighted(valid.targets, rows.get("sample_weight"))
    kind: Any = model.target_kind
    labels = Targets(labels_of(targets, estimator.predicts_labels), model.label_names, kind)

    def leaves(scorer: AxisScorer, new: NewRows) -> AxisScorer:
        loss = estimator._loss_of_rows(problem.loss)(valid.queries)
        trees = refresh_dense(scorer, scorer.leaves(new.rows()), targets, loss, new)
        return replace(scorer, trees=trees)

    def trees(scorer: AxisScorer, new: NewRows) -> AxisScorer:
        extra = clone(estimator).set_params(
            n_trees=n_more_trees(n_rounds(model), new) if n_trees is None else n_trees,
            n_models=1,
            early_stopping_rounds=None,
            warm_start=False,
            vectorizer=None,
            random_state=new.seed,
        )
        extra._known_before = problem.known
        extra.fit(X, y, init_model=replace(model, stages=(scorer,)), **rows)
        if extra.interrupted_:
            raise KeyboardInterrupt
        grown: AxisScorer = extra.model_.scorer
        return grown

    new = new_rows(estimator, valid.features, labels, forget, leaves if how == "leaves" else trees)
    with reporting(estimator.verbose):
        with phase("measuring drift"):
            drift = measure_drift(new)
            if not estimator.predicts_labels:
                scores = model.dense(valid.features, None, new.n_jobs)
                metric, value = valid.metric, valid.metric.measure(targets, scores)
                drift = measure_metric_drift(
                    drift,
                    model,
                    validated(model.history, metric.name, n_rounds(model)),
                    metric.name,
                    value,
                    metric.higher_is_better,
                )
        with phase("updating"):
            updated = updated_model(new)
    if how == "trees":  # rounds after the best one are not in the model
        rounds = n_rounds(model)
        updated = replace(updated, history={name: values[:rounds] for name, values in model.history.items()})
    estimator._adopt(replace(updated, updates=(*model.updates, record_of(drift, model))))
    estimator.drift_ = drift


def problem_of(estimator: DenseGBDT, model: Model) -> Problem:
    """The learning problem of a fitted model."""
    known = KnownTargets(model.target_kind, model.label_names, np.asarray(model.label_counts, np.int64))
    rows = RowsInfo(model.n_train_rows, model.n_features, False, False, model.feature_names)
    form = TargetForm(model.n_labels, False, 0)
    return Problem(rows, model.categories, known, form, estimator._dense_loss(model.target_kind))


def labels_of(targets: DenseTargets, predicts_labels: bool) -> sp.csr_matrix:
    """True labels; for numbers, which outputs are known, by which rows are counted."""
    if len(targets.classes):
        row = np.flatnonzero(targets.classes >= 0)
        shape = (len(targets.classes), targets.n_outputs)
        ones = np.ones(len(row), np.float32)
        return sp.csr_matrix((ones, (row, targets.classes[row])), shape=shape)
    counted = targets.values == 1 if predicts_labels else ~np.isnan(targets.values)
    return sp.csr_matrix(counted.astype(np.float32))
