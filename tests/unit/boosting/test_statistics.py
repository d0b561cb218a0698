import numpy as np
import pytest

from sparseleaf.boosting.columns import COUNT
from sparseleaf.boosting.reducers import CountSketch
from sparseleaf.boosting.statistics import SparseResiduals


class FakeShards:
    """Answers of a shard whose reduced residuals are given."""

    def __init__(self, columns):
        self.columns = columns
        self.scale = None

    def gather(self, verb, *args):
        assert verb == "reduce"
        return [float(np.abs(self.columns).max())]

    def sum(self, verb, scale):
        assert verb == "quantise"
        self.scale = scale
        return np.abs(np.rint(self.columns * scale)).sum(axis=0).astype(np.int64)

    def call(self, verb, scale):
        self.sum(verb, scale)


def scale_of(columns):
    shards = FakeShards(np.asarray(columns, np.float64))
    columns = SparseResiduals(CountSketch(2), None, 0.5, 0).fill(shards, 0)
    assert columns.curvature == COUNT
    # the score of a column is weight · G²/(n + l2) in units of the residuals
    assert columns.weight.tolist() == [shards.scale**-2] * 2
    assert columns.lambda_.tolist() == [0.5] * 2
    return shards.scale


def test_scale_is_the_largest_power_of_two_that_fits_16_bits():
    assert scale_of([[1.0, 0.5]]) == 2.0**14
    assert scale_of([[1.0, -0.25]]) == 2.0**14
    assert scale_of([[0.9999]]) == 2.0**15
    assert scale_of([[40_000.0]]) == 0.5


def test_scale_leaves_room_for_the_sum_of_a_column():
    assert scale_of(np.ones((200_000, 1))) == 2.0**13  # 200,000 × 2^14 would pass 2^31


def test_nothing_left_to_learn():
    assert scale_of([[0.0, 0.0]]) == 1.0


@pytest.mark.parametrize("largest", [1e-30, 1e-38, 1e-45])
def test_scale_of_tiny_residuals_is_a_float32(largest):
    assert np.isfinite(np.float32(scale_of([[largest]])))
