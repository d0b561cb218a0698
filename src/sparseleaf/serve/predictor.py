"""From a validated request to predictions."""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import is_classifier

from sparseleaf.estimators.topk import topk
from sparseleaf.model.stage import Role
from sparseleaf.serve.errors import RequestError

if TYPE_CHECKING:
    from sparseleaf.serve.holder import Loaded
    from sparseleaf.serve.options import ServeOptions
    from sparseleaf.serve.schema import PredictRequest, SparseRow


PLAIN = (str, int, float, bool, type(None))
"""Types of JSON values that are not nested."""

EXPLAINED_FEATURES = 20
"""Maximum number of features per label in an explanation, those of largest contribution."""


def predict(loaded: Loaded, request: PredictRequest, options: ServeOptions) -> list[dict[str, Any]]:
    """Predictions of all rows, as JSON values.

    Raises
    ------
    RequestError
        If the rows do not fit the model, or the model does not support what is requested.
    """
    name = request.input
    n_rows = len(getattr(request, name))
    if not 1 <= n_rows <= options.max_rows:
        raise RequestError(
            422, f"A request must have from 1 to {options.max_rows:,} rows. Got {n_rows:,} instead.", name
        )
    if request.k > options.max_labels:
        raise RequestError(422, f"k must be at most {options.max_labels:,}. Got {request.k:,} instead.", "k")
    X = INPUT_FORMS[name](loaded.estimator, getattr(request, name))
    try:
        return _predictions(loaded, X, request)
    except ValueError as error:  # scikit-learn's validation of the features
        raise RequestError(422, str(error), name) from None


def _predictions(loaded: Loaded, X: Any, request: PredictRequest) -> list[dict[str, Any]]:
    estimator = loaded.estimator
    if not is_classifier(estimator):
        return _outputs(estimator, X, request)
    labels, scores = _ranked(estimator, X, request)
    rows = [
        _suggestions(names, values, request.threshold)
        for names, values in zip(labels.tolist(), scores.tolist(), strict=True)
    ]
    if loaded.uris is not None:
        for suggestion in chain.from_iterable(rows):
            suggestion["uri"] = loaded.uris.get(suggestion["label"])
    if request.explain:
        for suggestions, explanation in zip(rows, estimator.explain(X, k=request.k), strict=True):
            reasons = {entry["label"]: entry for entry in explanation.to_dict(EXPLAINED_FEATURES)["labels"]}
            for suggestion in suggestions:
                suggestion["explanation"] = reasons.get(suggestion["label"])
    return [{"labels": suggestions} for suggestions in rows]


def _ranked(estimator: Any, X: Any, request: PredictRequest) -> tuple[Any, Any]:
    if request.probabilities and estimator.model_.stage(Role.CALIBRATOR) is None:
        raise RequestError(
            422,
            "This model has no calibrated probabilities. Request scores, or calibrate the model.",
            "probabilities",
        )
    return topk(estimator, X, request.k, probabilities=request.probabilities)


def _suggestions(labels: list[Any], scores: list[float], threshold: float | None) -> list[dict[str, Any]]:
    least = -math.inf if threshold is None else threshold
    return [
        {"label": label, "score": score}
        for label, score in zip(labels, scores, strict=True)
        if score > -math.inf and score >= least
    ]


def _outputs(estimator: Any, X: Any, request: PredictRequest) -> list[dict[str, Any]]:
    for field in ("probabilities", "explain"):
        if getattr(request, field):
            raise RequestError(
                422, f"The model is a {type(estimator).__name__}: only classifiers support it.", field
            )
    values = np.asarray(estimator.predict(X))
    values = values[:, None] if values.ndim == 1 else values
    names = getattr(estimator, "output_names_", None)
    names = [f"y{i}" for i in range(values.shape[1])] if names is None else [str(name) for name in names]
    return [{"outputs": dict(zip(names, row, strict=True))} for row in values.tolist()]


# --- features of a request


@lru_cache(maxsize=64)
def _empty(n_rows: int, n_features: int) -> sp.csr_matrix:
    """A matrix to copy: the constructor takes as long as all else that a row needs."""
    return sp.csr_matrix((n_rows, n_features), dtype=np.float32)


def _sparse(estimator: Any, rows: list[SparseRow]) -> sp.csr_matrix:
    n_features = estimator.n_features_in_
    matrix = copy(_empty(len(rows), n_features))
    indptr = np.zeros(len(rows) + 1, np.int32)
    np.cumsum([len(row.indices) for row in rows], out=indptr[1:])
    indices = np.array([index for row in rows for index in row.indices], np.int64)
    if len(indices) and indices.max() >= n_features:
        entry = int(np.argmax(indices >= n_features))
        row = int(np.searchsorted(indptr, entry, side="right")) - 1
        raise RequestError(
            422,
            f"Features must be below {n_features:,}, the model's number of features. Got {indices[entry]:,} instead.",
            f"rows.{row}.indices.{entry - int(indptr[row])}",
        )
    with np.errstate(over="ignore"):  # values beyond float32 are refused with the features
        values = np.array([value for row in rows for value in row.values], np.float64).astype(np.float32)
    matrix.indptr, matrix.indices, matrix.data = indptr, indices.astype(np.int32), values
    matrix.sum_duplicates()
    return matrix


def _dense(estimator: Any, rows: list[list[float | None]]) -> Any:
    n_features = estimator.n_features_in_
    for number, row in enumerate(rows):
        if len(row) != n_features:
            raise RequestError(
                422,
                f"A dense row must have {n_features:,} numbers. Got {len(row):,} instead.",
                f"dense.{number}",
            )
    with np.errstate(over="ignore"):
        return np.array(
            [[math.nan if value is None else value for value in row] for row in rows], np.float64
        ).astype(np.float32)


def text_rows(estimator: Any, texts: list[str], field: str = "texts") -> list[str] | list[dict[str, str]]:
    """Texts, for a model that was trained on text; of several fields, they are that of the longest texts."""
    vectorizer = estimator.model_.stage(Role.VECTORIZER)
    if vectorizer is None:
        raise RequestError(422, "The model was not trained on text: send rows or dense.", field)
    name = vectorizer.parameters.plain_field
    return texts if name is None else [{name: text} for text in texts]


def _records(estimator: Any, records: list[dict[str, Any]]) -> Any:
    import pandas as pd

    vectorizer = estimator.model_.stage(Role.VECTORIZER)
    if not hasattr(estimator, "feature_names_in_") and (
        vectorizer is None or not vectorizer.parameters.fields
    ):
        raise RequestError(
            422, "The model was not trained on named columns: send rows, dense or texts.", "records"
        )
    for number, record in enumerate(records):
        for name, value in record.items():
            if not all(isinstance(one, PLAIN) for one in (value if isinstance(value, list) else [value])):
                raise RequestError(
                    422,
                    "A value must be a text, a number, null, or a list of them.",
                    f"records.{number}.{name}",
                )
    return pd.DataFrame.from_records(records)


INPUT_FORMS: dict[str, Callable[[Any, Any], Any]] = {
    "rows": _sparse,
    "dense": _dense,
    "texts": text_rows,
    "records": _records,
}
"""Features by the field of the request."""
