"""Updating fitted forests: trees grown on new rows join the average."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from sparseleaf.data.targets import Targets
from sparseleaf.estimators.updating import check_how, n_rows_of, new_rows
from sparseleaf.estimators.updating_dense import labels_of, problem_of
from sparseleaf.model import AxisScorer, join_trees, with_scaled_values
from sparseleaf.model.drift import measure_drift, measure_metric_drift, record_of
from sparseleaf.model.update import updated_model
from sparseleaf.progress import phase, reporting
from sparseleaf.training.more_trees import n_more_trees
from sparseleaf.training.validation import validated

if TYPE_CHECKING:
    from sparseleaf.estimators.multi_forest import MultiForest
    from sparseleaf.model.update import NewRows


def update_forest(
    estimator: MultiForest, X: Any, y: Any, how: str, n_trees: int | None, sample_weight: Any
) -> None:
    """Update a fitted forest: see :meth:`~sparseleaf.MultiForestRegressor.update`."""
    model = estimator._model()
    if how != "trees":
        raise ValueError(f"The 'how' parameter must be 'trees' for a forest. Got {how!r} instead.")
    check_how(how, n_trees, 0.0)
    estimator._check()
    if y is None:  # scikit-learn's message
        raise ValueError(f"{type(estimator).__name__} requires y to be passed, but the target y is None.")
    if n_rows_of(X) == 0:
        return
    X = estimator._as_features(X)
    problem = problem_of(estimator, model)
    valid = estimator._eval_rows(problem, X, y)
    kind: Any = model.target_kind
    labels = Targets(labels_of(valid.targets, estimator.predicts_labels), model.label_names, kind)

    def more_trees(scorer: AxisScorer, new: NewRows) -> AxisScorer:
        extra = clone(estimator).set_params(
            n_trees=n_more_trees(estimator._settings().n_trees, new) if n_trees is None else n_trees,
            oob_score=False,
            vectorizer=None,
            random_state=new.seed,
        )
        extra._known_before = problem.known
        extra.fit(X, y, sample_weight=sample_weight)
        if extra.interrupted_:
            raise KeyboardInterrupt
        return average(scorer, extra.model_.scorer)

    new = new_rows(estimator, valid.features, labels, 0.0, more_trees)
    with reporting(estimator.verbose):
        with phase("measuring drift"):
            drift = measure_drift(new)
            if not estimator.predicts_labels:
                scores, metric = model.dense(valid.features, None, new.n_jobs), valid.metric
                value = metric.measure(valid.targets, scores)
                expected = validated(model.history, metric.name, model.n_trees)
                drift = measure_metric_drift(
                    drift, model, expected, metric.name, value, metric.higher_is_better
                )
        with phase("updating"):
            updated = updated_model(new)
    estimator._adopt(replace(updated, updates=(*model.updates, record_of(drift, model))))
    estimator.drift_ = drift


def average(first: AxisScorer, more: AxisScorer) -> AxisScorer:
    """The mean of all trees of two forests."""
    n_trees = first.n_trees + more.n_trees
    shares = [one.n_trees / n_trees for one in (first, more)]
    parts = [with_scaled_values(one.trees, share) for one, share in zip((first, more), shares, strict=True)]
    gain = first.trees.feature_gain + more.trees.feature_gain
    base_score = None
    if first.base_score is not None and more.base_score is not None:
        base_score = (shares[0] * first.base_score + shares[1] * more.base_score).astype(np.float32)
    trees = join_trees(parts[0], replace(parts[1], feature_gain=gain))
    return AxisScorer(trees, first.n_labels, base_score)
