"""Launchers: distribute partitions to workers and run the training function on each.

The training function is a generator. It yields results to the process that called ``fit``, which handles checkpoints,
validation sets and callbacks (see :mod:`sparseleaf.training.trainer`), and resumes with the message it is sent. All
workers yield the same values and are sent the same messages.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol, TypeVar

from sparseleaf.distributed.communicator import Communicator, LocalCommunicator

Result = TypeVar("Result")

LAYOUTS = ("rows", "features")

Program = Callable[[Communicator, Any], Generator[Any, Any, None]]
"""The training function: called on every worker with the communicator and its partition. Must be picklable."""

Prepare = Callable[[], tuple[Program, dict[str, Any]]]
"""Validates the arguments of ``fit``; returns the program and, by name, the arguments that must be equal on all
processes of a training."""


class Workers(Protocol):
    """Handle on the workers of a training.

    Attributes
    ----------
    leads : bool
        Whether this process reads and writes files and prints.
    """

    leads: bool

    def send(self, message: Any) -> Any:
        """Resume all workers with a message; returns what they yield next. The first message is None."""

    def step(self) -> Any:
        """``send(None)`` for the next tree, recorded in the profile."""

    def restart(self) -> None:
        """Restart on the remaining workers after a :class:`~sparseleaf.distributed.communicator.WorkerLostError`."""

    def once(self, work: Callable[[], Result]) -> Result:
        """Run ``work`` on one of the processes that called ``fit``; all of them get the result."""

    def agree(self, local: bool) -> bool:
        """Whether ``local`` is true on any of the processes that called ``fit``."""


class Launcher(Protocol):
    """Starts the workers of a training.

    A launcher with a true attribute ``partitioned`` is used in several processes, each of which calls ``fit`` with its
    own rows.
    """

    def open(self, estimator: Any, rows: dict[str, Any], prepare: Prepare) -> AbstractContextManager[Workers]:
        """A context with running workers, whose partitions are made by ``estimator._partition(**rows)``.

        ``prepare`` is called first; if several processes call ``fit``, its results must agree.
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
        """See :class:`Workers`; never called with a single process."""
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
    """The launcher for the ``engine`` argument: a name, communicator, client or launcher."""
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
    """Validate the ``layout`` argument."""
    if layout not in LAYOUTS:
        raise ValueError(
            f"The 'layout' parameter must be one of {{'rows', 'features'}}. Got {layout!r:.60} instead."
        )
