"""Properties of GBDT-MO that hold for any data."""

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from sparseleaf import MultiGBDTClassifier, MultiGBDTRegressor

quick = settings(max_examples=25, deadline=None)


@quick
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 3),
    st.integers(1, 3),
    st.sampled_from(["mse", "huber", "poisson"]),
    st.booleans(),
    st.sampled_from([None, "rows", "pairs"]),
)
def test_constraints_hold_on_random_grids(seed, n_features, d, loss, alone, weighted):
    """Moving one constrained feature alone never moves an output the wrong way."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(20, 120))
    X = rng.integers(-3, 4, (n, n_features)).astype(np.float32)
    X[rng.random(X.shape) < 0.1] = np.nan
    Y = np.abs(rng.normal(size=(n, d)) + np.nan_to_num(X) @ rng.normal(size=(n_features, d)))
    directions = rng.integers(-1, 2, (n_features, d))
    weights = None if weighted is None else rng.choice([0.5, 1, 3], (n, d) if weighted == "pairs" else n)
    est = MultiGBDTRegressor(
        n_trees=5, learning_rate=1.0, min_samples_leaf=1, l2=float(rng.choice([0, 1.0])), loss=loss,
        monotone_constraints=directions, subsample=float(rng.choice([1.0, 0.6])), n_jobs=1,
        advanced={"tree_per_output": alone},
    ).fit(X, Y, sample_weight=weights)  # fmt: skip
    grid = np.arange(-4, 5, 0.5)
    for feature in range(n_features):
        start = rng.integers(-4, 5, (10, n_features)).astype(np.float32)
        start[rng.random(start.shape) < 0.2] = np.nan
        rows = np.repeat(start, len(grid), axis=0)
        rows[:, feature] = np.tile(grid, 10)
        found = est.predict(rows).reshape(10, len(grid), -1)
        moves = np.diff(found, axis=1) * directions[feature]
        assert (moves >= -1e-6 * np.abs(found).max(initial=1)).all()


@quick
@given(st.integers(0, 2**32 - 1), st.integers(2, 4), st.booleans(), st.booleans())
def test_predictions_stay_finite_and_sound_whatever_the_rows(seed, d, categories, exact):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 80))
    X = rng.choice([0, 1, 2, 3, np.nan, -5], (n, 3)).astype(np.float32)
    y = rng.integers(0, d, n)
    est = MultiGBDTClassifier(
        n_trees=4, min_samples_leaf=1, l2=float(rng.choice([0, 1.0])), learning_rate=1.0, n_jobs=1,
        categorical_features=[0] if categories else None,
        advanced={"hessian": "exact" if exact else "diagonal", "split": "full"},
    ).fit(X, y)  # fmt: skip
    other = rng.choice([0, 1, 2, 7, np.nan, -9, 3e38], (40, 3)).astype(np.float32)
    proba = est.predict_proba(other)
    assert np.isfinite(proba).all()
    np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=1e-4)
    assert set(est.predict(other)) <= set(y)
    trees = est.model_.trees
    assert (trees.cover[trees.feature < 0] >= 1).all()


@quick
@given(st.integers(0, 2**32 - 1))
def test_more_trees_never_raise_the_training_loss_of_squared_errors(seed):
    rng = np.random.default_rng(seed)
    X, Y = rng.integers(0, 5, (60, 2)).astype(np.float32), rng.normal(size=(60, 2))
    est = MultiGBDTRegressor(n_trees=10, min_samples_leaf=1, learning_rate=0.5, n_jobs=1).fit(X, Y)
    errors = [float(((stage - Y) ** 2).sum()) for stage in est.staged_predict(X)]
    assert all(b <= a + 1e-4 for a, b in itertools.pairwise(errors))
