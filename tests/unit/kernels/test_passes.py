"""Checks of values and copies of rows, compared with numpy and scipy."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sparseleaf import _kernels
from sparseleaf._arrays import by_count, compressed_state, has_nan, special_values
from sparseleaf._threads import fill_rows, take_rows
from sparseleaf.data.checks import check_sparse

THREADS = (1, 3)
CHUNK = 1 << 16
DTYPES = (np.float32, np.float64, np.int32, np.int64, np.int8, np.uint8)
SPECIAL = [0.0, 1.0, -1.0, np.nan, np.inf, -np.inf, np.finfo(np.float32).max, np.finfo(np.float32).tiny]


@pytest.mark.parametrize("n_jobs", THREADS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(values=st.lists(st.sampled_from(SPECIAL), max_size=40))
def test_special_values(values, dtype, n_jobs):
    values = np.array(values, dtype)
    assert _kernels.special_values(values, n_jobs) == (np.isnan(values).any(), np.isinf(values).any())


@pytest.mark.parametrize("n_jobs", THREADS)
@pytest.mark.parametrize("place", [0, CHUNK - 1, CHUNK, 2 * CHUNK + 17])
def test_special_values_of_any_chunk(place, n_jobs):
    values = np.zeros(2 * CHUNK + 18, np.float32)
    values[place] = np.nan
    assert _kernels.special_values(values, n_jobs) == (True, False)
    values[place] = -np.inf
    assert _kernels.special_values(values, n_jobs) == (False, True)


def test_special_values_of_any_array():
    X = np.zeros((4, 3))
    X[2, 1] = np.nan
    for one in (
        X,
        np.asfortranarray(X),
        X[::2],
        X.astype(np.float16),
        X.astype(np.longdouble),
        sp.csr_matrix(X),
    ):
        assert special_values(one) == (True, False)
    assert not has_nan(X[:, 2:])
    assert not has_nan(np.empty((0, 3)))


@pytest.mark.parametrize("n_jobs", THREADS)
@pytest.mark.parametrize("dtype", DTYPES)
@given(values=st.lists(st.sampled_from([0, 1, 1, 1, 2, 127]), max_size=20))
def test_binary_values(values, dtype, n_jobs):
    values = np.array(values, dtype)
    expected = np.isin(values, (0, 1)).all(), (values == 0).any()
    assert _kernels.binary_values(values, n_jobs) == expected


@pytest.mark.parametrize("value", [np.nan, np.inf, -1.0, 0.5])
def test_other_values_are_not_binary(value):
    assert not _kernels.binary_values(np.array([1.0, value, 0.0]), 1)[0]


@st.composite
def compressed(draw):
    """Row pointers and columns, valid or not."""
    n_rows, n_columns = draw(st.integers(0, 4)), draw(st.integers(1, 5))
    sizes = draw(hnp.arrays(np.int64, n_rows, elements=st.integers(0, 3)))
    indptr = np.concatenate(([0], np.cumsum(sizes)))
    indices = draw(hnp.arrays(np.int32, int(indptr[-1]), elements=st.integers(-1, n_columns)))
    return indptr, indices, n_columns


@pytest.mark.parametrize("n_jobs", THREADS)
@given(case=compressed())
def test_csr_state(case, n_jobs):
    indptr, indices, n_columns = case
    valid = bool(((indices >= 0) & (indices < n_columns)).all())
    rows = [indices[a:b] for a, b in pairwise(indptr)]
    increase = all((np.diff(row) > 0).all() for row in rows)
    assert _kernels.csr_state(indptr, indices, n_columns, n_jobs) == (valid, valid and increase)


@pytest.mark.parametrize("indptr", [[], [1, 2], [0, 3, 2], [0, 1, 4], [0, 2]])
def test_row_pointers_that_are_not_valid(indptr):
    indices = np.zeros(3, np.int32)
    assert _kernels.csr_state(np.array(indptr, np.int64), indices, 1, 1) == (False, False)


def test_entries_behind_the_last_row_are_dropped():
    X = sp.csr_matrix(np.eye(3, dtype=np.float32))
    X.indptr[-1] = 2
    assert compressed_state(X) == (False, False)
    assert check_sparse(X, "X").data.tolist() == [1, 1]


def test_the_state_of_a_matrix_is_scipys():
    rng = np.random.default_rng(0)
    for form in (sp.csr_matrix, sp.csc_matrix, sp.csr_array):
        X = form(rng.random((5000, 7)) < 0.3).astype(np.float32)
        assert compressed_state(X, 2) == (True, True)
        X.indices[:2] = X.indices[1::-1]
        X.has_canonical_format = False
        assert compressed_state(X, 2) == (True, False)
        X.indices[0] = 1 << 30
        assert compressed_state(X, 2) == (False, False)
    wide = sp.csr_matrix(np.eye(3))
    wide.indices = wide.indices.astype(np.int64)
    assert compressed_state(wide) == (False, False)  # not known
    assert compressed_state(sp.coo_matrix(np.eye(3))) == (False, False)
    short = sp.csr_matrix(np.eye(3))
    short.data = short.data[:2]
    assert compressed_state(short) == (False, False)


@pytest.mark.parametrize("n_jobs", THREADS)
@pytest.mark.parametrize("dtype", [np.uint8, np.uint32])
def test_count_bins(dtype, n_jobs):
    rng = np.random.default_rng(1)
    bins, searched = rng.integers(0, 4, (3001, 5)).astype(dtype), np.array([0, 3, 1, 9, 2], np.int32)
    counts = np.empty(5, np.int64)
    _kernels.count_bins(bins, searched, counts, n_jobs)
    np.testing.assert_array_equal(counts, (bins == searched).sum(axis=0))


@pytest.mark.parametrize("n_jobs", THREADS)
@pytest.mark.parametrize("dtype", [np.float32, np.int16, np.uint8])
@pytest.mark.parametrize("width", [0, 1, 3, 40_000])
def test_rows(width, dtype, n_jobs):
    rng = np.random.default_rng(2)
    X = rng.integers(0, 100, (9, width)).astype(dtype)
    rows = np.array([8, 0, 0, 3])
    np.testing.assert_array_equal(take_rows(X, rows, n_jobs), X[rows])
    np.testing.assert_array_equal(take_rows(X[:, ::2], rows, n_jobs), X[rows][:, ::2])
    out = np.empty((7, width), dtype)
    fill_rows(out, X[4], n_jobs)
    np.testing.assert_array_equal(out, np.repeat(X[4:5], 7, axis=0))


def test_rows_that_are_not_there():
    with pytest.raises(ValueError, match="rows: must be less"):
        take_rows(np.zeros((2, 2)), np.array([2]), 1)


@given(counts=st.lists(st.sampled_from([0, 1, 2, 7, 2**31 - 1, 2**31, 0.5, 1.5]), max_size=30))
def test_by_count(counts):
    counts = np.array(counts, np.float64)
    np.testing.assert_array_equal(by_count(counts), np.argsort(-counts, kind="stable"))
    whole = counts.astype(np.int64)
    np.testing.assert_array_equal(by_count(whole), np.argsort(-whole, kind="stable"))
