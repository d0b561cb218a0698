"""Lists of candidates: order, the best and the true ones, against numpy."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sparseleaf import _kernels
from sparseleaf.model.candidates import descending, topk_of, true_candidates


@given(arrays(np.float32, st.integers(0, 200), elements=st.floats(width=32)))
def test_the_order_is_that_of_a_stable_sort(values):
    np.testing.assert_array_equal(descending(values), np.argsort(-values, kind="stable"))


@pytest.mark.parametrize("n_jobs", [1, 2, 5])
@pytest.mark.parametrize("decimals", [0, 4])  # with few distinct values
def test_many_values_are_ordered(decimals, n_jobs):
    values = np.random.default_rng(0).normal(size=170_000).astype(np.float32).round(decimals)
    np.testing.assert_array_equal(descending(values, n_jobs), np.argsort(-values, kind="stable"))


def made(seed, sizes, n_labels=14):
    rng = np.random.default_rng(seed)
    starts = np.cumsum([0, *sizes])
    labels = [np.sort(rng.choice(n_labels, size, replace=False)) for size in sizes]
    scores = rng.integers(-3, 3, starts[-1]).astype(np.float32)  # with ties
    return starts, np.concatenate([np.empty(0), *labels]).astype(np.int32), scores


@given(st.lists(st.integers(0, 12), max_size=600), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_the_best_are_those_of_a_stable_sort(sizes, k, seed):
    starts, labels, scores = made(seed, sizes)
    wanted = np.full((len(sizes), k), -1), np.full((len(sizes), k), -np.inf)
    for row, (a, b) in enumerate(itertools.pairwise(starts)):
        order = np.argsort(-scores[a:b], kind="stable")[:k]
        wanted[0][row, : len(order)] = labels[a:b][order]
        wanted[1][row, : len(order)] = scores[a:b][order]
    for n_jobs in (1, 3):
        for found, array in zip(topk_of(starts, labels, scores, k, n_jobs), wanted, strict=True):
            np.testing.assert_array_equal(found, array)


@given(st.lists(st.integers(0, 12), max_size=600), st.integers(1, 3), st.integers(0, 2**32 - 1))
def test_lists_are_sorted_by_label(sizes, n_jobs, seed):
    starts, labels, values = made(seed, sizes)
    order = np.random.default_rng(seed).permutation(len(labels))
    order = order[np.argsort(np.repeat(np.arange(len(sizes)), sizes)[order], kind="stable")]
    mixed, theirs = labels[order], values[order]
    _kernels.sort_lists(starts, mixed, theirs, n_jobs)
    np.testing.assert_array_equal(mixed, labels)
    np.testing.assert_array_equal(theirs, values)


@given(st.lists(st.integers(0, 9), max_size=600), st.integers(1, 3), st.booleans(), st.integers(0, 2**32 - 1))
def test_labels_are_summed_over_the_rows_of_every_list(sizes, n_jobs, weighted, seed):
    rng = np.random.default_rng(seed)
    starts, rows = np.cumsum([0, *sizes]), rng.integers(0, 20, sum(sizes)).astype(np.int32)
    Y = sp.random(20, 6, 0.3, "csr", random_state=rng)
    weights = rng.random(20) if weighted else np.empty(0)
    indptr, labels, sums = _kernels.sum_labels(
        starts, rows, weights, Y.indptr.astype(np.int64), Y.indices, n_jobs
    )
    found = sp.csr_matrix((sums, labels, indptr), shape=(len(sizes), 6))
    there = (Y.toarray() > 0) * (weights if weighted else np.ones(20))[:, None]
    wanted = np.array([there[rows[a:b]].sum(axis=0) for a, b in itertools.pairwise(starts)]).reshape(-1, 6)
    np.testing.assert_allclose(found.toarray(), wanted)
    assert found.has_canonical_format
    assert found.nnz == np.count_nonzero(wanted)


@given(st.lists(st.integers(0, 12), max_size=600), st.integers(0, 2**32 - 1))
def test_true_candidates_are_those_of_sets(sizes, seed):
    starts, labels, _ = made(seed, sizes)
    Y = sp.random(len(sizes), 14, 0.3, "csr", random_state=seed)
    Y.indices = Y.indices[::-1].copy()  # not sorted
    rows = [set(Y.indices[a:b].tolist()) for a, b in itertools.pairwise(Y.indptr)]
    wanted = [
        label in rows[row]
        for row, (a, b) in enumerate(itertools.pairwise(starts))
        for label in labels[a:b].tolist()
    ]
    for n_jobs in (1, 3):
        assert true_candidates(starts, labels, Y, n_jobs).tolist() == wanted


def test_invalid_lists_are_refused():
    labels, scores, indptr = np.zeros(3, np.int32), np.zeros(3, np.float32), np.zeros(2, np.int64)
    best, ranked, truth = np.zeros((1, 2), np.int32), np.zeros((1, 2), np.float32), np.zeros(3, np.uint8)
    for starts in ([0, 4], [2, 1], [-1, 3]):
        with pytest.raises(ValueError, match="starts"):
            _kernels.best_of_lists(np.array(starts), labels, scores, best, ranked, 1)
        with pytest.raises(ValueError, match="starts"):
            _kernels.mark_true(np.array(starts), labels, indptr, labels[:0], truth, 1)
    starts = np.array([0, 3])
    with pytest.raises(ValueError, match="shape"):
        _kernels.best_of_lists(starts, labels, scores, best, ranked[:, :1].copy(), 1)
    with pytest.raises(ValueError, match="equal sizes"):
        _kernels.best_of_lists(starts, labels, scores[:2], best, ranked, 1)
    with pytest.raises(ValueError, match="equal sizes"):
        _kernels.sort_lists(starts, labels, scores[:2], 1)
    with pytest.raises(ValueError, match="no such row"):
        _kernels.sum_labels(starts, labels + 1, np.empty(0), indptr, labels[:0], 1)
    with pytest.raises(ValueError, match="one row per list"):
        _kernels.mark_true(starts, labels, np.zeros(3, np.int64), labels[:0], truth, 1)
    with pytest.raises(ValueError, match="truth"):
        _kernels.mark_true(starts, labels, indptr, labels[:0], truth[:2], 1)
