import itertools

import numpy as np
import pytest

import naive
from smalldata import LOSSES, blocks_of, make_state
from sparseleaf import _kernels

N, L = 200, 30


def vectors(
    blocks,
    nodes,
    *,
    loss="squared",
    k=None,
    l2=1.0,
    min_gain=0.0,
    rate=0.1,
    n_labels=L,
    n_threads=2,
    **others,
):
    ends = np.cumsum([len(rows) for rows in nodes])
    starts = ends - [len(rows) for rows in nodes]
    rows = np.array([row for node in nodes for row in node], np.int32)
    k = -1 if k is None else k
    indptr, labels, values = _kernels.leaf_vectors(
        blocks, rows, starts, ends, n_labels, LOSSES[loss], k, l2, min_gain, rate, n_threads, **others
    )
    assert (indptr.dtype, labels.dtype, values.dtype) == (np.int64, np.uint32, np.float32)
    return [dict(zip(labels[a:b].tolist(), values[a:b], strict=True)) for a, b in itertools.pairwise(indptr)]


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("k", [1, 5, None])
@pytest.mark.parametrize("min_gain", [0.0, 0.4])
@pytest.mark.parametrize(("n_threads", "times"), [(1, 1), (3, 1), (3, 20)])
def test_leaves_are_the_twins(loss, k, min_gain, n_threads, times):
    """Also of leaves with so many rows that several tasks share them."""
    truth, scores, stored = make_state(N, L, seed=1)
    fixed = naive.fixed_point(naive.residuals(truth, scores, loss))
    nodes = [list(range(90)) * times, [], list(range(90, 93)), [199], list(range(100, 180)) * times]
    found = vectors(
        blocks_of(truth, scores, stored, 64),
        nodes,
        loss=loss,
        k=k,
        l2=2.5,
        min_gain=min_gain,
        n_threads=n_threads,
    )
    for rows, leaf in zip(nodes, found, strict=True):
        wanted = naive.leaf_vector(fixed, rows, k, 2.5, min_gain, 0.1)
        assert list(leaf) == list(wanted)
        np.testing.assert_allclose(list(leaf.values()), list(wanted.values()), rtol=1e-6)


@pytest.mark.parametrize("k", [3, None])
@pytest.mark.parametrize(("n_threads", "times"), [(1, 1), (3, 1), (3, 20)])
def test_sums_of_earlier_rows_count_as_these_rows(k, n_threads, times):
    truth, scores, stored = make_state(N, L, seed=2)
    fixed = naive.fixed_point(naive.residuals(truth, scores, "squared"))
    new, old = [list(range(60)) * times, list(range(60, 62)), [199]], [[70, 71], [], list(range(100, 190))]
    sums = np.array([fixed[rows].sum(axis=0) for rows in old], np.int64)
    leaf, label = sums.nonzero()
    earlier = (
        np.searchsorted(leaf, np.arange(4)).astype(np.int64),
        label.astype(np.uint32),
        sums[leaf, label],
        np.empty(0, np.int64),
    )
    totals = np.array([len(a) + len(b) for a, b in zip(new, old, strict=True)], np.float64)
    found = vectors(
        blocks_of(truth, scores, stored, 64),
        new,
        k=k,
        min_gain=0.1,
        n_threads=n_threads,
        totals=totals,
        earlier=earlier,
    )
    for rows, before, leaf in zip(new, old, found, strict=True):
        assert leaf == naive.leaf_vector(fixed, rows + before, k, 1.0, 0.1, 0.1)


@pytest.mark.parametrize("k", [1, 7, 100])
def test_the_best_of_many_labels_with_ties(k):
    """More than are chosen from at once; the best may come late, and so may those that are as good as the last."""
    rng = np.random.default_rng(k)
    truth = np.zeros((3, 6000), bool)
    scores = rng.integers(-9, 10, truth.shape).astype(np.float32) / 8 * np.linspace(0.5, 1, 6000).round(1)
    scores = scores.astype(np.float32)
    fixed = naive.fixed_point(naive.residuals(truth, scores, "squared"))
    (found,) = vectors(blocks_of(truth, scores), [[0, 1, 2]], n_labels=6000, k=k)
    wanted = naive.leaf_vector(fixed, [0, 1, 2], k, 1.0, 0.0, 0.1)
    assert list(found) == list(wanted)
    np.testing.assert_allclose(list(found.values()), list(wanted.values()), rtol=1e-6)


def test_ties_go_to_the_lower_label_whatever_the_sign():
    scores = np.array([[0.5, -0.5, 0.5, 0.25, -0.5]], np.float32)
    blocks = blocks_of(np.zeros((1, 5), bool), scores)
    (leaf,) = vectors(blocks, [[0]], k=3, l2=0.0, rate=1.0, n_labels=5)
    assert leaf == {0: -0.5, 1: 0.5, 2: -0.5}


def test_sums_that_cancel_are_left_out_and_later_sums_are_not_lost():
    scores = np.array([[0.5, 1], [-0.5, 0], [0.5, 0], [-0.5, 0], [0.25, 0]], np.float32)
    blocks = blocks_of(np.zeros((5, 2), bool), scores)
    found = vectors(blocks, [[0, 1], [0, 1, 2, 3, 4]], l2=0.0, rate=1.0, n_labels=2)
    assert found == [{1: -0.5}, {0: np.float32(-0.05), 1: np.float32(-0.2)}]


def test_residuals_are_clipped_to_127():
    blocks = blocks_of(np.zeros((1, 1), bool), np.full((1, 1), 1e30, np.float32))
    assert vectors(blocks, [[0]], l2=0.0, rate=1.0, n_labels=1) == [{0: -127.0}]


def test_min_gain_keeps_what_is_worth_exactly_that():
    blocks = blocks_of(np.zeros((1, 2), bool), np.array([[2.0, 1.0]], np.float32))
    assert vectors(blocks, [[0]], l2=0.0, min_gain=4.0, rate=1.0, n_labels=2) == [{0: -2.0}]


def test_ranges_beyond_the_rows_are_refused():
    blocks = blocks_of(np.ones((2, 2), bool), np.zeros((2, 2), np.float32))
    for start, end in ((0, 3), (-1, 1), (2, 1)):
        with pytest.raises(ValueError, match="starts, ends"):
            _kernels.leaf_vectors(
                blocks,
                np.arange(2, dtype=np.int32),
                np.array([start]),
                np.array([end]),
                2,
                0,
                -1,
                1.0,
                0.0,
                0.1,
                1,
            )
