"""Example rows of a report: true and predicted labels or values, and the reasons of the predictions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sparseleaf.report.rows import evenly, take, text_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sparseleaf._arrays import Array
    from sparseleaf.model.explanation import LabelExplanation
    from sparseleaf.report.classification import Ranked
    from sparseleaf.report.names import FeatureList
    from sparseleaf.report.options import Options

LABELS = 5
"""Predicted labels per row."""

OUTPUTS = 3
"""Explained outputs per row of a regressor."""

REASONS = 8
"""Features per label."""

SAMPLE, ERROR = "sample", "error"


def label_examples(
    estimator: Any, X: Any, texts: Any, ranked: Ranked, options: Options, features: FeatureList
) -> dict[str, Any]:
    """Rows of a classifier: evenly spaced ones, and those with the most confident errors."""
    wrong = ~ranked.hits[:, 0] & np.isfinite(ranked.scores[:, 0])
    rows = _chosen_rows(len(ranked.ids), options.n_examples, np.where(wrong, ranked.scores[:, 0], -np.inf))
    numbers = [row for row, _ in rows]
    explained, note = _explained(estimator, X, numbers, options, k=min(LABELS, ranked.depth))
    examples = []
    for place, (row, kind) in enumerate(rows):
        truth = ranked.truth.indices[ranked.truth.indptr[row] : ranked.truth.indptr[row + 1]]
        true = set(truth.tolist())
        predicted = []
        for rank in range(min(LABELS, ranked.depth)):
            label = int(ranked.ids[row, rank])
            if label < 0:
                break
            reasons = None if explained is None else _reasons(explained[place][rank], features)
            score = float(ranked.scores[row, rank])
            predicted.append({"label": label, "score": score, "hit": label in true, "reasons": reasons})
        examples.append(
            {
                "row": row,
                "kind": kind,
                "text": _text(texts, row),
                "true": truth.tolist(),
                "predicted": predicted,
            }
        )
    return {"rows": examples, "note": note}


def value_examples(
    estimator: Any,
    X: Any,
    texts: Any,
    truth: Array,
    predicted: Array,
    error: Array,
    options: Options,
    features: FeatureList,
) -> dict[str, Any]:
    """Rows of a regressor or ranker: evenly spaced ones, and those with the largest ``error``."""
    rows = _chosen_rows(len(truth), options.n_examples, error)
    names = estimator.model_.label_names
    n_outputs = min(OUTPUTS, truth.shape[1])
    outputs = list(range(n_outputs)) if names is None else names[:n_outputs].tolist()
    explained, note = _explained(estimator, X, [row for row, _ in rows], options, labels=outputs)
    examples = []
    for place, (row, kind) in enumerate(rows):
        values = []
        for output in range(n_outputs):
            known = truth[row, output]
            reasons = None if explained is None else _reasons(explained[place][output], features)
            values.append(
                {
                    "label": output,
                    "true": None if np.isnan(known) else float(known),
                    "score": float(predicted[row, output]),
                    "reasons": reasons,
                }
            )
        examples.append({"row": row, "kind": kind, "text": _text(texts, row), "predicted": values})
    return {"rows": examples, "note": note}


def _chosen_rows(n_rows: int, n: int, error: Array) -> list[tuple[int, str]]:
    """Row numbers with their kinds: half of them evenly spaced, the others of largest error."""
    n_errors = n // 2
    worst = np.argsort(-error, kind="stable")[:n_errors]
    errors = [row for row in worst.tolist() if np.isfinite(error[row])]
    sample = [row for row in evenly(n_rows, n - len(errors)) if row not in errors]
    return [(row, SAMPLE) for row in sample] + [(row, ERROR) for row in errors]


def _explained(
    estimator: Any, X: Any, rows: Sequence[int], options: Options, **labels: Any
) -> tuple[Any, str]:
    """Explanation of rows; None and the reason if the model cannot explain them."""
    if not rows:
        return None, ""
    try:
        explanation = estimator.explain(
            take(X, rows), feature_names=options.feature_names, titles=options.titles, **labels
        )
        return list(explanation), ""
    except ValueError as error:  # model files of version 1
        return None, str(error)


def _reasons(one: LabelExplanation, features: FeatureList) -> dict[str, Any]:
    """An explanation as JSON values; features are positions in the list of the report."""
    some = slice(REASONS)
    return {
        "prediction": one.prediction,
        "base": _short(one.base),
        "features": features.places(one.features[some]),
        "values": [_short(value) for value in one.values[some].tolist()],
        "contributions": [_short(value) for value in one.contributions[some].tolist()],
        "n_others": max(0, len(one.features) - REASONS),
        "others": _short(float(one.contributions[REASONS:].sum())),
        "components": {name: _short(value) for name, value in one.components.items()},
        "neighbours": [[row, _short(similarity), title] for row, similarity, title in one.neighbours],
    }


def _text(texts: Any, row: int) -> str | None:
    if texts is None:
        return None
    return text_of(texts.iloc[row] if hasattr(texts, "iloc") else texts[row])


def _short(value: float) -> float | None:
    return float(f"{value:.4g}") if np.isfinite(value) else None
