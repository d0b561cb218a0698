"""Training in the tasks of a Spark barrier stage: one task is one worker.

Every task reads its partition, and all of them exchange addresses and a secret through ``BarrierTaskContext``. Then
they work over sockets of their own, and the first one returns the result. Nothing else passes through the driver.

An error of the work is the result of the job: the driver raises it. Only a lost worker fails the stage. Spark then runs
it again, and training resumes from the checkpoint, if there is one, to the same bytes.
"""

from __future__ import annotations

import json
import pickle
import secrets
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import sparseleaf
from sparseleaf.distributed.communicator import WorkerLostError
from sparseleaf.distributed.sockets import Listener
from sparseleaf.distributed.spark_cluster import check_cluster, run_barrier
from sparseleaf.distributed.spark_progress import ProgressClient, ProgressServer

if TYPE_CHECKING:
    from sparseleaf.distributed.communicator import Communicator

Result = TypeVar("Result")

SCHEMA = "number int, content binary"
"""Rows of the result: its pieces, or an error."""

ERROR = -1
"""Number of an error."""


class Work(Protocol):
    """What the tasks do. Must be picklable."""

    def read(self, batches: Iterator[Any]) -> Any:
        """The rows of a task, from its Arrow batches."""

    def train(self, comm: Communicator, rows: Any, n_jobs: int, progress: list[Any]) -> Any:
        """Train with the other tasks; ``progress`` are callbacks that show progress on the driver."""

    def pieces(self, trained: Any) -> Iterator[bytes]:
        """The result of the first task, in pieces."""


# --- on the driver


def run_on_spark(frame: Any, work: Work, n_workers: int, *, n_trees: int | str, verbose: int) -> list[bytes]:
    """Run a training in one barrier task per partition of a DataFrame; returns the pieces of the result.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
    work : Work
    n_workers : int
        Number of partitions.
    n_trees : int or "auto"
        Total of the progress bar, if known.
    verbose : int
    """
    spark = frame.sparkSession
    check_cluster(spark, n_workers)
    total = n_trees if isinstance(n_trees, int) else None
    with ProgressServer.open(spark, n_workers, total, verbose) as progress:
        task = _make_task(pickle.dumps((sparseleaf.__version__, work, progress)))

        def job() -> list[Any]:
            # Spark runs a failed barrier stage again only if a shuffle follows it
            results: list[Any] = frame.mapInArrow(task, SCHEMA, barrier=True).repartition(1).collect()
            return results

        rows = run_barrier(spark, n_workers, job)
    if not rows:  # Spark runs no tasks for a DataFrame that it knows to be empty
        raise ValueError("The DataFrame must have at least one training row. Got none instead.")
    rows.sort(key=lambda row: int(row["number"]))
    if rows[0]["number"] == ERROR:
        raise pickle.loads(rows[0]["content"])  # of our own tasks
    return [bytes(row["content"]) for row in rows]


def _make_task(payload: bytes) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """The function of the tasks, which Spark pickles by value: executors may lack the package."""

    def task(batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import BarrierTaskContext

        context = BarrierTaskContext.get()
        try:
            from sparseleaf.distributed.spark import run_task
        except ImportError as error:
            import json
            import pickle
            import socket
            from base64 import b64encode

            import pyarrow as pa

            text = f"sparseleaf cannot be imported on the executor {socket.gethostname()} ({error}). Install it there."
            content = pickle.dumps(ImportError(text))
            context.allGather(json.dumps({"error": b64encode(content).decode()}))
            yield pa.RecordBatch.from_pydict({"number": pa.array([-1], pa.int32()), "content": [content]})
            return
        yield from run_task(payload, context, batches)

    return task


# --- in the tasks


def run_task(payload: bytes, context: Any, batches: Iterator[Any]) -> Iterator[Any]:
    """Read the rows of this task and train with the others."""
    task = _Task(payload, context)
    outcome = task.run(batches)
    if isinstance(outcome, _Failure):
        yield _batch(ERROR, outcome.pickled)
    elif context.partitionId() == 0:
        for number, piece in enumerate(task.work.pieces(outcome)):
            yield _batch(number, piece)


@dataclass(frozen=True)
class _Failure:
    """An error of a task, for all of them."""

    pickled: bytes

    @classmethod
    def of(cls, error: BaseException, rank: int, size: int) -> _Failure:
        error.add_note(f"(in worker {rank} of {size})")
        try:
            content = pickle.dumps(error)
            pickle.loads(content)
        except Exception:  # an error class that cannot be pickled
            content = pickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"))
        return cls(content)

    @property
    def message(self) -> dict[str, Any]:
        return {"error": b64encode(self.pickled).decode()}


class _Task:
    def __init__(self, payload: bytes, context: Any) -> None:
        self._version, self.work, self._progress = pickle.loads(payload)
        self._context = context
        self._rank = int(context.partitionId())
        self._infos = context.getTaskInfos()

    def run(self, batches: Iterator[Any]) -> Any:
        """Train; a failure of one task is that of all. Every task takes part in both exchanges, or Spark waits."""
        started = self._attempt(lambda: self._start(batches))
        for _ in batches:  # of a task that failed to read them
            pass
        messages = self._exchange(started)
        if isinstance(started, _Failure):
            return messages
        if isinstance(messages, _Failure):
            started.close()
            return messages
        trained = self._attempt(lambda: self._train(started, messages))
        outcome = self._exchange(trained)
        started.close()
        if isinstance(outcome, _Failure):
            return outcome
        if any(message["lost"] for message in outcome):
            raise WorkerLostError("a worker was lost; Spark runs the stage again")
        return trained.value  # type: ignore[union-attr]

    def _start(self, batches: Iterator[Any]) -> _Started:
        if self._version != sparseleaf.__version__:
            raise ValueError(
                f"The executor {self._host} has sparseleaf {sparseleaf.__version__}, the driver has {self._version};"
                " install the same version on the driver and all executors."
            )
        return _Started(self.work.read(batches), Listener(self._host))

    def _train(self, started: _Started, messages: list[dict[str, Any]]) -> _Trained:
        """Connect and train."""
        addresses = [tuple(message["address"]) for message in messages]
        try:
            secret = bytes.fromhex(messages[0]["secret"])
            started.comm = comm = started.listener.connect(self._rank, addresses, secret)
            with ProgressClient.open(self._progress if self._rank == 0 else None) as progress:
                rows, started.rows = started.rows, None  # for the training alone to keep
                return _Trained(self.work.train(comm, rows, int(self._context.cpus()), progress), lost=False)
        except WorkerLostError:
            started.close()
            return _Trained(None, lost=True)
        except BaseException:
            started.close()  # the others wait for this worker
            raise

    def _attempt(self, work: Callable[[], Result]) -> Result | _Failure:
        try:
            return work()
        except Exception as error:
            return _Failure.of(error, self._rank, len(self._infos))

    def _exchange(self, outcome: _Failure | _Started | _Trained) -> Any:
        """The messages of all tasks; the first failure, if there is one."""
        messages = [json.loads(one) for one in self._context.allGather(json.dumps(outcome.message))]
        for message in messages:
            if "error" in message:
                return _Failure(b64decode(message["error"]))
        return messages

    @property
    def _host(self) -> str:
        """Address of this executor, without its port."""
        return str(self._infos[self._rank].address).rpartition(":")[0].strip("[]")


class _Started:
    """A task that has read its rows and listens for the others."""

    def __init__(self, rows: Any, listener: Listener) -> None:
        self.rows = rows
        self.listener = listener
        self.comm: Communicator | None = None

    @property
    def message(self) -> dict[str, Any]:
        """Address of this task, and a secret; that of the first task is used."""
        return {"address": self.listener.address, "secret": secrets.token_hex(32)}

    def close(self) -> None:
        """Close all connections."""
        self.listener.close()
        if self.comm is not None:
            self.comm.close()


@dataclass(frozen=True)
class _Trained:
    """The result of a task, unless a worker was lost."""

    value: Any
    lost: bool

    @property
    def message(self) -> dict[str, Any]:
        return {"lost": self.lost}


def _batch(number: int, content: bytes) -> Any:
    import pyarrow as pa

    return pa.RecordBatch.from_pydict(
        {"number": pa.array([number], pa.int32()), "content": pa.array([content], pa.binary())}
    )
