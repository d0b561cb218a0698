"""A group of Dask workers that tell each other what they need, over the connections that Dask has between workers.

While a tree grows neither the client nor the scheduler has a part in it: what they would take for every step is more
than many steps take.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from sparseleaf.engine.group import Group
from sparseleaf.engine.profile import size_of

if TYPE_CHECKING:
    from sparseleaf._arrays import Array

OPERATION = "sparseleaf_post"
"""What Dask's workers call a message to a box."""

HANG_UP = "sparseleaf_hang_up"
"""What they call it that no more will come."""

SMALL = 1 << 14
"""Bytes of an array that everyone adds up alone: parting it takes a message more."""


class WorkerLostError(Exception):
    """A worker is gone, and its shards with it."""


class Box:
    """Where what others have sent waits to be taken.

    Attributes
    ----------
    connections : list
        Those by which its owner sends, open for as long as the box is.
    """

    def __init__(self) -> None:
        self.connections: list[Any] = []
        self._arrived: dict[tuple[int, int], Any] = {}
        self._changed = threading.Condition()
        self._closed: Exception | None = None

    def put(self, number: int, by: int, piece: Any) -> None:
        """A piece of the message of that number."""
        with self._changed:
            self._arrived[number, by] = piece
            self._changed.notify_all()

    def take(self, number: int, by: int) -> Any:
        """The piece, when it is there."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed is not None or (number, by) in self._arrived)
            if self._closed is not None:
                raise self._closed
            return self._arrived.pop((number, by))

    def close(self, reason: Exception | None = None) -> None:
        """No more will come: let those who wait know."""
        with self._changed:
            self._closed = self._closed or reason or WorkerLostError("another worker is gone")
            self._changed.notify_all()
        for connection in self.connections:
            connection.abort()

    @property
    def closed(self) -> bool:
        """Whether no more will come."""
        return self._closed is not None


_BOXES: dict[str, Box] = {}


def close_boxes(session: str) -> None:
    """Let those who wait in this worker for others of the session wait no more."""
    for name in [name for name in list(_BOXES) if name.startswith(session)]:
        _BOXES.pop(name).close()


def _post(box: str, number: int, by: int, piece: Any) -> None:
    """In a worker's loop: a piece has come."""
    if box in _BOXES:  # else it is from a session that is over
        _BOXES[box].put(number, by, piece)


def _hang_up(box: str, unread: str | None) -> None:
    """In a worker's loop: what another has sent may not have come, or could not be read here."""
    if box in _BOXES:
        _BOXES[box].close(None if unread is None else RuntimeError(unread))


class Peers(Group):
    """Workers of Dask, of which each has one shard or more.

    A message is not answered, for that takes as long as the message. It comes, or the connection breaks; who sees
    that tells the other one, and neither waits for ever.

    Parameters
    ----------
    session : str
        A name that no other group has.
    rank : int
    addresses : list of str
        The workers of all ranks.
    """

    def __init__(self, session: str, rank: int, addresses: list[str]) -> None:
        from distributed import get_worker

        super().__init__(rank, len(addresses))
        self._worker: Any = get_worker()
        self._worker.handlers.update({OPERATION: _post, HANG_UP: _hang_up})
        self._session = session
        self._addresses = addresses
        self._box = _BOXES[self._box_of(rank)] = Box()
        self._number = 0
        self._connections: dict[int, Any] = {}
        self._watchers: list[asyncio.Task[None]] = []  # the loop alone would let go of them

    def _box_of(self, rank: int) -> str:
        return f"{self._session}-{rank}"

    # --- numbers

    def add_up(self, values: Array) -> Array:
        """See :class:`Group`."""
        if values.nbytes <= SMALL:
            return _sum(self.gather(values))
        parts = np.array_split(values.reshape(-1), self.size)
        share = _sum(self.exchange(parts))
        return np.concatenate(self.gather(share)).reshape(values.shape)

    # --- objects

    def gather(self, answer: Any) -> list[Any]:
        """See :class:`Group`."""
        return self.exchange([answer] * self.size)

    def exchange(self, pieces: list[Any]) -> list[Any]:
        """See :class:`Group`."""
        with self._counted(0, 0):
            sent = [self._send(to, piece) for to, piece in enumerate(pieces) if to != self.rank]
            found = [
                piece if by == self.rank else self._box.take(self._number, by)
                for by, piece in enumerate(pieces)
            ]
            for one in sent:
                one.result()
        self._number += 1
        self.sent += sum(size_of(piece) for to, piece in enumerate(pieces) if to != self.rank)
        self.received += sum(size_of(piece) for by, piece in enumerate(found) if by != self.rank)
        return found

    def _send(self, to: int, piece: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(
            self._deliver(to, self._number, piece), self._worker.loop.asyncio_loop
        )

    async def _deliver(self, to: int, number: int, piece: Any) -> None:
        from distributed.protocol.serialize import to_serialize

        words: dict[str, Any] = {"box": self._box_of(to), "number": number, "by": self.rank}
        if self._addresses[to] == self._worker.address:
            _post(**words, piece=piece)
            return
        try:
            if to not in self._connections:
                self._connections[to] = await self._connect(to)
            message = {"op": OPERATION, "reply": False, **words, "piece": to_serialize(piece)}
            await self._connections[to].write(message, on_error="raise")
        except OSError as error:
            lost = WorkerLostError(f"{self._addresses[to]} does not answer: {error}")
            self._box.close(lost)  # else this worker may wait for one that waits for it
            raise lost from None
        except Exception as error:
            self._box.close(error)
            raise

    async def _connect(self, to: int) -> Any:
        connection = await self._worker.rpc.connect(self._addresses[to])
        self._box.connections.append(connection)
        self._watchers.append(asyncio.create_task(self._watch(to, connection)))
        if self._box.closed:  # in the meantime
            connection.abort()
        return connection

    async def _watch(self, to: int, connection: Any) -> None:
        """Wait for the end of a connection: that, or an error over there, is all that can come back by it."""
        address, pool, unread = self._addresses[to], self._worker.rpc, None
        try:
            answer = await connection.read()
            unread = f"{address} could not read a message: {answer!r:.200}"
            reason: Exception = RuntimeError(unread)
        except OSError as error:
            reason = WorkerLostError(f"{address} is gone: {error}")
        connection.abort()
        pool.reuse(address, connection)  # which forgets it, as it is closed
        if self._box.closed:
            return
        self._box.close(reason)
        with suppress(OSError, RuntimeError):  # it is gone, or this one is about to
            await getattr(pool(address), HANG_UP)(box=self._box_of(to), unread=unread)


def _sum(arrays: list[Array]) -> Array:
    """The sum, as an array of its own."""
    total = arrays[0].copy()
    for other in arrays[1:]:
        total += other
    return total
