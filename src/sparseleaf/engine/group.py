"""Shards that work in step: each of a group of workers runs the same program on its own, and they tell each other.

By rows, histograms are added up and parted by feature in one step (a reduce-scatter), so that every worker searches its
share of the features, and only the best cuts are gathered. By features, every worker has all rows of its features: best
cuts are gathered and the owner of a cut's feature tells the others, one bit a row or less, who goes left.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from sparseleaf.boosting.histograms import best_of
from sparseleaf.engine.agreement import refuse_differences
from sparseleaf.engine.profile import TreeRecord

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.boosting.histograms import CutTask, HistogramPool
    from sparseleaf.boosting.tree import FlatTree, LeafVectors

Answer = TypeVar("Answer")

SCRATCH = 1 << 26
"""Bytes of histograms that are built before they are added up."""

PACKED = 1 << 18
"""Bytes of a histogram below which those of several nodes travel together."""


class Group:
    """Workers that do the same in the same order, and what they tell each other. Counts what goes through it.

    Attributes
    ----------
    rank, size : int
    adds_up : bool
        Whether it can add up on the way; else pieces are sent, and added up where they are wanted.
    sent, received : int
        Payload bytes of this worker, as by the best algorithm for each operation.
    waiting : float
        Seconds in operations, those of waiting for others among them.
    """

    adds_up: bool

    def __init__(self, rank: int, size: int) -> None:
        self.rank = rank
        self.size = size
        self.sent = self.received = 0
        self.waiting = 0.0

    # --- numbers

    def add_up(self, values: Array) -> Array:
        """The sum of all workers' arrays."""
        raise NotImplementedError

    def add_up_shares(self, values: Array, sizes: list[int], own: Array) -> None:
        """The sum of all workers' arrays, of which every one gets its share into ``own``, where the group adds up."""
        raise NotImplementedError

    def join(self, values: Array, sizes: list[int]) -> list[Array]:
        """All workers' arrays, whose sizes everyone knows."""
        raise NotImplementedError

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

    def best(self, verb: str, *args: Any) -> Any:
        """See :class:`~sparseleaf.engine.shards.GrowingShards`."""
        if self._alone:
            return getattr(self._shard, verb)(*args)
        if self._all_rows:
            found = getattr(self._shard, verb)(*args)
        elif self.group.adds_up:
            found = self._rows_cuts(*args)
        else:
            pieces = self.group.exchange(getattr(self._shard, f"{verb}_give")(*args))
            found = getattr(self._shard, f"{verb}_take")(pieces, *args)
        sizes = [found.nbytes] * self.group.size
        cuts = self.group.join(np.frombuffer(found.tobytes(), np.uint8), sizes)
        return best_of([np.frombuffer(one.tobytes(), found.dtype) for one in cuts])

    def _rows_cuts(self, task: CutTask) -> Array:
        """Own best cuts by rows: histograms are added up a few nodes at a time, each rank getting its features'."""
        shard = self._shard
        node_bytes = max(1, shard.n_tree_bins()) * (shard.own_pool().sums.shape[2] + 1) * 4
        some = max(1, SCRATCH // node_bytes)
        for begin in range(0, len(task.built), some):
            built = shard.build_histograms(task.built[begin : begin + some])
            slots = task.built_slots[begin : begin + some]
            add_up = self._add_up_packed if node_bytes < PACKED else self._add_up_nodes
            add_up(built, np.diff(shard.piece_borders(built)), slots)
        found: Array = shard.find_cuts(task)
        return found

    def _add_up_nodes(self, built: HistogramPool, sizes: Array, slots: Array) -> None:
        """Large histograms: one at a time, from where they were built to where they are kept."""
        pool = self._shard.own_pool()
        own = len(pool.features) > 0
        for i, slot in enumerate(slots.tolist()):
            for values, into, width in (
                (built.sums[i], pool.sums[slot], pool.sums.shape[2]),
                (built.counts[i], pool.counts[slot], 1),
            ):
                place = into.reshape(-1) if own else np.empty(0, np.int32)
                self.group.add_up_shares(values.reshape(-1), (sizes * width).tolist(), place)

    def _add_up_packed(self, built: HistogramPool, sizes: Array, slots: Array) -> None:
        """Small histograms: all at once, for it is the number of messages that takes time."""
        pool = self._shard.own_pool()
        ends = np.cumsum(sizes)
        pieces = [
            part[:, end - size : end].reshape(-1)
            for size, end in zip(sizes.tolist(), ends.tolist(), strict=True)
            for part in (built.sums, built.counts)
        ]
        width, n = pool.sums.shape[2], len(slots)
        own = int(sizes[self.group.rank])
        total = np.empty(n * own * (width + 1), np.int32)
        self.group.add_up_shares(np.concatenate(pieces), (sizes * n * (width + 1)).tolist(), total)
        if own:
            pool.sums[slots] = total[: n * own * width].reshape(n, own, width)
            pool.counts[slots] = total[n * own * width :].reshape(n, own)

    def split(self, nodes: list[int], lefts: Array, *cuts: Any) -> None:
        """See :class:`~sparseleaf.engine.shards.GrowingShards`."""
        shard = self._shard
        if self._alone or not self._all_rows:
            shard.apply_splits(nodes, *cuts)
            return
        sizes = shard.told_splits(nodes, lefts, cuts[0])
        told = self.group.join(shard.tell_splits(nodes, lefts, *cuts), sizes)
        shard.apply_told_splits(nodes, lefts, cuts[0], told)

    def add_tree(self, tree: FlatTree, vectors: LeafVectors) -> None:
        """See :class:`~sparseleaf.engine.shards.GrowingShards`."""
        self._shard.add_leaves(tree, vectors)
        now = (self.group.received, time.perf_counter(), self.group.waiting)
        received, seconds, waiting = (b - a for a, b in zip(self._so_far, now, strict=True))
        self.records.append(TreeRecord(int(received), seconds - waiting, waiting))
        self.start_clock()
