"""Multi-threading of numpy and scipy functions, which release the GIL."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import scipy.sparse as sp

from sparseleaf import _kernels

if TYPE_CHECKING:
    from sparseleaf._arrays import Array

Item = TypeVar("Item")
Result = TypeVar("Result")

BLOCK_ROWS = 16_384


def in_threads(work: Callable[[Item], Result], items: Iterable[Item], n_jobs: int) -> list[Result]:
    """Apply a function in threads; results in the order of the items."""
    items = list(items)
    if n_jobs <= 1 or len(items) <= 1:
        return [work(item) for item in items]
    with ThreadPoolExecutor(min(n_jobs, len(items))) as pool:
        return list(pool.map(work, items))


def started(work: Callable[[], Result], n_jobs: int) -> Callable[[], Result]:
    """Start ``work`` in a thread; the returned function waits for the result. With one job, its first call works."""
    if n_jobs <= 1:
        return cache(work)
    with_context = copy_context()  # progress is reported as in the calling thread
    pool = ThreadPoolExecutor(1)
    future = pool.submit(lambda: with_context.run(work))
    pool.shutdown(wait=False)
    return future.result


def by_rows(work: Callable[[slice], object], n_rows: int, n_jobs: int) -> None:
    """Call ``work`` with slices of the rows, each of about ``BLOCK_ROWS`` rows, in threads."""
    blocks = [slice(begin, begin + BLOCK_ROWS) for begin in range(0, n_rows, BLOCK_ROWS)]
    in_threads(work, blocks, n_jobs)


def fill_rows(out: Array, row: Array, n_jobs: int) -> None:
    """Set every row of ``out``; new memory is mapped by all threads, which takes longer than writing it."""
    _kernels.fill_rows(np.ascontiguousarray(row, out.dtype).view(np.uint8), out.view(np.uint8), n_jobs)


def take_rows(X: Array, rows: Array, n_jobs: int) -> Array:
    """``X[rows]`` of a dense array."""
    X = np.ascontiguousarray(X)
    out = np.empty((len(rows), X.shape[1]), X.dtype)
    _kernels.take_rows(X.view(np.uint8), rows.astype(np.int64, copy=False), out.view(np.uint8), n_jobs)
    return out


def sparse_product(left: sp.csr_matrix, right: sp.csr_matrix, n_jobs: int) -> sp.csr_matrix:
    """``left @ right`` of floats, bit-identical: every row of the product is computed by one thread."""
    dtype = np.result_type(left.dtype, right.dtype, np.float32)
    indptr, indices, data = _kernels.csr_product(
        *_parts(left, dtype), *_parts(right, dtype), right.shape[1], n_jobs
    )
    return sp.csr_matrix((data, indices, indptr), shape=(left.shape[0], right.shape[1]))


def _parts(matrix: sp.csr_matrix, dtype: np.dtype[Any]) -> tuple[Array, Array, Array]:
    return (
        np.ascontiguousarray(matrix.indptr, np.int64),
        np.ascontiguousarray(matrix.indices, np.int32),
        np.ascontiguousarray(matrix.data, dtype),
    )
