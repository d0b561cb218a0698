"""What rows of features are like, where the rows themselves may be elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import scipy.sparse as sp

from sparseleaf._arrays import has_nan

if TYPE_CHECKING:
    from sparseleaf._arrays import Features


@dataclass(frozen=True)
class RowsInfo:
    """What features are like.

    Attributes
    ----------
    n_rows, n_features : int
    sparse, nan : bool
        Whether they are a sparse matrix, and whether a value is missing.
    names : list of str or None
        Columns of the DataFrame they were.
    """

    n_rows: int
    n_features: int
    sparse: bool
    nan: bool
    names: list[str] | None = None

    @classmethod
    def of(cls, X: Features, names: list[str] | None = None) -> RowsInfo:
        """Of checked rows."""
        return cls(X.shape[0], X.shape[1], sp.issparse(X), has_nan(X), names)


def join_info(parts: list[RowsInfo]) -> RowsInfo:
    """What all parts are like together; they must agree on their features."""
    first = parts[0]
    for number, part in enumerate(parts):
        if part.n_features != first.n_features:
            raise ValueError(
                f"X: found {part.n_features} features in part {number}; wanted {first.n_features}, as in part 0."
            )
        if part.names != first.names:
            raise ValueError(f"X: found other column names in part {number} than in part 0.")
        if part.sparse != first.sparse:
            raise ValueError(f"X: found sparse and dense rows (parts 0 and {number}); wanted one kind.")
    return RowsInfo(
        sum(part.n_rows for part in parts),
        first.n_features,
        first.sparse,
        any(part.nan for part in parts),
        first.names,
    )


def refuse_nan(X: Features | RowsInfo, name: str = "X") -> None:
    """Raise ValueError where a projection, a router or a centroid would meet NaN."""
    if X.nan if isinstance(X, RowsInfo) else has_nan(X):
        raise ValueError(
            f"{name}: found NaN, which a projection, router or centroid cannot take; fill missing values in first,"
            " or train SparseGBDTClassifier with projection=None, whose trees learn which way missing values go."
        )
