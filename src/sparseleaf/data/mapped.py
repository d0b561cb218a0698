"""Sets that stay on disk: CSR matrices in plain files, memory-mapped, so that training reads rows when it needs them.

A folder holds ``set.json`` (shapes) and one file of numbers for each array: indptr (int64), indices (int32) and
values (float32) of X, indptr and indices of Y, little-endian. Both ways in pass over the rows once and hold a block
of them at a time.
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
    """Write a set that :func:`load_mapped` maps; the folder is made where it is missing.

    Parameters
    ----------
    folder : path
    X : sparse matrix or array-like, shape (n_rows, n_features)
        NaN, a missing value, is allowed; infinite values are not.
    Y : sparse matrix or array-like
        Targets, as a classifier of this library takes them; ids are written, not names.

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
    """Write a file of XC text, plain or gzipped, as a set that :func:`load_mapped` maps.

    The text is read a block of lines at a time: a file may be larger than memory. Errors are those of
    :func:`~sparseleaf.data.load_xc`; their line numbers count from the named line.

    Parameters
    ----------
    path : path-like
        XC text, plain or gzipped.
    folder : path-like
        Made where it is missing.
    n_jobs : int or None, default=None
        Number of threads; None for all cores.

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
            raise ValueError(f"{source}: line 1: found {head[:60]!r}; wanted three numbers, N D L") from None
        blocks = _parsed(source, file, n_features, n_labels, threads)
        _write(Path(folder), n_features, n_labels, blocks, n_rows)


def load_mapped(folder: PathLike) -> tuple[sparse.csr_matrix, sparse.csr_matrix]:
    """Map a set; X and Y are as :func:`~sparseleaf.data.load_xc` gives them, but their numbers stay on disk.

    Parameters
    ----------
    folder : path-like
        What :func:`map_xc` or :func:`save_mapped` wrote.

    Returns
    -------
    X : csr_matrix of float32, shape (n_rows, n_features)
    Y : csr_matrix, shape (n_rows, n_labels)

    Raises
    ------
    ValueError
        If the folder does not hold such a set.

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
        raise ValueError(f"{os.fspath(folder)!r} holds no mapped set ({error}); wanted {SHAPES}.") from None
    arrays = {name: _map(folder / f"{name}.bin", kind) for name, kind in ARRAYS.items()}
    for name, width in (("x", n_features), ("y", n_labels)):
        indptr, indices = arrays[f"{name}_indptr"], arrays[f"{name}_indices"]
        sound = (
            len(indptr) == n_rows + 1
            and indptr[0] == 0
            and indptr[-1] == len(indices)
            and np.all(np.diff(indptr) >= 0)
            and indices.min(initial=0) >= 0
            and indices.max(initial=-1) < width
        )
        if not sound:
            raise ValueError(f"{os.fspath(folder)!r}: {name}_indptr and {name}_indices do not fit together.")
    if len(arrays["x_data"]) != len(arrays["x_indices"]):
        raise ValueError(f"{os.fspath(folder)!r}: x_data and x_indices differ in size.")
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
        raise ValueError(f"{os.fspath(path)!r}: missing or cut short; wanted numbers of type {dtype}.")
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
            raise ValueError(f"{path}: found a damaged gzip stream ({error}), wanted a valid one") from None
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
    folder: Path, n_features: int, n_labels: int, blocks: Iterator[Block], wanted: int | None = None
) -> None:
    """Write all arrays, then the shapes: a folder without these is no set."""
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
        if wanted is not None and n_rows != wanted:
            raise ValueError(f"found {n_rows} rows, wanted {wanted} as the header says")
        for file in files.values():
            file.close()
    with drafting(folder / SHAPES) as draft:
        draft.write_text(json.dumps({"rows": n_rows, "features": n_features, "labels": n_labels}) + "\n")
