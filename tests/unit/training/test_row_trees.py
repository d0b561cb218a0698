"""Trees of a forest against the readable twin, node by node and to the bit; and the samples of rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive_growing
import naive_rows
from sparseleaf._arrays import empty_aligned
from sparseleaf.binning import BinThresholds, bin_positions
from sparseleaf.distributed.communicator import LocalCommunicator
from sparseleaf.objectives.targets import NO_CLASSES, NO_VALUES, DenseTargets
from sparseleaf.training.bagging import MOST_REPEATS, Bagging
from sparseleaf.training.builder import BinnedColumns, Growth, RowTrees, TreeSample, gradient_columns
from sparseleaf.training.columns import COUNT, DIAGONAL, SHARED, Columns, padded_width

KINDS = {"count": COUNT, "shared": SHARED, "diagonal": DIAGONAL}


def case(seed, n, d, kind, *, categories, missing):
    """Thresholds, bins, integer columns and scales of random rows."""
    rng = np.random.default_rng(seed)
    n_values = rng.choice([1, 2, 3, 8, 30], 5)
    thresholds = BinThresholds(
        np.cumsum([0, *(n_values - 1)]).astype(np.int64),
        np.concatenate([np.sort(rng.lognormal(size=k - 1)) for k in n_values]).astype(np.float32),
    )
    bins = np.column_stack([rng.integers(0, k, n) for k in n_values])
    if missing:
        bins = np.where(rng.random(bins.shape) < 0.2, n_values, bins)
    categorical = (rng.random(5) < 0.4).astype(np.uint8) if categories else np.zeros(5, np.uint8)
    width = {"count": d, "shared": d + 1, "diagonal": 2 * d}[kind]
    columns = empty_aligned((n, padded_width(width)), np.int16)
    columns[:] = 0
    columns[:, :d] = rng.integers(-3, 4, (n, d))
    columns[:, d:width] = rng.integers(1, 4, (n, width - d))
    scales = Columns(
        KINDS[kind],
        rng.choice([0.5, 1.0, 2.0], d),
        np.zeros(d) if kind == "count" else np.ones(d),
        np.ones(d),
    )
    return rng, thresholds, bins.astype(np.uint8), categorical, columns, scales


@pytest.mark.parametrize("random", [False, True])
@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    n=st.integers(2, 60),
    d=st.sampled_from([1, 2, 9]),
    kind=st.sampled_from(list(KINDS)),
    count=st.sampled_from([1, 2, 5]),
    min_samples=st.sampled_from([1, 3]),
    max_depth=st.sampled_from([None, 3]),
    categories=st.booleans(),
    missing=st.booleans(),
    repeats=st.booleans(),
)
def test_trees_are_those_of_the_twin(
    random, seed, n, d, kind, count, min_samples, max_depth, categories, missing, repeats
):
    rng, thresholds, bins, categorical, columns, scales = case(
        seed, n, d, kind, categories=categories, missing=missing
    )
    rows = np.sort(rng.integers(0, n, n) if repeats else rng.permutation(n)).astype(np.int32)
    key = int(rng.integers(2**63))
    growth = Growth("depth-wise", None, max_depth, min_samples, -np.inf)
    trees = RowTrees(growth, thresholds, categorical, n, random=random)
    builder = trees.make_builder(BinnedColumns(bins, thresholds.missing_bins), 1)
    sample = TreeSample(rows.copy(), np.empty(0, np.int32), np.arange(5, dtype=np.int32), count, key)
    grown = builder.build(gradient_columns(columns, -1, scales), sample, LocalCommunicator(), by_rows=True)

    rules = naive_growing.Rules(
        kind,
        scales.weight.tolist(),
        scales.lambda_.tolist(),
        scales.step.tolist(),
        n_bins=(thresholds.missing_bins + 1).tolist(),
        has_missing=[1] * 5,
        missing_bin=thresholds.missing_bins.tolist(),
        categorical=categorical.tolist(),
        l2=0.0,
        min_samples=min_samples,
        max_depth=max_depth,
    )
    positions = np.split(bin_positions(thresholds), np.cumsum(thresholds.missing_bins)[:-1])
    positions = [one.tolist() for one in positions]
    wide = columns.astype(np.int64)
    root = naive_rows.grow(rules, positions, bins, wide, rows, range(5), count, key, random)
    order = naive_growing.level_order(root)
    nodes = grown.nodes
    assert nodes.count.tolist() == [len(node.rows) for node in order]
    sets = {int(node): bits for node, bits in zip(nodes.unordered, nodes.sets, strict=True)}
    for i, node in enumerate(order):
        if node.split is None:
            assert nodes.feature[i] == -1
            leaf = nodes.child[i]
            assert sample.rows[grown.starts[leaf] : grown.ends[leaf]].tolist() == node.rows.tolist()
            continue
        split = node.split
        assert (nodes.feature[i], nodes.gain[i]) == (split["feature"], split["gain"])
        assert nodes.missing_left[i] == split["missing_left"]
        if categorical[split["feature"]]:
            bits = np.unpackbits(sets[i], bitorder="little")
            assert np.flatnonzero(bits).tolist() == split["set"]
        else:
            assert nodes.bin[i] == split["bin"]


def test_random_thresholds_are_uniform_between_the_positions_of_the_node():
    # two distant bins and one in between, at a tenth of the way: it goes right in about a tenth of the roots
    thresholds = BinThresholds(np.array([0, 2]), np.array([0.5, 1.5], np.float32))
    builder = _three_bins(thresholds, np.array([0.0, 1.0, 10.0]))
    n_right = sum(_root_bin(builder, key) == 0 for key in range(4000))
    assert abs(n_right / 4000 - 0.1) < 0.02  # four standard deviations


def _three_bins(thresholds, positions):
    from sparseleaf import _kernels

    table = _kernels.FeatureTable(
        np.array([4], np.int32),
        thresholds.missing_bins,
        np.ones(1, np.uint8),
        np.zeros(1, np.uint8),
        np.empty((0, 0), np.int8),
    )
    growth = Growth("depth-wise", None, 1, 1, -np.inf).rules(3)
    bins = np.array([[0], [1], [2]], np.uint8)
    return _kernels.RowTreeBuilder(
        bins, table, _kernels.BinPositions(np.array([0, 3]), positions), growth, 0.0, True
    )


def _root_bin(builder, key):
    from sparseleaf import _kernels

    columns = empty_aligned((3, 4), np.int16)
    columns[:] = np.arange(3, dtype=np.int16)[:, None]
    ones = np.ones(1)
    gradients = _kernels.GradientColumns(columns, -1, COUNT, ones, 0 * ones, ones, 0)
    rows, none = np.arange(3, dtype=np.int32), np.empty(0, np.int32)
    sample = _kernels.TreeSample(rows, none, np.zeros(1, np.int32), 1, key * 0x9E3779B97F4A7C15 % 2**64)
    return int(builder.build(gradients, sample, LocalCommunicator(), True).bin[0])


def test_positions_are_the_middles_of_the_bins():
    thresholds = BinThresholds(np.array([0, 0, 1, 4]), np.array([7, 0, 2, 6], np.float32))
    assert bin_positions(thresholds).tolist() == [0, 0, 1, -1, 1, 4, 8]


def test_a_builder_refuses_bins_beyond_that_of_missing_values():
    thresholds = BinThresholds(np.array([0, 1]), np.zeros(1, np.float32))
    growth = Growth("depth-wise", None, None, 1, 0.0)
    trees = RowTrees(growth, thresholds, np.zeros(1, np.uint8), 1, random=False)
    with pytest.raises(ValueError, match="positions: must have one entry per bin"):
        trees.make_builder(BinnedColumns(np.full((1, 1), 3, np.uint8), thresholds.missing_bins), 1)


# --- samples


def bagging(n, **options):
    targets = DenseTargets(np.zeros((n, 1), np.float32), NO_CLASSES, NO_VALUES, 1)
    return Bagging.of(targets, **{"bootstrap": True, "subsample": 1.0, "seed": 3} | options)


@settings(max_examples=50, deadline=None)
@given(n=st.integers(1, 300), tree=st.integers(0, 1000), subsample=st.floats(0.01, 1), seed=st.integers(0, 9))
def test_weights_of_a_sample_add_up_to_the_number_of_draws(n, tree, subsample, seed):
    for bootstrap in (True, False):
        bag = bagging(n, bootstrap=bootstrap, subsample=subsample, seed=seed)
        counts = bag.counts(tree)
        if n > 20:  # fewer rows may be drawn more often than MOST_REPEATS allows
            assert counts.sum() == max(1, round(subsample * n))
        assert counts.max() <= (MOST_REPEATS if bootstrap else 1)
        rows = bag.rows(tree)
        np.testing.assert_array_equal(np.bincount(rows, minlength=n), counts)
        if bag.leaves_out:
            np.testing.assert_array_equal(np.union1d(rows, bag.oob_rows(tree)), np.arange(n))
            assert not np.intersect1d(rows, bag.oob_rows(tree)).size


def test_bootstrap_samples_have_the_expected_fraction_of_rows():
    sizes = [len(bagging(2000).oob_rows(tree)) / 2000 for tree in range(20)]
    assert abs(np.mean(sizes) - np.exp(-1)) < 0.01
    assert len(np.unique(sizes)) > 5  # every tree has another sample


def test_rows_without_weight_or_target_are_not_sampled():
    values = np.array([[1.0], [np.nan], [2.0], [3.0]], np.float32)
    weights = np.array([[1.0], [1.0], [0.0], [2.0]], np.float32)
    targets = DenseTargets(values, NO_CLASSES, weights, 1)
    bag = Bagging.of(targets, bootstrap=True, subsample=1.0, seed=0)
    assert bag.usable.tolist() == [0, 3]
    assert set(np.concatenate([bag.rows(tree) for tree in range(20)]).tolist()) == {0, 3}
