"""Properties of a feature matrix whose rows may be on other workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from sparseleaf._arrays import has_nan

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features


@dataclass(frozen=True)
class RowsInfo:
    """Properties of a feature matrix.

    Attributes
    ----------
    n_rows, n_features : int
    sparse, nan : bool
        Whether it is sparse, and whether it contains NaN.
    names : list of str or None
        Column names if it was a DataFrame.
    """

    n_rows: int
    n_features: int
    sparse: bool
    nan: bool
    names: list[str] | None = None

    @classmethod
    def of(cls, X: Features, names: list[str] | None = None, n_jobs: int = 1) -> RowsInfo:
        """Properties of validated rows."""
        return cls(X.shape[0], X.shape[1], sp.issparse(X), has_nan(X, n_jobs), names)


def join_info(parts: list[RowsInfo]) -> RowsInfo:
    """Combine the properties of all partitions, whose features must agree."""
    first = parts[0]
    for number, part in enumerate(parts):
        if part.n_features != first.n_features:
            raise ValueError(
                f"All partitions of X must have {first.n_features} features, as partition 0. Got {part.n_features} in"
                f" partition {number}."
            )
        if part.names != first.names:
            raise ValueError(
                f"All partitions of X must have the same column names; partition {number} differs from partition 0."
            )
        if part.sparse != first.sparse:
            raise ValueError(
                f"All partitions of X must be sparse, or all dense; partition {number} differs from partition 0."
            )
    return RowsInfo(
        sum(part.n_rows for part in parts),
        first.n_features,
        first.sparse,
        any(part.nan for part in parts),
        first.names,
    )


def refuse_nan(X: Features | RowsInfo, name: str = "X") -> None:
    """Raise ValueError if X contains NaN, which projections, routers and centroids do not support."""
    if X.nan if isinstance(X, RowsInfo) else has_nan(X):
        raise ValueError(
            f"{name} contains NaN, which projections, linear routers and label centroids do not support. Impute missing"
            " values, or use SparseGBDTClassifier with projection=None and rerank=None, whose trees support them."
        )


def take_rows(rows: Any, numbers: Array) -> Any:
    """Some rows of features or targets, in the same format."""
    if hasattr(rows, "iloc"):
        return rows.iloc[numbers]
    if sp.issparse(rows) or isinstance(rows, np.ndarray):
        return (sp.csr_matrix(rows) if sp.issparse(rows) else rows)[numbers]
    return [rows[number] for number in numbers.tolist()]
