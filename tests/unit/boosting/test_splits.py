import numpy as np

from sparseleaf.boosting.splits import NodeFeatures, SplitLimits, sample_features
from sparseleaf.boosting.tree import Node


def test_limits():
    limits = SplitLimits(max_depth=3, min_samples_leaf=5, l2=1.0, min_gain=0.0)
    assert limits.may_split(Node(0, 2, 10))
    assert not limits.may_split(Node(0, 3, 10))
    assert not limits.may_split(Node(0, 2, 9))
    assert SplitLimits(None, 5, 1.0, 0.0).may_split(Node(0, 99, 10))


def test_features_of_a_node_depend_on_its_number_alone():
    features = NodeFeatures(20, 0.3, 1, 2, 3)
    mask = features.mask([0, 1, 2, 3])
    assert mask.shape == (4, 20)
    assert mask.sum(axis=1).tolist() == [6] * 4
    assert len({row.tobytes() for row in mask}) > 1
    np.testing.assert_array_equal(features.mask([2]), mask[2:3])
    assert not np.array_equal(NodeFeatures(20, 0.3, 1, 3, 3).mask([0, 1, 2, 3]), mask)


def test_all_features_need_no_mask_and_few_give_at_least_one():
    assert NodeFeatures(20, 1.0, 1).mask([0, 1]).shape == (0, 20)
    assert NodeFeatures(20, 0.001, 1).mask([0]).sum() == 1


def test_sampled_features_are_distinct_and_increase():
    drawn = sample_features(50, 20, 7, 8)
    assert (np.diff(drawn) > 0).all()
    assert len(drawn) == 20
    np.testing.assert_array_equal(drawn, sample_features(50, 20, 7, 8))
    chosen = [set(sample_features(50, 20, 7, tree).tolist()) for tree in range(30)]
    assert set().union(*chosen) == set(range(50))
