"""Trees over workers: where trees do not depend on each other, each worker grows some, on all the rows.

For trees with linear routers. Every rank, or the client, ends with all trees in order, the same as one process grows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import scipy.sparse as sp
from sklearn.base import clone

import sparseleaf
from sparseleaf.engine.agreement import compare_versions, describe_training, require_same_version
from sparseleaf.engine.shards import LocalEngine, make_engine
from sparseleaf.engine.sources import is_remote, join_rows, make_source
from sparseleaf.routed.growth import trees_abreast

if TYPE_CHECKING:
    from sparseleaf.engine.mpi import MPIGroup


Answer = TypeVar("Answer")

KINDS = {"i": "int", "u": "int", "f": "float", "b": "bool", "U": "str", "T": "str", "O": "object"}
"""Kinds of numpy's types, in words."""


class TreeWorkers(Protocol):
    """Who grows the trees."""

    leads: bool
    """Whether this process is the one that writes and prints."""

    def abreast(self, n_trees: int, n_jobs: int) -> int:
        """Trees that this process grows at a time."""

    def rows(self, X: Any, y: Any) -> tuple[Any, Any]:
        """All rows, given those of this process."""

    def once(self, work: Callable[[], Answer]) -> Answer:
        """Done in one place; the answer is known everywhere."""

    def trees(self, estimator: Any, rows: tuple[Any, ...], n_jobs: int, first: int) -> Iterator[Any]:
        """The trees from number ``first``, in order: those of ``estimator._trees(*rows, n_jobs, first)``."""


class _Alone:
    leads = True

    def __init__(self, estimator: Any) -> None:
        estimator._check()

    def abreast(self, n_trees: int, n_jobs: int) -> int:
        return trees_abreast(n_trees, n_jobs)

    def rows(self, X: Any, y: Any) -> tuple[Any, Any]:
        return X, y

    def once(self, work: Callable[[], Answer]) -> Answer:
        return work()

    def trees(self, estimator: Any, rows: tuple[Any, ...], n_jobs: int, first: int) -> Iterator[Any]:
        yield from estimator._trees(*rows, n_jobs, first)


class _Ranks:
    def __init__(self, group: MPIGroup, estimator: Any) -> None:
        self._group = group
        self._estimator = estimator
        self.leads = group.rank == 0

    def abreast(self, n_trees: int, n_jobs: int) -> int:
        return 1

    def rows(self, X: Any, y: Any) -> tuple[Any, Any]:
        """All ranks' rows, in all ranks, once they agree on all else."""

        def prepare() -> tuple[None, dict[str, Any]]:
            self._estimator._check()
            return None, describe_training(self._estimator, {}, _form(X, y))

        self._group.agree(prepare)
        found = join_rows([{"X": X, "y": y} for X, y in self._group.gather((X, y))])
        return found["X"], found["y"]

    def once(self, work: Callable[[], Answer]) -> Answer:
        return self._group.once(work)

    def trees(self, estimator: Any, rows: tuple[Any, ...], n_jobs: int, first: int) -> Iterator[Any]:
        for begin in range(first, estimator.n_trees, self._group.size):
            own = begin + self._group.rank
            tree = _grow(estimator, rows, n_jobs, own) if own < estimator.n_trees else None
            yield from (found for found in self._group.gather(tree) if found is not None)


class _Workers(_Alone):
    def __init__(self, client: Any, estimator: Any) -> None:
        super().__init__(estimator)
        require_same_version(client)
        self._client = client

    def abreast(self, n_trees: int, n_jobs: int) -> int:
        return 0

    def rows(self, X: Any, y: Any) -> tuple[Any, Any]:
        """All rows; those that are elsewhere are read by a worker, since the client may not see them."""
        if not is_remote(X):
            return X, y
        source = make_source(self._client, {"X": X, "y": y}, 1)
        address = next(iter(self._client.nthreads()), "")
        found = self._client.submit(source.join, source.pieces(0, address), pure=False).result()
        return found["X"], found["y"]

    def trees(self, estimator: Any, rows: tuple[Any, ...], n_jobs: int, first: int) -> Iterator[Any]:
        sent = self._client.scatter([rows], broadcast=True, hash=False)[0]
        numbers = range(first, estimator.n_trees)
        task = partial(_grow_in_worker, sparseleaf.__version__)
        futures = [self._client.submit(task, clone(estimator), sent, n_jobs, n, pure=False) for n in numbers]
        try:
            for future in futures:  # Dask grows those of a lost worker again
                yield future.result()
        finally:
            self._client.cancel(futures)


def _form(X: Any, y: Any) -> dict[str, Any]:
    """What the rows of all ranks must have in common."""
    return {
        "n_features": _width(X),
        "feature names": [str(name) for name in X.columns] if hasattr(X, "columns") else None,
        "X": _type_of(X),
        "y": _type_of(y),
        "columns of y": _width(y),
    }


def _width(rows: Any) -> int | None:
    shape: tuple[int, ...] = getattr(rows, "shape", ())
    return int(shape[1]) if len(shape) > 1 else None


def _type_of(rows: Any) -> str:
    """A sparse matrix of any format is one type; arrays, DataFrames and the like are told by what they hold."""
    if sp.issparse(rows):
        return "sparse matrix"
    kind = getattr(getattr(rows, "dtype", None), "kind", "")
    return type(rows).__name__ + (f" of {KINDS.get(kind, kind)}" if kind else "")


def _grow(estimator: Any, rows: tuple[Any, ...], n_jobs: int, number: int) -> Any:
    """One tree."""
    alone = clone(estimator).set_params(n_trees=number + 1)
    alone._prepare(rows[0])
    (tree,) = alone._trees(*rows, n_jobs, number)
    return tree


def _grow_in_worker(version: str, *args: Any) -> Any:
    """As :func:`_grow`, if this worker, which may have joined only now, has the client's version of the package."""
    from distributed import get_worker

    compare_versions(get_worker().address, sparseleaf.__version__, version)
    return _grow(*args)


@contextmanager
def tree_workers(engine: Any, estimator: Any) -> Iterator[TreeWorkers]:
    """The workers of an engine, for an estimator whose parameters are right."""
    found: Any = make_engine(engine)
    if isinstance(found, LocalEngine):
        yield _Alone(estimator)
    elif hasattr(found, "group"):
        with found.group.all_or_none():
            yield _Ranks(found.group, estimator)
    else:
        with found.client() as client:
            yield _Workers(client, estimator)
