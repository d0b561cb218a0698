"""Sparse vectors in few bytes, as the model file holds them and kernels read them.

Indices of a vector are steps from one to the next, in the narrowest type; values are 8-bit integers with a scale for
each vector, or float32. Re-ranking stages are fitted with vectors that are rounded already: a saved model predicts with
the numbers that it was evaluated with.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp

from sparseleaf import _kernels
from sparseleaf._steps import UNSIGNED, decode_steps, encode_steps, narrow, quantise, restored, split_leaps

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.model.source import StageSource

LARGEST_ENTRY = 2**7 - 1


def no_leaps() -> Array:
    """Leaps of steps that all fit their type."""
    return np.empty((0, 2), np.uint32)


@dataclass(frozen=True)
class PackedLists:
    """Lists of rising indices.

    Attributes
    ----------
    indptr : int64 array, shape (n_lists + 1,)
    steps : uint8, uint16 or uint32 array
        Every index less the one before; the first of a list as it is.
    width : int
        Indices are below.
    leaps : uint32 array, shape (n, 2)
        Places of steps, rising, and how many times 2¹⁶ each is larger.
    """

    indptr: Array
    steps: Array
    width: int
    leaps: Array = field(default_factory=no_leaps)

    def __getstate__(self) -> dict[str, Any]:
        # the compiled part is made again where it is needed
        return {name: value for name, value in vars(self).items() if name != "kernel"}

    @classmethod
    def of(cls, matrix: sp.csr_matrix) -> Self:
        """Where a CSR matrix has entries; its indices rise within a row."""
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
        """The compiled form; making it checks every index."""
        return _kernels.IndexLists(self.indptr, self.steps, self.leaps, self.width)


@dataclass(frozen=True)
class PackedVectors(PackedLists):
    """Sparse vectors.

    Attributes
    ----------
    values : int8 or float32 array
    scale : float32 array, shape (n_lists,), or empty
        What values in 8 bits are to be multiplied by.
    """

    values: Array = field(default_factory=lambda: np.empty(0, np.float32))
    scale: Array = field(default_factory=lambda: np.empty(0, np.float32))

    @classmethod
    def of(cls, matrix: sp.csr_matrix) -> Self:
        """The rows of a CSR matrix, rounded to 8 bits."""
        lists = PackedLists.of(matrix)
        steps, leaps = split_leaps(lists.steps)
        values, scale = quantise(matrix.data, lists.indptr, LARGEST_ENTRY)
        return cls(lists.indptr, steps, lists.width, leaps, values, scale)

    @property
    def shape(self) -> tuple[int, int]:
        """Vectors, and how long they are."""
        return self.n_lists, self.width

    @property
    def whole_values(self) -> Array:
        """Values as float32."""
        if not len(self.scale):
            return self.values
        return restored(self.values, self.scale, np.diff(self.indptr))

    def unpacked(self) -> sp.csr_matrix:
        """The same as a CSR matrix of float32."""
        return sp.csr_matrix((self.whole_values, self.indices, self.indptr), shape=self.shape)

    @cached_property
    def kernel(self) -> Any:
        """The compiled form; making it checks every index and number."""
        return _kernels.PackedVectors(
            self.indptr, self.steps, self.leaps, self.values, self.scale, self.width
        )

    # --- tensors of the model file

    def tensors(self, compact: bool) -> dict[str, Array]:
        """Tensors by name; without ``compact`` values are written as float32."""
        tensors = {"sizes": narrow(np.diff(self.indptr)), "steps": self.steps}
        if len(self.leaps):
            tensors["leaps"] = self.leaps
        if not compact or not len(self.scale):
            return tensors | {"values": self.whole_values}
        return tensors | {"values": self.values, "value_scale": self.scale}

    @classmethod
    def from_tensors(cls, source: StageSource, n_vectors: int, width: int) -> Self:
        """From tensors; ValueError where they do not fit together. The kernel checks indices and numbers."""
        sizes, steps = source.take("sizes", UNSIGNED, 1), source.take("steps", UNSIGNED, 1, in_place=True)
        if len(sizes) != n_vectors:
            raise ValueError(f"{source.prefix}sizes: found {len(sizes)}; wanted {n_vectors}")
        leaps = source.take("leaps", ("U32",), 2) if source.has("leaps") else no_leaps()
        values = source.take("values", ("F32", "I8"), 1, in_place=True)
        if len(values) != len(steps):
            raise ValueError(f"{source.prefix}values: found {len(values)}; wanted {len(steps)}")
        scale = np.empty(0, np.float32)
        if values.dtype != np.float32:
            scale = source.take("value_scale", ("F32",), 1)
        return cls(starts_of(sizes), steps, width, leaps, values, scale)


def starts_of(sizes: Array) -> Array:
    """Where lists of these sizes begin, then the end."""
    return np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))
