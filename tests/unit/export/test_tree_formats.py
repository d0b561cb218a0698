"""Exported models are run: onnxruntime and treelite's GTIL must predict what the estimator does.

Scores are compared within 2e-5 (float32 sums in another order), probabilities too.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
import treelite
from hypothesis import given, settings
from hypothesis import strategies as st

import sparseleaf
from randommodels import random_model, random_rows
from sparseleaf import MultiGBDTClassifier, MultiGBDTRegressor, SparseGBDTClassifier, export
from sparseleaf.data import make_xc
from sparseleaf.export import common
from sparseleaf.model import Role

CLOSE = {"rtol": 2e-5, "atol": 2e-5}


def run_onnx(proto, X):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, {"X": np.asarray(X, np.float32)}), strict=True))


def run_treelite(model, X, *, scores=False):
    found = treelite.gtil.predict(model, np.asarray(X, np.float32), nthread=1, pred_margin=scores)
    return found.reshape(len(X), -1)


def make_rows(n=400, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5)).astype(np.float32).round(1)  # many rows lie exactly on cuts
    X[rng.random(X.shape) < 0.15] = np.nan
    filled = np.nan_to_num(X)
    Y = np.column_stack((filled[:, 0] * filled[:, 1], filled[:, 2] + np.isnan(X[:, 3]), filled[:, 4]))
    return X, Y, rng


def all_rows(model, X):
    """Rows, and for every cut of theirs the value itself and its two neighbours."""
    trees = model.model_.trees
    cuts = np.unique(trees.threshold[(trees.feature >= 0) & np.isfinite(trees.threshold)])
    edges = np.concatenate(
        (cuts, np.nextafter(cuts, np.float32(np.inf)), np.nextafter(cuts, np.float32(-np.inf)))
    )
    return np.concatenate((X, np.repeat(edges[:, None], X.shape[1], axis=1))).astype(np.float32)


def as_regressor(model):
    """An estimator around a model of random trees."""
    base = np.linspace(-1, 2, model.n_labels, dtype=np.float32)
    model = model.with_stage(Role.SCORER, replace(model.scorer, base_score=base))
    return MultiGBDTRegressor.from_model(replace(model, parameters={"loss": "mse"}))


REGRESSORS = {
    "dense leaves": {},
    "sparse leaves": {"leaf_outputs": 1},
    "empty leaves": {"leaf_min_gain": 1.0},
    "a tree per output": {"tree_per_output": True},
    "poisson": {"loss": "poisson"},
    "absolute": {"loss": "absolute"},
}


@pytest.mark.parametrize("name", REGRESSORS)
def test_regressors(name):
    X, Y, _ = make_rows()
    model = MultiGBDTRegressor.from_settings({"n_trees": 12, "min_samples_leaf": 5, **REGRESSORS[name]}).fit(
        X, np.abs(Y)
    )
    rows = all_rows(model, X)
    wanted = model.predict(rows)
    found = run_onnx(export.to_onnx(model), rows)
    assert list(found) == ["predictions"]
    np.testing.assert_allclose(found["predictions"], wanted, **CLOSE)
    np.testing.assert_allclose(run_treelite(export.to_treelite(model), rows), wanted, **CLOSE)


def test_one_column_and_a_loss_of_the_users():
    X, Y, _ = make_rows()
    model = MultiGBDTRegressor(n_trees=5, loss=lambda y, z: (z - y, np.ones_like(z))).fit(X, Y[:, 0])
    np.testing.assert_allclose(
        run_onnx(export.to_onnx(model), X)["predictions"][:, 0], model.predict(X), **CLOSE
    )
    np.testing.assert_allclose(run_treelite(export.to_treelite(model), X)[:, 0], model.predict(X), **CLOSE)


CLASSIFIERS = {
    "softmax": ({}, 3),
    "two classes": ({}, 2),
    "sparse leaves": ({"leaf_outputs": 1}, 3),
    "a tree per class": ({"tree_per_output": True}, 3),
}


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classes(name):
    X, Y, _ = make_rows()
    parameters, n_classes = CLASSIFIERS[name]
    y = np.array(["a", "b", "c"])[np.digitize(Y[:, 1], [0.2, 1])[:].clip(0, n_classes - 1)]
    model = MultiGBDTClassifier.from_settings({"n_trees": 12, "min_samples_leaf": 5, **parameters}).fit(X, y)
    rows = all_rows(model, X)
    wanted = model.predict_proba(rows)
    assert wanted.std(axis=0).min() > 0.1
    found = run_onnx(export.to_onnx(model), rows)
    np.testing.assert_allclose(found["probabilities"], wanted, **CLOSE)
    np.testing.assert_allclose(found["scores"], model._scores(rows), **CLOSE)
    lite = export.to_treelite(model)
    np.testing.assert_allclose(run_treelite(lite, rows), wanted, **CLOSE)
    np.testing.assert_allclose(run_treelite(lite, rows, scores=True), model._scores(rows), **CLOSE)


@pytest.mark.parametrize("parameters", [{}, {"tree_per_output": True}, {"leaf_outputs": 2}])
def test_labels(parameters):
    X, Y, _ = make_rows()
    model = MultiGBDTClassifier.from_settings({"n_trees": 12, "min_samples_leaf": 5, **parameters}).fit(
        X, (Y > 0.3).astype(int)
    )
    rows = all_rows(model, X)
    wanted = model.predict_proba(rows)
    np.testing.assert_allclose(run_onnx(export.to_onnx(model), rows)["probabilities"], wanted, **CLOSE)
    np.testing.assert_allclose(run_treelite(export.to_treelite(model), rows), wanted, **CLOSE)


def test_shares_of_logistic_probabilities_are_for_onnx_only():
    X, Y, _ = make_rows()
    model = MultiGBDTClassifier(n_trees=12, loss="logistic").fit(X, np.digitize(Y[:, 1], [0.2, 1]))
    found = run_onnx(export.to_onnx(model), X)["probabilities"]
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(found, model.predict_proba(X), **CLOSE)
    with pytest.raises(ValueError, match="treelite does not support loss='logistic'"):
        export.to_treelite(model)


@pytest.mark.parametrize("compact", [True, False])
def test_sparse_classifier_from_a_file(compact, tmp_path):
    X, Y = make_xc(300, 30, 40, labels_per_row=3, nnz_per_row=8)
    X = X.toarray()
    X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    SparseGBDTClassifier(n_trees=8, leaf_labels=5).fit(X, Y).save(tmp_path / "m", compact=compact)
    model = sparseleaf.load(tmp_path / "m")
    rows = all_rows(model, X)
    wanted = model.decision_function(rows).toarray()
    np.testing.assert_allclose(run_onnx(export.to_onnx(model), rows)["scores"], wanted, **CLOSE)
    np.testing.assert_allclose(run_treelite(export.to_treelite(model), rows), wanted, **CLOSE)


def category_frame(n_categories):
    X, Y, rng = make_rows(900)
    frame = pd.DataFrame(X, columns=list("abcde"))
    codes = rng.integers(0, n_categories, len(X))
    frame["kind"] = pd.Categorical.from_codes(codes, [f"k{i}" for i in range(n_categories)])
    effect = rng.normal(size=n_categories)
    Y[:, 0] += effect[codes]
    frame.loc[rng.random(len(X)) < 0.1, "kind"] = None
    return frame, Y


@pytest.mark.parametrize("n_categories", [2, 7, 40, 255])
def test_categories(n_categories):
    frame, Y = category_frame(n_categories)
    model = MultiGBDTRegressor(n_trees=10, min_samples_leaf=5).fit(frame, Y)
    assert len(model.model_.trees.sets)
    wanted = model.predict(frame)
    rows = model._features(frame)
    assert np.isnan(rows[:, 5]).any()
    np.testing.assert_allclose(run_onnx(export.to_onnx(model), rows)["predictions"], wanted, **CLOSE)
    np.testing.assert_allclose(run_treelite(export.to_treelite(model), rows), wanted, **CLOSE)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.booleans(), st.booleans(), st.booleans(), st.integers(1, 25))
def test_random_trees(seed, dense, categories, small, most_leaves):
    """One-node trees, cuts at +inf that part NaN off, cuts exactly at values, empty leaves, any set of categories."""
    model = random_model(seed, 4, 4, 3, most_leaves, dense=dense, categories=categories, small=small)
    estimator = as_regressor(model)
    close = {"rtol": 2e-5, "atol": 2e-4}
    X = random_rows(seed, 60, model)
    np.testing.assert_allclose(
        run_onnx(export.to_onnx(estimator), X)["predictions"], estimator.predict(X), **close
    )
    X = random_rows(seed, 60, model, known=True)  # treelite sends numbers that are no category right
    np.testing.assert_allclose(run_treelite(export.to_treelite(estimator), X), estimator.predict(X), **close)


def test_trained_cut_that_only_parts_missing_values_off():
    X = np.array([[1.0], [np.nan]] * 40, np.float32)
    model = MultiGBDTRegressor(n_trees=1, min_samples_leaf=1, learning_rate=1.0, l2=0.0).fit(
        X, np.arange(80) % 2
    )
    assert np.isinf(model.model_.trees.threshold).any()
    rows = np.array([[1.0], [np.nan], [-1e38], [1e38]], np.float32)
    np.testing.assert_allclose(model.predict(rows), [0, 1, 0, 0], atol=1e-6)
    np.testing.assert_allclose(
        run_onnx(export.to_onnx(model), rows)["predictions"][:, 0], [0, 1, 0, 0], atol=1e-6
    )
    np.testing.assert_allclose(run_treelite(export.to_treelite(model), rows)[:, 0], [0, 1, 0, 0], atol=1e-6)


def test_constant_targets_make_one_node_trees():
    X, _, _ = make_rows()
    model = MultiGBDTRegressor(n_trees=2).fit(X, np.full((len(X), 2), [1.5, -2.0]))
    assert (model.model_.trees.feature < 0).all()
    np.testing.assert_allclose(run_onnx(export.to_onnx(model), X)["predictions"], model.predict(X), **CLOSE)
    np.testing.assert_allclose(run_treelite(export.to_treelite(model), X), model.predict(X), **CLOSE)


def test_files_names_and_bytes(tmp_path):
    frame, Y = category_frame(3)
    model = MultiGBDTRegressor(n_trees=3).fit(frame, pd.DataFrame(Y, columns=["x", "y", "z"]))
    proto = export.to_onnx(model, tmp_path / "m.onnx")
    onnx.checker.check_model(onnx.load(tmp_path / "m.onnx"), full_check=True)
    assert (tmp_path / "m.onnx").read_bytes() == proto.SerializeToString(deterministic=True)
    (found,) = proto.metadata_props
    assert found.key == "sparseleaf"
    names = json.loads(found.value)
    assert names["outputs"] == ["x", "y", "z"]
    assert names["features"] == [*"abcde", "kind"]
    assert names["categories"] == {"5": ["k0", "k1", "k2"]}
    export.to_treelite(model, tmp_path / "m.tl")
    rows = model._features(frame)
    again = treelite.Model.deserialize(tmp_path / "m.tl")
    np.testing.assert_allclose(run_treelite(again, rows), model.predict(frame), **CLOSE)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.onnx", "m.tl"]


@pytest.mark.parametrize("function", [export.to_onnx, export.to_treelite])
class TestRefused:
    def test_projections(self, function):
        X, Y = make_xc(200, 30, 5, labels_per_row=2, nnz_per_row=8)
        model = SparseGBDTClassifier(n_trees=1, projection="pca", projection_dim=3).fit(X, Y)
        with pytest.raises(
            ValueError, match=r"projection of the features cannot be exported.*projection=None"
        ):
            function(model)

    def test_many_values(self, function, monkeypatch):
        X, Y, _ = make_rows()
        model = MultiGBDTRegressor(n_trees=1).fit(X, Y)
        monkeypatch.setattr(common, "MOST_VALUES", 5)
        with pytest.raises(ValueError, match=r"at most 5 leaf values. Got \d+ instead"):
            function(model)

    def test_others(self, function, tmp_path):
        with pytest.raises(
            TypeError, match=r"'estimator' parameter must be a fitted estimator of sparseleaf. Got dict"
        ):
            function({})
        with pytest.raises(ValueError, match="not fitted"):
            function(MultiGBDTRegressor())
        empty = random_model(0, n_trees=0)
        with pytest.raises(ValueError, match="at least one tree"):
            function(as_regressor(empty), tmp_path / "m")
        assert not list(tmp_path.iterdir())

    def test_without_the_package(self, function, monkeypatch):
        X, Y, _ = make_rows()
        model = MultiGBDTRegressor(n_trees=1).fit(X, Y)
        name = "onnx" if function is export.to_onnx else "treelite"
        for module in list(sys.modules):
            if module.partition(".")[0] == name:
                monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(ImportError, match=rf"requires {name}. .* pip install 'sparseleaf\[export\]'"):
            function(model)


def test_more_labels_than_dense_scores_suit():
    """20,000 labels with sparse leaves: a small file, and a warning of the size of the output."""
    X, Y = make_xc(300, 30, 20_000, labels_per_row=3, nnz_per_row=8)
    model = SparseGBDTClassifier(n_trees=3, projection=None).fit(X, Y)
    wanted = model.decision_function(X[:20]).toarray()
    with pytest.warns(UserWarning, match=r"20,000 outputs.* 80 kB per row"):
        proto = export.to_onnx(model)
    np.testing.assert_allclose(run_onnx(proto, X[:20].toarray())["scores"], wanted, **CLOSE)
    with pytest.warns(UserWarning, match=r"20,000 outputs"):
        lite = export.to_treelite(model)
    np.testing.assert_allclose(run_treelite(lite, X[:20].toarray()), wanted, **CLOSE)


def test_importing_the_module_imports_neither_package():
    code = (
        "import sys, sparseleaf.export; sys.exit(any(name in sys.modules for name in ('onnx', 'treelite')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
