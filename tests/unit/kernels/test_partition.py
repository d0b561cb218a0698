import numpy as np
import pytest

import naive
from sparseleaf import _kernels

NO_SETS = np.empty((0, 32), np.uint8)

dtypes = pytest.mark.parametrize("dtype", [np.uint8, np.uint32])


@dtypes
@pytest.mark.parametrize("n_threads", [1, 3])
def test_partition_is_the_twins_and_stable(dtype, n_threads):
    n = 30_000  # several parts of a node
    rng = np.random.default_rng(0)
    bins = rng.integers(0, 7, (n, 3)).astype(dtype)
    rows = rng.permutation(n).astype(np.int32)
    before = rows.copy()
    starts, ends = np.array([0, 20_000, 20_000, 29_000]), np.array([20_000, 20_000, 21_000, 30_000])
    feature, cut = np.array([0, 1, 2, 1], np.int32), np.array([2, 3, 6, 0], np.int32)
    missing_bin, missing_left = np.full(4, 6, np.int32), np.array([1, 0, 0, 0], np.uint8)
    middles = np.empty(4, np.int64)
    cuts = feature, cut, missing_bin, missing_left, np.full(4, -1, np.int32), NO_SETS
    _kernels.partition(bins, rows, starts, ends, *cuts, middles, n_threads)
    for k in range(4):
        own = before[starts[k] : ends[k]].tolist()
        left, right = naive.partition(bins, own, feature[k], cut[k], 6, bool(missing_left[k]))
        assert rows[starts[k] : ends[k]].tolist() == left + right
        assert middles[k] == starts[k] + len(left)
    np.testing.assert_array_equal(rows[21_000:29_000], before[21_000:29_000])


TREE = {
    "feature": np.array([1, -1, 0, -1, -1], np.int32),
    "cut": np.array([2, 0, 1, 0, 0], np.int32),
    "missing_bin": np.array([4, 0, 4, 0, 0], np.int32),
    "missing_left": np.array([0, 0, 1, 0, 0], np.uint8),
    "child": np.array([1, 0, 3, 1, 2], np.int32),
    "set_of": np.full(5, -1, np.int32),
    "sets": NO_SETS,
}


@dtypes
def test_routes_end_in_the_right_leaf(dtype):
    grid = np.array([[a, b] for a in range(5) for b in range(5)], dtype)
    bins = np.tile(grid, (400, 1))
    rows = np.arange(len(bins) - 5, dtype=np.int32)
    leaf_of_row = np.full(len(bins), -7, np.int32)
    _kernels.route_binned(bins, rows, **TREE, leaf_of_row=leaf_of_row, n_threads=2)

    def leaf(a, b):
        if b <= 2:
            return 0
        return 1 if a <= 1 or a == 4 else 2

    assert leaf_of_row[rows].tolist() == [leaf(a, b) for a, b in bins[rows].tolist()]
    assert (leaf_of_row[len(rows) :] == -7).all()


@pytest.mark.parametrize(("change", "match"), [
    ({"feature": np.array([2, -1, 0, -1, -1], np.int32)}, "feature"),
    ({"child": np.array([0, 0, 3, 1, 2], np.int32)}, "child"),
    ({"child": np.array([4, 0, 3, 1, 2], np.int32)}, "child"),
    ({"child": np.array([2**31 - 1, 0, 3, 1, 2], np.int32)}, "child"),
    ({"cut": np.array([2, 0], np.int32)}, "one number a node"),
])  # fmt: skip
def test_what_is_no_tree_is_refused(change, match):
    bins = np.zeros((3, 2), np.uint8)
    arguments = {**TREE, **change, "leaf_of_row": np.empty(3, np.int32), "n_threads": 1}
    with pytest.raises(ValueError, match=match):
        _kernels.route_binned(bins, np.arange(3, dtype=np.int32), **arguments)


@pytest.mark.parametrize(
    ("start", "end", "feature"), [(-1, 2, 0), (2, 1, 0), (0, 4, 0), (0, 3, 2), (0, 3, -1)]
)
def test_ranges_and_features_beyond_are_refused(start, end, feature):
    with pytest.raises(ValueError):
        _kernels.partition(
            np.zeros((3, 2), np.uint8), np.arange(3, dtype=np.int32), np.array([start]), np.array([end]),
            np.array([feature], np.int32), np.zeros(1, np.int32), np.ones(1, np.int32), np.zeros(1, np.uint8),
            np.full(1, -1, np.int32), NO_SETS, np.empty(1, np.int64), 1,
        )  # fmt: skip


# --- sets of categories


def as_sets(*chosen):
    sets = np.zeros((len(chosen), 32), np.uint8)
    for bits, categories in zip(sets, chosen, strict=True):
        for c in categories:
            bits[c // 8] |= 1 << (c % 8)
    return sets


@dtypes
@pytest.mark.parametrize("n_threads", [1, 3])
def test_partition_by_sets_sends_the_chosen_bins_left(dtype, n_threads):
    n = 20_000
    rng = np.random.default_rng(1)
    bins = rng.integers(0, 256, (n, 2)).astype(dtype)
    rows = rng.permutation(n).astype(np.int32)
    before = rows.copy()
    chosen = [{0, 7, 8, 100, 254, 255}, set(range(0, 256, 3))]
    # the second node is cut by order; the bin of missing rows is in the first set and still goes right
    starts, ends = np.array([0, 12_000, 15_000]), np.array([12_000, 15_000, 20_000])
    missing_left = np.array([0, 1, 1], np.uint8)
    middles = np.empty(3, np.int64)
    _kernels.partition(
        bins, rows, starts, ends, np.array([0, 1, 1], np.int32), np.array([0, 99, 0], np.int32),
        np.full(3, 255, np.int32), missing_left, np.array([0, -1, 1], np.int32), as_sets(*chosen), middles,
        n_threads,
    )  # fmt: skip

    def goes_left(k, row):
        b = int(bins[row, (0, 1, 1)[k]])
        if b == 255:
            return bool(missing_left[k])
        return b <= 99 if k == 1 else b in chosen[k // 2]

    for k in range(3):
        own = before[starts[k] : ends[k]].tolist()
        left = [row for row in own if goes_left(k, row)]
        assert rows[starts[k] : ends[k]].tolist() == left + [row for row in own if not goes_left(k, row)]
        assert middles[k] == starts[k] + len(left)


@dtypes
def test_routes_through_sets(dtype):
    bins = np.array([[a, b] for a in range(5) for b in range(5)], dtype)
    tree = TREE | {"set_of": np.array([1, -1, 0, -1, -1], np.int32), "sets": as_sets({0, 3}, {1, 2, 4})}
    leaf_of_row = np.full(25, -7, np.int32)
    _kernels.route_binned(bins, np.arange(25, dtype=np.int32), **tree, leaf_of_row=leaf_of_row, n_threads=2)

    def leaf(a, b):
        if b in {1, 2}:  # 4 is the missing bin, which goes right
            return 0
        return 1 if a in {0, 3, 4} else 2

    assert leaf_of_row.tolist() == [leaf(a, b) for a, b in bins.tolist()]


@pytest.mark.parametrize(("change", "match"), [
    ({"set_of": np.array([1, -1, -1, -1, -1], np.int32), "sets": as_sets({1})}, "set_of"),
    ({"set_of": np.array([-1], np.int32)}, "set_of"),
    ({"sets": np.zeros((1, 31), np.uint8)}, "sets"),
])  # fmt: skip
def test_sets_that_do_not_fit_are_refused(change, match):
    bins = np.zeros((3, 2), np.uint8)
    arguments = {**TREE, **change, "leaf_of_row": np.empty(3, np.int32), "n_threads": 1}
    with pytest.raises(ValueError, match=match):
        _kernels.route_binned(bins, np.arange(3, dtype=np.int32), **arguments)
