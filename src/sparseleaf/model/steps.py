"""Lists of rising indices as steps from one to the next: small numbers, which a narrow type holds."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from sparseleaf.model.codec import narrow

if TYPE_CHECKING:
    from sparseleaf._arrays import Array

BLOCK_ENTRIES = 2**22
"""Entries worked on at a time: what is made of them on the way takes more memory than they do."""


def encode_steps(indices: Array, indptr: Array) -> tuple[Array, Array]:
    """(sizes of the lists, steps): the first index of every list is counted from 0."""
    sizes = np.diff(indptr)
    steps = indices.copy()
    steps[1:] -= indices[:-1]
    first = indptr[:-1][sizes > 0]
    steps[first] = indices[first]
    return narrow(sizes), narrow(steps)


def decode_steps(sizes: Array, steps: Array, width: int) -> tuple[Array, Array]:
    """(indices int32, indptr int64); ValueError where an index would not be below ``width``."""
    indptr = np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))
    if indptr[-1] != len(steps):
        raise ValueError("sizes must add up to the number of entries")
    indices = np.empty(len(steps), np.int32)
    for first, end in _blocks(indptr):
        own = slice(indptr[first], indptr[end])
        total = np.concatenate(([0], np.cumsum(steps[own], dtype=np.int64)))
        before = total[indptr[first:end] - indptr[first]]
        wide = total[1:] - np.repeat(before, sizes[first:end])
        # 2³² entries of 32 bits do not overflow 64
        if wide.max(initial=-1) >= min(width, 2**31):
            raise ValueError("steps: an index that does not exist")
        indices[own] = wide
    return indices, indptr


def split_leaps(steps: Array) -> tuple[Array, Array]:
    """Steps in 16 bits, and (place, how many times 2¹⁶ more) of those that need more: few do."""
    wide = np.flatnonzero(steps >> 16) if steps.dtype.itemsize > 2 else np.empty(0, np.int64)
    leaps = np.stack((wide, steps[wide] >> 16), axis=1).astype(np.uint32)
    return narrow(steps & 0xFFFF) if len(wide) else steps, leaps


def join_leaps(steps: Array, leaps: Array) -> Array:
    """Steps as they were; ValueError where a place does not exist."""
    if leaps.shape[1:] != (2,) or leaps.max(initial=0, axis=0)[:1].max(initial=0) >= max(1, len(steps)):
        raise ValueError("leaps: a place that does not exist")
    whole = steps.astype(np.uint64)
    np.add.at(whole, leaps[:, 0], leaps[:, 1].astype(np.uint64) << np.uint64(16))
    if whole.max(initial=0) >= 2**32:
        raise ValueError("leaps: an index that does not exist")
    return whole.astype(np.uint32)


def quantise(values: Array, indptr: Array, largest: int) -> tuple[Array, Array]:
    """Rows of values as integers up to ``largest``, and a scale for every group of them: value ≈ integer · scale."""
    integers = np.empty(values.shape, np.int8 if largest < 2**7 else np.int16)
    scale = np.ones(len(indptr) - 1, np.float32)
    smallest = np.finfo(np.float32).smallest_subnormal
    for first, end in _blocks(indptr, values.shape[1] if values.ndim > 1 else 1):
        rows = values[indptr[first] : indptr[end]]
        sizes = np.diff(indptr[first : end + 1])
        magnitude = np.abs(rows) if rows.ndim == 1 else np.abs(rows).max(axis=1, initial=0)
        filled = np.flatnonzero(sizes)
        top = np.maximum.reduceat(magnitude, indptr[first:end][filled] - indptr[first])
        # the quotient may come to 0
        quotient = np.maximum(top / np.float32(largest), smallest, dtype=np.float32)
        scale[first + filled] = np.where(top > 0, quotient, np.float32(1))
        each = np.repeat(scale[first:end], sizes)
        quotients = rows / (each if rows.ndim == 1 else each[:, None])
        integers[indptr[first] : indptr[end]] = np.rint(quotients).clip(-largest, largest)
    return integers, scale


def restored(integers: Array, scale: Array, sizes: Array) -> Array:
    """Values from integers and the scale of each group of ``sizes``."""
    if len(scale) != len(sizes):
        raise ValueError(f"found {len(scale)} scales; wanted {len(sizes)}")
    each = np.repeat(scale, sizes)
    values: Array = integers.astype(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is refused where it is used
        values *= each if values.ndim == 1 else each[:, None]
    return values


def _blocks(indptr: Array, columns: int = 1) -> Iterator[tuple[int, int]]:
    """(first, end) of groups that have together about BLOCK_ENTRIES numbers, and all groups that have any."""
    at = np.arange(0, indptr[-1], max(1, BLOCK_ENTRIES // columns))
    return itertools.pairwise(
        np.unique([*np.searchsorted(indptr, at, "right") - 1, len(indptr) - 1]).tolist()
    )
