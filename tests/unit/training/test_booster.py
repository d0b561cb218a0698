"""The whole engine against the naive booster: same trees, split by split."""

import numpy as np
import pytest

import naive
from smalldata import make_set
from sparseleaf import SparseGBDTClassifier

COMMON = {"learning_rate": 0.3, "min_samples_leaf": 3, "max_depth": 4, "l2": 0.5, "leaf_labels": 4}


def assert_same_model(X, Y, *, best_first=False, n_jobs=None, **parameters):
    parameters = {**COMMON, "n_trees": 4, **parameters}
    twin = naive.Booster(best_first=best_first, **parameters).fit(X, Y)
    growth = "best-first" if best_first else "depth-wise"
    clf = SparseGBDTClassifier.from_settings(
        {"growth": growth, "colsample_bynode": 1.0, "n_jobs": n_jobs, **parameters}
    ).fit(X, Y)
    trees = clf.model_.trees
    assert trees.n_trees == parameters["n_trees"]
    for t, wanted in enumerate(twin.trees):
        naive.assert_same_tree(naive.nested(trees, t), wanted)
    assert sum("feature" in tree for tree in twin.trees) >= 2, "a set on which no tree splits proves nothing"
    np.testing.assert_allclose(clf.decision_function(X).toarray(), twin.scores, atol=1e-6)
    return clf


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("loss", ["squared", "squared_hinge"])
def test_full_split_grows_the_naive_trees(seed, loss):
    assert_same_model(*make_set(90, 4, 8, seed=seed), split="full", loss=loss)


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("decimals", [0, 2])
def test_full_split_with_missing_values_ties_and_few_bins(missing, decimals):
    X, Y = make_set(100, 4, 6, seed=1, missing=missing, decimals=decimals)
    assert_same_model(X, Y, split="full", max_bins=6, l2=0.0)


@pytest.mark.parametrize("parameters", [
    {"max_leaves": 5},
    {"max_leaves": 5, "best_first": True},
    {"best_first": True, "max_depth": None},
    {"max_depth": None, "min_samples_leaf": 1, "leaf_labels": None},
    {"leaf_min_gain": 0.2},
    {"min_gain": 0.5},
    {"l2": 5.0, "learning_rate": 1.0},
])  # fmt: skip
def test_full_split_growth_and_leaf_rules(parameters):
    assert_same_model(*make_set(90, 4, 8, seed=7), split="full", **parameters)


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_full_split_on_features_that_are_mostly_zero(n_jobs):
    X, Y = make_set(150, 5, 6, seed=2, decimals=1)
    X[np.random.default_rng(3).random(X.shape) < 0.85] = 0
    X[::9, 4] = np.nan
    X[:, 0] = np.round(np.linspace(-3, 3, 150))
    assert_same_model(X, Y, split="full", n_jobs=n_jobs)


def test_sketch_none_is_the_full_split(tmp_path):
    X, Y = make_set(90, 4, 8, seed=3)
    full = SparseGBDTClassifier.from_settings({"n_trees": 4, "split": "full", **COMMON}).fit(X, Y)
    none = SparseGBDTClassifier.from_settings({"n_trees": 4, "sketch": "none", **COMMON}).fit(X, Y)
    for name, wanted in vars(full.model_.trees).items():
        np.testing.assert_array_equal(getattr(none.model_.trees, name), wanted, name)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("parameters", [
    {"exact_step": 1},
    {"exact_step": 0.05},
    {"exact_step": 7, "loss": "squared_hinge"},
    {"exact_step": 1, "leaf_labels": None},
    {"exact_step": 0.1, "leaf_labels": 1, "max_leaves": 4, "best_first": True},
])  # fmt: skip
def test_exact_split_grows_the_naive_trees(seed, parameters):
    X, Y = make_set(70, 3, 6, seed=seed, missing=0.1 if seed == 2 else 0.0, decimals=1)
    assert_same_model(X, Y, split="exact", **parameters)


def test_predictions_of_the_twin_and_the_model_agree_on_new_rows():
    X, Y = make_set(120, 4, 8, seed=5, missing=0.2)
    clf = assert_same_model(X, Y, split="full")
    twin = naive.Booster(**{**COMMON, "n_trees": 4}).fit(X, Y)
    other, _ = make_set(40, 4, 8, seed=6, missing=0.3)
    labels, scores = clf.predict_topk(other, 3)
    for x, row_labels, row_scores in zip(other, labels, scores, strict=True):
        wanted = naive.topk(naive.predict(x, twin.trees), 3)
        assert row_labels.tolist() == wanted[0]
        np.testing.assert_allclose(row_scores, wanted[1], atol=1e-6)
