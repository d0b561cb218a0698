"""What workers received and how long they worked and waited, tree by tree."""

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
    """One worker's share of one step.

    Attributes
    ----------
    received : int
        Bytes that came from other workers.
    working : float
        Seconds of computing.
    waiting : float
        Seconds in collectives, those of waiting for other workers among them.
    """

    received: int
    working: float
    waiting: float


def recorded(comm: Communicator, step: Callable[[], Result]) -> tuple[Result, StepRecord]:
    """What a step returns, and its record."""
    received, waiting, began = comm.traffic.received, comm.traffic.waiting, time.perf_counter()
    result = step()
    waited = comm.traffic.waiting - waiting
    return result, StepRecord(comm.traffic.received - received, time.perf_counter() - began - waited, waited)


def join_records(workers: Sequence[Sequence[StepRecord]]) -> list[dict[str, Any]]:
    """By step: the records of all workers."""
    return [
        {"tree": number, "workers": [asdict(record) for record in records]}
        for number, records in enumerate(zip(*workers, strict=False))
    ]
