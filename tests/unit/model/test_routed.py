"""Routed trees and re-ranking in the model file: what goes in comes out, and damage is refused with a sentence."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.sparse as sp
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from smalldata import make_set
from sparseleaf import (
    LdSMClassifier,
    ModelFileError,
    SketchForestClassifier,
    SparseGBDTClassifier,
    _kernels,
    load,
)
from sparseleaf._arrays import csr_parts
from sparseleaf._steps import decode_steps, encode_steps, narrow, quantise, restored, split_leaps
from sparseleaf._vectors import PackedLists, PackedVectors, quantise_vectors


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    path = tmp_path_factory.mktemp("good") / "model.safetensors"
    X, Y = make_set(150, 6, 8, seed=1)
    LdSMClassifier(n_trees=3, max_nodes=15, rerank="log", advanced={"rerank_weight": 0.5}).fit(X, Y).save(
        path
    )
    with safe_open(path, framework="np") as file:
        header = json.loads(file.metadata()["sparseleaf"])
    return load_file(path), header


@pytest.fixture
def edited(good, tmp_path):
    def write(change):
        tensors = {name: array.copy() for name, array in good[0].items()}
        header = json.loads(json.dumps(good[1]))
        change(tensors, header)
        save_file(tensors, tmp_path / "edited.safetensors", {"sparseleaf": json.dumps(header)})
        return load(tmp_path / "edited.safetensors")

    return write


def test_an_untouched_file_loads(edited):
    assert edited(lambda tensors, header: None).model_.n_trees == 3


def put(name, at, value):
    def change(tensors, header):
        tensors[name].reshape(-1)[at] = value

    return change


def drop(name):
    return lambda tensors, header: tensors.pop(name)


def cut(name):
    def change(tensors, header):
        tensors[name] = np.ascontiguousarray(tensors[name][:-1])

    return change


def wide(name, value):
    def change(tensors, header):
        tensors[name] = tensors[name].astype(np.uint32)
        tensors[name][0] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        *(drop(f"routed.{n}") for n in ("n_nodes", "inner", "router_sizes", "router_scale", "threshold")),
        *(drop(f"log.{n}") for n in ("settings", "sizes", "value_scale")),
        *(cut(f"routed.{n}") for n in ("n_nodes", "inner", "router_sizes", "router_steps", "router_weights")),
        *(
            cut(f"routed.{n}")
            for n in ("router_bias", "router_scale", "leaf_sizes", "leaf_labels", "leaf_values")
        ),
        *(cut(f"log.{n}") for n in ("squared_norms", "sizes", "steps", "values", "value_scale", "settings")),
        put("routed.inner", 0, 0),
        put("routed.inner", 0, 255),
        put("routed.n_nodes", 0, 2),
        put("routed.router_sizes", 0, 200),
        put("routed.router_steps", 0, 6),
        put("routed.router_steps", 1, 0),
        wide("routed.router_steps", 2**32 - 1),
        wide("routed.n_nodes", 2**32 - 1),
        wide("log.sizes", 2**32 - 1),
        wide("log.steps", 2**32 - 1),
        put("routed.router_bias", 0, np.nan),
        put("routed.router_scale", 0, np.inf),
        put("routed.threshold", 0, np.nan),
        put("routed.leaf_labels", 0, 8),
        put("routed.leaf_values", 0, np.inf),
        put("log.settings", 0, 1.5),
        put("log.settings", 0, np.nan),
        put("log.settings", 1, np.inf),
        put("log.squared_norms", 0, -1),
        put("log.value_scale", 0, np.nan),
        lambda tensors, header: header.update(method="gbdt-sparse", parameters={}),
        lambda tensors, header: header.update(n_features=3),
        lambda tensors, header: header.update(n_labels=3),
        lambda tensors, header: tensors.update({"routed.more": np.zeros(1, np.uint8)}),
        lambda tensors, header: tensors.update({"trees.n_nodes": np.zeros(1, np.uint8)}),
        lambda tensors, header: header["parameters"].update(arity=1),
    ],
)
def test_damage_is_refused(edited, change):
    with pytest.raises(ModelFileError):
        edited(change)


@pytest.fixture(scope="module")
def good_forest(tmp_path_factory):
    path = tmp_path_factory.mktemp("good") / "forest.safetensors"
    X, Y = make_set(150, 6, 8, seed=1)
    SketchForestClassifier(n_trees=3).fit(X, Y).save(path)
    with safe_open(path, framework="np") as file:
        header = json.loads(file.metadata()["sparseleaf"])
    return load_file(path), header


@pytest.mark.parametrize(
    "change",
    [
        *(drop(f"routed.{n}") for n in ("router_scale", "feature_weights", "unit_rows")),
        *(cut(f"routed.{n}") for n in ("router_scale", "router_weights", "router_bias", "unit_rows")),
        put("routed.unit_rows", 0, 2),
        put("routed.router_scale", 0, np.inf),
        put("routed.router_bias", 0, np.nan),
        put("routed.feature_weights", 0, np.nan),
        lambda tensors, header: header.update(n_features=3),
        lambda tensors, header: header.update(method="gbdt-sparse", parameters={}),
        lambda tensors, header: header["parameters"].update(sketch_dim=0),
    ],
)
def test_damage_of_a_forest_is_refused(good_forest, change, tmp_path):
    tensors = {name: array.copy() for name, array in good_forest[0].items()}
    header = json.loads(json.dumps(good_forest[1]))
    path = tmp_path / "edited.safetensors"
    save_file(tensors, path, {"sparseleaf": json.dumps(header)})
    assert load(path).model_.n_trees == 3
    change(tensors, header)
    save_file(tensors, path, {"sparseleaf": json.dumps(header)})
    with pytest.raises(ModelFileError):
        load(path)


def test_trees_of_another_kind_are_refused(tmp_path):
    X, Y = make_set(80, 4, 6)
    path = tmp_path / "m.safetensors"
    SparseGBDTClassifier(n_trees=2).fit(X, Y).save(path)
    with safe_open(path, framework="np") as file:
        header = json.loads(file.metadata()["sparseleaf"])
    header.update(method="ldsm", parameters={})
    save_file(load_file(path), path, {"sparseleaf": json.dumps(header)})
    with pytest.raises(ModelFileError, match="requires a model with a 'routed' stage"):
        load(path)


@pytest.mark.parametrize("block", [1, 2, 4, 100])
def test_steps_come_back(monkeypatch, block):
    monkeypatch.setattr("sparseleaf._steps.BLOCK_ENTRIES", block)
    indices = np.array([4, 7, 70_000, 0, 3, 3_000_000], np.int32)
    indptr = np.array([0, 0, 3, 3, 5, 6, 6])
    sizes, steps = encode_steps(indices, indptr)
    assert steps.tolist() == [4, 3, 69_993, 0, 3, 3_000_000]
    assert sizes.tolist() == np.diff(indptr).tolist()
    assert np.array_equal(decode_steps(indptr, steps), indices)
    small, leaps = split_leaps(steps)
    assert np.array_equal(decode_steps(indptr, small, leaps), indices)
    assert PackedLists(indptr, steps, 3_000_001).kernel is not None
    with pytest.raises(ValueError, match="does not exist"):
        _ = PackedLists(indptr, steps, 3_000_000).kernel


@pytest.mark.parametrize("steps", [[], [3, 65_535], [65_536, 1, 70_000, 3_000_000_000], [5]])
def test_leaps_come_back(steps):
    steps = narrow(np.array(steps, np.int64))
    small, leaps = split_leaps(steps)
    assert small.dtype.itemsize <= 2
    indptr = np.arange(len(steps) + 1)
    if not len(steps) or steps.max() < 2**31:
        assert np.array_equal(decode_steps(indptr, small, leaps), steps)
        assert PackedLists(indptr, small, 2**31, leaps).kernel is not None
    else:
        with pytest.raises(ValueError, match="does not exist"):
            _ = PackedLists(indptr, small, 2**31, leaps).kernel
    for bad in ([[len(steps), 1]], [[0, 1], [0, 1]]):
        with pytest.raises(ValueError, match="leaps"):
            _ = PackedLists(indptr, small, 2**31, np.array(bad, np.uint32)).kernel


@pytest.mark.parametrize("width", [200, 40_000, 9_000_000])
def test_packed_vectors_are_what_they_were_and_multiply_as_they_are(width):
    rng = np.random.default_rng(width)
    matrix = sp.random(40, width, min(0.3, 300 / width), "csr", np.float32, random_state=rng)
    matrix.data -= np.float32(0.5)
    packed = PackedVectors.of(matrix)
    assert packed.steps.itemsize < 4
    assert (len(packed.leaps) > 0) == (width > 10**6)
    assert packed.values.dtype == np.int8
    found = packed.unpacked()
    assert np.array_equal(found.indices, matrix.indices)
    assert np.array_equal(found.indptr, matrix.indptr)
    assert found.data == pytest.approx(matrix.data, abs=0.5 / 127)
    row = sp.random(1, width, min(0.3, 300 / width), "csr", np.float32, random_state=rng)
    whole = PackedVectors(packed.indptr, packed.steps, width, packed.leaps, packed.whole_values)
    out = np.empty((2, 40), np.float32)
    for vectors, products in zip((packed, whole), out, strict=True):
        _kernels.LabelVectors(vectors.kernel).products(
            *csr_parts(row), np.array([0, 40]), np.arange(40, dtype=np.int32), products, 1
        )
    assert np.array_equal(out[0], out[1])
    assert out[0] == pytest.approx((found @ row.T).toarray().ravel(), abs=1e-4)


@pytest.mark.parametrize("block", [1, 7, 1000])
def test_integers_are_near_what_they_stand_for(monkeypatch, block):
    monkeypatch.setattr("sparseleaf._steps.BLOCK_ENTRIES", block)
    rng = np.random.default_rng(0)
    values = rng.normal(size=(50, 3)).astype(np.float32) * 1e-3
    values[45:] = 0
    sizes = np.array([0, 20, 0, 25, 5, 0])
    indptr = np.cumsum([0, *sizes])
    integers, scale = quantise(values, indptr, 2**15 - 1)
    assert scale[[0, 2, 4, 5]].tolist() == [1, 1, 1, 1]
    assert integers.dtype == np.int16
    assert restored(integers, scale, sizes) == pytest.approx(values, abs=2e-7)
    flat, scale = quantise_vectors(values[:, 0], indptr)
    assert flat.dtype == np.int8
    assert restored(flat, scale, sizes) == pytest.approx(values[:, 0], abs=2e-5)
