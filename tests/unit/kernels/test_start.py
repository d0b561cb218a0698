"""The sparse state before the first tree, against numpy; numbers of rows by column."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from sparseleaf import _kernels
from sparseleaf._arrays import column_counts, csr_parts

TRUTH_BIT = np.uint32(1 << 31)


def naive_ranked(rows, rank_of, width):
    """Entries as keys, row · width + rank, increasing, and their values."""
    ranks = rank_of[rows.indices]
    keys = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr)) * width + ranks
    keys, values = keys[ranks >= 0], rows.data[ranks >= 0]
    order = np.argsort(keys)
    return keys[order], values[order]


def naive_start(targets, scores, rank_of, width):
    (truth, _), (before, values) = (naive_ranked(rows, rank_of, width) for rows in (targets, scores))
    keys = np.union1d(truth, before)
    start = np.zeros(len(keys), np.float32)
    start[np.searchsorted(keys, before)] = values
    true = np.where(np.isin(keys, truth), TRUTH_BIT, np.uint32(0))
    indptr = np.searchsorted(keys, np.arange(targets.shape[0] + 1) * width)
    return indptr, (keys % width).astype(np.uint32) | true, start


@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 7, 400]), st.booleans())
def test_blocks_are_those_of_numpy_for_any_number_of_threads(seed, n_rows, continued):
    rng = np.random.default_rng(seed)
    n_labels = 12
    targets, scores = (
        sp.random(n_rows, n_labels, 0.3, "csr", np.float32, random_state=rng) for _ in range(2)
    )
    rank_of = rng.permutation(n_labels).astype(np.int32) - 4
    rank_of[rank_of < 0] = -1
    before = scores if continued else sp.csr_matrix((0, n_labels), dtype=np.float32)
    begin = n_rows // 3
    wanted = naive_start(
        targets[begin:], scores[begin:] if continued else sp.csr_matrix((0, n_labels)), rank_of, n_labels
    )
    for n_jobs in (1, 3):
        block = _kernels.start_rows(
            *csr_parts(targets)[:2], *csr_parts(before), rank_of, begin, n_rows, n_jobs
        )
        for array, other in zip(block, wanted, strict=True):
            np.testing.assert_array_equal(array, other)


def test_invalid_rows_are_refused():
    indptr, labels, none = np.array([0, 1, 2]), np.array([0, 5], np.int32), np.empty(0, np.float32)
    before, rank_of = (np.zeros(1, np.int64), np.empty(0, np.int32), none), np.zeros(3, np.int32)
    with pytest.raises(ValueError, match="labels"):
        _kernels.start_rows(indptr, labels, *before, rank_of, 0, 2, 1)
    for begin, end in ((0, 3), (-1, 1), (2, 1)):
        with pytest.raises(ValueError, match="begin, end"):
            _kernels.start_rows(indptr, labels, *before, rank_of, begin, end, 1)
    for broken in ([0, 3, 2], [-1, 1, 2], [0, 1, 3]):
        with pytest.raises(ValueError, match="indptr"):
            _kernels.start_rows(np.array(broken), labels, *before, rank_of, 0, 2, 1)
    with pytest.raises(ValueError, match="both matrices"):
        _kernels.start_rows(indptr, labels, np.array([0, 0]), *before[1:], rank_of, 0, 2, 1)
    with pytest.raises(ValueError, match="equal sizes"):
        _kernels.start_rows(indptr, labels, before[0], labels, none, rank_of, 0, 2, 1)


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_columns_are_counted(n_jobs):
    matrix = sp.random(20_000, 30, 0.2, "csr", random_state=0)
    units = np.random.default_rng(0).integers(0, 2**40, matrix.shape[0])
    np.testing.assert_array_equal(column_counts(matrix, n_jobs), np.bincount(matrix.indices, minlength=30))
    sums = np.zeros(30, np.int64)
    np.add.at(sums, matrix.indices, np.repeat(units, np.diff(matrix.indptr)))
    np.testing.assert_array_equal(column_counts(matrix, n_jobs, units), sums)


def test_counts_of_invalid_columns_are_refused():
    indptr, indices, none = np.array([0, 2]), np.array([0, 3], np.int32), np.empty(0, np.int64)
    with pytest.raises(ValueError, match="indices"):
        _kernels.count_columns(indptr, indices, none, np.empty(3, np.int64), 1)
    with pytest.raises(ValueError, match="units"):
        _kernels.count_columns(indptr, indices, np.ones(2, np.int64), np.empty(4, np.int64), 1)
