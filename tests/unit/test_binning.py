import numpy as np
import pytest
import scipy.sparse as sp

from smalldata import make_set
from sparseleaf import binning
from sparseleaf.binning import EXACT_BINS, bin_features, common_bins, find_thresholds


def test_thresholds_of_many_rows_come_from_a_sample_drawn_by_row_number(monkeypatch):
    X = np.arange(5000, dtype=np.float32)[:, None]
    monkeypatch.setattr(binning, "SAMPLE_ROWS", 500)
    thresholds = find_thresholds([X], 10, 3, 1)
    assert len(thresholds.values) == 9
    np.testing.assert_allclose(np.diff(thresholds.values), 500, rtol=0.5)
    np.testing.assert_array_equal(find_thresholds([X], 10, 3, 2).values, thresholds.values)
    assert not np.array_equal(find_thresholds([X], 10, 4, 1).values, thresholds.values)
    sparse = find_thresholds([sp.csr_matrix(X)], 10, 3, 1)
    np.testing.assert_array_equal(sparse.values, thresholds.values)
    assert len(find_thresholds([X], EXACT_BINS, 3, 1).values) == 4999, "exact thresholds are not sampled"


@pytest.mark.parametrize("sparse", [False, True])
def test_threshold_of_a_split_is_the_test_on_raw_values(sparse):
    X, _ = make_set(300, 4, 2, seed=1, decimals=1)
    thresholds = find_thresholds([X], 8, 0, 1)
    bins = bin_features([sp.csr_matrix(X) if sparse else X], thresholds, np.uint8, 1)
    for feature in range(4):
        for b in range(8):
            threshold = thresholds.at(np.array([feature]), np.array([b]))[0]
            np.testing.assert_array_equal(bins[:, feature] <= b, X[:, feature] <= threshold)


def test_parts_lie_side_by_side():
    X, _ = make_set(300, 5, 2, seed=2, decimals=1, missing=0.1)
    parts = [X[:, :2].copy(), sp.csr_matrix(X[:, 2:4]), X[:, 4:].copy()]
    whole, thresholds = find_thresholds([X], 8, 0, 1), find_thresholds(parts, 8, 0, 1)
    np.testing.assert_array_equal(thresholds.offsets, whole.offsets)
    np.testing.assert_array_equal(thresholds.values, whole.values)
    found = bin_features(parts, thresholds, np.uint8, 2)
    assert found.flags.c_contiguous
    np.testing.assert_array_equal(found, bin_features([X], whole, np.uint8, 1))


def test_common_bins():
    bins = np.zeros((100, 4), np.uint8)
    bins[:70, 0] = np.arange(70) % 7 + 1  # 30 % have bin 0
    bins[:71, 1] = np.arange(71) % 7 + 1  # 29 % have
    bins[5:, 2] = 7
    assert common_bins(bins, 1).tolist() == [0, -1, 7, 0]
    assert common_bins(bins.astype(np.uint32), 1).tolist() == [-1] * 4
