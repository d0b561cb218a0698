import numpy as np
import pytest

from sparseleaf.objectives import dense_objective
from sparseleaf.objectives.targets import NO_CLASSES, NO_VALUES, DenseTargets
from sparseleaf.training.columns import (
    COUNT,
    DIAGONAL,
    MATRIX,
    SHARED,
    fixed_point_scales,
    int16_scales,
    make_columns,
    padded_width,
)
from sparseleaf.training.dense_shard import DenseShard
from sparseleaf.training.leaves import NewtonLeaves
from sparseleaf.training.sketches import CountSketch, make_sketch
from sparseleaf.training.statistics import DenseGradients, SparseResiduals
from workers import ALONE


class FakeShard:
    """A shard whose sketched residuals are given."""

    largest_weight = 0.0

    def __init__(self, columns):
        self.columns = columns
        self.scale = None

    def sketch(self, plan, width):
        return float(np.abs(self.columns).max())

    def quantise(self, scales, key):
        assert len(set(scales)) == 1
        self.scale = scales[0]
        sums = np.abs(np.rint(self.columns * self.scale)).sum(axis=0).astype(np.int64)
        return np.broadcast_to(sums, 2).copy()


def scale_of(columns):
    shard = FakeShard(np.asarray(columns, np.float64))
    columns = SparseResiduals(CountSketch(2), None, 0.5, n_rows=len(columns), seed=0).fill(ALONE, shard, 0)
    assert columns.hessian == COUNT
    # the score of a column is weight · G²/(n + l2) in units of the residuals
    assert columns.weight.tolist() == [shard.scale**-2] * 2
    assert columns.lambda_.tolist() == [0.5] * 2
    return shard.scale


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


# --- scales


def test_padding():
    assert [padded_width(width) for width in (1, 4, 5, 8, 9, 16, 17, 33)] == [4, 4, 8, 8, 16, 16, 24, 40]


def test_scales_of_columns():
    largest = np.array([1.0, 0.9999, 40_000, 0.0, 1e-45])
    assert int16_scales(largest).tolist() == [2.0**14, 2.0**15, 0.5, 1.0, 2.0**127]
    for size, scale in zip(largest, fixed_point_scales(largest, 1000), strict=True):
        assert size * 1000 * scale <= 2**62
        assert size == 0 or scale == 2.0**200 or size * 1000 * scale > 2**60


def test_scores_and_steps_are_in_the_units_of_gradients():
    """weight · G²/(H + λ) of scaled integers is G²/(H + l2) of what they stand for."""
    g, h, l2 = np.array([3.0, -0.5]), np.array([7.0, 2.0]), 1.5
    g_scale, h_scale = np.array([2.0**10, 2.0**3]), np.array([2.0**5, 2.0**12])
    for kind in (DIAGONAL, SHARED):
        own_h = h_scale if kind == DIAGONAL else h_scale[:1]
        columns = make_columns(kind, g_scale, own_h, l2)
        G, H = g * g_scale, h * np.broadcast_to(own_h, 2)
        np.testing.assert_allclose(columns.weight * G**2 / (H + columns.lambda_), g**2 / (h + l2))
        np.testing.assert_allclose(-columns.step * G / (H + columns.lambda_), -g / (h + l2))
    columns = make_columns(COUNT, g_scale, np.ones(1), l2)
    np.testing.assert_allclose(columns.weight * (g * g_scale) ** 2 / (9 + columns.lambda_), g**2 / (9 + l2))
    assert make_columns(DIAGONAL, g_scale, h_scale, 0.0).lambda_.tolist() == [1, 1], "never 0/0"


# --- dense gradients


class FakeGradients:
    """A shard whose gradients, one output, and hessians are given."""

    def __init__(self, g, h):
        self.g, self.h, self.looks = g, h, 0

    def gradients(self, tree):
        return np.abs(self.g).max(keepdims=True), np.abs(self.h).max(keepdims=True)

    def quantise(self, g_scale, h_scale, key, first):
        assert first == 0
        self.looks += 1
        return np.array(
            [np.abs(np.rint(self.g * g_scale)).sum(), np.abs(np.rint(self.h * h_scale)).sum()], np.int64
        )


def test_scales_do_not_depend_on_the_trees_before():
    """How often they were halved for the last tree is a guess, to look once instead of often."""
    n = 300_000
    rng = np.random.default_rng(0)

    def statistics():
        rule = NewtonLeaves(None, False, 0.0, 1.0, 1.0)
        return DenseGradients(1, DIAGONAL, rule, None, tree_per_output=False, n_rows=n, seed=0)

    outliers = np.where(np.arange(n) < 5, 1.0, 1e-4)  # no sum to fear
    sets = [
        np.ones(n),
        np.ones(n),
        outliers,
        rng.random(n),
        rng.random(n) ** 20,
        np.full(n, 0.3),
        rng.random(n),
    ]
    seen, looks = statistics(), []
    for tree, g in enumerate(sets):
        shard, alone = FakeGradients(g, g[::-1] ** 2), FakeGradients(g, g[::-1] ** 2)
        found, fresh = seen.fill(ALONE, shard, tree), statistics().fill(ALONE, alone, tree)
        assert (found.weight.tolist(), found.step.tolist()) == (fresh.weight.tolist(), fresh.step.tolist())
        looks.append((shard.looks, alone.looks))
    assert looks[1] == (1, 3), "ones: 300,000 × 2¹⁴ is halved twice, or at once"
    assert looks[2] == (2, 1), "a guess too low is taken back"


def dense(name, n=50, d=3, *, matrix=False, weights=NO_VALUES, unknown=False, seed=0):
    rng = np.random.default_rng(seed)
    loss = dense_objective(name)
    if loss.needs_classes:
        targets = DenseTargets(NO_VALUES, rng.integers(0, d, n).astype(np.int32), weights, d)
    else:
        y = rng.normal(size=(n, d)).astype(np.float32) * np.array([1, 100, 0.01], np.float32)[:d]
        if unknown:
            y[rng.random(y.shape) < 0.2] = np.nan
        targets = DenseTargets(y, NO_CLASSES, weights, d)
    bins = rng.integers(0, 5, (n, 2)).astype(np.uint8)
    scores = np.zeros((n, d), np.float32)
    return DenseShard(bins, np.full(2, 9, np.int32), targets, scores, loss, 1, matrix=matrix)


def statistics(shard, hessian, *, sketch=None, alone=False, l2=1.0):
    rule = NewtonLeaves(None, False, 0.0, l2, 1.0)
    d = shard.scores.shape[1]
    return DenseGradients(d, hessian, rule, sketch, tree_per_output=alone, n_rows=shard.n_rows, seed=0)


@pytest.mark.parametrize(("name", "hessian", "options"), [
    ("mse", COUNT, {}), ("mse", DIAGONAL, {"unknown": True}), ("softmax", DIAGONAL, {}),
    ("softmax", MATRIX, {"matrix": True}), ("mse", SHARED, {"weights": np.full((50, 1), 2.5, np.float32)}),
])  # fmt: skip
def test_columns_are_gradients_and_hessians_in_16_bits(name, hessian, options):
    shard = dense(name, **options)
    found = statistics(shard, hessian)
    columns = found.fill(ALONE, shard, 0)
    assert columns.hessian == hessian
    scale = columns.step / columns.weight  # = g_scale
    integers = shard._residuals[:, :3]
    np.testing.assert_allclose(integers / scale, shard._g, atol=(0.5 / scale).max())
    assert (np.abs(integers).max(axis=0) > 2**12).all(), "every output uses its bits"
    if hessian != COUNT:
        width = {SHARED: 1, DIAGONAL: 3, MATRIX: 6}[hessian]
        own = shard._residuals[:, 3 : 3 + width].astype(float)
        share = own / np.abs(own).max(axis=0)
        np.testing.assert_allclose(share, shard._h / np.abs(shard._h).max(axis=0), atol=2e-4)
    if hessian == MATRIX:
        assert len(set(scale)) == 1, "a quadratic form has one scale"


@pytest.mark.parametrize("output", [0, 1, 2])
def test_a_tree_for_one_output_sees_its_columns_alone(output):
    shard = dense("softmax")
    found = statistics(shard, DIAGONAL, alone=True)
    columns = [found.fill(ALONE, shard, t) for t in range(output + 1)][-1]
    assert columns.first == output
    scale = columns.step / columns.weight
    np.testing.assert_allclose(shard._residuals[:, 0] / scale[0], shard._g[:, output], atol=1e-3)


def test_sums_of_many_rows_fit_31_bits():
    shard = dense("mse", n=200_000, d=1)
    shard.targets.values[:] = 1
    statistics(shard, COUNT).fill(ALONE, shard, 0)
    assert np.abs(shard._residuals[:, 0].astype(np.int64)).sum() <= 2**31 - 1
    assert np.abs(shard._residuals[:, 0]).min() >= 2**12


def test_outputs_are_chosen_by_what_they_lack_in_one_scale():
    """The second output is a hundred times as large as the first, the third a hundredth."""
    shard = dense("mse")
    statistics(shard, COUNT, sketch=make_sketch("top-outputs", 1, 3)).fill(ALONE, shard, 0)
    share = shard._residuals[:, 0] / shard._g[:, 1]
    assert share.std() < 0.01 * share.mean()


def test_norms_of_many_outputs_do_not_overflow():
    shard = dense("mse", d=3, n=1000)
    shard.targets = DenseTargets(np.ones((1000, 500), np.float32), NO_CLASSES, NO_VALUES, 500)
    shard.scores = np.zeros((1000, 500), np.float32)
    columns = statistics(shard, COUNT, sketch=make_sketch("sampling", 8, 500)).fill(ALONE, shard, 0)
    assert np.isfinite(columns.weight).all()


def test_leaf_sums_are_exact_to_the_last_bits():
    shard = dense("softmax", n=500)
    found = statistics(shard, DIAGONAL)
    found.fill(ALONE, shard, 0)
    shard.start_tree(1.0)
    g_scale, h_scale = found._fixed_scales()
    sums = shard.leaf_sums([0], g_scale, h_scale)
    np.testing.assert_allclose(
        sums[0, :3] / g_scale, shard._g.astype(np.float64).sum(axis=0), rtol=1e-12, atol=1e-13
    )
    np.testing.assert_allclose(sums[0, 3:6] / h_scale, shard._h.astype(np.float64).sum(axis=0), rtol=1e-12)
    assert sums[0, 6] == 500


def test_gradients_beyond_float32_are_refused():
    shard = dense("mse")
    shard.targets.values[0, 0], shard.scores[0, 0] = 3e38, -3e38
    with (
        np.errstate(over="ignore"),
        pytest.raises(ValueError, match=r"exceed the range of float32. Scale y or sample_weight"),
    ):
        statistics(shard, COUNT).fill(ALONE, shard, 0)
