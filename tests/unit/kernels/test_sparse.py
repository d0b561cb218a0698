import numpy as np
import pytest
import scipy.sparse as sp

from sparseleaf import _kernels


def parts(X):
    return X.indptr.astype(np.int64), X.indices.astype(np.int32), X.data


@pytest.mark.parametrize("width", [1, 3, 16, 100])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_products_are_numpys_and_sparse_and_dense_give_the_same_bits(width, n_threads):
    X = sp.random(200, 60, 0.2, "csr", dtype=np.float32, random_state=0)
    W = np.random.default_rng(1).normal(size=(60, width)).astype(np.float32)
    from_csr, from_dense = np.full((200, width), 7, np.float32), np.full((200, width), 8, np.float32)
    _kernels.csr_times_dense(*parts(X), W, from_csr, n_threads)
    _kernels.dense_times_dense(X.toarray(), W, from_dense, n_threads)
    np.testing.assert_allclose(from_csr, X.toarray().astype(np.float64) @ W, atol=1e-4)
    np.testing.assert_array_equal(from_csr, from_dense)
    one_row = np.empty((1, width), np.float32)
    _kernels.csr_times_dense(*parts(X[17]), W, one_row, 1)
    np.testing.assert_array_equal(one_row[0], from_csr[17])


def test_every_float16_is_itself():
    bits = np.arange(2**16, dtype=np.uint16)
    bits = bits[np.isfinite(bits.view(np.float16))]
    out = np.empty((1, len(bits)), np.float32)
    _kernels.dense_times_dense(np.ones((1, 1), np.float32), bits[None], out, 1)
    np.testing.assert_array_equal(out[0], bits.view(np.float16).astype(np.float32))
    _kernels.csr_times_dense(*parts(sp.csr_matrix(np.ones((1, 1), np.float32))), bits[None], out, 1)
    np.testing.assert_array_equal(out[0], bits.view(np.float16).astype(np.float32))


@pytest.mark.parametrize("width", [1, 37])
def test_float16_weights_are_the_same_numbers_as_float32(width):
    X = sp.random(200, 60, 0.2, "csr", dtype=np.float32, random_state=0)
    W = np.random.default_rng(1).normal(size=(60, width)).astype(np.float16)
    found, wanted = np.empty((200, width), np.float32), np.empty((200, width), np.float32)
    _kernels.csr_times_dense(*parts(X), W.view(np.uint16), found, 2)
    _kernels.csr_times_dense(*parts(X), W.astype(np.float32), wanted, 2)
    np.testing.assert_array_equal(found, wanted)
    _kernels.dense_times_dense(X.toarray(), W.view(np.uint16), found, 2)
    np.testing.assert_array_equal(found, wanted)


def test_shapes_and_indices_that_do_not_fit_are_refused():
    X, W = sp.csr_matrix(np.ones((2, 3), np.float32)), np.ones((3, 4), np.float32)
    out = np.empty((2, 4), np.float32)
    for wrong in (np.empty((2, 5), np.float32), np.empty((3, 4), np.float32)):
        with pytest.raises(ValueError):
            _kernels.csr_times_dense(*parts(X), W, wrong, 1)
        with pytest.raises(ValueError):
            _kernels.dense_times_dense(X.toarray(), W, wrong, 1)
    with pytest.raises(ValueError, match="indices"):
        _kernels.csr_times_dense(*parts(X), W[:2], out, 1)
    with pytest.raises(ValueError, match="W"):
        _kernels.dense_times_dense(X.toarray(), W[:2], out, 1)
    for indptr in ([0, 9, 6], [-3, 3, 6], [0, 4, 3, 6]):
        with pytest.raises(ValueError, match="indptr"):
            _kernels.csr_times_dense(
                np.array(indptr, np.int64), *parts(X)[1:], W, np.empty((len(indptr) - 1, 4), np.float32), 1
            )
