"""Launchers: partitions of the rows come to workers, each of which runs the same training function on its own.

The training function is a generator. It pauses where the process that called ``fit`` has a say (checkpoints, validation
sets, callbacks: see :mod:`sparseleaf.training.trainer`), yields what that process has to know, and goes on with what it
is sent. All workers yield the same and are sent the same.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol, TypeVar

from sparseleaf.distributed.communicator import Communicator, LocalCommunicator

Result = TypeVar("Result")

LAYOUTS = ("rows", "features")

Program = Callable[[Communicator, Any], Generator[Any, Any, None]]
"""The training function: called on every worker with the communicator and the worker's partition. Can be pickled."""

Prepare = Callable[[], tuple[Program, dict[str, Any]]]
"""Checks the arguments of ``fit``; returns the program and, by name, what all processes of a training must have in
common."""


class Workers(Protocol):
    """The workers of a training, each of which runs the program on its partition.

    Attributes
    ----------
    leads : bool
        Whether this process is the one that reads and writes files and prints.
    """

    leads: bool

    def send(self, message: Any) -> Any:
        """Let every worker go on with the message; what they yield next. The first message is None."""

    def step(self) -> Any:
        """As ``send(None)``, for the next tree: what it takes is recorded where there is a profile."""

    def restart(self) -> None:
        """After a :class:`~sparseleaf.distributed.communicator.WorkerLostError`: begin again on the workers left."""

    def once(self, work: Callable[[], Result]) -> Result:
        """Done by one of the processes that called ``fit``; all of them get the result."""

    def agree(self, local: bool) -> bool:
        """Whether it is so in any of the processes that called ``fit``."""


class Launcher(Protocol):
    """Brings rows to workers and runs a program there."""

    def open(self, estimator: Any, rows: dict[str, Any], prepare: Prepare) -> AbstractContextManager[Workers]:
        """A context in which the workers are at work; a partition is made by ``estimator._partition(**rows)``.

        ``prepare`` is called before any work, and where several processes call ``fit`` they compare what it returns.
        """


class LocalLauncher:
    """One worker: this process."""

    @contextmanager
    def open(self, estimator: Any, rows: dict[str, Any], prepare: Prepare) -> Iterator[LocalWorkers]:
        """See :class:`Launcher`."""
        program, _ = prepare()
        workers = LocalWorkers(program(LocalCommunicator(), estimator._partition(**rows)))
        try:
            yield workers
        finally:
            workers.close()


class LocalWorkers:
    """See :class:`Workers`: the program, in this process."""

    leads = True

    def __init__(self, program: Generator[Any, Any, None]) -> None:
        self._program = program

    def send(self, message: Any) -> Any:
        """See :class:`Workers`."""
        return self._program.send(message)

    def step(self) -> Any:
        """See :class:`Workers`."""
        return self.send(None)

    def restart(self) -> None:
        """See :class:`Workers`; a process does not lose itself."""
        raise NotImplementedError

    def once(self, work: Callable[[], Result]) -> Result:
        """See :class:`Workers`."""
        return work()

    def agree(self, local: bool) -> bool:
        """See :class:`Workers`."""
        return local

    def close(self) -> None:
        """End the program."""
        self._program.close()


def make_launcher(engine: Any) -> Launcher:
    """The launcher of that name, or around that communicator or client."""
    if engine == "local":
        return LocalLauncher()
    if engine == "mpi" or hasattr(engine, "Get_rank"):
        from sparseleaf.distributed.mpi import MPILauncher

        return MPILauncher(None if engine == "mpi" else engine)
    if engine == "dask" or hasattr(engine, "scheduler_info"):
        from sparseleaf.distributed.dask import DaskLauncher

        return DaskLauncher(None if engine == "dask" else engine)
    if hasattr(engine, "open"):
        launcher: Launcher = engine
        return launcher
    raise ValueError(
        "The 'engine' parameter must be 'local', 'mpi', 'dask', an mpi4py communicator or a Dask client. Got"
        f" {engine!r:.60} instead."
    )


def check_layout(layout: str) -> None:
    """Refuse other layouts than there are."""
    if layout not in LAYOUTS:
        raise ValueError(
            f"The 'layout' parameter must be one of {{'rows', 'features'}}. Got {layout!r:.60} instead."
        )
