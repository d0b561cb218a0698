"""Traffic and time of every worker, tree by tree."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from sparseleaf.distributed.communicator import Communicator

Result = TypeVar("Result")


@dataclass(frozen=True)
class StepRecord:
    """Traffic and time of one worker in one step.

    Attributes
    ----------
    received : int
        Bytes received from other workers.
    working : float
        Seconds of computing.
    waiting : float
        Seconds spent in collectives, including waiting for other workers.
    """

    received: int
    working: float
    waiting: float


def recorded(comm: Communicator, step: Callable[[], Result]) -> tuple[Result, StepRecord]:
    """Run a step; returns its result and its record."""
    received, waiting, began = comm.traffic.received, comm.traffic.waiting, time.perf_counter()
    result = step()
    waited = comm.traffic.waiting - waiting
    return result, StepRecord(comm.traffic.received - received, time.perf_counter() - began - waited, waited)


def join_records(workers: Sequence[Sequence[StepRecord]]) -> list[dict[str, Any]]:
    """Records of all workers, by step."""
    return [
        {"tree": number, "workers": [asdict(record) for record in records]}
        for number, records in enumerate(zip(*workers, strict=False))
    ]
