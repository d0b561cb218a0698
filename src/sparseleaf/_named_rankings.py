"""Lists of label names as true labels and predictions of the metrics: conversion to ids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

ROWS = (list, tuple, set, frozenset, np.ndarray)


class LabelPropensities(dict[Any, float]):
    """Propensities by label name; a label that is not in the training set has that of a label without rows.

    Attributes
    ----------
    unseen : float
        Propensity of labels without rows.
    """

    def __init__(self, values: Mapping[Any, float], unseen: float) -> None:
        super().__init__(values)
        self.unseen = unseen

    def __missing__(self, name: Any) -> float:
        return self.unseen


def is_named(Y: Any) -> bool:
    """Whether true labels are lists of names: text, sets, or integers other than 0 and 1."""
    if sp.issparse(Y) or hasattr(Y, "columns") or not (hasattr(Y, "__iter__") and hasattr(Y, "__len__")):
        return False
    if isinstance(Y, np.ndarray) and (Y.ndim != 1 or Y.dtype != object):
        return Y.ndim == 2 and Y.dtype.kind in "OU" and any(isinstance(name, str) for name in Y.flat)
    rows = [row for row in Y if isinstance(row, ROWS)]
    if len(rows) < len(Y):
        return False
    names = (name for row in rows for name in row)
    return any(isinstance(row, set | frozenset) for row in rows) or any(_is_name(name) for name in names)


def _is_name(value: Any) -> bool:
    if isinstance(value, str):
        return True
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and value not in (0, 1)


def first_of_topk(predicted: Any) -> Any:
    """The labels of a result of ``predict_topk``, (labels, scores); other predictions as they are."""
    is_pair = isinstance(predicted, tuple) and len(predicted) == 2
    if is_pair and all(isinstance(part, np.ndarray) and part.ndim == 2 for part in predicted):
        return predicted[0]
    return predicted


def encode(Y: Any, predicted: Any, k: int, name: str) -> tuple[Any, NDArray[np.int64], list[Any]]:
    """Truth as CSR, rankings as ids padded with -1, and the names by id."""
    if sp.issparse(predicted) or getattr(getattr(predicted, "dtype", None), "kind", "O") == "f":
        raise TypeError(
            f"The {name!r} parameter must have label names, as Y_true. Got a matrix of scores instead; use the result"
            " of predict_topk."
        )
    ids: dict[Any, int] = {}
    truth = [_numbered(row, ids) for row in Y]
    rankings = [_ranked(row, number, k, name) for number, row in enumerate(_rows_of(predicted, name))]
    if len(rankings) != len(truth):
        raise ValueError(
            f"The {name!r} parameter must have {len(truth)} rows, as Y_true. Got {len(rankings)} instead."
        )
    _refuse_other_type(ids, rankings, name)
    padded = np.full((len(rankings), k), -1, np.int64)
    for row, ranking in zip(padded, rankings, strict=True):
        row[: len(ranking)] = [ids.setdefault(label, len(ids)) for label in ranking]
    indptr = np.cumsum([0, *map(len, truth)])
    columns = np.array([column for row in truth for column in sorted(row)], np.int64)
    shape = (len(truth), max(1, len(ids)))
    return sp.csr_array((np.ones(len(columns)), columns, indptr), shape=shape), padded, list(ids)


def counts_by_name(Y: Any) -> tuple[dict[Any, int], int]:
    """Number of rows with each label, and of all rows."""
    ids: dict[Any, int] = {}
    rows = [_numbered(row, ids) for row in Y]
    counts = np.bincount([column for row in rows for column in row], minlength=len(ids))
    return dict(zip(ids, counts.tolist(), strict=True)), len(rows)


def by_name(propensity: Mapping[Any, float], names: Iterable[Any]) -> NDArray[np.float64]:
    """Propensities in the order of the names."""
    try:
        return np.array([propensity[name] for name in names], np.float64)
    except KeyError as error:
        raise ValueError(
            f"The 'propensity' parameter must have every label. Got none for {error.args[0]!r}; use propensities of"
            " the training labels."
        ) from None


def _numbered(row: Any, ids: dict[Any, int]) -> set[int]:
    if isinstance(row, str) or not isinstance(row, ROWS):
        raise TypeError(f"Rows of Y_true must be lists of label names. Got {row!r:.60} instead.")
    return {ids.setdefault(name, len(ids)) for name in _listed(row)}


def _rows_of(predicted: Any, name: str) -> list[Any]:
    rows = list(predicted) if hasattr(predicted, "__iter__") else [predicted]
    for row in rows:
        if isinstance(row, str) or not isinstance(row, list | tuple | np.ndarray):
            raise TypeError(
                f"The {name!r} parameter must be lists of label names, best first, as Y_true. Got {row!r:.60} instead."
            )
    return rows


def _ranked(row: Any, number: int, k: int, name: str) -> list[Any]:
    """The first k names of a row; None, or -1 in integer arrays, is padding."""
    padding = (None, -1) if isinstance(row, np.ndarray) and row.dtype.kind in "iu" else (None,)
    labels = [label for label in _listed(row)[:k] if label not in padding]
    if len(set(labels)) < len(labels):
        twice = next(label for label in labels if labels.count(label) > 1)
        raise ValueError(
            f"The {name!r} parameter must have distinct labels per row. Got {twice!r} twice in row {number}."
        )
    return labels


def _refuse_other_type(ids: dict[Any, int], rankings: list[list[Any]], name: str) -> None:
    """Raise for ids among names, which would never match."""
    other = next((label for row in rankings for label in row), None)
    first = next(iter(ids), None)
    if first is not None and other is not None and isinstance(first, str) != isinstance(other, str):
        raise TypeError(
            f"The {name!r} parameter must have labels such as {first!r}, as Y_true. Got {other!r} instead."
        )


def _listed(row: Any) -> list[Any]:
    return row.tolist() if isinstance(row, np.ndarray) else list(row)
