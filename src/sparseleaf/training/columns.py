"""The layout of histogram columns, and the scales that convert their integers to gains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from sparseleaf._arrays import Array

COUNT, SHARED, DIAGONAL, MATRIX = range(4)
"""Hessian columns after the gradients: none (the number of rows), one for all outputs, one per output, or a matrix."""

LARGEST_INT16 = 2**15 - 1
SMALLEST = 2.0**-200
"""Below it, the scale is the largest one."""

LARGEST_EXPONENT = 127
"""Largest exponent of a power of two in float32."""

VECTOR = 8
"""Columns are padded to a multiple of this: the 32-bit integers of a 256-bit vector."""


@dataclass(frozen=True)
class Columns:
    """Scales of one tree's columns. The score of output j is ``weight · G²/(H + lambda_)`` in integers G and H.

    Attributes
    ----------
    hessian : int
    weight, lambda_, step : float64 arrays, shape (n_outputs,)
        ``-step · G/(H + lambda_)`` is the value of a leaf with these sums.
    first : int
        Index of the first output, for trees that are fitted to some outputs only.
    """

    hessian: int
    weight: Array
    lambda_: Array
    step: Array
    first: int = 0


def make_columns(hessian: int, g_scale: Array, h_scale: Array, l2: float, first: int = 0) -> Columns:
    """Columns whose gradients and hessians were multiplied by these scales (1 for row counts)."""
    g_scale = np.asarray(g_scale, np.float64)
    h_scale = np.broadcast_to(np.asarray(h_scale, np.float64), g_scale.shape)
    # at least one unit: with λ = 0, hessians that all round to 0 must not give 0/0
    lambda_ = np.full(len(g_scale), l2) if hessian == COUNT else np.maximum(l2 * h_scale, 1.0)
    return Columns(hessian, h_scale / g_scale**2, lambda_, h_scale / g_scale, first)


def padded_width(width: int) -> int:
    """Number of columns with padding: up to 4 take half a vector, more take full vectors."""
    return 4 if width <= 4 else -(-width // VECTOR) * VECTOR


def int16_scales(largest: Array) -> Array:
    """For every column, the largest power-of-two scale with which values up to ``largest`` fit 16 bits."""
    size = np.asarray(largest, np.float64)
    exponent = np.frexp(LARGEST_INT16 / np.maximum(size, SMALLEST))[1] - 1  # of the power of two below
    return np.where(size > 0, np.ldexp(1.0, np.minimum(exponent, LARGEST_EXPONENT)), 1.0)


def fixed_point_scales(largest: Array, n_rows: int) -> Array:
    """For every column, a power-of-two scale with which sums over all rows fit 62 bits."""
    size = np.asarray(largest, np.float64) * max(n_rows, 1)
    fraction, exponent = np.frexp(np.maximum(size, SMALLEST))
    above = exponent - (fraction == 0.5)  # of the power of two above, or of the number itself
    return np.where(size > 0, np.ldexp(1.0, np.minimum(61 - above, 200)), 1.0)
