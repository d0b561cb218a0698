"""Validation of the label matrices and scores that metrics take."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

# scipy has no type annotations, so its matrices are Any.
SparseMatrix: TypeAlias = Any
MatrixLike: TypeAlias = SparseMatrix | ArrayLike


def as_array(value: ArrayLike, name: str) -> NDArray[Any]:
    """An array; ValueError for ragged lists."""
    try:
        return np.asarray(value)
    except ValueError as error:
        raise ValueError(
            f"The {name!r} parameter must be an array with rows of equal length: {error}"
        ) from None


def as_csr(M: SparseMatrix) -> SparseMatrix:
    """CSR with sorted columns and no duplicates; the input is not modified."""
    csr = sp.csr_array(M)
    if not csr.has_canonical_format:
        csr = csr.copy()
        csr.sum_duplicates()
    return csr


def check_labels(Y: Any, name: str) -> SparseMatrix:
    """A 0/1 matrix in CSR with sorted columns, without stored zeros."""
    if not sp.issparse(Y):
        Y = as_array(Y, name)
    if Y.ndim != 2 or 0 in Y.shape:
        raise ValueError(
            f"The {name!r} parameter must have shape (n_rows, n_labels), both at least 1. Got {Y.shape} instead."
        )
    if Y.dtype.kind not in "biuf":
        raise TypeError(f"The {name!r} parameter must be a matrix of 0 and 1. Got dtype {Y.dtype} instead.")
    csr = as_csr(Y)
    zero = csr.data == 0
    wrong = ~zero & (csr.data != 1)
    if wrong.any():
        raise ValueError(
            f"The {name!r} parameter must have values 0 and 1 only. Got {csr.data[np.argmax(wrong)]} instead."
        )
    if zero.any():
        csr = csr.copy()
        csr.eliminate_zeros()
    return csr


def check_scores(scores: SparseMatrix, name: str, shape: tuple[int, int]) -> SparseMatrix:
    """Scores as floats, in CSR if sparse."""
    if scores.shape != shape:
        raise ValueError(
            f"The {name!r} parameter must have shape {shape}, as Y_true. Got scores of shape {scores.shape} instead"
            + ("." if sp.issparse(scores) else "; label ids must have an integer dtype.")
        )
    if scores.dtype.kind not in "biuf":
        raise TypeError(f"The {name!r} parameter must have real scores. Got dtype {scores.dtype} instead.")
    if sp.issparse(scores):
        scores = as_csr(scores)
    if scores.dtype.kind != "f":
        scores = scores.astype(np.float64)
    if np.isnan(scores.data if sp.issparse(scores) else scores).any():
        raise ValueError(f"The {name!r} parameter must not contain NaN.")
    return scores
