import numpy as np
import pytest

import naive
from smalldata import LOSSES, blocks_of, make_state
from sparseleaf import _kernels

losses = pytest.mark.parametrize("loss", LOSSES)
N, L = 300, 40


def sketched(blocks, key, width, loss="squared", n_labels=L, n_threads=2):
    out = np.full((sum(len(b[0]) for b in blocks), width), np.nan, np.float32)
    largest = _kernels.count_sketch(blocks, key, n_labels, LOSSES[loss], out, n_threads)
    assert largest == np.abs(out).max()
    return out


def signs_of_labels(key, width, n_labels=L):
    """The sketch's matrix (labels, columns): rows that have one label each show it."""
    truth = np.eye(n_labels, dtype=bool)
    return sketched(blocks_of(truth, np.zeros(truth.shape, np.float32)), key, width, n_labels=n_labels)


@pytest.mark.parametrize("width", [1, 16, 32, 33])
def test_count_sketch_puts_every_label_into_one_column_with_a_sign(width):
    matrix = signs_of_labels(7, width)
    assert (np.count_nonzero(matrix, axis=1) == 1).all()
    assert set(np.unique(matrix)) <= {-1.0, 0.0, 1.0}


def test_count_sketch_uses_all_columns_and_both_signs_and_every_key_is_another():
    matrix = signs_of_labels(7, 16, 4000)
    load = np.abs(matrix).sum(axis=0)
    assert load.min() > 150  # 250 are expected, with a deviation of 15
    assert load.max() < 350
    assert abs(matrix.sum()) < 400
    assert not np.array_equal(matrix, signs_of_labels(8, 16, 4000))


@losses
def test_count_sketch_is_linear_in_the_residuals(loss):
    truth, scores, stored = make_state(N, L, seed=1)
    out = sketched(blocks_of(truth, scores, stored), 3, 16, loss)
    wanted = naive.residuals(truth, scores, loss).astype(np.float64) @ signs_of_labels(3, 16)
    np.testing.assert_allclose(out, wanted, atol=1e-5)


def test_count_sketch_keeps_inner_products_on_average():
    truth, scores, stored = make_state(6, L, seed=2)
    values = naive.residuals(truth, scores, "squared").astype(np.float64)
    blocks = blocks_of(truth, scores, stored)
    grams = []
    for key in range(3000):
        out = sketched(blocks, key, 16, n_threads=1).astype(np.float64)
        grams.append(out @ out.T)
    error = np.std(grams, axis=0) / np.sqrt(len(grams))
    assert (np.abs(np.mean(grams, axis=0) - values @ values.T) < 5 * error + 1e-6).all()


@losses
def test_sign_projection_adds_every_label_to_every_column(loss):
    width = 70  # more than one word of sign bits
    truth = np.eye(L, dtype=bool)
    matrix = np.empty((L, width), np.float32)
    _kernels.sign_projection(blocks_of(truth, np.zeros(truth.shape, np.float32)), 5, 0, matrix, 2)
    np.testing.assert_allclose(np.abs(matrix), 1 / np.sqrt(width), rtol=1e-6)
    assert 0.4 < (matrix > 0).mean() < 0.6
    truth, scores, stored = make_state(N, L, seed=3)
    out = np.empty((N, width), np.float32)
    largest = _kernels.sign_projection(blocks_of(truth, scores, stored), 5, LOSSES[loss], out, 2)
    wanted = naive.residuals(truth, scores, loss).astype(np.float64) @ matrix
    np.testing.assert_allclose(out, wanted, atol=1e-5)
    assert largest == np.abs(out).max()


@losses
def test_select_columns_is_the_twin(loss):
    truth, scores, stored = make_state(N, L, seed=4)
    column_of = np.full(L, -1, np.int32)
    column_of[[3, 17, 30, 5]] = [2, 0, 1, 2]  # two labels may share a column
    weights = np.array([1, 0.5, 2], np.float32)
    out = np.empty((N, 3), np.float32)
    largest = _kernels.select_columns(
        blocks_of(truth, scores, stored), column_of, weights, LOSSES[loss], out, 2
    )
    wanted = naive.select_columns(naive.residuals(truth, scores, loss), column_of, weights)
    np.testing.assert_allclose(out, wanted, atol=1e-6)
    assert largest == np.abs(out).max()


@losses
@pytest.mark.parametrize("n_threads", [1, 3])
def test_column_norms_are_the_twins(loss, n_threads):
    truth, scores, stored = make_state(1000, L, seed=5, spread=100)  # some residuals pass the limit of 128
    assert np.abs(naive.residuals(truth, scores, loss)).max() > 128
    out = np.full(L, -1, np.int64)
    _kernels.column_norms(blocks_of(truth, scores, stored), LOSSES[loss], out, n_threads)
    np.testing.assert_array_equal(out, naive.column_norms(naive.residuals(truth, scores, loss)))


@pytest.mark.parametrize("block_rows", [1, 4, 64, 256])
def test_blocks_are_only_a_way_to_store_rows(block_rows):
    truth, scores, stored = make_state(N, L, seed=8)
    wanted = sketched(blocks_of(truth, scores, stored), 1, 16)
    np.testing.assert_array_equal(sketched(blocks_of(truth, scores, stored, block_rows), 1, 16), wanted)


def test_arguments_that_do_not_fit_are_refused():
    truth, scores, stored = make_state(8, L)
    blocks, out = blocks_of(truth, scores, stored), np.empty((8, 4), np.float32)
    with pytest.raises(ValueError, match="loss"):
        _kernels.count_sketch(blocks, 1, L, 2, out, 1)
    with pytest.raises(ValueError, match="out"):
        _kernels.count_sketch(blocks, 1, L, 0, out[:7], 1)
    with pytest.raises(ValueError, match="blocks"):
        _kernels.count_sketch([], 1, L, 0, out, 1)
    with pytest.raises(ValueError, match="power of two"):
        _kernels.count_sketch(blocks_of(truth, scores, stored, 3), 1, L, 0, out, 1)
    with pytest.raises(ValueError, match="factors"):
        _kernels.select_columns(blocks, np.zeros(L, np.int32), np.ones(3, np.float32), 0, out, 1)
    with pytest.raises(ValueError, match="column_of"):
        _kernels.select_columns(blocks, np.full(L, 4, np.int32), np.ones(4, np.float32), 0, out, 1)
