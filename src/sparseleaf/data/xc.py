"""Reading and writing XC text, the format of the Extreme Classification Repository.

A header ``N D L`` (rows, features, labels), then one row per line: ``label,label,… feature:value …``. Ids
count from 0, either part of a row may be empty. Files may be gzipped.
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

# Entries formatted at a time: the text is about ten times larger than the arrays.
_ENTRIES_PER_BLOCK = 4_000_000


def load_xc(
    path_or_paths: PathLike | Iterable[PathLike],
    *,
    n_features: int | None = None,
    n_labels: int | None = None,
    n_jobs: int | None = None,
) -> tuple[sparse.csr_matrix, sparse.csr_matrix]:
    """Load a dataset in the text format of the Extreme Classification Repository.

    Parameters
    ----------
    path_or_paths : path-like, or iterable of path-like
        Files to concatenate, plain or gzipped. URLs such as ``s3://…`` are read with fsspec.
    n_features, n_labels : int, optional
        Number of columns of X and Y, at least those of the headers. By default all files must have the same number.
    n_jobs : int or None, default=None
        Number of threads; None, 0 or -1 for all cores. Does not affect the result.

    Returns
    -------
    X : csr_matrix of float32, shape (n_rows, n_features)
        Features. Indices are sorted, values of repeated indices are summed, zeros are not stored. ``nan`` is a missing
        value.
    Y : csr_matrix of float32, shape (n_rows, n_labels)
        Labels as ones. Indices are sorted and unique.

    Raises
    ------
    ValueError
        If a file is not valid; the message has the file and the line (the header is line 1).

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
        raise ValueError("At least one file is required. Got none.")
    n_threads = effective_n_jobs(n_jobs)

    parts = [_load_one(path, n_threads) for path in paths]
    widths = []
    for name, width, side in (("n_features", n_features, 0), ("n_labels", n_labels, 1)):
        widths.append(_common_width(name, width, paths, parts, side))
    for X, Y in parts:
        X.resize(X.shape[0], widths[0])
        Y.resize(Y.shape[0], widths[1])
    if len(parts) == 1:
        return parts[0]
    X, Y = (_canonical(sparse.vstack([part[side] for part in parts], format="csr")) for side in (0, 1))
    return X, Y


def save_xc(path: PathLike, X: Any, Y: Any) -> None:
    """Save a dataset in the text format of the Extreme Classification Repository.

    `load_xc` returns identical matrices. The write is atomic, and the output is deterministic, gzipped or not.

    Parameters
    ----------
    path : path-like
        File to write, gzipped if its name ends in ``.gz``.
    X : {array-like, sparse matrix} of shape (n_rows, n_features)
        Features, written as float32 without zeros. NaN is allowed, infinite values are not.
    Y : sparse matrix or array-like
        Targets, in any form that the classifiers accept. Label ids are written, since the format has no label names.

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
    """Mark as canonical, which the parser guarantees, to save scipy the check."""
    matrix.has_canonical_format = True
    return matrix


def _common_width(
    name: str,
    width: int | None,
    paths: list[AnyPath],
    parts: list[tuple[sparse.csr_matrix, sparse.csr_matrix]],
    side: int,
) -> int:
    if width is not None and not 0 <= width < 2**31:
        raise ValueError(
            f"The {name!r} parameter must be an int in the range [0, 2147483648). Got {width} instead."
        )
    first = parts[0]
    for path, part in zip(paths, parts, strict=True):
        columns = part[side].shape[1]
        if width is None and columns != first[side].shape[1]:
            raise ValueError(
                f"{path}: expected {first[0].shape[1]} features and {first[1].shape[1]} labels, as in {paths[0]}, got"
                f" {part[0].shape[1]} and {part[1].shape[1]}; set {name!r} to combine files of different sizes."
            )
        if width is not None and columns > width:
            raise ValueError(
                f"The {name!r} parameter must be at least {columns}, as in {path}. Got {width} instead."
            )
    return int(first[side].shape[1]) if width is None else int(width)


def _features(X: Any) -> sparse.csr_matrix:
    # The cast may overflow to infinity, which the check reports better than numpy's warning.
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
        matrix.check_format(full_check=True)  # later code does not check indices
    except ValueError as error:
        raise ValueError(f"X is not a valid sparse matrix: {error}.") from error
    if not matrix.has_canonical_format or not matrix.data.all():
        matrix = matrix.copy()  # the arrays may be the user's
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        if np.isinf(matrix.data).any():
            raise ValueError("X must be finite in float32, but repeated entries add up to infinity.")
    return matrix
