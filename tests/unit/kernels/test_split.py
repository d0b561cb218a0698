import numpy as np
import pytest

import naive
from sparseleaf import _kernels
from sparseleaf.boosting.columns import COUNT

COLUMNS = 16


def find(bins, reduced, nodes, missing_bin, *, l2=1.0, min_samples=1, mask=None, n_threads=2):
    """find_splits of the given nodes (lists of rows), from histograms that the twin has made."""
    n_features = bins.shape[1]
    has_missing = np.array([(bins[:, f] == missing_bin[f]).any() for f in range(n_features)], np.uint8)
    n_bins = np.array(missing_bin) + has_missing
    offsets = np.concatenate(([0], np.cumsum(n_bins))).astype(np.int32)
    hist = np.zeros((len(nodes), offsets[-1], COLUMNS), np.int32)
    counts = np.zeros((len(nodes), offsets[-1]), np.int32)
    for k, rows in enumerate(nodes):
        for f in range(n_features):
            own = slice(offsets[f], offsets[f + 1])
            counts[k, own], sums = naive.histogram(bins, reduced, rows, f, int(n_bins[f]))
            hist[k, own, : reduced.shape[1]] = sums
    n, d = len(nodes), reduced.shape[1]
    feature, bin_, left = (np.full(n, -99, np.int32) for _ in range(3))
    gain, missing_left = np.full(n, np.nan), np.full(n, 99, np.uint8)
    mask = np.empty((0, n_features), np.uint8) if mask is None else np.asarray(mask, np.uint8)
    free = np.empty((0, d))
    _kernels.find_splits(
        hist, counts, np.arange(n, dtype=np.int32), offsets, has_missing, np.zeros(n_features, np.uint8), mask,
        COUNT, np.ones(d), np.full(d, l2), np.ones(d), l2, 0, False,
        np.empty((0, d), np.int8), free, free, min_samples,
        feature, bin_, gain, missing_left, left, np.empty((n, 32), np.uint8), free.copy(), n_threads,
    )  # fmt: skip
    return [
        None if feature[k] < 0 else
        (gain[k], int(feature[k]), int(bin_[k]), bool(missing_left[k]), int(left[k])) for k in range(n)
    ]  # fmt: skip


def make(n, n_features, n_bins, seed, missing=False, columns=5):
    rng = np.random.default_rng(seed)
    bins = rng.integers(0, n_bins + missing, (n, n_features))
    return bins, rng.integers(-50, 50, (n, columns)), [n_bins] * n_features


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("missing", [False, True])
def test_best_cut_is_the_twins(seed, missing):
    bins, reduced, missing_bin = make(40, 4, 5, seed, missing)
    min_samples, l2 = (1, 4, 12)[seed % 3], (0.0, 1.0, 7.5)[seed % 3]
    nodes = [list(range(40)), list(range(0, 40, 3)), list(range(5))]
    found = find(bins, reduced, nodes, missing_bin, l2=l2, min_samples=min_samples)
    for rows, cut in zip(nodes, found, strict=True):
        assert cut == naive.best_split(bins, reduced, rows, range(4), missing_bin, l2, min_samples)


def test_ties_go_to_the_lower_feature_then_the_lower_bin():
    bins = np.array([[0, 0], [0, 0], [2, 2], [2, 2]])
    reduced = np.array([[3], [3], [-3], [-3]])
    for bins_now in (bins, bins[:, ::-1]):
        (cut,) = find(bins_now, reduced, [[0, 1, 2, 3]], [4, 4], l2=0.0)
        assert cut == (36.0, 0, 0, False, 2)
    # left to right and right to left the same: the lower bin of a feature wins
    bins = np.array([[0], [1], [2]])
    (cut,) = find(bins, np.array([[1], [0], [1]]), [[0, 1, 2]], [3], l2=0.0)
    assert cut[1:3] == (0, 0)


@pytest.mark.parametrize("order", [(1, 0), (0, 1)])
def test_a_higher_gain_beats_a_lower_feature(order):
    bins = np.array([[0, 0], [1, 0], [0, 1], [1, 1]])[:, order]
    (cut,) = find(bins, np.array([[5], [5], [-5], [-5]]), [[0, 1, 2, 3]], [2, 2])
    assert cut[1] == order.index(1)


def test_missing_rows_go_to_the_side_that_gains_and_right_in_a_tie():
    bins = np.array([[0], [0], [1], [1], [2], [2]])  # bin 2 is "missing"
    for values, wanted in (([1, 1, -1, -1, 1, 1], True), ([1, 1, -1, -1, -1, -1], False)):
        (cut,) = find(bins, np.array(values)[:, None], [list(range(6))], [2])
        assert cut[1:4] == (0, 0, wanted)
    # missing rows of no weight, twice as many rows on either side: left or right is the same
    (cut,) = find(bins, np.array([1, 1, -1, -1, 0, 0])[:, None], [list(range(6))], [2], l2=0.0)
    assert cut[3] is False


def test_all_values_against_missing_is_a_cut():
    bins = np.array([[0], [1], [2], [2]])
    (cut,) = find(bins, np.array([[1], [1], [-1], [-1]]), [[0, 1, 2, 3]], [2])
    assert cut[1:] == (0, 1, False, 2)


def test_min_samples_counts_missing_rows():
    bins, reduced = np.array([[0], [1], [1], [1], [2], [2]]), np.array([[9], [1], [1], [1], [9], [9]])
    (cut,) = find(bins, reduced, [list(range(6))], [2], min_samples=3)
    assert cut[1:] == (0, 0, True, 3)
    (cut,) = find(bins, reduced, [list(range(6))], [2], min_samples=4)
    assert cut is None


def test_masked_features_are_not_used():
    bins, reduced, missing_bin = make(40, 4, 5, 3)
    rows = list(range(40))
    mask = [[1, 0, 0, 1], [0, 1, 0, 0], [0, 0, 0, 0]]
    found = find(bins, reduced, [rows] * 3, missing_bin, mask=mask)
    for row, cut in zip(mask, found, strict=True):
        features = [f for f in range(4) if row[f]]
        assert cut == naive.best_split(bins, reduced, rows, features, missing_bin, 1.0, 1)


def test_constant_features_have_no_cut():
    bins = np.zeros((10, 2), int)
    assert find(bins, np.arange(10)[:, None], [list(range(10))], [1, 1]) == [None]


def test_threads_and_many_columns_do_not_change_a_gain():
    bins, reduced, missing_bin = make(60, 7, 6, 9, missing=True, columns=COLUMNS)
    nodes = [list(range(k, 60)) for k in range(0, 50, 7)]
    found = [find(bins, reduced, nodes, missing_bin, n_threads=n) for n in (1, 2, 4)]
    assert found[0] == found[1] == found[2]


def test_no_features_is_refused():
    with pytest.raises(ValueError, match="feature"):
        find(np.empty((3, 0), int), np.ones((3, 1), int), [[0, 1, 2]], [])
