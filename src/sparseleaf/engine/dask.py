"""Shards in the workers of a Dask cluster; the program itself runs at the client.

Every verb is a task of each shard's worker, and what shards give each other goes from worker to worker. A shard is kept
by its worker between tasks. If a worker is lost, its shards are made anew on others from the rows they came from and
the trees so far, and the tree that was growing is grown again: all draws are keyed, so it is the same tree.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from sparseleaf.boosting.histograms import best_of
from sparseleaf.engine.profile import TreeRecord, join_records, size_of
from sparseleaf.engine.sources import make_source

if TYPE_CHECKING:
    from sparseleaf.boosting.tree import FlatTree, LeafVectors
    from sparseleaf.engine.sources import Source

Answer = TypeVar("Answer")

LOOK_AROUND = 1.0
"""Seconds after which a client that waits asks whether all workers are still there."""

PATIENCE = 60
"""Seconds to wait for a worker where all are gone."""

LARGE = 1 << 20
"""Bytes of arguments that are sent apart from a task."""


class DaskEngine:
    """Trains in the workers of a Dask client's cluster; a local cluster, one worker a core, if none is given.

    Parameters
    ----------
    client : distributed.Client or str, optional
        A client, or the address of a scheduler.
    n_shards : int, optional
        Parts to make of the rows, each on a worker of its own; as many as there are workers if not given.

    Attributes
    ----------
    profile : list of dict
        For every tree of the last training, what its workers sent and how long they worked.
    """

    def __init__(self, client: Any = None, n_shards: int | None = None) -> None:
        try:
            import distributed  # noqa: F401
        except ImportError:
            raise ImportError("engine='dask' wants Dask: pip install sparseleaf[dask].") from None
        self._given = client
        self._n_shards = n_shards
        self.profile: list[dict[str, Any]] = []

    @contextmanager
    def open(self, estimator: Any, rows: dict[str, Any], layout: str) -> Iterator[DaskShards]:
        """See :class:`~sparseleaf.engine.shards.Engine`.

        ``rows`` are Dask collections, part files, or arrays of this process, which are then sent to the workers.
        """
        with self.client() as client:
            addresses = list(client.nthreads())[: self._n_shards]
            if not addresses:
                raise ValueError("engine: found a Dask cluster without workers; wanted at least one.")
            source = make_source(client, rows, len(addresses))
            shards = DaskShards(client, estimator, source, layout, addresses)
            try:
                yield shards
                self.profile = shards.records()
            finally:
                shards.close()

    @contextmanager
    def client(self) -> Iterator[Any]:
        """The client that was given, or one of a scheduler or a local cluster for as long as it is needed."""
        from distributed import Client, LocalCluster

        if self._given is not None and not isinstance(self._given, str):
            yield self._given
            return
        if self._given is not None:
            with Client(self._given) as client:
                yield client
            return
        with (
            LocalCluster(threads_per_worker=1, dashboard_address=None) as cluster,
            Client(cluster) as client,
        ):
            yield client


class WorkerLostError(Exception):
    """A worker is gone, and its shards with it."""


# --- in the workers


# A task depends on no task but those whose pieces it takes, and the client waits for all of them before it goes on.
# Else Dask, when a worker is lost, would do again what led to its results, in the workers that are left, too.


@dataclass
class _Held:
    """A shard that a worker keeps, and what has been done with it."""

    part: Any
    n_trees: int = 0
    received: int = 0
    working: float = 0.0
    records: list[TreeRecord] = field(default_factory=list)
    outbox: dict[str, dict[int, Any]] = field(default_factory=dict)
    lock: Any = field(default_factory=threading.RLock)

    def do(self, verb: str, *args: Any) -> Any:
        """A verb of the shard, or one of what is kept with it."""
        own: dict[str, Any] = {
            "add_tree": self._add_tree,
            "catch_up": self._catch_up,
            "tree_records": self._tree_records,
        }
        return (own.get(verb) or getattr(self.part, verb))(*args)

    def _add_tree(self, number: int, tree: FlatTree, vectors: LeafVectors) -> None:
        if self.n_trees == number:
            self.part.add_leaves(tree, vectors)
            self.n_trees += 1
            self.records.append(TreeRecord(self.received, self.working))
            self.received, self.working = 0, 0.0

    def _catch_up(self, trees: list[tuple[FlatTree, LeafVectors]]) -> None:
        for tree, vectors in trees[self.n_trees :]:
            self.part.follow(tree, vectors)
            self.n_trees += 1

    def _tree_records(self) -> list[TreeRecord]:
        return self.records


_HELD: dict[str, _Held] = {}


def _build(key: str, place: int, n_shards: int, estimator: Any, pieces: list[Any], join: Any) -> None:
    part = estimator._part(**join(pieces))
    part.take_place(place, n_shards)
    _HELD[key] = _Held(part)


def _do(key: str, steps: list[tuple[Any, ...]]) -> Any:
    """Verbs of a shard, one after the other; the answer of the last."""
    held = _held(key)
    began = time.perf_counter()
    answer = None
    for step in steps:
        answer = held.do(*step)
    held.working += time.perf_counter() - began
    return answer


def _give(key: str, steps: list[tuple[Any, ...]], exchange: str, to: int) -> Any:
    """One of the pieces that the last step answers; the first task of an exchange makes them all."""
    held = _held(key)
    with held.lock:
        if exchange not in held.outbox:
            held.outbox = {exchange: dict(enumerate(_do(key, steps)))}
        return held.outbox[exchange].pop(to)


def _take(key: str, verb: str, args: Any, place: int, *pieces: Any) -> Any:
    _held(key).received += sum(size_of(piece) for by, piece in enumerate(pieces) if by != place)
    return _do(key, [(verb, list(pieces), *args)])


def _part_rows(key: str, nodes: list[int], feature: Any, place: int, *bits: Any) -> None:
    _held(key).received += sum(size_of(piece) for by, piece in enumerate(bits) if by != place)
    _do(key, [("apply_bits", nodes, feature, list(bits))])


def _drop(keys: list[str]) -> None:
    for key in keys:
        _HELD.pop(key, None)


def _held(key: str) -> _Held:
    if key not in _HELD:
        raise WorkerLostError("a worker was started anew")
    return _HELD[key]


# --- at the client


class DaskShards:
    """See :class:`~sparseleaf.engine.shards.Shards`.

    Parameters
    ----------
    client : distributed.Client
    estimator : estimator
        Makes a part of rows in a worker.
    source : Source
        Where the rows of every shard come from.
    layout : {"rows", "features"}
    addresses : list of str
        Workers; one shard goes to each of the first.
    """

    leads = True

    def __init__(
        self, client: Any, estimator: Any, source: Source, layout: str, addresses: list[str]
    ) -> None:
        from sklearn.base import clone

        self.layout = layout
        self.n_shards = source.n_shards
        self._client = client
        self._estimator = clone(estimator)
        self._source = source
        self._addresses = addresses[: self.n_shards]
        self._token = uuid.uuid4().hex
        self._keys = [f"sparseleaf-{self._token}-{place}" for place in range(self.n_shards)]
        self._pending: list[
            tuple[Any, ...]
        ] = []  # calls, which wait for the next verb whose answer is wanted
        self._all_rows = self.n_shards == 1
        # what is done once, before the first tree, to be done again for a shard that is made anew
        self._setting_up, self._spread = True, False
        self._done: list[tuple[Any, ...]] = []
        self._trees: list[tuple[FlatTree, LeafVectors]] = []
        self._wait([self._make(place) for place in range(self.n_shards)])

    # --- verbs

    def call(self, verb: str, *args: Any) -> None:
        """See :class:`Shards`."""
        if verb == "start_tree":
            self._setting_up = False
        self._note(verb, args)
        self._pending.append((verb, *args))

    def sum(self, verb: str, *args: Any) -> Any:
        """See :class:`Shards`."""
        found = self.gather(verb, *args)
        return sum(found[1:], found[0])

    def gather(self, verb: str, *args: Any) -> list[Any]:
        """See :class:`Shards`."""
        if not self._spread:
            self._note(verb, args)
        return self._rows_answers(self._submit_all(verb, args))

    def exchange(self, verb: str, *args: Any) -> list[Any]:
        """See :class:`Shards`."""
        if self._all_rows:
            return self._rows_answers(self._submit_all(verb, args))
        return self._wait(self._shuffle(verb, args))

    def best(self, verb: str, *args: Any) -> Any:
        """See :class:`Shards`."""
        if self._all_rows:
            return best_of(self._wait(self._submit_all(verb, args)))
        return best_of(self._wait(self._shuffle(verb, args)))

    def split(self, nodes: list[int], *cuts: Any) -> None:
        """See :class:`Shards`."""
        if self.n_shards == 1 or not self._all_rows:
            self.call("apply_splits", nodes, *cuts)
            return
        bits = self._submit_all("split_bits", (nodes, *cuts))
        self._wait(
            [
                self._submit(place, _part_rows, self._keys[place], nodes, cuts[0], place, *bits)
                for place in range(self.n_shards)
            ]
        )

    def add_tree(self, tree: FlatTree, vectors: LeafVectors) -> None:
        """See :class:`Shards`."""
        self._pending.append(("add_tree", len(self._trees), tree, vectors))
        self._trees.append((tree, vectors))

    def follow_tree(self, tree: FlatTree, vectors: LeafVectors) -> None:
        """See :class:`Shards`."""
        self._trees.append((tree, vectors))  # shards are told of all of them at once

    def spread(self) -> None:
        """See :class:`Shards`."""
        if self._trees:
            self._pending.append(("catch_up", self._trees))
        self._flush()
        self._note("spread", ())
        self._spread = True
        if self.layout == "features" and self.n_shards > 1:
            self._wait(self._shuffle("columns", ()))
            self._all_rows = True

    def once(self, work: Callable[[], Answer]) -> Answer:
        """See :class:`Shards`."""
        return work()

    def first(self, work: Callable[[], Answer]) -> Answer | None:
        """See :class:`Shards`."""
        return work()

    def agree(self, local: bool) -> bool:
        """See :class:`Shards`."""
        return local

    # --- what is lost

    def recover(self, error: Exception) -> bool:
        """See :class:`Shards`."""
        while isinstance(error, WorkerLostError):
            try:
                self._make_anew()
                return True
            except WorkerLostError as another:  # another one went in the meantime
                error = another
        return False

    def _make_anew(self) -> None:
        self._pending = []
        self._client.run(_when_idle, on_error="return")
        self._client.wait_for_workers(1, timeout=PATIENCE)
        there = list(self._client.nthreads())
        by_features = self.layout == "features" and self.n_shards > 1
        lost = [
            place
            for place in range(self.n_shards)
            # by features the others have no rows to make columns of
            if by_features or not self._is_held(place, there)
        ]
        others = [address for address in there if address not in self._addresses] or there
        for place, address in zip(lost, itertools.cycle(others), strict=False):
            if self._addresses[place] not in there:
                self._addresses[place] = address
        self._wait([self._make(place) for place in lost])
        self._all_rows = self.n_shards == 1
        at = [verb for verb, *_ in self._done].index("spread")
        for step in self._done[:at] if by_features else self._done:
            if step[0] != "spread":
                self._do_in(lost, step)
        self._do_in(range(self.n_shards), ("catch_up", self._trees))
        if by_features:
            self._wait(self._shuffle("columns", ()))
            self._all_rows = True
            for step in self._done[at + 1 :]:
                self._do_in(lost, step)

    def _do_in(self, places: Iterable[int], step: tuple[Any, ...]) -> None:
        steps = self._steps(step)
        self._wait([self._submit(place, _do, self._keys[place], steps) for place in places])

    def _is_held(self, place: int, there: list[str]) -> bool:
        address = self._addresses[place]
        if address not in there:
            return False
        found = self._client.run(_holds, self._keys[place], workers=[address], on_error="return")
        return found.get(address) is True

    # --- inside

    def _note(self, verb: str, args: tuple[Any, ...]) -> None:
        if self._setting_up:
            self._done.append((verb, *args))

    def _make(self, place: int) -> Any:
        return self._submit(
            place,
            _build,
            self._keys[place],
            place,
            self.n_shards,
            self._estimator,
            self._source.pieces(place, self._addresses[place]),
            self._source.join,
        )

    def _submit(self, place: int, work: Callable[..., Any], *args: Any) -> Any:
        return self._client.submit(work, *args, workers=[self._addresses[place]], pure=False)

    def _steps(self, *last: tuple[Any, ...]) -> Any:
        """What is to be done: the calls so far, and then the last."""
        steps, self._pending = [*self._pending, *last], []
        if size_of(steps) < LARGE:
            return steps
        return self._client.scatter([steps], hash=False, broadcast=True)[0]

    def _flush(self) -> None:
        """Do what waits to be done."""
        if self._pending:
            steps = self._steps()
            self._wait([self._submit(place, _do, key, steps) for place, key in enumerate(self._keys)])

    def _submit_all(self, verb: str, args: tuple[Any, ...]) -> list[Any]:
        steps = self._steps((verb, *args))
        return [self._submit(place, _do, key, steps) for place, key in enumerate(self._keys)]

    def _shuffle(self, verb: str, args: tuple[Any, ...]) -> list[Any]:
        """Pieces from every shard to every shard; what each makes of its own."""
        steps = self._steps((f"{verb}_give", *args))
        name = uuid.uuid4().hex
        pieces = [
            [self._submit(place, _give, key, steps, name, to) for place, key in enumerate(self._keys)]
            for to in range(self.n_shards)
        ]
        return [
            self._submit(place, _take, key, f"{verb}_take", args, place, *pieces[place])
            for place, key in enumerate(self._keys)
        ]

    def _rows_answers(self, futures: list[Any]) -> list[Any]:
        """Answers of all rows; where each shard has all, that of one, when all are done."""
        found = self._wait(futures)
        return found[:1] if self._all_rows else found

    def _wait(self, futures: list[Any]) -> list[Any]:
        """Answers; an error where a worker is gone."""
        from distributed import wait

        try:
            while True:
                try:
                    wait(futures, timeout=LOOK_AROUND)
                    break
                except TimeoutError:
                    there = self._client.nthreads()
                    if any(address not in there for address in self._addresses):
                        raise WorkerLostError("a worker is gone") from None
            found: list[Any] = self._client.gather(futures)
        except _lost_errors() as error:
            raise WorkerLostError(str(error)) from None
        return found

    def records(self) -> list[dict[str, Any]]:
        """For every tree, what the workers sent and how long they worked."""
        return join_records(self._wait(self._submit_all("tree_records", ())))

    def close(self) -> None:
        """Let the workers forget the shards."""
        self._client.run(_drop, self._keys, on_error="ignore")


def _holds(key: str) -> bool:
    return key in _HELD


async def _when_idle(dask_worker: Any) -> None:
    """Wait for the tasks that a worker has begun, which cannot be stopped."""
    while dask_worker.state.executing or dask_worker.state.ready:
        await asyncio.sleep(0.02)


def _lost_errors() -> tuple[type[BaseException], ...]:
    """What Dask says of a task whose worker is gone."""
    from concurrent.futures import CancelledError

    import distributed.client
    from distributed.scheduler import KilledWorker

    found: list[type[BaseException]] = [CancelledError, KilledWorker]
    for name in ("FutureCancelledError", "FuturesCancelledError"):
        if hasattr(distributed.client, name):
            found.append(getattr(distributed.client, name))
    return tuple(found)
