import numpy as np

from sparseleaf.binning import Cuts
from sparseleaf.boosting.tree import GrowingTree, Split

CUTS = Cuts(np.array([0, 2, 2, 5]), np.array([0.5, 1.5, -1, 0, 1], np.float32))


def test_a_lone_root_is_a_leaf():
    tree = GrowingTree()
    tree.plant(7)
    flat = tree.flatten(CUTS)
    assert flat.feature.tolist() == [-1]
    assert flat.child.tolist() == [0]
    assert flat.leaf_nodes.tolist() == [0]


def test_flat_form():
    tree = GrowingTree()
    root = tree.plant(10)
    root.split = Split(2, 1, 4.0, True, 6)
    left, right = tree.split(root)
    assert (left.id, left.depth, left.count) == (1, 1, 6)
    assert (right.id, right.depth, right.count) == (2, 1, 4)
    right.split = Split(0, 2, 1.5, False, 3)  # a cut above all values: only missing rows go right
    tree.split(right)
    left.split = Split(2, 0, 1.0, False, 3)  # found but never made, as with max_leaves
    flat = tree.flatten(CUTS)
    assert flat.feature.tolist() == [2, -1, 0, -1, -1]
    assert flat.bin.tolist() == [1, 0, 2, 0, 0]
    assert flat.threshold.tolist() == [0.0, 0.0, np.inf, 0.0, 0.0]
    assert flat.missing_bin.tolist() == [4, 0, 3, 0, 0]
    assert flat.missing_left.tolist() == [1, 0, 0, 0, 0]
    assert flat.child.tolist() == [1, 0, 3, 1, 2]
    assert flat.gain.tolist() == [4.0, 0.0, 1.5, 0.0, 0.0]
    assert flat.leaf_nodes.tolist() == [1, 3, 4]
    for array, dtype in (
        (flat.feature, np.int32),
        (flat.threshold, np.float32),
        (flat.missing_left, np.uint8),
    ):
        assert array.dtype == dtype


def test_a_feature_without_cuts_may_part_values_from_missing():
    assert CUTS.threshold(np.array([1]), np.array([0])).tolist() == [np.inf]
    assert CUTS.missing_bins.tolist() == [3, 1, 4]
    no_cuts = Cuts(np.array([0, 0]), np.empty(0, np.float32))
    assert no_cuts.threshold(np.array([0]), np.array([0])).tolist() == [np.inf]
