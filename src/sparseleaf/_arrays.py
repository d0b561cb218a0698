"""Array helpers: types, number of threads, and hashes that do not depend on the partitioning of the rows."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sparseleaf import _kernels

Array: TypeAlias = npt.NDArray[Any]
Features: TypeAlias = Any
"""Rows of features: a C-contiguous float32 array or a float32 CSR matrix."""


CACHE_LINE = 64

WORD = 2**64 - 1

LARGEST_COUNT = 2**31 - 1
"""Maximum number of rows, features, labels, bins and nodes: the kernels use 32-bit indices."""

MAX_THREADS = 1024
"""Upper limit of the number of threads."""


def effective_n_jobs(n_jobs: int | None) -> int:
    """Number of threads: all available cores for None, 0 or -1, all but one for -2, and so on."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if n_jobs is None or n_jobs == 0:
        return cores
    return min(n_jobs, MAX_THREADS) if n_jobs > 0 else max(1, cores + 1 + n_jobs)


def require_countable(name: str, count: int, what: str) -> None:
    """Raise ValueError for counts that overflow 32-bit indices."""
    if count > LARGEST_COUNT:
        raise ValueError(
            f"{name}: the number of {what} must be at most {LARGEST_COUNT:,} (2^31 - 1). Got {count:,} instead."
        )


def special_values(X: Any, n_jobs: int = 1) -> tuple[bool, bool]:
    """Whether an array or sparse matrix of floats contains NaN, and whether it contains infinity."""
    values = X.data if sp.issparse(X) else X
    dtype = values.dtype if values.dtype in (np.float32, np.float64) else np.float64
    return _kernels.special_values(np.ascontiguousarray(values, dtype).reshape(-1), n_jobs)


def has_nan(X: Any, n_jobs: int = 1) -> bool:
    """Whether an array or sparse matrix of floats contains NaN."""
    return special_values(X, n_jobs)[0]


def on_grid(columns: Array, bits: int = 17) -> Array:
    """Round every column to multiples of about 2⁻ᵇⁱᵗˢ of its largest entry.

    Results of BLAS and LAPACK differ in the last bits between builds and processors. After this rounding they rarely
    differ; the rounding error is far below that of the input.
    """
    largest = np.abs(columns).max(axis=0, initial=0.0)
    step = np.exp2(np.ceil(np.log2(np.where(largest > 0, largest, 1.0))) - bits)
    rounded: Array = np.round(columns / step) * step
    return rounded


def csr_parts(X: Any) -> tuple[Array, Array, Array]:
    """``(indptr int64, indices int32, data float32)`` of a CSR matrix, as required by the kernels."""
    return (
        np.ascontiguousarray(X.indptr, np.int64),
        np.ascontiguousarray(X.indices, np.int32),
        np.ascontiguousarray(X.data, np.float32),
    )


def column_counts(matrix: Any, n_jobs: int, units: Array | None = None) -> Array:
    """Number of stored entries of every column of a CSR matrix, int64; or the sum of their rows' ``units``, int64."""
    counts = np.empty(matrix.shape[1], np.int64)
    _kernels.count_columns(
        np.ascontiguousarray(matrix.indptr, np.int64),
        np.ascontiguousarray(matrix.indices, np.int32),
        np.empty(0, np.int64) if units is None else units,
        counts,
        n_jobs,
    )
    return counts


def by_count(counts: Array) -> Array:
    """Numbers of the columns by decreasing count, then increasing number, int64."""
    whole = counts.astype(np.int64)
    if counts.max(initial=0) > LARGEST_COUNT or (whole != counts).any():  # sums of weights
        return np.argsort(-counts, kind="stable")
    # one sort of integers, as counts and numbers have 31 bits, takes a tenth of the time of a stable sort
    keys: Array = np.sort(((LARGEST_COUNT - whole) << 31) | np.arange(len(counts)))
    return keys & LARGEST_COUNT


def sparse_parts(X: Any) -> tuple[Array, Array, Array]:
    """:func:`csr_parts` of rows that may be a dense array of float32."""
    if not isinstance(X, np.ndarray):
        return csr_parts(X)
    row, feature = np.nonzero(X)
    indptr = np.searchsorted(row, np.arange(X.shape[0] + 1))
    return indptr.astype(np.int64), feature.astype(np.int32), X[row, feature]


def empty_aligned(shape: tuple[int, ...], dtype: type[np.generic]) -> Array:
    """``np.empty`` aligned to a cache line."""
    size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    raw = np.empty(size + CACHE_LINE, np.uint8)
    start = -raw.ctypes.data % CACHE_LINE
    return raw[start : start + size].view(dtype).reshape(shape)


def mix64(keys: Array) -> Array:
    """64-bit hash of 64-bit keys (the finaliser of splitmix64)."""
    with np.errstate(over="ignore"):
        keys = keys.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        keys = (keys ^ (keys >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        keys = (keys ^ (keys >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Array = keys ^ (keys >> np.uint64(31))
    return mixed


def derive_key(*parts: int) -> int:
    """One 64-bit key from several integers, such as (seed, tree, purpose)."""
    key = 0
    for part in parts:  # mix64 with Python integers: numpy takes ten times as long for a single number
        key = ((key ^ (part & WORD)) + 0x9E3779B97F4A7C15) & WORD
        key = ((key ^ (key >> 30)) * 0xBF58476D1CE4E5B9) & WORD
        key = ((key ^ (key >> 27)) * 0x94D049BB133111EB) & WORD
        key ^= key >> 31
    return key


def hash_numbers(numbers: Array, *key: int) -> Array:
    """64-bit hash of every number, such as global row numbers: a random draw independent of the partitioning."""
    return mix64(numbers.astype(np.uint64) ^ np.uint64(derive_key(*key)))


def hash_rows(n_rows: int, *key: int) -> Array:
    """64-bit hashes of the row numbers 0, 1, …."""
    return hash_numbers(np.arange(n_rows), *key)


def smallest_hashes(hashes: Array, count: int) -> Array:
    """Positions of the ``count`` smallest hashes, in order of position."""
    return np.sort(np.argpartition(hashes, count - 1)[:count])


def compressed_state(matrix: Any, n_jobs: int = 1) -> tuple[bool, bool]:
    """Whether a CSR or CSC matrix is known to be valid, and whether its indices increase without duplicates.

    A matrix whose indices are not int32 is not known to be either.
    """
    if matrix.format not in ("csr", "csc") or matrix.indices.dtype != np.int32:
        return False, False
    n_lines, n_columns = matrix.shape if matrix.format == "csr" else matrix.shape[::-1]
    shapes = matrix.indptr.shape, matrix.indices.shape, matrix.data.shape
    if shapes != ((n_lines + 1,), matrix.data.shape, (matrix.data.size,)) or matrix.indptr.dtype.kind != "i":
        return False, False
    arrays = np.ascontiguousarray(matrix.indptr, np.int64), np.ascontiguousarray(matrix.indices)
    return _kernels.csr_state(*arrays, n_columns, n_jobs)


def as_csr32(X: Any, n_jobs: int = 1) -> sp.csr_matrix:
    """CSR matrix of float32 without duplicates; the input is not modified."""
    X = sp.csr_matrix(X, dtype=np.float32)
    if not (compressed_state(X, n_jobs)[1] or X.has_canonical_format):
        X = X.copy()
        X.sum_duplicates()
    return X


def own_indices(X: Any) -> Any:
    """Copy the indices of a sparse matrix, so that other threads cannot change them; other input is returned unchanged.

    Kernels use the indices without checks during training. Values are shared, since they cannot cause out-of-bounds
    access; so are memory-mapped matrices, which are read-only.
    """
    if not (sp.issparse(X) and X.format in ("csr", "csc") and X.indices.flags.writeable):
        return X
    return type(X)((X.data, X.indices.copy(), X.indptr.copy()), shape=X.shape)


DENSE_BLOCK = 2**20
"""Number of dense values that are converted to sparse ones at a time, which takes six times the memory."""


def row_blocks(X: Features, most: int | None = None) -> Iterator[tuple[slice, Features]]:
    """Blocks of at most ``most`` rows; smaller ones for dense rows."""
    n_rows = X.shape[0]
    most = max(1, n_rows if most is None else most)
    if isinstance(X, np.ndarray):
        most = min(most, max(1, DENSE_BLOCK // max(1, X.shape[1])))
    if n_rows <= most:
        yield slice(0, n_rows), X
        return
    for begin in range(0, n_rows, most):
        block = slice(begin, min(n_rows, begin + most))
        yield block, X[block]


def largest_entries(matrix: sp.csr_matrix, most: int, n_jobs: int = 1) -> sp.csr_matrix:
    """The ``most`` entries with the largest absolute value of every row; ties by position."""
    sizes = np.diff(matrix.indptr)
    if sizes.max(initial=0) <= most:
        return matrix
    kept = np.empty(matrix.nnz, np.uint8)
    data = matrix.data if matrix.data.dtype in (np.float32, np.float64) else matrix.data.astype(np.float64)
    indptr = np.ascontiguousarray(matrix.indptr, np.int64)
    _kernels.mark_largest(indptr, np.ascontiguousarray(data), most, kept, n_jobs)
    chosen = kept.view(bool)
    indptr = np.concatenate(([0], np.cumsum(np.minimum(sizes, most))))
    return sp.csr_matrix((matrix.data[chosen], matrix.indices[chosen], indptr), shape=matrix.shape)


def replace_rows(
    matrix: sp.csr_matrix, rows: Array, others: sp.csr_matrix, n_rows: int | None = None
) -> sp.csr_matrix:
    """A CSR matrix with some rows replaced; of ``n_rows`` rows, those that are in neither are empty."""
    n_old, width = matrix.shape[0], others.shape[1]
    end = n_old + len(rows)
    order = np.arange(n_old if n_rows is None else n_rows)
    order[n_old:] = end
    order[rows] = n_old + np.arange(len(rows))
    matrix = sp.csr_matrix((matrix.data, matrix.indices, matrix.indptr), shape=(n_old, width))
    empty = sp.csr_matrix((1, width), dtype=matrix.dtype)
    return sp.csr_matrix(sp.vstack([matrix, others, empty], "csr")[order])


def even_ranges(weights: Array, n: int) -> list[tuple[int, int]]:
    """Split into ``n`` consecutive ranges of about the same weight; some are empty if there are few numbers."""
    cumulative = np.concatenate(([0], np.cumsum(weights)))
    borders = np.searchsorted(cumulative, cumulative[-1] * np.arange(1, n) / n - 1e-9).tolist()
    return list(zip([0, *borders], [*borders, len(weights)], strict=True))
