"""Kernels with weights of rows and labels: against slow twins, and against repeated rows."""

import numpy as np
import pytest
import scipy.sparse as sp

import naive
import naive_rerank
from smalldata import LOSSES, blocks_of, make_state
from sparseleaf import _kernels
from sparseleaf._arrays import csr_parts

N, L = 60, 12


def weights_of(rows, labels):
    return _kernels.LossWeights(np.asarray(rows, np.float32), np.asarray(labels, np.float32))


def make_weights(seed=0):
    rng = np.random.default_rng(seed)
    return rng.uniform(0.1, 3, N).astype(np.float32), rng.uniform(0.2, 8, L).astype(np.float32)


def vectors(blocks, rows, weights=None, total=None, **changed):
    how = {"loss": 0, "k": -1, "l2": 1.5, "min_gain": 0.0, "rate": 0.1, "n_threads": 2} | changed
    rows = np.asarray(rows, np.int32)
    totals = None if total is None else np.array([total])
    indptr, labels, values = _kernels.leaf_vectors(
        blocks, rows, np.array([0]), np.array([len(rows)]), L, *how.values(), weights, totals
    )
    assert indptr.tolist() == [0, len(labels)]
    return dict(zip(labels.tolist(), values.tolist(), strict=True))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("k", [-1, 4])
@pytest.mark.parametrize(("n_threads", "times"), [(1, 1), (3, 1), (3, 10)])
def test_leaf_vectors_are_newton_steps_of_the_weighted_loss(loss, k, n_threads, times):
    """Also of a leaf with so many rows that several tasks share it."""
    truth, scores, stored = make_state(N, L, seed=2)
    of_rows, of_labels = make_weights()
    blocks = blocks_of(truth, scores, stored, 64)
    each = of_rows[:, None].astype(float) * np.where(truth, of_labels.astype(float), 1)
    residuals = naive.fixed_point(naive.residuals(truth, scores, loss)) / 2**24
    gradient, hessian = times * (each * residuals).sum(axis=0), times * each.sum(axis=0) + 1.5
    gains = gradient**2 / hessian
    best = np.argsort(-gains)[: None if k < 0 else k]
    found = vectors(
        blocks,
        times * list(range(N)),
        weights_of(of_rows, of_labels),
        times * float(of_rows.sum(dtype=float)),
        loss=LOSSES[loss],
        k=k,
        n_threads=n_threads,
    )
    assert sorted(found) == sorted(label for label in best.tolist() if gradient[label] != 0)
    for label, value in found.items():
        assert value == pytest.approx(0.1 * gradient[label] / hessian[label], rel=1e-4)


@pytest.mark.parametrize("loss", LOSSES.values())
def test_an_integer_weight_is_the_row_that_many_times(loss):
    truth, scores, stored = make_state(N, L, seed=3)
    blocks = blocks_of(truth, scores, stored, 64)
    times = np.random.default_rng(1).integers(1, 6, N)
    weighted = vectors(blocks, range(N), weights_of(times, []), float(times.sum()), loss=loss)
    assert weighted == vectors(blocks, np.repeat(np.arange(N), times), loss=loss)


def test_true_labels_that_fit_exactly_do_not_leak_into_the_next_leaf():
    """A label whose residuals are all 0 has positives but no sum."""
    truth = np.array([[1, 0], [1, 0]], bool)
    blocks = blocks_of(truth, np.array([[1.0, 0.5], [0.0, 0.0]], np.float32))
    weights = weights_of([1, 1], [3, 1])
    rows, borders = np.arange(2, dtype=np.int32), np.arange(3)
    _, labels, values = _kernels.leaf_vectors(
        blocks, rows, borders[:-1], borders[1:], 2, 0, -1, 0.0, 0.0, 1.0, 1, weights, np.ones(2)
    )
    assert dict(zip(labels.tolist(), values.tolist(), strict=True)) == {1: -0.5, 0: 1.0}


@pytest.mark.parametrize("loss", LOSSES)
def test_sketches_and_norms_are_those_of_weighted_residuals(loss):
    truth, scores, stored = make_state(N, L, seed=4)
    of_rows, of_labels = make_weights(1)
    blocks, weights = blocks_of(truth, scores, stored, 64), weights_of(of_rows, of_labels)
    residuals = naive.residuals(truth, scores, loss) * np.where(truth, of_labels, 1) * stored
    every = np.arange(L, dtype=np.int32)
    out = np.empty((N, L), np.float32)
    largest = _kernels.select_columns(blocks, every, np.ones(L, np.float32), LOSSES[loss], out, 2, weights)
    np.testing.assert_allclose(out, of_rows[:, None] * residuals, rtol=1e-5, atol=1e-6)
    assert largest == np.abs(out).max()
    plain, heavy = np.empty((N, 4), np.float32), np.empty((N, 4), np.float32)
    for sketch in (
        lambda out, *weights: _kernels.count_sketch(blocks, 3, L, LOSSES[loss], out, 2, *weights),
        lambda out, *weights: _kernels.sign_projection(blocks, 3, LOSSES[loss], out, 2, *weights),
    ):
        sketch(plain)
        sketch(heavy, weights_of(of_rows, []))
        np.testing.assert_allclose(heavy, of_rows[:, None] * plain, rtol=1e-5, atol=1e-6)
    norms = np.empty(L, np.int64)
    _kernels.column_norms(blocks, LOSSES[loss], norms, 2, weights)
    wanted = (of_rows[:, None] * residuals**2).sum(axis=0)
    np.testing.assert_allclose(norms / 2**16, wanted, rtol=1e-3, atol=1e-2)


def test_the_cost_of_an_example_is_that_of_its_row_and_label():
    rng = np.random.default_rng(0)
    X = (rng.random((14, 5)) * (rng.random((14, 5)) < 0.6)).astype(np.float32)
    sides = np.tile([1, -1], 7)
    of_rows = rng.uniform(0.2, 4, 14).astype(np.float32)
    cost = 1.5 * of_rows * np.where(sides > 0, 2.5, 1)
    none = np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int32), *[np.empty(0, np.float32)] * 2
    ((indptr, features, weights, bias),) = _kernels.fit_linear(
        *csr_parts(sp.csr_matrix(X)), 5, np.array([0, 14]), np.arange(14, dtype=np.int32), sides.astype(np.int8),
        *none, 1.5, 3000, 1, 1e-7, 0.0, 100, 1, 1, lambda done: None, of_rows, np.array([2.5], np.float32),
    )  # fmt: skip
    w, b = naive_rerank.fit_linear(X, sides, cost)
    found = sp.csr_matrix((weights, features, indptr), shape=(1, 5)).toarray()[0]
    assert np.append(found, bias) == pytest.approx(np.append(w, b), abs=1e-2)


def test_weights_that_do_not_fit_are_refused():
    truth, scores, stored = make_state(8, L)
    blocks = blocks_of(truth, scores, stored)
    with pytest.raises(ValueError, match="one entry per row"):
        vectors(blocks, range(8), weights_of([1, 2], []), 3.0)
    with pytest.raises(ValueError, match="one entry per label"):
        vectors(blocks, range(8), weights_of(np.ones(8), [1]), 8.0)
