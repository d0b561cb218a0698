"""Kernels of ranked lists: pooling along the ranking, and the number of labels of highest expected F1."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression

from sparseleaf import _kernels

PROBABILITIES = st.integers(1, 999).map(lambda number: number / 1000)
LISTS = st.lists(st.lists(PROBABILITIES, max_size=9), max_size=8)


def packed(lists):
    starts = np.cumsum([0, *map(len, lists)]).astype(np.int64)
    return starts, np.array([x for one in lists for x in one], np.float32)


def naive_pooled(values):
    return IsotonicRegression(increasing=False).fit_transform(np.arange(len(values)), values)


@settings(max_examples=60, deadline=None)
@given(LISTS)
def test_pooling_is_the_isotonic_regression_on_the_ranks(lists):
    starts, values = packed(lists)
    pooled = values.copy()
    _kernels.pool_ranked(starts, pooled, 100, 1)
    for list_, a, b in zip(lists, starts[:-1], starts[1:], strict=True):
        if list_:
            np.testing.assert_allclose(pooled[a:b], naive_pooled(values[a:b]), rtol=1e-5)
        assert (np.diff(pooled[a:b]) < 0).all()


def test_what_is_beyond_the_depth_does_not_change_the_first_ranks():
    rng = np.random.default_rng(0)
    values = rng.random(30).astype(np.float32)
    short, long = values[:10].copy(), values.copy()
    _kernels.pool_ranked(np.array([0, 10]), short, 10, 1)
    _kernels.pool_ranked(np.array([0, 30]), long, 10, 1)
    np.testing.assert_array_equal(short, long[:10])
    np.testing.assert_allclose(
        long[10:], np.minimum.accumulate(np.append(short[9], values[10:]))[1:], rtol=1e-5
    )


@pytest.mark.parametrize("threads", [2, 5])
def test_the_number_of_threads_does_not_matter(threads):
    rng = np.random.default_rng(1)
    starts = np.cumsum([0, *rng.integers(0, 60, 700)]).astype(np.int64)
    values = rng.random(starts[-1]).astype(np.float32)
    one, several = values.copy(), values.copy()
    _kernels.pool_ranked(starts, one, 40, 1)
    _kernels.pool_ranked(starts, several, 40, threads)
    assert one.tobytes() == several.tobytes()
    sizes = [np.empty(700, np.int32) for _ in range(2)]
    _kernels.expected_f1_sizes(starts, one, sizes[0], 1)
    _kernels.expected_f1_sizes(starts, one, sizes[1], threads)
    assert sizes[0].tobytes() == sizes[1].tobytes()


def expected_f1(p, chosen):
    """By enumeration of all label sets."""
    total = 0.0
    for y in itertools.product([0, 1], repeat=len(p)):
        y = np.array(y)
        total += np.prod(np.where(y, p, 1 - p)) * 2 * y[chosen].sum() / (len(chosen) + y.sum())
    return total


@settings(max_examples=25, deadline=None)
@given(st.lists(PROBABILITIES, min_size=1, max_size=6))
def test_expected_f1_is_the_highest_of_all_subsets(p):
    p = np.sort(np.array(p, np.float32))[::-1].copy()
    size = np.empty(1, np.int32)
    _kernels.expected_f1_sizes(np.array([0, len(p)]), p, size, 1)
    subsets = (c for k in range(1, len(p) + 1) for c in itertools.combinations(range(len(p)), k))
    best = max(expected_f1(p.astype(float), list(c)) for c in subsets)
    assert expected_f1(p.astype(float), list(range(size[0]))) == pytest.approx(best, abs=1e-7)


def test_long_lists_agree_with_a_simulation():
    rng = np.random.default_rng(2)
    p = np.sort(rng.beta(0.3, 1.2, 100).astype(np.float32))[::-1].copy()
    size = np.empty(1, np.int32)
    _kernels.expected_f1_sizes(np.array([0, 100]), p, size, 1)
    Y = rng.random((20_000, 100)) < p
    simulated = [np.mean(2 * Y[:, :k].sum(1) / (k + Y.sum(1))) for k in range(1, 101)]
    assert simulated[size[0] - 1] == pytest.approx(max(simulated), abs=2e-3)


def test_lists_without_labels_have_size_0():
    sizes = np.full(3, 7, np.int32)
    _kernels.expected_f1_sizes(np.array([0, 0, 1, 1]), np.array([0.3], np.float32), sizes, 1)
    assert sizes.tolist() == [0, 1, 0]


def test_wrong_arguments_are_refused():
    values = np.zeros(3, np.float32)
    with pytest.raises(ValueError, match="indptr"):
        _kernels.pool_ranked(np.array([0, 4]), values, 1, 1)
    with pytest.raises(ValueError, match="indptr"):
        _kernels.pool_ranked(np.array([0, 2, 1, 3]), values, 1, 1)
    with pytest.raises(ValueError, match="depth"):
        _kernels.pool_ranked(np.array([0, 3]), values, 0, 1)
    with pytest.raises(ValueError, match="sizes"):
        _kernels.expected_f1_sizes(np.array([0, 3]), values, np.empty(2, np.int32), 1)
    with pytest.raises(ValueError, match="1024"):
        _kernels.expected_f1_sizes(np.array([0, 2000]), np.zeros(2000, np.float32), np.empty(1, np.int32), 1)
