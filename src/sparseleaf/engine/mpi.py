"""Shards in the ranks of an MPI job: every rank runs the same program on its own rows.

By rows, histograms are added up and parted by feature in one step (a reduce-scatter), so that every rank searches its
share of the features, and only the best cuts are gathered. By features, every rank has all rows of its features: best
cuts are gathered and the owner of a cut's feature tells the others, one bit a row, who goes left.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from sparseleaf.boosting.histograms import best_of
from sparseleaf.engine.profile import TreeRecord, join_records, size_of

if TYPE_CHECKING:
    from sparseleaf._arrays import Array
    from sparseleaf.boosting.histograms import CutTask, HistogramPool
    from sparseleaf.boosting.tree import FlatTree, LeafVectors

Answer = TypeVar("Answer")

PATIENCE = 2.0
"""Seconds after which a rank that failed takes it that others have not."""

SCRATCH = 1 << 26
"""Bytes of histograms that are built before they are added up."""

PACKED = 1 << 18
"""Bytes of a histogram below which those of several nodes travel together."""


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
        self.group = Group(MPI.COMM_WORLD if communicator is None else communicator)
        self.profile: list[dict[str, Any]] = []

    @contextmanager
    def open(self, estimator: Any, rows: dict[str, Any], layout: str) -> Iterator[MPIShards]:
        """See :class:`~sparseleaf.engine.shards.Engine`; ``rows`` are those of this rank."""
        with self.group.all_or_none():
            part = self.group.together(lambda: estimator._part(**rows))
            shards = MPIShards(self.group, part, layout)
            yield shards
            self.profile = join_records(self.group.gather(shards.records))


class Group:
    """A communicator that counts what goes through it.

    Attributes
    ----------
    rank, size : int
    sent, received : int
        Payload bytes of this rank, as by the best algorithm for each operation.
    waiting : float
        Seconds in operations, those of waiting for others among them.
    """

    def __init__(self, communicator: Any) -> None:
        from mpi4py import MPI
        from mpi4py.util import pkl5

        self._comm = communicator
        self._objects = pkl5.Intracomm(communicator)  # pickles of any size, arrays without a copy
        self._sum = MPI.SUM
        self.rank: int = communicator.Get_rank()
        self.size: int = communicator.Get_size()
        self.sent = self.received = 0
        self.waiting = 0.0

    # --- numbers

    def add_up(self, values: Array) -> Array:
        """The sum of all ranks' arrays."""
        values = np.ascontiguousarray(values)
        total = np.empty_like(values)
        share = 2 * values.nbytes * (self.size - 1) // self.size
        with self._counted(share, share):
            self._comm.Allreduce(values, total, self._sum)
        return total

    def add_up_shares(self, values: Array, sizes: list[int], own: Array) -> None:
        """The sum of all ranks' arrays, of which every rank gets its share into ``own``."""
        share = values.nbytes - own.nbytes
        with self._counted(share, own.nbytes * (self.size - 1)):
            self._comm.Reduce_scatter(values, own, sizes, self._sum)

    def join(self, values: Array, sizes: list[int]) -> list[Array]:
        """All ranks' arrays, whose sizes everyone knows."""
        total = np.empty(sum(sizes), values.dtype)
        with self._counted(values.nbytes * (self.size - 1), total.nbytes - values.nbytes):
            self._comm.Allgatherv(values, (total, sizes))
        return np.split(total, np.cumsum(sizes)[:-1])

    # --- objects

    def gather(self, answer: Any) -> list[Any]:
        """All ranks' answers."""
        with self._counted(0, 0):
            found: list[Any] = self._objects.allgather(answer)
        sizes = [size_of(one) for one in found]
        self.sent += sizes[self.rank] * (self.size - 1)
        self.received += sum(sizes) - sizes[self.rank]
        return found

    def exchange(self, pieces: list[Any]) -> list[Any]:
        """One piece to every rank; those for this one."""
        with self._counted(0, 0):
            found: list[Any] = self._objects.alltoall(pieces)
        self.sent += sum(size_of(piece) for to, piece in enumerate(pieces) if to != self.rank)
        self.received += sum(size_of(piece) for by, piece in enumerate(found) if by != self.rank)
        return found

    def tell(self, answer: Any) -> Any:
        """The first rank's answer."""
        with self._counted(0, 0):
            return self._objects.bcast(answer, root=0)

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

    def once(self, work: Callable[[], Answer]) -> Answer:
        """What the first rank's work answers, or its error, in all."""
        if self.size == 1:
            return work()
        answer = self.tell(self.attempt(work) if self.rank == 0 else None)
        self.refuse_failures([answer])
        found: Answer = answer
        return found

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


class _Failure:
    def __init__(self, rank: int, error: Exception) -> None:
        self.rank = rank
        self.error = error


class MPIShards:
    """See :class:`~sparseleaf.engine.shards.Shards`: one shard a rank.

    Parameters
    ----------
    group : Group
    shard : Shard, or what becomes one
    layout : {"rows", "features"}
    """

    def __init__(self, group: Group, shard: Any, layout: str) -> None:
        self.layout = layout
        self.n_shards = group.size
        self.leads = group.rank == 0
        self.group = group
        self._shard = shard
        self._alone = group.size == 1
        self._all_rows = self._alone
        """Whether every shard has all rows."""
        self.records: list[TreeRecord] = []
        self._so_far = (group.received, time.perf_counter(), group.waiting)
        shard.take_place(group.rank, group.size)

    def call(self, verb: str, *args: Any) -> None:
        """See :class:`Shards`."""
        getattr(self._shard, verb)(*args)

    def sum(self, verb: str, *args: Any) -> Any:
        """See :class:`Shards`."""
        share = self._share(verb, args)
        if share is not None:
            return np.concatenate(self.group.gather(share))
        answer = getattr(self._shard, verb)(*args)
        if self._all_rows:
            return answer
        total = self.group.add_up(np.atleast_1d(answer))
        return total if isinstance(answer, np.ndarray) else int(total[0])

    def gather(self, verb: str, *args: Any) -> list[Any]:
        """See :class:`Shards`."""
        if self._all_rows:
            return [getattr(self._shard, verb)(*args)]
        found = self.group.gather(self.group.attempt(lambda: getattr(self._shard, verb)(*args)))
        self.group.refuse_failures(found)
        return found

    def exchange(self, verb: str, *args: Any) -> list[Any]:
        """See :class:`Shards`."""
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
        """See :class:`Shards`."""
        if self._alone:
            return getattr(self._shard, verb)(*args)
        found = getattr(self._shard, verb)(*args) if self._all_rows else self._rows_cuts(*args)
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

    def split(self, nodes: list[int], *cuts: Any) -> None:
        """See :class:`Shards`."""
        shard = self._shard
        if self._alone or not self._all_rows:
            shard.apply_splits(nodes, *cuts)
            return
        sizes = shard.bit_sizes(nodes, cuts[0])
        shard.apply_bits(nodes, cuts[0], self.group.join(shard.split_bits(nodes, *cuts), sizes))

    def add_tree(self, tree: FlatTree, vectors: LeafVectors) -> None:
        """See :class:`Shards`."""
        self._shard.add_leaves(tree, vectors)
        now = (self.group.received, time.perf_counter(), self.group.waiting)
        received, seconds, waiting = (b - a for a, b in zip(self._so_far, now, strict=True))
        self.records.append(TreeRecord(int(received), seconds - waiting, waiting))
        self._so_far = now

    def follow_tree(self, tree: FlatTree, vectors: LeafVectors) -> None:
        """See :class:`Shards`."""
        self._shard.follow(tree, vectors)

    def spread(self) -> None:
        """See :class:`Shards`."""
        if self.layout == "features" and not self._alone:
            self._shard.columns_take(self.group.exchange(self._shard.columns_give()))
            self._all_rows = True

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
