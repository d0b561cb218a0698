"""What a stage is read from: its tensors, each handed out once and checked for its type, and its settings."""

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
        Those of the whole file that are left; one that is taken is taken off.
    prefix : str
        What the names of its tensors begin with.
    n_features, n_labels : int
    n_columns : int
        Width of what the stage before returns.
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
        """The tensor of that name, if it has one of these types and so many dimensions.

        It is a copy, so that a file that is written to while it is in use can change numbers, but no walk. ``in_place``
        leaves it in the mapped file: for bulk, of which kernels check each index that they take, each time.
        """
        whole = f"{self.prefix}{name}"
        if whole not in self.tensors:
            raise ModelFileError(f"tensor {whole!r} is missing")
        dtype, tensor = self.tensors.pop(whole)
        if dtype not in dtypes or tensor.ndim != ndim:
            raise ModelFileError(
                f"tensor {whole!r} is {dtype} with {tensor.ndim} dimensions; wanted {' or '.join(dtypes)} with {ndim}"
            )
        if not in_place:
            tensor = tensor.copy()
            tensor.flags.writeable = False
        return tensor

    def has(self, name: str) -> bool:
        """Whether there is a tensor of that name which was not taken yet."""
        return f"{self.prefix}{name}" in self.tensors

    def part(self, name: str, **changes: Any) -> StageSource:
        """The tensors whose names go on with ``name`` and a dot, for a part of the stage."""
        return replace(self, prefix=f"{self.prefix}{name}.", **changes)

    def flag(self, name: str) -> bool:
        """A tensor of one number, 0 or 1."""
        found = self.take(name, ("U8",), 1)
        if len(found) != 1 or found[0] > 1:
            raise ValueError(f"{name}: wanted one number, 0 or 1")
        return bool(found[0])

    def finite(self, name: str, dtypes: tuple[str, ...], ndim: int, *, in_place: bool = False) -> Array:
        """:meth:`take`, where every number must be finite."""
        found = self.take(name, dtypes, ndim, in_place=in_place)
        if not np.isfinite(found).all():
            raise ValueError(f"{name} holds a number that is not finite")
        return found


def prefixed(part: str, tensors: Mapping[str, Array]) -> dict[str, Array]:
    """Tensors of a part, named as :meth:`StageSource.part` looks for them."""
    return {f"{part}.{name}": tensor for name, tensor in tensors.items()}
