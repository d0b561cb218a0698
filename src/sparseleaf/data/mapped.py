"""Memory-mapped datasets: CSR matrices in plain files, from which training reads rows on demand.

A directory contains ``set.json`` (shapes) and one binary file per array: indptr (int64), indices (int32) and data
(float32) of X, indptr and indices of Y, little-endian. Datasets are written in one pass, a block of rows at a time.
"""

from __future__ import annotations

import gzip
import itertools
import json
import os
import zlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from sparseleaf import _kernels
from sparseleaf._arrays import effective_n_jobs
from sparseleaf._files import GZIP_MAGIC, AnyPath, as_path, drafting, local_copy
from sparseleaf.data.targets import encode_targets
from sparseleaf.data.xc import PathLike, _features

__all__ = ["load_mapped", "map_xc", "save_mapped"]

ARRAYS: dict[str, str] = {
    "x_indptr": "<i8",
    "x_indices": "<i4",
    "x_data": "<f4",
    "y_indptr": "<i8",
    "y_indices": "<i4",
}
SHAPES = "set.json"
BLOCK_LINES = 20_000


def save_mapped(folder: PathLike, X: Any, Y: Any) -> None:
    """Save a dataset for :func:`load_mapped`.

    Parameters
    ----------
    folder : path-like
        Directory to write; created if it does not exist.
    X : {array-like, sparse matrix} of shape (n_rows, n_features)
        Features. NaN is allowed, infinite values are not.
    Y : sparse matrix or array-like
        Targets, in any form that the classifiers accept. Label ids are stored, not names.

    Examples
    --------
    >>> from sparseleaf.data import load_mapped, make_xc, save_mapped
    >>> save_mapped("folder", *make_xc(100, 60, 10))
    >>> X, Y = load_mapped("folder")
    >>> Y.shape
    (100, 10)
    """
    X = _features(X)
    Y = encode_targets(Y, n_rows=X.shape[0]).matrix
    _write(Path(folder), X.shape[1], Y.shape[1], iter([(X, Y)]))


def map_xc(path: PathLike, folder: PathLike, *, n_jobs: int | None = None) -> None:
    """Convert a file of XC text to a dataset for :func:`load_mapped`.

    The text is read in blocks of lines, so the file may be larger than memory.

    Parameters
    ----------
    path : path-like
        XC text, plain or gzipped: a local path or an fsspec URL.
    folder : path-like
        Directory to write; created if it does not exist.
    n_jobs : int or None, default=None
        Number of threads; None for all cores.

    Raises
    ------
    ValueError
        If the file is not valid, as in :func:`~sparseleaf.data.load_xc`.

    Examples
    --------
    >>> from sparseleaf.data import load_mapped, make_xc, map_xc, save_xc
    >>> save_xc("train.txt", *make_xc(100, 60, 10))
    >>> map_xc("train.txt", "train")
    >>> X, Y = load_mapped("train")
    >>> X.shape
    (100, 60)
    """
    source, threads = as_path(path), effective_n_jobs(n_jobs)
    with local_copy(source) as here, here.open("rb") as raw:
        packed = raw.read(2) == GZIP_MAGIC
        raw.seek(0)
        file = gzip.GzipFile(fileobj=raw) if packed else raw
        head = file.readline()
        try:
            n_rows, n_features, n_labels = (int(word) for word in head.split())
        except ValueError:
            raise ValueError(f"{source}: line 1: expected three integers N D L, got {head[:60]!r}.") from None
        blocks = _parsed(source, file, n_features, n_labels, threads)
        _write(Path(folder), n_features, n_labels, blocks, n_rows)


def load_mapped(folder: PathLike) -> tuple[sparse.csr_matrix, sparse.csr_matrix]:
    """Load a memory-mapped dataset.

    Parameters
    ----------
    folder : path-like
        Directory written by :func:`map_xc` or :func:`save_mapped`.

    Returns
    -------
    X : csr_matrix of float32, shape (n_rows, n_features)
        Features, memory-mapped.
    Y : csr_matrix of float32, shape (n_rows, n_labels)
        Targets, memory-mapped.

    Raises
    ------
    ValueError
        If the directory does not contain a valid dataset.

    Examples
    --------
    >>> from sparseleaf.data import load_mapped, make_xc, save_mapped
    >>> save_mapped("mapped", *make_xc(100, 60, 10))
    >>> X, Y = load_mapped("mapped")
    >>> X.shape, Y.shape
    ((100, 60), (100, 10))
    """
    folder = Path(folder)
    try:
        shapes = json.loads((folder / SHAPES).read_text())
        n_rows, n_features, n_labels = (int(shapes[name]) for name in ("rows", "features", "labels"))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{os.fspath(folder)!r} is not a memory-mapped dataset: {SHAPES} cannot be read ({error})."
        ) from None
    arrays = {name: _map(folder / f"{name}.bin", kind) for name, kind in ARRAYS.items()}
    for name, width in (("x", n_features), ("y", n_labels)):
        indptr, indices = arrays[f"{name}_indptr"], arrays[f"{name}_indices"]
        valid = (
            len(indptr) == n_rows + 1
            and indptr[0] == 0
            and indptr[-1] == len(indices)
            and np.all(np.diff(indptr) >= 0)
            and indices.min(initial=0) >= 0
            and indices.max(initial=-1) < width
        )
        if not valid:
            raise ValueError(f"{os.fspath(folder)!r}: {name}_indptr and {name}_indices are inconsistent.")
    if len(arrays["x_data"]) != len(arrays["x_indices"]):
        raise ValueError(f"{os.fspath(folder)!r}: x_data and x_indices differ in length.")
    X = sparse.csr_matrix(
        (arrays["x_data"], arrays["x_indices"], arrays["x_indptr"]), shape=(n_rows, n_features), copy=False
    )
    ones = np.ones(len(arrays["y_indices"]), np.float32)
    Y = sparse.csr_matrix(
        (ones, arrays["y_indices"], arrays["y_indptr"]), shape=(n_rows, n_labels), copy=False
    )
    return X, Y


def _map(path: Path, kind: str) -> Any:
    dtype = np.dtype(kind)
    if not path.is_file() or path.stat().st_size % dtype.itemsize:
        raise ValueError(f"{os.fspath(path)!r}: the file is missing or truncated (dtype {dtype}).")
    if path.stat().st_size == 0:  # there is nothing to map
        return np.empty(0, dtype)
    return np.memmap(path, dtype, mode="r")


Block = tuple[sparse.csr_matrix, sparse.csr_matrix]


def _parsed(
    path: AnyPath, file: Iterable[bytes], n_features: int, n_labels: int, threads: int
) -> Iterator[Block]:
    line, rows = 1, iter(file)
    while True:
        try:
            lines = list(itertools.islice(rows, BLOCK_LINES))
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise ValueError(f"{path}: corrupt gzip stream ({error}).") from None
        if not lines:
            return
        text = f"{len(lines)} {n_features} {n_labels}\n".encode() + b"".join(lines)
        try:
            n, d, k, y_indptr, labels, x_indptr, features, values = _kernels.xc_parse(text, threads)
        except ValueError as error:
            raise ValueError(f"{path}: counted from line {line}: {error}") from None
        yield (
            sparse.csr_matrix((values, features, x_indptr), shape=(n, d)),
            sparse.csr_matrix((np.ones(labels.size, np.float32), labels, y_indptr), shape=(n, k)),
        )
        line += len(lines)


def _write(
    folder: Path, n_features: int, n_labels: int, blocks: Iterator[Block], expected_rows: int | None = None
) -> None:
    """Write all arrays, then the shapes: a directory without shapes is not a dataset."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / SHAPES).unlink(missing_ok=True)
    n_rows, ends = 0, [0, 0]
    with ExitStack() as stack:
        drafts = {name: stack.enter_context(drafting(folder / f"{name}.bin")) for name in ARRAYS}
        files = {name: stack.enter_context(draft.open("wb")) for name, draft in drafts.items()}

        def put(name: str, values: Any) -> None:
            files[name].write(np.ascontiguousarray(values, ARRAYS[name]).data)

        put("x_indptr", [0])
        put("y_indptr", [0])
        for X, Y in blocks:
            for side, (name, matrix) in enumerate((("x", X), ("y", Y))):
                put(f"{name}_indptr", matrix.indptr[1:].astype(np.int64) + ends[side])
                put(f"{name}_indices", matrix.indices)
                ends[side] += matrix.nnz
            put("x_data", X.data)
            n_rows += X.shape[0]
        if expected_rows is not None and n_rows != expected_rows:
            raise ValueError(f"expected {expected_rows} rows, as in the header, got {n_rows}.")
        for file in files.values():
            file.close()
    with drafting(folder / SHAPES) as draft:
        draft.write_text(json.dumps({"rows": n_rows, "features": n_features, "labels": n_labels}) + "\n")
