"""Columns of Arrow batches as the arrays that ``fit`` and ``predict`` take; runs in the executors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

if TYPE_CHECKING:
    from sparseleaf._arrays import Array, Features

SPARSE = 0
"""Type of a sparse vector in the storage of Spark's VectorUDT."""


def features_of(column: pa.Array, name: str = "featuresCol") -> Features:
    """Rows of a column of vectors (struct of type, size, indices and values) or of arrays of numbers, as float32.

    Dense if all vectors are dense, otherwise CSR.
    """
    refuse_nulls(column, name)
    if pa.types.is_struct(column.type):
        fields = dict(zip((field.name for field in column.type), column.flatten(), strict=True))
        column = fields["values"]
        refuse_nulls(column, name)
        if "indices" in fields:
            return _vectors(fields["type"], fields["size"], fields["indices"], column, name)
    return _matrix(column, name)


def _matrix(column: pa.Array, name: str, *, unknown: bool = False) -> Array:
    """Arrays of numbers of equal length; ``unknown`` ones may be null, which is NaN."""
    lengths = np.diff(_offsets(column))
    _refuse_sizes(lengths, name)
    values = _numbers(column.flatten(), name, unknown=unknown)
    return values.reshape(len(lengths), int(lengths[0]) if len(lengths) else 0)


def _vectors(kinds: pa.Array, sizes: pa.Array, indices: pa.Array, values: pa.Array, name: str) -> Features:
    sparse = kinds.to_numpy(zero_copy_only=False) == SPARSE
    if not sparse.any():
        return _matrix(values, name)
    offsets = _offsets(values)
    lengths = np.diff(offsets)
    widths = np.where(sparse, sizes.fill_null(0).to_numpy(zero_copy_only=False), lengths)
    _refuse_sizes(widths, name)
    data = _numbers(values.flatten(), name)
    of_sparse = np.repeat(sparse, lengths)
    columns = (np.arange(len(data)) - np.repeat(offsets[:-1], lengths)).astype(np.int32)
    columns[of_sparse] = indices.flatten().to_numpy(zero_copy_only=False)
    matrix = sp.csr_matrix((data, columns, offsets), shape=(len(lengths), int(widths[0])))
    if not sparse.all():
        matrix.eliminate_zeros()  # of the dense vectors
    return matrix


def _offsets(lists: pa.Array) -> Array:
    """Row pointers of a list array, from 0; nulls are empty."""
    lengths = lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    return np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))


def _numbers(values: pa.Array, name: str, *, unknown: bool = False) -> Array:
    if not unknown:
        refuse_nulls(values, name)
    with np.errstate(over="ignore"):  # infinite values are refused by ``fit``
        return np.asarray(values.to_numpy(zero_copy_only=False), np.float32)


def targets_of(column: pa.Array, name: str = "labelCol") -> Any:
    """Targets of a column: label lists, a matrix (vectors, arrays of numbers), or one number or text per row.

    A null among floating-point numbers is an unknown target, NaN.
    """
    kind = column.type
    if pa.types.is_struct(kind):
        return features_of(column, name)
    if pa.types.is_list(kind):
        refuse_nulls(column, name)
        if pa.types.is_floating(kind.value_type):
            return _matrix(column, name, unknown=True)
        refuse_nulls(column.flatten(), name)
        return column.to_pylist()
    if not pa.types.is_floating(kind):
        refuse_nulls(column, name)
    if pa.types.is_string(kind):
        return np.array([*column.to_pylist(), None], object)[:-1]
    if pa.types.is_decimal(kind):
        column = column.cast(pa.float64())
    return column.to_numpy(zero_copy_only=False)


def numbers_of(column: pa.Array, name: str) -> Array:
    """Values of a column, for instance weights or query ids."""
    refuse_nulls(column, name)
    values: Array = column.to_numpy(zero_copy_only=False)
    return values


def refuse_nulls(column: pa.Array, name: str) -> None:
    """Raise ValueError for nulls."""
    if column.null_count:
        raise ValueError(f"{name} must not have nulls. Got {column.null_count} in one batch.")


def _refuse_sizes(sizes: Array, name: str) -> None:
    if len(sizes) and (sizes != sizes[0]).any():
        raise ValueError(
            f"{name} must have vectors of equal size. Got sizes {sizes.min()} and {sizes.max()} instead."
        )


def join_features(pieces: Sequence[Features], name: str = "featuresCol") -> Features:
    """Concatenate rows; sparse if any piece is."""
    _refuse_sizes(np.array([piece.shape[1] for piece in pieces]), name)
    if len(pieces) == 1:
        return pieces[0]
    if any(sp.issparse(piece) for piece in pieces):
        return sp.vstack([sp.csr_matrix(piece) for piece in pieces], format="csr")
    return np.concatenate(pieces)
