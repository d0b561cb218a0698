"""Model files of every version that was ever released load and predict what they did."""

import json
from pathlib import Path

import numpy as np
import pytest

import sparseleaf
from sparseleaf.model import Role
from sparseleaf.model.registry import kinds_of

HERE = Path(__file__).parent
FILES = sorted([*HERE.glob("gbdt-sparse-*.safetensors"), *HERE.glob("forest-*.safetensors")])


def test_there_are_files():
    assert {file.stem for file in HERE.glob("*.safetensors")} >= {
        *("gbdt-sparse-v1", "gbdt-sparse-v1-missing", "gbdt-mo-v2-regression", "gbdt-mo-v2-classification"),
        *("gbdt-sparse-v2-rerank", "ldsm-v2", "ldsm-v2-arity"),
        *("ldsm-v3-linear", "sparse-v3-boosted", "blend-v3"),
        *("forest-v3", "forest-v3-dense", "bayes-v4-forest"),
    }


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_old_files_predict_what_they_did(path):
    assert path.stat().st_size < 20_000
    expected = json.loads(path.with_suffix(".json").read_text())
    X = np.array([[np.nan if x is None else x for x in row] for row in expected["X"]], np.float32)
    clf = sparseleaf.load(path)
    labels, scores = clf.predict_topk(X, 4)
    assert labels.tolist() == expected["labels"]
    wanted = np.array([[-np.inf if s is None else s for s in row] for row in expected["scores"]])
    np.testing.assert_allclose(scores, wanted, rtol=1e-6, atol=1e-7)
    predicted = clf.predict(X)
    assert (predicted if isinstance(predicted, list) else predicted.toarray().tolist()) == expected["predict"]
    assert clf.model_.n_trees == expected["n_trees"]
    assert clf._settings() == type(clf).from_settings(expected["parameters"])._settings()
    values = clf.history_["valid precision@1"]  # which was "valid P@1", in percent
    assert len(values) == expected["n_trees"]
    assert 0 < max(values) <= 1


def expected_of(name):
    path = HERE / f"{name}.safetensors"
    assert path.stat().st_size < 20_000
    return sparseleaf.load(path), json.loads(path.with_suffix(".json").read_text())


def check_model(est, expected, rows):
    assert est.apply(rows).tolist() == expected["apply"]
    np.testing.assert_allclose(est.output_importances_, expected["importances"], rtol=1e-6)
    assert est.model_.n_trees == expected["n_trees"]
    assert est._settings() == type(est).from_settings(expected["parameters"])._settings()
    assert len(est.history_["valid loss"]) == expected["n_trees"]


def test_regression_with_categories_and_dense_leaves_of_version_2():
    pd = pytest.importorskip("pandas")
    est, expected = expected_of("gbdt-mo-v2-regression")
    rows = pd.DataFrame(expected["X"], columns=["a", "town", "b"])
    rows[["a", "b"]] = rows[["a", "b"]].astype(float)
    np.testing.assert_allclose(est.predict(rows), expected["predict"], rtol=1e-5, atol=1e-6)
    check_model(est, expected, rows)
    assert est.model_.categories == {1: ["Bergen", "Oslo", "Turku", "Århus"]}
    assert est.output_names_.tolist() == ["u", "v", "w"]
    assert len(est.model_.trees.leaf_labels) == 0
    assert len(est.model_.trees.sets) > 0


def test_classification_with_sparse_leaves_of_version_2():
    est, expected = expected_of("gbdt-mo-v2-classification")
    rows = np.array(expected["X"], np.float32)
    assert est.predict(rows).tolist() == expected["predict"]
    np.testing.assert_allclose(est.decision_function(rows), expected["scores"], rtol=1e-5, atol=1e-6)
    check_model(est, expected, rows)
    assert est.classes_.tolist() == ["ash", "birch", "elm", "hâsel"]
    assert np.diff(est.model_.trees.leaf_indptr).max() == 2


@pytest.mark.parametrize("name", ["ldsm-v3-linear", "sparse-v3-boosted", "blend-v3", "bayes-v4-forest"])
def test_learned_re_ranking_and_blends(name):
    clf, expected = expected_of(name)
    labels, scores = clf.predict_topk(np.array(expected["X"], np.float32), 4)
    assert labels.tolist() == expected["labels"]
    wanted = np.array([[-np.inf if s is None else s for s in row] for row in expected["scores"]])
    np.testing.assert_allclose(scores, wanted, rtol=1e-5)
    assert clf.model_.n_trees == expected["n_trees"]


V5 = sorted(path.stem for path in HERE.glob("v5-*.safetensors"))


@pytest.mark.parametrize("name", V5)
def test_stages_of_version_5(name):
    est, expected = expected_of(name)
    assert [stage.kind for stage in est.model_.stages] == expected["stages"]
    assert est.model_.link == expected["link"]
    if "uris" in expected:
        assert list(est.label_uris_) == expected["uris"]
    texts = est.model_.vectorizer is not None
    rows = expected["X"] if texts else np.array(expected["X"], np.float32)
    if "probabilities" in expected:
        assert est.predict(rows) == expected["predict"]
        np.testing.assert_allclose(est.predict_proba(rows).toarray(), expected["probabilities"], rtol=1e-5)
    elif "predict" in expected:
        np.testing.assert_allclose(est.predict(rows), expected["predict"], rtol=1e-5)
        return
    labels, scores = est.predict_topk(rows, 4)
    assert labels.tolist() == expected["labels"]
    wanted = np.array([[-np.inf if s is None else s for s in row] for row in expected["scores"]])
    np.testing.assert_allclose(scores, wanted, rtol=1e-5)


def test_there_is_a_file_of_version_5_for_every_kind_of_stage():
    files = [json.loads((HERE / f"{name}.json").read_text()) for name in V5]
    assert {kind for file in files for kind in file["stages"]} == {
        kind for role in Role for kind in kinds_of(role)
    }
