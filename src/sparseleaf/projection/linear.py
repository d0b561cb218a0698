"""A linear projection X · W, applied by a kernel whose result never depends on threads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from sparseleaf import _kernels
from sparseleaf._arrays import csr_parts

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features


@dataclass(frozen=True)
class Projection:
    """A matrix W, float16 (n_features, width).

    Cuts of trees mind neither a shift nor a scale of a column: there is no centre, and columns are scaled to fit
    float16. Training sees the rounded W, so nothing is lost when a model is saved.
    """

    components: Array

    @property
    def width(self) -> int:
        """Number of new columns."""
        return int(self.components.shape[1])

    def transform(self, X: Features, n_jobs: int) -> Array:
        """X · W, float32 (n_rows, width)."""
        return times(X, self.components.view(np.uint16), n_jobs)


def times(X: Features, W: Array, n_jobs: int) -> Array:
    """X · W for dense or CSR X, float32, in an order of adding that does not depend on threads."""
    out = np.empty((X.shape[0], W.shape[1]), np.float32)
    if sp.issparse(X):
        _kernels.csr_times_dense(*csr_parts(X), W, out, n_jobs)
    else:
        _kernels.dense_times_dense(X, W, out, n_jobs)
    return out


def rounded(W: Array) -> Projection:
    """W in float16, every column scaled by a power of two so that its largest weight is about 1."""
    largest = np.abs(W).max(axis=0, initial=0.0)
    scale = np.exp2(-np.ceil(np.log2(np.where(largest > 0, largest, 1.0))))
    return Projection(np.ascontiguousarray((W * scale).astype(np.float16)))
