"""Fingerprints of data, to detect changes without storing it.

The fingerprint of a dataset is the sum over its rows of a 64-bit hash of the row and its global number, so the
fingerprints of partitions add up to that of the whole. It is not cryptographic.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from sparseleaf._arrays import derive_key, hash_numbers, mix64

if TYPE_CHECKING:
    from sparseleaf._arrays import Array

BLOCK_ROWS = 16_384
COLUMN, ROW = 21, 22
"""Purpose of a hash, part of its key."""


def fingerprint(rows: Any, first_row: int = 0) -> int:
    """Fingerprint of a 1- or 2-dimensional array or a CSR matrix; those of partitions add up modulo 2⁶⁴."""
    sparse = sp.issparse(rows)
    if not sparse:
        rows = _words(rows)
    keys = hash_numbers(np.arange(rows.shape[1]), COLUMN) | np.uint64(1)
    total = np.zeros(1, np.uint64)
    for begin in range(0, rows.shape[0], BLOCK_ROWS):
        block = rows[begin : begin + BLOCK_ROWS]
        # a row is hashed as Σ key of column · bits of value
        dots = _sparse_dots(block, keys) if sparse else block.astype(np.uint64) @ keys
        numbers = np.arange(first_row + begin, first_row + begin + len(dots))
        total += mix64(dots ^ hash_numbers(numbers, ROW)).sum(dtype=np.uint64)
    return int(total[0])


def describe(rows: Any) -> str:
    """Shape and fingerprint as text."""
    return format_fingerprint(rows.shape, fingerprint(rows))


def format_fingerprint(shape: tuple[int, ...], total: int) -> str:
    """The text of :func:`describe` for a dataset with this shape and fingerprint."""
    return f"{' × '.join(map(str, shape))} (fingerprint {total % 2**64:016x})"


Prints = dict[str, tuple[tuple[int, ...], int]]
"""Shape and fingerprint by name."""


def join_fingerprints(parts: list[Prints]) -> dict[str, str]:
    """The text of :func:`describe` for datasets in several partitions."""
    return {
        name: format_fingerprint(
            (sum(part[name][0][0] for part in parts), *parts[0][name][0][1:]),
            sum(part[name][1] for part in parts),
        )
        for name in parts[0]
    }


def describe_names(names: Iterable[Any]) -> str:
    """Number and fingerprint of a list of names."""
    listed = [repr(name) for name in names]
    digest = hashlib.blake2b("\n".join(listed).encode(), digest_size=8).hexdigest()
    return f"{len(listed)} (fingerprint {digest})"


def describe_arrays(arrays: Iterable[Array]) -> str:
    """Fingerprint of several arrays of any shape."""
    key = 0
    for array in arrays:
        key = derive_key(key, fingerprint(array.reshape(len(array), -1)), *array.shape)
    return f"fingerprint {key:016x}"


def _words(rows: Array) -> Array:
    """Values as 32-bit words: uint32 (n_rows, words)."""
    table = np.ascontiguousarray(rows).reshape(len(rows), -1 if len(rows) else 1)
    if table.dtype.itemsize % 4:
        table = table.astype(np.float32 if table.dtype.kind == "f" else np.int32)
    return table.view(np.uint32)


def _sparse_dots(block: sp.csr_matrix, keys: Array) -> Array:
    bits = block.data.astype(np.float32, copy=False).view(np.uint32).astype(np.uint64)
    sums = np.concatenate((np.zeros(1, np.uint64), np.cumsum(bits * keys[block.indices], dtype=np.uint64)))
    dots: Array = sums[block.indptr[1:]] - sums[block.indptr[:-1]]
    return dots
