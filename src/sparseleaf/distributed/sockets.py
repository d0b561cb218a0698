"""Communicator over TCP, for workers that a cluster scheduler such as Dask has started.

Each pair of workers has one connection, opened by the worker of the higher rank. Before anything else is read from a
connection, both ends prove that they know the secret of this training (HMAC-SHA256 over fresh nonces of both), in
messages of fixed size and within a time limit. What follows is pickled, with arrays as raw bytes beside the pickle.
Connections are authenticated, not encrypted.

A collective sends and receives concurrently in the calling thread, without background threads. No worker waits for a
lost one: its connections close, and every worker that sees a connection close closes its own.
"""

from __future__ import annotations

import hmac
import pickle
import secrets
import selectors
import socket
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np

from sparseleaf.distributed.communicator import UFUNCS, Reduction, Traffic, WorkerLostError, blocks

if TYPE_CHECKING:
    from sparseleaf._arrays import Array

Value = TypeVar("Value")

Address = tuple[str, int]

START_TIMEOUT = 300.0
"""Seconds within which all workers must have connected: a cluster may be busy."""

HANDSHAKE_TIMEOUT = 10.0
"""Seconds after which an unauthenticated connection is closed."""

MAX_UNAUTHENTICATED = 64
"""Maximum number of unauthenticated connections; the oldest is closed for a new one."""

KEEPALIVE = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
"""TCP keepalive: after 15 s of silence, three probes within 15 s."""

SMALL = 1 << 14
"""Bytes up to which every worker reduces the whole array; larger arrays are reduced in blocks."""

POLL = 0.5
"""Seconds between checks whether the communicator was closed, while waiting."""

MAGIC = b"sparseleaf/1"
NONCE = 32
HELLO = struct.Struct(f"!{len(MAGIC)}s{NONCE}s")
PROOF = struct.Struct(f"!I{NONCE}s32s")
HEADER = struct.Struct("!IQ")
LENGTH = struct.Struct("!Q")


def _proof(secret: bytes, role: bytes, ranks: tuple[int, int], nonces: tuple[bytes, bytes]) -> bytes:
    """Proof of knowledge of the secret for this connection; the role prevents reflection."""
    message = MAGIC + role + struct.pack("!II", *ranks) + nonces[0] + nonces[1]
    return hmac.digest(secret, message, "sha256")


class Listener:
    """The port at which this worker accepts connections of the others.

    Parameters
    ----------
    host : str
        Address of this worker.

    Attributes
    ----------
    address : (host, port)
    """

    def __init__(self, host: str) -> None:
        family, kind, protocol, _, place = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
        self._socket = socket.socket(family, kind, protocol)
        try:
            self._socket.bind(place)
            self._socket.listen(128)
        except BaseException:
            self._socket.close()
            raise
        self.address: Address = host, self._socket.getsockname()[1]
        self._closed = False

    def connect(
        self, rank: int, addresses: Sequence[Address], secret: bytes, timeout: float = START_TIMEOUT
    ) -> SocketCommunicator:
        """Connect to all other workers, then close the port."""
        deadline = time.monotonic() + timeout
        peers: dict[int, socket.socket] = {}
        try:
            for other in range(rank):
                peers[other] = self._connect(addresses[other], (rank, other), secret, deadline)
            peers |= self._accept(rank, len(addresses), secret, deadline)
        except BaseException as error:
            for peer in peers.values():
                peer.close()
            if isinstance(error, OSError) or self._closed:
                raise WorkerLostError(f"worker {rank} could not connect to the others: {error}") from None
            raise
        finally:
            self.close()
        return SocketCommunicator(rank, len(addresses), peers)

    def close(self) -> None:
        """Close the port; thread-safe."""
        self._closed = True
        self._socket.close()

    def _accept(self, rank: int, size: int, secret: bytes, deadline: float) -> dict[int, socket.socket]:
        """Accept the workers of higher rank; all other connections are closed."""
        peers: dict[int, socket.socket] = {}
        unauthenticated: dict[socket.socket, _Unauthenticated] = {}
        self._socket.setblocking(False)
        with selectors.DefaultSelector() as selector:
            selector.register(self._socket, selectors.EVENT_READ)
            try:
                while len(peers) < size - 1 - rank:
                    if time.monotonic() > deadline:
                        raise TimeoutError(f"{size - 1 - rank - len(peers)} workers did not connect")
                    self._raise_if_closed()
                    for key, _ in selector.select(min(POLL, max(0.0, deadline - time.monotonic()))):
                        if key.fileobj is self._socket:
                            self._admit(selector, unauthenticated)
                            continue
                        connection: Any = key.fileobj
                        other = unauthenticated[connection].read(secret, rank, size)
                        if other is None:
                            continue
                        selector.unregister(connection)
                        del unauthenticated[connection]
                        if other < 0 or other in peers:
                            connection.close()
                        else:
                            peers[other] = connection
                    for connection, state in list(unauthenticated.items()):
                        if time.monotonic() > state.deadline:
                            _drop(selector, unauthenticated, connection)
            except BaseException:
                for peer in peers.values():
                    peer.close()
                raise
            finally:
                for connection in unauthenticated:
                    connection.close()
        return peers

    def _raise_if_closed(self) -> None:
        if self._closed:
            raise ConnectionError("the training was stopped")

    def _connect(
        self, address: Address, ranks: tuple[int, int], secret: bytes, deadline: float
    ) -> socket.socket:
        """Connect to a worker of lower rank, with mutual authentication."""
        connection = socket.create_connection(address, timeout=max(0.1, deadline - time.monotonic()))
        try:
            magic, theirs = HELLO.unpack(self._receive(connection, HELLO.size, deadline))
            if magic != MAGIC:
                raise OSError(f"{address[0]}:{address[1]} is not a worker of this training")
            nonces = secrets.token_bytes(NONCE), theirs
            connection.sendall(PROOF.pack(ranks[0], nonces[0], _proof(secret, b"connect", ranks, nonces)))
            proof = self._receive(connection, 32, deadline)
            if not hmac.compare_digest(proof, _proof(secret, b"accept", ranks, nonces)):
                raise OSError(f"{address[0]}:{address[1]} does not know the secret of this training")
        except BaseException:
            connection.close()
            raise
        return connection

    def _receive(self, connection: socket.socket, size: int, deadline: float) -> bytes:
        """Receive ``size`` bytes from an unauthenticated connection."""
        received = b""
        while len(received) < size:
            self._raise_if_closed()
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError("a worker does not respond")
            connection.settimeout(min(left, POLL))
            try:
                more = connection.recv(size - len(received))
            except TimeoutError:
                continue
            if not more:
                raise ConnectionError("a worker closed the connection")
            received += more
        return received

    def _admit(self, selector: Any, unauthenticated: dict[socket.socket, _Unauthenticated]) -> None:
        try:
            connection, _ = self._socket.accept()
        except OSError:  # the connection is gone again
            return
        connection.setblocking(False)
        state = _Unauthenticated(connection)
        try:
            connection.send(HELLO.pack(MAGIC, state.nonce))
        except OSError:
            connection.close()
            return
        if len(unauthenticated) >= MAX_UNAUTHENTICATED:
            _drop(selector, unauthenticated, next(iter(unauthenticated)))
        unauthenticated[connection] = state
        selector.register(connection, selectors.EVENT_READ)


class _Unauthenticated:
    """An accepted connection that is not authenticated yet."""

    def __init__(self, connection: socket.socket) -> None:
        self.nonce = secrets.token_bytes(NONCE)
        self.deadline = time.monotonic() + HANDSHAKE_TIMEOUT
        self._connection = connection
        self._received = b""

    def read(self, secret: bytes, rank: int, size: int) -> int | None:
        """Read the proof; returns the peer's rank, None while incomplete, or -1 if the connection must be closed."""
        try:
            received = self._connection.recv(PROOF.size - len(self._received))
        except BlockingIOError:
            return None
        except OSError:
            return -1
        self._received += received
        if not received:
            return -1
        if len(self._received) < PROOF.size:
            return None
        other, nonce, proof = PROOF.unpack(self._received)
        ranks, nonces = (other, rank), (nonce, self.nonce)
        if not hmac.compare_digest(proof, _proof(secret, b"connect", ranks, nonces)):
            return -1
        if not rank < other < size:
            return -1
        try:
            self._connection.send(_proof(secret, b"accept", ranks, nonces))
        except OSError:
            return -1
        return int(other)


def _drop(
    selector: Any, unauthenticated: dict[socket.socket, _Unauthenticated], connection: socket.socket
) -> None:
    selector.unregister(connection)
    del unauthenticated[connection]
    connection.close()


Room = Callable[[int, int], memoryview]
"""A buffer of that size for an array from a worker, by rank."""


def _new_room(rank: int, size: int) -> memoryview:
    return memoryview(bytearray(size))


class SocketCommunicator:
    """See :class:`~sparseleaf.distributed.communicator.Communicator`: workers connected through their listeners."""

    def __init__(self, rank: int, size: int, peers: dict[int, socket.socket]) -> None:
        self.rank = rank
        self.size = size
        self.traffic = Traffic()
        self._peers = peers
        self._scratch: dict[int, bytearray] = {}
        self._closed = False
        for peer in peers.values():
            peer.setblocking(False)
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, value in KEEPALIVE.items():
                if hasattr(socket, name):  # platform-dependent
                    peer.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def allreduce(self, values: Array, op: Reduction = "sum") -> Array:
        """See :class:`~sparseleaf.distributed.communicator.Communicator`."""
        if values.nbytes <= SMALL or self.size == 1:
            return _reduced(self.allgather(values), op)
        parts = np.array_split(values.reshape(-1), self.size)
        share = _reduced(self.alltoall(parts), op)
        return np.concatenate(self.allgather(share)).reshape(values.shape)

    def reduce_scatter(self, values: Array, counts: Sequence[int]) -> Array:
        """See :class:`~sparseleaf.distributed.communicator.Communicator`."""
        parts = blocks(values, counts)
        messages = {rank: _Message.of(parts[rank]) for rank in self._peers}
        total = parts[self.rank]
        for part in self._exchange(messages, set(self._peers), self._scratch_of).values():
            total += part
        return total

    def allgather(self, value: Value) -> list[Value]:
        """See :class:`~sparseleaf.distributed.communicator.Communicator`."""
        message = _Message.of(value)
        received = self._exchange(dict.fromkeys(self._peers, message), set(self._peers))
        return [value if rank == self.rank else received[rank] for rank in range(self.size)]

    def alltoall(self, values: Sequence[Value]) -> list[Value]:
        """See :class:`~sparseleaf.distributed.communicator.Communicator`."""
        messages = {rank: _Message.of(values[rank]) for rank in self._peers}
        received = self._exchange(messages, set(self._peers))
        return [values[rank] if rank == self.rank else received[rank] for rank in range(self.size)]

    def broadcast(self, value: Value, root: int = 0) -> Value:
        """See :class:`~sparseleaf.distributed.communicator.Communicator`."""
        if self.rank == root:
            self._exchange(dict.fromkeys(self._peers, _Message.of(value)), set())
            return value
        received: Value = self._exchange({}, {root})[root]
        return received

    def close(self) -> None:
        """See :class:`~sparseleaf.distributed.communicator.Communicator`; thread-safe."""
        self._closed = True
        for peer in self._peers.values():
            with suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)  # wakes a waiting thread
            peer.close()

    def _scratch_of(self, rank: int, size: int) -> memoryview:
        """Reusable buffer for an array from that worker, valid until its next message.

        Where freed memory is returned to the system at once, as in Dask's workers, page faults cost more than the sum.
        """
        if rank not in self._scratch or len(self._scratch[rank]) < size:
            self._scratch[rank] = bytearray(size)
        return memoryview(self._scratch[rank])[:size]

    def _exchange(
        self, messages: dict[int, _Message], senders: set[int], room: Room = _new_room
    ) -> dict[int, Any]:
        """Send the messages and receive one from every sender, with its arrays in ``room(rank, size)``."""
        with self.traffic.timed():
            try:
                readers = self._transfer(messages, senders, room)
                return {rank: reader.value() for rank, reader in readers.items()}
            except BaseException as error:
                stopped = self._closed
                self.close()  # messages are incomplete: no worker can continue
                if stopped or isinstance(error, OSError):
                    raise WorkerLostError(f"a worker is gone: {error}") from None
                raise

    def _transfer(self, messages: dict[int, _Message], senders: set[int], room: Room) -> dict[int, _Reader]:
        sending = {rank: message.views() for rank, message in messages.items()}
        receiving = {rank: _Reader(partial(room, rank)) for rank in senders}
        self.traffic.sent += sum(message.size for message in messages.values())
        with selectors.DefaultSelector() as selector:
            for rank in {*sending, *receiving}:
                selector.register(self._peers[rank], _events(rank in sending, rank in receiving), rank)
            unread = set(receiving)
            while sending or unread:
                ready = selector.select(POLL)
                if self._closed:
                    raise WorkerLostError("the training was stopped")
                for key, events in ready:
                    rank, peer = key.data, self._peers[key.data]
                    if events & selectors.EVENT_WRITE and rank in sending and _send(peer, sending[rank]):
                        del sending[rank]
                    if events & selectors.EVENT_READ and rank in unread and receiving[rank].read(peer):
                        unread.remove(rank)
                    interest = _events(rank in sending, rank in unread)
                    if interest == 0:
                        selector.unregister(peer)
                    elif interest != key.events:
                        selector.modify(peer, interest, rank)
        self.traffic.received += sum(reader.size for reader in receiving.values())
        return receiving


def _events(sends: bool, receives: bool) -> int:
    return selectors.EVENT_WRITE * sends | selectors.EVENT_READ * receives


def _reduced(arrays: Sequence[Array], op: Reduction) -> Array:
    """Reduce into a new array."""
    total = arrays[0].copy()
    for other in arrays[1:]:
        UFUNCS[op](total, other, out=total)
    return total


# --- messages: header, lengths of buffers, pickle, buffers


class _Message:
    def __init__(self, parts: list[memoryview]) -> None:
        self._parts = parts
        self.size = sum(part.nbytes for part in parts)

    @classmethod
    def of(cls, value: Any) -> _Message:
        buffers: list[pickle.PickleBuffer] = []
        pickled = pickle.dumps(value, 5, buffer_callback=buffers.append)
        raw = [buffer.raw() for buffer in buffers]
        lengths = b"".join(LENGTH.pack(part.nbytes) for part in raw)
        head = HEADER.pack(len(raw), len(pickled)) + lengths + pickled
        return cls([memoryview(head), *(part for part in raw if part.nbytes)])

    def views(self) -> list[memoryview]:
        return list(self._parts)


MAX_VIEWS = 64
"""Maximum number of buffers per system call."""


def _send(peer: socket.socket, views: list[memoryview]) -> bool:
    """Send what the socket accepts; returns whether the message is complete."""
    try:
        sent = peer.sendmsg(views[:MAX_VIEWS])
    except BlockingIOError:
        return False
    while views and sent >= views[0].nbytes:
        sent -= views.pop(0).nbytes
    if views:
        views[0] = views[0][sent:]
    return not views


class _Reader:
    """Incremental reader of one message."""

    def __init__(self, room: Callable[[int], memoryview]) -> None:
        self.size = 0
        self._room = room
        self._parts: list[memoryview] = []
        self._steps = self._read()
        self._unfilled = next(self._steps)

    def read(self, peer: socket.socket) -> bool:
        """Read what is available; returns whether the message is complete."""
        try:
            while True:
                count = peer.recv_into(self._unfilled)
                if not count:
                    raise ConnectionError("a worker closed the connection")
                self.size += count
                self._unfilled = self._unfilled[count:]
                if not self._unfilled.nbytes:
                    self._unfilled = next(self._steps)
        except BlockingIOError:
            return False
        except StopIteration:
            return True

    def value(self) -> Any:
        pickled, *buffers = self._parts
        return pickle.loads(pickled, buffers=buffers)

    def _read(self) -> Iterator[memoryview]:
        """Yield a buffer to fill, part by part of the message."""
        head = bytearray(HEADER.size)
        yield memoryview(head)
        n_buffers, n_pickled = HEADER.unpack(head)
        lengths = bytearray(n_buffers * LENGTH.size)
        if n_buffers:
            yield memoryview(lengths)
        self._parts.append(memoryview(bytearray(n_pickled)))
        yield self._parts[0]
        for (size,) in LENGTH.iter_unpack(lengths):
            self._parts.append(self._room(size))
            if size:
                yield self._parts[-1]
