"""The projection stage of a model: X · W, with a summation order that does not depend on threads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp

from sparseleaf import _kernels
from sparseleaf._arrays import csr_parts, has_nan
from sparseleaf.model.attribution import Terms, tiled
from sparseleaf.model.importance import largest_importances
from sparseleaf.model.registry import register
from sparseleaf.model.stage import Role, Rows, Stage

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features
    from sparseleaf.model.attribution import Pairs
    from sparseleaf.model.source import StageSource

BLOCK_ROWS = 16_384
"""Number of rows projected at a time, so that memory does not grow with the batch."""


LARGEST = 1_000
"""Number of features per label that importances are kept of."""


@register("projection")
@dataclass(frozen=True)
class Projection(Stage):
    """Projection matrix W, float16 (n_features, r), and whether the raw features are kept in addition to X · W.

    Splits do not depend on shift or scale of a feature, so there is no centring, and columns are scaled to the range of
    float16. Training uses the rounded W, so saving a model loses nothing.
    """

    components: Array
    keep_raw: bool = False

    kind: ClassVar[str] = "projection"
    role: ClassVar[Role] = Role.PROJECTION
    takes_nan: ClassVar[bool] = False

    @property
    def width(self) -> int:
        """Number of features after the projection, including raw features."""
        n_features, projected = self.components.shape
        return int(projected + n_features * self.keep_raw)

    def parts(self, X: Features, n_jobs: int) -> list[Features]:
        """Blocks of the projected features: X · W as float32, and X if raw features are kept."""
        projected = times(X, self.components.view(np.uint16), n_jobs)
        return [projected, X] if self.keep_raw else [projected]

    def transform(self, X: Features, n_jobs: int) -> Array:
        """Projected features as one array, float32 (n_rows, width)."""
        projected, *raw = self.parts(X, n_jobs)
        return np.hstack([projected, *(part.toarray() if sp.issparse(part) else part for part in raw)])

    def apply(self, before: Rows) -> ProjectedRows:
        """Rows that are projected in blocks."""
        return ProjectedRows(before, self)

    def label_importances(self, labels: Array, before: sp.csr_matrix, n_jobs: int) -> sp.csr_matrix:
        """See :class:`~sparseleaf.model.stage.Stage`.

        The importance of a projected column is divided among the features in proportion to their weights, with the sign
        of these; only the largest features of every label are kept.
        """
        n_features, width = self.components.shape
        parts = []
        sizes = np.abs(self.components).sum(axis=0, dtype=np.float64)
        factors = np.divide(1, sizes, out=np.zeros(width), where=sizes > 0)
        for label in range(before.shape[0]):
            columns = before[label, :width].toarray()[0] * factors
            used = np.flatnonzero(columns)
            dense = np.zeros(n_features)
            for column in used.tolist():  # a matrix product would convert all of W to float64
                dense += columns[column] * self.components[:, column]
            if self.keep_raw:
                dense += before[label, width:].toarray()[0]
            parts.append(largest_importances(sp.csr_matrix(dense[None]), LARGEST))
        shape = (0, n_features)
        return sp.vstack([sp.csr_matrix(shape, dtype=np.float64), *parts], "csr")

    # --- tensors of the model file

    def tensors(self, compact: bool) -> dict[str, Array]:
        """Tensors by name."""
        return {"components": self.components, "keep_raw": np.array([self.keep_raw], np.uint8)}

    @classmethod
    def from_tensors(cls, source: StageSource) -> Self:
        """Create from tensors; ValueError if they do not match the number of features."""
        components = source.finite("components", ("F16",), 2, in_place=True)
        if components.shape[0] != source.n_features or components.shape[1] < 1:
            raise ValueError(
                f"components must have shape ({source.n_features}, r >= 1). Got {components.shape} instead."
            )
        return cls(components, source.flag("keep_raw"))

    def describe(self) -> dict[str, Any]:
        """Shape of the projection matrix."""
        return {"projection_shape": list(self.components.shape), "keep_raw": self.keep_raw}


class ProjectedRows(Rows):
    """Rows with projected features."""

    def __init__(self, before: Rows, projection: Projection) -> None:
        super().__init__(before.X, before.n_trees, before.n_jobs, before.device)
        self._projection = projection

    def columns(self) -> Iterator[tuple[slice, Features, bool]]:
        """See :class:`~sparseleaf.model.stage.Rows`."""
        for begin in range(0, max(1, self.n_rows), BLOCK_ROWS):
            block = slice(begin, begin + BLOCK_ROWS)
            rows = self.X if self.n_rows <= BLOCK_ROWS else self.X[block]
            columns = self._projection.transform(rows, self.n_jobs)
            # products of huge values may be NaN, which training treats as missing too
            yield block, columns, has_nan(columns, self.n_jobs)

    def to_features(self, pairs: Pairs, columns: Array, values: Array) -> tuple[Terms, Array]:
        """See :class:`~sparseleaf.model.stage.Rows`.

        The contribution of a projected column is divided among the terms x · W of its value that have its sign, in
        proportion to them: the features that move the column to where it is.
        """
        components, rows = self._projection.components, sp.csr_matrix(self.X)
        width = components.shape[1]
        projected = columns < width
        parts, rests = [np.empty(0)], [np.empty(0)]
        starts = pairs.starts(self.n_rows)
        for row in np.unique(pairs.rows).tolist():
            entries = slice(rows.indptr[row], rows.indptr[row + 1])
            W = components[rows.indices[entries]][:, columns[projected]].astype(np.float64)
            shares = _shares(rows.data[entries, None] * W)
            of_row = values[starts[row] : starts[row + 1]][:, projected]
            # einsum: the order of sums in BLAS depends on the number of threads
            parts.append(np.einsum("pc,fc->pf", of_row, shares).ravel())
            rests.append(np.where(shares.any(axis=0), 0.0, of_row).sum(axis=1))
        terms = replace(tiled(pairs, rows), data=np.concatenate(parts))
        raw, _ = super().to_features(pairs, columns[~projected] - width, values[:, ~projected])
        return terms + raw if len(raw.data) else terms, np.concatenate(rests)


def _shares(terms: Array) -> Array:
    """Shares of the terms (n_terms, n_columns) in every column, of sum 1; 0 if there is none of the column's sign."""
    sign = np.sign(terms.sum(axis=0))
    helping = np.where(sign == 0, np.abs(terms), np.maximum(sign * terms, 0))
    total = helping.sum(axis=0)
    shares: Array = np.divide(helping, total, out=np.zeros_like(helping), where=total > 0)
    return shares


def times(X: Features, W: Array, n_jobs: int) -> Array:
    """X · W for dense or CSR X, float32, with a summation order that does not depend on threads."""
    out = np.empty((X.shape[0], W.shape[1]), np.float32)
    if sp.issparse(X):
        _kernels.csr_times_dense(*csr_parts(X), W, out, n_jobs)
    else:
        _kernels.dense_times_dense(X, W, out, n_jobs)
    return out


def rounded(W: Array, keep_raw: bool = False) -> Projection:
    """A projection with W in float16, each column scaled by a power of two to a maximum of about 1."""
    largest = np.abs(W).max(axis=0, initial=0.0)
    scale = np.exp2(-np.ceil(np.log2(np.where(largest > 0, largest, 1.0))))
    return Projection(np.ascontiguousarray((W * scale).astype(np.float16)), keep_raw)
