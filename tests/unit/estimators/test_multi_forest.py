"""Forests with dense outputs: agreement with scikit-learn, out-of-bag predictions, reproducibility."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import datasets, ensemble
from sklearn.base import clone
from sklearn.metrics import r2_score
from sklearn.model_selection import train_test_split

import smalldata
import sparseleaf
from multi_models import classes_of, make
from sparseleaf import BlendClassifier, MultiForestClassifier, MultiForestRegressor, MultiGBDTClassifier
from sparseleaf.data import make_xc
from sparseleaf.export import to_onnx, to_treelite
from sparseleaf.training.bagging import Bagging
from sparseleaf.training.dense_targets import encode_numbers

SPLITTERS = ("best", "random")


def reg(**parameters):
    return MultiForestRegressor.from_settings({"n_trees": 8} | parameters)


def clf(**parameters):
    return MultiForestClassifier.from_settings({"n_trees": 8} | parameters)


MODELS = {
    "regressor": reg(max_features=0.5),
    "extra trees": reg(splitter="random"),
    "categories": reg(categorical_features=[0, 1], min_samples_leaf=2),
    "random categories": reg(categorical_features=[0, 1], splitter="random", bootstrap=True),
    "limited": reg(max_depth=4, subsample=0.5, bootstrap=False),
    "best-first": reg(max_leaves=9, max_bins=16),
    "sketch": reg(sketch_dim=2),
    "classes": clf(),
    "random classes": clf(splitter="random", class_weight="balanced"),
}


def saved_bytes(model):
    with tempfile.TemporaryDirectory() as folder:
        return smalldata.saved_bytes(model, Path(folder))


def rows_of(model, seed=0, n=160, d=3):
    X, Y = make(n, d=40 if model._settings().sketch_dim == 2 else d, seed=seed, missing=0.05, categories=2)
    X[:, :2] = np.nan_to_num(X[:, :2])
    return X, classes_of(Y) if isinstance(model, MultiForestClassifier) else Y


# --- agreement with scikit-learn


def mean_scores(X, y, ours, peer):
    """Mean test scores over three splits."""
    scores = []
    for seed in range(3):
        train, test, y_train, y_test = train_test_split(X, y, random_state=seed, test_size=0.3)
        models = ours.set_params(random_state=seed), peer.set_params(random_state=seed)
        scores.append([model.fit(train, y_train).score(test, y_test) for model in models])
    return np.mean(scores, axis=0)


@pytest.mark.parametrize("splitter", SPLITTERS)
@pytest.mark.parametrize(("name", "margin"), [("digits", 0.012), ("wine", 0.03)])
def test_classifiers_are_as_accurate_as_scikit_learn(name, margin, splitter):
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    peer = {"best": ensemble.RandomForestClassifier, "random": ensemble.ExtraTreesClassifier}[splitter]
    ours, theirs = mean_scores(X, y, clf(n_trees=30, splitter=splitter), peer(30))
    assert ours > theirs - margin
    assert theirs > 0.9


@pytest.mark.parametrize("splitter", SPLITTERS)
@pytest.mark.parametrize(("name", "margin"), [("diabetes", 0.05), ("friedman1", 0.02), ("two outputs", 0.02)])
def test_regressors_are_as_accurate_as_scikit_learn(name, margin, splitter):
    X, y = datasets.load_diabetes(return_X_y=True)
    if name != "diabetes":
        X, y = datasets.make_friedman1(500, random_state=0)
    if name == "two outputs":
        y = np.column_stack((y, X[:, 0] * X[:, 3]))
    peer = {"best": ensemble.RandomForestRegressor, "random": ensemble.ExtraTreesRegressor}[splitter]
    options = {"max_features": 1.0, "min_samples_leaf": 1}
    ours, theirs = mean_scores(X, y, reg(n_trees=30, splitter=splitter, **options), peer(30))
    assert ours > theirs - margin
    assert theirs > 0.3


def test_linnerud_with_fewer_rows_than_bins():
    X, y = datasets.load_linnerud(return_X_y=True)
    model = reg(n_trees=1, bootstrap=False, max_features=1.0, min_samples_leaf=1).fit(X, y)
    np.testing.assert_allclose(model.predict(X), y, rtol=1e-5)  # fully grown: the rows are distinct
    assert model.apply(X).max() == len(X) - 1


# --- out-of-bag predictions


@pytest.mark.filterwarnings("ignore:Some rows are in the samples of all trees")
@pytest.mark.parametrize("name", MODELS)
def test_out_of_bag_predictions_are_means_over_the_trees_without_the_row(name):
    model = clone(MODELS[name]).set_params(oob_score=True)
    if model.bootstrap == "auto":
        model.set_params(bootstrap=True)
    X, y = rows_of(model)
    model.fit(X, y)
    n_trees = model.model_.n_trees
    params = model._settings()
    targets = encode_numbers(np.zeros(len(X)), len(X), None)[1]
    bag = Bagging.of(targets, bootstrap=bool(params.bootstrap), subsample=params.subsample, seed=0)
    scores = [model._scores(X, 1)]
    scores += [(t + 1) * model._scores(X, t + 1) - t * model._scores(X, t) for t in range(1, n_trees)]
    expected = np.full_like(scores[0], np.nan)
    for row in range(len(X)):
        without = [scores[t][row] for t in range(n_trees) if row in bag.oob_rows(t)]
        if without:
            expected[row] = np.mean(without, axis=0)
    labels = isinstance(model, MultiForestClassifier)
    result = model.oob_decision_function_ if labels else model.oob_prediction_
    np.testing.assert_allclose(result, expected, atol=1e-4)
    seen = ~np.isnan(expected).any(axis=1)
    if labels:
        assert model.oob_score_ == pytest.approx(np.mean(expected[seen].argmax(axis=1) == y[seen]))
    else:
        assert model.oob_score_ == pytest.approx(r2_score(y[seen], expected[seen]), abs=1e-4)


def test_out_of_bag_score_is_close_to_the_test_score():
    X, y = datasets.load_digits(return_X_y=True)
    train, test, y_train, y_test = train_test_split(X, y, random_state=0)
    model = clf(n_trees=60, oob_score=True).fit(train, y_train)
    assert abs(model.oob_score_ - model.score(test, y_test)) < 0.03
    np.testing.assert_allclose(model.oob_decision_function_.sum(axis=1), 1, atol=1e-5)


def test_out_of_bag_precision_of_labels():
    X, Y = make_xc(400, 30, 12, nnz_per_row=8, seed=0)
    model = clf(n_trees=30, oob_score=True).fit(X.toarray(), Y)
    best = model.oob_decision_function_.argmax(axis=1)
    assert model.oob_score_ == pytest.approx(Y.toarray()[np.arange(400), best].mean())


def test_rows_without_out_of_bag_prediction_are_warned_about():
    X, Y = make()
    with pytest.warns(UserWarning, match="Some rows are in the samples of all trees"):
        model = reg(n_trees=1, oob_score=True).fit(X, Y)
    assert np.isnan(model.oob_prediction_).any()


# --- reproducibility


@settings(max_examples=6, deadline=None)
@given(name=st.sampled_from(list(MODELS)), seed=st.integers(0, 50), n_jobs=st.sampled_from([2, 3, 5]))
def test_any_number_of_threads_gives_the_same_bytes(name, seed, n_jobs):
    model = clone(MODELS[name]).set_params(random_state=seed)
    X, y = rows_of(model, seed)
    alone = saved_bytes(clone(model).set_params(n_jobs=1).fit(X, y))
    assert saved_bytes(clone(model).set_params(n_jobs=n_jobs).fit(X, y)) == alone


def test_seeds_differ():
    X, Y = make()
    assert saved_bytes(reg(random_state=1).fit(X, Y)) != saved_bytes(reg(random_state=2).fit(X, Y))


@pytest.mark.parametrize("name", ["regressor", "random classes"])
def test_training_resumes_from_a_checkpoint(name, tmp_path):
    model = MODELS[name]
    X, y = rows_of(model)
    whole = saved_bytes(clone(model).fit(X, y))

    def stop(state):
        return state.tree == 3

    clone(model).fit(X, y, checkpoint=tmp_path / "c", checkpoint_every=1, callbacks=[stop])
    again = clone(model).fit(X, y, checkpoint=tmp_path / "c", checkpoint_every=1)
    assert saved_bytes(again) == whole


@pytest.mark.parametrize("name", MODELS)
def test_saved_models_predict_the_same(name, tmp_path):
    model = MODELS[name]
    X, y = rows_of(model)
    fitted = clone(model).fit(X, y)
    fitted.save(tmp_path / "m.safetensors")
    loaded = sparseleaf.load(tmp_path / "m.safetensors")
    assert type(loaded) is type(model)
    np.testing.assert_array_equal(loaded.predict(X), fitted.predict(X))


# --- what it predicts


def test_stopped_training_averages_the_trees_so_far():
    X, Y = make()
    stopped = reg().fit(X, Y, callbacks=[lambda state: state.tree == 3])
    three = reg(n_trees=3).fit(X, Y)
    np.testing.assert_allclose(stopped.predict(X), three.predict(X), rtol=1e-6)


def test_staged_predictions_and_history_are_those_of_smaller_forests():
    X, Y = make()
    model = reg().fit(X, Y, eval_set=(X, Y))
    for n_trees, stage in enumerate(model.staged_predict(X), start=1):
        np.testing.assert_allclose(stage, reg(n_trees=n_trees).fit(X, Y).predict(X), atol=1e-5)
        rmse = np.sqrt(np.mean((stage - Y) ** 2))
        assert model.history_["valid rmse"][n_trees - 1] == pytest.approx(rmse, rel=1e-4)


def test_probabilities_are_leaf_frequencies():
    X, Y = make()
    y = classes_of(Y)
    model = clf(n_trees=1, bootstrap=False, max_depth=2, max_features=1.0).fit(X, y)
    leaves, probabilities = model.apply(X)[:, 0], model.predict_proba(X)
    for leaf in np.unique(leaves):
        expected = np.bincount(y[leaves == leaf], minlength=3) / np.sum(leaves == leaf)
        np.testing.assert_allclose(
            probabilities[leaves == leaf], np.tile(expected, (sum(leaves == leaf), 1)), atol=1e-4
        )
    names, scores = model.predict_topk(X, 2)
    assert (names[:, 0] == model.predict(X)).all()
    assert (np.diff(scores[np.isfinite(scores).all(axis=1)], axis=1) <= 0).all()


def test_labels_and_their_accuracy():
    X, Y = make_xc(300, 30, 12, nnz_per_row=8, seed=1)
    model = clf(n_trees=20).fit(X, Y, eval_set=(X, Y))
    assert isinstance(model.predict(X), sp.csr_matrix)
    pairs = np.mean((model.predict_proba(X) > 0.5) == Y.toarray())
    assert model.history_["valid accuracy"][-1] == pytest.approx(pairs, abs=1e-3)
    assert model.history_["valid accuracy"][-1] > 0.9


def test_unknown_targets():
    X, Y = make(400)
    hidden = Y.copy()
    hidden[np.random.default_rng(0).random(Y.shape) < 0.4] = np.nan
    model = reg(n_trees=40, min_samples_leaf=2).fit(X, hidden)
    assert model.score(X, Y) > 0.75
    labels = np.where(np.isnan(hidden), np.nan, (Y > 0).astype(float))
    probabilities = clf(n_trees=40).fit(X, labels).predict_proba(X)
    assert np.mean((probabilities > 0.5) == (Y > 0)) > 0.9
    assert probabilities.min() >= 0
    assert probabilities.max() <= 1


@pytest.mark.parametrize("model", [reg(), clf()], ids=["regressor", "classifier"])
def test_rows_of_weight_zero_do_not_count(model):
    X, Y = make(120)
    y = classes_of(Y) if isinstance(model, MultiForestClassifier) else Y
    other = np.roll(y, 1, axis=0)
    weights = np.r_[np.ones(120), np.zeros(120)]
    both = np.concatenate((X, X)), np.concatenate((y, other))
    weighted = clone(model).fit(*both, sample_weight=weights)
    np.testing.assert_allclose(
        weighted.predict(X).astype(float), clone(model).fit(X, y).predict(X), atol=1e-3
    )


def test_pure_nodes_with_different_weights_are_not_split():
    X = np.arange(40, dtype=np.float32)[:, None]
    y = (X[:, 0] >= 20).astype(int)
    weights = np.random.default_rng(0).uniform(0.1, 3, 40)
    model = clf(n_trees=3).fit(X, y, sample_weight=weights)
    assert (np.diff(model.model_.trees.tree_offsets) == 3).all()


def test_class_weight_shifts_probabilities():
    X, Y = make(300, seed=3)
    y = (Y[:, 0] > 1).astype(int)
    plain, heavy = (
        clf(n_trees=30, min_samples_leaf=10, class_weight=w).fit(X, y) for w in (None, "balanced")
    )
    assert heavy.predict_proba(X)[:, 1].mean() > plain.predict_proba(X)[:, 1].mean() + 0.05


def test_shapley_values_add_up_to_the_predictions():
    X, Y = make(100)
    model = reg(n_trees=4).fit(X, Y)
    values, expected = model.shap_values(X[:10])
    np.testing.assert_allclose(values.sum(axis=1) + expected, model.predict(X[:10]), atol=1e-4)
    classifier = clf(n_trees=4).fit(X, classes_of(Y))
    values, expected = classifier.shap_values(X[:10])
    np.testing.assert_allclose(values.sum(axis=1) + expected, classifier.predict_proba(X[:10]), atol=1e-4)
    explained = classifier.explain(X[:3], k=1)
    assert explained[0][0].score == pytest.approx(classifier.predict_topk(X[:1], 1)[1][0, 0])


def test_importances_find_the_feature():
    X, _ = make(200)
    assert reg().fit(X, X[:, 1]).feature_importances_.argmax() == 1


def test_it_blends_with_boosting():
    X, y = datasets.load_wine(return_X_y=True)
    members = [MultiForestClassifier(20), MultiGBDTClassifier(20)]
    blend = BlendClassifier(members).fit(X, y)
    assert blend.score(X, y) > 0.95
    assert blend.weights_.shape == (2,)


def test_exported_models_return_the_same_scores(tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    treelite = pytest.importorskip("treelite")
    X, Y = make(120)
    for model, y in ((reg(n_trees=4), Y), (clf(n_trees=4), classes_of(Y))):
        model.fit(X, y)
        expected = model._scores(X)
        to_onnx(model, tmp_path / "m.onnx")
        session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
        np.testing.assert_allclose(session.run(None, {"X": X})[0], expected, atol=1e-5)
        scores = treelite.gtil.predict(to_treelite(model), X.astype(np.float32))
        np.testing.assert_allclose(scores.reshape(expected.shape), expected, atol=1e-5)


# --- updates


@pytest.mark.parametrize("labels", [False, True])
def test_update_averages_old_and_new_trees(labels):
    X, Y = make(200)
    y = classes_of(Y) if labels else Y
    model = (clf if labels else reg)(n_trees=6).fit(X[:120], y[:120])
    before = model._scores(X)
    model.update(X[120:], y[120:], n_trees=3)
    assert model.model_.n_trees == 9
    assert model.model_.n_train_rows == 200
    after = model._scores(X)
    new = (after * 9 - before * 6) / 3
    rows = slice(120, 200)
    if labels:
        assert np.mean(new[rows].argmax(axis=1) == y[rows]) > 0.8
    else:
        assert r2_score(y[rows], new[rows]) > 0.6


def test_refreshing_leaves_is_refused():
    X, Y = make()
    with pytest.raises(ValueError, match="The 'how' parameter must be 'trees' for a forest"):
        reg(n_trees=2).fit(X, Y).update(X, Y, how="leaves")


# --- refusals


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"max_features": 0.0}, "The 'max_features' parameter of MultiForestRegressor must be"),
        ({"splitter": "worst"}, "The 'splitter' parameter of MultiForestRegressor must be"),
        ({"bootstrap": "yes"}, "The 'bootstrap' parameter of MultiForestRegressor must be"),
        ({"oob_score": True, "bootstrap": False}, "oob_score=True requires out-of-bag rows"),
        ({"oob_score": True, "splitter": "random"}, "oob_score=True requires out-of-bag rows"),
    ],
)
def test_invalid_parameters(parameters, message):
    X, Y = make()
    with pytest.raises(ValueError, match=message):
        MultiForestRegressor(**parameters).fit(X, Y)


def test_memory_is_estimated():
    X, Y = make(500)
    estimate = reg(n_trees=10).estimate_memory(X, Y)
    assert estimate.bins == 2 * X.size
    assert estimate.model > 0
