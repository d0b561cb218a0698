"""Trees to tensors and back, and leaf values in 16 bits."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smalldata import make_set
from sparseleaf import SparseGBDTClassifier, load
from sparseleaf._steps import narrow
from sparseleaf.model.axis import decode_trees, encode_trees
from sparseleaf.model.source import StageSource
from sparseleaf.model.trees import with_float_values, with_short_values
from sparseleaf.training.tree import LeafVectors


def grow(**parameters):
    X, Y = make_set(300, 5, 12, seed=4, missing=0.1)
    return (
        SparseGBDTClassifier.from_settings({"n_trees": 4, "min_samples_leaf": 3, **parameters})
        .fit(X, Y)
        .model_.trees
    )


def decode(tensors, n_labels=12):
    names = {np.dtype(np.float32): "F32", np.dtype(np.float64): "F64", np.dtype(np.int16): "I16"}
    found = {
        name: (names.get(tensor.dtype, f"U{8 * tensor.itemsize}"), tensor) for name, tensor in tensors.items()
    }
    trees = decode_trees(StageSource(found, "", 5, n_labels, 5))
    assert not found, "every tensor is read"
    return trees


@pytest.mark.parametrize("parameters", [
    {}, {"growth": "best-first", "max_leaves": 9}, {"max_depth": 1}, {"min_samples_leaf": 200}, {"n_trees": 1},
    {"leaf_min_gain": 1e9}, {"max_bins": 255, "min_samples_leaf": 1, "max_depth": None},
])  # fmt: skip
def test_nothing_is_lost(parameters):
    trees = grow(**parameters)
    found = decode(encode_trees(trees, compact=True))
    for field in dataclasses.fields(trees):
        array, wanted = getattr(found, field.name), getattr(trees, field.name)
        assert array.dtype == wanted.dtype, field.name
        np.testing.assert_array_equal(array, wanted, field.name)


def test_short_values_are_within_a_step_and_never_lost():
    trees = with_float_values(grow(learning_rate=0.9))
    values = trees.leaf_values.copy()
    values[::7] *= np.float32(1e-6)  # far below a step
    trees = dataclasses.replace(trees, leaf_values=values)
    found = with_short_values(trees)
    assert found.leaf_values.dtype == np.int16
    assert len(found.value_scale) == 4
    first = 0
    for t in range(4):
        n_leaves = int((trees.feature[trees.tree_offsets[t] : trees.tree_offsets[t + 1]] < 0).sum())
        own = slice(trees.leaf_indptr[first], trees.leaf_indptr[first + n_leaves])
        first += n_leaves
        scale = found.value_scale[t]
        assert np.log2(scale) % 1 == 0
        assert scale / 2 < np.abs(values[own]).max() / np.float32(32767) <= scale
        decoded = found.leaf_values[own].astype(np.float64) * scale
        error = np.abs(decoded - values[own])
        assert (error <= np.where(np.abs(values[own]) < scale / 2, scale, 0.51 * scale)).all()
        np.testing.assert_array_equal(np.sign(decoded), np.sign(values[own]))
    assert first == len(trees.leaf_indptr) - 1
    again = with_short_values(with_float_values(found))
    np.testing.assert_array_equal(again.leaf_values, found.leaf_values)
    np.testing.assert_array_equal(again.value_scale, found.value_scale)


@given(st.lists(st.floats(-(2.0**127), 2.0**127, width=32), max_size=8))
def test_values_that_training_rounds_are_not_rounded_again(values):
    vectors = LeafVectors(np.array([0, len(values)]), np.arange(len(values)), np.array(values, np.float32))
    once = vectors.rounded()
    np.testing.assert_array_equal(once.rounded().values, once.values)
    np.testing.assert_array_equal(np.sign(once.values), np.sign(vectors.values))


def test_what_is_written_is_what_the_trees_hold():
    trees = grow()
    whole = decode(encode_trees(trees, compact=False))
    assert whole.leaf_values.dtype == np.float32
    np.testing.assert_array_equal(whole.leaf_values, with_float_values(trees).leaf_values)
    # float32 is not rounded on the way
    again = decode(encode_trees(whole, compact=True))
    np.testing.assert_array_equal(again.leaf_values, whole.leaf_values)


@pytest.mark.parametrize("learning_rate", [1e-30, 1e-40, 1e-45])
def test_tiny_values_can_be_saved(learning_rate, tmp_path):
    X, Y = make_set(100, 3, 4)
    clf = SparseGBDTClassifier(n_trees=2, learning_rate=learning_rate).fit(X, Y)
    clf.save(tmp_path / "m.safetensors")
    assert np.isfinite(load(tmp_path / "m.safetensors").decision_function(X).data).all()


@pytest.mark.parametrize(("most", "dtype"), [
    (0, np.uint8), (255, np.uint8), (256, np.uint16), (65_535, np.uint16), (65_536, np.uint32),
    (2**32 - 1, np.uint32), (2**32, np.uint64),
])  # fmt: skip
def test_numbers_take_as_few_bytes_as_they_need(most, dtype):
    found = narrow(np.array([0, most]))
    assert found.dtype == dtype
    assert found.tolist() == [0, most]
