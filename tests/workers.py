"""Workers of a training as threads of this process, connected by sockets."""

from concurrent.futures import ThreadPoolExecutor

from sparseleaf.distributed.communicator import LocalCommunicator
from sparseleaf.distributed.placement import Placement
from sparseleaf.distributed.sockets import Listener

HOST = "127.0.0.1"
SECRET = b"s" * 32

ALONE = Placement.by_rows(LocalCommunicator())


def run_group(size, work, secret=SECRET, timeout=20.0):
    """``work(communicator)`` in a thread for each worker; their results, or the exceptions that ended them."""
    listeners = [Listener(HOST) for _ in range(size)]
    addresses = [listener.address for listener in listeners]

    def run(rank):
        try:
            with listeners[rank].connect(rank, addresses, secret, timeout) as comm:
                return work(comm)
        except Exception as error:
            return error

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(run, range(size)))


def run_workers(size, work):
    """The same, where none may fail."""
    results = run_group(size, work)
    for result in results:
        if isinstance(result, Exception):
            raise result
    return results
