"""Input of the text vectoriser: plain texts, or records with named fields, as columns of values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from unicodedata import is_normalized, normalize

import numpy as np
import scipy.sparse as sp

if TYPE_CHECKING:
    from sparseleaf.features.settings import TextSettings

EXPECTED_TEXTS = "X must be a list, an array or a Series of str"

SIGMA = "Σ"


def is_features(X: Any) -> bool:
    """Whether X is a matrix of features rather than texts or records."""
    return sp.issparse(X) or (isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "fiub")


def texts_of(X: Any) -> list[str]:
    """Plain texts as a list; ValueError if one is not a str."""
    if isinstance(X, str | bytes):
        raise ValueError(f"{EXPECTED_TEXTS}. Got a single {type(X).__name__} instead; pass [X].")
    if isinstance(X, Mapping) or hasattr(X, "columns"):
        raise ValueError(f"{EXPECTED_TEXTS}; name its text columns in 'fields'. Got a table instead.")
    if getattr(X, "ndim", 1) != 1 or sp.issparse(X):
        raise ValueError(f"{EXPECTED_TEXTS}. Got an array with {X.ndim} dimensions instead.")
    if not isinstance(X, Iterable):
        raise ValueError(f"{EXPECTED_TEXTS}. Got {X!r:.80} instead.")
    texts = X if isinstance(X, list) else np.asarray(X).tolist() if hasattr(X, "dtype") else list(X)
    for row, text in enumerate(texts):
        if type(text) is not str and not isinstance(text, str):
            raise ValueError(f"{EXPECTED_TEXTS}. Got {text!r:.80} in row {row} instead.")
    return texts


def columns_of(X: Any, settings: TextSettings, *, fitting: bool) -> tuple[dict[str | None, list[Any]], int]:
    """Values of every named column, texts as str, and the number of rows.

    The key of plain texts is None. A value that is missing, also because a record lacks the field, is an empty text,
    or None in numeric and categorical columns.
    """
    if settings.fields is None:
        texts = prepared(texts_of(X), settings)
        return {None: texts}, len(texts)
    others = [*(settings.numeric or ()), *(settings.categorical or ())]
    names = [*settings.fields, *others]
    columns, n_rows = _table(X, names) if _is_table(X) else _records(X, names, fitting)
    result: dict[str | None, list[Any]] = {
        name: prepared(list(map(_text, columns[name])), settings) for name in settings.fields
    }
    return result | {name: columns[name] for name in others}, n_rows


def _is_table(X: Any) -> bool:
    return isinstance(X, Mapping) or hasattr(X, "columns") or hasattr(X, "column_names")


def _table(X: Any, names: Sequence[str]) -> tuple[dict[str, list[Any]], int]:
    known = X if isinstance(X, Mapping) else list(getattr(X, "column_names", None) or X.columns)
    missing = [name for name in names if name not in known]
    if missing:
        raise ValueError(f"X must have the columns {list(names)}. Got {list(known)!s:.200} instead.")
    columns = {
        name: X[name] if isinstance(X[name], list) else np.asarray(X[name], object).tolist() for name in names
    }
    sizes = {len(column) for column in columns.values()}
    if len(sizes) > 1:
        raise ValueError(f"X must have columns of one length. Got {sorted(sizes)} instead.")
    return columns, sizes.pop()


def _records(X: Any, names: Sequence[str], fitting: bool) -> tuple[dict[str, list[Any]], int]:
    if isinstance(X, str | bytes) or not isinstance(X, Iterable):
        raise ValueError(f"X must be a DataFrame or a list of dicts. Got {X!r:.80} instead.")
    rows = X if isinstance(X, list) else list(X)
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise ValueError(
                f"X must be a DataFrame or a list of dicts with the fields {list(names)}. Got {row!r:.80} in row"
                f" {number} instead."
            )
    if fitting:
        for name in names:
            if rows and not any(name in row for row in rows):
                raise ValueError(f"X must have the field {name!r} in some record. Got none.")
    return {name: [row.get(name) for row in rows] for name in names}, len(rows)


def mean_lengths(columns: dict[str | None, list[Any]], settings: TextSettings) -> dict[str, float]:
    """Mean number of characters of the texts of every field that are not empty."""
    return {
        name: sum(map(len, columns[name])) / max(1, sum(map(bool, columns[name])))
        for name in settings.fields or ()
    }


def is_missing(value: Any) -> bool:
    """Whether a value stands for a missing one: None, NaN, or pandas' NA and NaT."""
    if value is None:
        return True
    if isinstance(value, float | np.floating):
        return math.isnan(value)
    return type(value).__name__ in ("NAType", "NaTType")


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple | np.ndarray):
        return " ".join(map(_text, value))
    return "" if is_missing(value) else str(value)


def prepared(texts: list[str], settings: TextSettings) -> list[str]:
    """Conversions that depend on more than one character, which the kernel does not do.

    The lower case of a capital sigma depends on its place in the word; the "unicode" tokenizer composes characters.
    """
    if settings.tokenizer == "unicode":
        texts = [
            text if text.isascii() or is_normalized("NFC", text) else normalize("NFC", text) for text in texts
        ]
    if settings.lowercase:
        texts = [text.lower() if SIGMA in text else text for text in texts]
    return texts
