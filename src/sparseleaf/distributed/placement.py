"""Placement: how rows and features are distributed among workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sparseleaf.distributed.communicator import LocalCommunicator

if TYPE_CHECKING:
    from sparseleaf.distributed.communicator import Communicator


@dataclass(frozen=True)
class Placement:
    """Distribution of rows and features.

    Attributes
    ----------
    workers : Communicator
        All workers.
    rows : Communicator
        The workers among which rows are divided, over which sums over rows are reduced: all workers in the row
        layout, only this one in the feature layout, where every worker has all rows.
    """

    workers: Communicator
    rows: Communicator

    @classmethod
    def by_rows(cls, workers: Communicator) -> Placement:
        """Row layout: every worker has all features of some rows."""
        return cls(workers, workers)

    @classmethod
    def by_features(cls, workers: Communicator) -> Placement:
        """Feature layout: every worker has some features of all rows."""
        return cls(workers, LocalCommunicator())
