"""Small helpers on arrays: types, the number of threads, and draws that do not depend on where a row lives."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

Array: TypeAlias = npt.NDArray[Any]
Features: TypeAlias = Any
"""Rows of features: a C-contiguous float32 array or a float32 CSR matrix."""


CACHE_LINE = 64

WORD = 2**64 - 1

LARGEST_COUNT = 2**31 - 1
"""Of rows, features, labels, bins and nodes, which kernels number and count in 32 bits."""

MAX_THREADS = 1024
"""More than any machine needs; the model does not depend on it, and a system does not give out any number."""


def effective_n_jobs(n_jobs: int | None) -> int:
    """Number of threads: all cores this process may use for None, 0 or -1, all but one for -2, and so on."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if n_jobs is None or n_jobs == 0:
        return cores
    return min(n_jobs, MAX_THREADS) if n_jobs > 0 else max(1, cores + 1 + n_jobs)


def require_countable(name: str, count: int, what: str) -> None:
    """Refuse what 32-bit numbers cannot count, before it wraps around."""
    if count > LARGEST_COUNT:
        raise ValueError(f"{name}: found {count:,} {what}; wanted at most {LARGEST_COUNT:,} (2^31 - 1).")


def has_nan(X: Any) -> bool:
    """Whether a value of an array or sparse matrix is NaN; values of any size, which a sum would not take."""
    values = X.data if sp.issparse(X) else X
    return bool(np.isnan(np.min(values, initial=0)))


def on_grid(columns: Array, bits: int = 17) -> Array:
    """Every column rounded to multiples of about 2⁻ᵇⁱᵗˢ of its largest entry.

    What BLAS and LAPACK compute differs in its last bits between their builds and processors. Rounded this coarsely,
    results seldom differ at all; the error is far below that of what they are computed from.
    """
    largest = np.abs(columns).max(axis=0, initial=0.0)
    step = np.exp2(np.ceil(np.log2(np.where(largest > 0, largest, 1.0))) - bits)
    rounded: Array = np.round(columns / step) * step
    return rounded


def csr_parts(X: Any) -> tuple[Array, Array, Array]:
    """``(indptr int64, indices int32, data float32)`` of a CSR matrix, as the kernels want them."""
    return (
        np.ascontiguousarray(X.indptr, np.int64),
        np.ascontiguousarray(X.indices, np.int32),
        np.ascontiguousarray(X.data, np.float32),
    )


def sparse_parts(X: Any) -> tuple[Array, Array, Array]:
    """:func:`csr_parts` of rows that may be a dense array of float32."""
    if not isinstance(X, np.ndarray):
        return csr_parts(X)
    row, feature = np.nonzero(X)
    indptr = np.searchsorted(row, np.arange(X.shape[0] + 1))
    return indptr.astype(np.int64), feature.astype(np.int32), X[row, feature]


def empty_aligned(shape: tuple[int, ...], dtype: type[np.generic]) -> Array:
    """``np.empty`` that starts on a cache line: a 64-byte vector then never straddles two."""
    size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    raw = np.empty(size + CACHE_LINE, np.uint8)
    start = -raw.ctypes.data % CACHE_LINE
    return raw[start : start + size].view(dtype).reshape(shape)


def mix64(keys: Array) -> Array:
    """A well mixed 64-bit hash of 64-bit keys (the finaliser of splitmix64)."""
    with np.errstate(over="ignore"):
        keys = keys.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        keys = (keys ^ (keys >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        keys = (keys ^ (keys >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Array = keys ^ (keys >> np.uint64(31))
    return mixed


def derive_key(*parts: int) -> int:
    """One 64-bit key from several integers, such as (seed, tree, purpose)."""
    key = 0
    for part in parts:  # as mix64 does, in Python's integers: for one number numpy takes ten times as long
        key = ((key ^ (part & WORD)) + 0x9E3779B97F4A7C15) & WORD
        key = ((key ^ (key >> 30)) * 0xBF58476D1CE4E5B9) & WORD
        key = ((key ^ (key >> 27)) * 0x94D049BB133111EB) & WORD
        key ^= key >> 31
    return key


def hash_numbers(numbers: Array, *key: int) -> Array:
    """A 64-bit hash of every number, such as a row's: a draw that is the same wherever the row is kept."""
    return mix64(numbers.astype(np.uint64) ^ np.uint64(derive_key(*key)))


def hash_rows(n_rows: int, *key: int) -> Array:
    """A 64-bit hash of the numbers of rows from 0."""
    return hash_numbers(np.arange(n_rows), *key)


def smallest_hashes(hashes: Array, count: int) -> Array:
    """Positions of the ``count`` smallest hashes, in order of position."""
    return np.sort(np.argpartition(hashes, count - 1)[:count])


def as_csr32(X: Any) -> sp.csr_matrix:
    """A CSR matrix of float32 without duplicates; the caller's matrix is left as it is."""
    X = sp.csr_matrix(X, dtype=np.float32)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def own_indices(X: Any) -> Any:
    """The same rows with indices that no other thread can change; what is not sparse, or read-only, as it is.

    Kernels walk the indices of CSR matrices for as long as a training takes. Values are shared: whatever these are, all
    walks end where they should. So are the numbers of a mapped file, which is opened for reading.
    """
    if not (sp.issparse(X) and X.format in ("csr", "csc") and X.indices.flags.writeable):
        return X
    return type(X)((X.data, X.indices.copy(), X.indptr.copy()), shape=X.shape)


DENSE_BLOCK = 2**20
"""Numbers of dense rows that become sparse ones at a time: as such they take six times the memory."""


def row_blocks(X: Features, most: int | None = None) -> Iterator[tuple[slice, Features]]:
    """Rows a block at a time, at most so many where that is told; dense ones never many."""
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


def largest_entries(matrix: sp.csr_matrix, most: int) -> sp.csr_matrix:
    """The ``most`` entries of largest size in every row, the first of equals."""
    sizes = np.diff(matrix.indptr)
    long = sizes > most
    if not long.any():
        return matrix
    kept = np.ones(matrix.nnz, bool)
    own = np.flatnonzero(np.repeat(long, sizes))  # entries of rows that lose some
    row = np.repeat(np.arange(long.sum()), sizes[long])
    rank = np.arange(len(own)) - np.repeat(np.cumsum(sizes[long]) - sizes[long], sizes[long])
    order = np.lexsort((-np.abs(matrix.data[own]), row))
    kept[own[order[rank >= most]]] = False
    indptr = np.concatenate(([0], np.cumsum(np.minimum(sizes, most))))
    return sp.csr_matrix((matrix.data[kept], matrix.indices[kept], indptr), shape=matrix.shape)


def even_ranges(weights: Array, n: int) -> list[tuple[int, int]]:
    """``n`` ranges that follow each other and have about the same weight; some are empty if there are few numbers."""
    so_far = np.concatenate(([0], np.cumsum(weights)))
    borders = np.searchsorted(so_far, so_far[-1] * np.arange(1, n) / n - 1e-9).tolist()
    return list(zip([0, *borders], [*borders, len(weights)], strict=True))
