import numpy as np

from sparseleaf.binning import BinThresholds
from sparseleaf.training.tree import GrownNodes

THRESHOLDS = BinThresholds(np.array([0, 2, 2, 5]), np.array([0.5, 1.5, -1, 0, 1], np.float32))


def grown(feature, bin_, missing_left, gain, child, count):
    return GrownNodes(
        np.array(feature, np.int32), np.array(bin_, np.int32), np.array(missing_left, np.uint8), np.array(gain, float),
        np.array(child, np.int32), np.array(count), np.empty(0, np.int32), np.empty((0, 32), np.uint8),
    )  # fmt: skip


def test_a_lone_root_is_a_leaf():
    flat = grown([-1], [0], [0], [0], [0], [7]).flatten(THRESHOLDS)
    assert flat.feature.tolist() == [-1]
    assert flat.child.tolist() == [0]
    assert flat.leaf_nodes.tolist() == [0]


def test_flat_form():
    # the second split is above all values: only missing rows go right
    flat = grown(
        [2, -1, 0, -1, -1],
        [1, 0, 2, 0, 0],
        [1, 0, 0, 0, 0],
        [4, 0, 1.5, 0, 0],
        [1, 0, 3, 1, 2],
        [10, 6, 4, 3, 1],
    ).flatten(THRESHOLDS)
    assert flat.threshold.tolist() == [0.0, 0.0, np.inf, 0.0, 0.0]
    assert flat.missing_bin.tolist() == [4, 0, 3, 0, 0]
    assert flat.leaf_nodes.tolist() == [0, 1, 2]
    assert flat.set_of.tolist() == [-1] * 5
    for array, dtype in (
        (flat.feature, np.int32),
        (flat.threshold, np.float32),
        (flat.missing_left, np.uint8),
    ):
        assert array.dtype == dtype


def test_a_feature_without_cuts_may_part_values_from_missing():
    assert THRESHOLDS.at(np.array([1]), np.array([0])).tolist() == [np.inf]
    assert THRESHOLDS.missing_bins.tolist() == [3, 1, 4]
    no_thresholds = BinThresholds(np.array([0, 0]), np.empty(0, np.float32))
    assert no_thresholds.at(np.array([0]), np.array([0])).tolist() == [np.inf]
