"""Files with learned re-ranking and blends from strangers: refused with a sentence, never walked."""

import json

import numpy as np
import pytest
import scipy.sparse as sp
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from sparseleaf import BlendClassifier, LdSMClassifier, ModelFileError, SparseGBDTClassifier, load


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("files")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 5)).astype(np.float32)
    Y = sp.csr_matrix(X @ rng.normal(size=(5, 6)) > 1)
    trees = LdSMClassifier(n_trees=2, max_nodes=8)
    LdSMClassifier(n_trees=2, max_nodes=8, rerank="linear").fit(X, Y).save(path / "linear")
    LdSMClassifier(n_trees=2, max_nodes=8, rerank="boosted").fit(X, Y).save(path / "boosted")
    LdSMClassifier(n_trees=2, max_nodes=8, rerank="bayes").fit(np.maximum(X, 0), Y).save(path / "bayes")
    BlendClassifier([trees, SparseGBDTClassifier(n_trees=2)], weights=[1, 3]).fit(X, Y).save(path / "blend")
    return path


def edit(path, target, change=None, change_header=None):
    tensors = {name: array.copy() for name, array in load_file(path).items()}
    with safe_open(path, framework="np") as file:
        header = json.loads(file.metadata()["sparseleaf"])
    if change is not None:
        change(tensors)
    if change_header is not None:
        change_header(header)
    save_file(tensors, target, {"sparseleaf": json.dumps(header)})
    return load(target)


def put(name, value):
    def change(tensors):
        assert name in tensors
        tensors[name] = value(tensors[name])

    return change


def first(number):
    def value(tensor):
        tensor.flat[0] = number
        return tensor

    return value


def wide(number):
    return lambda tensor: first(number)(tensor.astype(np.uint32))


@pytest.mark.parametrize(("name", "tensor", "value", "match"), [
    ("linear", "linear.shares", lambda t: t[:3], "shares must be 4 numbers"),
    ("linear", "linear.shares", first(np.nan), "shares must be 4 numbers"),
    ("linear", "linear.shares", first(-1), "shares must be 4 numbers"),
    ("linear", "linear.label_counts", lambda t: t[:5], "label_counts must have"),
    ("linear", "linear.places", first(0), "places must be a single number from 1 to 1000"),
    ("linear", "linear.places", first(1001), "places must be a single number"),
    ("linear", "linear.neighbours.query_features", lambda t: t[:0], "query_features must be a single number"),
    ("linear", "linear.models.bias", first(np.inf), "bias has values that are not finite"),
    ("linear", "linear.models.sizes", lambda t: t[:5], "models.sizes: expected 6 entries, got 5"),
    ("linear", "linear.models.steps", wide(2**31), "an index that does not exist"),
    ("linear", "linear.models.values", lambda t: t[1:], "models.values: expected"),
    ("linear", "linear.models.value_scale", first(np.nan), "finite"),
    ("linear", "linear.neighbours.sizes", lambda t: t[:4], "neighbours.sizes: expected 5 entries, got 4"),
    ("linear", "linear.neighbours.steps", wide(90), "an index that does not exist"),
    ("linear", "linear.neighbours.value_scale", first(np.inf), "finite"),
    ("linear", "linear.neighbours.label_sizes", lambda t: t[:-1], "sizes must add up|does not exist|found"),
    ("linear", "linear.neighbours.label_steps", wide(6), "an index that does not exist"),
    ("bayes", "bayes.settings", lambda t: t[:4], "settings must be five finite numbers"),
    ("bayes", "bayes.settings", first(np.nan), "settings must be five finite numbers"),
    ("bayes", "bayes.settings", first(1.5), "settings must be a weight in"),
    ("bayes", "bayes.settings", lambda t: t * [1, 1, 1, -1, 1], "bayes.settings"),
    ("bayes", "bayes.settings", lambda t: t * np.array([1, 1, 1, -1, 1], np.float32), "a slope and an offset"),
    ("bayes", "bayes.absent", lambda t: t[:5], "absent and log_shares must have"),
    ("bayes", "bayes.absent", first(np.inf), "bias must be finite"),
    ("bayes", "bayes.log_shares", lambda t: t[:5], "absent and log_shares must have"),
    ("bayes", "bayes.steps", wide(2**31), "an index that does not exist"),
    ("bayes", "bayes.values", lambda t: -t, "non-negative and finite"),
    ("bayes", "bayes.value_scale", first(np.nan), "finite"),
    ("boosted", "boosted.booster.base_score", lambda t: np.zeros(2, np.float32), "base_score must have one entry"),
    ("boosted", "boosted.booster.base_score", first(np.nan), "base_score has values that are not finite"),
    ("boosted", "boosted.booster.feature", wide(99), "boosted: feature"),
    ("boosted", "boosted.booster.feature_gain", first(np.inf), "feature_gain has values"),
    ("boosted", "boosted.booster.feature_gain", lambda t: t[1:], "feature_gain must have 11 entries, has 10"),
    ("boosted", "boosted.booster.n_nodes", first(4), "n_nodes must be odd"),
    ("blend", "blend.weights", first(-1), "weights must be non-negative"),
    ("blend", "blend.weights", first(np.nan), "weights must be non-negative"),
    ("blend", "blend.weights", lambda t: t[:1], "'members' must be a list of 1"),
    ("blend", "blend.0.label_counts", lambda t: t[:2], "member 1: label_counts must have one entry"),
    ("blend", "blend.1.trees.feature", wide(99), "member 2"),
])  # fmt: skip
def test_tensors_that_lie(folder, tmp_path, name, tensor, value, match):
    with pytest.raises(ModelFileError, match=match):
        edit(folder / name, tmp_path / "m", put(tensor, value))


@pytest.mark.parametrize("name", ["linear", "boosted", "blend"])
def test_no_tensor_may_be_missing_or_too_many(folder, tmp_path, name):
    optional = {"linear.neighbours.sizes", "boosted.neighbours.sizes"}
    former = ("places", "query_features")  # not in files of earlier versions
    for tensor in load_file(folder / name):
        if (
            tensor.endswith(("cover", "leaf_sizes", "leaf_totals", "prior", "feature_counts", *former))
            or tensor in optional
        ):
            continue
        with pytest.raises(ModelFileError):
            edit(folder / name, tmp_path / "m", lambda t, gone=tensor: t.pop(gone))
    with pytest.raises(ModelFileError, match="unknown tensor"):
        edit(folder / name, tmp_path / "m", lambda t: t.update(more=np.zeros(1, np.float32)))


@pytest.mark.parametrize(("change", "match"), [
    (lambda h: h["stages"][0].update(members=3), "'members' must be a list of 2 headers"),
    (lambda h: h["stages"][0].update(members=[]), "'members' must be a list of 2 headers"),
    (lambda h: h["stages"][0].update(members=[1, 2]), "member 1: its header is not a JSON object"),
    (lambda h: h["stages"][0]["members"][1].update(n_labels=7), "member 2: n_labels must be 6, as in the blend, is 7"),
    (lambda h: h["stages"][0]["members"][1].pop("method"), "member 2: metadata 'method'"),
    (lambda h: h["stages"][0]["members"][1].update(method="blend"), "member 2: |unknown method"),
    (lambda h: h["stages"][0]["members"][0].update(method="gbdt-sparse"), "requires a model with a"),
    (lambda h: h["stages"][0]["members"][0].update(method="rank"), "unknown method 'rank'"),
    (lambda h: h["stages"][0]["members"][0]["parameters"].update(n_trees=-1), "must be an int >= 1. Got -1 instead"),
    (lambda h: h.update(method="ldsm"), "requires a model with a"),
    (lambda h: h["stages"][0]["members"][0].update(stages=[{"kind": "blend"}]), "member 1: it is a blend itself"),
    (lambda h: h["stages"][0]["members"][0].update(stages=[]), "member 1: stages must have exactly one scorer"),
    (lambda h: h["stages"][0]["members"][1].update(target_kind="regression"), "member 2: target_kind must be"),
    (lambda h: h["parameters"].update(weights="odd"), "must be 'auto', a sequence or None. Got 'odd'"),
    (lambda h: h["stages"][0].pop("members"), "'members' must be a list of 2 headers"),
])  # fmt: skip
def test_blend_headers_that_lie(folder, tmp_path, change, match):
    with pytest.raises(ModelFileError, match=match):
        edit(folder / "blend", tmp_path / "m", change_header=change)


def test_what_was_not_changed_is_read(folder, tmp_path):
    X = np.random.default_rng(1).normal(size=(9, 5)).astype(np.float32)
    for name in ("linear", "boosted", "blend"):
        found = edit(folder / name, tmp_path / "m").predict_topk(X, 3)
        assert all(
            np.array_equal(a, b) for a, b in zip(found, load(folder / name).predict_topk(X, 3), strict=True)
        )


def test_wide_steps_are_stored_in_16_bits_and_leaps(tmp_path):
    rng = np.random.default_rng(0)
    rows = np.zeros((200, 90_000), np.float32)
    rows[:, :12] = rng.random((200, 12)) < 0.4
    rows[:, -1] = rng.random(200) < 0.5
    X, Y = sp.csr_matrix(rows), sp.csr_matrix(np.eye(5, dtype=np.float32)[rng.integers(0, 5, 200)])
    clf = LdSMClassifier(n_trees=2, max_nodes=8, rerank="linear").fit(X, Y)
    clf.save(tmp_path / "m", compact=False)
    tensors = load_file(tmp_path / "m")
    assert tensors["linear.models.steps"].dtype == np.uint16
    assert len(tensors["linear.models.leaps"]) > 0
    for a, b in zip(load(tmp_path / "m").predict_topk(X, 3), clf.predict_topk(X, 3), strict=True):
        np.testing.assert_array_equal(a, b)
    for value in (wide(2**31), lambda t: t + np.uint32(9), lambda t: t[:, :1].copy()):
        with pytest.raises(ModelFileError, match=r"does not exist|a position and a number"):
            edit(tmp_path / "m", tmp_path / "other", put("linear.models.leaps", value))
