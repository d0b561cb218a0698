"""A tree grown in one call is, to the bit, that of the growing loop in Python."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from smalldata import make_set, saved_bytes
from sparseleaf import GBDTRanker, MultiGBDTClassifier, MultiGBDTRegressor, SparseGBDTClassifier, _kernels
from sparseleaf.boosting.histograms import HistogramSearch


@pytest.fixture
def fitted(monkeypatch):
    """The bytes of a model that is made by the loop, or not, and how many trees were grown in one call."""
    calls = []
    plain, at_once = _kernels.grow_tree, HistogramSearch.grow
    monkeypatch.setattr(_kernels, "grow_tree", lambda *args: calls.append(1) or plain(*args))

    def fit(make, path, loop=False):
        calls.clear()
        monkeypatch.setattr(HistogramSearch, "grow", (lambda *args, **kwargs: None) if loop else at_once)
        return saved_bytes(make(), path), len(calls)

    return fit


def check_same(fitted, make, path, n_trees, n_jobs=(1, 3)):
    loop, none = fitted(lambda: make(1), path, loop=True)
    assert none == 0
    for jobs in n_jobs:
        found, n_calls = fitted(lambda jobs=jobs: make(jobs), path)
        assert n_calls == n_trees, "the case must be one that is grown in one call"
        assert found == loop


def rows(rng, n, n_features):
    """Features of every kind: dense, with one common value, of few values, constant, with missing values."""
    X = rng.normal(size=(n, n_features)).astype(np.float32)
    for f in range(n_features):
        kind = rng.integers(5)
        if kind == 1:
            X[rng.random(n) < 0.9, f] = 0.0
        elif kind == 2:
            X[:, f] = np.round(X[:, f])
        elif kind == 3:
            X[:, f] = 1.0
        elif kind == 4:
            X[rng.random(n) < 0.2, f] = np.nan
    return X


GROWTH = st.fixed_dictionaries({
    "growth": st.sampled_from(["best-first", "depth-wise"]),
    "max_leaves": st.sampled_from([None, 2, 3, 7, 31]),
    "max_depth": st.sampled_from([None, 1, 4]),
    "min_samples_leaf": st.sampled_from([1, 3, 20]),
    "max_bins": st.sampled_from([4, 64, 255]),
    "l2": st.sampled_from([0.0, 1.0]),
    "min_gain": st.sampled_from([0.0, 1e-3]),
    "subsample": st.sampled_from([1.0, 0.7]),
    "colsample_bytree": st.sampled_from([1.0, 0.6]),
})  # fmt: skip
KINDS = st.fixed_dictionaries({
    "outputs": st.sampled_from([1, 2, 3, 5, 9]),
    "weighted": st.booleans(),
    "categories": st.booleans(),
    "whole_numbers": st.booleans(),
    "own": st.sampled_from([
        {}, {"leaf_labels": 1}, {"split": "topk", "leaf_labels": 2}, {"loss": "huber"}, {"loss": "absolute"},
        {"tree_per_output": True}, {"min_hessian_leaf": 5.0},
    ]),
})  # fmt: skip


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], database=None
)
@given(GROWTH, KINDS, st.integers(1, 300), st.integers(1, 8), st.integers(0, 2**16))
def test_a_regression_is_that_of_the_loop(fitted, tmp_path_factory, growth, kind, n, n_features, seed):
    rng = np.random.default_rng(seed)
    X = rows(rng, n, n_features)
    own, d = dict(kind["own"]), kind["outputs"]
    if d == 1 and "leaf_labels" in own:
        own = {}
    if kind["categories"]:
        X[:, 0] = rng.integers(0, 12, n)
        own["categorical_features"] = [0]
    y = rng.normal(size=(n, d)) + np.nan_to_num(X[:, -1:])
    if kind["whole_numbers"]:
        y = np.round(y)  # many equal gains
    weights = rng.random(n) + 0.1 if kind["weighted"] else None

    def make(n_jobs):
        model = MultiGBDTRegressor.from_settings(
            {"n_trees": 2, "learning_rate": 0.3, "n_jobs": n_jobs, "random_state": 1, **growth, **own}
        )
        return model.fit(X, y if d > 1 else y[:, 0], sample_weight=weights)

    n_trees = 2 * d if own.get("tree_per_output") else 2
    check_same(fitted, make, tmp_path_factory.mktemp("model"), n_trees)


@pytest.mark.parametrize("loss", ["lambdamart", "gbrank", "smoothdcg"])
def test_a_ranking_is_that_of_the_loop(fitted, loss, tmp_path):
    rng = np.random.default_rng(3)
    X = rows(rng, 600, 40)
    grades = np.clip(np.round(np.nan_to_num(X[:, :6]).sum(axis=1) + 1), 0, 4)

    def make(n_jobs):
        model = GBDTRanker(
            n_trees=12, max_leaves=31, min_samples_leaf=5, l2=0.0, subsample=0.8, colsample_bytree=0.8,
            loss=loss, n_jobs=n_jobs,
        )  # fmt: skip
        return model.fit(X, grades, group=np.full(30, 20))

    check_same(fitted, make, tmp_path, 12)


@pytest.mark.parametrize("own", [{}, {"hessian": "exact"}, {"growth": "best-first", "max_leaves": 12}])
def test_a_classification_is_that_of_the_loop(fitted, own, tmp_path):
    rng = np.random.default_rng(4)
    X = rows(rng, 500, 12)
    y = (np.nan_to_num(X[:, 0]) > 0) + 2 * (np.nan_to_num(X[:, 1:4]).sum(axis=1) > 1)

    def make(n_jobs):
        return MultiGBDTClassifier.from_settings(
            {"n_trees": 4, "min_samples_leaf": 3, "n_jobs": n_jobs, **own}
        ).fit(X, y)

    check_same(fitted, make, tmp_path, 4)


@pytest.mark.parametrize("own", [{}, {"growth": "best-first", "max_leaves": 20}, {"split": "full"}])
def test_sparse_labels_are_those_of_the_loop(fitted, own, tmp_path):
    X, Y = make_set(700, 6, 10, seed=1, missing=0.1)

    def make(n_jobs):
        model = SparseGBDTClassifier.from_settings(
            {"n_trees": 4, "min_samples_leaf": 2, "colsample_bynode": 1.0, "n_jobs": n_jobs, **own}
        )
        return model.fit(X, Y)

    check_same(fitted, make, tmp_path, 4)


@pytest.mark.parametrize(
    "own",
    [{"colsample_bynode": 0.5}, {"monotone_constraints": [1, 0, 0]}, {"histogram_mb": 1, "max_bins": 255}],
)
def test_what_needs_the_loop_is_left_to_it(fitted, own, tmp_path):
    rng = np.random.default_rng(5)
    n_features = 900 if "histogram_mb" in own else 3
    X, y = rng.normal(size=(400, n_features)), rng.normal(size=400)
    model = MultiGBDTRegressor.from_settings({"n_trees": 2, "min_samples_leaf": 1, **own})
    assert fitted(lambda: model.fit(X, y), tmp_path)[1] == 0


@pytest.mark.parametrize("own", [
    {"growth": "best-first", "max_leaves": 40}, {"growth": "best-first", "max_leaves": 60, "max_depth": 5},
    {"growth": "depth-wise", "max_leaves": 25}, {"growth": "depth-wise", "max_depth": 6, "colsample_bytree": 0.3},
    {"growth": "best-first", "max_leaves": 9, "colsample_bytree": 0.1, "subsample": 0.5},
])  # fmt: skip
@pytest.mark.parametrize("sparse", [False, True])
def test_a_tree_that_threads_share_is_that_of_the_loop(fitted, own, sparse, tmp_path):
    """Large enough that rows are parted by several threads, and features by groups of their entries."""
    rng = np.random.default_rng(6)
    X = rows(rng, 9000, 60)
    if sparse:
        X[rng.random(X.shape) < 0.6] = 0.0
    X[:, 3] = rng.integers(0, 30, len(X))
    y = np.nan_to_num(X[:, :5]) + 0.1 * rng.normal(size=(len(X), 5))

    def make(n_jobs):
        model = MultiGBDTRegressor.from_settings(
            {
                "n_trees": 2,
                "min_samples_leaf": 4,
                "categorical_features": [3],
                "max_bins": 32,
                "n_jobs": n_jobs,
            }
            | {"random_state": 1, **own}
        )
        return model.fit(X, y)

    check_same(fitted, make, tmp_path, 2)


def test_nodes_that_wait_long_for_their_turn_leave_room_for_others(fitted, tmp_path):
    """A chain peels off one block after the other, and of the blocks the newest is always the best to split.

    So with every link of the chain one more block is split ahead of its turn, which comes only when the chain ends:
    with a slot for each of their children there would soon be none left.
    """
    n_blocks, size = 60, 64
    block = np.repeat(np.arange(n_blocks), size)
    a, b = np.arange(len(block)) // 2 % 2, np.arange(len(block)) % 2
    X = np.column_stack([block[:, None] == np.arange(n_blocks), a, b]).astype(np.float32)
    y = 200.0 * block + (10.0 + block) * a + 5.0 * b  # blocks leave in their order

    def make(n_jobs):
        model = MultiGBDTRegressor(
            n_trees=1, max_leaves=n_blocks, max_depth=None, min_samples_leaf=1, l2=0.0, n_jobs=n_jobs,
            advanced={"growth": "best-first"},
        )  # fmt: skip
        return model.fit(X, y)

    check_same(fitted, make, tmp_path, 1, n_jobs=(1, 2, 8))
