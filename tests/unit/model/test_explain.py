from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import naive_shap
import sparseleaf
from randommodels import model_of, random_model, random_rows
from sparseleaf import MultiGBDTClassifier, MultiGBDTRegressor, SparseGBDTClassifier, _kernels
from sparseleaf.data import make_xc
from sparseleaf.model import AxisScorer, Trees
from sparseleaf.model.explain import shap_values

COMPAT = Path(__file__).parents[2] / "compat"


@settings(max_examples=80, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.integers(1, 8),
    st.integers(1, 9),
)
def test_are_what_the_definition_says(seed, dense, categories, small, n_features, most_leaves):
    model = random_model(
        seed, 2, n_features, most_leaves=most_leaves, dense=dense, categories=categories, small=small
    )
    X = random_rows(seed, 5, model)
    values, expected = shap_values(model, X, None, 1)
    base = 0.0 if model.base_score is None else model.base_score
    for row, x in zip(values, X, strict=True):
        wanted, wanted_expected = naive_shap.shap_values(model.trees, model.n_labels, x, base)
        # values are float32: what they add up to is exact to that, in units of the largest
        within = 1e-6 * max(1.0, np.abs(wanted).max(), np.abs(wanted_expected).max())
        np.testing.assert_allclose(row, wanted, atol=within, rtol=0)
        np.testing.assert_allclose(expected, wanted_expected, atol=within, rtol=0)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.booleans(), st.booleans())
def test_add_up_to_the_scores_in_deep_trees(seed, dense, categories):
    model = random_model(seed, 4, 40, most_leaves=60, dense=dense, categories=categories)
    X = random_rows(seed, 40, model)
    values, expected = shap_values(model, X, None, 2)
    np.testing.assert_allclose(values.sum(axis=1) + expected, model.dense(X, None, 1), atol=1e-5)


def test_hand_computed():
    # x0 <= 0 ? 1 : (x1 <= 0 ? 2 : 4), rows 4 = 1 + (2 + 1): with nothing known 1/4 + 2/4 · 2 + 1/4 · 4 = 2.25
    trees = Trees(
        np.array([0, 5], np.int64),
        np.array([0, -1, 1, -1, -1], np.int32),
        np.zeros(5, np.float32),
        np.array([1, 0, 0, 0, 0], np.uint8),
        np.array([1, 0, 3, 1, 2], np.int32),
        np.arange(4, dtype=np.int64),
        np.empty(0, np.uint16),
        np.array([1, 2, 4], np.float32),
        np.empty(0, np.float32),
        np.zeros(2),
        np.array([4, 1, 3, 2, 1], np.uint32),
    )
    model = model_of(AxisScorer(trees, 1, np.zeros(1, np.float32)), 2)
    values, expected = shap_values(model, np.array([[1, 1], [0, 1], [np.nan, 1]], np.float32), None, 1)
    assert expected == [2.25]
    # v(0) = 8/3, v(1) = 1/4 + 3/4 · 4 = 3.25, v(01) = 4
    first = (8 / 3 - 2.25) / 2 + (4 - 3.25) / 2
    np.testing.assert_allclose(values[0, :, 0], [first, 4 - 2.25 - first])
    # v(0) = 1, v(1) = 3.25, v(01) = 1; NaN goes left
    np.testing.assert_allclose(values[1:, :, 0], [[(1 - 2.25 + 1 - 3.25) / 2, (1.0 + 0) / 2]] * 2)


def test_chain_of_many_features_keeps_its_digits():
    # a chain of 200 splits on different features, each of which parts one row off
    n = 200
    feature = np.full(2 * n + 1, -1, np.int32)
    feature[[0, *range(2, 2 * n, 2)]] = np.arange(n)
    inner = np.flatnonzero(feature >= 0)
    child = np.zeros(len(feature), np.int32)
    child[inner] = 2 * np.arange(n) + 1
    child[feature < 0] = np.arange(n + 1)
    cover = np.ones(len(feature), np.uint32)
    cover[inner] = np.arange(n + 1, 1, -1)
    rng = np.random.default_rng(0)
    trees = Trees(
        np.array([0, len(feature)], np.int64),
        feature,
        np.zeros(len(feature), np.float32),
        np.zeros(len(feature), np.uint8),
        child,
        np.arange(n + 2, dtype=np.int64),
        np.empty(0, np.uint16),
        rng.normal(size=n + 1).astype(np.float32),
        np.empty(0, np.float32),
        np.zeros(n),
        cover,
    )
    scorer = AxisScorer(trees, 1, np.zeros(1, np.float32))
    model = model_of(scorer, n)
    X = rng.normal(size=(20, n)).astype(np.float32)
    values, expected = shap_values(model, X, None, 1)
    scores = model.dense(X, None, 1).astype(np.float64)
    np.testing.assert_allclose(values.sum(axis=1) + expected, scores, atol=1e-12)
    # the last leaf alone counts; where a row is on the wrong side of all splits, all features are to blame alike
    alone = replace(trees, leaf_values=np.eye(1, n + 1, n, dtype=np.float32)[0])
    last = model_of(replace(scorer, trees=alone), n)
    everywhere = shap_values(last, np.ones((1, n), np.float32), None, 1)[0][0, :, 0]
    np.testing.assert_allclose(everywhere.sum(), 1 - 1 / (n + 1), atol=1e-13)
    nowhere = shap_values(last, -np.ones((1, n), np.float32), None, 1)[0][0, :, 0]
    np.testing.assert_allclose(nowhere, -1 / (n + 1) / n, rtol=1e-12)


@pytest.mark.parametrize("dense", [True, False])
def test_do_not_depend_on_threads_or_on_other_outputs(dense):
    model = random_model(3, 10, 6, 8, 12, dense=dense, categories=True)
    X = random_rows(0, 100, model)
    values, expected = shap_values(model, X, None, 1)
    several, _ = shap_values(model, X, None, 5)
    assert values.tobytes() == several.tobytes()
    some, some_expected = shap_values(model, X, [6, 0, 3], 2)
    assert some.tobytes() == np.ascontiguousarray(values[:, :, [6, 0, 3]]).tobytes()
    np.testing.assert_allclose(some_expected, expected[[6, 0, 3]], rtol=1e-15)


def test_outputs_that_no_leaf_names_are_moved_by_nothing():
    model = random_model(5, 2, 4, 9, 2, dense=False)
    assert not {3, 4, 6} & set(model.trees.leaf_labels.tolist())
    bare = replace(
        model.trees,
        leaf_indptr=model.trees.leaf_indptr * 0,
        leaf_labels=np.empty(0, np.uint16),
        leaf_values=np.empty(0, np.float32),
    )
    X = random_rows(0, 5, model)
    for one, outputs in (
        (model, [3, 4, 6]),
        (model_of(replace(model.scorer, trees=bare), 4), [2]),
        (model_of(replace(model.scorer, trees=bare), 4), None),
    ):
        values, expected = shap_values(one, X, outputs, 1)
        assert values.shape == (5, 4, len(expected))
        assert not values.any()
        assert not expected.any()


def regression_set(n=300, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5)).astype(np.float32)
    X[rng.random(X.shape) < 0.1] = np.nan
    filled = np.nan_to_num(X)
    return X, np.column_stack((filled[:, 0] * filled[:, 1], filled[:, 2], np.sin(filled[:, 0]))), rng


@pytest.mark.parametrize(
    "parameters",
    [{}, {"leaf_labels": 1}, {"tree_per_output": True}, {"subsample": 0.5}, {"max_leaves": None}],
)
def test_regressor_explains_its_predictions(parameters):
    X, y, _ = regression_set()
    model = MultiGBDTRegressor.from_settings({"n_trees": 15, "min_samples_leaf": 5, **parameters}).fit(X, y)
    values, expected = model.shap_values(X)
    assert values.shape == (300, 5, 3)
    assert values.dtype == np.float64
    np.testing.assert_allclose(values.sum(axis=1) + expected, model.predict(X), atol=1e-5)
    # features that have nothing to do with an output are not what it is explained by
    assert np.abs(values[:, 2, 1]).mean() > 10 * np.abs(values[:, 3, 1]).mean()


def test_regressor_takes_outputs_by_name_and_single_columns():
    X, y, _ = regression_set()
    named = MultiGBDTRegressor(n_trees=5).fit(X, pd.DataFrame(y, columns=["a", "b", "c"]))
    values, expected = named.shap_values(X, outputs=["c", "a"])
    everything, all_expected = named.shap_values(X)
    assert values.tobytes() == np.ascontiguousarray(everything[:, :, [2, 0]]).tobytes()
    np.testing.assert_allclose(expected, all_expected[[2, 0]])
    single = MultiGBDTRegressor(n_trees=5, loss="poisson").fit(X, np.abs(y[:, 1]))
    values, expected = single.shap_values(X)
    np.testing.assert_allclose((values.sum(axis=1) + expected)[:, 0], np.log(single.predict(X)), atol=1e-5)


def test_classifier_with_categories_unknown_ones_and_files(tmp_path):
    X, y, rng = regression_set()
    frame = pd.DataFrame(X, columns=list("abcde"))
    frame["kind"] = pd.Categorical(rng.choice(["red", "green", "blue"], len(X)))
    classes = np.where(frame["kind"] == "red", "warm", np.where(y[:, 1] > 0, "cold", "mild"))
    model = MultiGBDTClassifier(n_trees=10).fit(frame, classes)
    frame["kind"] = frame["kind"].astype(object)
    frame.loc[:20, "kind"] = "unheard of"
    values, expected = model.shap_values(frame)
    np.testing.assert_allclose(values.sum(axis=1) + expected, model.decision_function(frame), atol=1e-5)
    assert np.abs(values[:, 5]).mean() > np.abs(values[:, 4]).mean()
    warm, _ = model.shap_values(frame, labels=["warm"])
    assert warm.tobytes() == np.ascontiguousarray(values[:, :, 2:]).tobytes()
    for compact in (True, False):
        model.save(tmp_path / "m", compact=compact)
        loaded = sparseleaf.load(tmp_path / "m")
        values, expected = loaded.shap_values(frame)
        np.testing.assert_allclose(values.sum(axis=1) + expected, loaded.decision_function(frame), atol=1e-5)


@pytest.mark.parametrize("projection", [None, "pca"])
@pytest.mark.parametrize("sparse", [True, False])
def test_sparse_classifier(projection, sparse):
    X, Y = make_xc(300, 30, 40, labels_per_row=3, nnz_per_row=8)
    X = X if sparse else X.toarray()
    model = SparseGBDTClassifier(
        n_trees=8, projection=projection, projection_dim=5, advanced={"keep_raw": True}
    ).fit(X, Y)
    values, expected = model.shap_values(X)
    assert values.shape == (300, 30 if projection is None else 35, 40)
    np.testing.assert_allclose(values.sum(axis=1) + expected, model.decision_function(X).toarray(), atol=1e-5)
    some, _ = model.shap_values(X, labels=np.array([30, 2]))
    assert some.tobytes() == np.ascontiguousarray(values[:, :, [30, 2]]).tobytes()


def test_labels_by_name_of_lists():
    X = sp.csr_matrix(np.eye(4, dtype=np.float32).repeat(20, axis=0))
    names = [["a", "b"], ["b"], ["c"], ["a"]]
    model = SparseGBDTClassifier(
        n_trees=4, min_samples_leaf=1, advanced={"colsample_bynode": 1.0}, projection=None
    ).fit(X, [row for row in names for _ in range(20)])
    values, expected = model.shap_values(X, labels=["c"])
    assert values.shape == (80, 4, 1)
    np.testing.assert_allclose(
        (values.sum(axis=1) + expected)[:, 0], model.decision_function(X).toarray()[:, 2], atol=1e-6
    )
    with pytest.raises(ValueError, match=r"must have label names of the model. Got 'd'"):
        model.shap_values(X, labels=["d"])


@pytest.fixture(scope="module")
def small():
    X, y, _ = regression_set()
    return MultiGBDTRegressor(n_trees=2).fit(X, y), X


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        ([3], "must have indices below 3. Got 3"),
        ([-1], "must have indices below 3. Got -1"),
        ([0, 0], "distinct outputs. Got \\[0, 0\\]"),
        ([], "distinct outputs. Got \\[\\]"),
        ("b", "must be a list of outputs. Got 'b'"),
        (1, "must be a list of outputs. Got 1"),
    ],
)
def test_outputs_that_are_not_there_are_refused(small, outputs, message):
    model, X = small
    with pytest.raises(ValueError, match=message):
        model.shap_values(X, outputs=outputs)


def test_too_much_memory_is_refused_in_plain_words(small):
    model, X = small
    many = np.repeat(X, 40, axis=0)
    with pytest.raises(
        MemoryError, match=r"outputs: 12,000 rows × 5 columns × 3 outputs take 1 MiB; memory_mb=1"
    ):
        model.shap_values(many, memory_mb=1)
    assert model.shap_values(many, outputs=[1], memory_mb=1)[0].shape == (12_000, 5, 1)
    with pytest.raises(ValueError, match=r"'memory_mb' parameter must be an int >= 1. Got 0"):
        model.shap_values(X, memory_mb=0)


def test_old_models_have_no_numbers_of_rows():
    model = sparseleaf.load(COMPAT / "gbdt-sparse-v1.safetensors")
    with pytest.raises(ValueError, match="model files of version 1"):
        model.shap_values(np.zeros((1, model.n_features_in_), np.float32))


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("cover", lambda a: a * 0, "every node must have had a row"),
        ("cover", lambda a: a + np.uint32(1), "the rows of its children"),
        ("child", lambda a: np.where(a == 1, 0, a).astype(np.int32), "child"),
        ("feature", lambda a: np.where(a == 0, 99, a).astype(np.int32), "column that does not exist"),
        ("threshold", lambda a: a * np.float32(np.nan), "threshold"),
        ("leaf_labels", lambda a: a + np.int32(9), "no such output"),
        ("leaf_indptr", lambda a: a[:-1], "indptr"),
        ("categorical", lambda a: np.ones(3, np.uint8), "categorical"),
        ("tree_offsets", lambda a: a[:-1], "tree_offsets"),
        ("out", lambda a: a[:, :2].copy(), "out"),
    ],
)
def test_kernel_refuses_what_does_not_fit(name, change, message):
    model = random_model(5, 2, 4, most_leaves=5, dense=False)
    trees = model.trees
    arguments = {
        field: getattr(trees, field)
        for field in (
            "tree_offsets", "feature", "threshold", "missing_left", "child", "cover", "categorical", "sets",
            "leaf_indptr",
        )
    }  # fmt: skip
    arguments |= {
        "leaf_labels": trees.leaf_labels.astype(np.int32),
        "leaf_values": trees.leaf_values,
        "X": random_rows(0, 3, model),
        "out": np.zeros((3, 4, 3)),
    }
    _kernels.shap_values(**arguments, n_threads=1)
    arguments[name] = change(arguments[name])
    with pytest.raises(ValueError, match=message):
        _kernels.shap_values(**arguments, n_threads=1)
