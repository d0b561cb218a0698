"""Work that may fail on one worker only: its error is raised on all of them, so that none waits for the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from sparseleaf.distributed.communicator import Communicator

Result = TypeVar("Result")


@dataclass(frozen=True)
class _Failure:
    rank: int
    error: Exception


def gather_results(comm: Communicator, work: Callable[[], Result]) -> list[Result]:
    """What ``work`` returns on every worker, by rank."""
    return _raise_any(comm, comm.allgather(_attempt(comm, work)))


def run_together(comm: Communicator, work: Callable[[], Result]) -> Result:
    """What ``work`` returns on this worker, once all have done theirs."""
    found = _attempt(comm, work)
    _raise_any(comm, comm.allgather(found if isinstance(found, _Failure) else None))
    result: Result = found
    return result


def run_once(comm: Communicator, work: Callable[[], Result]) -> Result:
    """What ``work`` returns on the first worker, which alone does it."""
    found: Any = comm.broadcast(_attempt(comm, work) if comm.rank == 0 else None)
    result: Result = _raise_any(comm, [found])[0]
    return result


def _attempt(comm: Communicator, work: Callable[[], Result]) -> Any:
    try:
        return work()
    except Exception as error:
        if comm.size == 1:
            raise
        return _Failure(comm.rank, error)


def _raise_any(comm: Communicator, results: Sequence[Any]) -> list[Any]:
    for found in results:
        if isinstance(found, _Failure):
            found.error.add_note(f"(in rank {found.rank} of {comm.size})")
            raise found.error
    return list(results)
