"""Choosing and fitting a projection: LEML, or scikit-learn's PCA and random projection."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.random_projection import GaussianRandomProjection
from threadpoolctl import threadpool_limits

from sparseleaf.projection.leml import LEML
from sparseleaf.projection.linear import Projection, rounded

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features
    from sparseleaf.data.rows import RowsInfo

PROJECTIONS = ("leml", "pca", "random")

RAW_BESIDE = 2_048
"""Maximum number of raw features that ``keep_raw="auto"`` keeps in addition to the projected ones."""


def choose_projection(kind: str | None, rows: RowsInfo, dim: int) -> str | None:
    """Resolve ``projection="auto"``: LEML for sparse X with more than ``dim`` features and no NaN, else None."""
    if kind != "auto":
        return kind
    return "leml" if rows.sparse and rows.n_features > dim and not rows.nan else None


def choose_keep_raw(keep_raw: bool | str, kind: str | None, rows: RowsInfo) -> bool:
    """Resolve ``keep_raw="auto"``."""
    if kind is None:
        return False
    return rows.n_features <= RAW_BESIDE if keep_raw == "auto" else bool(keep_raw)


def fit_projection(
    kind: str,
    X: Features,
    Y: sp.csr_matrix,
    dim: int,
    *,
    keep_raw: bool,
    seed: int,
    n_jobs: int,
    verbose: int = 0,
) -> Projection:
    """Fit a projection to ``dim`` columns, or fewer if X has fewer features."""
    return rounded(_components(kind, X, Y, dim, seed, n_jobs, verbose), keep_raw)


def _components(
    kind: str, X: Features, Y: sp.csr_matrix, dim: int, seed: int, n_jobs: int, verbose: int
) -> Array:
    """W, float (n_features, dim)."""
    if kind == "leml":
        W: Array = LEML(dim, n_jobs=n_jobs, random_state=seed, verbose=verbose).fit(X, Y).components_
        return W
    if kind == "random":
        # depends on the shape of X only; one row is enough to fit it
        fitted = GaussianRandomProjection(min(dim, X.shape[1]), random_state=seed).fit(X[:1])
        return np.asarray(fitted.components_.T)
    dim = min(dim, *X.shape)
    if not sp.issparse(X):
        fitted = PCA(dim, random_state=seed)
    elif dim < X.shape[1]:
        fitted = TruncatedSVD(dim, random_state=seed)
    else:
        return np.eye(X.shape[1])
    # the summation order of BLAS depends on the number of threads and on the build: use one thread and float64, whose
    # last bits are lost when components are rounded to float16
    with threadpool_limits(1), np.errstate(invalid="ignore"):  # a single row has no variance
        fitted.fit(X.astype(np.float64))
    return np.asarray(fitted.components_.T)
