"""Shards in the workers of a Dask cluster; the program itself runs at the client.

Before the first tree every verb is a task of each shard's worker, and what shards give each other goes from worker to
worker. Then every tree is one task of each, which grow it in step (see :mod:`~sparseleaf.engine.peers`). A shard is
kept by its worker between tasks, for as long as the client holds a lease there, which ends with the client. If a worker
is lost, its shards are made anew on others from the rows they came from and the trees so far, and the tree that was
growing is grown again: all draws are keyed, so it is the same tree.
"""

from __future__ import annotations

import asyncio
import copy
import itertools
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from sparseleaf.engine.agreement import require_same_version
from sparseleaf.engine.group import GroupShards
from sparseleaf.engine.guard import require_main_guard
from sparseleaf.engine.peers import Peers, WorkerLostError, close_boxes
from sparseleaf.engine.profile import TreeRecord, join_records, size_of
from sparseleaf.engine.sources import make_source

if TYPE_CHECKING:
    from sparseleaf.boosting.loop import Recipe
    from sparseleaf.boosting.tree import FlatTree, LeafVectors
    from sparseleaf.engine.shards import Check
    from sparseleaf.engine.sources import Source

Answer = TypeVar("Answer")

LOOK_AROUND = 1.0
"""Seconds after which a client that waits asks whether all workers are still there."""

PATIENCE = 60
"""Seconds to wait for a worker where all are gone."""

MOST_LOSSES = 10
"""Times that shards are made anew without a tree in between: what kills a worker every time will do so again."""

LARGE = 1 << 20
"""Bytes of arguments that are sent apart from a task."""

AFTER = "n_entries"
"""What is asked after every tree, and so is answered with it."""

QUIET = {
    # looks at what a worker does a hundred times a second
    "distributed.worker.profile.enabled": False,
    # every process looks at its own loop fifty times a second, at memory ten times, at the system twice
    "distributed.admin.tick.interval": "1s",
    "distributed.worker.memory.monitor-interval": "1s",
    "distributed.admin.system-monitor.interval": "5s",
    # arrays that come and go are kept by the process, where Dask's setting gives them back to the system each time
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 1 << 28,
    "distributed.nanny.pre-spawn-environ.MALLOC_MMAP_THRESHOLD_": 1 << 25,
}
"""Settings of Dask under which its workers have more of their cores to themselves."""


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
    def open(self, estimator: Any, rows: dict[str, Any], layout: str, check: Check) -> Iterator[DaskShards]:
        """See :class:`~sparseleaf.engine.shards.Engine`.

        ``rows`` are Dask collections, part files, or arrays of this process, which are then sent to the workers.
        """
        check()
        with self.client() as client:
            addresses = list(client.nthreads())[: self._n_shards]
            if not addresses:
                raise ValueError("engine: found a Dask cluster without workers; wanted at least one.")
            require_same_version(client, addresses)
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
        from distributed import Client

        if self._given is not None and not isinstance(self._given, str):
            yield self._given
            return
        if self._given is not None:
            with Client(self._given) as client:
                yield client
            return
        with local_cluster() as cluster, Client(cluster) as client:
            yield client


def local_cluster(n_workers: int | None = None) -> Any:
    """A cluster on this machine, of so many workers, or one a core, of one thread each."""
    import dask.config
    from distributed import LocalCluster

    if dask.config.get("distributed.worker.multiprocessing-method", "spawn") != "fork":
        require_main_guard()
    with dask.config.set(QUIET):
        return LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=None)


# --- in the workers


# A task depends on no task but those whose pieces it takes, and the client waits for all of them before it goes on.
# Else Dask, when a worker is lost, would do again what led to its results, in the workers that are left, too.


@dataclass
class _Held:
    """A shard that a worker keeps, and what has been done with it."""

    part: Any
    place: int
    n_trees: int = 0
    tasks: int = 0
    recipe: Recipe | None = None
    shards: GroupShards | None = None
    outbox: dict[str, dict[int, Any]] = field(default_factory=dict)
    records: list[TreeRecord] = field(default_factory=list)
    lock: Any = field(default_factory=threading.RLock)

    def do(self, verb: str, *args: Any) -> Any:
        """A verb of the shard, or one of what is kept with it."""
        own: dict[str, Any] = {
            "catch_up": self._catch_up,
            "adopt": self._adopt,
            "tree_records": lambda: self.records,
        }
        return (own.get(verb) or getattr(self.part, verb))(*args)

    def _catch_up(self, trees: list[tuple[FlatTree, LeafVectors]]) -> None:
        for tree, vectors in trees[self.n_trees :]:
            self.part.follow(tree, vectors)
            self.n_trees += 1

    def _adopt(self, recipe: Recipe, session: str, addresses: list[str], all_rows: bool) -> None:
        # what is sent apart from a task is one object for all shards of a worker, and a recipe has state
        self.recipe = copy.deepcopy(recipe)
        self.shards = GroupShards(Peers(session, self.place, addresses), self.part, all_rows)
        self.shards.records = self.records

    def grow(self, number: int) -> tuple[FlatTree, LeafVectors]:
        """A tree, together with the other workers."""
        assert self.recipe is not None
        assert self.shards is not None
        self.shards.start_clock()
        found = self.recipe.grow(self.shards, number)
        self.n_trees += 1
        return found

    @contextmanager
    def busy(self) -> Iterator[None]:
        """While a task is at work on the shard."""
        self.tasks += 1
        try:
            yield
        finally:
            self.tasks -= 1


_HELD: dict[str, _Held] = {}

# A lease is a task without a result worth having. Dask releases it when the client lets go of it or is gone, which the
# worker is told, and with the last lease of a training its shards are dropped. They are no results of tasks themselves:
# Dask could move or spill those, or make them anew without what has been done with them since.
_LEASES: dict[str, set[str]] = {}
PLUGIN = "sparseleaf-leases"


def _lease(token: str, name: str) -> None:
    """Let this worker keep shards of a training, for as long as it keeps the result of the task of that name."""
    from distributed import WorkerPlugin, get_worker

    class Leases(WorkerPlugin):
        def transition(self, key: Any, start: str, finish: str, **more: Any) -> None:
            if start == "memory":
                _end_lease(key)

    worker: Any = get_worker()
    _LEASES.setdefault(token, set()).add(name)
    if PLUGIN not in worker.plugins:
        added = worker.plugin_add(Leases(), PLUGIN)
        asyncio.run_coroutine_threadsafe(added, worker.loop.asyncio_loop).result()


def _end_lease(name: Any) -> None:
    for token, names in list(_LEASES.items()):
        if name in names:
            names.remove(name)
            if not names:
                _drop(token)


def _build(
    key: str, token: str, place: int, n_shards: int, estimator: Any, pieces: list[Any], join: Any
) -> None:
    part = estimator._part(**join(pieces))
    part.take_place(place, n_shards)
    _HELD[key] = _Held(part, place)
    if token not in _LEASES:  # they have ended meanwhile, or were another process's
        _drop(token)
        raise WorkerLostError("a worker was started anew")


def _do(key: str, steps: list[tuple[Any, ...]]) -> Any:
    """Verbs of a shard, one after the other; the answer of the last."""
    held = _held(key)
    answer = None
    with held.busy():
        for step in steps:
            answer = held.do(*step)
    return answer


def _grow(key: str, number: int) -> tuple[tuple[FlatTree, LeafVectors] | None, Any]:
    """The next tree, which every worker has and the first one answers; and what is asked after it."""
    from distributed import secede

    held = _held(key)
    with held.busy():
        # the others may wait for a thread of this worker: another shard's, or those of another training
        secede()
        found = held.grow(number)
        after = held.do(AFTER)
    return None if held.place else found, after


def _give(key: str, steps: list[tuple[Any, ...]], exchange: str, to: int) -> Any:
    """One of the pieces that the last step answers; the first task of an exchange makes them all."""
    held = _held(key)
    with held.lock:
        if exchange not in held.outbox:
            held.outbox = {exchange: dict(enumerate(_do(key, steps)))}
        return held.outbox[exchange].pop(to)


def _take(key: str, verb: str, args: Any, *pieces: Any) -> Any:
    return _do(key, [(verb, list(pieces), *args)])


def _drop(token: str) -> None:
    _LEASES.pop(token, None)
    close_boxes(token)
    for key in [key for key in list(_HELD) if key.startswith(token)]:
        del _HELD[key]


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
        self._token = f"sparseleaf-{uuid.uuid4().hex}"
        self._keys = [f"{self._token}-{place}" for place in range(self.n_shards)]
        self._leases: list[Any] = []
        # calls, which wait for the next verb whose answer is wanted
        self._pending: list[tuple[Any, ...]] = []
        self._all_rows = self.n_shards == 1
        # what is done once, before the first tree, to be done again for a shard that is made anew
        self._setting_up, self._spread = True, False
        self._done: list[tuple[Any, ...]] = []
        self._trees: list[tuple[FlatTree, LeafVectors]] = []
        self._adopted: Recipe | None = None
        self._after: list[Any] = []
        self._n_trees = self._into_round = 0  # trees that were asked for; those of the round that is not done
        self._losses = 0
        try:
            self._begin()
        except BaseException:
            self.close()
            raise

    def _begin(self) -> None:
        try:
            self._lease_workers()
            self._wait([self._make(place) for place in range(self.n_shards)])
        except WorkerLostError as error:
            if not self.recover(error):
                raise

    # --- verbs

    def call(self, verb: str, *args: Any) -> None:
        """See :class:`Shards`."""
        self._note(verb, args)
        self._pending.append((verb, *args))

    def sum(self, verb: str, *args: Any) -> Any:
        """See :class:`Shards`."""
        found = self.gather(verb, *args)
        return sum(found[1:], found[0])

    def gather(self, verb: str, *args: Any) -> list[Any]:
        """See :class:`Shards`."""
        if verb == AFTER and self._after:
            return self._after[:1] if self._all_rows else self._after
        found = self._lasting(lambda: self._wait(self._submit_all(verb, args)))
        if not self._spread:
            self._note(verb, args)
        return found[:1] if self._all_rows else found

    def exchange(self, verb: str, *args: Any) -> list[Any]:
        """See :class:`Shards`."""
        if self._all_rows:
            return self._lasting(lambda: self._wait(self._submit_all(verb, args)))[:1]
        return self._lasting(lambda: self._wait(self._shuffle(verb, args)))

    def follow_tree(self, tree: FlatTree, vectors: LeafVectors) -> None:
        """See :class:`Shards`."""
        self._trees.append((tree, vectors))  # shards are told of all of them at once
        self._n_trees += 1

    def spread(self) -> None:
        """See :class:`Shards`."""
        self._lasting(self._go_over)
        self._note("spread", ())
        self._spread = True

    def _go_over(self) -> None:
        self._pending.append(("catch_up", self._trees))
        self._flush()
        if self.layout == "features" and self.n_shards > 1:
            self._wait(self._shuffle("columns", ()))
            self._all_rows = True

    def grow(self, recipe: Recipe, number: int) -> tuple[FlatTree, LeafVectors]:
        """See :class:`Shards`."""
        self._setting_up = False
        if self._adopted is not recipe:
            session = f"{self._token}-{uuid.uuid4().hex}"
            self._pending.append(("adopt", recipe, session, self._addresses, self._all_rows))
        self._flush()
        self._adopted = recipe
        while len(self._trees) < self._n_trees:  # trees of a round that was lost, and then this one
            self._grow_next(number - (self._n_trees - len(self._trees)))
        tree = self._grow_next(number)
        self._n_trees += 1
        self._into_round = recipe.statistics.into_round(number + 1)
        self._losses = 0
        return tree

    def _grow_next(self, number: int) -> tuple[FlatTree, LeafVectors]:
        try:
            found = self._wait([self._submit(at, _grow, key, number) for at, key in enumerate(self._keys)])
        except BaseException:
            self._let_go()
            raise
        tree: tuple[FlatTree, LeafVectors] = found[0][0]
        self._after = [after for _, after in found]
        self._trees.append(tree)
        return tree

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
            self._losses += 1
            if self._losses > MOST_LOSSES:
                return False
            try:
                self._make_anew()
                return True
            except WorkerLostError as another:  # another one went in the meantime
                error = another
        return False

    def _lasting(self, work: Callable[[], Answer]) -> Answer:
        """Done again, before the first tree, where shards were lost; from then on it is the caller who does."""
        while True:
            try:
                return work()
            except WorkerLostError as error:
                if self._spread or not self.recover(error):
                    raise

    def _let_go(self) -> None:
        """Let workers that wait for others wait no more."""
        self._client.run(close_boxes, self._token, on_error="ignore")

    def _make_anew(self) -> None:
        self._pending, self._adopted = [], None
        # new shards lack the gradients of a round that is not done: all go back to its beginning
        del self._trees[self._n_trees - self._into_round :]
        self._let_go()
        self._client.run(_when_idle, self._token, on_error="return")
        self._client.wait_for_workers(1, timeout=PATIENCE)
        there = list(self._client.nthreads())
        by_features = self.layout == "features" and self.n_shards > 1
        # by features the others have no rows to make columns of; before the first tree they may have done what is lost
        everything = by_features or not self._spread
        lost = [place for place in range(self.n_shards) if everything or not self._is_held(place, there)]
        others = [address for address in there if address not in self._addresses] or there
        for place, address in zip(lost, itertools.cycle(others), strict=False):
            if self._addresses[place] not in there:
                self._addresses[place] = address
        require_same_version(self._client, self._addresses)
        self._lease_workers()
        self._wait([self._make(place) for place in lost])
        at = [verb for verb, *_ in self._done].index("spread") if self._spread else len(self._done)
        self._all_rows = self.n_shards == 1
        self._do_in(lost, self._done[:at])
        if not self._spread:
            return
        self._do_in(lost, [("catch_up", self._trees)])
        if by_features:
            self._wait(self._shuffle("columns", ()))
            self._all_rows = True
        self._do_in(list(range(self.n_shards)), self._done[at + 1 :])

    def _do_in(self, places: list[int], steps: list[tuple[Any, ...]]) -> None:
        if steps:
            sent = self._steps(*steps)
            self._wait([self._submit(place, _do, self._keys[place], sent) for place in places])

    def _is_held(self, place: int, there: list[str]) -> bool:
        """Whether a shard is there, and has not gone on by a tree that is lost."""
        address = self._addresses[place]
        if address not in there:
            return False
        found = self._client.run(_trees_of, self._keys[place], workers=[address], on_error="return")
        return bool(found.get(address) == len(self._trees))

    # --- inside

    def _note(self, verb: str, args: tuple[Any, ...]) -> None:
        if self._setting_up:
            self._done.append((verb, *args))

    def _lease_workers(self) -> None:
        """Hold a lease at every worker that is to keep shards, and none elsewhere."""
        leases = []
        for address in sorted(set(self._addresses)):
            name = f"{self._token}-lease-{uuid.uuid4().hex}"
            leases.append(
                self._client.submit(_lease, self._token, name, workers=[address], key=name, pure=False)
            )
        self._wait(leases)
        self._leases = leases  # those before them end now

    def _make(self, place: int) -> Any:
        return self._submit(
            place,
            _build,
            self._keys[place],
            self._token,
            place,
            self.n_shards,
            self._estimator,
            self._sent(lambda: self._source.pieces(place, self._addresses[place])),
            self._source.join,
        )

    def _submit(self, place: int, work: Callable[..., Any], *args: Any) -> Any:
        name = f"{self._token}-{uuid.uuid4().hex}"
        return self._client.submit(work, *args, workers=[self._addresses[place]], key=name, pure=False)

    def _sent(self, send: Callable[[], Answer]) -> Answer:
        """What is sent to workers apart from tasks; an error where one of them is gone."""
        try:
            return send()
        except (KeyError, OSError) as error:  # a timeout is one
            raise WorkerLostError(f"a worker is gone: {error!r}") from None

    def _steps(self, *last: tuple[Any, ...]) -> Any:
        """What is to be done: the calls so far, and then the last."""
        steps, self._pending = [*self._pending, *last], []
        if size_of(steps) < LARGE:
            return steps
        return self._sent(lambda: self._client.scatter([steps], hash=False, broadcast=True)[0])

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
            self._submit(place, _take, key, f"{verb}_take", args, *pieces[place])
            for place, key in enumerate(self._keys)
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
                    self._look_around()
                    if any(future.status == "error" for future in futures):
                        break  # the others may wait for that one
            failed = [future for future in futures if future.status == "error"]
            return [self._answer(future) for future in failed or futures]
        except _lost_errors() as error:
            raise WorkerLostError(str(error)) from None

    def _answer(self, future: Any) -> Any:
        patience = 10 * LOOK_AROUND
        while True:
            try:
                return future.result(timeout=patience)
            except TimeoutError:
                if future.status == "error":
                    raise  # the task's own
                self._look_around()
                patience *= 2

    def _look_around(self) -> None:
        there = self._client.nthreads()
        if any(address not in there for address in self._addresses):
            raise WorkerLostError("a worker is gone")

    def records(self) -> list[dict[str, Any]]:
        """For every tree, what the workers sent and how long they worked and waited."""
        try:
            return join_records(self._wait(self._submit_all("tree_records", ())))
        except WorkerLostError:  # the model is there, and is worth more than its profile
            return []

    def close(self) -> None:
        """Let the workers forget the shards."""
        self._leases.clear()
        self._client.run(_drop, self._token, on_error="ignore")


def _trees_of(key: str) -> int | None:
    return _HELD[key].n_trees if key in _HELD else None


async def _when_idle(token: str, dask_worker: Any) -> None:
    """Wait for the tasks of this training that a worker has begun, which cannot be stopped."""
    state = dask_worker.state
    while any(
        str(task.key).startswith(token) for tasks in (state.executing, state.ready) for task in list(tasks)
    ) or any(held.tasks for key, held in list(_HELD.items()) if key.startswith(token)):
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
