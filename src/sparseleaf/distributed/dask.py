"""Training in the workers of a Dask cluster.

Each of the workers keeps a :class:`Member` of the training: its partition, its communicator and the program, which is
paused between two steps. A step is a short task on each worker, in which the members work together over sockets of
their own; the client has a say between steps. A member is a Dask *actor* that the client holds: Dask neither moves nor
copies it, and drops it when the client lets go of it or disappears, whereupon its sockets are closed.

Where a worker is lost, the step ends on all of them, and the client begins again on the workers that are left.
"""

from __future__ import annotations

import secrets
import threading
import traceback
import uuid
import weakref
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from sparseleaf.distributed.agreement import require_same_version
from sparseleaf.distributed.communicator import WorkerLostError, payload
from sparseleaf.distributed.guard import require_main_guard
from sparseleaf.distributed.profile import StepRecord, join_records, recorded
from sparseleaf.distributed.sockets import Address, Listener, SocketCommunicator
from sparseleaf.distributed.sources import make_source
from sparseleaf.progress import phase

if TYPE_CHECKING:
    from sparseleaf.distributed.launch import Prepare, Program
    from sparseleaf.distributed.sources import Source

Result = TypeVar("Result")

LOOK_AROUND = 1.0
"""Seconds after which a client that waits asks whether all workers are still there."""

PATIENCE = 60
"""Seconds to wait for a worker where all are gone, or for the others to say why one failed."""

LARGE = 1 << 20
"""Bytes of a message that are sent apart from a task."""

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


class DaskLauncher:
    """Trains in the workers of a Dask client's cluster; a local cluster, one worker a core, if none is given.

    Parameters
    ----------
    client : distributed.Client or str, optional
        A client, or the address of a scheduler.
    n_workers : int, optional
        Workers to train on at most; all if not given.

    Attributes
    ----------
    profile : list of dict
        For every tree of the last training, what its workers received and how long they worked and waited.
    """

    def __init__(self, client: Any = None, n_workers: int | None = None) -> None:
        try:
            import distributed  # noqa: F401
        except ImportError:
            raise ImportError("engine='dask' wants Dask: pip install sparseleaf[dask].") from None
        self._given = client
        self._n_workers = n_workers
        self.profile: list[dict[str, Any]] = []

    @contextmanager
    def open(self, estimator: Any, rows: dict[str, Any], prepare: Prepare) -> Iterator[DaskWorkers]:
        """See :class:`~sparseleaf.distributed.launch.Launcher`.

        ``rows`` are Dask collections, part files, or arrays of this process, which are then sent to the workers.
        """
        from sklearn.base import clone

        program, _ = prepare()
        with self.client() as client:
            if not client.nthreads():
                raise ValueError("engine: found a Dask cluster without workers; wanted at least one.")
            workers = DaskWorkers(
                client, clone(estimator), make_source(client, rows), program, self._n_workers
            )
            try:
                yield workers
                self.profile = workers.profile
            finally:
                workers.close()

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


class Member:
    """What one worker of a training keeps from step to step.

    Parameters
    ----------
    key : str
        Name by which steps find it.
    host : str
        The worker's own address.
    """

    def __init__(self, key: str, host: str) -> None:
        self._listener = Listener(host)
        self._connections: list[SocketCommunicator] = []
        self._part: Any = None
        self._program: Program | None = None
        self._running: Generator[Any, Any, None] | None = None
        self._step = threading.Lock()
        _MEMBERS[key] = self
        weakref.finalize(self, _hang_up, self._listener, self._connections)

    def build(self, sent: tuple[Any, Program], pieces: list[Any], join: Any) -> Address:
        """Make the partition, by an estimator that was sent with the program; where others will find this member."""
        estimator, self._program = sent
        self._part = estimator._partition(**join(pieces))
        return self._listener.address

    def meet(self, rank: int, addresses: Sequence[Address], secret: bytes) -> None:
        """Connect to the other members."""
        assert self._program is not None
        comm = self._listener.connect(rank, addresses, secret)
        self._connections.append(comm)
        self._running, self._part = self._program(comm, self._part), None

    def advance(self, message: Any) -> tuple[Any, StepRecord]:
        """One step, together with the other members: what the first one yields, and this one's record."""
        running, (comm,) = self._running, self._connections
        assert running is not None
        with self._step:
            answer, record = recorded(comm, lambda: running.send(message))
        return (None if comm.rank else answer), record

    def close(self) -> None:
        """Let the others wait for this one no more, nor this one for them."""
        _hang_up(self._listener, self._connections)


_MEMBERS: weakref.WeakValueDictionary[str, Member] = weakref.WeakValueDictionary()
"""Those of this process; it is Dask that keeps them."""


def _hang_up(listener: Listener, connections: Sequence[SocketCommunicator]) -> None:
    listener.close()
    for connection in connections:
        connection.close()


def _run(key: str, step: Callable[..., Any], *args: Any) -> Any:
    """A task: one step of the member of that name."""
    from distributed import secede

    secede()  # others may wait for a thread of this worker: those of another training, or another member
    try:
        return _step(key, step, *args)
    except BaseException as error:
        args = ()
        _clear_frames(error)
        raise


def _step(key: str, step: Callable[..., Any], *args: Any) -> Any:
    member = _MEMBERS.get(key)
    if member is None:
        raise WorkerLostError("a worker was started anew")
    try:
        return step(member, *args)
    except BaseException:
        member.close()  # the step ends for the others, too
        raise


def _clear_frames(error: BaseException | None) -> None:
    """Drop the variables of an error's traceback, which Dask keeps: the member and its rows are among them."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__context__


def _close_members(token: str) -> None:
    """End the steps of a training on this worker."""
    for key, member in list(_MEMBERS.items()):
        if key.startswith(token):
            member.close()


# --- at the client


class DaskWorkers:
    """See :class:`~sparseleaf.distributed.launch.Workers`: a member of the training on each of the workers.

    Parameters
    ----------
    client : distributed.Client
    estimator : estimator
        Makes a partition of rows in a worker.
    source : Source
        Where the rows come from.
    program : Program
    n_workers : int or None
        Workers to use at most.

    Attributes
    ----------
    profile : list of dict
    """

    leads = True

    def __init__(
        self, client: Any, estimator: Any, source: Source, program: Program, n_workers: int | None
    ) -> None:
        self._client = client
        self._estimator = estimator
        self._source = source
        self._program = program
        self._n_workers = len(client.nthreads()) if n_workers is None else n_workers
        self._token = ""
        self._addresses: list[str] = []
        self._members: list[Any] = []
        self._records: list[list[StepRecord]] = []

    @property
    def profile(self) -> list[dict[str, Any]]:
        """For every tree, what the workers received and how long they worked and waited."""
        return [
            join_records([[one] for one in records])[0] | {"tree": tree}
            for tree, records in enumerate(self._records)
        ]

    def send(self, message: Any) -> Any:
        """See :class:`~sparseleaf.distributed.launch.Workers`."""
        with phase("workers"):
            return self._advance(message)[0]

    def step(self) -> Any:
        """See :class:`~sparseleaf.distributed.launch.Workers`."""
        answer, records = self._advance(None)
        self._records.append(records)
        return answer

    def once(self, work: Callable[[], Result]) -> Result:
        """See :class:`~sparseleaf.distributed.launch.Workers`."""
        return work()

    def agree(self, local: bool) -> bool:
        """See :class:`~sparseleaf.distributed.launch.Workers`."""
        return local

    def restart(self) -> None:
        """See :class:`~sparseleaf.distributed.launch.Workers`; partitions are made from the source again."""
        self.close()
        self._client.wait_for_workers(1, timeout=PATIENCE)

    def close(self) -> None:
        """Let the workers drop their members."""
        if self._members:
            self._client.run(_close_members, self._token, on_error="ignore")
            _release(self._members)
        self._members = []

    def _advance(self, message: Any) -> tuple[Any, list[StepRecord]]:
        if not self._members:
            self._start()
        large = payload(message) > LARGE
        if large:
            message = self._spread(message)
        try:
            found = self._collect(
                [self._submit(rank, Member.advance, message) for rank in range(len(self._members))]
            )
        finally:
            if large:
                _release([message])
        return found[0][0], [record for _, record in found]

    def _start(self) -> None:
        """Members on the workers that are there, connected to each other."""
        client = self._client
        addresses = list(client.nthreads())[: self._n_workers]
        if not addresses:
            raise WorkerLostError("all workers are gone")
        n = self._source.n_parts(len(addresses))
        self._addresses, self._token = addresses[:n], f"sparseleaf-{uuid.uuid4().hex}"
        require_same_version(client, self._addresses)
        keys = [self._key(rank) for rank in range(n)]
        self._members = [
            client.submit(Member, key, _host(at), actor=True, workers=[at], key=f"{key}-member", pure=False)
            for key, at in zip(keys, self._addresses, strict=True)
        ]
        self._wait(self._members)
        sent = self._spread((self._estimator, self._program))
        try:
            pieces = self._sent(
                lambda: [self._source.pieces(rank, n, at) for rank, at in enumerate(self._addresses)]
            )
            places = self._collect(
                [self._submit(rank, Member.build, sent, pieces[rank], self._source.join) for rank in range(n)]
            )
        finally:
            _release([sent])
            self._source.let_go()
        secret = secrets.token_bytes(32)
        self._collect([self._submit(rank, Member.meet, rank, places, secret) for rank in range(n)])

    def _key(self, rank: int) -> str:
        return f"{self._token}-{rank}"

    def _submit(self, rank: int, step: Callable[..., Any], *args: Any) -> Any:
        name = f"{self._token}-{uuid.uuid4().hex}"
        where = [self._addresses[rank]]
        return self._client.submit(_run, self._key(rank), step, *args, workers=where, key=name, pure=False)

    def _spread(self, value: Any) -> Any:
        """Send something to all workers, apart from tasks."""
        return self._sent(
            lambda: self._client.scatter([value], workers=self._addresses, broadcast=True, hash=False)[0]
        )

    def _sent(self, send: Callable[[], Result]) -> Result:
        """What is sent to workers apart from tasks; an error where one of them is gone."""
        try:
            return send()
        except (KeyError, OSError) as error:  # a timeout is one
            raise WorkerLostError(f"a worker is gone: {error!r}") from None

    def _collect(self, futures: list[Any]) -> list[Any]:
        """Results of tasks; an error where one failed or a worker is gone."""
        try:
            self._wait(futures)
            return [self._result(future) for future in futures]
        finally:
            _release(futures)

    def _wait(self, futures: list[Any]) -> None:
        from distributed import wait

        while True:
            try:
                wait(futures, timeout=LOOK_AROUND)
            except TimeoutError:
                self._look_around()
                if not any(future.status == "error" for future in futures):
                    continue
            except _lost_errors() as error:  # what a task was to take has gone with a worker
                raise WorkerLostError(str(error)) from None
            break
        failed = [future for future in futures if future.status == "error"]
        if not failed and all(future.status == "finished" for future in futures):
            return
        if not failed:
            raise WorkerLostError("a task is gone with its worker")
        self._raise(futures)

    def _raise(self, futures: list[Any]) -> None:
        """Raise why a step failed: the error of one member, rather than that the others lost it."""
        from distributed import wait

        with suppress(TimeoutError):
            wait(futures, timeout=PATIENCE)  # the step ends on all of them, as their connections do
        errors = [future.exception() for future in futures if future.status == "error"]
        lost = _lost_errors()
        for error in errors:
            if not isinstance(error, lost):
                raise error
        raise WorkerLostError(str(errors[0])) from None

    def _result(self, future: Any) -> Any:
        patience = 10 * LOOK_AROUND
        while True:
            try:
                return future.result(timeout=patience)
            except TimeoutError:
                self._look_around()
                patience *= 2
            except _lost_errors() as error:
                raise WorkerLostError(str(error)) from None

    def _look_around(self) -> None:
        there = self._client.nthreads()
        if any(address not in there for address in self._addresses):
            raise WorkerLostError("a worker is gone")


def _release(futures: Sequence[Any]) -> None:
    """Let go of them now, and not when Python finds that nobody holds them."""
    for future in futures:
        future.release()


def _host(address: str) -> str:
    """Where a Dask worker can be reached; one in this process by this process only."""
    parts = urlsplit(address)
    return "127.0.0.1" if parts.scheme == "inproc" else parts.hostname or "127.0.0.1"


def _lost_errors() -> tuple[type[BaseException], ...]:
    """What is raised where a worker is gone."""
    from concurrent.futures import CancelledError

    import distributed.client
    from distributed.scheduler import KilledWorker

    found: list[type[BaseException]] = [WorkerLostError, CancelledError, KilledWorker]
    for name in ("FutureCancelledError", "FuturesCancelledError"):
        if hasattr(distributed.client, name):
            found.append(getattr(distributed.client, name))
    return tuple(found)
