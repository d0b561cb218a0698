"""Workers as threads of this process: collectives over a barrier, for tests of what several workers do together."""

from __future__ import annotations

import threading

import numpy as np


class ThreadCommunicator:
    """One of ``size`` workers; see :class:`sparseleaf.distributed.communicator.Communicator`."""

    def __init__(self, rank, barrier, board):
        self.rank = rank
        self.size = barrier.parties
        self.n_calls = 0
        self._barrier = barrier
        self._board = board

    def allgather(self, value):
        self.n_calls += 1
        self._board[self.rank] = value
        self._barrier.wait(30)
        found = list(self._board)
        self._barrier.wait(30)
        return found

    def allreduce(self, values, op="sum"):
        everyone = np.stack(self.allgather(values))
        return (everyone.sum(axis=0) if op == "sum" else everyone.max(axis=0)).astype(values.dtype)

    def reduce_scatter(self, values, counts):
        total = np.sum(self.allgather(values), axis=0, dtype=values.dtype)
        return np.split(total, np.cumsum(counts)[:-1])[self.rank]


def run_workers(size, work):
    """What ``work(communicator)`` returns in each of the workers; the first error is raised."""
    barrier, board = threading.Barrier(size), [None] * size
    found, errors = [None] * size, []

    def run(rank):
        try:
            found[rank] = work(ThreadCommunicator(rank, barrier, board))
        except BaseException as error:
            errors.append(error)
            barrier.abort()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    errors.sort(key=lambda error: isinstance(error, threading.BrokenBarrierError))
    if errors:
        raise errors[0]
    return found
