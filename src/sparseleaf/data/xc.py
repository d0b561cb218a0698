"""Reading and writing XC text, the format of the Extreme Classification Repository.

A header ``N D L`` (rows, features, labels), then one row per line: ``label,label,… feature:value …``. Ids
count from 0, either part of a row may be empty. In: one or more files, plain or gzipped. Out: CSR matrices.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_array

from sparseleaf import _kernels
from sparseleaf._arrays import effective_n_jobs, require_countable
from sparseleaf._files import AnyPath, as_path, read_bytes, replacing
from sparseleaf.data.targets import encode_targets

__all__ = ["load_xc", "save_xc"]

PathLike = str | os.PathLike[str]

# Entries formatted at a time: text is some ten times larger than the arrays, so it is never held whole.
_ENTRIES_PER_BLOCK = 4_000_000


def load_xc(
    path_or_paths: PathLike | Iterable[PathLike],
    *,
    n_features: int | None = None,
    n_labels: int | None = None,
    n_jobs: int | None = None,
) -> tuple[sparse.csr_matrix, sparse.csr_matrix]:
    """Read a data set in XC text.

    Parameters
    ----------
    path_or_paths : path, or iterable of paths
        Files to read as one set, in the order given. Gzipped files are known by their content, not by their
        names; ``s3://…`` and the like are read through fsspec.
    n_features, n_labels : int, optional
        Widths of X and Y, at least those of the headers. By default all files must have the same widths;
        with a width given, they may differ up to it.
    n_jobs : int, optional
        Threads; None, 0 or -1 for all cores. The result does not depend on it.

    Returns
    -------
    X : scipy.sparse.csr_matrix of float32, shape (n_rows, n_features)
        Feature ids ascend in each row; values of an id that a row repeats are added up; zeros are not
        stored. ``nan`` in the text is a missing value and stays.
    Y : scipy.sparse.csr_matrix of float32, shape (n_rows, n_labels)
        Ones; label ids ascend in each row, repeated ones are merged.

    Raises
    ------
    ValueError
        If a file is not valid; the message names the file, the line (the header is line 1), what was found
        and what is wanted.

    Examples
    --------
    >>> from sparseleaf.data import load_xc, make_xc, save_xc
    >>> save_xc("train.txt.gz", *make_xc(100, 60, 10))
    >>> X, Y = load_xc("train.txt.gz")
    >>> X.shape, Y.shape
    ((100, 60), (100, 10))
    """
    if isinstance(path_or_paths, str | os.PathLike):
        path_or_paths = [path_or_paths]
    paths = [as_path(path) for path in path_or_paths]
    if not paths:
        raise ValueError("path_or_paths: found no file, wanted at least one")
    n_threads = effective_n_jobs(n_jobs)

    parts = [_load_one(path, n_threads) for path in paths]
    widths = []
    for name, given, side in (("n_features", n_features, 0), ("n_labels", n_labels, 1)):
        widths.append(_common_width(name, given, paths, parts, side))
    for X, Y in parts:
        X.resize(X.shape[0], widths[0])
        Y.resize(Y.shape[0], widths[1])
    if len(parts) == 1:
        return parts[0]
    X, Y = (_canonical(sparse.vstack([part[side] for part in parts], format="csr")) for side in (0, 1))
    return X, Y


def save_xc(path: PathLike, X: Any, Y: Any) -> None:
    """Write a data set as XC text; `load_xc` gives the same matrices back, bit for bit.

    The file appears whole or not at all: it is written beside ``path`` under another name and then renamed.
    The same data gives the same bytes, gzipped or not.

    Parameters
    ----------
    path : path
        File to write, gzipped if its name ends in ``.gz``.
    X : sparse matrix or array-like, shape (n_rows, n_features)
        Features, written as float32 and without zeros. nan, a missing value, is allowed; infinite values
        are not.
    Y : sparse matrix or array-like
        Targets, as a classifier of this library takes them. The format has no place for label names: ids
        are written.

    Examples
    --------
    >>> from pathlib import Path
    >>> from sparseleaf.data import save_xc
    >>> save_xc("small.txt", [[0, 0.5], [1, 0]], [[1, 0, 1], [0, 1, 0]])
    >>> print(Path("small.txt").read_text())
    2 2 3
    0,2 1:0.5
    1 0:1
    <BLANKLINE>
    """
    target = as_path(path)
    X = _features(X)
    Y = encode_targets(Y, n_rows=X.shape[0]).matrix
    n_rows = X.shape[0]
    arrays = (
        Y.indptr.astype(np.int64, copy=False),
        Y.indices.astype(np.int32, copy=False),
        X.indptr.astype(np.int64, copy=False),
        X.indices.astype(np.int32, copy=False),
        X.data,
    )
    n_threads = effective_n_jobs(None)
    step = max(1, _ENTRIES_PER_BLOCK * n_rows // (n_rows + X.nnz + Y.nnz + 1))
    with replacing(target) as file:
        file.write(f"{n_rows} {X.shape[1]} {Y.shape[1]}\n".encode())
        for begin in range(0, n_rows, step):
            file.write(_kernels.xc_format(*arrays, begin, min(begin + step, n_rows), n_threads).data)


def _load_one(path: AnyPath, n_threads: int) -> tuple[sparse.csr_matrix, sparse.csr_matrix]:
    text = read_bytes(path)
    try:
        n, d, k, label_indptr, labels, indptr, features, values = _kernels.xc_parse(text, n_threads)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    del text
    X = sparse.csr_matrix((values, features, indptr), shape=(n, d))
    Y = sparse.csr_matrix((np.ones(labels.size, dtype=np.float32), labels, label_indptr), shape=(n, k))
    return _canonical(X), _canonical(Y)


def _canonical(matrix: sparse.csr_matrix) -> sparse.csr_matrix:
    """Tell scipy what the parser made sure of, so that it does not look again."""
    matrix.has_canonical_format = True
    return matrix


def _common_width(
    name: str,
    given: int | None,
    paths: list[AnyPath],
    parts: list[tuple[sparse.csr_matrix, sparse.csr_matrix]],
    side: int,
) -> int:
    if given is not None and not 0 <= given < 2**31:
        raise ValueError(f"{name}: found {given}, wanted an integer in [0, 2147483648)")
    first = parts[0]
    for path, part in zip(paths, parts, strict=True):
        width = part[side].shape[1]
        if given is None and width != first[side].shape[1]:
            raise ValueError(
                f"{path}: found {part[0].shape[1]} features and {part[1].shape[1]} labels, wanted "
                f"{first[0].shape[1]} and {first[1].shape[1]} as in {paths[0]}, or {name} to say how many"
            )
        if given is not None and width > given:
            raise ValueError(f"{name}: found {given}, wanted at least {width}, which {path} has")
    return int(first[side].shape[1]) if given is None else int(given)


def _features(X: Any) -> sparse.csr_matrix:
    # The cast may overflow to infinity; the check behind it says so better than numpy's warning.
    with np.errstate(over="ignore"):
        X = check_array(
            X,
            accept_sparse="csr",
            dtype=np.float32,
            ensure_all_finite="allow-nan",
            ensure_min_samples=0,
            ensure_min_features=0,
            input_name="X",
        )
    require_countable("X", X.shape[1], "features")
    matrix = sparse.csr_matrix(X)
    try:
        matrix.check_format(full_check=True)  # what walks these indices later does not check them
    except ValueError as error:
        raise ValueError(f"X: found a broken sparse matrix ({error}), wanted valid indices") from error
    if not matrix.has_canonical_format or not matrix.data.all():
        matrix = matrix.copy()  # what comes next works in place, and the arrays may be the user's
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        if np.isinf(matrix.data).any():
            raise ValueError("X: found repeated entries that add up to infinity, wanted float32 values")
    return matrix
