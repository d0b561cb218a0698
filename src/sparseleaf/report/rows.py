"""Rows of the data as they are shown in a report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

if TYPE_CHECKING:
    from sparseleaf._arrays import Array

LONGEST_TEXT = 600
"""Characters of a text that are shown."""


def take(X: Any, rows: Sequence[int] | Array) -> Any:
    """Some rows of features, or of a list of texts."""
    numbers = np.asarray(rows, np.int64)
    if hasattr(X, "iloc"):
        return X.iloc[numbers]
    if sp.issparse(X) or isinstance(X, np.ndarray):
        return X[numbers]
    return [X[number] for number in numbers.tolist()]


def count(X: Any) -> int:
    """Number of rows."""
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def text_of(row: Any) -> str:
    """A text, or the fields of a record, shortened."""
    if hasattr(row, "to_dict"):  # a row of a DataFrame
        row = row.to_dict()
    text = "\n".join(f"{name}: {value}" for name, value in row.items()) if isinstance(row, dict) else str(row)
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}…"


def evenly(n_rows: int, n: int) -> list[int]:
    """Row numbers, evenly spaced."""
    rows: list[int] = np.unique(np.linspace(0, n_rows - 1, min(n, n_rows)).round().astype(np.int64)).tolist()
    return rows
