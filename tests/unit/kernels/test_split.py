"""The best split of a node by number of rows, against the twin that tries them all."""

import numpy as np
import pytest

import naive
import naive_dense
from stumps import find_splits

COLUMNS = 16


def find(bins, sketched, nodes, missing_bin, *, l2=1.0, min_samples=1, features=None, n_threads=2):
    """Splits of the given nodes, as the twin has them."""
    d = sketched.shape[1]
    scoring = naive_dense.Scoring(d, "count", l2=l2)
    found = find_splits(
        bins,
        sketched,
        nodes,
        missing_bin,
        scoring,
        min_samples=min_samples,
        features=features,
        n_threads=n_threads,
    )
    names = ("gain", "feature", "bin", "missing_left", "left")
    return [split and tuple(split[name] for name in names) for split in found]


def make(n, n_features, n_bins, seed, missing=False, columns=5):
    rng = np.random.default_rng(seed)
    bins = rng.integers(0, n_bins + missing, (n, n_features))
    return bins, rng.integers(-50, 50, (n, columns)), [n_bins] * n_features


def assert_same(found, wanted, bins, rows):
    """The same split; where no row of the set is without a value, missing ones go the way of most."""
    if wanted is not None and not (bins[:, wanted[1]] == 5).any():
        wanted = (*wanted[:3], 2 * wanted[4] > len(rows), wanted[4])
    assert found == wanted


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("missing", [False, True])
def test_best_split_is_the_twins(seed, missing):
    bins, sketched, missing_bin = make(40, 4, 5, seed, missing)
    min_samples, l2 = (1, 4, 12)[seed % 3], (0.0, 1.0, 7.5)[seed % 3]
    nodes = [list(range(40)), list(range(0, 40, 3)), list(range(5))]
    found = find(bins, sketched, nodes, missing_bin, l2=l2, min_samples=min_samples)
    for rows, split in zip(nodes, found, strict=True):
        assert_same(
            split, naive.best_split(bins, sketched, rows, range(4), missing_bin, l2, min_samples), bins, rows
        )


def test_ties_go_to_the_lower_feature_then_the_lower_bin():
    bins = np.array([[0, 0], [0, 0], [2, 2], [2, 2]])
    sketched = np.array([[3], [3], [-3], [-3]])
    for bins_now in (bins, bins[:, ::-1]):
        (split,) = find(bins_now, sketched, [[0, 1, 2, 3]], [4, 4], l2=0.0)
        assert split == (36.0, 0, 0, False, 2)
    # left to right and right to left the same: the lower bin of a feature wins
    bins = np.array([[0], [1], [2]])
    (split,) = find(bins, np.array([[1], [0], [1]]), [[0, 1, 2]], [3], l2=0.0)
    assert split[1:3] == (0, 0)


@pytest.mark.parametrize("order", [(1, 0), (0, 1)])
def test_a_higher_gain_beats_a_lower_feature(order):
    bins = np.array([[0, 0], [1, 0], [0, 1], [1, 1]])[:, order]
    (split,) = find(bins, np.array([[5], [5], [-5], [-5]]), [[0, 1, 2, 3]], [2, 2])
    assert split[1] == order.index(1)


def test_missing_rows_go_to_the_side_that_gains_and_right_in_a_tie():
    bins = np.array([[0], [0], [1], [1], [2], [2]])  # bin 2 is "missing"
    for values, wanted in (([1, 1, -1, -1, 1, 1], True), ([1, 1, -1, -1, -1, -1], False)):
        (split,) = find(bins, np.array(values)[:, None], [list(range(6))], [2])
        assert split[1:4] == (0, 0, wanted)
    # missing rows of no weight, twice as many rows on either side: left or right is the same
    (split,) = find(bins, np.array([1, 1, -1, -1, 0, 0])[:, None], [list(range(6))], [2], l2=0.0)
    assert split[3] is False


def test_all_values_against_missing_is_a_split():
    bins = np.array([[0], [1], [2], [2]])
    (split,) = find(bins, np.array([[1], [1], [-1], [-1]]), [[0, 1, 2, 3]], [2])
    assert split[1:] == (0, 1, False, 2)


def test_min_samples_counts_missing_rows():
    bins, sketched = np.array([[0], [1], [1], [1], [2], [2]]), np.array([[9], [1], [1], [1], [9], [9]])
    (split,) = find(bins, sketched, [list(range(6))], [2], min_samples=3)
    assert split[1:] == (0, 0, True, 3)
    (split,) = find(bins, sketched, [list(range(6))], [2], min_samples=4)
    assert split is None


@pytest.mark.parametrize("features", [[0, 3], [1], [0, 1, 2]])
def test_other_features_are_not_used(features):
    bins, sketched, missing_bin = make(40, 4, 5, 3)
    rows = list(range(40))
    (split,) = find(bins, sketched, [rows], missing_bin, features=features)
    assert_same(split, naive.best_split(bins, sketched, rows, features, missing_bin, 1.0, 1), bins, rows)


def test_constant_features_have_no_split():
    bins = np.zeros((10, 2), int)
    assert find(bins, np.arange(10)[:, None], [list(range(10))], [1, 1]) == [None]


def test_threads_and_many_columns_do_not_change_a_gain():
    bins, sketched, missing_bin = make(60, 7, 6, 9, missing=True, columns=COLUMNS)
    nodes = [list(range(k, 60)) for k in range(0, 50, 7)]
    found = [find(bins, sketched, nodes, missing_bin, n_threads=n) for n in (1, 2, 4)]
    assert found[0] == found[1] == found[2]


def test_no_features_is_refused():
    with pytest.raises(ValueError, match="feature"):
        find(np.zeros((3, 1), int), np.ones((3, 1), int), [[0, 1, 2]], [1], features=[])
