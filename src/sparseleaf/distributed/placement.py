"""Placement: which workers rows and features are divided among."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sparseleaf.distributed.communicator import LocalCommunicator

if TYPE_CHECKING:
    from sparseleaf.distributed.communicator import Communicator


@dataclass(frozen=True)
class Placement:
    """Where the rows and features of a training are.

    Attributes
    ----------
    workers : Communicator
        All workers.
    rows : Communicator
        Those whose rows together are all rows: sums over rows are reductions over them. All workers in the row layout,
        this one alone in the feature layout, where each has all rows.
    """

    workers: Communicator
    rows: Communicator

    @classmethod
    def by_rows(cls, workers: Communicator) -> Placement:
        """Every worker has all features of some rows."""
        return cls(workers, workers)

    @classmethod
    def by_features(cls, workers: Communicator) -> Placement:
        """Every worker has some features of all rows."""
        return cls(workers, LocalCommunicator())
