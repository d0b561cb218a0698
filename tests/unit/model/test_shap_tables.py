"""Shapley values of some outputs of every row, which walk the trees, against those of all outputs."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from randommodels import random_model, random_rows
from sparseleaf import SparseGBDTClassifier, _kernels
from sparseleaf.data import make_xc
from sparseleaf.model.explain import shap_values
from sparseleaf.model.shap_tables import ShapTables


def of_pairs(tables, X, starts, labels, n_threads=1):
    out = np.zeros((len(labels), len(tables.columns)))
    used = np.ascontiguousarray(X[:, tables.columns], np.float32)
    tables.trees.pairs(used, np.asarray(starts, np.int64), np.asarray(labels, np.int32), out, n_threads)
    return out


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.booleans(),
    st.booleans(),
    st.sampled_from([(1, 3), (3, 9), (8, 40), (60, 80)]),
)
def test_are_those_of_all_outputs(seed, dense, categories, size):
    n_features, most_leaves = size  # few features: paths split on the same one again
    model = random_model(seed, 3, n_features, most_leaves=most_leaves, dense=dense, categories=categories)
    X = random_rows(seed, 6, model)
    values, expected = shap_values(model, X, None, 1)
    tables = ShapTables.of(model.trees, model.n_labels)
    rng = np.random.default_rng(seed)
    starts = np.concatenate(([0], np.cumsum(rng.integers(0, 20, 6))))  # none, and more than fit one vector
    labels = rng.integers(0, model.n_labels, starts[-1])
    row = np.repeat(np.arange(6), np.diff(starts))
    wanted = values[row, :, labels][:, tables.columns]
    within = 1e-9 * max(1.0, np.abs(wanted).max(initial=0))
    np.testing.assert_allclose(of_pairs(tables, X, starts, labels), wanted, atol=within, rtol=0)
    base = 0.0 if model.base_score is None else model.base_score
    np.testing.assert_allclose(tables.expected + base, expected, atol=1e-12, rtol=1e-12)


def test_do_not_depend_on_threads_or_other_pairs():
    model = random_model(3, 5, 10, most_leaves=50, dense=False)
    X = random_rows(3, 40, model)
    tables = ShapTables.of(model.trees, model.n_labels)
    starts, labels = np.arange(41) * 2, np.tile([0, 2], 40)
    together = of_pairs(tables, X, starts, labels)
    np.testing.assert_array_equal(of_pairs(tables, X, starts, labels, n_threads=3), together)
    for row in (0, 17, 39):
        np.testing.assert_array_equal(
            of_pairs(tables, X[row : row + 1], [0, 1], [2])[0], together[2 * row + 1]
        )


def test_tables_are_made_once_and_stay_out_of_pickles():
    X, Y = make_xc(n_rows=200, n_features=50, n_labels=20)[:2]
    clf = SparseGBDTClassifier(n_trees=3).fit(X, Y)
    before = len(pickle.dumps(clf.model_.scorer))
    clf.explain(X[:2])
    tables = vars(clf.model_.scorer)["shap_tables"]
    clf.explain(X[:2])
    assert vars(clf.model_.scorer)["shap_tables"] is tables
    assert len(pickle.dumps(clf.model_.scorer)) == before


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("cover", lambda a: a * 0, "every node must have had a row"),
        ("child", lambda a: np.where(a == 1, 0, a).astype(np.int32), "child"),
        ("feature", lambda a: np.where(a == 0, 99, a).astype(np.int32), "column that does not exist"),
        ("categorical", lambda a: np.ones(3, np.uint8), "categorical"),
        ("tree_offsets", lambda a: a[:-1], "tree_offsets"),
        ("starts", lambda a: a[:-1], "indptr|starts"),
        ("starts", lambda a: a[:0], "one for every leaf and label"),
        ("leaf", lambda a: a[::-1].copy(), "must increase"),
        ("leaf", lambda a: a + np.int32(99), "must increase"),
        ("leaf", lambda a: a[:-1], "one for every value"),
    ],
)
def test_kernel_refuses_what_does_not_fit(name, change, message):
    trees = random_model(5, 2, 4, most_leaves=5, dense=False).trees
    arguments = {
        field: getattr(trees, field)
        for field in (
            "tree_offsets", "feature", "threshold", "missing_left", "child", "cover", "categorical", "sets",
        )
    }  # fmt: skip
    n_leaves = len(trees.leaf_indptr) - 1
    arguments |= {
        "n_features": 4,
        "starts": np.array([0, n_leaves, n_leaves + 1]),
        "leaf": np.append(np.arange(n_leaves), 0).astype(np.int32),
        "values": np.ones(n_leaves + 1, np.float32),
        "n_labels": 2,
    }
    prepared = _kernels.ShapTrees(**arguments)
    arguments[name] = change(arguments[name])
    with pytest.raises(ValueError, match=message):
        _kernels.ShapTrees(**arguments)
    for columns, labels in ((3, [0]), (4, [2]), (4, [-1])):
        X, out = np.zeros((1, columns), np.float32), np.zeros((1, columns))
        with pytest.raises(ValueError, match=r"n_features columns|no such output"):
            prepared.pairs(X, np.array([0, 1]), np.array(labels, np.int32), out, 1)
