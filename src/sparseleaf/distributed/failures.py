"""Steps that may fail on one worker only: the error is raised on all workers, so that none waits forever."""

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
    """Run ``work`` on every worker; returns all results, by rank."""
    return _raise_any(comm, comm.allgather(_attempt(comm, work)))


def run_together(comm: Communicator, work: Callable[[], Result]) -> Result:
    """Run ``work`` on every worker; returns this worker's result once all have succeeded."""
    outcome = _attempt(comm, work)
    _raise_any(comm, comm.allgather(outcome if isinstance(outcome, _Failure) else None))
    result: Result = outcome
    return result


def run_once(comm: Communicator, work: Callable[[], Result]) -> Result:
    """Run ``work`` on the first worker and broadcast the result."""
    outcome: Any = comm.broadcast(_attempt(comm, work) if comm.rank == 0 else None)
    result: Result = _raise_any(comm, [outcome])[0]
    return result


def _attempt(comm: Communicator, work: Callable[[], Result]) -> Any:
    try:
        return work()
    except Exception as error:
        if comm.size == 1:
            raise
        return _Failure(comm.rank, error)


def _raise_any(comm: Communicator, results: Sequence[Any]) -> list[Any]:
    for result in results:
        if isinstance(result, _Failure):
            result.error.add_note(f"(in rank {result.rank} of {comm.size})")
            raise result.error
    return list(results)
