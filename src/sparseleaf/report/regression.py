"""Multi-output regression in a report: errors per output, residuals, discriminative features."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sparseleaf._errors import MEASURES, output_errors
from sparseleaf.report.labels import label_features
from sparseleaf.report.rows import evenly
from sparseleaf.training.dense_targets import as_numbers, in_order

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.report.names import FeatureList
    from sparseleaf.report.options import Options

PLOTTED = 6
"""Number of outputs with residual plots, those of lowest R²."""

POINTS = 800
"""Points of a plot."""

BINS = 31
"""Bins of a histogram."""


def known_targets(estimator: Any, y: Any, n_rows: int) -> Array:
    """True values, float64 (n_rows, n_outputs); NaN if unknown."""
    model = estimator.model_
    values = y.toarray() if hasattr(y, "toarray") else as_numbers(in_order(y, model.label_names))
    truth = np.asarray(values, np.float64).reshape(len(values), -1)
    if truth.shape != (n_rows, model.n_labels):
        raise ValueError(
            f"y must have shape ({n_rows}, {model.n_labels}), as in training. Got {truth.shape} instead."
        )
    return truth


def output_names(estimator: Any) -> list[str]:
    """Names of the outputs, y0, y1, … if they have none."""
    model = estimator.model_
    if model.label_names is None:
        return [f"y{number}" for number in range(model.n_labels)]
    return [str(name) for name in model.label_names.tolist()]


def regression(
    estimator: Any, truth: Array, predicted: Array, options: Options, features: FeatureList
) -> dict[str, Any]:
    """Parts of a report for a regressor."""
    errors = output_errors(truth, predicted)
    known = ~np.isnan(truth)
    n_known = known.sum(axis=0)
    bias = np.where(known, predicted - truth, 0.0).sum(axis=0) / np.maximum(n_known, 1)
    names = output_names(estimator)
    worst = np.argsort(np.nan_to_num(errors["r2"], nan=np.inf), kind="stable")[:PLOTTED]
    return {
        "metrics": {name: _mean(errors[name]) for name in MEASURES},
        "outputs": {
            "names": names,
            "known": n_known.tolist(),
            **{name: listed(errors[name]) for name in MEASURES},
            "bias": listed(bias),
            "features": label_features(estimator, n_known, options.n_importances, features),
        },
        "residuals": [
            {"name": names[output], **_residuals(truth[:, output], predicted[:, output])}
            for output in np.sort(worst).tolist()
            if n_known[output]
        ],
    }


def listed(values: Array) -> list[float | None]:
    """Numbers as JSON has them: None for NaN, six digits."""
    return [float(f"{value:.6g}") if np.isfinite(value) else None for value in values.tolist()]


def _mean(values: Array) -> float | None:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else None


def _residuals(truth: Array, predicted: Array) -> dict[str, Any]:
    """Points of predicted against true values, and a histogram of the residuals, true - predicted."""
    known = np.flatnonzero(~np.isnan(truth))
    truth, predicted = truth[known], predicted[known]
    shown = evenly(len(known), POINTS)
    counts, edges = np.histogram(truth - predicted, BINS)
    return {
        "true": listed(truth[shown]),
        "predicted": listed(predicted[shown]),
        "edges": listed(edges),
        "counts": counts.tolist(),
    }
