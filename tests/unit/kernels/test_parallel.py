"""The thread pool behind every kernel."""

import multiprocessing
import subprocess
import sys
import threading
import warnings

import numpy as np
import pytest

from sparseleaf import _kernels


def product(n_threads, rows=1_000):
    """A kernel whose tasks are many and whose result is known."""
    X = np.arange(rows * 3, dtype=np.float32).reshape(rows, 3)
    out = np.empty((rows, 2), np.float32)
    W = np.array([[1, 0], [0, 1], [1, 1]], np.float32)
    _kernels.dense_times_dense(X, W, out, n_threads)
    return np.array_equal(out, X @ W)


def answer_in_child(queue):
    queue.put(product(4))


@pytest.mark.parametrize("n_threads", [1, 2, 3, 8, 64])
def test_every_task_is_done_for_any_number_of_threads(n_threads):
    for rows in (0, 1, 63, 64, 65, 1_000):
        assert product(n_threads, rows)


def test_many_callers_at_once_share_the_pool():
    answers = []
    callers = [
        threading.Thread(target=lambda: answers.extend(product(3) for _ in range(50))) for _ in range(8)
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert answers == [True] * 400


def test_an_error_in_a_task_reaches_the_caller_and_the_pool_goes_on():
    indptr = np.arange(1_001, dtype=np.int64)
    indices = np.full(1_000, 5, np.int32)
    out = np.empty((1_000, 2), np.float32)
    for _ in range(20):
        with pytest.raises(ValueError, match="a feature beyond the rows of W"):
            _kernels.csr_times_dense(
                indptr, indices, np.ones(1_000, np.float32), np.ones((3, 2), np.float32), out, 4
            )
    assert product(4)


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="needs fork")
def test_a_forked_child_has_threads_of_its_own():
    assert product(4)  # the parent's threads exist, and the child will have none of them
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python warns of forks beside threads
        child = context.Process(target=answer_in_child, args=(queue,))
        child.start()
    assert queue.get(timeout=60)
    child.join(60)
    assert child.exitcode == 0


EXIT_INSIDE_A_KERNEL = """
import threading
import numpy as np
from sparseleaf import _kernels

X, W = np.ones((3_000, 100), np.float32), np.ones((100, 20), np.float32)
inside = threading.Semaphore(0)

def work():
    out = np.empty((len(X), W.shape[1]), np.float32)
    while True:
        _kernels.dense_times_dense(X, W, out, 2)
        inside.release()

for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
for _ in range(40):
    inside.acquire()
"""


def test_python_may_end_while_daemon_threads_are_inside_a_kernel():
    for _ in range(3):
        ended = subprocess.run(
            [sys.executable, "-c", EXIT_INSIDE_A_KERNEL], capture_output=True, text=True, timeout=60
        )
        assert (ended.returncode, ended.stderr) == (0, "")


def test_the_thread_that_ends_python_may_still_call_kernels():
    # functions registered before ours are called after it
    script = "import atexit; atexit.register(lambda: exec(late)); late = 'pass'\n" + EXIT_INSIDE_A_KERNEL
    script += "\nlate = '_kernels.dense_times_dense(X, W, np.empty((len(X), 20), np.float32), 2); print(1)'"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "1\n", "")
