"""Sources of the rows of a Dask training: part files, Dask collections, or arrays of the client.

Partitions can be created repeatedly, for different numbers of workers, after a worker was lost.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from sparseleaf._arrays import even_ranges

Rows = dict[str, Any]
"""Arguments of ``fit``, by name, for some rows."""


class Source(Protocol):
    """The rows of all partitions."""

    def n_parts(self, n_workers: int) -> int:
        """Number of partitions: one per worker, or fewer if there are fewer pieces."""

    def pieces(self, place: int, n_parts: int, address: str) -> list[Any]:
        """The pieces of a partition, in order; workers fetch futures."""

    def join(self, pieces: list[Any]) -> Rows:
        """Concatenate the pieces, on the worker."""

    def release(self) -> None:
        """Release scattered pieces once the partitions are created."""


def make_source(client: Any, rows: Rows) -> Source:
    """The source for the rows passed to ``fit``."""
    X = rows["X"]
    if isinstance(X, PartFiles):
        return _Files(X)
    if _are_paths(X):
        if any(value is not None for name, value in rows.items() if name != "X"):
            raise ValueError(
                "y and sample_weight must be None if X are part files, which contain the labels."
            )
        return _Files(PartFiles([os.fspath(path) for path in X], read_part))
    if hasattr(X, "to_delayed"):
        return _Collections(client, rows)
    return _Arrays(client, rows)


def _are_paths(X: Any) -> bool:
    return isinstance(X, list | tuple) and bool(X) and all(isinstance(path, str | os.PathLike) for path in X)


# --- part files


@dataclass(frozen=True)
class PartFiles:
    """Files that workers read.

    Attributes
    ----------
    paths : sequence of paths
    read : callable
        ``read(path)`` returns the rows of a file.
    """

    paths: Sequence[Any]
    read: Callable[[Any], Rows]


def read_part(path: Any) -> Rows:
    """Read a file, by its suffix."""
    from sparseleaf.data import read

    part = read(path, n_jobs=1)
    rows = {"X": part.X, "y": part.y, "qid": part.qid}
    return {name: value for name, value in rows.items() if value is not None}


class _Files:
    def __init__(self, files: PartFiles) -> None:
        self._files = files

    def n_parts(self, n_workers: int) -> int:
        return min(n_workers, len(self._files.paths))

    def pieces(self, place: int, n_parts: int, address: str) -> list[Any]:
        first, end = even_ranges(np.ones(len(self._files.paths)), n_parts)[place]
        return list(self._files.paths[first:end])

    @property
    def join(self) -> Callable[[list[Any]], Rows]:
        return _ReadAll(self._files.read)

    def release(self) -> None:
        pass


@dataclass(frozen=True)
class _ReadAll:
    read: Callable[[Any], Rows]

    def __call__(self, paths: list[Any]) -> Rows:
        parts = [self.read(path) for path in paths]
        for path, part in zip(paths, parts, strict=True):
            for name, value in part.items():
                shape, first = (getattr(one, "shape", (0,))[1:] for one in (value, parts[0][name]))
                if shape != first:
                    raise ValueError(
                        f"{name} must have {first} columns in all files, as in {paths[0]}."
                        f" Got {shape} in {path} instead."
                    )
        return join_rows(parts)


# --- Dask collections


class _Collections:
    """Dask arrays or DataFrames with equal partitions of rows."""

    def __init__(self, client: Any, rows: Rows) -> None:
        blocks = {}
        X = rows["X"]
        for name, value in rows.items():
            if value is None:
                continue
            if not hasattr(value, "to_delayed"):
                raise ValueError(
                    f"{name} must be a Dask collection, as X. Got {type(value).__name__} instead."
                )
            if hasattr(value, "rechunk"):  # an array: whole rows, in the chunks of X if it has any
                whole = dict.fromkeys(range(1, value.ndim), -1)
                if hasattr(X, "rechunk"):
                    whole[0] = X.chunks[0]
                value = value.rechunk(whole)
            blocks[name] = np.asarray(value.to_delayed(), object).ravel().tolist()
        counts = {name: len(parts) for name, parts in blocks.items()}
        if len(set(counts.values())) > 1:
            raise ValueError(
                f"All Dask collections must have equal numbers of partitions. Got {counts} instead."
            )
        self._futures = {name: client.compute(parts) for name, parts in blocks.items()}
        self._n_blocks = counts["X"]

    def n_parts(self, n_workers: int) -> int:
        return min(n_workers, self._n_blocks)

    def pieces(self, place: int, n_parts: int, address: str) -> list[Any]:
        first, end = even_ranges(np.ones(self._n_blocks), n_parts)[place]
        return [{name: parts[block] for name, parts in self._futures.items()} for block in range(first, end)]

    @property
    def join(self) -> Callable[[list[Any]], Rows]:
        return join_rows

    def release(self) -> None:
        pass  # partitions may be created from the same blocks again


# --- arrays of the client


class _Arrays:
    """Arrays, sparse matrices, DataFrames or lists of this process."""

    def __init__(self, client: Any, rows: Rows) -> None:
        self._client = client
        if rows.get("group") is not None:
            group = np.asarray(rows["group"])
            rows = {**rows, "group": None, "qid": np.repeat(np.arange(len(group)), group)}
        self._rows = rows
        self._scattered: list[Any] = []
        self._n_rows = rows["X"].shape[0] if hasattr(rows["X"], "shape") else len(rows["X"])
        for name, value in rows.items():
            length = None if value is None else value.shape[0] if hasattr(value, "shape") else len(value)
            if length not in (None, self._n_rows):
                raise ValueError(f"{name} must have {self._n_rows} rows, as X. Got {length} instead.")

    def _borders(self, n_workers: int) -> list[int]:
        n_parts = max(1, min(n_workers, self._n_rows))
        borders = [first for first, _ in even_ranges(np.ones(self._n_rows), n_parts)] + [self._n_rows]
        if self._rows.get("qid") is not None:
            borders = between_queries(np.asarray(self._rows["qid"]), borders)
        return borders

    def n_parts(self, n_workers: int) -> int:
        return len(self._borders(n_workers)) - 1

    def pieces(self, place: int, n_parts: int, address: str) -> list[Any]:
        block = slice(*self._borders(n_parts)[place : place + 2])
        rows = {
            name: None if value is None else value.iloc[block] if hasattr(value, "iloc") else value[block]
            for name, value in self._rows.items()
        }
        sent: list[Any] = self._client.scatter([rows], workers=[address], hash=False)
        self._scattered += sent
        return sent

    @property
    def join(self) -> Callable[[list[Any]], Rows]:
        return join_rows

    def release(self) -> None:
        for future in self._scattered:
            future.release()
        self._scattered = []


def between_queries(qid: Any, borders: list[int]) -> list[int]:
    """Move borders forward to the ends of queries."""
    moved = [0]
    for border in borders[1:-1]:
        at = max(border, moved[-1] + 1)
        while at < len(qid) and qid[at] == qid[at - 1]:
            at += 1
        if at < len(qid) and at > moved[-1]:
            moved.append(at)
    return [*moved, len(qid)]


def join_rows(parts: list[Rows]) -> Rows:
    """Concatenate rows."""
    if len(parts) == 1:
        return parts[0]
    return {name: _joined([part[name] for part in parts]) for name in parts[0]}


def _joined(values: list[Any]) -> Any:
    first = values[0]
    if first is None:
        return None
    if sp.issparse(first):
        return sp.vstack(values, format="csr")
    if hasattr(first, "iloc"):
        import pandas as pd

        return pd.concat(values)
    if isinstance(first, list):
        return [row for value in values for row in value]
    return np.concatenate(values)
