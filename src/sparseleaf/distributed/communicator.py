"""Communicator: how the workers of one training exchange arrays.

Every worker runs the same training function on its own partition and calls the same collectives in the same order.
With one worker each collective returns its input, so that training code has no special case for it. Sums are over
integers: their order cannot change a result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar

if TYPE_CHECKING:
    from sparseleaf._arrays import Array

Value = TypeVar("Value")

Reduction = Literal["sum", "max"]


class Communicator(Protocol):
    """The workers of one training.

    Attributes
    ----------
    rank : int
        Which of the workers this is.
    size : int
        Number of workers.
    """

    rank: int
    size: int

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


class LocalCommunicator:
    """One worker: every collective returns its input."""

    rank = 0
    size = 1

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
