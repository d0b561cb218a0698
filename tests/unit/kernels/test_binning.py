import numpy as np
import pytest
import scipy.sparse as sp

import naive
from sparseleaf import _kernels

F32 = np.float32
TINY = np.float32(1e-45)  # the smallest subnormal
HUGE = np.finfo(np.float32).max


def columns():
    rng = np.random.default_rng(0)
    lucky = np.float32(0.1)
    neighbours = [lucky]
    for _ in range(30):
        neighbours.append(np.nextafter(neighbours[-1], F32(1), dtype=F32))
    return {
        "normal": rng.normal(size=500),
        "few": rng.integers(0, 4, 500),
        "constant": np.full(500, 3.5),
        "zeros and -0": np.tile([0.0, -0.0], 250),
        "heavy zero": np.where(rng.random(500) < 0.8, 0, rng.normal(size=500)),
        "heavy positive": np.where(rng.random(500) < 0.5, 7, rng.exponential(size=500)),
        "negative": -rng.exponential(size=500),
        "missing": np.where(rng.random(500) < 0.3, np.nan, rng.normal(size=500)),
        "all missing": np.full(500, np.nan),
        "neighbours": rng.permutation(np.resize(neighbours, 500)),
        "subnormal": rng.permutation(np.resize([0, TINY, 2 * TINY, 3 * TINY, -TINY], 500)),
        "huge": rng.permutation(np.resize([HUGE, -HUGE, HUGE / 2, 1, np.nextafter(HUGE, F32(0))], 500)),
        "two heavy ends": np.concatenate([np.zeros(200), rng.random(100), np.ones(200)]),
    }


NAMES = list(columns())


def dense(max_bins, n_threads=2):
    X = np.ascontiguousarray(np.array(list(columns().values()), F32).T)
    return X, *_kernels.find_thresholds_dense(X, max_bins, n_threads)


@pytest.mark.parametrize("max_bins", [2, 3, 8, 64, 255, 2**31 - 2])
def test_thresholds_are_the_twins(max_bins):
    X, offsets, thresholds = dense(max_bins)
    assert offsets.dtype == np.int64
    assert thresholds.dtype == np.float32
    for f, name in enumerate(NAMES):
        own = thresholds[offsets[f] : offsets[f + 1]]
        assert own.tolist() == [float(threshold) for threshold in naive.thresholds_of(X[:, f], max_bins)], (
            name
        )
        assert len(own) < max_bins
        assert (np.diff(own) > 0).all()


@pytest.mark.parametrize("max_bins", [8, 2**31 - 2])
def test_thresholds_of_many_rows_are_the_twins(max_bins):
    """Many values are sorted in another way than few."""
    X = np.tile(dense(max_bins)[0], (5, 1))
    X[::2] *= F32(0.75)
    offsets, thresholds = _kernels.find_thresholds_dense(X, max_bins, 2)
    for f, name in enumerate(NAMES):
        own = thresholds[offsets[f] : offsets[f + 1]]
        assert own.tolist() == [float(threshold) for threshold in naive.thresholds_of(X[:, f], max_bins)], (
            name
        )


@pytest.mark.parametrize("max_bins", [2, 8, 2**31 - 2])
def test_sparse_thresholds_are_the_dense_ones(max_bins):
    X, offsets, thresholds = dense(max_bins)
    csc = sp.csc_matrix(X)
    found = _kernels.find_thresholds_csc(csc.indptr.astype(np.int64), csc.data, len(X), max_bins, 2)
    np.testing.assert_array_equal(found[0], offsets)
    np.testing.assert_array_equal(found[1], thresholds)


def test_stored_zeros_are_zeros():
    X = np.array([[0, 1], [2, 0], [0, 3], [5, 0]], F32)
    csc = sp.csc_matrix((X + 1).astype(F32))
    csc.data -= 1  # now every zero is stored
    wanted = _kernels.find_thresholds_dense(X, 10, 1)
    found = _kernels.find_thresholds_csc(csc.indptr.astype(np.int64), csc.data, 4, 10, 1)
    np.testing.assert_array_equal(found[1], wanted[1])


@pytest.mark.parametrize("dtype", [np.uint8, np.uint32])
def test_bins_are_the_twins_dense_and_sparse(dtype):
    X, offsets, thresholds = dense(16)
    # values of other rows too: at the thresholds, one step beside them, beyond all
    beside = [np.nextafter(thresholds, F32(side), dtype=F32) for side in (-np.inf, np.inf)]
    more = np.concatenate([thresholds, *beside, [HUGE, -HUGE, 0, -0.0, np.nan, TINY, -TINY]]).astype(F32)
    X = np.vstack([X, np.repeat(more[:, None], X.shape[1], axis=1)])
    wanted = np.array(
        [[naive.bin_of(x, thresholds[offsets[f] : offsets[f + 1]]) for f, x in enumerate(row)] for row in X]
    )
    out = np.empty(X.shape, dtype)
    _kernels.bin_dense(X, offsets, thresholds, out, 2)
    np.testing.assert_array_equal(out, wanted)
    csr = sp.csr_matrix(X)
    out = np.empty(X.shape, dtype)
    _kernels.bin_csr(csr.indptr.astype(np.int64), csr.indices, csr.data, offsets, thresholds, out, 2)
    np.testing.assert_array_equal(out, wanted)


def test_255_bins_and_missing_fit_a_byte():
    X = np.append(np.arange(255, dtype=F32), F32(np.nan))[:, None]
    offsets, thresholds = _kernels.find_thresholds_dense(X, 255, 1)
    assert len(thresholds) == 254
    out = np.empty(X.shape, np.uint8)
    _kernels.bin_dense(X, offsets, thresholds, out, 1)
    assert out[:, 0].tolist() == list(range(256))


@pytest.mark.parametrize("indices", [[0, 5], [0, -1]])
def test_a_feature_beyond_the_columns_is_refused(indices):
    arrays = np.array([0, 2]), np.array(indices, np.int32), np.ones(2, F32)
    with pytest.raises(ValueError, match="indices"):
        _kernels.bin_csr(*arrays, np.zeros(6, np.int64), np.empty(0, F32), np.empty((1, 5), np.uint8), 1)


@pytest.mark.parametrize("indptr", [[0, 3, 2], [0, 100, 2], [-5, 1, 2], [1, 1, 2]])
def test_a_broken_indptr_is_refused(indptr):
    indptr, data = np.array(indptr, np.int64), np.ones(2, F32)
    with pytest.raises(ValueError, match="indptr"):
        _kernels.find_thresholds_csc(indptr, data, 3, 4, 1)
    out, indices = np.empty((2, 5), np.uint8), np.zeros(2, np.int32)
    with pytest.raises(ValueError, match="indptr"):
        _kernels.bin_csr(indptr, indices, data, np.zeros(6, np.int64), np.empty(0, F32), out, 1)


def test_shapes_that_do_not_fit_are_refused():
    X, offsets, thresholds = dense(8)
    out = np.empty(X.shape, np.uint8)
    with pytest.raises(ValueError, match="offsets"):
        _kernels.bin_dense(X, offsets[:-1], thresholds, out, 1)
    with pytest.raises(ValueError, match="offsets"):
        _kernels.bin_dense(X, offsets, thresholds[:-1], out, 1)
    with pytest.raises(ValueError, match="out"):
        _kernels.bin_dense(X, offsets, thresholds, out[:-1], 1)
    with pytest.raises(TypeError):
        _kernels.bin_dense(X, offsets, thresholds, out.astype(np.int16), 1)


@pytest.mark.parametrize("n_rows", [0, 1, 7, 400])
@pytest.mark.parametrize("step", [1, 3])
def test_common_bins_are_the_twins(n_rows, step):
    rng = np.random.default_rng(n_rows)
    bins = (rng.integers(0, 256, (n_rows, 70)) * (rng.random((n_rows, 70)) < rng.random(70))).astype(np.uint8)
    bins[:, 69] += 255
    sample = bins[::step]
    counts = np.array([np.bincount(column, minlength=256) for column in sample.T])
    expected = np.where(counts.max(axis=1) >= 0.3 * len(sample), counts.argmax(axis=1), -1)
    if not n_rows:
        expected[:] = -1
    for n_threads in (1, 2):
        np.testing.assert_array_equal(_kernels.common_bins(bins, step, 0.3, n_threads), expected)


def test_a_step_of_none_is_refused():
    with pytest.raises(ValueError, match="step"):
        _kernels.common_bins(np.zeros((2, 2), np.uint8), 0, 0.3, 1)
