import numpy as np
import pytest

from sparseleaf import _kernels

NO_SETS = np.empty((0, 32), np.uint8)

dtypes = pytest.mark.parametrize("dtype", [np.uint8, np.uint32])


TREE = {
    "feature": np.array([1, -1, 0, -1, -1], np.int32),
    "split_bin": np.array([2, 0, 1, 0, 0], np.int32),
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
    ({"split_bin": np.array([2, 0], np.int32)}, "equal lengths"),
])  # fmt: skip
def test_what_is_no_tree_is_refused(change, match):
    bins = np.zeros((3, 2), np.uint8)
    arguments = {**TREE, **change, "leaf_of_row": np.empty(3, np.int32), "n_threads": 1}
    with pytest.raises(ValueError, match=match):
        _kernels.route_binned(bins, np.arange(3, dtype=np.int32), **arguments)


# --- sets of categories


def as_sets(*chosen):
    sets = np.zeros((len(chosen), 32), np.uint8)
    for bits, categories in zip(sets, chosen, strict=True):
        for c in categories:
            bits[c // 8] |= 1 << (c % 8)
    return sets


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


def test_leaves_are_written_from_their_rows():
    rng = np.random.default_rng(0)
    rows = rng.permutation(30_000).astype(np.int32)[:29_990]
    borders = np.array([0, 1, 1, 17_000, 29_990])  # one leaf is empty, two take several tasks
    order = np.array([3, 1, 0, 2])
    starts, ends = borders[:-1][order], borders[1:][order]
    wanted = np.full(30_000, -7, np.int32)
    for leaf, (start, end) in enumerate(zip(starts, ends, strict=True)):
        wanted[rows[start:end]] = leaf
    for n_threads in (1, 3):
        leaf_of_row = np.full(30_000, -7, np.int32)
        _kernels.write_leaves(rows, starts, ends, leaf_of_row, n_threads)
        np.testing.assert_array_equal(leaf_of_row, wanted)
    with pytest.raises(ValueError, match="rows"):
        _kernels.write_leaves(rows, starts, ends, leaf_of_row[:100], 3)
    with pytest.raises(ValueError, match="ranges"):
        _kernels.write_leaves(rows, starts, ends + 1, leaf_of_row, 3)
