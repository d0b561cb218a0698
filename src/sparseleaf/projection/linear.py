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
    """A matrix W, float16 (n_features, r), and whether the raw features are kept beside X · W.

    Cuts of trees mind neither a shift nor a scale of a column: there is no centre, and columns are scaled to fit
    float16. Training sees the rounded W, so nothing is lost when a model is saved.
    """

    components: Array
    keep_raw: bool = False

    @property
    def width(self) -> int:
        """Number of columns that trees see."""
        n_features, projected = self.components.shape
        return int(projected + n_features * self.keep_raw)

    def parts(self, X: Features, n_jobs: int) -> list[Features]:
        """What trees see, side by side: X · W as float32, and X itself where it is kept."""
        projected = times(X, self.components.view(np.uint16), n_jobs)
        return [projected, X] if self.keep_raw else [projected]

    def transform(self, X: Features, n_jobs: int) -> Array:
        """What trees see as one array, float32 (n_rows, width)."""
        projected, *raw = self.parts(X, n_jobs)
        return np.hstack([projected, *(part.toarray() if sp.issparse(part) else part for part in raw)])


def times(X: Features, W: Array, n_jobs: int) -> Array:
    """X · W for dense or CSR X, float32, in an order of adding that does not depend on threads."""
    out = np.empty((X.shape[0], W.shape[1]), np.float32)
    if sp.issparse(X):
        _kernels.csr_times_dense(*csr_parts(X), W, out, n_jobs)
    else:
        _kernels.dense_times_dense(X, W, out, n_jobs)
    return out


def rounded(W: Array, keep_raw: bool = False) -> Projection:
    """A projection with W in float16, every column scaled by a power of two so that its largest weight is about 1."""
    largest = np.abs(W).max(axis=0, initial=0.0)
    scale = np.exp2(-np.ceil(np.log2(np.where(largest > 0, largest, 1.0))))
    return Projection(np.ascontiguousarray((W * scale).astype(np.float16)), keep_raw)
