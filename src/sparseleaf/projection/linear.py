"""A linear projection X · W, applied by a kernel whose result never depends on threads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp

from sparseleaf import _kernels
from sparseleaf._arrays import csr_parts, has_nan
from sparseleaf.model.registry import register
from sparseleaf.model.stage import Role, Rows, Stage

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features
    from sparseleaf.model.source import StageSource

BLOCK_ROWS = 16_384
"""Rows that are projected at a time, so that memory does not grow with a batch."""


@register("projection")
@dataclass(frozen=True)
class Projection(Stage):
    """A matrix W, float16 (n_features, r), and whether the raw features are kept beside X · W.

    Cuts of trees mind neither a shift nor a scale of a column: there is no centre, and columns are scaled to fit
    float16. Training sees the rounded W, so nothing is lost when a model is saved.
    """

    components: Array
    keep_raw: bool = False

    kind: ClassVar[str] = "projection"
    role: ClassVar[Role] = Role.PROJECTION
    takes_nan: ClassVar[bool] = False

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

    def apply(self, before: Rows) -> ProjectedRows:
        """Rows whose columns are projected, a block at a time."""
        return ProjectedRows(before, self)

    # --- tensors of the model file

    def tensors(self, compact: bool) -> dict[str, Array]:
        """Tensors by name."""
        return {"components": self.components, "keep_raw": np.array([self.keep_raw], np.uint8)}

    @classmethod
    def from_tensors(cls, source: StageSource) -> Self:
        """From tensors; ValueError where they do not fit the features."""
        components = source.finite("components", ("F16",), 2, in_place=True)
        if components.shape[0] != source.n_features or components.shape[1] < 1:
            raise ValueError(
                f"components has shape {components.shape}; wanted ({source.n_features}, at least 1)"
            )
        return cls(components, source.flag("keep_raw"))

    def describe(self) -> dict[str, Any]:
        """Its shape."""
        return {"projection_shape": list(self.components.shape), "keep_raw": self.keep_raw}


class ProjectedRows(Rows):
    """Rows of which trees see the projection."""

    def __init__(self, before: Rows, projection: Projection) -> None:
        super().__init__(before.X, before.n_trees, before.n_jobs)
        self._projection = projection

    def columns(self) -> Iterator[tuple[slice, Features, bool]]:
        """See :class:`~sparseleaf.model.stage.Rows`."""
        for begin in range(0, max(1, self.n_rows), BLOCK_ROWS):
            block = slice(begin, begin + BLOCK_ROWS)
            rows = self.X if self.n_rows <= BLOCK_ROWS else self.X[block]
            columns = self._projection.transform(rows, self.n_jobs)
            # a product of huge values may be inf - inf, which training took for missing as well
            yield block, columns, has_nan(columns)


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
