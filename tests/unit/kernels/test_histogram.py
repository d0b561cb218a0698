import numpy as np
import pytest

import naive
from sparseleaf import _kernels


def make(n=300, n_features=6, columns=16, n_bins=9, seed=0):
    rng = np.random.default_rng(seed)
    bins = rng.integers(0, n_bins, (n, n_features)).astype(np.uint8)
    residuals = rng.integers(-300, 300, (n, columns)).astype(np.int16)
    return bins, residuals, rng.permutation(n).astype(np.int32)


def pool(n_slots, n_bins, columns):
    return np.full((n_slots, n_bins, columns), -77, np.int32), np.full((n_slots, n_bins), -77, np.int32)


@pytest.mark.parametrize("columns", [16, 32, 48, 64, 128])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_histograms_are_the_twins(columns, n_threads):
    bins, residuals, rows = make(columns=columns)
    features = np.array([0, 2, 5], np.int32)
    offsets = np.array([0, 9, 18, 27], np.int32)
    starts, ends = np.array([0, 100, 100]), np.array([100, 100, 300])  # the second node has no rows
    slots = np.array([2, 0, 3], np.int32)
    hist, counts = pool(5, 27, columns)
    _kernels.build_histograms(
        bins, residuals, rows, starts, ends, slots, features, offsets, hist, counts, n_threads
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
            np.arange(9, dtype=np.int32), offsets, hist, counts, n_threads,
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
    ({"counts": np.zeros((1, 26), np.int32)}, "counts"),
    ({"residuals": np.zeros((299, 16), np.int16)}, "same rows"),
    ({"residuals": np.zeros((300, 8), np.int16), "hist": np.zeros((1, 27, 8), np.int32)}, "16"),
])  # fmt: skip
def test_arguments_that_do_not_fit_are_refused(change, match):
    bins, residuals, rows = make()
    hist, counts = pool(1, 27, 16)
    arguments = {
        "bins": bins, "residuals": residuals, "rows": rows, "starts": np.array([0]), "ends": np.array([100]),
        "slots": np.array([0], np.int32), "features": np.array([0, 2, 5], np.int32),
        "offsets": np.array([0, 9, 18, 27], np.int32), "hist": hist, "counts": counts, "n_threads": 1,
    }  # fmt: skip
    with pytest.raises(ValueError, match=match):
        _kernels.build_histograms(**{**arguments, **change})
