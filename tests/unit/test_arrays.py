import numpy as np
import scipy.sparse as sp

from sparseleaf import _arrays


def test_number_of_threads(monkeypatch):
    monkeypatch.setattr(_arrays.os, "sched_getaffinity", lambda _: range(8), raising=False)
    counts = [_arrays.effective_n_jobs(n) for n in (None, 0, -1, -2, -8, -99, 1, 3, 16)]
    assert counts == [8, 8, 8, 7, 1, 1, 1, 3, 16]


def test_number_of_threads_without_affinity(monkeypatch):
    """As on macOS, and where not even the number of cores is known."""
    monkeypatch.delattr(_arrays.os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(_arrays.os, "cpu_count", lambda: 6)
    assert [_arrays.effective_n_jobs(n) for n in (None, -2, 3)] == [6, 5, 3]
    monkeypatch.setattr(_arrays.os, "cpu_count", lambda: None)
    assert _arrays.effective_n_jobs(None) == 1


def test_absurd_numbers_of_threads_are_bounded():
    # a thread takes a stack and a slot of the system's; results never depend on their number
    assert 64 <= _arrays.effective_n_jobs(2**31) <= 4096
    assert _arrays.effective_n_jobs(10**30) <= 4096


def test_hashes_of_rows_depend_on_key_and_row_alone():
    whole = _arrays.hash_rows(100, 1, 2)
    np.testing.assert_array_equal(_arrays.hash_numbers(np.arange(50, 80), 1, 2), whole[50:80])
    assert len(np.unique(whole)) == 100
    assert not np.intersect1d(whole, _arrays.hash_rows(100, 2, 1)).size
    assert _arrays.derive_key(-1) == _arrays.derive_key(2**64 - 1)


def test_smallest_hashes():
    hashes = np.array([5, 1, 9, 3, 7], np.uint64)
    assert _arrays.smallest_hashes(hashes, 3).tolist() == [0, 1, 3]


def test_as_csr32_sums_duplicates_and_leaves_the_callers_matrix_alone():
    X = sp.csr_matrix((np.array([1.0, 2.0, 4.0]), np.array([2, 0, 2]), np.array([0, 3])), shape=(1, 3))
    found = _arrays.as_csr32(X)
    assert found.dtype == np.float32
    assert found.toarray().tolist() == [[2, 0, 5]]
    assert X.data.tolist() == [1, 2, 4]


def test_largest_entries_are_those_of_a_stable_sort():
    rng = np.random.default_rng(0)
    for dtype in (np.float32, np.float64, np.int64):
        dense = rng.integers(-3, 4, (40, 12)).astype(dtype)  # many ties
        matrix = sp.csr_matrix(dense)
        for most in (0, 1, 4, 12):
            found = [_arrays.largest_entries(matrix, most, n).toarray() for n in (1, 3)]
            wanted = np.zeros_like(dense)
            for row, values in enumerate(dense):
                kept = np.argsort(-np.abs(values), kind="stable")[:most]
                wanted[row, kept] = values[kept]
            assert np.array_equal(found[0], wanted)
            assert np.array_equal(found[1], wanted)
    assert _arrays.largest_entries(matrix, 12) is matrix
    odd = sp.csr_matrix(np.array([[np.nan, 1, np.inf, 2]]))
    assert _arrays.largest_entries(odd, 2).indices.tolist() == [2, 3]
