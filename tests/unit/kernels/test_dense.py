"""Dense gradients to columns, leaf sums and scores."""

import numpy as np
import pytest

import naive_dense
from sparseleaf import _kernels
from sparseleaf._arrays import mix64

NONE = np.empty((0, 0), np.float32)


def gradients(n=700, d=11, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32)


@pytest.mark.parametrize("m", [1, 4, 16])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_sketch_adds_every_output_to_one_column_with_a_sign(m, n_threads):
    g, key = gradients(), 12345
    out = np.full((len(g), m), 99, np.float32)
    largest = _kernels.dense_sketch(g, key, out, n_threads)
    start = int(mix64(np.array([key], np.uint64))[0])
    wanted = np.zeros((len(g), m), np.float32)
    for j in range(g.shape[1]):
        hashed = int(mix64(np.array([(start + j) % 2**64], np.uint64))[0])
        column, sign = ((hashed >> 32) * m) >> 32, -1 if hashed & 1 else 1
        wanted[:, column] += np.float32(sign) * g[:, j]
    np.testing.assert_array_equal(out, wanted)
    assert largest == np.abs(out).max()


def test_the_sketch_of_dense_and_of_sparse_residuals_is_one():
    from smalldata import blocks_of, make_state

    truth, scores, stored = make_state(90, 40, seed=2)
    residuals = np.where(truth, np.float32(1), np.float32(0)) - scores
    residuals[~stored] = 0
    dense, sparse = np.empty((90, 8), np.float32), np.empty((90, 8), np.float32)
    _kernels.dense_sketch(residuals, 7, dense, 1)
    _kernels.count_sketch(blocks_of(truth, scores, stored), 7, 40, 0, sparse, 1)
    np.testing.assert_allclose(dense, sparse, atol=1e-6)


@pytest.mark.parametrize("n_threads", [1, 3])
def test_projection_is_the_product(n_threads):
    g, signs = gradients(), gradients(11, 6, seed=1)
    out = np.full((len(g), 6), 99, np.float32)
    largest = _kernels.dense_project(g, signs, out, n_threads)
    np.testing.assert_allclose(out, g.astype(np.float64) @ signs, atol=1e-5)
    assert largest == np.abs(out).max()


def test_selection_takes_columns_by_weight_and_leaves_others_empty():
    g = gradients()
    out = np.full((len(g), 5), 99, np.float32)
    outputs, weights = np.array([7, 0, 10], np.int32), np.array([2, 1, 0.5], np.float32)
    largest = _kernels.dense_select(g, outputs, weights, out, 2)
    np.testing.assert_array_equal(out[:, :3], g[:, outputs] * weights)
    assert not out[:, 3:].any()
    assert largest == np.abs(out).max()


@pytest.mark.parametrize("count", [1, 3, 8, 9])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_columns_become_16_bit_integers(count, n_threads):
    values = gradients() * np.logspace(-3, 5, 11, dtype=np.float32)
    values[5, 3] = 1e30  # beyond any scale: clipped, not wrapped
    scale = (2.0 ** np.arange(count) * 37).astype(np.float32)
    out = np.full((len(values), 16), -7, np.int16)
    magnitude = np.full(count, -1, np.int64)
    _kernels.quantise_columns(values, 2, scale, out, 5, False, 0, 0, magnitude, n_threads)
    wanted, sizes = naive_dense.quantise_columns(values[:, 2 : 2 + count], scale)
    np.testing.assert_array_equal(out[:, 5 : 5 + count], wanted)
    assert magnitude.tolist() == sizes.tolist()
    assert (out[:, :5] == -7).all()
    assert (out[:, 5 + count :] == -7).all()


def test_halves_are_rounded_to_even():
    out, magnitude = np.empty((6, 1), np.int16), np.empty(1, np.int64)
    values = np.array([[0.5], [1.5], [2.5], [-0.5], [-1.5], [-2.5]], np.float32)
    _kernels.quantise_columns(values, 0, np.ones(1, np.float32), out, 0, False, 0, 0, magnitude, 1)
    assert out[:, 0].tolist() == [0, 2, 2, 0, -2, -2]


# --- rounding at random


def round_at_random(values, scale, key, first_row=0, n_threads=1):
    out = np.empty(values.shape, np.int16)
    magnitude = np.empty(values.shape[1], np.int64)
    scales = np.full(values.shape[1], scale, np.float32)
    _kernels.quantise_columns(values, 0, scales, out, 0, True, key, first_row, magnitude, n_threads)
    np.testing.assert_array_equal(magnitude, np.abs(out.astype(np.int64)).sum(axis=0))
    return out


def test_random_rounding_is_the_twin():
    values = gradients(300, 5)
    for key in (0, 1, 2**64 - 1):
        wanted = naive_dense.round_at_random(values, 4.0, key, 1000)
        np.testing.assert_array_equal(round_at_random(values, 4.0, key, 1000), wanted)


def test_random_rounding_is_unbiased():
    """The mean over many keys is the number; a number in between takes only the two integers next to it."""
    values = np.array([[0.0, 0.25, -0.25, 1e-3, -1e-3, 2.5, -2.75, 3.0, -127.9, 1e-9]], np.float32)
    n = 200_000
    many = round_at_random(np.repeat(values, n, axis=0), 1.0, 7).astype(np.int64)  # a draw for every row
    assert (many >= np.floor(values)).all()
    assert (many <= np.ceil(values)).all()
    fraction = np.abs(values[0]) % 1
    error = np.sqrt(fraction * (1 - fraction) / n)
    assert (np.abs(many.mean(axis=0) - values[0]) <= 5 * error + 1e-7).all()
    share = round_at_random(np.full((n, 4), 0.5, np.float32), 1.0, 7)
    together = np.corrcoef(share.T) - np.eye(
        4
    )  # draws of columns, and of rows, have nothing to do with each other
    assert np.abs(together).max() < 5 / np.sqrt(n)
    assert abs(np.corrcoef(share[:-1, 0], share[1:, 0])[0, 1]) < 5 / np.sqrt(n)
    other = round_at_random(np.full((n, 4), 0.5, np.float32), 1.0, 8)
    assert abs(np.corrcoef(share[:, 0], other[:, 0])[0, 1]) < 5 / np.sqrt(n)


def test_random_rounding_depends_on_key_column_and_row_alone():
    values = gradients(3000, 6)
    whole = round_at_random(values, 2.0, 5)
    np.testing.assert_array_equal(round_at_random(values, 2.0, 5, n_threads=4), whole)
    parts = [round_at_random(values[a:b], 2.0, 5, a) for a, b in ((0, 1), (1, 700), (700, 3000))]
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    assert (round_at_random(values, 2.0, 6) != whole).any()


def test_columns_draw_by_their_place_in_the_tree():
    values = np.repeat(gradients(500, 1), 4, axis=1)
    whole, apart = round_at_random(values, 2.0, 5), np.zeros((500, 4), np.int16)
    for first in (0, 2):
        _kernels.quantise_columns(
            values, 0, np.full(2, 2, np.float32), apart, first, True, 5, 0, np.empty(2, np.int64), 1
        )
    np.testing.assert_array_equal(apart, whole)
    assert (whole[:, 0] != whole[:, 1]).any()


@pytest.mark.parametrize("n_threads", [1, 4])
def test_leaf_sums_are_exact_integers(n_threads):
    values = gradients(20_000, 5)
    rng = np.random.default_rng(1)
    rows = rng.permutation(20_000).astype(np.int32)[:15_000]
    scale = np.array([1, 2.0**20, 2.0**40, 1e-3, 2.0**45])
    starts, ends = np.array([0, 9000, 9000, 9001]), np.array([9000, 9000, 9001, 15_000])
    out = np.full((4, 5), 99, np.int64)
    _kernels.leaf_sums(values, scale, rows, starts, ends, out, n_threads)
    for k in range(4):
        own = values[rows[starts[k] : ends[k]]].astype(np.float64)
        assert out[k].tolist() == np.rint(own * scale).astype(np.int64).sum(axis=0).tolist()


@pytest.mark.parametrize("share", [0.01, 0.5, 0.8, 1.0])
@pytest.mark.parametrize("weighted", [0, 1, "pairs"])
def test_leaf_quantiles_are_the_twins(share, weighted):
    n, d = 200, 3
    rng = np.random.default_rng(0)
    targets = np.round(rng.normal(size=(n, d)), 1).astype(np.float32)  # ties
    targets[rng.random(targets.shape) < 0.2] = np.nan
    scores = np.round(rng.normal(size=(n, d)), 1).astype(np.float32)
    weights = NONE
    if weighted:
        weights = rng.choice([0, 1, 2.5], (n, 1 if weighted == 1 else d)).astype(np.float32)
    targets[30:40, 1] = np.nan
    rows = np.concatenate((rng.permutation(30), np.arange(30, 200))).astype(np.int32)
    starts, ends = np.array([0, 30, 40, 200]), np.array([30, 40, 200, 200])
    out = np.full((4, d), 99.0)
    _kernels.leaf_quantiles(targets, scores, weights, share, rows, starts, ends, out, 2)
    for k in range(4):
        own = rows[starts[k] : ends[k]]
        for j in range(d):
            w = np.ones(len(own)) if not weighted else weights[own, j if weighted == "pairs" else 0]
            lacks = (targets[own, j] - scores[own, j]).tolist()
            assert out[k, j] == pytest.approx(naive_dense.weighted_quantile(lacks, w.tolist(), share))
    assert out[1, 1] == 0, "nothing known"
    assert out[3].tolist() == [0, 0, 0]


@pytest.mark.parametrize("n_threads", [1, 3])
def test_leaves_are_added_to_scores(n_threads):
    scores = gradients(600, 4)
    before = scores.copy()
    leaf_of_row = np.random.default_rng(0).integers(0, 3, 600).astype(np.int32)
    indptr, outputs = np.array([0, 2, 2, 6]), np.array([1, 3, 0, 1, 2, 3], np.uint32)
    values = np.array([0.5, -1, 1, 2, 3, 4], np.float32)
    _kernels.add_leaves(scores, leaf_of_row, indptr, outputs, values, n_threads)
    dense = np.array([[0, 0.5, 0, -1], [0, 0, 0, 0], [1, 2, 3, 4]], np.float32)
    np.testing.assert_array_equal(scores, before + dense[leaf_of_row])


G = np.zeros((4, 3), np.float32)
ROWS, START, END = np.arange(4, dtype=np.int32), np.array([0]), np.array([4])


def quantise(**change):
    given = {
        "values": G, "from_column": 0, "scale": np.ones(2, np.float32), "out": np.empty((4, 4), np.int16),
        "to_column": 0, "at_random": False, "key": 0, "first_row": 0,
        "magnitude": np.empty(2, np.int64), "n_threads": 1,
    }  # fmt: skip
    _kernels.quantise_columns(**(given | change))


@pytest.mark.parametrize(("call", "match"), [
    (lambda: _kernels.dense_sketch(G, 1, np.empty((3, 2), np.float32), 1), "out"),
    (lambda: _kernels.dense_sketch(G, 1, np.empty((4, 0), np.float32), 1), "out"),
    (lambda: _kernels.dense_project(G, np.ones((2, 5), np.float32), np.empty((4, 5), np.float32), 1), "signs"),
    (lambda: _kernels.dense_project(G, np.ones((3, 4), np.float32), np.empty((4, 5), np.float32), 1), "signs"),
    (lambda: _kernels.dense_select(G, np.array([3], np.int32), np.ones(1, np.float32),
                                   np.empty((4, 1), np.float32), 1), "outputs"),
    (lambda: _kernels.dense_select(G, np.array([-1], np.int32), np.ones(1, np.float32),
                                   np.empty((4, 1), np.float32), 1), "outputs"),
    (lambda: _kernels.dense_select(G, np.array([0, 1], np.int32), np.ones(2, np.float32),
                                   np.empty((4, 1), np.float32), 1), "outputs"),
    (lambda: quantise(from_column=2), "from, to"),
    (lambda: quantise(to_column=3), "from, to"),
    (lambda: quantise(from_column=-1), "from, to"),
    (lambda: quantise(out=np.empty((3, 4), np.int16)), "out"),
    (lambda: quantise(magnitude=np.empty(1, np.int64)), "magnitude"),
    (lambda: _kernels.leaf_sums(G, np.ones(2), ROWS, START, END, np.empty((1, 3), np.int64), 1), "scale"),
    (lambda: _kernels.leaf_sums(G, np.ones(3), ROWS, START, END, np.empty((1, 2), np.int64), 1), "out"),
    (lambda: _kernels.leaf_sums(G, np.ones(3), ROWS + 1, START, END, np.empty((1, 3), np.int64), 1), "rows"),
    (lambda: _kernels.leaf_sums(G, np.ones(3), ROWS, START, END + 1, np.empty((1, 3), np.int64), 1), "starts"),
    (lambda: _kernels.leaf_quantiles(G[:3], G, NONE, 0.5, ROWS, START, END, np.empty((1, 3)), 1), "targets"),
    (lambda: _kernels.leaf_quantiles(G, G, np.ones((4, 2), np.float32), 0.5, ROWS, START, END,
                                     np.empty((1, 3)), 1), "weights"),
    (lambda: _kernels.leaf_quantiles(G, G, NONE, 0.5, ROWS - 1, START, END, np.empty((1, 3)), 1), "rows"),
    (lambda: _kernels.leaf_quantiles(G, G, NONE, 0.5, ROWS, START, END, np.empty((2, 3)), 1), "out"),
    (lambda: _kernels.add_leaves(G.copy(), np.zeros(3, np.int32), np.array([0, 1]), np.zeros(1, np.uint32),
                                 np.ones(1, np.float32), 1), "leaf_of_row"),
    (lambda: _kernels.add_leaves(G.copy(), np.ones(4, np.int32), np.array([0, 1]), np.zeros(1, np.uint32),
                                 np.ones(1, np.float32), 1), "leaf_of_row"),
    (lambda: _kernels.add_leaves(G.copy(), np.zeros(4, np.int32), np.array([0, 1]), np.full(1, 3, np.uint32),
                                 np.ones(1, np.float32), 1), "outputs"),
    (lambda: _kernels.add_leaves(G.copy(), np.zeros(4, np.int32), np.array([0, 2]), np.zeros(1, np.uint32),
                                 np.ones(1, np.float32), 1), "indptr"),
])  # fmt: skip
def test_arguments_that_do_not_fit_are_refused(call, match):
    with pytest.raises(ValueError, match=match):
        call()
