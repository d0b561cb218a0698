"""Files of dense models (version 2): base scores, leaves without labels, sets of categories, numbers of rows."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from sparseleaf import ModelFileError, MultiGBDTClassifier, MultiGBDTRegressor, load


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """A sound file with categories, names and dense leaves."""
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"town": rng.choice(["a", "b", "c", "d"], 120), "x": rng.normal(size=120)})
    Y = pd.DataFrame(
        rng.normal(size=(120, 2)) + (frame["town"] == "b").to_numpy()[:, None], columns=["u", "v"]
    )
    path = tmp_path_factory.mktemp("good") / "model.safetensors"
    est = MultiGBDTRegressor(n_trees=3, min_samples_leaf=5).fit(frame, Y)
    est.save(path)
    return path, frame, est


@pytest.fixture
def edited(good, tmp_path):
    """Write the sound file with other tensors or another header, and load that."""
    tensors = {name: array.copy() for name, array in load_file(good[0]).items()}
    raw = good[0].read_bytes()
    layout = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])
    header = json.loads(layout["__metadata__"]["sparseleaf"])

    def write(change=lambda tensors, header: None):
        change(tensors, header)
        save_file(tensors, tmp_path / "edited.safetensors", {"sparseleaf": json.dumps(header)})
        return load(tmp_path / "edited.safetensors")

    return write


def test_the_sound_file_is_sound(edited, good):
    _, frame, est = good
    np.testing.assert_allclose(edited().predict(frame), est.predict(frame), atol=1e-4)


def test_every_tensor_of_dense_models_is_in_a_file(good):
    names = (
        "n_nodes feature threshold_index thresholds missing_left leaf_values feature_gain cover"
        " categorical sets base_score"
    )
    assert set(load_file(good[0])) == {f"trees.{name}" for name in names.split()} | {
        "label_counts", "label_names.bytes", "label_names.offsets"
    }  # fmt: skip


def put(name, value):
    return lambda tensors, header: tensors.__setitem__(name, value(tensors[name]))


def drop(name):
    return lambda tensors, header: tensors.pop(name)


def say(name, value):
    return lambda tensors, header: header.__setitem__(name, value)


@pytest.mark.parametrize(("change", "match"), [
    (drop("trees.base_score"), "base_score is missing"),
    (put("trees.base_score", lambda a: a[:1]), "base_score must have one entry"),
    (put("trees.base_score", lambda a: a * np.float32(np.nan)), "base_score has values that are not finite"),
    (put("trees.base_score", lambda a: a.astype(np.float64)), "'trees.base_score' must be F32"),
    (put("trees.leaf_values", lambda a: a[:-1]), "leaf_values must have"),
    (put("trees.leaf_values", lambda a: np.append(a, a[:1])), "leaf_values must have"),
    (put("trees.cover", lambda a: a[:-1]), "cover must have"),
    (put("trees.cover", lambda a: a.astype(np.float32)), "trees.cover"),
    (put("trees.sets", lambda a: a[:, :31].copy()), "sets must have 32 bytes"),
    (put("trees.sets", lambda a: a[:0]), "no such set"),
    (put("trees.sets", lambda a: a.ravel()), "trees.sets"),
    (put("trees.categorical", lambda a: a[:1]), "one entry per feature"),
    (put("trees.thresholds", lambda a: a + np.float32(0.5)), "no such set"),
    (drop("trees.categorical"), "'trees.categorical' is missing"),
    (drop("trees.sets"), "unknown tensor 'trees.categorical'"),
    (say("categories", []), "'categories' must be"),
    (say("categories", {"town": ["a"]}), "no such feature"),
    (say("categories", {"2": ["a"]}), "no such feature"),
    (say("categories", {"-1": ["a"]}), "no such feature"),
    (say("categories", {"0": "abcd"}), "must be a list of names"),
    (say("categories", {"0": [["a"]]}), "must be a list of names"),
    (say("categories", {"0": ["a", "a"]}), "at most 255 distinct names"),
    (say("categories", {"0": list(range(256))}), "at most 255 distinct names"),
    (say("feature_names", ["town"]), "'feature_names' must have 2 names, has 1"),
    (say("feature_names", "town"), "'feature_names' must be"),
    (say("feature_names", [1, 2]), "'feature_names' must be"),
    (say("n_labels", 3), "must have one entry"),
    (say("n_labels", 1), "must have one entry"),
    (say("n_features", 3), "must have|features"),
    (say("target_kind", "ranking"), "target_kind"),
    (say("method", "gbdt-sparse"), "unknown method 'gbdt-sparse'"),
])  # fmt: skip
def test_files_that_lie_are_refused(change, match, edited):
    with pytest.raises(ModelFileError, match=match):
        edited(change)


def test_what_a_file_need_not_have(edited, good):
    """Names and numbers of rows may be left out; importances per output then cannot be told."""

    def change(tensors, header):
        tensors.pop("trees.cover")
        header["feature_names"] = None

    est = edited(change)
    with pytest.raises(ValueError, match="number of training rows per node"):
        _ = est.output_importances_
    rows = good[1].to_numpy(object)
    np.testing.assert_allclose(est.predict(rows), good[2].predict(good[1]), atol=1e-4)


@pytest.mark.parametrize("leaf_labels", [None, 1])
@pytest.mark.parametrize("n_classes", [2, 5])
def test_classifiers_come_back_as_classifiers(leaf_labels, n_classes, tmp_path):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(100, 3))
    est = MultiGBDTClassifier(n_trees=3, min_samples_leaf=5, leaf_labels=leaf_labels)
    est.fit(X, np.arange(100) % n_classes + 10)
    est.save(tmp_path / "m.safetensors", compact=False)
    loaded = load(tmp_path / "m.safetensors")
    assert type(loaded) is MultiGBDTClassifier
    assert loaded.classes_.tolist() == est.classes_.tolist()
    np.testing.assert_array_equal(loaded.predict_proba(X), est.predict_proba(X))


def test_leaves_that_hold_nothing(tmp_path):
    X, Y = np.arange(50.0)[:, None], np.arange(100.0).reshape(50, 2)
    est = MultiGBDTRegressor(n_trees=2, advanced={"leaf_min_gain": 1e9}).fit(X, Y)
    assert len(est.model_.trees.leaf_values) == 0
    for compact in (False, True):
        est.save(tmp_path / "m.safetensors", compact=compact)
        np.testing.assert_array_equal(load(tmp_path / "m.safetensors").predict(X), est.predict(X))
