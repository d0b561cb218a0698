"""Trees over workers: where trees do not depend on each other, each worker grows some, on all the rows.

For trees with linear routers. Every rank, or the client, ends with all trees in order, the same as one process grows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from sklearn.base import clone

from sparseleaf.engine.shards import LocalEngine, make_engine
from sparseleaf.engine.sources import join_rows
from sparseleaf.routed.growth import trees_abreast

if TYPE_CHECKING:
    from sparseleaf.engine.mpi import MPIGroup


Answer = TypeVar("Answer")


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

    def abreast(self, n_trees: int, n_jobs: int) -> int:
        return trees_abreast(n_trees, n_jobs)

    def rows(self, X: Any, y: Any) -> tuple[Any, Any]:
        return X, y

    def once(self, work: Callable[[], Answer]) -> Answer:
        return work()

    def trees(self, estimator: Any, rows: tuple[Any, ...], n_jobs: int, first: int) -> Iterator[Any]:
        yield from estimator._trees(*rows, n_jobs, first)


class _Ranks:
    def __init__(self, group: MPIGroup) -> None:
        self._group = group
        self.leads = group.rank == 0

    def abreast(self, n_trees: int, n_jobs: int) -> int:
        return 1

    def rows(self, X: Any, y: Any) -> tuple[Any, Any]:
        """All ranks' rows, in all ranks."""
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
    def __init__(self, client: Any) -> None:
        self._client = client

    def abreast(self, n_trees: int, n_jobs: int) -> int:
        return 0

    def trees(self, estimator: Any, rows: tuple[Any, ...], n_jobs: int, first: int) -> Iterator[Any]:
        sent = self._client.scatter([rows], broadcast=True, hash=False)[0]
        numbers = range(first, estimator.n_trees)
        futures = [self._client.submit(_grow, clone(estimator), sent, n_jobs, n, pure=False) for n in numbers]
        try:
            for future in futures:  # Dask grows those of a lost worker again
                yield future.result()
        finally:
            self._client.cancel(futures)


def _grow(estimator: Any, rows: tuple[Any, ...], n_jobs: int, number: int) -> Any:
    """One tree."""
    alone = clone(estimator).set_params(n_trees=number + 1)
    alone._prepare(rows[0])
    (tree,) = alone._trees(*rows, n_jobs, number)
    return tree


@contextmanager
def tree_workers(engine: Any) -> Iterator[TreeWorkers]:
    """The workers of an engine."""
    found: Any = make_engine(engine)
    if isinstance(found, LocalEngine):
        yield _Alone()
    elif hasattr(found, "group"):
        with found.group.all_or_none():
            yield _Ranks(found.group)
    else:
        with found.client() as client:
            yield _Workers(client)
