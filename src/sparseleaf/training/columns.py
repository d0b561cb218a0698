"""What the columns of a tree's histograms are, and how their integers become gains."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from sparseleaf._arrays import Array

COUNT, SHARED, DIAGONAL, MATRIX = range(4)
"""Curvature behind the gradients: the number of rows, one column for all outputs, one for each, their matrix."""

LARGEST_INT16 = 2**15 - 1
LARGEST_EXPONENT = 127
"""Of a power of two that float32 holds."""

VECTOR = 8
"""Columns are padded to a multiple of this, the vector of 32-bit integers that nearly every machine has."""


@dataclass(frozen=True)
class Columns:
    """Scales of one tree's columns. The score of output j is ``weight · G²/(H + lambda_)`` in integers G and H.

    Attributes
    ----------
    curvature : int
    weight, lambda_, step : float64 arrays, shape (n_outputs,)
        ``-step · G/(H + lambda_)`` is the value that a leaf with these sums would take.
    first : int
        The output that the first of them is, where a tree is for some outputs alone.
    """

    curvature: int
    weight: Array
    lambda_: Array
    step: Array
    first: int = 0


def make_columns(curvature: int, g_scale: Array, h_scale: Array, l2: float, first: int = 0) -> Columns:
    """Columns whose gradients and curvatures were multiplied by these scales (1 for a count of rows)."""
    g_scale = np.asarray(g_scale, np.float64)
    h_scale = np.broadcast_to(np.asarray(h_scale, np.float64), g_scale.shape)
    # at least one unit: where λ is 0, curvatures that all round to 0 must not make a gain of 0/0
    lambda_ = np.full(len(g_scale), l2) if curvature == COUNT else np.maximum(l2 * h_scale, 1.0)
    return Columns(curvature, h_scale / g_scale**2, lambda_, h_scale / g_scale, first)


def padded_width(width: int) -> int:
    """Columns with their padding: at most 4 take half a vector, others full ones."""
    return 4 if width <= 4 else -(-width // VECTOR) * VECTOR


def int16_scales(largest: Array) -> Array:
    """For every column, the largest power of two by which numbers up to ``largest`` stay within 16 bits."""
    return np.array(
        [
            2.0 ** min(math.floor(math.log2(LARGEST_INT16 / size)), LARGEST_EXPONENT) if size > 0 else 1.0
            for size in np.asarray(largest, np.float64).tolist()
        ]
    )


def fixed_point_scales(largest: Array, n_rows: int) -> Array:
    """For every column, a power of two by which sums over the rows stay within 62 bits."""
    bound = np.asarray(largest, np.float64) * max(n_rows, 1)
    return np.array(
        [2.0 ** min(61 - math.ceil(math.log2(size)), 200) if size > 0 else 1.0 for size in bound.tolist()]
    )
