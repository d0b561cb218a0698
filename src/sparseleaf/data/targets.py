"""Encoding of classification targets.

Input: a sparse matrix, a dense 0/1 array or DataFrame, lists of label names, or one class per row. Output: `Targets`, a
CSR matrix of ones with one column per label, and the names of the labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.preprocessing import MultiLabelBinarizer
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.multiclass import type_of_target

from sparseleaf import _kernels
from sparseleaf._arrays import compressed_state, require_countable
from sparseleaf._threads import fill_rows
from sparseleaf.data.checks import check_names, check_sparse, check_unicode, check_values

__all__ = ["Targets", "decode", "encode_targets"]

Kind = Literal[
    "multilabel-sparse",
    "multilabel-indicator",
    "label-lists",
    "multiclass",
    "binary",
    "regression",
    "regression-column",
]
"""Form of the targets; the last is one number per row."""

ONE_CLASS_PER_ROW = ("binary", "multiclass")

_CHECKED = tuple(map(np.dtype, (np.float32, np.float64, np.int32, np.int64, np.int8, np.uint8)))
"""Types for which there is a kernel."""

_ACCEPTED = (
    "a sparse or dense matrix of 0 and 1, a DataFrame of 0 and 1, a list with a list of label names "
    "for each row, or one class per row"
)


@dataclass(frozen=True)
class Targets:
    """Encoded targets.

    Attributes
    ----------
    matrix : csr_matrix of float32, shape (n_rows, n_labels)
        Ones only: no stored zeros, sorted and unique indices. Do not modify it: the index arrays may be those of the
        user's matrix.
    names : ndarray of shape (n_labels,) or None
        Name of each label: str as objects, integers, or the sorted classes for one class per row. None if labels have
        no names.
    kind : str
        Form of the input: "multilabel-sparse", "multilabel-indicator" (dense), "label-lists", "multiclass" or "binary"
        (one class per row).

    Examples
    --------
    >>> from sparseleaf.data import encode_targets
    >>> encode_targets([["b"], ["a", "b"]], n_rows=2).matrix.toarray().tolist()
    [[0.0, 1.0], [1.0, 1.0]]
    """

    matrix: sparse.csr_matrix
    names: NDArray[Any] | None
    kind: Kind

    def form(self) -> Targets:
        """Kind and names, without the rows."""
        return Targets(self.matrix[:0], self.names, self.kind)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.matrix.shape[0])

    @property
    def n_labels(self) -> int:
        """Number of labels, including those without rows."""
        return int(self.matrix.shape[1])


def encode_targets(Y: Any, n_rows: int | None = None, n_jobs: int = 1) -> Targets:
    """Encode classification targets as a sparse matrix.

    Parameters
    ----------
    Y : sparse matrix, array-like or DataFrame
        One of:

        - a sparse matrix of shape (n_rows, n_labels), in any format, of 0 and 1 or booleans; stored zeros are dropped
          and repeated entries merged;
        - a dense array of shape (n_rows, n_labels), n_labels > 1, of 0 and 1 or booleans; the column names of a
          DataFrame become label names;
        - a list with a list, tuple, set or array of label names for each row, all str or all integers (integers are
          names too: 7 and 9 make two columns, not ten);
        - an array-like of shape (n_rows,) or (n_rows, 1) with one class per row: str, integer or boolean.

        A list of lists is interpreted as label names unless it is a 0/1 table: lists of equal length of 0 and 1 (or
        booleans), at least one of which has a repeated value. Ambiguous lists raise ValueError. Rows may have no
        labels, except in the last form.
    n_rows : int, optional
        Expected number of rows.
    n_jobs : int, default=1
        Number of threads that check a sparse matrix.

    Returns
    -------
    targets : Targets
        Encoded targets.

    Raises
    ------
    ValueError
        If ``Y`` has none of these forms.

    Examples
    --------
    >>> from sparseleaf.data import encode_targets
    >>> targets = encode_targets([["red", "green"], ["blue"]], n_rows=2)
    >>> targets.matrix.shape
    (2, 3)
    """
    check_values(Y, "Y")
    if isinstance(Y, Targets):
        targets = Y
    elif sparse.issparse(Y):
        targets = Targets(_from_sparse(Y, n_jobs), None, "multilabel-sparse")
    elif _is_label_lists(Y):
        targets = _from_lists(Y)
    else:
        targets = _from_dense(Y)
    if n_rows is not None and targets.n_rows != n_rows:
        raise ValueError(f"Y must have {n_rows} rows, as X. Got {targets.n_rows} instead.")
    require_countable("Y", targets.n_labels, "labels")
    return targets


def encode_label_lists(Y: Sequence[Sequence[Any]]) -> Targets:
    """Encode lists of label names that are known to be lists of names, where 0 and 1 are names, too."""
    distinct = {name for row in Y for name in row}
    return _from_names(Y, distinct, is_int=all(isinstance(name, int) for name in distinct))


def form_of(kind: str, n_labels: int) -> dict[str, Any]:
    """Properties that targets of all partitions must share; classes and label names are merged."""
    if kind in ("binary", "multiclass"):
        return {"y": "one class per row"}
    if kind == "label-lists":
        return {"y": kind}
    return {"y": kind, "columns of y": n_labels}


def join_forms(forms: Sequence[Targets]) -> Targets:
    """Combine kind and names of the targets of several partitions, which must be of one kind."""
    first = forms[0]
    kinds = {form.kind for form in forms}
    if kinds > {"binary"} and kinds <= {"binary", "multiclass"}:
        kinds = {"multiclass"}
    if len(kinds) > 1:
        raise ValueError(
            f"All partitions of Y must have the same form. Got {', '.join(sorted(kinds))} instead."
        )
    kind = kinds.pop()
    if kind in ("multilabel-sparse", "multilabel-indicator"):
        for number, form in enumerate(forms):
            if form.n_labels != first.n_labels:
                raise ValueError(
                    f"All partitions of Y must have {first.n_labels} labels, as partition 0. Got {form.n_labels} in"
                    f" partition {number}."
                )
            if (form.names is None) != (first.names is None) or (
                form.names is not None and form.names.tolist() != first.names.tolist()  # type: ignore[union-attr]
            ):
                raise ValueError(
                    f"All partitions of Y must have the same label names; partition {number} differs from partition 0."
                )
        return first
    # the names of partitions without labels have no meaningful dtype
    lists = [form.names for form in forms if form.names is not None and len(form.names)]
    if len({"i" if name.dtype.kind == "u" else name.dtype.kind for name in lists}) > 1:
        types = ", ".join(dict.fromkeys(str(name.dtype) for name in lists))
        raise ValueError(f"The labels of all partitions of Y must have the same type. Got {types} instead.")
    names = np.unique(np.concatenate(lists)) if lists else first.names
    if kind == "binary" and names is not None and len(names) > 2:
        kind = "multiclass"
    matrix = sparse.csr_matrix((0, 0 if names is None else len(names)), dtype=np.float32)
    return Targets(matrix, names, kind)


def relabelled(targets: Targets, form: Targets) -> Targets:
    """Re-encode targets with the labels of ``form``, a superset of theirs."""
    matrix, names = targets.matrix, targets.names
    if names is None or form.names is None or len(names) == len(form.names):
        return Targets(matrix, form.names, form.kind)
    places = np.searchsorted(form.names, names).astype(matrix.indices.dtype)
    indices = places[matrix.indices] if len(places) else matrix.indices
    return Targets(_ones(indices, matrix.indptr, (matrix.shape[0], len(form.names))), form.names, form.kind)


def decode(ids: ArrayLike, names: NDArray[Any] | None) -> NDArray[Any]:
    """Names of labels, given their ids.

    Parameters
    ----------
    ids : array-like of int, any shape
        Columns of ``Targets.matrix``; -1 for padding.
    names : ndarray of shape (n_labels,) or None
        ``Targets.names``.

    Returns
    -------
    labels : ndarray, shape of ``ids``
        Names as objects, None for padding. ``ids`` unchanged if there are no names.
    """
    ids = np.asarray(ids)
    if names is None:
        return ids
    if ids.size and not (ids.min() >= -1 and ids.max() < len(names)):
        raise ValueError(
            f"The 'ids' parameter must be in the range [-1, {len(names)}). Got values in [{ids.min()}, {ids.max()}]."
        )
    # index -1 is the last entry: None for padding
    padded = np.full(len(names) + 1, None, dtype=object)
    padded[:-1] = names
    decoded: NDArray[Any] = padded[ids.astype(np.intp, copy=False)]
    return decoded


def encode_labels(labels: NDArray[Any], names: NDArray[Any] | None) -> NDArray[Any]:
    """Ids of labels, given their names: the inverse of :func:`decode`."""
    if names is None:
        return labels
    columns: dict[Any, int] = {name: column for column, name in enumerate(names.tolist())} | {None: -1}
    return np.array([columns[label] for label in labels.ravel().tolist()], np.int32).reshape(labels.shape)


def _check_binary(values: NDArray[Any], n_jobs: int = 1) -> bool:
    """Raise ValueError for values other than 0 and 1, including NaN and infinities; returns whether there are zeros."""
    if values.dtype.kind not in "biuf":
        raise ValueError(f"Y must have values 0 and 1 or booleans. Got dtype {values.dtype} instead.")
    if values.dtype.kind == "b":
        return not values.all()
    if values.dtype in _CHECKED:
        binary, has_zeros = _kernels.binary_values(np.ascontiguousarray(values).reshape(-1), n_jobs)
        if binary:
            return has_zeros
    bad = (values != 0) & (values != 1)
    if bad.any():
        raise ValueError(
            f"Y must have values 0 and 1 or booleans (a matrix has one column per label). Got {values[bad].flat[0]}"
            " instead."
        )
    return not values.all()


def _from_sparse(Y: Any, n_jobs: int = 1) -> sparse.csr_matrix:
    if Y.ndim != 2:
        raise ValueError(
            f"Y must have shape (n_rows, n_labels). Got a sparse array of shape {Y.shape} instead."
        )
    # In these formats .data has exactly the stored values. Repeated entries must not be summed yet: their sum is not 0
    # or 1, and in 8 bits it may overflow to 0.
    stored = check_sparse(Y if Y.format in ("csr", "csc", "coo") else Y.tocoo(), "Y", n_jobs)
    has_zeros = _check_binary(stored.data, n_jobs)
    matrix = sparse.csr_matrix(stored.astype(np.float32, copy=False))
    if has_zeros or not (compressed_state(matrix, n_jobs)[1] or matrix.has_canonical_format):
        matrix = matrix.copy()  # the arrays may be the user's
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
    return _ones(matrix.indices, matrix.indptr, matrix.shape, n_jobs)


def _ones(
    indices: NDArray[Any], indptr: NDArray[Any], shape: tuple[int, int], n_jobs: int = 1
) -> sparse.csr_matrix:
    ones = np.empty(int(indptr[-1]), dtype=np.float32)
    fill_rows(ones[:, None], np.ones(1), n_jobs)
    matrix = sparse.csr_matrix((ones, indices[: ones.size], indptr), shape=shape)
    matrix.has_canonical_format = True
    return matrix


def _is_label_lists(Y: Any) -> bool:
    """Whether Y is a list or a one-dimensional object array of containers."""
    if hasattr(Y, "dtype") or hasattr(Y, "columns"):
        if getattr(Y, "ndim", 2) != 1 or Y.dtype != object:
            return False
        rows = list(Y)
    elif isinstance(Y, list | tuple):
        rows = list(Y)
    else:
        return False
    # rows that are not containers are reported later
    return any(isinstance(row, list | tuple | set | frozenset | np.ndarray) for row in rows)


def _from_lists(Y: Sequence[Any]) -> Targets:
    rows: list[list[Any]] = []
    for number, row in enumerate(Y):
        # a str is iterable too, and a frequent mistake
        if not isinstance(row, list | tuple | set | frozenset | np.ndarray):
            raise ValueError(
                f"Row {number} of Y must be a list, tuple, set or array of label names. Got {row!r:.60} instead."
            )
        if isinstance(row, np.ndarray) and row.ndim != 1:
            raise ValueError(
                f"Row {number} of Y must be one-dimensional. Got an array of shape {row.shape} instead."
            )
        # tolist converts numpy scalars to str and int
        rows.append(row.tolist() if isinstance(row, np.ndarray) else list(row))

    distinct: set[Any] = set()
    for number, row in enumerate(rows):
        try:
            distinct.update(row)
        except TypeError:
            raise ValueError(f"Row {number} of Y must have label names. Got {row!r:.60} instead.") from None
    lengths = {len(row) for row in rows}
    of_bits = bool(distinct) and all(
        isinstance(name, int | np.integer) and name in (0, 1) for name in distinct
    )
    if of_bits and len(lengths) == 1 and any(len(set(row)) < len(row) for row in rows):
        return _from_dense(np.array(rows))  # a repeated value in a row: not label names
    is_str = all(isinstance(name, str) for name in distinct)
    is_int = all(isinstance(name, int | np.integer) and not isinstance(name, bool) for name in distinct)
    if not (is_str or is_int):
        kinds = ", ".join(sorted({type(name).__name__ for name in distinct}))
        raise ValueError(f"Label names of Y must be all str or all integers. Got {kinds} instead.")

    if is_int and of_bits and lengths == {2}:
        raise ValueError(
            "Y is ambiguous: every row is a list of 0 and 1, which may be a table or label names. Use np.asarray(Y)"
            " for a"
            " table, or label names of type str."
        )
    if is_int and distinct and not -(2**63) <= min(distinct) <= max(distinct) < 2**63:
        raise ValueError(f"Label names of Y must fit in int64. Got {max(distinct, key=abs)} instead.")

    return _from_names(rows, distinct, is_int=is_int)


def _from_names(rows: Sequence[Sequence[Any]], distinct: set[Any], *, is_int: bool) -> Targets:
    """Encode lists of names, all integers or all str."""
    if not is_int:
        check_unicode(list(distinct), "Y")
    binarizer = MultiLabelBinarizer(sparse_output=True)
    matrix = binarizer.fit_transform(rows)
    # Strings as objects: a fixed-width array would allocate the longest name for every entry.
    names = np.empty(len(distinct), dtype=np.int64 if is_int and distinct else object)
    names[:] = [int(name) if is_int else str(name) for name in binarizer.classes_]
    return Targets(_from_sparse(matrix), names, "label-lists")


def _from_dense(Y: Any) -> Targets:
    columns = getattr(Y, "columns", None)
    if columns is None or len(columns) == 1:
        Y = _as_array(Y)
    if len(Y.shape) == 1 or (len(Y.shape) == 2 and Y.shape[1] == 1):
        return _from_classes(Y)
    if len(Y.shape) != 2:
        raise ValueError(f"Y must be {_ACCEPTED}. Got an array of shape {Y.shape} instead.")
    names = None if columns is None else _column_names(columns)
    # accept_sparse: a DataFrame with sparse columns need not become dense.
    table = check_array(
        Y, accept_sparse=True, dtype=None, input_name="Y", ensure_min_samples=0, ensure_min_features=0
    )
    if not sparse.issparse(table):
        if table.dtype == object:
            raise ValueError(f"Y must have values 0 and 1. Got {type(table.flat[0]).__name__} instead.")
        _check_binary(table)
        table = sparse.csr_matrix(table != 0)
    return Targets(_from_sparse(table), names, "multilabel-indicator")


def _as_array(Y: Any) -> NDArray[Any]:
    try:
        array = np.asarray(Y)
    except ValueError as error:
        raise ValueError(f"Y must be {_ACCEPTED}. Got {type(Y).__name__} instead ({error}).") from error
    if array.ndim == 0:
        raise ValueError(f"Y must be {_ACCEPTED}. Got {Y!r:.60} instead.")
    if array.dtype.kind not in "biufUOT":
        raise ValueError(f"Y must be {_ACCEPTED}. Got dtype {array.dtype} instead.")
    return array


def _column_names(columns: Any) -> NDArray[Any] | None:
    listed = list(columns)
    names = check_names(listed, "Y")
    if all(isinstance(name, int | np.integer) and not isinstance(name, bool) for name in listed):
        numbers = np.array(listed, dtype=np.int64)
        # default column names 0, 1, … are ids, not names
        return None if np.array_equal(numbers, np.arange(len(numbers))) else numbers
    return names


def _from_classes(Y: NDArray[Any]) -> Targets:
    y = column_or_1d(Y, warn=True)
    if y.size == 0:
        raise ValueError(f"Y must be {_ACCEPTED}. Got no rows instead.")
    if y.dtype == object and not all(isinstance(value, str) for value in y):
        # numpy cannot sort None, NaN and mixed types
        missing = [value for value in y if value is None or value != value]
        if missing:
            raise ValueError(f"Y must have a class for every row. Got {missing[0]!r} instead.")
        kinds = {type(value) for value in y}
        if len({issubclass(kind, str) for kind in kinds}) > 1:
            listed = ", ".join(sorted(kind.__name__ for kind in kinds))
            raise ValueError(f"Classes of Y must be all str or all integers. Got {listed} instead.")
    if y.dtype.kind == "f":
        check_array(y, ensure_2d=False, input_name="Y")  # NaN and infinities
    kind = type_of_target(y, input_name="Y")
    if kind not in ("binary", "multiclass"):
        # "Unknown label type" is scikit-learn's message, which its checks look for
        hint = " Use MultiGBDTRegressor for regression." if kind.startswith("continuous") else ""
        raise ValueError(f"Unknown label type: {kind}. Y must be {_ACCEPTED}.{hint}")
    names, ids = np.unique(y, return_inverse=True)
    if names.dtype.kind in "OUT":
        check_unicode(names.tolist(), "Y")
    matrix = _ones(ids.astype(np.int32), np.arange(y.size + 1, dtype=np.int64), (y.size, names.size))
    return Targets(matrix, names, kind)


def encode_known(Y: Any, n_rows: int, known: Targets) -> sparse.csr_matrix:
    """Encode targets with the labels of training; unseen labels get additional columns at the end.

    Labels are matched by name if training had names, else by column. A matrix instead of lists of names, or names of
    another type, raises ValueError.
    """
    return encode_extended(Y, n_rows, known).matrix


def encode_extended(Y: Any, n_rows: int, known: Targets) -> Targets:
    """:func:`encode_known`, with the names of all labels."""
    return _extended(encode_targets(Y, n_rows), known)


def encode_update(Y: Any, n_rows: int, known: Targets) -> Targets:
    """Encode the targets of new rows for an update: :func:`encode_known`, with the names of all labels.

    A matrix without label names must have at least the columns of training; more are new labels.
    """
    targets = encode_targets(Y, n_rows)
    if known.names is None and targets.names is None and targets.n_labels < known.n_labels:
        raise ValueError(
            f"Y must have a column for each of the {known.n_labels} labels of the model, and may have more for new"
            f" labels. Got {targets.n_labels} columns instead."
        )
    return _extended(targets, known)


def _extended(targets: Targets, known: Targets) -> Targets:
    """Targets with the labels of training, followed by unseen ones."""
    n_rows, matrix, names, other = targets.n_rows, targets.matrix, known.names, targets.names
    if names is None and other is not None:
        return Targets(_by_column(matrix, other, known.n_labels), None, known.kind)
    if names is None or other is None:
        if names is not None and (known.kind == "label-lists" or matrix.shape[1] != known.n_labels):
            raise ValueError("Y must have label names, as in training. Got a matrix without names instead.")
        width = max(matrix.shape[1], known.n_labels)
        wider = sparse.csr_matrix((matrix.data, matrix.indices, matrix.indptr), shape=(n_rows, width))
        return Targets(wider, names, known.kind)
    if len(other) and len(names) and isinstance(other.tolist()[0], str) != isinstance(names.tolist()[0], str):
        raise ValueError(
            f"Y must have labels such as {names.tolist()[0]!r}, as in training. Got {other.tolist()[0]!r} instead."
        )
    position = {name: i for i, name in enumerate(names.tolist())}
    for name in other.tolist():
        position.setdefault(name, len(position))
    columns = np.array([position[name] for name in other.tolist()], np.int64)
    encoded = sparse.csr_matrix(
        (matrix.data, columns[matrix.indices], matrix.indptr), shape=(n_rows, len(position))
    )
    encoded.sort_indices()
    added = list(position)[len(names) :]
    joined = names
    if added:  # the wider type: strings of fixed width must not be truncated
        joined = np.empty(len(position), other.dtype if not len(names) else np.result_type(names, other))
        joined[:] = list(position)
    return Targets(encoded, joined, known.kind)


def _by_column(matrix: sparse.csr_matrix, names: NDArray[Any], n_labels: int) -> sparse.csr_matrix:
    """Targets whose label names are ids, for models without label names."""
    if len(names) and not (names.dtype.kind in "iu" and names.min() >= 0 and names.max() < n_labels):
        raise ValueError(
            f"Y must have labels from 0 to {n_labels - 1}: the model was trained without label names. Got"
            f" {names.tolist()[0]!r} instead."
        )
    columns = names.astype(np.int64)[matrix.indices]
    return sparse.csr_matrix((matrix.data, columns, matrix.indptr), shape=(matrix.shape[0], n_labels))
