"""The part of a model file that a stage is read from: its tensors, validated for type, and its settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from sparseleaf._arrays import Array

Tensors = dict[str, tuple[str, "Array"]]
"""Tensors of a file by name, with the names of their types."""


class ModelFileError(ValueError):
    """The file is not a model that this version can read.

    Examples
    --------
    >>> import sparseleaf
    >>> from pathlib import Path
    >>> _ = Path("broken.safetensors").write_bytes(b"not a model")
    >>> try:
    ...     sparseleaf.load("broken.safetensors")
    ... except sparseleaf.ModelFileError:
    ...     print("refused")
    refused
    """


@dataclass(frozen=True)
class StageSource:
    """A stage's part of a file.

    Attributes
    ----------
    tensors : dict
        Tensors of the whole file that have not been taken.
    prefix : str
        Prefix of its tensors' names.
    n_features, n_labels : int
    n_columns : int
        Number of columns that the previous stage returns.
    target_kind : str
        Of the model.
    kind : str
    settings : mapping
        Its entry in the header.
    names : array or None
        Names of the labels.
    """

    tensors: Tensors
    prefix: str
    n_features: int
    n_labels: int
    n_columns: int
    target_kind: str = ""
    kind: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    names: Array | None = None

    def take(self, name: str, dtypes: tuple[str, ...], ndim: int, *, in_place: bool = False) -> Array:
        """Remove and return the tensor of that name, which must have one of these types and ``ndim`` dimensions.

        Returns a copy, so that a write to the file in use cannot invalidate checked indices. ``in_place`` returns a
        view of the mapped file, for bulk data whose indices kernels check on every access.
        """
        full_name = f"{self.prefix}{name}"
        if full_name not in self.tensors:
            raise ModelFileError(f"tensor {full_name!r} is missing")
        dtype, tensor = self.tensors.pop(full_name)
        if dtype not in dtypes or tensor.ndim != ndim:
            raise ModelFileError(
                f"tensor {full_name!r} must be {' or '.join(dtypes)} with {ndim} dimensions, is {dtype} with"
                f" {tensor.ndim}"
            )
        if not in_place:
            tensor = tensor.copy()
            tensor.flags.writeable = False
        return tensor

    def has(self, name: str) -> bool:
        """Whether there is a tensor of that name that was not taken yet."""
        return f"{self.prefix}{name}" in self.tensors

    def part(self, name: str, **changes: Any) -> StageSource:
        """The tensors prefixed with ``name`` and a dot, for a part of the stage."""
        return replace(self, prefix=f"{self.prefix}{name}.", **changes)

    def flag(self, name: str) -> bool:
        """A tensor with a single 0 or 1."""
        value = self.take(name, ("U8",), 1)
        if len(value) != 1 or value[0] > 1:
            raise ValueError(f"{name} must be a single 0 or 1")
        return bool(value[0])

    def count(self, name: str, default: int, most: int = 1000) -> int:
        """A tensor with a single number from 1 to ``most``; files of earlier versions do not have it."""
        if not self.has(name):
            return default
        value = self.take(name, ("U32",), 1)
        if len(value) != 1 or not 1 <= value[0] <= most:
            raise ValueError(f"{self.prefix}{name} must be a single number from 1 to {most}")
        return int(value[0])

    def finite(self, name: str, dtypes: tuple[str, ...], ndim: int, *, in_place: bool = False) -> Array:
        """:meth:`take` a tensor whose values must be finite."""
        values = self.take(name, dtypes, ndim, in_place=in_place)
        if not np.isfinite(values).all():
            raise ValueError(f"{name} has values that are not finite")
        return values


def prefixed(part: str, tensors: Mapping[str, Array]) -> dict[str, Array]:
    """Prefix the tensors of a part, as :meth:`StageSource.part` expects."""
    return {f"{part}.{name}": tensor for name, tensor in tensors.items()}
