"""Delta encoding of sorted index lists in narrow integer types, and quantisation of values."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from sparseleaf._arrays import Array

BLOCK_ENTRIES = 2**22
"""Number of entries per block, which limits the memory of temporary arrays."""


UNSIGNED = ("U8", "U16", "U32")
"""Names of the types of :func:`narrow` in a model file."""


def narrow(numbers: Array) -> Array:
    """Convert numbers >= 0 to the narrowest unsigned type."""
    largest = int(numbers.max(initial=0))
    return numbers.astype(
        next(t for t in (np.uint8, np.uint16, np.uint32, np.uint64) if largest <= np.iinfo(t).max)
    )


def encode_steps(indices: Array, indptr: Array) -> tuple[Array, Array]:
    """Sizes of the lists, and differences of consecutive indices; the first index of a list is stored itself."""
    sizes = np.diff(indptr)
    steps = indices.copy()
    steps[1:] -= indices[:-1]
    first = indptr[:-1][sizes > 0]
    steps[first] = indices[first]
    return narrow(sizes), narrow(steps)


def decode_steps(indptr: Array, steps: Array, leaps: Array | None = None) -> Array:
    """Decode validated steps to int32 indices; see :func:`split_leaps` for leaps."""
    indices = np.empty(len(steps), np.int32)
    for first, end in _blocks(indptr):
        entries = slice(indptr[first], indptr[end])
        wide = steps[entries].astype(np.int64)
        if leaps is not None:
            begin, stop = np.searchsorted(leaps[:, 0], (entries.start, entries.stop))
            wide[leaps[begin:stop, 0] - entries.start] += leaps[begin:stop, 1].astype(np.int64) << 16
        total = np.concatenate(([0], np.cumsum(wide)))
        before = total[indptr[first:end] - indptr[first]]
        indices[entries] = total[1:] - np.repeat(before, np.diff(indptr[first : end + 1]))
    return indices


def split_leaps(steps: Array) -> tuple[Array, Array]:
    """Split into 16-bit steps and, for the few larger ones, (position, high bits)."""
    wide = np.flatnonzero(steps >> 16) if steps.dtype.itemsize > 2 else np.empty(0, np.int64)
    leaps = np.stack((wide, steps[wide] >> 16), axis=1).astype(np.uint32)
    return narrow(steps & 0xFFFF) if len(wide) else steps, leaps


def quantise(values: Array, indptr: Array, largest: int) -> tuple[Array, Array]:
    """Quantise the rows of a matrix to integers up to ``largest``, with a scale per group: value ≈ integer · scale."""
    integers = np.empty(values.shape, np.int8 if largest < 2**7 else np.int16)
    scale = np.ones(len(indptr) - 1, np.float32)
    smallest = np.finfo(np.float32).smallest_subnormal
    for first, end in _blocks(indptr, values.shape[1]):
        rows = values[indptr[first] : indptr[end]]
        sizes = np.diff(indptr[first : end + 1])
        magnitude = np.abs(rows).max(axis=1, initial=0)
        filled = np.flatnonzero(sizes)
        top = np.maximum.reduceat(magnitude, indptr[first:end][filled] - indptr[first])
        # the quotient may underflow to 0
        quotient = np.maximum(top / np.float32(largest), smallest, dtype=np.float32)
        scale[first + filled] = np.where(top > 0, quotient, np.float32(1))
        quotients = rows / np.repeat(scale[first:end], sizes)[:, None]
        integers[indptr[first] : indptr[end]] = np.rint(quotients).clip(-largest, largest)
    return integers, scale


def restored(integers: Array, scale: Array, sizes: Array) -> Array:
    """Dequantise integers with one scale per group of ``sizes``."""
    if len(scale) != len(sizes):
        raise ValueError(f"expected {len(sizes)} scales, got {len(scale)}")
    each = np.repeat(scale, sizes)
    values: Array = integers.astype(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):  # non-finite values are rejected later
        values *= each if values.ndim == 1 else each[:, None]
    return values


def _blocks(indptr: Array, columns: int = 1) -> Iterator[tuple[int, int]]:
    """Ranges (first, end) of groups with about BLOCK_ENTRIES numbers in total."""
    at = np.arange(0, indptr[-1], max(1, BLOCK_ENTRIES // columns))
    return itertools.pairwise(
        np.unique([*np.searchsorted(indptr, at, "right") - 1, len(indptr) - 1]).tolist()
    )
