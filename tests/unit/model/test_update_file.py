"""What updates store in a model file: optional, and validated."""

from __future__ import annotations

import json

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from sparseleaf import ModelFileError, SketchForestClassifier, load
from sparseleaf.data import make_xc


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    X, Y = make_xc(200, 30, 10, labels_per_row=2, nnz_per_row=6)
    path = tmp_path_factory.mktemp("update") / "m.safetensors"
    clf = SketchForestClassifier(n_trees=2, rerank="bayes").fit(X[:150], Y[:150])
    clf.update(X[150:], Y[150:], forget=0.2).save(path)
    return path


def edit(path, target, change=None, change_header=None):
    tensors = {name: array.copy() for name, array in load_file(path).items()}
    with safe_open(path, framework="np") as opened:
        header = json.loads(opened.metadata()["sparseleaf"])
    if change is not None:
        change(tensors)
    if change_header is not None:
        change_header(header)
    save_file(tensors, target, {"sparseleaf": json.dumps(header)})
    return load(target)


def test_files_without_what_updates_need_load_and_predict_the_same(file, tmp_path):
    X, _ = make_xc(50, 30, 10, labels_per_row=2, nnz_per_row=6, seed=1)

    def drop(tensors):
        for name in ("routed.leaf_totals", "empty.prior", "bayes.feature_counts"):
            del tensors[name]

    older = edit(
        file, tmp_path / "m", drop, lambda header: [header.pop(key) for key in ("validation", "updates")]
    )
    assert np.array_equal(older.predict_topk(X)[1], load(file).predict_topk(X)[1])
    assert older.model_.updates == ()


@pytest.mark.parametrize(("name", "value", "match"), [
    ("routed.leaf_totals", lambda t: t[:-1], "leaf_totals must be"),
    ("routed.leaf_totals", lambda t: t * np.float32("nan"), "leaf_totals must be"),
    ("routed.leaf_totals", lambda t: -t, "leaf_totals must be"),
    ("routed.leaf_totals", lambda t: t.astype(np.float64), "must be U8 or U16 or U32 or F32"),
    ("empty.prior", lambda t: t[:1], "prior must be the number of empty rows and a divisor"),
    ("empty.prior", lambda t: -np.ones(2), "prior must be the number of empty rows and a divisor"),
    ("empty.prior", lambda t: np.full(2, np.inf), "not finite"),
    ("bayes.feature_counts", lambda t: t[:-1], "feature_counts must have one entry for each of 30 features"),
])  # fmt: skip
def test_tensors_that_lie(file, tmp_path, name, value, match):
    def change(tensors):
        tensors[name] = value(tensors[name])

    with pytest.raises(ModelFileError, match=match):
        edit(file, tmp_path / "m", change)


@pytest.mark.parametrize(("change", "match"), [
    (lambda h: h.update(updates=3), "'updates' must be a list"),
    (lambda h: h.update(updates=[3]), "'updates' must be an object"),
    (lambda h: h["updates"][0].pop("n_rows"), "'updates' must have valid values of n_rows"),
    (lambda h: h["updates"][0].update(n_before=-1), "'updates' must have valid values"),
    (lambda h: h["updates"][0].update(precision=[0.5]), "'updates' must have valid values"),
    (lambda h: h["updates"][0].update(precision=[2, 0, 0]), "'updates' must have valid values"),
    (lambda h: h["updates"][0].update(unknown_features="all"), "'updates' must have valid values"),
    (lambda h: h["updates"][0].update(metric=3), "a name as metric"),
    (lambda h: h["updates"][0].update(value="high"), "a name as metric"),
    (lambda h: h.update(target_columns=[]), "'target_columns' must be an object"),
    (lambda h: h.update(target_columns={"target": "y"}), "'target_columns' must have a list of names"),
    (lambda h: h.update(target_columns={"labels": 3}), "'target_columns' must have a string as 'labels'"),
    (lambda h: h.update(validation=[]), "'validation' must be an object"),
    (lambda h: h["validation"].update(n_evaluated=0.5), "'validation' must have valid values"),
])  # fmt: skip
def test_headers_that_lie(file, tmp_path, change, match):
    with pytest.raises(ModelFileError, match=match):
        edit(file, tmp_path / "m", change_header=change)
