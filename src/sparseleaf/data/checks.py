"""Validation of input that numpy and scipy accept silently: masks, dates, invalid sparse matrices, label names."""

from __future__ import annotations

import datetime
from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import assert_all_finite

from sparseleaf._arrays import compressed_state, special_values

__all__ = ["check_infinity", "check_names", "check_sparse", "check_unicode", "check_values"]

TEXT_HINT = (
    "Pass texts as a list of str, or name the text columns: vectorizer=TextVectorizer(fields=['title', …])."
)

DATES_HINT = "Convert them to numbers first, such as days or seconds."

_DATES = (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)


def check_values(values: Any, name: str) -> None:
    """Raise ValueError for a masked array with masked values, and for dates and times.

    Parameters
    ----------
    values : array-like
        Features or targets. Arrays and DataFrame columns are checked by dtype; object arrays by their first value.
    name : str
        Argument name, for the error message.
    """
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise ValueError(
            f"{name} is a masked array with masked values, whose mask would be ignored. Use {name}.filled(np.nan) where"
            " NaN may stand for a missing value, or drop the rows."
        )
    if hasattr(values, "columns") and hasattr(values, "iloc"):
        for place, kind in enumerate(values.dtypes):
            dates = _dates(kind, values.iloc[:, place] if _is_object(kind) else ())
            if dates:
                raise ValueError(
                    f"The column {values.columns[place]!r} of {name} contains dates or times ({dates}), which are not"
                    f" supported. {DATES_HINT}"
                )
    elif hasattr(values, "dtype") and not sparse.issparse(values):
        dates = _dates(values.dtype, values if _is_object(values.dtype) else ())
        if dates:
            raise ValueError(
                f"{name} contains dates or times ({dates}), which are not supported. {DATES_HINT}"
            )


def _is_object(kind: Any) -> bool:
    return isinstance(kind, np.dtype) and kind.kind == "O"


def _dates(kind: Any, objects: Any) -> str:
    """Name of the date or time type of an array; empty if there is none."""
    if getattr(kind, "kind", "") in "mM" or str(kind).startswith("period"):
        return str(kind)
    # only the first value: checking every object would cost as much as converting them
    first = next((value for value in np.asarray(objects).flat if not _is_missing(value)), None)
    return type(first).__name__ if isinstance(first, _DATES) else ""


def _is_missing(value: Any) -> bool:
    try:
        return value is None or bool(value != value)
    except TypeError:  # pandas' NA is neither equal to itself nor not
        return True
    except ValueError:  # comparison of an array is elementwise
        return False


def check_sparse(matrix: Any, name: str, n_jobs: int = 1) -> Any:
    """Convert to a format with index arrays (CSR, CSC, BSR, COO) and validate all indices.

    scipy and the kernels do not check indices: an invalid matrix would access memory out of bounds.
    """
    if matrix.format not in ("csr", "csc", "bsr", "coo"):
        matrix = matrix.tocoo()
    try:
        if compressed_state(matrix, n_jobs)[0]:
            return matrix
        if matrix.format != "coo":
            matrix.check_format(full_check=True)
            return matrix
        coordinates = matrix.coords if hasattr(matrix, "coords") else (matrix.row, matrix.col)
        for axis, (indices, size) in enumerate(zip(coordinates, matrix.shape, strict=True)):
            if len(indices) != len(matrix.data):
                raise ValueError("row, column, and data arrays must have the same length")
            if len(indices) and not 0 <= indices.min() <= indices.max() < size:
                raise ValueError(f"axis {axis} has indices outside of [0, {size})")
    except ValueError as error:
        raise ValueError(f"{name} is not a valid sparse matrix: {error}.") from error
    return matrix


def check_infinity(values: Any, name: str, n_jobs: int, estimator_name: str | None = None) -> None:
    """Raise scikit-learn's ValueError if an array or sparse matrix of floats contains infinity.

    scikit-learn's own check takes one thread.
    """
    if special_values(values, n_jobs)[1]:
        assert_all_finite(values, allow_nan=True, estimator_name=estimator_name, input_name=name)


def check_names(names: list[Any], name: str, what: str = "label name") -> NDArray[Any]:
    """Convert names to an array of str; ValueError for duplicates and for names that are not valid Unicode."""
    texts = [str(one) for one in names]
    if len(set(texts)) < len(texts):
        twice = next(text for text, count in Counter(texts).items() if count > 1)
        raise ValueError(f"{name} must have distinct {what}s. Got {twice!r} twice (after conversion to str).")
    check_unicode(texts, name, what)
    # objects: a fixed-width array would allocate the longest name for every entry
    array = np.empty(len(texts), dtype=object)
    array[:] = texts
    return array


def check_unicode(texts: list[str], name: str, what: str = "label name") -> None:
    """Raise ValueError for text with lone surrogates, which cannot be encoded as UTF-8."""
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ValueError(
                f"{name} contains the {what} {text!r}, which is not valid Unicode (a lone surrogate) and could not be"
                " saved."
            ) from None
