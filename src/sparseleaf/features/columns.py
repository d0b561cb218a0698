"""Numeric and categorical columns beside the text: standardised numbers, and one-hot categories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from sparseleaf.features.records import is_missing

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.model.source import StageSource

MAX_DEVIATIONS = 10.0
"""Bound of standardised values, so that an outlier does not dominate a row."""


@dataclass(frozen=True)
class NumericColumns:
    """Numbers, standardised with mean and standard deviation of the training rows; missing values are 0, the mean.

    Attributes
    ----------
    names : tuple of str
    weights : float64 array
        Factor of each column.
    mean, scale : float64 arrays
        Of the known values of each column; a constant column has scale 1.
    """

    names: tuple[str, ...]
    weights: Array
    mean: Array
    scale: Array

    @classmethod
    def fit(cls, weights: dict[str, float], columns: dict[str | None, list[Any]], n_rows: int) -> Self:
        """From the columns of the training rows."""
        mean, scale = np.zeros(len(weights)), np.ones(len(weights))
        for place, name in enumerate(weights):
            values = _numbers(columns[name], name)
            values = values[~np.isnan(values)]
            if len(values):
                mean[place] = values.mean()
                deviation = values.std()
                scale[place] = deviation if deviation > 1e-12 * max(1.0, abs(mean[place])) else 1.0
        return cls(tuple(weights), np.array(list(weights.values())), mean, scale)

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.names)

    def feature_names(self) -> list[str]:
        """Names of the columns."""
        return list(self.names)

    def transform(self, columns: dict[str | None, list[Any]], n_rows: int) -> tuple[Array, Array, Array]:
        """CSR arrays (indptr, indices, values) of the rows."""
        values = np.zeros((n_rows, self.width), np.float32)
        for place, name in enumerate(self.names):
            numbers = _numbers(columns[name], name)
            deviations = np.nan_to_num((numbers - self.mean[place]) / self.scale[place])
            values[:, place] = self.weights[place] * deviations.clip(-MAX_DEVIATIONS, MAX_DEVIATIONS)
        row, column = np.nonzero(values)
        indptr = np.searchsorted(row, np.arange(n_rows + 1))
        return indptr.astype(np.int64), column.astype(np.int32), values[row, column]

    def tensors(self) -> dict[str, Array]:
        """Tensors by name."""
        return {"mean": self.mean, "scale": self.scale}

    @classmethod
    def from_tensors(cls, source: StageSource, weights: dict[str, float]) -> Self:
        """From untrusted tensors."""
        mean, scale = (source.finite(name, ("F64",), 1) for name in ("mean", "scale"))
        if len(mean) != len(weights) or len(scale) != len(weights) or not (scale > 0).all():
            raise ValueError(f"mean and scale > 0 must have one entry for each of {len(weights)} columns")
        return cls(tuple(weights), np.array(list(weights.values())), mean, scale)


@dataclass(frozen=True)
class CategoryColumn:
    """One-hot encoding of one column; a missing or unknown category has no entry.

    Attributes
    ----------
    name : str
    weight : float
        Value of the entry.
    categories : tuple of str
        Sorted.
    """

    name: str
    weight: float
    categories: tuple[str, ...]

    @classmethod
    def fit(cls, name: str, weight: float, values: Sequence[Any]) -> Self:
        """From the column of the training rows."""
        known = {_category(value, name) for value in values if not is_missing(value)}
        return cls(name, weight, tuple(sorted(known)))

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.categories)

    def feature_names(self) -> list[str]:
        """Names of the columns."""
        return [f"{self.name}={category}" for category in self.categories]

    def transform(self, columns: dict[str | None, list[Any]], n_rows: int) -> tuple[Array, Array, Array]:
        """CSR arrays (indptr, indices, values) of the rows."""
        place = {category: number for number, category in enumerate(self.categories)}
        numbers = np.array(
            [
                -1 if is_missing(value) else place.get(_category(value, self.name), -1)
                for value in columns[self.name]
            ],
            np.int32,
        )
        indptr = np.concatenate(([0], np.cumsum(numbers >= 0, dtype=np.int64)))
        indices = numbers[numbers >= 0]
        return indptr, indices, np.full(len(indices), self.weight, np.float32)

    def tensors(self) -> dict[str, Array]:
        """Tensors by name."""
        encoded = [category.encode() for category in self.categories]
        return {
            "bytes": np.frombuffer(b"".join(encoded), np.uint8),
            "lengths": np.array([len(one) for one in encoded], np.uint32),
        }

    @classmethod
    def from_tensors(cls, source: StageSource, name: str, weight: float) -> Self:
        """From untrusted tensors."""
        text, lengths = source.take("bytes", ("U8",), 1), source.take("lengths", ("U32",), 1)
        ends = np.cumsum(lengths, dtype=np.int64).tolist()
        if (ends[-1] if ends else 0) != len(text):
            raise ValueError("lengths must have the sum of the bytes")
        whole = text.tobytes()
        categories = tuple(whole[a:b].decode() for a, b in zip([0, *ends[:-1]], ends, strict=True))
        if list(categories) != sorted(set(categories)):
            raise ValueError("categories must be sorted and distinct")
        return cls(name, weight, categories)


def _numbers(values: Sequence[Any], name: str) -> Array:
    try:
        numbers = np.array([np.nan if is_missing(value) else float(value) for value in values], np.float64)
    except (TypeError, ValueError):
        bad = next(value for value in values if not is_missing(value) and not _is_number(value))
        raise ValueError(f"The column {name!r} must be numeric. Got {bad!r:.80} instead.") from None
    if np.isinf(numbers).any():
        raise ValueError(f"The column {name!r} must be finite. Got infinity instead.")
    return numbers


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def _category(value: Any, name: str) -> str:
    """A category as text; 1 and 1.0 are the same, since a column with missing values is of floats."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    if isinstance(value, list | tuple | dict | set | np.ndarray):
        raise ValueError(
            f"The column {name!r} must have one category per row. Got {value!r:.80} instead; several"
            " values are a text field."
        )
    return str(value)
