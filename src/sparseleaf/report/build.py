"""The data of a report: predictions on labelled rows, and all parts of the page as JSON values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import has_fit_parameter

from sparseleaf.estimators.explaining import make_names
from sparseleaf.progress import phase, reporting
from sparseleaf.ranking import check_grades, make_queries
from sparseleaf.report.about import about
from sparseleaf.report.classification import Ranked, classification
from sparseleaf.report.examples import label_examples, value_examples
from sparseleaf.report.names import FeatureList
from sparseleaf.report.ranking import ranking, top_rows
from sparseleaf.report.regression import known_targets, regression
from sparseleaf.report.report import Report
from sparseleaf.report.rows import count
from sparseleaf.report.trees import browser

if TYPE_CHECKING:
    from sparseleaf.report.options import Options


def build_report(
    estimator: Any, X: Any, y: Any, options: Options, *, qid: Any = None, group: Any = None
) -> Report:
    """Evaluate a fitted estimator on labelled rows; see :meth:`report` of the estimators."""
    model = estimator._model()
    features = FeatureList(make_names(model, options.feature_names, options.titles))
    with reporting(getattr(estimator, "verbose", 0)), phase("report"):
        rows = estimator._as_features(X)
        if count(rows) == 0:
            raise ValueError("X must have at least one row.")
        texts = None if rows is X else X
        if is_classifier(estimator):
            task, truth, parts = _labels(estimator, rows, texts, y, options, features)
        elif has_fit_parameter(estimator, "qid"):
            task, truth, parts = _queries(estimator, rows, texts, y, options, features, qid, group)
        else:
            task, truth, parts = _outputs(estimator, rows, texts, y, options, features)
        data = {
            "title": options.title or f"{type(estimator).__name__} report",
            "task": task,
            **parts,
            **about(estimator, rows, truth, options.latency, features),
            "trees": browser(model, options.n_trees, features),
        }
    return Report(data | {"features": features.names()})


def _labels(
    estimator: Any, X: Any, texts: Any, y: Any, options: Options, features: FeatureList
) -> tuple[str, Any, dict[str, Any]]:
    ranked = Ranked.of(estimator, X, y, options.decode)
    parts = classification(estimator, X, ranked, options, features)
    parts["examples"] = label_examples(estimator, X, texts, ranked, options, features)
    return "labels", ranked.truth, parts


def _outputs(
    estimator: Any, X: Any, texts: Any, y: Any, options: Options, features: FeatureList
) -> tuple[str, Any, dict[str, Any]]:
    truth = known_targets(estimator, y, count(X))
    predicted = np.asarray(estimator.predict(X), np.float64).reshape(truth.shape)
    parts = regression(estimator, truth, predicted, options, features)
    error = (np.nan_to_num(truth - predicted) ** 2).sum(axis=1)
    parts["examples"] = value_examples(estimator, X, texts, truth, predicted, error, options, features)
    return "outputs", truth, parts


def _queries(
    estimator: Any,
    X: Any,
    texts: Any,
    y: Any,
    options: Options,
    features: FeatureList,
    qid: Any,
    group: Any,
) -> tuple[str, Any, dict[str, Any]]:
    make_queries(count(X), qid, group)  # raises before anything is predicted
    grades = check_grades(y, count(X))
    scores = np.asarray(estimator.predict(X), np.float64)
    parts = ranking(grades, scores, qid, group)
    parts["outputs"] = {"names": ["relevance"]}
    error = top_rows(grades, scores, qid, group)
    parts["examples"] = value_examples(
        estimator, X, texts, grades[:, None], scores[:, None], error, options, features
    )
    return "queries", grades, parts
