"""Lists of rising indices as steps from one to the next: small numbers, which a narrow type holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sparseleaf.model.codec import narrow

if TYPE_CHECKING:
    from sparseleaf._arrays import Array


def encode_steps(indices: Array, indptr: Array) -> tuple[Array, Array]:
    """(sizes of the lists, steps): the first index of every list is counted from 0."""
    sizes = np.diff(indptr)
    steps = np.diff(indices, prepend=0).astype(np.int64)
    first = indptr[:-1][sizes > 0]
    steps[first] = indices[first]
    return narrow(sizes), narrow(steps)


def decode_steps(sizes: Array, steps: Array, width: int) -> tuple[Array, Array]:
    """(indices int32, indptr int64); ValueError where an index would not be below ``width``."""
    indptr = np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))
    if indptr[-1] != len(steps):
        raise ValueError("sizes must add up to the number of entries")
    total = np.concatenate(([0], np.cumsum(steps, dtype=np.int64)))
    indices = total[1:] - np.repeat(total[indptr[:-1]], sizes)
    # 2³² entries of 32 bits do not overflow 64
    if indices.max(initial=-1) >= min(width, 2**31):
        raise ValueError("steps: an index that does not exist")
    return indices.astype(np.int32), indptr


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


def quantise(values: Array, groups: Array, n_groups: int, largest: int) -> tuple[Array, Array]:
    """Rows of values as integers up to ``largest``, and the scale of every group: value ≈ integer · scale."""
    sizes = np.abs(values) if values.ndim == 1 else np.abs(values).max(axis=1, initial=0)
    top = np.zeros(n_groups, np.float32)
    np.maximum.at(top, groups, sizes)
    scale = np.where(top > 0, top / np.float32(largest), np.float32(1)).astype(np.float32)
    scale = np.maximum(scale, np.finfo(np.float32).smallest_subnormal)  # the quotient may come to 0
    each = scale[groups] if values.ndim == 1 else scale[groups][:, None]
    kind = np.int8 if largest < 2**7 else np.int16
    return np.rint(values / each).clip(-largest, largest).astype(kind), scale


def restored(integers: Array, scale: Array, sizes: Array) -> Array:
    """Values from integers and the scale of each group of ``sizes``."""
    if len(scale) != len(sizes):
        raise ValueError(f"found {len(scale)} scales; wanted {len(sizes)}")
    each = np.repeat(scale, sizes)
    with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is refused where it is used
        values: Array = integers.astype(np.float32) * (each if integers.ndim == 1 else each[:, None])
    return values
