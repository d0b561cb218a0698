"""Arguments of the kernel that grows a whole tree; that it grows the right one: see boosting/test_grown_at_once.py."""

import signal

import numpy as np
import pytest

from sparseleaf import _kernels


def arguments(**changes):
    """A stump's: four rows, the second of two features, which parts them in the middle."""
    hist = np.empty((3, 3, 4), np.int32)
    plain = {
        "bins": np.array([[0, 0], [1, 0], [0, 1], [1, 1]], np.uint8),
        "residuals": np.array([[-1, 0, 0, 1], [-1, 0, 0, 1], [1, 0, 0, 1], [1, 0, 0, 1]], np.int16),
        "count_column": 3,
        "rows": np.array([2, 0, 1, 3], np.int32),
        "indptr": np.zeros(1, np.int64),
        "place": np.empty(0, np.uint16),
        "groups": np.array([0, 2], np.int32),
        "n_entries": np.zeros(1, np.int64),
        "first": np.array([0, 3, 6], np.int32),
        "common": np.array([-1, -1], np.int32),
        "features": np.array([1], np.int32),
        "offsets": np.array([0, 3], np.int32),
        "has_missing": np.zeros(1, np.uint8),
        "categorical": np.zeros(1, np.uint8),
        "missing_bin": np.array([2], np.int32),
        "curvature": 0,
        "weight": np.ones(1),
        "lambda_": np.ones(1),
        "step": np.ones(1),
        "l2": 0.0,
        "top": 0,
        "shared": False,
        "min_samples": 1,
        "min_curvature": 0.0,
        "min_gain": 0.0,
        "max_depth": -1,
        "max_splits": 3,
        "best_first": True,
        "hist": hist,
        "counts": np.empty((3, 3), np.int32),
        "n_threads": 2,
    }
    return {**plain, **changes}


def test_a_stump_by_hand():
    wanted = arguments()
    feature, bin_, gain, missing_left, child, count, sets, starts, ends = _kernels.grow_tree(**wanted)
    assert feature.tolist() == [1, -1, -1]
    assert bin_.tolist() == [0, 0, 0]
    assert gain.tolist() == [2 + 2 - 0, 0, 0], "2²/2 on either side, 0 together"
    assert missing_left.tolist() == [0, 0, 0]
    assert child.tolist() == [1, 0, 1]
    assert count.tolist() == [4, 2, 2]
    assert not sets.any()
    assert (starts.tolist(), ends.tolist()) == ([0, 2], [2, 4])
    assert wanted["rows"].tolist() == [0, 1, 2, 3], "in their old order on both sides"


@pytest.mark.parametrize("change", [
    {"max_splits": 0}, {"max_depth": 0}, {"min_samples": 3}, {"min_gain": 4.0}, {"rows": np.empty(0, np.int32)},
])  # fmt: skip
def test_no_cut_leaves_the_root_alone(change):
    feature, *_, starts, ends = _kernels.grow_tree(**arguments(**change))
    assert feature.tolist() == [-1]
    assert (starts.tolist(), ends.tolist()) == ([0], [len(arguments(**change)["rows"])])


@pytest.mark.parametrize(("change", "message"), [
    ({"rows": np.array([0, 4], np.int32)}, "rows"),
    ({"rows": np.array([0, -1], np.int32)}, "rows"),
    ({"features": np.array([2], np.int32)}, "features"),
    ({"features": np.array([0, 1], np.int32)}, "features"),
    ({"offsets": np.array([0, 4], np.int32)}, "offsets"),
    ({"first": np.array([0, 3], np.int32)}, "first"),
    ({"first": np.array([0, 7, 6], np.int32)}, "first"),
    ({"common": np.array([-1], np.int32)}, "common"),
    ({"n_entries": np.zeros(2, np.int64)}, "n_entries"),
    ({"groups": np.array([0, 1], np.int32)}, "groups"),
    ({"groups": np.array([0, 1, 2], np.int32), "common": np.zeros(2, np.int32), "indptr": np.zeros(5, int)}, "indptr"),
    ({"common": np.zeros(2, np.int32)}, "indptr"),
    ({"indptr": np.zeros(5, np.int64)}, "indptr"),
    ({"indptr": np.ones(1, np.int64)}, "indptr"),
    ({"residuals": np.zeros((3, 4), np.int16)}, "residuals"),
    ({"residuals": np.zeros((4, 8), np.int16)}, "hist"),
    ({"count_column": 4}, "count_column"),
    ({"counts": np.empty((2, 3), np.int32)}, "counts"),
    ({"missing_bin": np.empty(0, np.int32)}, "missing_bin"),
    ({"categorical": np.empty(0, np.uint8)}, "categorical"),
    ({"curvature": 4}, "hist"),
    ({"step": np.ones(2)}, "step"),
    ({"top": -1}, "top"),
    ({"hist": np.empty((0, 3, 4), np.int32), "counts": np.empty((0, 3), np.int32)}, "too few slots"),
])  # fmt: skip
def test_misuse_is_told(change, message):
    with pytest.raises(ValueError, match=message):
        _kernels.grow_tree(**arguments(**change))


def test_a_long_tree_hears_signals():
    """2^16 leaves, one split after the other, take far longer than it takes to ask."""
    n_features = 16
    n = 2**n_features
    rng = np.random.default_rng(0)
    bins = ((np.arange(n)[:, None] >> np.arange(n_features)) & 1).astype(np.uint8)
    residuals = np.zeros((n, 4), np.int16)
    residuals[:, 0], residuals[:, 3] = rng.integers(-99, 99, n), 1
    slots = n + 16
    long = arguments(
        bins=bins, residuals=residuals, rows=np.arange(n, dtype=np.int32),
        first=np.arange(0, 2 * n_features + 1, 2, dtype=np.int32), common=np.full(n_features, -1, np.int32),
        groups=np.array([0, n_features], np.int32), features=np.arange(n_features, dtype=np.int32),
        offsets=np.arange(0, 2 * n_features + 1, 2, dtype=np.int32), has_missing=np.zeros(n_features, np.uint8),
        categorical=np.zeros(n_features, np.uint8), missing_bin=np.full(n_features, 2, np.int32),
        max_splits=n, min_gain=-1.0, hist=np.empty((slots, 2 * n_features, 4), np.int32),
        counts=np.empty((slots, 2 * n_features), np.int32),
    )  # fmt: skip

    class HeardError(Exception):
        pass

    def hear(*_):
        raise HeardError

    before = signal.signal(signal.SIGALRM, hear)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        with pytest.raises(HeardError):
            _kernels.grow_tree(**long)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    assert np.array_equal(np.sort(long["rows"]), np.arange(n)), "no row is lost"
    first_cut = np.flatnonzero((np.diff(bins[long["rows"]].astype(int), axis=0) != 0).sum(axis=0) == 1)
    assert len(first_cut) == 1, "the first cut has parted the rows"
