"""Splitting nodes of the sketch forest, against a slow twin, by hand, and by what must always hold."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import naive_forest as naive
from sparseleaf import _kernels
from sparseleaf._arrays import csr_parts

DEFAULTS = {
    "feature_weights": np.empty(0, np.float32),
    "unit_rows": False,
    "arity": 2,
    "sketch_dim": 16,
    "rounds": 3,
    "sample_rows": 1000,
    "router_weights": 1000,
    "weights_per_row": 1e9,
    "max_features": 1.0,
    "min_samples_leaf": 1,
    "n_threads": 1,
}


def splitter(X, Y, label_weights=None, **changed):
    X, Y = sp.csr_matrix(X, dtype=np.float32), sp.csr_matrix(Y)
    weights = np.ones(Y.shape[1], np.float32) if label_weights is None else label_weights
    indptr, indices, data = csr_parts(X)
    settings = {**DEFAULTS, **changed}
    return _kernels.SketchSplitter(
        x_indptr=indptr,
        x_indices=indices,
        x_data=data,
        y_indptr=Y.indptr.astype(np.int64),
        y_indices=Y.indices.astype(np.int32),
        label_weights=weights,
        n_features=X.shape[1],
        **settings,
    )


def split(X, Y, rows=None, key=7, **changed):
    """A node's (split, features, weights, scale, bias, rows of the children)."""
    rows = np.arange(X.shape[0], dtype=np.int32) if rows is None else np.asarray(rows, np.int32)
    arity = changed.get("arity", 2)
    done, _, features, weights, scale, bias, order, counts = splitter(X, Y, **changed).split(
        rows, np.array([0, len(rows)]), np.array([key], np.uint64)
    )
    parts = np.split(order, np.cumsum(counts)[:-1]) if done[0] else [order]
    return bool(done[0]), features, weights.reshape(-1, arity - 1), scale[0], bias, parts


def random_rows(n=40, d=12, labels=9, seed=0):
    rng = np.random.default_rng(seed)
    X = np.rint(rng.normal(size=(n, d)) * 8) / 8 * (rng.random((n, d)) < 0.5)
    Y = (rng.random((n, labels)) < 0.25).astype(np.float32)
    return X.astype(np.float32), Y


@pytest.mark.parametrize("unit_rows", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("arity", [2, 3, 5])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("row_weights", [False, True])
def test_a_split_is_that_of_the_twin(arity, weighted, unit_rows, seed, row_weights):
    X, Y = random_rows(seed=seed)
    rng = np.random.default_rng(100 + seed)
    feature_weights = (rng.random(12) if weighted else np.empty(0)).astype(np.float32)
    label_weights = rng.random(9).astype(np.float32) if weighted else np.ones(9, np.float32)
    of_rows = rng.uniform(0.2, 4, len(X)).astype(np.float32) if row_weights else None
    most, max_features = (5, 1.0) if seed % 2 else (1000, 0.6)
    key = 1000 + seed
    done, features, weights, scale, bias, children = split(
        X,
        Y,
        key=key,
        arity=arity,
        label_weights=label_weights,
        feature_weights=feature_weights,
        unit_rows=unit_rows,
        router_weights=most,
        max_features=max_features,
        row_weights=of_rows,
    )
    sketches = np.stack([naive.sketch(np.flatnonzero(y), label_weights, key, 16) for y in Y])
    parts = naive.parts(sketches, arity, 3, key, of_rows)
    rows = naive.seen_rows(X, feature_weights, unit_rows)
    kept, whole, wanted_scale, wanted_bias = naive.router(
        rows, parts, arity, most, key, max_features, of_rows
    )
    goes = naive.children(rows, kept, whole, wanted_scale, wanted_bias)
    if not done:  # a child would be empty
        assert arity > 2
        assert len(np.unique(goes)) < arity
        return
    assert features.tolist() == kept.tolist()
    assert scale == pytest.approx(wanted_scale, rel=1e-5)
    assert np.abs(weights - whole).max() <= 1  # a weight half-way between two may be either
    assert (weights == whole).mean() > 0.9
    if np.bincount(goes, minlength=arity).min() == 0:
        return  # the median was taken
    assert bias == pytest.approx(wanted_bias, abs=0.02 * np.abs(wanted_bias).max() + 1e-5)
    same = sum(set(np.flatnonzero(goes == j)) == set(child.tolist()) for j, child in enumerate(children))
    assert same >= arity - 2


def test_by_hand():
    # two labels, each with a feature of its own: means (1, 0) and (0, 1), weights (1, -1) or (-1, 1), bias 0
    X = np.array([[1, 0], [0, 1], [1, 0], [0, 1]], np.float32)
    done, features, weights, scale, bias, children = split(X, X)
    assert done
    assert features.tolist() == [0, 1]
    assert sorted(weights.ravel().tolist()) == [-127, 127]
    assert scale == np.float32(1 / 127)
    assert bias[0] == 0
    assert sorted(child.tolist() for child in children) == [[0, 2], [1, 3]]


def test_rows_with_the_same_labels_are_not_parted():
    X = np.eye(6, dtype=np.float32)
    assert not split(X, np.ones((6, 2)))[0]
    assert not split(X, np.zeros((6, 2)))[0]


def test_rows_that_are_all_alike_are_not_parted():
    assert not split(np.ones((6, 2)), np.eye(6))[0]
    assert not split(np.zeros((6, 2)), np.eye(6))[0]


def test_values_that_no_float_can_add_up_are_left_alone():
    X = np.full((6, 2), 3e38, np.float32)
    X[::2] *= -1
    X[:3, 1] = 1
    done, features, *_ = split(X, np.eye(6))
    assert not done or features.tolist() == [1]
    done, *_ = split(X, np.eye(6), unit_rows=True)
    assert isinstance(done, bool)


def test_a_router_has_no_more_weights_than_asked_for():
    X, Y = random_rows(d=60)
    assert len(split(X, Y, router_weights=7)[1]) == 7
    assert len(split(X, Y, rows=range(9), weights_per_row=0.5)[1]) == 5


def test_large_nodes_are_parted_by_a_sample():
    rng = np.random.default_rng(0)
    label = rng.integers(0, 2, 5000)
    X = np.eye(2, dtype=np.float32)[label]
    done, *_, children = split(X, X, sample_rows=50)
    assert done
    assert {len(np.unique(label[child])) for child in children} == {1}


@given(st.integers(0, 2**63), st.integers(2, 6), st.integers(1, 4), st.integers(1, 60))
def test_children_part_the_rows(key, arity, least, n):
    X, Y = random_rows(n, seed=n)
    done, features, weights, _, bias, children = split(X, Y, key=key, arity=arity, min_samples_leaf=least)
    assert sorted(np.concatenate(children).tolist()) == list(range(n))
    if done:
        assert len(children) == arity
        assert min(map(len, children)) >= least
        assert np.all(np.diff(features) > 0)
        assert np.isfinite(bias).all()
        assert np.abs(weights.astype(int)).max() <= 127


def test_nodes_do_not_depend_on_each_other_or_on_threads():
    X, Y = random_rows(400)
    rng = np.random.default_rng(3)
    nodes = [np.sort(rng.permutation(400)[: rng.integers(4, 60)]).astype(np.int32) for _ in range(30)]
    keys = np.arange(30, dtype=np.uint64)
    offsets = np.cumsum([0, *map(len, nodes)])
    found = [
        splitter(X, Y, arity=3, n_threads=n).split(np.concatenate(nodes), offsets, keys) for n in (1, 2, 5)
    ]
    for other in found[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(found[0], other, strict=True))
    alone = [
        splitter(X, Y, arity=3).split(node, np.array([0, len(node)]), keys[i : i + 1])
        for i, node in enumerate(nodes)
    ]
    for part, together in enumerate(found[0]):
        assert np.array_equal(np.concatenate([node[part] for node in alone]), together)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"arity": 1}, "arity"),
        ({"arity": 17}, "arity"),
        ({"sketch_dim": 0}, "sketch_dim"),
        ({"max_features": 0.0}, "max_features"),
        ({"weights_per_row": 0.0}, "weights_per_row"),
        ({"min_samples_leaf": 0}, "min_samples_leaf"),
        ({"feature_weights": np.ones(3, np.float32)}, "feature_weights"),
        ({"label_weights": np.ones(2, np.float32)}, "y_indices"),
    ],
)
def test_what_it_refuses(changed, message):
    X, Y = random_rows()
    with pytest.raises(ValueError, match=message):
        splitter(X, Y, **changed)


def test_rows_that_are_not_there_are_refused():
    X, Y = random_rows()
    for rows in ([40], [-1]):
        with pytest.raises(ValueError, match="rows"):
            split(X, Y, rows=rows)
