"""Shards that work in step: each of a group of workers runs the same program on its own, and they tell each other.

By rows, histograms are added up and parted by feature in one step (a reduce-scatter), so that every worker searches its
share of the features, and only the best cuts are gathered. By features, every worker has all rows of its features: best
cuts are gathered and the owner of a cut's feature tells the others, one bit a row or less, who goes left.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from sparseleaf.engine.agreement import refuse_differences
from sparseleaf.engine.profile import TreeRecord

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.boosting.builder import Trees
    from sparseleaf.boosting.columns import Columns
    from sparseleaf.boosting.tree import FlatTree, GrownNodes, LeafVectors
    from sparseleaf.distributed.communicator import Reduction

Answer = TypeVar("Answer")


class Group:
    """Workers that do the same in the same order, and what they tell each other. Counts what goes through it.

    Attributes
    ----------
    rank, size : int
    sent, received : int
        Payload bytes of this worker, as by the best algorithm for each operation.
    waiting : float
        Seconds in operations, those of waiting for others among them.
    """

    def __init__(self, rank: int, size: int) -> None:
        self.rank = rank
        self.size = size
        self.sent = self.received = 0
        self.waiting = 0.0

    # --- numbers

    def add_up(self, values: Array) -> Array:
        """The sum of all workers' arrays."""
        raise NotImplementedError

    # --- collectives of a tree that grows: see sparseleaf/distributed/communicator.py

    def allreduce(self, values: Array, op: Reduction = "sum") -> Array:
        """Element-wise reduction of equally shaped arrays, on every worker."""
        return self.add_up(values) if op == "sum" else np.max(self.gather(values), axis=0)

    def reduce_scatter(self, values: Array, counts: Sequence[int]) -> Array:
        """Element-wise sum of flat arrays, of which worker r gets the r-th block of ``counts[r]`` elements."""
        pieces = self.exchange(np.split(values, np.cumsum(counts)[:-1]))
        total: Array = np.sum(pieces, axis=0, dtype=values.dtype)
        return total

    def allgather(self, value: Answer) -> list[Answer]:
        """Every worker's value, by rank."""
        return self.gather(value)

    def alltoall(self, values: Sequence[Answer]) -> list[Answer]:
        """Value r goes to worker r; returns what every worker sent to this one, by rank."""
        return self.exchange(list(values))

    def broadcast(self, value: Answer, root: int = 0) -> Answer:
        """The root's value."""
        found: Answer = self.gather(value if self.rank == root else None)[root]
        return found

    # --- objects

    def gather(self, answer: Any) -> list[Any]:
        """All workers' answers."""
        raise NotImplementedError

    def exchange(self, pieces: list[Any]) -> list[Any]:
        """One piece to every worker; those for this one.

        What is given must stay as it is until the next exchange is done: then all others have had theirs.
        """
        raise NotImplementedError

    @contextmanager
    def _counted(self, sent: int, received: int) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self.waiting += time.perf_counter() - began
        self.sent += sent
        self.received += received

    # --- errors

    def together(self, work: Callable[[], Answer]) -> Answer:
        """What this rank's work answers; what goes wrong in one rank is raised in all."""
        answer = self.attempt(work)
        self.refuse_failures(self.gather(answer if isinstance(answer, _Failure) else None))
        found: Answer = answer
        return found

    def agree(self, work: Callable[[], tuple[Answer, dict[str, Any]]]) -> Answer:
        """What this rank's work answers, if the descriptions beside the answers are the same in all ranks.

        What goes wrong in one rank, or differs between them, is raised in all.
        """
        found = self.attempt(work)
        described = self.gather(found if isinstance(found, _Failure) else found[1])
        self.refuse_failures(described)
        refuse_differences(described)
        answer: Answer = found[0]
        return answer

    def attempt(self, work: Callable[[], Answer]) -> Any:
        """The answer, or the error as an answer that can be sent."""
        try:
            return work()
        except Exception as error:
            if self.size == 1:
                raise
            return _Failure(self.rank, error)

    def refuse_failures(self, answers: list[Any]) -> None:
        """Raise, in every rank, what one of them met."""
        for found in answers:
            if isinstance(found, _Failure):
                found.error.add_note(f"(in rank {found.rank} of {self.size})")
                raise found.error


class _Failure:
    def __init__(self, rank: int, error: Exception) -> None:
        self.rank = rank
        self.error = error


class GroupShards:
    """See :class:`~sparseleaf.engine.shards.GrowingShards`: one shard a worker.

    Parameters
    ----------
    group : Group
    shard : Shard, or what becomes one
    all_rows : bool
        Whether every shard has all rows.
    """

    def __init__(self, group: Group, shard: Any, all_rows: bool) -> None:
        self.group = group
        self.n_shards = group.size
        self._shard = shard
        self._alone = group.size == 1
        self._all_rows = all_rows
        self.records: list[TreeRecord] = []
        self.start_clock()

    def start_clock(self) -> None:
        """From now on what is done is counted to the next tree."""
        self._so_far = (self.group.received, time.perf_counter(), self.group.waiting)

    def call(self, verb: str, *args: Any) -> None:
        """See :class:`~sparseleaf.engine.shards.GrowingShards`."""
        getattr(self._shard, verb)(*args)

    def sum(self, verb: str, *args: Any) -> Any:
        """See :class:`~sparseleaf.engine.shards.GrowingShards`."""
        share = self._share(verb, args)
        if share is not None:
            return np.concatenate(self.group.gather(share))
        answer = getattr(self._shard, verb)(*args)
        if self._all_rows:
            return answer
        total = self.group.add_up(np.atleast_1d(answer))
        return total if isinstance(answer, np.ndarray) else int(total[0])

    def gather(self, verb: str, *args: Any) -> list[Any]:
        """See :class:`~sparseleaf.engine.shards.GrowingShards`."""
        if self._all_rows:
            return [getattr(self._shard, verb)(*args)]
        found = self.group.gather(self.group.attempt(lambda: getattr(self._shard, verb)(*args)))
        self.group.refuse_failures(found)
        return found

    def exchange(self, verb: str, *args: Any) -> list[Any]:
        """See :class:`~sparseleaf.engine.shards.GrowingShards`."""
        if self._all_rows:
            share = self._share(verb, args)
            return [getattr(self._shard, verb)(*args)] if share is None else self.group.gather(share)
        pieces = self.group.exchange(getattr(self._shard, f"{verb}_give")(*args))
        return self.group.gather(getattr(self._shard, f"{verb}_take")(pieces, *args))

    def _share(self, verb: str, args: tuple[Any, ...]) -> Any:
        """Where every shard has all rows, this one's share of what can be shared out; None for what is not."""
        if self._alone or not self._all_rows:
            return None
        share = getattr(self._shard, f"{verb}_share", None)
        return None if share is None else share(*args)

    def build_tree(
        self, trees: Trees, columns: Columns | None, features: Array, n_node_features: int, key: int
    ) -> GrownNodes:
        """See :class:`~sparseleaf.engine.shards.GrowingShards`."""
        found: GrownNodes = self._shard.build_tree(trees, columns, features, n_node_features, key, self.group)
        return found

    def add_tree(self, tree: FlatTree, vectors: LeafVectors) -> None:
        """See :class:`~sparseleaf.engine.shards.GrowingShards`."""
        self._shard.add_leaves(tree, vectors)
        now = (self.group.received, time.perf_counter(), self.group.waiting)
        received, seconds, waiting = (b - a for a, b in zip(self._so_far, now, strict=True))
        self.records.append(TreeRecord(int(received), seconds - waiting, waiting))
        self.start_clock()
