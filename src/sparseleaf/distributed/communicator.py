"""Communicator: the collectives by which the workers of a training synchronise (SPMD).

Every worker runs the same training function on its partition and calls the same collectives in the same order. With one
worker every collective returns its input, so training code needs no special case. Sums are over integers, so their
order cannot change a result.
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
    """A worker was lost, and its partition with it."""


@dataclass
class Traffic:
    """Traffic statistics of a communicator.

    Attributes
    ----------
    sent, received : int
        Payload bytes sent and received by this worker.
    waiting : float
        Seconds spent in collectives, including waiting for other workers.
    """

    sent: int = 0
    received: int = 0
    waiting: float = 0.0

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Measure the time of a collective."""
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
        Index of this worker.
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
        """Element-wise sum of flat arrays; worker r receives the r-th block, of ``counts[r]`` elements.

        ``values`` may be overwritten, and the result may be a view of it.
        """

    def allgather(self, value: Value) -> list[Value]:
        """The values of all workers, by rank."""

    def alltoall(self, values: Sequence[Value]) -> list[Value]:
        """Send ``values[r]`` to worker r; returns the values sent to this worker, by rank."""

    def broadcast(self, value: Value, root: int = 0) -> Value:
        """The root's value."""

    def close(self) -> None:
        """Close the connections; workers that wait for this one get a :class:`WorkerLostError`."""


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
    """Split a flat array into blocks of the given sizes."""
    if sum(counts) != values.size:
        raise ValueError(
            f"counts must sum to the number of values, {values.size}. Got {sum(counts)} instead."
        )
    return np.split(values.reshape(-1), np.cumsum(counts)[:-1])


def payload(value: Any) -> int:
    """Bytes of the arrays in a value; 8 for anything else."""
    if isinstance(value, np.ndarray | np.generic):
        return int(value.nbytes)
    if sp.issparse(value):
        return sum(payload(getattr(value, name)) for name in ("data", "indices", "indptr"))
    if isinstance(value, tuple | list):
        return sum(map(payload, value))
    if is_dataclass(value) and not isinstance(value, type):
        return sum(payload(getattr(value, one.name)) for one in fields(value))
    return 8
