"""Shards in the ranks of an MPI job: every rank runs the whole program on its own rows."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from sparseleaf.engine.agreement import describe_training
from sparseleaf.engine.group import Group, GroupShards
from sparseleaf.engine.profile import join_records, size_of

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.boosting.loop import Recipe
    from sparseleaf.boosting.tree import FlatTree, LeafVectors
    from sparseleaf.engine.shards import Check

Answer = TypeVar("Answer")

PATIENCE = 2.0
"""Seconds after which a rank that failed takes it that others have not."""


class MPIEngine:
    """Trains in the ranks of an mpi4py communicator, all of them if none is given.

    Attributes
    ----------
    profile : list of dict
        For every tree of the last training, what its ranks sent and how long they worked and waited.
    """

    def __init__(self, communicator: Any = None) -> None:
        try:
            from mpi4py import MPI
        except ImportError:
            raise ImportError(
                "engine='mpi' wants mpi4py and an MPI library: pip install sparseleaf[mpi], or mpi4py for"
                " the system's."
            ) from None
        self.group = MPIGroup(MPI.COMM_WORLD if communicator is None else communicator)
        self.profile: list[dict[str, Any]] = []

    @contextmanager
    def open(self, estimator: Any, rows: dict[str, Any], layout: str, check: Check) -> Iterator[MPIShards]:
        """See :class:`~sparseleaf.engine.shards.Engine`; ``rows`` are those of this rank."""

        def prepare() -> tuple[Any, dict[str, Any]]:
            arguments = check()
            part = estimator._part(**rows)
            given = {name: value is not None for name, value in rows.items()}
            return part, describe_training(estimator, arguments | {"arguments": given}, part.form())

        with self.group.all_or_none():
            part = self.group.agree(prepare)
            shards = MPIShards(self.group, part, layout)
            yield shards
            self.profile = join_records(self.group.gather(shards.records))


class MPIGroup(Group):
    """The ranks of a communicator."""

    def __init__(self, communicator: Any) -> None:
        from mpi4py import MPI
        from mpi4py.util import pkl5

        super().__init__(communicator.Get_rank(), communicator.Get_size())
        self._comm = communicator
        self._objects = pkl5.Intracomm(communicator)  # pickles of any size, arrays without a copy
        self._sum = MPI.SUM

    # --- numbers

    def add_up(self, values: Array) -> Array:
        """See :class:`Group`."""
        values = np.ascontiguousarray(values)
        total = np.empty_like(values)
        share = 2 * values.nbytes * (self.size - 1) // self.size
        with self._counted(share, share):
            self._comm.Allreduce(values, total, self._sum)
        return total

    def reduce_scatter(self, values: Array, counts: Sequence[int]) -> Array:
        """See :class:`Group`."""
        own = np.empty(counts[self.rank], values.dtype)
        with self._counted(values.nbytes - own.nbytes, own.nbytes * (self.size - 1)):
            self._comm.Reduce_scatter(values, own, list(counts), self._sum)
        return own

    # --- objects

    def gather(self, answer: Any) -> list[Any]:
        """See :class:`Group`."""
        with self._counted(0, 0):
            found: list[Any] = self._objects.allgather(answer)
        sizes = [size_of(one) for one in found]
        self.sent += sizes[self.rank] * (self.size - 1)
        self.received += sum(sizes) - sizes[self.rank]
        return found

    def exchange(self, pieces: list[Any]) -> list[Any]:
        """See :class:`Group`."""
        with self._counted(0, 0):
            found: list[Any] = self._objects.alltoall(pieces)
        self.sent += sum(size_of(piece) for to, piece in enumerate(pieces) if to != self.rank)
        self.received += sum(size_of(piece) for by, piece in enumerate(found) if by != self.rank)
        return found

    def tell(self, answer: Any) -> Any:
        """The first rank's answer."""
        with self._counted(0, 0):
            return self._objects.bcast(answer, root=0)

    # --- errors

    def once(self, work: Callable[[], Answer]) -> Answer:
        """What the first rank's work answers, or its error, in all."""
        if self.size == 1:
            return work()
        answer = self.tell(self.attempt(work) if self.rank == 0 else None)
        self.refuse_failures([answer])
        found: Answer = answer
        return found

    @contextmanager
    def all_or_none(self) -> Iterator[None]:
        """End the whole job, with a message, if this rank fails and others do not."""
        failures = self._comm.Dup()
        try:
            yield
        except BaseException as error:
            if not self._all_failed(failures):
                print(
                    f"sparseleaf: rank {self.rank} of {self.size} failed, which ends the job:"
                    f" {type(error).__name__}: {error}",
                    file=sys.stderr,
                    flush=True,
                )
                self._comm.Abort(1)
            raise
        finally:
            failures.Free()

    def _all_failed(self, failures: Any) -> bool:
        """Whether all ranks come here within a short time: then each can go on with the error as it likes."""
        everyone = failures.Ibarrier()
        began = time.perf_counter()
        while not everyone.Test():
            if time.perf_counter() - began > PATIENCE:
                return False
            time.sleep(0.01)
        return True


class MPIShards(GroupShards):
    """See :class:`~sparseleaf.engine.shards.Shards`: one shard a rank.

    Parameters
    ----------
    group : MPIGroup
    shard : Shard, or what becomes one
    layout : {"rows", "features"}
    """

    group: MPIGroup

    def __init__(self, group: MPIGroup, shard: Any, layout: str) -> None:
        super().__init__(group, shard, all_rows=group.size == 1)
        self.layout = layout
        self.leads = group.rank == 0
        shard.take_place(group.rank, group.size)

    def follow_tree(self, tree: FlatTree, vectors: LeafVectors) -> None:
        """See :class:`Shards`."""
        self._shard.follow(tree, vectors)

    def spread(self) -> None:
        """See :class:`Shards`."""
        if self.layout == "features" and not self._alone:
            self._shard.columns_take(self.group.exchange(self._shard.columns_give()))
            self._all_rows = True

    def grow(self, recipe: Recipe, number: int) -> tuple[FlatTree, LeafVectors]:
        """See :class:`Shards`."""
        return recipe.grow(self, number)

    def once(self, work: Callable[[], Answer]) -> Answer:
        """See :class:`Shards`."""
        return self.group.once(work)

    def first(self, work: Callable[[], Answer]) -> Answer | None:
        """See :class:`Shards`."""
        return self.group.together(lambda: work() if self.leads else None)

    def agree(self, local: bool) -> bool:
        """See :class:`Shards`."""
        return local if self._alone else any(self.group.gather(local))

    def recover(self, error: Exception) -> bool:
        """A lost rank ends the job; a checkpoint is where the next one goes on from."""
        return False
