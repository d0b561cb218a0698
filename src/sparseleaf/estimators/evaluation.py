"""Evaluation metrics of dense models on validation sets: by name, or a user-defined callable."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from sparseleaf.metrics import ndcg_at_k, precision_at_k

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.objectives.dense import DenseObjective
    from sparseleaf.objectives.targets import DenseTargets

LOWER_IS_BETTER = frozenset(("loss", "rmse", "mae"))
"""Metrics that measure an error."""

MetricFunction = Callable[[Any, Any], tuple[str, float, bool]]
"""``metric(targets, predictions)`` returns (name, value, higher_is_better)."""


@dataclass(frozen=True)
class Metric:
    """A metric of raw scores against targets."""

    name: str
    higher_is_better: bool
    measure: Callable[[DenseTargets, Array], float]


def higher_is_better(metric: str) -> bool:
    """Whether a higher value of the metric is better."""
    return metric not in LOWER_IS_BETTER


def make_metric(
    metric: str | MetricFunction, loss: DenseObjective, targets: DenseTargets, threshold: float = 0.0
) -> Metric:
    """Create a metric from its name or from a callable; ``targets`` are those of the validation set.

    ``threshold`` is the raw score of a label with a probability of 0.5.
    """
    if callable(metric):
        return _custom(metric, loss, targets)
    if metric == "loss":
        return Metric(metric, higher_is_better(metric), loss.value)
    if metric == "accuracy":
        return Metric(metric, higher_is_better(metric), partial(_accuracy, threshold))
    if "@" in metric:
        if int(metric.partition("@")[2]) > targets.n_outputs:
            raise ValueError(
                f"eval_metric={metric!r} requires at least {metric.partition('@')[2]} outputs. Got"
                f" {targets.n_outputs} instead."
            )
        return Metric(metric, True, partial(known_ranking, metric))

    def regression(known: DenseTargets, scores: Array) -> float:
        y, weights = known.values.astype(np.float64), known.known_weights()
        error = np.nan_to_num(y - loss.link.apply(scores.astype(np.float64)))
        if metric == "mae":
            return float(np.average(np.abs(error), weights=weights))
        if metric == "rmse":
            return float(np.sqrt(np.average(error**2, weights=weights)))
        total = weights.sum(axis=0)
        mean = np.nansum(y * weights, axis=0) / np.where(total > 0, total, 1)
        around = (weights * np.nan_to_num(y - mean) ** 2).sum(axis=0)
        unexplained = (weights * error**2).sum(axis=0) / np.where(around > 0, around, 1)
        return float(np.mean(1 - unexplained[around > 0])) if (around > 0).any() else 0.0

    return Metric(metric, higher_is_better(metric), regression)


def _accuracy(threshold: float, targets: DenseTargets, scores: Array) -> float:
    """Accuracy; for multi-label targets, of the (row, label) pairs at probability 0.5."""
    weights = targets.known_weights()
    if len(targets.classes):
        return float(np.average(scores.argmax(axis=1) == targets.classes, weights=weights[:, 0]))
    return float(np.average((scores > threshold) == (targets.values > 0.5), weights=weights))


def known_ranking(metric: str, targets: DenseTargets, scores: Array) -> float:
    """precision@k or ndcg@k over labels with known targets; rows without any are skipped."""
    name, _, depth = metric.partition("@")
    k, function = int(depth), precision_at_k if name == "precision" else ndcg_at_k
    values = targets.as_matrix()
    known = ~np.isnan(values)
    rows = known.any(axis=1)
    if not rows.any():
        raise ValueError("y must have at least one value that is not NaN.")
    scores = np.where(known, scores, -np.inf)[rows]
    best = np.argsort(-scores, axis=1, kind="stable")[:, :k].astype(np.int32)
    best[np.take_along_axis(scores, best, axis=1) == -np.inf] = -1
    return float(function(sp.csr_matrix(np.nan_to_num(values[rows]) > 0.5), best, k))


def _custom(metric: MetricFunction, loss: DenseObjective, targets: DenseTargets) -> Metric:
    def call(known: DenseTargets, scores: Array) -> tuple[str, float, bool]:
        result = metric(known.classes if len(known.classes) else known.values, loss.link.apply(scores.copy()))
        if not isinstance(result, tuple) or len(result) != 3:
            raise ValueError(
                "The callable passed as 'eval_metric' must return (name, value, higher_is_better). Got"
                f" {result!r:.60} instead."
            )
        return str(result[0]), float(result[1]), bool(result[2])

    name, _, higher = call(targets, np.zeros((targets.n_rows, targets.n_outputs), np.float32))
    return Metric(name, higher, lambda known, scores: call(known, scores)[1])
