"""Targets as a user has them to the matrix that the engine wants.

In: a sparse matrix, a dense 0/1 array or DataFrame, lists of label names, or one class per row.
Out: `Targets`, a CSR matrix of ones with one column per label, and the names of the columns.
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

from sparseleaf._arrays import require_countable
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
"""What targets looked like; the last is one number a row."""

ONE_CLASS_A_ROW = ("binary", "multiclass")

_ACCEPTED = (
    "a sparse or dense matrix of 0 and 1, a DataFrame of 0 and 1, a list with a list of label names "
    "for each row, or one class per row"
)


@dataclass(frozen=True)
class Targets:
    """Labels of every row, in the one form that the engine knows.

    Attributes
    ----------
    matrix : scipy.sparse.csr_matrix of float32, shape (n_rows, n_labels)
        Ones only: no stored zeros, ids ascending and unique in each row. Read-only by agreement: the index
        arrays may be those of the matrix that the user gave.
    names : ndarray of shape (n_labels,) or None
        Name of each column: str as objects, integers, or for one class per row the sorted classes in their
        own dtype. None where a label is known by its column number only.
    kind : str
        How the targets were given: "multilabel-sparse", "multilabel-indicator" (dense), "label-lists",
        "multiclass" or "binary" (one class per row, at most two classes).

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
        """Kind and names without the rows."""
        return Targets(self.matrix[:0], self.names, self.kind)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.matrix.shape[0])

    @property
    def n_labels(self) -> int:
        """Number of labels, those that no row has included."""
        return int(self.matrix.shape[1])


def encode_targets(Y: Any, n_rows: int | None = None) -> Targets:
    """Turn targets of any accepted form into `Targets`.

    Parameters
    ----------
    Y : sparse matrix, array-like or DataFrame
        One of:

        - a scipy sparse matrix or array of shape (n_rows, n_labels), in any format, of 0 and 1 or booleans;
          stored zeros are dropped and repeated entries merged;
        - a dense array of shape (n_rows, n_labels), n_labels > 1, of 0 and 1 or booleans; the column names
          of a DataFrame become label names;
        - a list with a list, tuple, set or array of label names for each row, names being all str or all
          integers (integers are names too: 7 and 9 make two columns, not ten);
        - an array-like of shape (n_rows,) or (n_rows, 1) with one class per row, str, integer or boolean.

        A list of lists is read as names, unless it is a 0/1 table: lists of equal length of 0 and 1 (or booleans) in
        which a row has one of them twice. Where no row has, it could be either, and is refused.
        A row may be without labels, except in the last form.
    n_rows : int, optional
        The number of rows wanted, that of ``X``.

    Returns
    -------
    Targets

    Raises
    ------
    ValueError
        If ``Y`` is none of these; the message says what was found and what is wanted.

    Examples
    --------
    >>> from sparseleaf.data import encode_targets
    >>> targets = encode_targets([["red", "green"], ["blue"]], n_rows=2)
    >>> targets.matrix.shape
    (2, 3)
    """
    check_values(Y, "Y")
    if sparse.issparse(Y):
        targets = Targets(_from_sparse(Y), None, "multilabel-sparse")
    elif _is_label_lists(Y):
        targets = _from_lists(Y)
    else:
        targets = _from_dense(Y)
    if n_rows is not None and targets.n_rows != n_rows:
        raise ValueError(f"Y: found {targets.n_rows} rows, wanted {n_rows}, one for each row of X")
    require_countable("Y", targets.n_labels, "labels")
    return targets


def form_of(kind: str, n_labels: int) -> dict[str, Any]:
    """What targets that are read in parts must have in common: classes and names of labels are joined."""
    if kind in ("binary", "multiclass"):
        return {"y": "one class per row"}
    if kind == "label-lists":
        return {"y": kind}
    return {"y": kind, "columns of y": n_labels}


def join_forms(forms: Sequence[Targets]) -> Targets:
    """Kind and names of targets that were read in parts, which must be of one kind."""
    first = forms[0]
    kinds = {form.kind for form in forms}
    if kinds > {"binary"} and kinds <= {"binary", "multiclass"}:
        kinds = {"multiclass"}
    if len(kinds) > 1:
        raise ValueError(f"Y: found parts of different kinds ({', '.join(sorted(kinds))}); wanted one.")
    kind = kinds.pop()
    if kind in ("multilabel-sparse", "multilabel-indicator"):
        for number, form in enumerate(forms):
            if form.n_labels != first.n_labels:
                raise ValueError(
                    f"Y: found {form.n_labels} labels in part {number}; wanted {first.n_labels}, as in part 0."
                )
            if (form.names is None) != (first.names is None) or (
                form.names is not None and form.names.tolist() != first.names.tolist()  # type: ignore[union-attr]
            ):
                raise ValueError(f"Y: found other label names in part {number} than in part 0.")
        return first
    # parts without a label have names of no type of their own
    found = [form.names for form in forms if form.names is not None and len(form.names)]
    if len({"i" if name.dtype.kind == "u" else name.dtype.kind for name in found}) > 1:
        types = ", ".join(dict.fromkeys(str(name.dtype) for name in found))
        raise ValueError(f"Y: found parts whose labels are of different types ({types}); wanted one type.")
    names = np.unique(np.concatenate(found)) if found else first.names
    if kind == "binary" and names is not None and len(names) > 2:
        kind = "multiclass"
    matrix = sparse.csr_matrix((0, 0 if names is None else len(names)), dtype=np.float32)
    return Targets(matrix, names, kind)


def relabelled(targets: Targets, form: Targets) -> Targets:
    """The same targets with the labels of ``form``, which has all of theirs."""
    matrix, names = targets.matrix, targets.names
    if names is None or form.names is None or len(names) == len(form.names):
        return Targets(matrix, form.names, form.kind)
    places = np.searchsorted(form.names, names).astype(matrix.indices.dtype)
    indices = places[matrix.indices] if len(places) else matrix.indices
    return Targets(_ones(indices, matrix.indptr, (matrix.shape[0], len(form.names))), form.names, form.kind)


def decode(ids: ArrayLike, names: NDArray[Any] | None) -> NDArray[Any]:
    """Names of labels, given their column numbers.

    Parameters
    ----------
    ids : array-like of int, any shape
        Columns of ``Targets.matrix``; -1 where there is none (padding of a top-k that is too short).
    names : ndarray of shape (n_labels,) or None
        ``Targets.names``.

    Returns
    -------
    ndarray, shape of ``ids``
        Objects: the names as Python str or int, and None for padding. Without names, ``ids`` unchanged.
    """
    ids = np.asarray(ids)
    if names is None:
        return ids
    if ids.size and not (ids.min() >= -1 and ids.max() < len(names)):
        raise ValueError(
            f"ids: found values in [{ids.min()}, {ids.max()}], wanted [-1, {len(names)}): "
            f"there are {len(names)} names"
        )
    # Numpy counts -1 from the end: a None behind the last name answers for padding.
    padded = np.full(len(names) + 1, None, dtype=object)
    padded[:-1] = names
    decoded: NDArray[Any] = padded[ids.astype(np.intp, copy=False)]
    return decoded


def encode_labels(labels: NDArray[Any], names: NDArray[Any] | None) -> NDArray[Any]:
    """Column numbers of labels, given their names: the reverse of :func:`decode`."""
    if names is None:
        return labels
    columns: dict[Any, int] = {name: column for column, name in enumerate(names.tolist())} | {None: -1}
    return np.array([columns[label] for label in labels.ravel().tolist()], np.int32).reshape(labels.shape)


def _check_binary(values: NDArray[Any]) -> None:
    """Refuse stored values other than 0 and 1; nan and infinities are refused with them."""
    if values.dtype.kind not in "biuf":
        raise ValueError(f"Y: found values of dtype {values.dtype}, wanted 0 and 1 or booleans")
    if values.dtype.kind == "b":
        return
    bad = (values != 0) & (values != 1)
    if bad.any():
        raise ValueError(
            f"Y: found the value {values[bad].flat[0]}, wanted 0 and 1 or booleans (in a matrix, one column "
            "per label)"
        )


def _from_sparse(Y: Any) -> sparse.csr_matrix:
    if Y.ndim != 2:
        raise ValueError(f"Y: found a sparse array of shape {Y.shape}, wanted (n_rows, n_labels)")
    # Formats whose .data holds exactly the stored values; the others become one of them. Repeated entries
    # must still be apart here: their sum is not 0 or 1, and in 8 bits it may even wrap around to 0.
    stored = check_sparse(Y if Y.format in ("csr", "csc", "coo") else Y.tocoo(), "Y")
    _check_binary(stored.data)
    matrix = sparse.csr_matrix(stored.astype(np.float32, copy=False))
    if not matrix.has_canonical_format or not matrix.data.all():
        matrix = matrix.copy()  # what comes next works in place, and the arrays may be the user's
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
    return _ones(matrix.indices, matrix.indptr, matrix.shape)


def _ones(indices: NDArray[Any], indptr: NDArray[Any], shape: tuple[int, int]) -> sparse.csr_matrix:
    ones = np.ones(int(indptr[-1]), dtype=np.float32)
    matrix = sparse.csr_matrix((ones, indices[: ones.size], indptr), shape=shape)
    matrix.has_canonical_format = True
    return matrix


def _is_label_lists(Y: Any) -> bool:
    """Whether Y is a list, or a one-dimensional container of objects, with a container in each row."""
    if hasattr(Y, "dtype") or hasattr(Y, "columns"):
        if getattr(Y, "ndim", 2) != 1 or Y.dtype != object:
            return False
        rows = list(Y)
    elif isinstance(Y, list | tuple):
        rows = list(Y)
    else:
        return False
    # One is enough: a row that is not a container among rows that are gets its own error later.
    return any(isinstance(row, list | tuple | set | frozenset | np.ndarray) for row in rows)


def _from_lists(Y: Sequence[Any]) -> Targets:
    rows: list[list[Any]] = []
    for number, row in enumerate(Y):
        # A str is a container of its letters for Python, and a frequent mistake.
        if not isinstance(row, list | tuple | set | frozenset | np.ndarray):
            raise ValueError(
                f"Y: found {row!r:.60} as row {number}, wanted a list, tuple, set or array of label names"
            )
        if isinstance(row, np.ndarray) and row.ndim != 1:
            raise ValueError(f"Y: found an array of shape {row.shape} as row {number}, wanted one dimension")
        # tolist turns numpy scalars into str and int, which is what names are compared as.
        rows.append(row.tolist() if isinstance(row, np.ndarray) else list(row))

    distinct: set[Any] = set()
    for number, row in enumerate(rows):
        try:
            distinct.update(row)
        except TypeError:
            raise ValueError(f"Y: found {row!r:.60} as row {number}, wanted label names") from None
    lengths = {len(row) for row in rows}
    of_bits = bool(distinct) and all(
        isinstance(name, int | np.integer) and name in (0, 1) for name in distinct
    )
    if of_bits and len(lengths) == 1 and any(len(set(row)) < len(row) for row in rows):
        return _from_dense(np.array(rows))  # a row does not have a label twice
    is_str = all(isinstance(name, str) for name in distinct)
    is_int = all(isinstance(name, int | np.integer) and not isinstance(name, bool) for name in distinct)
    if not (is_str or is_int):
        kinds = ", ".join(sorted({type(name).__name__ for name in distinct}))
        raise ValueError(f"Y: found label names of type {kinds}, wanted all str or all integers")

    if is_int and of_bits and lengths == {2}:
        raise ValueError(
            "Y is a list with 0 and 1 in every row, which may be a table or lists of label names. Use np.asarray(Y) "
            "for a table, or names of type str."
        )
    if is_int and distinct and not -(2**63) <= min(distinct) <= max(distinct) < 2**63:
        raise ValueError(f"Y: found the label name {max(distinct, key=abs)}, wanted integers of 64 bits")

    if is_str:
        check_unicode(list(distinct), "Y")

    binarizer = MultiLabelBinarizer(sparse_output=True)
    matrix = binarizer.fit_transform(rows)
    # Strings as objects: a fixed-width array would give every name the room of the longest.
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
        raise ValueError(f"Y: found an array of shape {Y.shape}, wanted {_ACCEPTED}")
    names = None if columns is None else _column_names(columns)
    # accept_sparse: a DataFrame with sparse columns need not become dense.
    table = check_array(
        Y, accept_sparse=True, dtype=None, input_name="Y", ensure_min_samples=0, ensure_min_features=0
    )
    if not sparse.issparse(table):
        if table.dtype == object:
            raise ValueError(f"Y: found values of type {type(table.flat[0]).__name__}, wanted 0 and 1")
        _check_binary(table)
        table = sparse.csr_matrix(table != 0)
    return Targets(_from_sparse(table), names, "multilabel-indicator")


def _as_array(Y: Any) -> NDArray[Any]:
    try:
        array = np.asarray(Y)
    except ValueError as error:
        raise ValueError(f"Y: found {type(Y).__name__} ({error}), wanted {_ACCEPTED}") from error
    if array.ndim == 0:
        raise ValueError(f"Y: found {Y!r:.60}, wanted {_ACCEPTED}")
    if array.dtype.kind not in "biufUOT":
        raise ValueError(f"Y: found values of dtype {array.dtype}, wanted {_ACCEPTED}")
    return array


def _column_names(columns: Any) -> NDArray[Any] | None:
    listed = list(columns)
    names = check_names(listed, "Y")
    if all(isinstance(name, int | np.integer) and not isinstance(name, bool) for name in listed):
        numbers = np.array(listed, dtype=np.int64)
        # A frame without names of its own counts its columns, as ids do.
        return None if np.array_equal(numbers, np.arange(len(numbers))) else numbers
    return names


def _from_classes(Y: NDArray[Any]) -> Targets:
    y = column_or_1d(Y, warn=True)
    if y.size == 0:
        raise ValueError(f"Y: found no rows, wanted {_ACCEPTED}")
    if y.dtype == object and not all(isinstance(value, str) for value in y):
        # None, nan and mixtures: numpy cannot sort them, and a missing class is not a class.
        missing = [value for value in y if value is None or value != value]
        if missing:
            raise ValueError(f"Y: found {missing[0]!r} as a class, wanted a class for every row")
        kinds = {type(value) for value in y}
        if len({issubclass(kind, str) for kind in kinds}) > 1:
            listed = ", ".join(sorted(kind.__name__ for kind in kinds))
            raise ValueError(f"Y: found classes of type {listed}, wanted all str or all integers")
    if y.dtype.kind == "f":
        check_array(y, ensure_2d=False, input_name="Y")  # nan and infinities, by scikit-learn's words
    found = type_of_target(y, input_name="Y")
    if found not in ("binary", "multiclass"):
        # The wording is scikit-learn's, so that its users and its checks know it.
        hint = " MultiGBDTRegressor predicts numbers." if found.startswith("continuous") else ""
        raise ValueError(f"Y: Unknown label type: {found}; wanted {_ACCEPTED}.{hint}")
    names, ids = np.unique(y, return_inverse=True)
    if names.dtype.kind in "OUT":
        check_unicode(names.tolist(), "Y")
    matrix = _ones(ids.astype(np.int32), np.arange(y.size + 1, dtype=np.int64), (y.size, names.size))
    return Targets(matrix, names, found)


def encode_known(Y: Any, n_rows: int, known: Targets) -> sparse.csr_matrix:
    """Targets of other rows over the labels of training; labels never seen there get columns behind them.

    Labels are matched by name where training had names, and by column where it had none; a matrix for lists of
    names, or names of another type, would be matched wrongly and is refused.
    """
    targets = encode_targets(Y, n_rows)
    matrix, names, other = targets.matrix, known.names, targets.names
    if names is None and other is not None:
        return _by_column(matrix, other, known.n_labels)
    if names is None or other is None:
        if names is not None and (known.kind == "label-lists" or matrix.shape[1] != known.n_labels):
            raise ValueError("Y: found a matrix without names; wanted label names, as in training.")
        width = max(matrix.shape[1], known.n_labels)
        return sparse.csr_matrix((matrix.data, matrix.indices, matrix.indptr), shape=(n_rows, width))
    if len(other) and len(names) and isinstance(other.tolist()[0], str) != isinstance(names.tolist()[0], str):
        raise ValueError(
            f"Y: found labels such as {other.tolist()[0]!r}; wanted ones such as {names.tolist()[0]!r}, as in training."
        )
    position = {name: i for i, name in enumerate(names.tolist())}
    for name in other.tolist():
        position.setdefault(name, len(position))
    columns = np.array([position[name] for name in other.tolist()], np.int64)
    found = sparse.csr_matrix(
        (matrix.data, columns[matrix.indices], matrix.indptr), shape=(n_rows, len(position))
    )
    found.sort_indices()
    return found


def _by_column(matrix: sparse.csr_matrix, names: NDArray[Any], n_labels: int) -> sparse.csr_matrix:
    """Targets whose names are column numbers: training knew labels by these alone."""
    if len(names) and not (names.dtype.kind in "iu" and names.min() >= 0 and names.max() < n_labels):
        raise ValueError(
            f"Y: found names that are no columns; training knew its labels as 0 to {n_labels - 1}, wanted these."
        )
    columns = names.astype(np.int64)[matrix.indices]
    return sparse.csr_matrix((matrix.data, columns, matrix.indptr), shape=(matrix.shape[0], n_labels))
