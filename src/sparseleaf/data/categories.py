"""Encoding of categorical features as integers, the same in training and prediction.

Categorical features are the categorical and text columns of a DataFrame, and the columns that the user lists. Trees use
the index of a category; categories not seen in training are missing values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

if TYPE_CHECKING:
    from sparseleaf._arrays import Array

MAX_CATEGORIES = 255
"""Maximum number of categories that fit in a byte with the bin of missing values."""

Categories = dict[int, list[Any]]
"""Ordered category names by feature."""


def find_categories(X: Any, categorical_features: Any) -> Categories:
    """Categories of the training rows.

    Parameters
    ----------
    X : DataFrame, array or sparse matrix
    categorical_features : "auto", None, or a sequence of int, str or bool
        "auto" selects the categorical and text columns of a DataFrame; column numbers or names are added to these; a
        boolean mask selects columns, and None selects none.

    Raises
    ------
    ValueError
        If a feature does not exist or has too many categories.
    """
    categories = {}
    for feature in _positions(X, categorical_features):
        column = _column(X, feature)
        if hasattr(column, "cat"):
            names = column.cat.categories.tolist()
        else:
            values = np.asarray(column)
            known = values[~_missing(column)]
            names = sorted(set(known.tolist()), key=lambda name: (str(type(name)), name))
        names = list(dict.fromkeys(_plain(name) for name in names))
        if len(names) > MAX_CATEGORIES:
            raise ValueError(
                f"Feature {_name(X, feature)!r} must have at most {MAX_CATEGORIES} categories. Got {len(names)}. Group"
                " rare categories, or convert the column to numbers; free text needs"
                " vectorizer=TextVectorizer(fields=[…])."
            )
        categories[feature] = names
    return categories


def join_categories(parts: Sequence[Categories]) -> Categories:
    """Union of the categories of several partitions."""
    joined: Categories = {}
    for feature in sorted({feature for part in parts for feature in part}):
        lists = [part[feature] for part in parts if feature in part]
        names = lists[0]
        if any(other != names for other in lists):
            names = sorted(
                {name for other in lists for name in other}, key=lambda name: (str(type(name)), name)
            )
        if len(names) > MAX_CATEGORIES:
            raise ValueError(
                f"Feature {feature} must have at most {MAX_CATEGORIES} categories over all partitions. Got"
                f" {len(names)}."
            )
        joined[feature] = names
    return joined


def encode_categories(X: Any, categories: Categories) -> Any:
    """Replace categories by their index, NaN for unknown ones; a DataFrame stays a DataFrame."""
    if not categories:
        return X
    if sp.issparse(X):
        raise ValueError(
            "X must be a DataFrame or an array with 'categorical_features'. Got a sparse matrix instead."
        )
    encoded = np.empty(X.shape, np.float32)
    for feature in range(X.shape[1]):
        column = _column(X, feature)
        if feature not in categories:
            try:
                encoded[:, feature] = np.asarray(column, np.float32)
            except (TypeError, ValueError) as error:
                raise ValueError(
                    f"Feature {_name(X, feature)!r} must be numeric, as it is not one of the categorical features:"
                    f" {error}."
                ) from None
            continue
        number = {name: float(c) for c, name in enumerate(categories[feature])}
        values = np.asarray(column.astype(object) if hasattr(column, "cat") else column)
        encoded[:, feature] = [
            np.nan if missing else number.get(_plain(value), np.nan)
            for value, missing in zip(values.tolist(), _missing(column), strict=True)
        ]
    return type(X)(encoded, columns=X.columns) if hasattr(X, "columns") else encoded


def _positions(X: Any, categorical_features: Any) -> list[int]:
    n_features = X.shape[1]
    if categorical_features is None:
        return []
    names = [str(name) for name in X.columns] if hasattr(X, "columns") else None
    detected = [] if names is None else [f for f in range(n_features) if _is_text(X.iloc[:, f])]
    if isinstance(categorical_features, str):
        if categorical_features != "auto":
            raise ValueError(
                "The 'categorical_features' parameter must be 'auto', None, or a sequence of column names, column"
                f" numbers or booleans. Got {categorical_features!r} instead."
            )
        return detected
    listed: Sequence[Any] = np.asarray(categorical_features, object).ravel().tolist()
    if len(listed) == n_features and all(isinstance(one, bool | np.bool_) for one in listed):
        return [f for f, one in enumerate(listed) if one]
    positions = detected  # text columns are always categorical
    for one in listed:
        if isinstance(one, str) and names is not None and one in names:
            positions.append(names.index(one))
        elif isinstance(one, int | np.integer) and not isinstance(one, bool) and 0 <= one < n_features:
            positions.append(int(one))
        else:
            raise ValueError(
                f"The 'categorical_features' parameter must have column names of X, or numbers below {n_features}. Got"
                f" {one!r} instead."
            )
    return sorted(set(positions))


def _is_text(column: Any) -> bool:
    return hasattr(column, "cat") or column.dtype.kind in "OUST" or str(column.dtype).startswith("str")


def _column(X: Any, feature: int) -> Any:
    if hasattr(X, "iloc"):
        return X.iloc[:, feature]
    if sp.issparse(X):
        raise ValueError(
            "X must be a DataFrame or an array with 'categorical_features'. Got a sparse matrix instead."
        )
    return np.asarray(X)[:, feature]


def _name(X: Any, feature: int) -> Any:
    return X.columns[feature] if hasattr(X, "columns") else feature


def _missing(column: Any) -> Array:
    if hasattr(column, "isna"):
        return np.asarray(column.isna(), bool)
    if column.dtype.kind == "f":
        return np.asarray(np.isnan(column))
    return np.array([_is_missing(value) for value in column.tolist()], bool)


def _is_missing(value: Any) -> bool:
    try:
        return value is None or bool(value != value)
    except TypeError:  # pandas' NA is neither equal to itself nor not
        return True


def _plain(name: Any) -> Any:
    """A category as stored in the model file: a number or text; intervals, dates and so on become text."""
    if isinstance(name, bool | np.bool_) or not isinstance(name, int | float | np.number):
        return str(name)
    return int(name) if float(name).is_integer() else float(name)
