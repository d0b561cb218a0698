"""Communicator: how the workers of one training exchange arrays.

Every worker runs the same training function on its own partition and calls the same collectives in the same order.
With one worker each collective returns its input, so that training code has no special case for it. Sums are over
integers: their order cannot change a result.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

import numpy as np
import scipy.sparse as sp

if TYPE_CHECKING:
    from sparseleaf._arrays import Array

Value = TypeVar("Value")

Reduction = Literal["sum", "max"]

UFUNCS = {"sum": np.add, "max": np.maximum}


class WorkerLostError(Exception):
    """A worker does not answer any more, and its partition is gone with it."""


@dataclass
class Traffic:
    """What went through a communicator.

    Attributes
    ----------
    sent, received : int
        Payload bytes of this worker.
    waiting : float
        Seconds in collectives, those of waiting for other workers among them.
    """

    sent: int = 0
    received: int = 0
    waiting: float = 0.0

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Count the seconds of a collective."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.waiting += time.perf_counter() - began


class Communicator(Protocol):
    """The workers of one training.

    Attributes
    ----------
    rank : int
        Which of the workers this is.
    size : int
        Number of workers.
    traffic : Traffic
    """

    rank: int
    size: int
    traffic: Traffic

    def allreduce(self, values: Array, op: Reduction = "sum") -> Array:
        """Element-wise reduction of equally shaped arrays, on every worker."""

    def reduce_scatter(self, values: Array, counts: Sequence[int]) -> Array:
        """Element-wise sum of flat arrays, of which worker r gets the r-th block of ``counts[r]`` elements."""

    def allgather(self, value: Value) -> list[Value]:
        """Every worker's value, by rank."""

    def alltoall(self, values: Sequence[Value]) -> list[Value]:
        """Value r goes to worker r; returns what every worker sent to this one, by rank."""

    def broadcast(self, value: Value, root: int = 0) -> Value:
        """The root's value."""

    def close(self) -> None:
        """Leave: other workers that wait for this one learn that it is gone."""


class LocalCommunicator:
    """One worker: every collective returns its input."""

    rank = 0
    size = 1

    def __init__(self) -> None:
        self.traffic = Traffic()

    def allreduce(self, values: Array, op: Reduction = "sum") -> Array:
        """See :class:`Communicator`."""
        return values

    def reduce_scatter(self, values: Array, counts: Sequence[int]) -> Array:
        """See :class:`Communicator`."""
        return values

    def allgather(self, value: Value) -> list[Value]:
        """See :class:`Communicator`."""
        return [value]

    def alltoall(self, values: Sequence[Value]) -> list[Value]:
        """See :class:`Communicator`."""
        return list(values)

    def broadcast(self, value: Value, root: int = 0) -> Value:
        """See :class:`Communicator`."""
        return value

    def close(self) -> None:
        """See :class:`Communicator`."""


def blocks(values: Array, counts: Sequence[int]) -> list[Array]:
    """A flat array in blocks of so many elements."""
    if sum(counts) != values.size:
        raise ValueError(
            f"counts must sum to the number of values, {values.size}. Got {sum(counts)} instead."
        )
    return np.split(values.reshape(-1), np.cumsum(counts)[:-1])


def payload(value: Any) -> int:
    """Bytes of the arrays in a value, and 8 for anything else."""
    if isinstance(value, np.ndarray | np.generic):
        return int(value.nbytes)
    if sp.issparse(value):
        return sum(payload(getattr(value, name)) for name in ("data", "indices", "indptr"))
    if isinstance(value, tuple | list):
        return sum(map(payload, value))
    if is_dataclass(value) and not isinstance(value, type):
        return sum(payload(getattr(value, one.name)) for one in fields(value))
    return 8
