"""Input that numpy and scipy would take without a word: masks, dates, broken sparse matrices, unusable label names."""

from __future__ import annotations

import datetime
from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

__all__ = ["check_names", "check_sparse", "check_unicode", "check_values"]

TEXT_HINT = (
    "Text has to be converted to numbers first, for instance with"
    " make_pipeline(sklearn.feature_extraction.text.TfidfVectorizer(), estimator)."
)

DATES_HINT = "Convert them to numbers first, such as days or seconds."

_DATES = (datetime.date, datetime.time, datetime.timedelta, np.datetime64, np.timedelta64)


def check_values(values: Any, name: str) -> None:
    """Raise ValueError for a masked array with masked values, and for dates and times.

    Parameters
    ----------
    values : anything that was given as features or targets
        Arrays are checked by their type, and the columns of a DataFrame, of objects too.
    name : str
        What the user calls it.
    """
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise ValueError(
            f"{name} is a masked array with masked values, whose mask would be ignored. Use {name}.filled(np.nan) where"
            " NaN may stand for a missing value, or drop the rows."
        )
    if hasattr(values, "columns") and hasattr(values, "iloc"):
        for place, kind in enumerate(values.dtypes):
            found = _dates(kind, values.iloc[:, place] if _is_object(kind) else ())
            if found:
                raise ValueError(
                    f"The column {values.columns[place]!r} of {name} contains dates or times ({found}), which are not"
                    f" supported. {DATES_HINT}"
                )
    elif hasattr(values, "dtype") and not sparse.issparse(values):
        found = _dates(values.dtype, values if _is_object(values.dtype) else ())
        if found:
            raise ValueError(
                f"{name} contains dates or times ({found}), which are not supported. {DATES_HINT}"
            )


def _is_object(kind: Any) -> bool:
    return isinstance(kind, np.dtype) and kind.kind == "O"


def _dates(kind: Any, objects: Any) -> str:
    """The type of an array's dates and times; empty where it has none."""
    if getattr(kind, "kind", "") in "mM" or str(kind).startswith("period"):
        return str(kind)
    # the first tells: looking at every object would cost as much as converting them
    first = next((value for value in np.asarray(objects).flat if not _is_missing(value)), None)
    return type(first).__name__ if isinstance(first, _DATES) else ""


def _is_missing(value: Any) -> bool:
    try:
        return value is None or bool(value != value)
    except TypeError:  # pandas' NA is neither equal to itself nor not
        return True
    except ValueError:  # an array has an answer for each of its values
        return False


def check_sparse(matrix: Any, name: str) -> Any:
    """The sparse matrix in a format that holds its indices as arrays (CSR, CSC, BSR, COO), all of which exist.

    scipy and the kernels follow indices unchecked: a broken matrix would read or write somewhere in memory.
    """
    if matrix.format not in ("csr", "csc", "bsr", "coo"):
        matrix = matrix.tocoo()
    try:
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


def check_names(names: list[Any], name: str, what: str = "label name") -> NDArray[Any]:
    """Names as an array of str; ValueError where two become one, or one has no UTF-8 form that a file could hold."""
    texts = [str(one) for one in names]
    if len(set(texts)) < len(texts):
        twice = next(text for text, count in Counter(texts).items() if count > 1)
        raise ValueError(f"{name} must have distinct {what}s. Got {twice!r} twice (after conversion to str).")
    check_unicode(texts, name, what)
    # objects: a fixed-width array would give every name the room of the longest
    array = np.empty(len(texts), dtype=object)
    array[:] = texts
    return array


def check_unicode(texts: list[str], name: str, what: str = "label name") -> None:
    """Raise ValueError for a text with lone surrogates, which no file could hold."""
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ValueError(
                f"{name} contains the {what} {text!r}, which is not valid Unicode (a lone surrogate) and could not be"
                " saved."
            ) from None
