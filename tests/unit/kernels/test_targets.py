"""Statistics of dense targets, against numpy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparseleaf import _kernels
from sparseleaf.objectives.targets import (
    NO_CLASSES,
    NO_VALUES,
    DenseTargets,
    KnownValues,
    largest_targets,
    target_sums,
)


def made(seed, n, d, weight_columns, by_class):
    rng = np.random.default_rng(seed)
    values, classes = NO_VALUES, NO_CLASSES
    if by_class:
        classes = rng.integers(-1, d, n).astype(np.int32)
    else:
        values = rng.normal(0, 3, (n, d)).astype(np.float32)
        values[rng.random((n, d)) < 0.2] = np.nan
    weights = rng.random((n, weight_columns)).astype(np.float32) if weight_columns else NO_VALUES
    return DenseTargets(values, classes, weights, d)


def naive(targets):
    """Weights, and weight · target, of all pairs; 0 where the target is unknown."""
    weights = targets.known_weights()
    return weights, np.nan_to_num(targets.as_matrix() * weights)


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([1, 5, 3000]),
    st.sampled_from([1, 3]),
    st.sampled_from(["none", "rows", "pairs"]),
    st.booleans(),
)
def test_extremes_and_sums_are_those_of_numpy_for_any_number_of_threads(seed, n, d, weighted, by_class):
    targets = made(seed, n, d, {"none": 0, "rows": 1, "pairs": d}[weighted], by_class)
    pairs = naive(targets)
    wanted = np.array([np.abs(each).max(axis=0, initial=0) for each in pairs])
    scales = np.random.default_rng(seed).random((2, d)) * 1e6
    sums = [
        np.rint(each * scale).astype(np.int64).sum(axis=0) for each, scale in zip(pairs, scales, strict=True)
    ]
    for n_jobs in (1, 3):
        np.testing.assert_array_equal(largest_targets(targets, n_jobs), wanted)
        np.testing.assert_array_equal(target_sums(targets, scales, n_jobs), sums)


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_known_values_are_counted(n_jobs):
    values = made(3, 2500, 4, 0, False).values
    values[:, 2] = np.nan
    known = KnownValues.of(values, n_jobs)
    np.testing.assert_array_equal(known.counts, (~np.isnan(values)).sum(axis=0))
    assert (known.lowest, known.highest) == (np.nanmin(values), np.nanmax(values))
    assert known.finite
    values[7, 1] = -np.inf
    assert not KnownValues.of(values, n_jobs).finite


def test_no_known_value_has_no_range_and_is_finite():
    for values in (np.full((5, 2), np.nan, np.float32), np.empty((0, 2), np.float32)):
        known = KnownValues.of(values, 2)
        assert known == KnownValues(known.counts, np.inf, -np.inf)
        assert not known.counts.any()
        assert known.finite


def test_invalid_shapes_are_refused():
    values, out = np.zeros((3, 2), np.float32), np.zeros((2, 2))
    with pytest.raises(ValueError, match="weights"):
        _kernels.largest_targets(values, NO_CLASSES, np.ones((2, 1), np.float32), out, 1)
    with pytest.raises(ValueError, match="values"):
        _kernels.largest_targets(values, NO_CLASSES, NO_VALUES, np.zeros((2, 3)), 1)
    with pytest.raises(ValueError, match="scales"):
        _kernels.target_sums(values, NO_CLASSES, NO_VALUES, np.zeros((1, 2)), np.zeros((2, 2), np.int64), 1)
    with pytest.raises(ValueError, match="counts"):
        _kernels.known_values(values, np.zeros(3, np.int64), 1)
