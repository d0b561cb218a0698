"""Training in the ranks of an MPI job, each of which calls ``fit`` with rows of its own.

Numbers travel as buffers, which MPI reduces on the way, anything else as pickles. An error that only one rank meets
ends the job: the others would wait for ever.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from sparseleaf.distributed.agreement import describe_training, refuse_differences
from sparseleaf.distributed.communicator import Reduction, Traffic, blocks, payload
from sparseleaf.distributed.failures import gather_results, run_once
from sparseleaf.distributed.launch import LocalWorkers
from sparseleaf.distributed.profile import StepRecord, join_records, recorded

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.distributed.launch import Prepare

Result = TypeVar("Result")
Value = TypeVar("Value")

PATIENCE = 2.0
"""Seconds after which a rank that failed takes it that others have not."""


class MPILauncher:
    """Trains in the ranks of an mpi4py communicator, all of them if none is given.

    Attributes
    ----------
    comm : MPICommunicator
    profile : list of dict
        For every tree of the last training, what its ranks received and how long they worked and waited.
    """

    def __init__(self, communicator: Any = None) -> None:
        self.comm = MPICommunicator(communicator)
        self.profile: list[dict[str, Any]] = []

    @contextmanager
    def open(self, estimator: Any, rows: dict[str, Any], prepare: Prepare) -> Iterator[MPIWorkers]:
        """See :class:`~sparseleaf.distributed.launch.Launcher`; ``rows`` are those of this rank."""
        with self.comm.all_or_none():
            workers = MPIWorkers(self.comm, self._start(estimator, rows, prepare))
            try:
                yield workers
            finally:
                workers.close()
            self.profile = join_records(self.comm.allgather(workers.records))

    def _start(self, estimator: Any, rows: dict[str, Any], prepare: Prepare) -> Generator[Any, Any, None]:
        """The program on the rows of this rank, once all ranks agree on all else."""

        def describe() -> dict[str, Any]:
            program, arguments = prepare()
            part = estimator._partition(**rows)
            started.append(program(self.comm, part))
            given = {name: value is not None for name, value in rows.items()}
            return describe_training(estimator, arguments | {"arguments": given}, part.form())

        started: list[Generator[Any, Any, None]] = []
        refuse_differences(gather_results(self.comm, describe))
        return started[0]


class MPIWorkers(LocalWorkers):
    """See :class:`~sparseleaf.distributed.launch.Workers`: one in every rank; a lost rank ends the job."""

    def __init__(self, comm: MPICommunicator, program: Generator[Any, Any, None]) -> None:
        super().__init__(program)
        self._comm = comm
        self.leads = comm.rank == 0
        self.records: list[StepRecord] = []

    def step(self) -> Any:
        """See :class:`~sparseleaf.distributed.launch.Workers`."""
        answer, record = recorded(self._comm, super().step)
        self.records.append(record)
        return answer

    def once(self, work: Callable[[], Result]) -> Result:
        """See :class:`~sparseleaf.distributed.launch.Workers`."""
        return run_once(self._comm, work)

    def agree(self, local: bool) -> bool:
        """See :class:`~sparseleaf.distributed.launch.Workers`."""
        return any(self._comm.allgather(local))


class MPICommunicator:
    """See :class:`~sparseleaf.distributed.communicator.Communicator`: the ranks of an mpi4py communicator.

    Parameters
    ----------
    communicator : mpi4py.MPI.Comm, optional
        All ranks of the job if not given.
    """

    def __init__(self, communicator: Any = None) -> None:
        try:
            from mpi4py import MPI
            from mpi4py.util import pkl5
        except ImportError:
            raise ImportError(
                "engine='mpi' wants mpi4py and an MPI library: pip install sparseleaf[mpi], or mpi4py for"
                " the system's."
            ) from None
        self._comm = MPI.COMM_WORLD if communicator is None else communicator
        self._objects = pkl5.Intracomm(self._comm)  # pickles of any size, arrays without a copy
        self._ops = {"sum": MPI.SUM, "max": MPI.MAX}
        self.rank: int = self._comm.Get_rank()
        self.size: int = self._comm.Get_size()
        self.traffic = Traffic()

    def allreduce(self, values: Array, op: Reduction = "sum") -> Array:
        """See :class:`~sparseleaf.distributed.communicator.Communicator`."""
        values = np.ascontiguousarray(values)
        total = np.empty_like(values)
        share = 2 * values.nbytes * (self.size - 1) // self.size
        with self.traffic.timed():
            self._comm.Allreduce(values, total, self._ops[op])
        self._count(share, share)
        return total

    def reduce_scatter(self, values: Array, counts: Sequence[int]) -> Array:
        """See :class:`~sparseleaf.distributed.communicator.Communicator`."""
        blocks(values, counts)
        total = np.empty(counts[self.rank], values.dtype)
        with self.traffic.timed():
            self._comm.Reduce_scatter(
                np.ascontiguousarray(values).reshape(-1), total, list(counts), self._ops["sum"]
            )
        self._count(values.nbytes - total.nbytes, total.nbytes * (self.size - 1))
        return total

    def allgather(self, value: Value) -> list[Value]:
        """See :class:`~sparseleaf.distributed.communicator.Communicator`."""
        with self.traffic.timed():
            found: list[Value] = self._objects.allgather(value)
        sizes = [payload(one) for one in found]
        self._count(sizes[self.rank] * (self.size - 1), sum(sizes) - sizes[self.rank])
        return found

    def alltoall(self, values: Sequence[Value]) -> list[Value]:
        """See :class:`~sparseleaf.distributed.communicator.Communicator`."""
        with self.traffic.timed():
            found: list[Value] = self._objects.alltoall(list(values))
        own = payload(values[self.rank])
        self._count(payload(list(values)) - own, payload(found) - own)
        return found

    def broadcast(self, value: Value, root: int = 0) -> Value:
        """See :class:`~sparseleaf.distributed.communicator.Communicator`."""
        with self.traffic.timed():
            found: Value = self._objects.bcast(value, root=root)
        size = payload(found)
        self._count(size * (self.rank == root), size * (self.rank != root))
        return found

    def close(self) -> None:
        """See :class:`~sparseleaf.distributed.communicator.Communicator`; the communicator is its owner's."""

    def _count(self, sent: int, received: int) -> None:
        self.traffic.sent += sent
        self.traffic.received += received

    @contextmanager
    def all_or_none(self) -> Iterator[None]:
        """End the whole job, with a message, if this rank fails and others do not."""
        failures = self._comm.Dup()
        try:
            yield
        except BaseException as error:
            if not _all_failed(failures):
                print(
                    f"sparseleaf: rank {self.rank} of {self.size} failed, which ends the job:"
                    f" {type(error).__name__}: {error}",
                    file=sys.stderr,
                    flush=True,
                )
                self._comm.Abort(1)
            raise
        finally:
            failures.Free()


def _all_failed(failures: Any) -> bool:
    """Whether all ranks come here within a short time: then each can go on with the error as it likes."""
    everyone = failures.Ibarrier()
    began = time.perf_counter()
    while not everyone.Test():
        if time.perf_counter() - began > PATIENCE:
            return False
        time.sleep(0.01)
    return True
