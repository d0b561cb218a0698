"""Linear projections X · W, fitted by scikit-learn and applied by a kernel whose result never depends on threads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.random_projection import GaussianRandomProjection
from threadpoolctl import threadpool_limits

from sparseleaf import _kernels
from sparseleaf._arrays import csr_parts

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features

PROJECTIONS = ("random", "pca")

RAW_FEATURES = 2_000
"""With "auto", sparse data of more features than this is projected."""


@dataclass(frozen=True)
class Projection:
    """A matrix W, float32 (n_features, width). Cuts of trees do not mind a shift, so there is no centre."""

    components: Array

    @property
    def width(self) -> int:
        """Number of new columns."""
        return int(self.components.shape[1])

    def transform(self, X: Features, n_jobs: int) -> Array:
        """X · W, float32 (n_rows, width)."""
        out = np.empty((X.shape[0], self.width), np.float32)
        if sp.issparse(X):
            _kernels.csr_times_dense(*csr_parts(X), self.components, out, n_jobs)
        else:
            _kernels.dense_times_dense(X, self.components, out, n_jobs)
        return out


def choose_projection(kind: str | None, X: Features) -> str | None:
    """What ``projection="auto"`` means for this data: raw features where they are dense or few."""
    if kind != "auto":
        return kind
    return "pca" if sp.issparse(X) and X.shape[1] > RAW_FEATURES else None


def fit_projection(kind: str, X: Features, dim: int, seed: int) -> Projection:
    """Fit the projection of that kind to ``dim`` columns (fewer where X has not as many)."""
    if kind == "random":
        # drawn by the size of X alone; one row is enough to fit it
        fitted = GaussianRandomProjection(min(dim, X.shape[1]), random_state=seed).fit(X[:1])
    else:
        dim = min(dim, *X.shape)
        if not sp.issparse(X):
            fitted = PCA(dim, random_state=seed)
        elif dim < X.shape[1]:
            fitted = TruncatedSVD(dim, random_state=seed)
        else:
            return Projection(np.eye(X.shape[1], dtype=np.float32))
        # BLAS adds in another order for another number of threads: one thread gives the same bits always
        with threadpool_limits(1), np.errstate(invalid="ignore"):  # one row has no variance to divide by
            fitted.fit(X)
    return Projection(np.ascontiguousarray(fitted.components_.T, np.float32))
