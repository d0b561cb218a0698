"""What a MultiGBDT that is trained answers; its files and copies."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import naive_dense
import sparseleaf
from multi_models import MODELS, classes_of, clf, make, reg, same_trees
from smalldata import saved_bytes
from sparseleaf import MultiGBDTClassifier
from sparseleaf.model import Rows
from sparseleaf.training import dense

pd = pytest.importorskip("pandas")


# --- prediction


@pytest.mark.parametrize("case", MODELS)
def test_predictions_leaves_and_training_scores_agree(case, monkeypatch):
    """The twin on raw values, the model, and the scores that training itself kept: bit for bit."""
    shards = []

    class Watched(dense.DenseShard):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            shards.append(self)

    monkeypatch.setattr(dense, "DenseShard", Watched)
    X, Y = make(300, 4, 3, seed=7, missing=0.1, categories=2)
    est = clone(MODELS[case])
    if isinstance(est, MultiGBDTClassifier):
        Y = (Y > 0).astype(int) if case == "logistic" else classes_of(Y)
    est.fit(X, Y)
    model = est.model_
    scores, leaves = naive_dense.predict(X, model.trees, 3, model.base_score)
    found = est.decision_function(X) if isinstance(est, MultiGBDTClassifier) else est.predict(X)
    np.testing.assert_array_equal(found, scores)
    np.testing.assert_array_equal(found, shards[0].scores)
    np.testing.assert_array_equal(model.scorer.leaves(Rows(X, None, 2)), leaves)
    applied = est.apply(X)
    assert applied.shape == (300, model.n_trees)
    for t in range(model.n_trees):
        first = min(leaf["number"] for leaf in naive_dense.leaves_of(naive_dense.nested(model.trees, t, 3)))
        np.testing.assert_array_equal(applied[:, t], leaves[:, t] - first)
    if not model.categories:
        np.testing.assert_array_equal(est.apply(sp.csr_matrix(X)), applied)


def test_regression_shapes_and_stages():
    X, Y = make()
    est = reg().fit(X, Y)
    stages = list(est.staged_predict(X))
    assert len(stages) == 6
    np.testing.assert_array_equal(stages[-1], est.predict(X))
    assert [len(list(est.staged_predict(X, every=n))) for n in (1, 4, 6, 9)] == [6, 2, 1, 1]
    with pytest.raises(ValueError, match="every"):
        next(est.staged_predict(X, every=0))
    errors = [np.mean((stage - Y) ** 2) for stage in stages]
    assert errors == sorted(errors, reverse=True)
    assert reg().fit(X, Y[:, 0]).predict(X).shape == (160,)
    assert reg().fit(X, Y[:, :1]).predict(X).shape == (160, 1)
    assert np.all(reg(loss="poisson").fit(X, np.exp(Y)).predict(X) > 0)


@pytest.mark.parametrize("loss", ["auto", "logistic"])
def test_classes_are_predicted_by_name(loss):
    X, Y = make()
    y = np.array(["ash", "birch", "elm"])[classes_of(Y)]
    est = clf(loss=loss, n_trees=20).fit(X, y)
    assert est.classes_.tolist() == ["ash", "birch", "elm"]
    proba = est.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=1e-5)
    assert (est.predict(X) == est.classes_[proba.argmax(axis=1)]).all()
    assert est.score(X, y) > 0.9
    labels, scores = est.predict_topk(X, 2)
    assert (labels[:, 0] == est.predict(X)).all()
    np.testing.assert_array_equal(scores, np.sort(est.decision_function(X))[:, ::-1][:, :2])
    assert len(list(est.staged_predict(X, every=10))) == 2
    np.testing.assert_array_equal(list(est.staged_predict_proba(X))[-1], proba)


def test_two_classes():
    X, Y = make()
    y = Y[:, 0] > 0
    est = clf().fit(X, y)
    assert est.predict(X).dtype == bool
    margin = est.decision_function(X)
    assert margin.shape == (160,)
    np.testing.assert_array_equal(est.predict(X), margin > 0)
    np.testing.assert_allclose(est.predict_proba(X)[:, 1], 1 / (1 + np.exp(-margin.astype(float))), rtol=1e-5)


def test_labels_come_back_as_they_were_given():
    X, Y = make()
    matrix = (Y > 0).astype(int)
    est = clf(n_trees=30).fit(X, matrix)
    dense = est.predict(X)
    assert dense.shape == matrix.shape
    assert (dense == matrix).mean() > 0.9
    np.testing.assert_array_equal(est.predict_proba(X) >= 0.5, dense == 1)
    sparse = clf(n_trees=30).fit(X, sp.csr_matrix(matrix)).predict(X)
    assert sp.issparse(sparse)
    np.testing.assert_array_equal(sparse.toarray(), dense)
    names = np.array(["x", "y", "z"])
    lists = clf(n_trees=30).fit(X, [names[row == 1].tolist() for row in matrix]).predict(X)
    assert [sorted(row) for row in lists] == [names[row == 1].tolist() for row in dense]


def test_labels_partly_known():
    X, Y = make(400)
    y = (Y > 0).astype(float)
    hidden = np.random.default_rng(0).random(y.shape) < 0.4
    est = clf(n_trees=30).fit(X, np.where(hidden, np.nan, y))
    assert (est.predict(X) == y)[hidden].mean() > 0.8


def test_missing_and_unknown_categories_go_the_same_way():
    X, Y = make(300, categories=2, missing=0.1)
    frame = pd.DataFrame(X, columns=list("abcd"))
    for name in "ab":
        frame[name] = frame[name].map(lambda v: None if np.isnan(v) else f"category {int(v)}")
    est = reg().fit(frame, Y)
    assert sorted(est.model_.categories) == [0, 1]
    by_index = reg(categorical_features=[0, 1]).fit(X, Y)
    np.testing.assert_array_equal(est.predict(frame), by_index.predict(X))
    unknown, missing = frame.copy(), frame.copy()
    unknown["a"], missing["a"] = "never seen", None
    np.testing.assert_array_equal(est.predict(unknown), est.predict(missing))
    other = X.copy()
    other[:, 0] = 99
    np.testing.assert_array_equal(by_index.predict(other), est.predict(missing))
    with pytest.raises(ValueError, match="feature names should match"):
        est.predict(frame[["b", "a", "c", "d"]])
    with pytest.raises(ValueError, match="now missing"):
        est.predict(frame[["a", "b"]])
    with pytest.raises(ValueError, match="features"):
        by_index.predict(X[:, :2])


def test_names_of_features_and_outputs_are_kept(tmp_path):
    X, Y = make()
    frame = pd.DataFrame(X, columns=list("abcd"))
    est = reg().fit(frame, pd.DataFrame(Y, columns=["u", "v", "w"]))
    est.save(tmp_path / "m.safetensors")
    loaded = sparseleaf.load(tmp_path / "m.safetensors")
    for one in (est, loaded):
        assert one.feature_names_in_.tolist() == list("abcd")
        assert one.output_names_.tolist() == ["u", "v", "w"]
        with pytest.raises(ValueError, match="feature names"):
            one.predict(frame.rename(columns={"a": "z"}))


def test_sparse_rows_are_dense_rows():
    X, Y = make()
    X[np.random.default_rng(0).random(X.shape) < 0.6] = 0
    dense, sparse = reg().fit(X, Y), reg().fit(sp.csr_matrix(X), Y)
    same_trees(dense, sparse)
    np.testing.assert_array_equal(dense.predict(X), sparse.predict(sp.csr_matrix(X)))


def test_importances():
    X, Y = make(d=2)
    Y = np.c_[X[:, 1], X[:, 2]] + 0.01 * Y
    est = reg(n_trees=20).fit(X, Y)
    assert est.feature_importances_.sum() == pytest.approx(1)
    assert set(np.argsort(-est.feature_importances_)[:2]) == {1, 2}
    shares = est.output_importances_
    assert shares.shape == (4, 2)
    np.testing.assert_allclose(shares.sum(axis=0), 1)
    assert shares[1, 0] > 0.95
    assert shares[2, 1] > 0.95


@pytest.mark.parametrize("sparse_leaves", [False, True])
@pytest.mark.parametrize("compact", [False, True])
def test_output_importances_are_the_twins(sparse_leaves, compact, tmp_path):
    X, Y = make(categories=1)
    est = reg(leaf_labels=1 if sparse_leaves else None, categorical_features=[0]).fit(X, Y)
    est.save(tmp_path / "m.safetensors", compact=compact)
    est = sparseleaf.load(tmp_path / "m.safetensors")
    trees = est.model_.trees
    moved = np.zeros((4, 3))

    def walk(node):
        rows = float(trees.cover[node["at"]])
        if "leaf" in node:
            return rows, node["leaf"].astype(float)
        sides = [walk(node["left"]), walk(node["right"])]
        mean = sum(n * m for n, m in sides) / rows
        moved[node["feature"]] += sum(n * (m - mean) ** 2 for n, m in sides)
        return rows, mean

    for t in range(trees.n_trees):
        walk(naive_dense.nested(trees, t, 3))
    np.testing.assert_allclose(est.output_importances_, moved / moved.sum(axis=0), rtol=1e-5, atol=1e-9)


# --- files, copies, scikit-learn


@pytest.mark.parametrize("case", MODELS)
@pytest.mark.parametrize("compact", [False, True])
def test_files(case, compact, tmp_path):
    X, Y = make(300, 4, 3, seed=7, missing=0.1, categories=2)
    est = clone(MODELS[case])
    if isinstance(est, MultiGBDTClassifier):
        Y = (Y > 0).astype(int) if case == "logistic" else classes_of(Y)
    est.fit(X, Y)
    est.save(tmp_path / "m.safetensors", compact=compact)
    loaded = sparseleaf.load(tmp_path / "m.safetensors")
    assert type(loaded) is type(est)
    assert loaded.get_params() == est.get_params()
    name = "decision_function" if isinstance(est, MultiGBDTClassifier) else "predict"
    found, wanted = getattr(loaded, name)(X), getattr(est, name)(X)
    np.testing.assert_array_equal(found, wanted)
    if not compact:
        assert saved_bytes(loaded, tmp_path, "again.safetensors") == (tmp_path / "m.safetensors").read_bytes()
    np.testing.assert_array_equal(loaded.apply(X), est.apply(X))
    np.testing.assert_array_equal(loaded.feature_importances_, est.feature_importances_)
    again = pickle.loads(pickle.dumps(est))
    np.testing.assert_array_equal(getattr(again, name)(X), wanted)


def test_scikit_learns_tools():
    X, Y = make()
    est = reg(monotone_constraints=[1, 0, 0, 0], categorical_features=None)
    assert clone(est).get_params() == est.get_params()
    pipe = make_pipeline(StandardScaler(), reg()).fit(X, Y)
    assert pipe.score(X, Y) > 0.5
    search = GridSearchCV(
        reg(), {"max_leaves": [2, 15], "advanced__split": ["full", "topk"], "leaf_labels": [2]}, cv=2
    )
    assert search.fit(X, Y).best_params_["max_leaves"] == 15
    y = classes_of(Y)
    assert (
        GridSearchCV(clf(), {"learning_rate": [1e-6, 0.3]}, cv=2).fit(X, y).best_params_["learning_rate"]
        == 0.3
    )
