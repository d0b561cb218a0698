"""Training on the workers of a Dask cluster.

Every worker keeps a :class:`Member` of the training: its partition, its communicator and the training function, a
generator paused between steps. A step is a short task on every worker, in which members communicate over sockets; the
client runs between steps. A member is a Dask *actor* held by the client: Dask neither moves nor copies it, and drops it
when the client releases it or disappears, which closes its sockets.

When a worker is lost, the step fails on all of them, and the client restarts on the remaining workers.
"""

from __future__ import annotations

import secrets
import threading
import traceback
import uuid
import weakref
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
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

CHECK_INTERVAL = 1.0
"""Seconds between checks that all workers are alive, while the client waits."""

PATIENCE = 60
"""Seconds to wait for a new worker when all are gone, or for the error of a failed worker."""

LARGE = 1 << 20
"""Message size from which messages are scattered instead of embedded in tasks."""

QUIET = {
    # samples a worker's stack 100 times per second
    "distributed.worker.profile.enabled": False,
    # every process checks its event loop 50, its memory 10 and the system 2 times per second
    "distributed.admin.tick.interval": "1s",
    "distributed.worker.memory.monitor-interval": "1s",
    "distributed.admin.system-monitor.interval": "5s",
    # keep freed memory in the process; Dask's setting returns it to the system each time
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 1 << 28,
    "distributed.nanny.pre-spawn-environ.MALLOC_MMAP_THRESHOLD_": 1 << 25,
}
"""Dask settings that reduce the background load of workers."""


class DaskLauncher:
    """Engine that trains on the workers of a Dask cluster.

    Parameters
    ----------
    client : distributed.Client or str, optional
        A client, or the address of a scheduler. By default a local cluster with one worker per core.
    n_workers : int, optional
        Maximum number of workers, all by default.

    Attributes
    ----------
    profile : list of dict
        Bytes received and seconds of computing and waiting per tree and worker, of the last training.

    Examples
    --------
    >>> from sparseleaf import SparseGBDTClassifier
    >>> from sparseleaf.data import make_xc
    >>> from sparseleaf.distributed.dask import DaskLauncher
    >>> X, Y = make_xc(100, 20, 10, labels_per_row=2, nnz_per_row=5)
    >>> engine = DaskLauncher("tcp://scheduler:8786", n_workers=4)
    >>> clf = SparseGBDTClassifier(n_trees=5).fit(X, Y, engine=engine)  # doctest: +SKIP
    >>> len(engine.profile)  # doctest: +SKIP
    5
    """

    def __init__(self, client: Any = None, n_workers: int | None = None) -> None:
        try:
            import distributed  # noqa: F401
        except ImportError:
            raise ImportError("engine='dask' requires Dask: pip install sparseleaf[dask].") from None
        self._given = client
        self._n_workers = n_workers
        self.profile: list[dict[str, Any]] = []

    @contextmanager
    def open(self, estimator: Any, rows: dict[str, Any], prepare: Prepare) -> Iterator[DaskWorkers]:
        """See :class:`~sparseleaf.distributed.launch.Launcher`.

        ``rows`` are Dask collections, part files, or arrays of this process, which are scattered to the workers.
        """
        from sklearn.base import clone

        program, _ = prepare()
        with self.client() as client:
            if not client.nthreads():
                raise ValueError("The Dask cluster must have at least one worker. Got none instead.")
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
        """The given client, or a temporary one for the given scheduler or a local cluster."""
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
    """A cluster on this machine, with one thread per worker and by default one worker per core."""
    import dask.config
    from distributed import LocalCluster

    if dask.config.get("distributed.worker.multiprocessing-method", "spawn") != "fork":
        require_main_guard()
    with dask.config.set(QUIET):
        return LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=None)


# --- on the workers


class Member:
    """State of one worker between steps.

    Parameters
    ----------
    key : str
        Name under which tasks find it.
    host : str
        Address of the worker.
    """

    def __init__(self, key: str, host: str) -> None:
        self._listener = Listener(host)
        self._connections: list[SocketCommunicator] = []
        self._part: Any = None
        self._program: Program | None = None
        self._running: Generator[Any, Any, None] | None = None
        self._step = threading.Lock()
        _MEMBERS[key] = self
        weakref.finalize(self, _close_all, self._listener, self._connections)

    def build(self, sent: tuple[Any, Program], pieces: list[Any], join: Any) -> Address:
        """Create the partition with the estimator that was sent with the program; returns this member's address."""
        estimator, self._program = sent
        self._part = estimator._partition(**join(pieces))
        return self._listener.address

    def connect(self, rank: int, addresses: Sequence[Address], secret: bytes) -> None:
        """Connect to the other members."""
        assert self._program is not None
        comm = self._listener.connect(rank, addresses, secret)
        self._connections.append(comm)
        self._running, self._part = self._program(comm, self._part), None

    def advance(self, message: Any) -> tuple[Any, StepRecord]:
        """Run one step, a collective of all members; returns the yielded value, on rank 0, and this member's record."""
        running, (comm,) = self._running, self._connections
        assert running is not None
        with self._step:
            result, record = recorded(comm, lambda: running.send(message))
        return (None if comm.rank else result), record

    def close(self) -> None:
        """Close all connections, which ends pending collectives on all members."""
        _close_all(self._listener, self._connections)


_MEMBERS: weakref.WeakValueDictionary[str, Member] = weakref.WeakValueDictionary()
"""Members in this process; Dask owns them."""


def _close_all(listener: Listener, connections: Sequence[SocketCommunicator]) -> None:
    listener.close()
    for connection in connections:
        connection.close()


def _run(key: str, step: Callable[..., Any], *args: Any) -> Any:
    """A Dask task: run one step of a member."""
    from distributed import secede

    secede()  # free the thread for other members or trainings on this worker
    try:
        return _step(key, step, *args)
    except BaseException as error:
        args = ()
        _clear_frames(error)
        raise


def _step(key: str, step: Callable[..., Any], *args: Any) -> Any:
    member = _MEMBERS.get(key)
    if member is None:
        raise WorkerLostError("a worker was restarted")
    try:
        return step(member, *args)
    except BaseException:
        member.close()  # ends the step on the other members, too
        raise


def _clear_frames(error: BaseException | None) -> None:
    """Clear the frames of an error's traceback: Dask keeps it, and with it the member and its rows."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__context__


def _close_members(token: str) -> None:
    """Close a training's members on this worker."""
    for key, member in list(_MEMBERS.items()):
        if key.startswith(token):
            member.close()


# --- on the client


class DaskWorkers:
    """See :class:`~sparseleaf.distributed.launch.Workers`: one member per Dask worker.

    Parameters
    ----------
    client : distributed.Client
    estimator : estimator
        Creates the partitions on the workers.
    source : Source
        Source of the rows.
    program : Program
    n_workers : int or None
        Maximum number of workers.

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
        """For every tree, the bytes received and the seconds of computing and waiting per worker."""
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
        result, records = self._advance(None)
        self._records.append(records)
        return result

    def once(self, work: Callable[[], Result]) -> Result:
        """See :class:`~sparseleaf.distributed.launch.Workers`."""
        return work()

    def agree(self, local: bool) -> bool:
        """See :class:`~sparseleaf.distributed.launch.Workers`."""
        return local

    def restart(self) -> None:
        """See :class:`~sparseleaf.distributed.launch.Workers`; partitions are created again from the source."""
        self.close()
        self._client.wait_for_workers(1, timeout=PATIENCE)

    def close(self) -> None:
        """Close and release all members."""
        if self._members:
            self._client.run(_close_members, self._token, on_error="ignore")
            _release(self._members)
        self._members = []

    def _advance(self, message: Any) -> tuple[Any, list[StepRecord]]:
        if not self._members:
            self._start()
        large = payload(message) > LARGE
        if large:
            message = self._broadcast(message)
        try:
            results = self._collect(
                [self._submit(rank, Member.advance, message) for rank in range(len(self._members))]
            )
        finally:
            if large:
                _release([message])
        return results[0][0], [record for _, record in results]

    def _start(self) -> None:
        """Create members on the available workers and connect them."""
        client = self._client
        addresses = list(client.nthreads())[: self._n_workers]
        if not addresses:
            raise WorkerLostError("all workers are gone")
        n = self._source.n_parts(len(addresses))
        self._addresses, self._token = addresses[:n], f"sparseleaf-{uuid.uuid4().hex}"
        require_same_version(client, self._addresses)
        # concurrently; otherwise workers that get their partition later would also import later
        client.run(import_module, "sparseleaf.estimators", workers=self._addresses, on_error="ignore")
        keys = [self._key(rank) for rank in range(n)]
        self._members = [
            client.submit(Member, key, _host(at), actor=True, workers=[at], key=f"{key}-member", pure=False)
            for key, at in zip(keys, self._addresses, strict=True)
        ]
        self._wait(self._members)
        sent = self._broadcast((self._estimator, self._program))
        try:
            pieces = self._send_to_workers(
                lambda: [self._source.pieces(rank, n, at) for rank, at in enumerate(self._addresses)]
            )
            places = self._collect(
                [self._submit(rank, Member.build, sent, pieces[rank], self._source.join) for rank in range(n)]
            )
        finally:
            _release([sent])
            self._source.release()
        secret = secrets.token_bytes(32)
        self._collect([self._submit(rank, Member.connect, rank, places, secret) for rank in range(n)])

    def _key(self, rank: int) -> str:
        return f"{self._token}-{rank}"

    def _submit(self, rank: int, step: Callable[..., Any], *args: Any) -> Any:
        name = f"{self._token}-{uuid.uuid4().hex}"
        where = [self._addresses[rank]]
        return self._client.submit(_run, self._key(rank), step, *args, workers=where, key=name, pure=False)

    def _broadcast(self, value: Any) -> Any:
        """Scatter a value to all workers."""
        return self._send_to_workers(
            lambda: self._client.scatter([value], workers=self._addresses, broadcast=True, hash=False)[0]
        )

    def _send_to_workers(self, send: Callable[[], Result]) -> Result:
        """Run a scatter; :class:`WorkerLostError` if a worker is gone."""
        try:
            return send()
        except (KeyError, OSError) as error:  # a timeout is one
            raise WorkerLostError(f"a worker is gone: {error!r}") from None

    def _collect(self, futures: list[Any]) -> list[Any]:
        """Results of tasks; raises the error of a failed task, or :class:`WorkerLostError`."""
        try:
            self._wait(futures)
            return [self._result(future) for future in futures]
        finally:
            _release(futures)

    def _wait(self, futures: list[Any]) -> None:
        from distributed import wait

        while True:
            try:
                wait(futures, timeout=CHECK_INTERVAL)
            except TimeoutError:
                self._check_workers()
                if not any(future.status == "error" for future in futures):
                    continue
            except _lost_errors() as error:  # an argument of the task was lost with a worker
                raise WorkerLostError(str(error)) from None
            break
        failed = [future for future in futures if future.status == "error"]
        if not failed and all(future.status == "finished" for future in futures):
            return
        if not failed:
            raise WorkerLostError("a task was lost with its worker")
        self._raise(futures)

    def _raise(self, futures: list[Any]) -> None:
        """Raise the cause of a failed step: a member's error takes precedence over lost connections."""
        from distributed import wait

        with suppress(TimeoutError):
            wait(futures, timeout=PATIENCE)  # closed connections end the step on all members
        errors = [future.exception() for future in futures if future.status == "error"]
        lost = _lost_errors()
        for error in errors:
            if not isinstance(error, lost):
                raise error
        raise WorkerLostError(str(errors[0])) from None

    def _result(self, future: Any) -> Any:
        patience = 10 * CHECK_INTERVAL
        while True:
            try:
                return future.result(timeout=patience)
            except TimeoutError:
                self._check_workers()
                patience *= 2
            except _lost_errors() as error:
                raise WorkerLostError(str(error)) from None

    def _check_workers(self) -> None:
        there = self._client.nthreads()
        if any(address not in there for address in self._addresses):
            raise WorkerLostError("a worker is gone")


def _release(futures: Sequence[Any]) -> None:
    """Release futures immediately instead of on garbage collection."""
    for future in futures:
        future.release()


def _host(address: str) -> str:
    """Host of a Dask worker; localhost for an in-process worker."""
    parts = urlsplit(address)
    return "127.0.0.1" if parts.scheme == "inproc" else parts.hostname or "127.0.0.1"


def _lost_errors() -> tuple[type[BaseException], ...]:
    """Errors that Dask raises for lost workers."""
    from concurrent.futures import CancelledError

    import distributed.client
    from distributed.scheduler import KilledWorker

    errors: list[type[BaseException]] = [WorkerLostError, CancelledError, KilledWorker]
    for name in ("FutureCancelledError", "FuturesCancelledError"):
        if hasattr(distributed.client, name):
            errors.append(getattr(distributed.client, name))
    return tuple(errors)
