"""Training on connected workers, each of which calls ``fit`` with its part of the rows.

The launcher for engines that only place processes and connect them, such as MPI and Spark: every worker runs the whole
of ``fit``, and rank 0 reads and writes files.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from sparseleaf.distributed.agreement import describe_training, refuse_differences
from sparseleaf.distributed.failures import gather_results, run_once
from sparseleaf.distributed.launch import LocalWorkers
from sparseleaf.distributed.profile import StepRecord, join_records, recorded

if TYPE_CHECKING:
    from sparseleaf.distributed.communicator import Communicator
    from sparseleaf.distributed.launch import Prepare

Result = TypeVar("Result")


class RanksLauncher:
    """Launcher for the ranks of a communicator.

    Parameters
    ----------
    comm : Communicator

    Attributes
    ----------
    profile : list of dict
        Bytes received and seconds of computing and waiting per tree and rank, of the last training.
    """

    partitioned = True

    def __init__(self, comm: Communicator) -> None:
        self.comm = comm
        self.profile: list[dict[str, Any]] = []

    @contextmanager
    def open(self, estimator: Any, rows: dict[str, Any], prepare: Prepare) -> Iterator[RankWorkers]:
        """See :class:`~sparseleaf.distributed.launch.Launcher`; ``rows`` are those of this rank."""
        workers = RankWorkers(self.comm, self._start(estimator, rows, prepare))
        try:
            yield workers
        finally:
            workers.close()
        self.profile = join_records(self.comm.allgather(workers.records))

    def _start(self, estimator: Any, rows: dict[str, Any], prepare: Prepare) -> Generator[Any, Any, None]:
        """Start the program on the rows of this rank after checking that all ranks agree."""

        def describe() -> dict[str, Any]:
            program, arguments = prepare()
            part = estimator._partition(**rows)
            started.append(program(self.comm, part))
            present = {name: value is not None for name, value in rows.items()}
            return describe_training(estimator, arguments | {"arguments": present}, part.form())

        started: list[Generator[Any, Any, None]] = []
        refuse_differences(gather_results(self.comm, describe))
        return started[0]


class RankWorkers(LocalWorkers):
    """See :class:`~sparseleaf.distributed.launch.Workers`: one per rank; a lost rank ends the training."""

    def __init__(self, comm: Communicator, program: Generator[Any, Any, None]) -> None:
        super().__init__(program)
        self._comm = comm
        self.leads = comm.rank == 0
        self.records: list[StepRecord] = []

    def step(self) -> Any:
        """See :class:`~sparseleaf.distributed.launch.Workers`."""
        result, record = recorded(self._comm, super().step)
        self.records.append(record)
        return result

    def once(self, work: Callable[[], Result]) -> Result:
        """See :class:`~sparseleaf.distributed.launch.Workers`."""
        return run_once(self._comm, work)

    def agree(self, local: bool) -> bool:
        """See :class:`~sparseleaf.distributed.launch.Workers`."""
        return any(self._comm.allgather(local))
