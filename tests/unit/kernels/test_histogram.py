from itertools import pairwise

import numpy as np
import pytest

import naive
from marks import first
from sparseleaf import _kernels


def make(n=300, n_features=6, columns=16, n_bins=9, seed=0):
    rng = np.random.default_rng(seed)
    bins = rng.integers(0, n_bins, (n, n_features)).astype(np.uint8)
    residuals = rng.integers(-300, 300, (n, columns)).astype(np.int16)
    return bins, residuals, rng.permutation(n).astype(np.int32)


def pool(n_slots, n_bins, columns):
    return np.full((n_slots, n_bins, columns), -77, np.int32), np.full((n_slots, n_bins), -77, np.int32)


@pytest.mark.parametrize("columns", [4, 8, 16, 24, 32, 40, 64, 128])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_histograms_are_the_twins(columns, n_threads):
    bins, residuals, rows = make(columns=columns)
    features = np.array([0, 2, 5], np.int32)
    offsets = np.array([0, 9, 18, 27], np.int32)
    starts, ends = np.array([0, 100, 100]), np.array([100, 100, 300])  # the second node has no rows
    slots = np.array([2, 0, 3], np.int32)
    hist, counts = pool(5, 27, columns)
    none = np.zeros(3, np.uint8)
    _kernels.build_histograms(
        bins, residuals, rows, starts, ends, slots, features, offsets, none, -1, hist, counts, n_threads
    )
    for start, end, slot in zip(starts, ends, slots, strict=True):
        for f, feature in enumerate(features):
            own = slice(offsets[f], offsets[f + 1])
            wanted = naive.histogram(bins, residuals, rows[start:end], feature, 9)
            assert counts[slot, own].tolist() == wanted[0]
            assert hist[slot, own].tolist() == wanted[1]
    for slot in (1, 4):
        assert (hist[slot] == -77).all(), "a slot that nobody asked for was written"


def test_a_large_root_is_cut_into_tasks_without_a_change():
    bins, residuals, rows = make(n=10_000, n_features=9, columns=32, n_bins=200)
    offsets = (np.arange(10) * 200).astype(np.int32)
    results = []
    for n_threads in (1, 2, 4):
        hist, counts = pool(1, 1800, 32)
        _kernels.build_histograms(
            bins, residuals, rows, np.array([0]), np.array([10_000]), np.zeros(1, np.int32),
            np.arange(9, dtype=np.int32), offsets, np.zeros(9, np.uint8), -1, hist, counts, n_threads,
        )  # fmt: skip
        results.append((hist, counts))
    for hist, counts in results:
        np.testing.assert_array_equal(hist, results[0][0])
        np.testing.assert_array_equal(counts, results[0][1])
    for f in range(9):
        wanted = np.zeros((200, 32), np.int64)
        np.add.at(wanted, bins[:, f], residuals)
        np.testing.assert_array_equal(results[0][0][0, offsets[f] : offsets[f + 1]], wanted)


def test_subtract_makes_a_sibling():
    rng = np.random.default_rng(1)
    hist = rng.integers(-1000, 1000, (4, 5, 16)).astype(np.int32)
    counts = rng.integers(0, 1000, (4, 5)).astype(np.int32)
    before, counts_before = hist.copy(), counts.copy()
    _kernels.subtract_histograms(np.array([2, 0], np.int32), np.array([1, 3], np.int32), hist, counts, 2)
    for slot, minus in ((2, 1), (0, 3)):
        np.testing.assert_array_equal(hist[slot], before[slot] - before[minus])
        np.testing.assert_array_equal(counts[slot], counts_before[slot] - counts_before[minus])
    for slot in (1, 3):
        np.testing.assert_array_equal(hist[slot], before[slot])


@pytest.mark.parametrize(("change", "match"), [
    ({"slots": np.array([1], np.int32)}, "slots"),
    ({"slots": np.array([-1], np.int32)}, "slots"),
    ({"ends": np.array([301])}, "starts, ends"),
    ({"starts": np.array([200])}, "starts, ends"),
    ({"starts": np.array([-1])}, "starts, ends"),
    ({"offsets": np.array([0, 9, 18, 26], np.int32)}, "offsets"),
    ({"features": np.array([0, 2], np.int32)}, "offsets"),
    ({"sparse": np.zeros(2, np.uint8)}, "sparse"),
    ({"counts": np.zeros((1, 26), np.int32)}, "counts"),
    ({"count_column": 16}, "count_column"),
    ({"residuals": np.zeros((299, 16), np.int16)}, "same rows"),
    ({"residuals": np.zeros((300, 6), np.int16), "hist": np.zeros((1, 27, 6), np.int32)}, "multiple of 4"),
])  # fmt: skip
def test_arguments_that_do_not_fit_are_refused(change, match):
    bins, residuals, rows = make()
    hist, counts = pool(1, 27, 16)
    arguments = {
        "bins": bins, "residuals": residuals, "rows": rows, "starts": np.array([0]), "ends": np.array([100]),
        "slots": np.array([0], np.int32), "features": np.array([0, 2, 5], np.int32),
        "offsets": np.array([0, 9, 18, 27], np.int32), "sparse": np.zeros(3, np.uint8), "count_column": -1,
        "hist": hist, "counts": counts, "n_threads": 1,
    }  # fmt: skip
    with pytest.raises(ValueError, match=match):
        _kernels.build_histograms(**{**arguments, **change})


def make_sparse(columns, stride):
    """Features of both kinds, one of which no row has another bin of."""
    rng = np.random.default_rng(5)
    bins, residuals, rows = make(n_features=144, columns=columns)
    common = np.tile(np.array([-1, 3, -1, 0, 8, -1, 5, 2], np.int32), 18)
    for f in np.flatnonzero(common >= 0):
        bins[rng.random(len(bins)) < 0.6, f] = common[f]
    bins[:, 7] = 2
    return bins, residuals, rows, common, (np.arange(145) * stride).astype(np.int32)


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("stride", [9, 9000])  # the second needs 32 bits
def test_uncommon_bins_are_parted_by_groups_of_features(n_threads, stride):
    bins, _, _, common, first = make_sparse(4, stride)
    indptr, place, groups, n_entries = _kernels.uncommon_bins(bins, common, first, n_threads)
    assert place.dtype == (np.uint16 if stride == 9 else np.int32)
    assert (groups[0], groups[-1]) == (0, 144)
    assert (np.diff(groups) > 0).all()
    assert len(groups) > 3
    assert len(indptr) == 300 * (len(groups) - 1) + 1
    assert indptr[-1] == sum((bins[:, f] != common[f]).sum() for f in np.flatnonzero(common >= 0))
    assert n_entries.tolist() == np.diff(indptr).reshape(300, -1).sum(axis=0).tolist()
    for i in (0, 17, 299):
        for g, (begin, end) in enumerate(pairwise(groups.tolist())):
            at = i * (len(groups) - 1) + g
            wanted = [
                stride * f + int(bins[i, f])
                for f in range(begin, end)
                if common[f] >= 0 and bins[i, f] != common[f]
            ]
            assert place[indptr[at] : indptr[at + 1]].tolist() == wanted


def test_dense_features_have_no_uncommon_bins():
    bins, _, _, common, first = make_sparse(4, 9)
    indptr, place, groups, _ = _kernels.uncommon_bins(bins, np.full_like(common, -1), first, 2)
    assert (indptr.tolist(), len(place), groups[[0, -1]].tolist()) == ([0], 0, [0, 144])


@pytest.mark.parametrize("columns", first(1, [24, 4, 16, 48]))
@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize(
    ("active", "stride"), [("all", 9), ("some", 9), ("some", 9000), ("of one group", 9), ("dense", 9)]
)
def test_sparse_features_have_the_same_histograms(columns, n_threads, counted, active, stride):
    """Features with a common bin come from the rows that have another, whatever the mixture."""
    bins, residuals, rows, common, first = make_sparse(columns, stride)
    count = columns - 1 if counted else -1
    if counted:
        residuals[:, -1] = 1
    features = {
        "all": np.arange(144),
        "some": np.flatnonzero(np.arange(144) % 5 > 1),
        "of one group": np.array([0, 141, 142]),
        "dense": np.array([2, 8]),
    }[active].astype(np.int32)
    offsets = (np.arange(len(features) + 1) * 9).astype(np.int32)
    starts, ends, slots = np.array([0, 100, 100]), np.array([100, 100, 300]), np.array([2, 0, 3], np.int32)
    hist, counts = pool(4, 9 * len(features), columns)
    sparse = (common[features] >= 0).astype(np.uint8)
    where = rows, starts, ends, slots, features, offsets
    _kernels.build_histograms(bins, residuals, *where, sparse, count, hist, counts, n_threads)
    untouched = np.repeat(sparse > 0, 9)
    assert (counts[2, untouched] == -77).all(), "sparse features are left to the other kernel"
    uncommon = _kernels.uncommon_bins(bins, common, first, n_threads)[:3]
    _kernels.build_sparse_histograms(
        *uncommon, first, common, residuals, *where, count, hist, counts, n_threads
    )
    for start, end, slot in zip(starts, ends, slots, strict=True):
        for f, number in enumerate(features):
            own = slice(offsets[f], offsets[f + 1])
            wanted = naive.histogram(bins, residuals, rows[start:end], number, 9)
            assert counts[slot, own].tolist() == wanted[0]
            assert hist[slot, own].tolist() == wanted[1]


@pytest.mark.parametrize(("change", "match"), [
    ({"groups": np.array([0, 143], np.int32)}, "groups"), ({"groups": np.array([1, 144], np.int32)}, "groups"),
    ({"groups": np.array([0, 30, 20, 144], np.int32)}, "groups"), ({"groups": np.array([144], np.int32)}, "groups"),
    ({"indptr": np.zeros(300, np.int64)}, "indptr"), ({"indptr": np.ones(301, np.int64)}, "indptr"),
    ({"first": np.zeros(144, np.int32)}, "first"), ({"features": np.array([0, 144], np.int32)}, "features"),
    ({"features": np.array([3, 3], np.int32)}, "features"), ({"offsets": np.array([0, 9], np.int32)}, "offsets"),
    ({"offsets": np.array([0, 9, 19], np.int32)}, "offsets"), ({"slots": np.array([4], np.int32)}, "slots"),
    ({"common": np.full(144, 9, np.int32)}, "common"), ({"count_column": 4}, "count_column"),
])  # fmt: skip
def test_misuse_of_sparse_histograms_is_told(change, match):
    _, residuals, rows, common, first = make_sparse(4, 9)
    hist, counts = pool(4, 18, 4)
    arguments = {
        "indptr": np.zeros(301, np.int64), "place": np.empty(0, np.uint16), "groups": np.array([0, 144], np.int32),
        "first": first, "common": common, "residuals": residuals, "rows": rows, "starts": np.array([0]),
        "ends": np.array([100]), "slots": np.array([1], np.int32), "features": np.array([1, 3], np.int32),
        "offsets": np.array([0, 9, 18], np.int32), "count_column": -1, "hist": hist, "counts": counts, "n_threads": 1,
    }  # fmt: skip
    with pytest.raises(ValueError, match=match):
        _kernels.build_sparse_histograms(**{**arguments, **change})
