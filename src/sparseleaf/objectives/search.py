"""Minimiser of a convex loss without a closed form: root of its derivative."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from sparseleaf._arrays import Array

FARTHEST = 2.0**100
MOST_STEPS = 200
PRECISION = 2.0**-24
"""Relative precision of float32."""


def minimise(slope: Callable[[Array], Array], n_outputs: int) -> Array:
    """Root of the non-decreasing derivative ``slope`` of every output, float32.

    A bracket around 0 is widened until it contains the root, then narrowed by Chandrupatla's method: inverse quadratic
    interpolation where it is safe, bisection otherwise. Every step evaluates all outputs at once.
    """
    a, b = -np.ones(n_outputs), np.ones(n_outputs)
    fa, fb = slope(a), slope(b)
    while ((fa > 0) & (a > -FARTHEST)).any():
        a = np.where(fa > 0, 4 * a, a)
        fa = slope(a)
    while ((fb < 0) & (b < FARTHEST)).any():
        b = np.where(fb < 0, 4 * b, b)
        fb = slope(b)
    fraction = np.full(n_outputs, 0.5)
    for _ in range(MOST_STEPS):
        at = a + fraction * (b - a)
        here = slope(at)
        same = np.sign(here) == np.sign(fa)
        c, fc = np.where(same, a, b), np.where(same, fa, fb)
        b, fb = np.where(same, b, a), np.where(same, fb, fa)
        a, fa = at, here
        best = np.where(np.abs(fa) <= np.abs(fb), a, b)
        near = PRECISION * np.maximum(np.abs(best), PRECISION)
        least = near / np.maximum(np.abs(b - a), near)
        if ((least >= 0.5) | (np.minimum(np.abs(fa), np.abs(fb)) == 0)).all():
            break
        with np.errstate(divide="ignore", invalid="ignore"):
            place, height = (a - b) / (c - b), (fa - fb) / (fc - fb)
            curve = fa / (fb - fa) * fc / (fb - fc) + (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
        safe = (height**2 < place) & ((1 - height) ** 2 < 1 - place) & np.isfinite(curve)
        fraction = np.clip(np.where(safe, curve, 0.5), least, 1 - least)
        fraction = np.where(fa == 0, 0.0, fraction)  # a root stays
    return np.where(np.abs(fa) <= np.abs(fb), a, b).astype(np.float32)
