"""Features with categories: named values to small numbers, the same in training and prediction.

Categories come from the columns of a DataFrame that are categorical (or text), or from columns of numbers that the
user names. Trees see category ``c`` as the number c; a value that training did not know is missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

if TYPE_CHECKING:
    from sparseleaf._arrays import Array

MAX_CATEGORIES = 255
"""That fit a byte beside the bin for missing values."""

Categories = dict[int, list[Any]]
"""By feature, the names of its categories in order."""


def find_categories(X: Any, wanted: Any) -> Categories:
    """Categories of training rows.

    Parameters
    ----------
    X : DataFrame, array or sparse matrix
    wanted : "auto", None, or a sequence of int, str or bool
        ``categorical_features``: "auto" takes the categorical and text columns of a DataFrame; positions or column
        names add to these; a mask says it for every column, and None that there are none.

    Raises
    ------
    ValueError
        If a feature is not there or has more categories than trees can hold.
    """
    categories = {}
    for feature in _positions(X, wanted):
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
                " rare categories, or convert the column to numbers; free text needs a vectorizer, such as"
                " scikit-learn's TfidfVectorizer."
            )
        categories[feature] = names
    return categories


def join_categories(parts: Sequence[Categories]) -> Categories:
    """Categories of rows that were read in parts: all that any part has."""
    joined: Categories = {}
    for feature in sorted({feature for part in parts for feature in part}):
        found = [part[feature] for part in parts if feature in part]
        names = found[0]
        if any(other != names for other in found):
            names = sorted(
                {name for other in found for name in other}, key=lambda name: (str(type(name)), name)
            )
        if len(names) > MAX_CATEGORIES:
            raise ValueError(
                f"X: feature {feature} has {len(names)} categories over all parts; wanted at most {MAX_CATEGORIES}."
            )
        joined[feature] = names
    return joined


def encode_categories(X: Any, categories: Categories) -> Any:
    """Rows with every category as its number, NaN for those not known; a DataFrame stays one."""
    if not categories:
        return X
    if sp.issparse(X):
        raise ValueError("categorical_features: found a sparse X; wanted a DataFrame or an array.")
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


def _positions(X: Any, wanted: Any) -> list[int]:
    n_features = X.shape[1]
    if wanted is None:
        return []
    names = [str(name) for name in X.columns] if hasattr(X, "columns") else None
    detected = [] if names is None else [f for f in range(n_features) if _is_text(X.iloc[:, f])]
    if isinstance(wanted, str):
        if wanted != "auto":
            raise ValueError(
                "The 'categorical_features' parameter must be 'auto', None, or a sequence of column names, column"
                f" numbers or booleans. Got {wanted!r} instead."
            )
        return detected
    found: Sequence[Any] = np.asarray(wanted, object).ravel().tolist()
    if len(found) == n_features and all(isinstance(one, bool | np.bool_) for one in found):
        return [f for f, one in enumerate(found) if one]
    positions = detected  # text can be nothing but categories, named or not
    for one in found:
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
        raise ValueError("categorical_features: found a sparse X; wanted a DataFrame or an array.")
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
    """A name as the model file can hold it: a number, or text, which also stands for intervals, dates and so on."""
    if isinstance(name, bool | np.bool_) or not isinstance(name, int | float | np.number):
        return str(name)
    return int(name) if float(name).is_integer() else float(name)
