"""Compact sparse vectors, in the form used by model files and kernels.

Indices are delta-encoded in the narrowest type; values are 8-bit integers with one scale per vector, or float32.
Re-rankers are fitted on the quantised vectors, so a saved model predicts with the values it was evaluated with.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp

from sparseleaf import _kernels
from sparseleaf._arrays import replace_rows
from sparseleaf._steps import UNSIGNED, decode_steps, encode_steps, narrow, restored, split_leaps

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.model.source import StageSource

LARGEST_ENTRY = 2**7 - 1


def no_leaps() -> Array:
    """Empty leaps, for steps that all fit their type."""
    return np.empty((0, 2), np.uint32)


@dataclass(frozen=True)
class PackedLists:
    """Delta-encoded lists of sorted indices.

    Attributes
    ----------
    indptr : int64 array, shape (n_lists + 1,)
    steps : uint8, uint16 or uint32 array
        Differences of consecutive indices; the first index of each list itself.
    width : int
        Upper bound of the indices, exclusive.
    leaps : uint32 array, shape (n, 2)
        Positions of steps beyond 16 bits, sorted, and their high bits.
    """

    indptr: Array
    steps: Array
    width: int
    leaps: Array = field(default_factory=no_leaps)

    def __getstate__(self) -> dict[str, Any]:
        # the kernel object is recreated on demand
        return {name: value for name, value in vars(self).items() if name != "kernel"}

    @classmethod
    def of(cls, matrix: sp.csr_matrix) -> Self:
        """Column indices of a CSR matrix with sorted indices."""
        _, steps = encode_steps(matrix.indices, matrix.indptr)
        return cls(matrix.indptr.astype(np.int64), steps, matrix.shape[1])

    @property
    def n_lists(self) -> int:
        """Number of lists."""
        return len(self.indptr) - 1

    @property
    def indices(self) -> Array:
        """All indices, int32."""
        return decode_steps(self.indptr, self.steps, self.leaps)

    @cached_property
    def kernel(self) -> Any:
        """The kernel object; its constructor validates every index."""
        return _kernels.IndexLists(self.indptr, self.steps, self.leaps, self.width)


@dataclass(frozen=True)
class PackedVectors(PackedLists):
    """Compact sparse vectors.

    Attributes
    ----------
    values : int8 or float32 array
    scale : float32 array, shape (n_lists,), or empty
        Factor of the 8-bit values of each vector.
    """

    values: Array = field(default_factory=lambda: np.empty(0, np.float32))
    scale: Array = field(default_factory=lambda: np.empty(0, np.float32))

    @classmethod
    def of(cls, matrix: sp.csr_matrix, n_jobs: int = 1) -> Self:
        """Rows of a CSR matrix, quantised to 8 bits."""
        lists = PackedLists.of(matrix)
        steps, leaps = split_leaps(lists.steps)
        values, scale = quantise_vectors(matrix.data, lists.indptr, n_jobs)
        return cls(lists.indptr, steps, lists.width, leaps, values, scale)

    @property
    def shape(self) -> tuple[int, int]:
        """Number and dimension of the vectors."""
        return self.n_lists, self.width

    @property
    def whole_values(self) -> Array:
        """Values as float32."""
        if not len(self.scale):
            return self.values
        return restored(self.values, self.scale, np.diff(self.indptr))

    def unpacked(self) -> sp.csr_matrix:
        """The vectors as a CSR matrix of float32."""
        return sp.csr_matrix((self.whole_values, self.indices, self.indptr), shape=self.shape)

    def replaced(self, numbers: Array, vectors: sp.csr_matrix, n_vectors: int) -> Self:
        """A copy of ``n_vectors`` vectors with some replaced; the others keep their bits, those beyond are empty."""
        values, scale = vectors.data, self.scale
        old = sp.csr_matrix((self.values, self.indices, self.indptr), shape=self.shape)
        if old.dtype != np.float32:
            values, others = quantise_vectors(vectors.data, vectors.indptr)
            scale = np.ones(n_vectors, np.float32)
            scale[: self.n_lists] = self.scale
            scale[numbers] = others
        new = sp.csr_matrix((values, vectors.indices, vectors.indptr), shape=vectors.shape)
        joined = replace_rows(old, numbers, new, n_vectors)
        lists = PackedLists.of(joined)
        steps, leaps = split_leaps(lists.steps)
        return type(self)(lists.indptr, steps, lists.width, leaps, joined.data, scale)

    @cached_property
    def kernel(self) -> Any:
        """The kernel object; its constructor validates every index and value."""
        return _kernels.PackedVectors(
            self.indptr, self.steps, self.leaps, self.values, self.scale, self.width
        )

    # --- tensors of the model file

    def tensors(self, compact: bool) -> dict[str, Array]:
        """Tensors by name; values are float32 unless ``compact``."""
        tensors = {"sizes": narrow(np.diff(self.indptr)), "steps": self.steps}
        if len(self.leaps):
            tensors["leaps"] = self.leaps
        if not compact or not len(self.scale):
            return tensors | {"values": self.whole_values}
        return tensors | {"values": self.values, "value_scale": self.scale}

    @classmethod
    def from_tensors(cls, source: StageSource, n_vectors: int, width: int) -> Self:
        """Create from tensors; ValueError if they are inconsistent. The kernel validates indices and values."""
        sizes, steps = source.take("sizes", UNSIGNED, 1), source.take("steps", UNSIGNED, 1, in_place=True)
        if len(sizes) != n_vectors:
            raise ValueError(f"{source.prefix}sizes: expected {n_vectors} entries, got {len(sizes)}")
        leaps = source.take("leaps", ("U32",), 2) if source.has("leaps") else no_leaps()
        values = source.take("values", ("F32", "I8"), 1, in_place=True)
        if len(values) != len(steps):
            raise ValueError(f"{source.prefix}values: expected {len(steps)} entries, got {len(values)}")
        scale = np.empty(0, np.float32)
        if values.dtype != np.float32:
            scale = source.take("value_scale", ("F32",), 1)
        return cls(starts_of(sizes), steps, width, leaps, values, scale)


def quantise_vectors(values: Array, indptr: Array, n_jobs: int = 1) -> tuple[Array, Array]:
    """Values of vectors as 8-bit integers, and the scale of each vector: value ≈ integer · scale."""
    integers, scale = np.empty(len(values), np.int8), np.empty(len(indptr) - 1, np.float32)
    _kernels.quantise_vectors(
        np.ascontiguousarray(indptr, np.int64),
        np.ascontiguousarray(values, np.float32),
        LARGEST_ENTRY,
        integers,
        scale,
        n_jobs,
    )
    return integers, scale


def starts_of(sizes: Array) -> Array:
    """Row pointers of lists with these sizes."""
    return np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))
