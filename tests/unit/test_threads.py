"""Work on several threads gives what one gives."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import scipy.sparse as sp

from sparseleaf import _kernels
from sparseleaf._threads import fill_rows, in_threads, sparse_product, started, take_rows


def test_results_come_in_order_and_errors_through():
    assert in_threads(lambda n: n * n, range(50), 4) == [n * n for n in range(50)]
    assert in_threads(lambda n: n, [], 4) == []
    with pytest.raises(ZeroDivisionError):
        in_threads(lambda n: 1 / n, [1, 0, 2], 2)


@pytest.mark.parametrize("shape", [(40, 30, 20), (1, 5, 3), (0, 5, 3), (7, 0, 3)])
@pytest.mark.parametrize("n_jobs", [1, 2, 5])
def test_a_sparse_product_is_that_of_one_thread_to_the_bit(shape, n_jobs):
    n, inner, m = shape
    left = sp.random(n, inner, 0.3, format="csr", dtype=np.float32, random_state=0)
    right = sp.random(inner, m, 0.3, format="csr", dtype=np.float32, random_state=1)
    found, wanted = sparse_product(left, right, n_jobs), left @ right
    assert found.shape == wanted.shape
    for name in ("indptr", "indices", "data"):  # sums of a later product depend on the order of the entries
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))
    assert found.dtype == wanted.dtype


def test_invalid_factors_of_a_product_are_refused():
    indptr, indices, data = np.array([0, 1]), np.zeros(1, np.int32), np.ones(1, np.float32)
    for left in ((indptr + 1, indices, data), (indptr, indices + 1, data), (indptr, indices[:0], data)):
        with pytest.raises(ValueError, match=r"indptr|indices"):
            _kernels.csr_product(*left, indptr, indices, data, 1, 2)
    with pytest.raises(ValueError, match="indices"):
        _kernels.csr_product(indptr, indices, data, indptr, indices + 1, data, 1, 2)


@pytest.mark.parametrize("n_rows", [0, 3, 40_000])
def test_rows_are_filled_and_taken(n_rows):
    filled, row = np.empty((n_rows, 3), np.float32), np.array([1, 2, 3], np.float32)
    fill_rows(filled, row, 3)
    np.testing.assert_array_equal(filled, np.tile(row, (n_rows, 1)))
    rng = np.random.default_rng(0)
    X, rows = rng.random((100, 3), np.float32), rng.integers(0, 100, n_rows)
    np.testing.assert_array_equal(take_rows(X, rows, 3), X[rows])


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_started_work_is_done_once_and_its_errors_are_raised(n_jobs):
    calls = []

    def work():
        calls.append(threading.current_thread() is threading.main_thread())
        return len(calls)

    wait = started(work, n_jobs)
    assert [wait(), wait()] == [1, 1]
    assert calls == [n_jobs == 1]
    with pytest.raises(ZeroDivisionError):
        started(lambda: 1 // 0, n_jobs)()
