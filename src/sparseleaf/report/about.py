"""The model in a report: stages, size, latency, parameters, learning curve and fingerprints of the data."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from sparseleaf._arrays import effective_n_jobs
from sparseleaf.fingerprint import describe
from sparseleaf.report.names import Column, FeatureList, columns_of
from sparseleaf.report.rows import count, evenly, take

if TYPE_CHECKING:
    from sparseleaf.model import Model

SINGLE_ROWS = 100
"""Rows that are predicted one at a time to measure latency."""

BATCH_ROWS = 10_000
"""Rows of a batch."""

IMPORTANCES = 20
"""Features with the largest importances."""

DESCRIBING = 3
"""Features that describe a projected one."""


def about(estimator: Any, X: Any, truth: Any, latency: bool, features: FeatureList) -> dict[str, Any]:
    """Parts of a report that every estimator has."""
    from sparseleaf import __version__

    model: Model = estimator.model_
    return {
        "about": {
            "estimator": type(estimator).__name__,
            "method": model.method,
            "version": __version__,
            "created": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
            "n_trees": model.n_trees,
            "n_labels": model.n_labels,
            "n_features": model.n_features,
            "n_train_rows": model.n_train_rows,
            "n_rows": count(X),
            "stages": [stage.kind for stage in model.stages],
            "bytes": model_bytes(model),
            "parameters": {name: _plain(value) for name, value in model.parameters.items()},
            "defaults": _defaults(estimator),
            "fingerprints": {
                "X": describe(estimator._features(X)),
                "y": describe(truth),
            },
            "latency": _latency(estimator, X) if latency else None,
        },
        "history": {name: [_finite(value) for value in values] for name, values in model.history.items()},
        "importances": _importances(model, features),
    }


def model_bytes(model: Model) -> dict[str, int]:
    """Bytes of the tensors in the model file, by stage."""
    return {
        stage.kind: sum(int(tensor.nbytes) for tensor in stage.tensors(True).values())
        for stage in model.stages
    }


def _latency(estimator: Any, X: Any) -> dict[str, Any]:
    """Milliseconds of single-row predictions, and rows per second of a batch."""
    predict = _prediction(estimator)
    some = evenly(count(X), SINGLE_ROWS)
    predict(take(X, some[:1]))  # the first prediction prepares the model
    singles = [_seconds(predict, take(X, [row])) for row in some]
    batch = take(X, np.arange(min(BATCH_ROWS, count(X))))
    return {
        "single_ms": 1000 * float(np.median(singles)),
        "single_p95_ms": 1000 * float(np.quantile(singles, 0.95)),
        "batch_rows": count(batch),
        "batch_ms_per_row": 1000 * _seconds(predict, batch) / count(batch),
        "threads": effective_n_jobs(estimator.n_jobs),
    }


def _prediction(estimator: Any) -> Callable[[Any], Any]:
    if hasattr(estimator, "predict_topk"):
        return lambda X: estimator.predict_topk(X, 5)
    predict: Callable[[Any], Any] = estimator.predict
    return predict


def _seconds(predict: Callable[[Any], Any], X: Any) -> float:
    start = time.perf_counter()
    predict(X)
    return time.perf_counter() - start


def _importances(model: Model, features: FeatureList) -> list[list[Any]]:
    """Names and importances of the most important columns of the trees."""
    try:
        columns, values = model.scorer.importances()
    except AttributeError:  # a blend of models with different columns
        return []
    order = np.argsort(-values, kind="stable")[:IMPORTANCES]
    order = order[values[order] > 0]
    named = columns_of(model, columns[order], features)
    return [
        [_described(column, features), value]
        for column, value in zip(named, values[order].tolist(), strict=True)
    ]


def _described(column: Column, features: FeatureList) -> str:
    """Name of a column, and the most important features of a projected one."""
    terms = ", ".join(features.of(column.features[:DESCRIBING]))
    return f"{column.name}: {terms}, …" if terms else column.name


def _defaults(estimator: Any) -> dict[str, Any]:
    return {name: _plain(parameter.default) for name, parameter in estimator.parameter_table.items()}


def _plain(value: Any) -> str:
    """A parameter as text; long ones are shortened."""
    text = str(value)
    return text if len(text) <= 200 else f"{text[:200]}…"


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
