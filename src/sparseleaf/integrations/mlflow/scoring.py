"""Scoring by ``mlflow.pyfunc``: the inputs that MLflow passes to features, predictions to what it returns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.base import is_classifier

import sparseleaf
from sparseleaf.data.targets import ONE_CLASS_PER_ROW
from sparseleaf.estimators.topk import decoded, topk

PARAMETERS: dict[str, Any] = {"k": 0, "probabilities": False, "decode": ""}
"""Parameters of ``predict`` and their defaults, in the signature of every classifier."""

SPARSE_COLUMNS = ("indices", "values")
"""Columns of a DataFrame with sparse rows: lists of features and of their values."""


class Scorer:
    """What ``mlflow.pyfunc`` calls to predict.

    Parameters
    ----------
    estimator : fitted estimator
    """

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def predict(self, data: Any, params: Mapping[str, Any] | None = None) -> Any:
        """Predict rows.

        Parameters
        ----------
        data : DataFrame, array, sparse matrix, or texts
            Rows; see :func:`as_features`.
        params : dict, optional
            Of classifiers. ``k``: number of labels per row; 0 for what ``predict`` returns. ``probabilities``: whether
            scores are probabilities. ``decode``: which labels to return, as in ``predict``.

        Returns
        -------
        predictions : DataFrame or ndarray
            Lists of labels and of their scores in the columns ``labels`` and ``scores``, best first; for one class per
            row and ``k=0``, the classes, or the probability of each; of regressors and rankers, the outputs.
        """
        values = PARAMETERS | {name: value for name, value in (params or {}).items() if value is not None}
        unknown = sorted(values.keys() - PARAMETERS.keys())
        if unknown:
            raise ValueError(
                f"The parameters must be among {sorted(PARAMETERS)}. Got {unknown[0]!r} instead."
            )
        X = as_features(self.estimator, data)
        index = data.index if isinstance(data, pd.DataFrame | pd.Series) else None
        if not is_classifier(self.estimator):
            return self._outputs(X, index, values)
        if values["k"] == 0 and self.estimator.model_.target_kind in ONE_CLASS_PER_ROW:
            return self._classes(X, index, values)
        return self._labels(X, index, values)

    def _outputs(self, X: Any, index: Any, values: dict[str, Any]) -> Any:
        if values != PARAMETERS:
            raise ValueError(f"The parameters {sorted(PARAMETERS)} are for classifiers.")
        outputs = self.estimator.predict(X)
        names = getattr(self.estimator, "output_names_", None)
        if names is None or outputs.ndim == 1:
            return outputs
        return pd.DataFrame(outputs, index, [str(name) for name in names])

    def _classes(self, X: Any, index: Any, values: dict[str, Any]) -> Any:
        if values["probabilities"]:
            return pd.DataFrame(self.estimator.predict_proba(X), index, self.estimator.classes_)
        return self.estimator.predict(X, decode=values["decode"] or None)

    def _labels(self, X: Any, index: Any, values: dict[str, Any]) -> pd.DataFrame:
        k, decode = values["k"], values["decode"] or None
        if k and decode is not None:
            raise ValueError("Only one of the parameters 'k' and 'decode' may be set.")
        if values["probabilities"] and not k:
            raise ValueError("The 'probabilities' parameter requires the number of labels, such as k=5.")
        if k:
            labels, scores = topk(self.estimator, X, int(k), probabilities=values["probabilities"])
        else:
            labels, scores = decoded(self.estimator, X, decode)
        sizes = (scores > -np.inf).sum(axis=1)  # missing labels are at the end
        lists = {
            name: [row[:size].tolist() for row, size in zip(array, sizes, strict=True)]
            for name, array in (("labels", labels), ("scores", scores))
        }
        return pd.DataFrame(lists, index)


def load_scorer(path: str) -> Scorer:
    """The scorer of a model file."""
    return Scorer(sparseleaf.load(path))


def as_features(estimator: Any, data: Any) -> Any:
    """Rows as the estimator takes them.

    A DataFrame has the columns that the model was trained on, one column of texts, the lists of features and values of
    sparse rows (``indices`` and ``values``), or one column per feature. A dict of arrays is a DataFrame.
    """
    if isinstance(data, Mapping):
        data = pd.DataFrame({name: list(values) for name, values in data.items()})
    if isinstance(data, pd.Series):
        data = data.to_frame()
    if not isinstance(data, pd.DataFrame):
        return data.ravel() if _is_column_of_texts(data) else data
    if _is_named(estimator):
        return data
    if estimator.vectorizer_ is not None and data.shape[1] == 1 and data.shape[1] != estimator.n_features_in_:
        return data.iloc[:, 0].tolist()
    if sorted(map(str, data.columns)) == sorted(SPARSE_COLUMNS):
        return _sparse_rows(data, estimator.n_features_in_)
    if data.shape[1] and all(isinstance(dtype, pd.SparseDtype) for dtype in data.dtypes):
        return data.sparse.to_coo().tocsr()
    return data.to_numpy()


def _is_named(estimator: Any) -> bool:
    """Whether the model was trained on named columns."""
    vectorizer = estimator.vectorizer_
    return hasattr(estimator, "feature_names_in_") or (
        vectorizer is not None and vectorizer.fields is not None
    )


def _is_column_of_texts(data: Any) -> bool:
    return isinstance(data, np.ndarray) and data.ndim == 2 and data.shape[1] == 1 and data.dtype.kind in "OU"


def _sparse_rows(data: pd.DataFrame, n_features: int) -> sp.csr_matrix:
    """A CSR matrix from lists of features and values."""
    for name in SPARSE_COLUMNS:
        if not all(np.ndim(row) == 1 for row in data[name]):
            raise ValueError(f"The column {name!r} must contain lists.")
    sizes = np.array([len(row) for row in data["indices"]], np.int64)
    if (sizes != [len(row) for row in data["values"]]).any():
        raise ValueError("The lists of indices and values must have the same lengths.")
    indices = np.array([index for row in data["indices"] for index in row])
    if len(indices) and (indices.dtype.kind not in "iu" or indices.min() < 0 or indices.max() >= n_features):
        raise ValueError(f"The column 'indices' must contain integers from 0 to {n_features - 1:,}.")
    values = np.array([value for row in data["values"] for value in row], np.float64)
    indptr = np.concatenate(([0], np.cumsum(sizes)))
    return sp.csr_matrix((values, indices.astype(np.int64), indptr), shape=(len(data), n_features))
