"""Training on the ranks of an MPI job, each of which calls ``fit`` with its part of the rows.

Arrays are sent as buffers and reduced by MPI, all other values are pickled. An error on a single rank aborts the job,
since the other ranks would wait forever.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from sparseleaf.distributed.communicator import Reduction, Traffic, blocks, payload
from sparseleaf.distributed.ranks import RanksLauncher, RankWorkers

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.distributed.launch import Prepare

Value = TypeVar("Value")

PATIENCE = 2.0
"""Seconds after which a failed rank assumes that the others have not failed."""


class MPILauncher(RanksLauncher):
    """Engine that trains on the ranks of an MPI communicator.

    Parameters
    ----------
    communicator : mpi4py.MPI.Comm, optional
        Communicator of the ranks, ``MPI.COMM_WORLD`` by default.

    Attributes
    ----------
    comm : MPICommunicator
        Collectives over the communicator.
    profile : list of dict
        Bytes received and seconds of computing and waiting per tree and rank, of the last training.

    Examples
    --------
    Run in every rank, for example with ``mpiexec -n 8 python train.py``:

    >>> from sparseleaf import SparseGBDTClassifier
    >>> from sparseleaf.data import make_xc
    >>> from sparseleaf.distributed.mpi import MPILauncher
    >>> X, Y = make_xc(100, 20, 10, labels_per_row=2, nnz_per_row=5)  # the rows of this rank
    >>> engine = MPILauncher()  # doctest: +SKIP
    >>> clf = SparseGBDTClassifier(n_trees=5).fit(X, Y, engine=engine)  # doctest: +SKIP
    >>> len(engine.profile)  # doctest: +SKIP
    5
    """

    comm: MPICommunicator

    def __init__(self, communicator: Any = None) -> None:
        super().__init__(MPICommunicator(communicator))

    @contextmanager
    def open(self, estimator: Any, rows: dict[str, Any], prepare: Prepare) -> Iterator[RankWorkers]:
        """See :class:`~sparseleaf.distributed.launch.Launcher`; ``rows`` are those of this rank."""
        with self.comm.all_or_none(), super().open(estimator, rows, prepare) as workers:
            yield workers


class MPICommunicator:
    """See :class:`~sparseleaf.distributed.communicator.Communicator`: the ranks of an mpi4py communicator.

    Parameters
    ----------
    communicator : mpi4py.MPI.Comm, optional
        ``COMM_WORLD`` by default.
    """

    def __init__(self, communicator: Any = None) -> None:
        try:
            from mpi4py import MPI
            from mpi4py.util import pkl5
        except ImportError:
            raise ImportError(
                "engine='mpi' requires mpi4py and an MPI library: pip install sparseleaf[mpi], or mpi4py for the"
                " system's MPI."
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
            values: list[Value] = self._objects.allgather(value)
        sizes = [payload(one) for one in values]
        self._count(sizes[self.rank] * (self.size - 1), sum(sizes) - sizes[self.rank])
        return values

    def alltoall(self, values: Sequence[Value]) -> list[Value]:
        """See :class:`~sparseleaf.distributed.communicator.Communicator`."""
        with self.traffic.timed():
            received: list[Value] = self._objects.alltoall(list(values))
        local = payload(values[self.rank])
        self._count(payload(list(values)) - local, payload(received) - local)
        return received

    def broadcast(self, value: Value, root: int = 0) -> Value:
        """See :class:`~sparseleaf.distributed.communicator.Communicator`."""
        with self.traffic.timed():
            received: Value = self._objects.bcast(value, root=root)
        size = payload(received)
        self._count(size * (self.rank == root), size * (self.rank != root))
        return received

    def close(self) -> None:
        """See :class:`~sparseleaf.distributed.communicator.Communicator`; the caller owns the mpi4py communicator."""

    def _count(self, sent: int, received: int) -> None:
        self.traffic.sent += sent
        self.traffic.received += received

    @contextmanager
    def all_or_none(self) -> Iterator[None]:
        """Abort the job with a message if this rank fails and others do not."""
        failures = self._comm.Dup()
        try:
            yield
        except BaseException as error:
            if not _all_failed(failures):
                print(
                    f"sparseleaf: rank {self.rank} of {self.size} failed, aborting the job:"
                    f" {type(error).__name__}: {error}",
                    file=sys.stderr,
                    flush=True,
                )
                self._comm.Abort(1)
            raise
        finally:
            failures.Free()


def _all_failed(failures: Any) -> bool:
    """Whether all ranks fail within ``PATIENCE``, so that each can handle its error itself."""
    everyone = failures.Ibarrier()
    began = time.perf_counter()
    while not everyone.Test():
        if time.perf_counter() - began > PATIENCE:
            return False
        time.sleep(0.01)
    return True
