"""SPMD training: every worker runs this function on its partition and synchronises through a communicator.

It is the same for boosted trees, LdSM and the forest, which differ in their :class:`WorkerProgram`.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from sparseleaf.fingerprint import join_fingerprints

if TYPE_CHECKING:
    from sparseleaf.distributed.communicator import Communicator
    from sparseleaf.training.partition import Partition


@dataclass(frozen=True)
class Grown:
    """A tree that has grown.

    Attributes
    ----------
    tree : object
        As :meth:`Growth.replay` takes it.
    n_leaves : int
    n_entries : int
        Stored (row, label) scores of all workers after it.
    """

    tree: Any
    n_leaves: int
    n_entries: int


class Growth(Protocol):
    """Trees of one training, as they grow on one worker together with all others."""

    def replay(self, trees: Sequence[Any]) -> None:
        """Take up the training after these trees, which were grown before."""

    def next(self) -> list[Grown]:
        """The next trees, the same on every worker."""


class WorkerProgram(Protocol):
    """What workers do before the first tree. Can be pickled."""

    def describe(self, comm: Communicator, part: Any) -> Any:
        """What the rows of all workers are like."""

    def prepare(self, comm: Communicator, part: Any, plan: Any) -> tuple[Any, Growth]:
        """Make the rows ready, by the plan of the process that called ``fit``; what that one has to know of it."""


def train(
    work: WorkerProgram, with_fingerprints: bool, comm: Communicator, part: Partition
) -> Generator[Any, Any, None]:
    """Train on this worker's partition.

    Yields the description of the rows with their fingerprints (none if not asked for), what was prepared, None after a
    replay, and then lists of :class:`Grown`. It is sent a plan, the trees to replay, and then None for the next trees.
    """
    description = work.describe(comm, part)
    prints = {}
    if comm.broadcast(with_fingerprints):
        prints = join_fingerprints(comm.allgather(part.fingerprints()))
    plan = yield description, prints
    prepared, growth = work.prepare(comm, part, plan)
    del part, plan, description  # what is needed of them is in the growth
    trees = yield prepared
    del prepared
    growth.replay(trees)
    del trees
    yield None
    while True:
        yield growth.next()
