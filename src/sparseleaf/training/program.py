"""SPMD training: every worker runs :func:`train` on its partition and synchronises through a `Communicator`.

Boosted trees, LdSM and SketchForest differ only in their :class:`WorkerProgram`.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from sparseleaf.fingerprint import join_fingerprints

if TYPE_CHECKING:
    from sparseleaf.distributed.communicator import Communicator
    from sparseleaf.training.partition import Partition


@dataclass(frozen=True)
class Grown:
    """A grown tree.

    Attributes
    ----------
    tree : object
        In the form that :meth:`Growth.replay` takes.
    n_leaves : int
    n_entries : int
        Stored (row, label) scores of all workers after this tree.
    metrics : dict of str to float
        Metrics of held-out training rows, after the last tree of a round.
    """

    tree: Any
    n_leaves: int
    n_entries: int
    metrics: Mapping[str, float] = field(default_factory=dict)


class Growth(Protocol):
    """The growing ensemble on one worker. All workers call the same methods in the same order."""

    def replay(self, trees: Sequence[Any]) -> None:
        """Resume training after these trees."""

    def next(self) -> list[Grown]:
        """Grow the next trees; identical on every worker."""

    def complete(self) -> Any:
        """What completes the model after the last tree; identical on every worker."""


COMPLETE = "complete"
"""Message to the workers after the last tree."""


class WorkerProgram(Protocol):
    """What a worker does before the first tree. Must be picklable."""

    def describe(self, comm: Communicator, part: Any) -> Any:
        """Gather the properties of the training set, over all workers."""

    def prepare(self, comm: Communicator, part: Any, plan: Any) -> tuple[Any, Growth]:
        """Prepare the rows by the plan of the process that called ``fit``; returns the result for it and the growth."""


def train(
    program: WorkerProgram, with_fingerprints: bool, comm: Communicator, part: Partition
) -> Generator[Any, Any, None]:
    """Train on this worker's partition.

    A generator that yields, in order: the description of the rows with their fingerprints (empty unless requested), the
    result of preparation, None after the replay, and then lists of :class:`Grown`. It is sent the plan, the trees to
    replay, and None for each step; after the last one, it may be sent :data:`COMPLETE`, and yields what completes the
    model.
    """
    description = program.describe(comm, part)
    prints = {}
    if comm.broadcast(with_fingerprints):
        prints = join_fingerprints(comm.allgather(part.fingerprints()))
    plan = yield description, prints
    prepared, growth = program.prepare(comm, part, plan)
    del part, plan, description  # the growth has what it needs of them
    trees = yield prepared
    del prepared
    growth.replay(trees)
    del trees
    message = yield None
    while True:
        message = yield growth.next() if message is None else growth.complete()
