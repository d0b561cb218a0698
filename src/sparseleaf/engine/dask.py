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
from collections.abc import Callable, Iterator
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
        with self._client() as client:
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
    def _client(self) -> Iterator[Any]:
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


_HELD: dict[str, _Held] = {}


def _build(
    key: str, place: int, n_shards: int, estimator: Any, pieces: list[dict[str, Any]], join: Any
) -> None:
    part = estimator._part(**join(pieces))
    part.take_place(place, n_shards)
    _HELD[key] = _Held(part)


def _do(previous: Any, key: str, steps: list[tuple[Any, ...]]) -> Any:
    """Verbs of a shard, one after the other and after the task before; the answer of the last."""
    held = _held(key)
    began = time.perf_counter()
    answer = None
    for verb, *args in steps:
        answer = getattr(held.part, verb)(*args)
    held.working += time.perf_counter() - began
    return answer


def _give(previous: Any, key: str, steps: list[tuple[Any, ...]], exchange: str, to: int) -> Any:
    """One of the pieces that the last step answers; the first task of an exchange makes them all."""
    held = _held(key)
    with held.lock:
        if exchange not in held.outbox:
            held.outbox[exchange] = dict(enumerate(_do(previous, key, steps)))
        pieces = held.outbox[exchange]
        piece = pieces.pop(to)
        if not pieces:
            del held.outbox[exchange]
    return piece


def _take(previous: Any, key: str, verb: str, args: Any, place: int, *pieces: Any) -> Any:
    _held(key).received += sum(size_of(piece) for by, piece in enumerate(pieces) if by != place)
    return _do(previous, key, [(verb, list(pieces), *args)])


def _part_rows(previous: Any, key: str, nodes: list[int], feature: Any, place: int, *bits: Any) -> None:
    _held(key).received += sum(size_of(piece) for by, piece in enumerate(bits) if by != place)
    _do(previous, key, [("apply_bits", nodes, feature, list(bits))])


def _add_tree(previous: Any, key: str, number: int, tree: FlatTree, vectors: LeafVectors) -> None:
    held = _held(key)
    if held.n_trees == number:
        _do(previous, key, [("add_leaves", tree, vectors)])
        held.n_trees += 1
        held.records.append(TreeRecord(held.received, held.working))
        held.received, held.working = 0, 0.0


def _follow_tree(previous: Any, key: str, tree: FlatTree, vectors: LeafVectors) -> None:
    held = _held(key)
    held.part.follow(tree, vectors)
    held.n_trees += 1


def _catch_up(previous: Any, key: str, trees: list[Any]) -> int:
    held = _held(key)
    for tree, vectors in trees[held.n_trees :]:
        held.part.follow(tree, vectors)
        held.n_trees += 1
    return held.n_trees


def _records(previous: Any, key: str) -> list[TreeRecord]:
    return _held(key).records


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
        self._last: list[Any] = [None] * self.n_shards
        self._pending: list[
            tuple[Any, ...]
        ] = []  # calls, which wait for the next verb whose answer is wanted
        self._all_rows = self.n_shards == 1
        # what is done once, before the first tree, to be done again for a shard that is made anew
        self._setting_up, self._spread = True, False
        self._done: list[tuple[str, tuple[Any, ...]]] = []
        self._trees: list[tuple[FlatTree, LeafVectors]] = []
        for place in range(self.n_shards):
            self._make(place)
        self._wait(self._last)

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
        futures = self._submit_all(verb, args)
        return self._wait(futures[:1] if self._all_rows else futures)

    def exchange(self, verb: str, *args: Any) -> list[Any]:
        """See :class:`Shards`."""
        if self._all_rows:
            return self._wait(self._submit_all(verb, args)[:1])
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
        for place in range(self.n_shards):
            self._submit(place, _part_rows, self._keys[place], nodes, cuts[0], place, *bits)

    def add_tree(self, tree: FlatTree, vectors: LeafVectors) -> None:
        """See :class:`Shards`."""
        number = len(self._trees)
        self._flush()
        self._trees.append((tree, vectors))
        for place in range(self.n_shards):
            self._submit(place, _add_tree, self._keys[place], number, tree, vectors)

    def follow_tree(self, tree: FlatTree, vectors: LeafVectors) -> None:
        """See :class:`Shards`."""
        self._flush()
        self._trees.append((tree, vectors))
        for place in range(self.n_shards):
            self._submit(place, _follow_tree, self._keys[place], tree, vectors)

    def spread(self) -> None:
        """See :class:`Shards`."""
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
        if not isinstance(error, WorkerLostError):
            return False
        self._pending = []
        self._settle()
        self._client.wait_for_workers(1, timeout=PATIENCE)
        there = list(self._client.nthreads())
        lost = [place for place in range(self.n_shards) if not self._is_held(place, there)]
        if self.layout == "features" and self.n_shards > 1:
            lost = list(range(self.n_shards))  # the others have no rows to make columns of
            self._all_rows = False
        others = [address for address in there if address not in self._addresses] or there
        for place, address in zip(lost, itertools.cycle(others), strict=False):
            if self._addresses[place] not in there:
                self._addresses[place] = address
            self._make(place)
        trees = self._client.scatter([self._trees], hash=False)[0] if self._trees else []
        for verb, args in self._done:
            if verb == "spread":
                continue
            steps = self._steps((verb, *args))
            for place in lost:
                self._submit(place, _do, self._keys[place], steps)
        futures = [self._submit(place, _catch_up, self._keys[place], trees) for place in range(self.n_shards)]
        self._wait(futures)
        if self.layout == "features" and self.n_shards > 1:
            self._wait(self._shuffle("columns", ()))
            self._all_rows = True
            for verb, args in self._after_spread():
                self._submit_all(verb, args)
        return True

    def _after_spread(self) -> list[tuple[str, tuple[Any, ...]]]:
        at = [verb for verb, _ in self._done].index("spread")
        return self._done[at + 1 :]

    def _is_held(self, place: int, there: list[str]) -> bool:
        address = self._addresses[place]
        if address not in there:
            return False
        found = self._client.run(_holds, self._keys[place], workers=[address], on_error="return")
        return found.get(address) is True

    def _settle(self) -> None:
        """Wait until nothing is under way any more in the workers that are left, done or not."""
        for future in self._last:
            for one in future if isinstance(future, list) else [future]:
                if one is not None:
                    one.cancel(force=True)
        self._last = [None] * self.n_shards
        self._client.run(_when_idle, on_error="return")

    # --- inside

    def _note(self, verb: str, args: tuple[Any, ...]) -> None:
        if self._setting_up:
            self._done.append((verb, args))

    def _make(self, place: int) -> None:
        self._last[place] = self._client.submit(
            _build,
            self._keys[place],
            place,
            self.n_shards,
            self._estimator,
            self._source.pieces(place, self._addresses[place]),
            self._source.join,
            workers=[self._addresses[place]],
            pure=False,
        )

    def _submit(self, place: int, work: Callable[..., Any], *args: Any) -> Any:
        """A task of a shard's worker, after the one before it."""
        future = self._client.submit(
            work, self._last[place], *args, workers=[self._addresses[place]], pure=False
        )
        self._last[place] = future
        return future

    def _steps(self, *last: tuple[Any, ...]) -> Any:
        """What is to be done: the calls so far, and then the last."""
        steps, self._pending = [*self._pending, *last], []
        if size_of(steps) < LARGE:
            return steps
        return self._client.scatter([steps], hash=False)[0]

    def _flush(self) -> None:
        """Send the calls that wait."""
        if self._pending:
            verb, *args = self._pending.pop()
            self._submit_all(verb, tuple(args))

    def _submit_all(self, verb: str, args: tuple[Any, ...]) -> list[Any]:
        steps = self._steps((verb, *args))
        return [self._submit(place, _do, self._keys[place], steps) for place in range(self.n_shards)]

    def _shuffle(self, verb: str, args: tuple[Any, ...]) -> list[Any]:
        """Pieces from every shard to every shard; what each makes of its own."""
        steps = self._steps((f"{verb}_give", *args))
        name = uuid.uuid4().hex
        pieces = [
            [
                self._client.submit(_give, before, key, steps, name, to, workers=[address], pure=False)
                for before, key, address in zip(self._last, self._keys, self._addresses, strict=True)
            ]
            for to in range(self.n_shards)
        ]
        # every shard's next task waits for all that it gives
        self._last = [[pieces[to][place] for to in range(self.n_shards)] for place in range(self.n_shards)]
        return [
            self._submit(place, _take, self._keys[place], f"{verb}_take", args, place, *pieces[place])
            for place in range(self.n_shards)
        ]

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
        found = self._wait(
            [self._submit(place, _records, self._keys[place]) for place in range(self.n_shards)]
        )
        return join_records(found)

    def close(self) -> None:
        """Let the workers forget the shards."""
        self._last = []
        self._client.run(_drop, self._keys, on_error="ignore")


def _holds(key: str) -> bool:
    return key in _HELD


async def _when_idle(dask_worker: Any) -> None:
    """Wait for the tasks that a worker has begun, which cannot be stopped."""
    while dask_worker.state.executing:
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
