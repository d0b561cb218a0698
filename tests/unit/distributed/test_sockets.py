"""Workers that meet over TCP: collectives are numpy's, strangers are kept out, nobody waits for one that is gone."""

import os
import secrets
import socket
import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import collectives
from sparseleaf.distributed import sockets
from sparseleaf.distributed.communicator import LocalCommunicator, WorkerLostError
from sparseleaf.distributed.sockets import HELLO, PROOF, Listener, _proof
from workers import HOST, SECRET, run_group, run_workers


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 5), st.integers(0, 2**32))
def test_collectives_are_numpys(size, seed):
    run_workers(size, lambda comm: [collectives.check_all(comm, seed + i) for i in range(3)])


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32))
def test_collectives_of_one_worker_return_their_input(seed):
    collectives.check_all(LocalCommunicator(), seed)


def test_messages_larger_than_what_the_system_buffers():
    """Every worker sends before it could have read: a blocking send would wait for ever."""

    def work(comm):
        found = comm.alltoall([np.full(3_000_000, comm.rank, np.int32)] * comm.size)
        return [int(array[0]) for array in found], comm.traffic

    for rank, (found, traffic) in enumerate(run_workers(3, work)):
        assert found == [0, 1, 2]
        assert 24_000_000 <= traffic.sent == traffic.received < 24_001_000, rank
        assert traffic.waiting > 0


def test_a_worker_that_goes_ahead_does_not_mix_its_messages():
    def work(comm):
        if comm.rank == 1:
            time.sleep(0.05)
        return [comm.broadcast(number if comm.rank == 0 else None) for number in range(50)] + comm.allgather(
            comm.rank
        )

    assert run_workers(3, work) == [[*range(50), 0, 1, 2]] * 3


# --- workers that are gone


@pytest.mark.parametrize("gone", [0, 1, 2])
def test_a_worker_that_is_gone_ends_the_collectives_of_all(gone):
    """Those that wait for another one, which goes on waiting itself, too."""

    def work(comm):
        comm.allgather(0)
        if comm.rank == gone:
            comm.close()
            return "gone"
        comm.broadcast("something", root=(gone + 1) % 3)
        return comm.allgather(1)

    found = run_group(3, work)
    assert [type(one) for rank, one in enumerate(found) if rank != gone] == [WorkerLostError] * 2


def test_a_communicator_that_is_closed_by_another_thread_waits_no_more():
    def work(comm):
        if comm.rank == 1:
            threading.Timer(0.1, comm.close).start()
            return comm.allgather("waits for an answer that does not come")
        return [comm.broadcast(None, root=1) for _ in range(2)]

    assert [type(one) for one in run_group(2, work)] == [WorkerLostError] * 2


class Unreadable:
    def __reduce__(self):
        return int, ("not a number",)


def test_what_cannot_be_read_is_said_and_ends_all():
    def work(comm):
        found = comm.allgather(Unreadable() if comm.rank == 0 else None)
        return comm.allgather(found)

    found = run_group(3, work)
    assert [type(one) for one in found] == [WorkerLostError, ValueError, ValueError]


def test_workers_that_do_not_come_are_not_waited_for():
    listener, absent = Listener(HOST), Listener(HOST)
    try:
        for rank in (0, 1):
            addresses = [absent.address] * 2
            addresses[rank] = listener.address
            with pytest.raises(WorkerLostError, match=f"worker {rank} could not connect to the others"):
                listener.connect(rank, addresses, SECRET, timeout=0.3)
            listener = Listener(HOST)
    finally:
        absent.close()
        listener.close()


def test_nothing_is_left_behind():
    descriptors = Path(f"/proc/{os.getpid()}/fd")
    if not descriptors.is_dir():
        pytest.skip("there is no /proc")
    before, threads = len(list(descriptors.iterdir())), threading.active_count()
    run_workers(4, lambda comm: comm.allgather(0))
    assert len(list(descriptors.iterdir())) == before
    assert threading.active_count() == threads


# --- strangers


def hello(connection):
    _, nonce = HELLO.unpack(connection.recv(HELLO.size, socket.MSG_WAITALL))
    return nonce


def say_nothing(connection):
    pass


def hang_up(connection):
    connection.close()


def say_garbage(connection):
    connection.sendall(secrets.token_bytes(10_000))


def say_a_huge_length(connection):
    connection.sendall(struct.pack("!IQ", 2**32 - 1, 2**64 - 1) * 10)


def prove_with_another_secret(connection):
    ranks, nonces = (1, 0), (b"n" * 32, hello(connection))
    connection.sendall(PROOF.pack(1, nonces[0], _proof(b"another", b"connect", ranks, nonces)))


def prove_nothing(connection):
    hello(connection)
    connection.sendall(PROOF.pack(1, b"n" * 32, b"\0" * 32))


def claim_another_rank(connection):
    """One who knows the secret of this training, but none of its ranks."""
    ranks, nonces = (7, 0), (b"n" * 32, hello(connection))
    connection.sendall(PROOF.pack(7, nonces[0], _proof(SECRET, b"connect", ranks, nonces)))


STRANGERS = [
    say_nothing,
    hang_up,
    say_garbage,
    say_a_huge_length,
    prove_with_another_secret,
    prove_nothing,
    claim_another_rank,
]


@pytest.mark.parametrize("stranger", STRANGERS)
def test_strangers_are_kept_out_and_do_not_disturb(stranger, monkeypatch):
    loads = []
    real = sockets.pickle.loads
    monkeypatch.setattr(
        sockets.pickle, "loads", lambda *args, **more: loads.append(args) or real(*args, **more)
    )
    listeners = [Listener(HOST) for _ in range(2)]
    addresses = [listener.address for listener in listeners]
    first = threading.Thread(target=lambda: found.append(listeners[0].connect(0, addresses, SECRET, 20)))
    found = []
    with socket.create_connection(addresses[0], timeout=10) as connection:
        first.start()
        stranger(connection)
        time.sleep(0.05)
        assert loads == []  # nothing is unpickled for one who has not proved to know the secret
        with listeners[1].connect(1, addresses, SECRET, 20) as second:
            first.join(20)
            with found[0], ThreadPoolExecutor(1) as pool:
                other = pool.submit(found[0].allgather, "zero")
                assert second.allgather("one") == ["zero", "one"]
                assert other.result(20) == ["zero", "one"]
        if stranger is not hang_up:
            assert closed(connection)


def closed(connection):
    try:
        while connection.recv(1000):
            pass
    except ConnectionResetError:
        pass
    return True


def test_a_silent_connection_is_closed(monkeypatch):
    monkeypatch.setattr(sockets, "HANDSHAKE_TIMEOUT", 0.1)
    listeners = [Listener(HOST) for _ in range(2)]
    addresses = [listener.address for listener in listeners]
    with socket.create_connection(addresses[0], timeout=10) as connection, ThreadPoolExecutor(1) as pool:
        first = pool.submit(listeners[0].connect, 0, addresses, SECRET, 20)
        assert closed(connection)
        assert not first.done()  # who listens still does
        with listeners[1].connect(1, addresses, SECRET, 20), first.result(20):
            pass


def wait_in_vain(listener, timeout):
    with pytest.raises(WorkerLostError):
        listener.connect(0, [listener.address, (HOST, 1)], SECRET, timeout)


def test_many_silent_connections_do_not_keep_workers_out(monkeypatch):
    monkeypatch.setattr(sockets, "MAX_UNAUTHENTICATED", 3)
    listeners = [Listener(HOST) for _ in range(2)]
    addresses = [listener.address for listener in listeners]
    silent = [socket.create_connection(addresses[0], timeout=10) for _ in range(20)]
    try:
        with ThreadPoolExecutor(2) as pool:
            found = list(
                pool.map(lambda rank: listeners[rank].connect(rank, addresses, SECRET, 20), range(2))
            )
            assert list(pool.map(lambda comm: comm.allgather(comm.rank), found)) == [[0, 1], [0, 1]]
        for comm in found:
            comm.close()
    finally:
        for connection in silent:
            connection.close()


def test_what_a_worker_said_cannot_be_said_again():
    """A recorded proof is of no use: the listener's nonce is another one."""
    recorded = []
    listener = Listener(HOST)
    waiting = threading.Thread(target=wait_in_vain, args=(listener, 2.0))
    waiting.start()
    server = socket.create_server((HOST, 0))

    def record():
        """Stands between a worker and the listener, and hands on what they say."""
        inner, _ = server.accept()
        with inner, socket.create_connection(listener.address, timeout=10) as outer:
            inner.sendall(outer.recv(HELLO.size, socket.MSG_WAITALL))
            recorded.append(inner.recv(PROOF.size, socket.MSG_WAITALL))

    recorder = threading.Thread(target=record)
    recorder.start()
    other = Listener(HOST)
    with pytest.raises(WorkerLostError):
        other.connect(1, [server.getsockname(), other.address], SECRET, 5)
    recorder.join(20)
    server.close()
    with socket.create_connection(listener.address, timeout=10) as connection:
        hello(connection)
        connection.sendall(recorded[0])
        assert connection.recv(32) == b""  # closed without a proof of the listener's
    waiting.join(20)


@pytest.mark.parametrize("secrets_", [(b"a" * 32, b"b" * 32)])
def test_workers_of_two_trainings_do_not_meet(secrets_):
    listeners = [Listener(HOST) for _ in range(2)]
    addresses = [listener.address for listener in listeners]

    def run(rank):
        with pytest.raises(WorkerLostError):
            listeners[rank].connect(rank, addresses, secrets_[rank], 1.0)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(run, range(2)))


def test_a_listener_that_does_not_know_the_secret_is_refused():
    server = socket.create_server((HOST, 0))

    def pretend():
        connection, _ = server.accept()
        with connection:
            connection.sendall(HELLO.pack(sockets.MAGIC, b"n" * 32))
            connection.recv(PROOF.size, socket.MSG_WAITALL)
            connection.sendall(b"\0" * 32)

    thread = threading.Thread(target=pretend)
    thread.start()
    listener = Listener(HOST)
    with pytest.raises(WorkerLostError, match="does not know the secret"):
        listener.connect(1, [server.getsockname(), listener.address], SECRET, 5)
    thread.join(20)
    server.close()
