"""Communicator over TCP, for workers that a cluster scheduler such as Dask has started.

Each pair of workers has one connection, opened by the worker of the higher rank. Before anything else is read from a
connection, both ends prove that they know the secret of this training (HMAC-SHA256 over fresh nonces of both), in
messages of fixed size and within a time limit. What follows is pickled, with arrays as raw bytes beside the pickle.
Connections are authenticated, not encrypted.

A collective sends and receives at the same time in the calling thread: there are no threads of its own, and no worker
waits for one that is gone, since the connections of a worker end with it and each worker that sees one end closes its
own.
"""

from __future__ import annotations

import hmac
import pickle
import secrets
import selectors
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np

from sparseleaf.distributed.communicator import UFUNCS, Reduction, Traffic, WorkerLostError, blocks

if TYPE_CHECKING:
    from sparseleaf._arrays import Array

Value = TypeVar("Value")

Address = tuple[str, int]

START_TIMEOUT = 300.0
"""Seconds within which all workers must have met: a cluster may be busy."""

HANDSHAKE_TIMEOUT = 10.0
"""Seconds after which a connection that has not proved to know the secret is closed."""

MOST_UNPROVED = 64
"""Connections that may be in that state at once; the oldest makes room for the next."""

KEEPALIVE = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
"""When the system tries whether the other machine is still there: after 15 s of silence, three times in 15 s."""

SMALL = 1 << 14
"""Bytes of an array up to which every worker sums all of it; a larger one is summed in shares."""

POLL = 0.5
"""Seconds after which a worker that waits looks whether its communicator was closed."""

MAGIC = b"sparseleaf/1"
NONCE = 32
HELLO = struct.Struct(f"!{len(MAGIC)}s{NONCE}s")
PROOF = struct.Struct(f"!I{NONCE}s32s")
HEADER = struct.Struct("!IQ")
LENGTH = struct.Struct("!Q")


def _proof(secret: bytes, role: bytes, ranks: tuple[int, int], nonces: tuple[bytes, bytes]) -> bytes:
    """What only one who knows the secret can say of this connection; the role keeps it from being sent back."""
    said = MAGIC + role + struct.pack("!II", *ranks) + nonces[0] + nonces[1]
    return hmac.digest(secret, said, "sha256")


class Listener:
    """A port of this worker at which the others meet it.

    Parameters
    ----------
    host : str
        The worker's own address: others connect to it.

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
        """Meet the workers at the other addresses; the port is closed afterwards."""
        deadline = time.monotonic() + timeout
        peers: dict[int, socket.socket] = {}
        try:
            for other in range(rank):
                peers[other] = self._meet(addresses[other], (rank, other), secret, deadline)
            peers |= self._accept(rank, len(addresses), secret, deadline)
        except BaseException as error:
            for peer in peers.values():
                peer.close()
            if isinstance(error, OSError) or self._closed:
                raise WorkerLostError(f"worker {rank} could not meet the others: {error}") from None
            raise
        finally:
            self.close()
        return SocketCommunicator(rank, len(addresses), peers)

    def close(self) -> None:
        """Free the port; may be called by any thread."""
        self._closed = True
        self._socket.close()

    def _accept(self, rank: int, size: int, secret: bytes, deadline: float) -> dict[int, socket.socket]:
        """Connections of the workers of higher rank; all others are closed."""
        peers: dict[int, socket.socket] = {}
        unproved: dict[socket.socket, _Unproved] = {}
        self._socket.setblocking(False)
        with selectors.DefaultSelector() as selector:
            selector.register(self._socket, selectors.EVENT_READ)
            try:
                while len(peers) < size - 1 - rank:
                    if time.monotonic() > deadline:
                        raise TimeoutError(f"{size - 1 - rank - len(peers)} workers did not connect")
                    self._look_whether_closed()
                    for key, _ in selector.select(min(POLL, max(0.0, deadline - time.monotonic()))):
                        if key.fileobj is self._socket:
                            self._admit(selector, unproved)
                            continue
                        connection: Any = key.fileobj
                        found = unproved[connection].read(secret, rank, size)
                        if found is None:
                            continue
                        selector.unregister(connection)
                        del unproved[connection]
                        if found < 0 or found in peers:
                            connection.close()
                        else:
                            peers[found] = connection
                    for connection, state in list(unproved.items()):
                        if time.monotonic() > state.deadline:
                            _drop(selector, unproved, connection)
            except BaseException:
                for peer in peers.values():
                    peer.close()
                raise
            finally:
                for connection in unproved:
                    connection.close()
        return peers

    def _look_whether_closed(self) -> None:
        if self._closed:
            raise ConnectionError("the training was stopped")

    def _meet(
        self, address: Address, ranks: tuple[int, int], secret: bytes, deadline: float
    ) -> socket.socket:
        """A connection to a worker of lower rank that knows the secret."""
        connection = socket.create_connection(address, timeout=max(0.1, deadline - time.monotonic()))
        try:
            magic, theirs = HELLO.unpack(self._receive(connection, HELLO.size, deadline))
            if magic != MAGIC:
                raise OSError(f"{address[0]}:{address[1]} is no worker of this training")
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
        """So many bytes, of a connection whose other end is not trusted yet."""
        said = b""
        while len(said) < size:
            self._look_whether_closed()
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError("a worker does not answer")
            connection.settimeout(min(left, POLL))
            try:
                more = connection.recv(size - len(said))
            except TimeoutError:
                continue
            if not more:
                raise ConnectionError("a worker hung up")
            said += more
        return said

    def _admit(self, selector: Any, unproved: dict[socket.socket, _Unproved]) -> None:
        try:
            connection, _ = self._socket.accept()
        except OSError:  # it is gone again
            return
        connection.setblocking(False)
        state = _Unproved(connection)
        try:
            connection.send(HELLO.pack(MAGIC, state.nonce))
        except OSError:
            connection.close()
            return
        if len(unproved) >= MOST_UNPROVED:
            _drop(selector, unproved, next(iter(unproved)))
        unproved[connection] = state
        selector.register(connection, selectors.EVENT_READ)


class _Unproved:
    """A connection whose other end has yet to prove that it knows the secret."""

    def __init__(self, connection: socket.socket) -> None:
        self.nonce = secrets.token_bytes(NONCE)
        self.deadline = time.monotonic() + HANDSHAKE_TIMEOUT
        self._connection = connection
        self._said = b""

    def read(self, secret: bytes, rank: int, size: int) -> int | None:
        """The rank of the other end; None while it has not said enough, -1 where the connection is to be closed."""
        try:
            said = self._connection.recv(PROOF.size - len(self._said))
        except BlockingIOError:
            return None
        except OSError:
            return -1
        self._said += said
        if not said:
            return -1
        if len(self._said) < PROOF.size:
            return None
        other, nonce, proof = PROOF.unpack(self._said)
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


def _drop(selector: Any, unproved: dict[socket.socket, _Unproved], connection: socket.socket) -> None:
    selector.unregister(connection)
    del unproved[connection]
    connection.close()


class SocketCommunicator:
    """See :class:`~sparseleaf.distributed.communicator.Communicator`: workers that have met at their listeners."""

    def __init__(self, rank: int, size: int, peers: dict[int, socket.socket]) -> None:
        self.rank = rank
        self.size = size
        self.traffic = Traffic()
        self._peers = peers
        self._closed = False
        for peer in peers.values():
            peer.setblocking(False)
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, value in KEEPALIVE.items():
                if hasattr(socket, name):  # not on every system
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
        return _reduced(self.alltoall(blocks(values, counts)), "sum")

    def allgather(self, value: Value) -> list[Value]:
        """See :class:`~sparseleaf.distributed.communicator.Communicator`."""
        message = _Message.of(value)
        found = self._exchange(dict.fromkeys(self._peers, message), set(self._peers))
        return [value if rank == self.rank else found[rank] for rank in range(self.size)]

    def alltoall(self, values: Sequence[Value]) -> list[Value]:
        """See :class:`~sparseleaf.distributed.communicator.Communicator`."""
        messages = {rank: _Message.of(values[rank]) for rank in self._peers}
        found = self._exchange(messages, set(self._peers))
        return [values[rank] if rank == self.rank else found[rank] for rank in range(self.size)]

    def broadcast(self, value: Value, root: int = 0) -> Value:
        """See :class:`~sparseleaf.distributed.communicator.Communicator`."""
        if self.rank == root:
            self._exchange(dict.fromkeys(self._peers, _Message.of(value)), set())
            return value
        found: Value = self._exchange({}, {root})[root]
        return found

    def close(self) -> None:
        """See :class:`~sparseleaf.distributed.communicator.Communicator`; may be called by any thread."""
        self._closed = True
        for peer in self._peers.values():
            with suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)  # a thread that waits for it wakes up
            peer.close()

    def _exchange(self, messages: dict[int, _Message], senders: set[int]) -> dict[int, Any]:
        """Send the messages, and receive one from each of the senders."""
        with self.traffic.timed():
            try:
                readers = self._transfer(messages, senders)
                return {rank: reader.value() for rank, reader in readers.items()}
            except BaseException as error:
                stopped = self._closed
                self.close()  # messages are half sent: no worker can go on from here
                if stopped or isinstance(error, OSError):
                    raise WorkerLostError(f"a worker is gone: {error}") from None
                raise

    def _transfer(self, messages: dict[int, _Message], senders: set[int]) -> dict[int, _Reader]:
        sending = {rank: message.views() for rank, message in messages.items()}
        receiving = {rank: _Reader() for rank in senders}
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
                    wanted = _events(rank in sending, rank in unread)
                    if wanted == 0:
                        selector.unregister(peer)
                    elif wanted != key.events:
                        selector.modify(peer, wanted, rank)
        self.traffic.received += sum(reader.size for reader in receiving.values())
        return receiving


def _events(sends: bool, receives: bool) -> int:
    return selectors.EVENT_WRITE * sends | selectors.EVENT_READ * receives


def _reduced(arrays: Sequence[Array], op: Reduction) -> Array:
    """The reduction, as an array of its own."""
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


MOST_VIEWS = 64
"""Buffers that one system call takes."""


def _send(peer: socket.socket, views: list[memoryview]) -> bool:
    """Send what fits; whether that was the last of it."""
    try:
        sent = peer.sendmsg(views[:MOST_VIEWS])
    except BlockingIOError:
        return False
    while views and sent >= views[0].nbytes:
        sent -= views.pop(0).nbytes
    if views:
        views[0] = views[0][sent:]
    return not views


class _Reader:
    """Reads one message, piece by piece, as it comes."""

    def __init__(self) -> None:
        self.size = 0
        self._parts: list[bytearray] = []
        self._steps = self._read()
        self._wanted = next(self._steps)

    def read(self, peer: socket.socket) -> bool:
        """Read what has come; whether the message is complete."""
        try:
            while True:
                count = peer.recv_into(self._wanted)
                if not count:
                    raise ConnectionError("a worker hung up")
                self.size += count
                self._wanted = self._wanted[count:]
                if not self._wanted.nbytes:
                    self._wanted = next(self._steps)
        except BlockingIOError:
            return False
        except StopIteration:
            return True

    def value(self) -> Any:
        pickled, *buffers = self._parts
        return pickle.loads(pickled, buffers=buffers)

    def _read(self) -> Iterator[memoryview]:
        """Room for what comes next; the room before it has been filled then."""
        head = bytearray(HEADER.size)
        yield memoryview(head)
        n_buffers, n_pickled = HEADER.unpack(head)
        lengths = bytearray(n_buffers * LENGTH.size)
        if n_buffers:
            yield memoryview(lengths)
        for size in (n_pickled, *(length for (length,) in LENGTH.iter_unpack(lengths))):
            self._parts.append(bytearray(size))
            if size:
                yield memoryview(self._parts[-1])
