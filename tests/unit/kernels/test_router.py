"""Prediction with routed trees against a walk in plain Python; arrays that no walk should see are refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import naive_forest
import naive_ldsm as naive
from sparseleaf import _kernels
from sparseleaf._arrays import csr_parts
from sparseleaf._steps import narrow
from sparseleaf.model.routed import BEST_ONLY, RoutedScorer, RoutedTrees
from sparseleaf.model.stage import Rows

N_FEATURES, N_LABELS = 30, 9


def random_trees(
    arity=2, n_trees=3, n_inner=6, threshold=0.5, seed=0, n_features=N_FEATURES, n_labels=N_LABELS
):
    """Trees of random shape and numbers."""
    rng = np.random.default_rng(seed)
    inner = []
    for _ in range(n_trees):
        shape, left = [], n_inner
        while len(shape) < n_inner * arity + 1:
            room = sum(shape) * arity + 1 - len(shape)  # nodes that have a parent and no place yet
            last = left > 0 and room == 1
            chosen = left > 0 and (last or rng.random() < 0.6)
            shape.append(chosen)
            left -= chosen
        inner.append(np.array(shape))
    routers, leaves = n_trees * n_inner, n_trees * (n_inner * (arity - 1) + 1)
    features = [np.sort(rng.permutation(n_features)[: rng.integers(0, 12)]) for _ in range(routers)]
    labels = [np.sort(rng.permutation(n_labels)[: rng.integers(0, 5)]) for _ in range(leaves)]
    n_entries, n_values = sum(map(len, features)), sum(map(len, labels))
    return RoutedTrees.from_shape(
        n_nodes=np.array([len(shape) for shape in inner]),
        inner=np.concatenate(inner),
        router_sizes=np.array([len(f) for f in features]),
        router_steps=steps_of(features),
        router_weights=rng.normal(size=(n_entries, arity)).astype(np.float32),
        router_bias=rng.normal(size=(routers, arity)).astype(np.float32),
        threshold=threshold,
        leaf_sizes=np.array([len(x) for x in labels]),
        leaf_labels=np.concatenate(labels).astype(np.uint16),
        leaf_values=rng.random(n_values).astype(np.float32),
    )


def steps_of(lists):
    return narrow(np.concatenate([np.diff(features, prepend=0) for features in lists]))


def model_of(trees, n_features=N_FEATURES, n_labels=N_LABELS):
    return RoutedScorer(trees, n_features, n_labels)


def scores_of(scorer, X, n_trees, n_jobs):
    return scorer.apply(Rows(X, n_trees, n_jobs)).sparse()


def random_rows(n=50, seed=1, density=0.3):
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(n, N_FEATURES)) * (rng.random((n, N_FEATURES)) < density)).astype(np.float32)


def small_trees(arity=2, feature_weights=None, unit_rows=False, **shape):
    """Random trees with routers in 8 bits."""
    rng = np.random.default_rng(5)
    trees = random_trees(arity, threshold=BEST_ONLY, **shape)
    return replace(
        trees,
        router_weights=rng.integers(-127, 128, (len(trees.router_steps), arity - 1)).astype(np.int8),
        router_bias=np.ascontiguousarray(trees.router_bias[:, 1:]) / 8,
        router_scale=rng.random(len(trees.router_bias)).astype(np.float32) / 127,
        feature_weights=np.empty(0, np.float32) if feature_weights is None else feature_weights,
        unit_rows=unit_rows,
    )


@pytest.mark.parametrize("unit_rows", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("arity", [2, 3, 5])
def test_routers_in_8_bits_walk_as_a_plain_walk(arity, weighted, unit_rows):
    weights = np.random.default_rng(6).random(N_FEATURES).astype(np.float32) if weighted else None
    trees = small_trees(arity, weights, unit_rows)
    X = random_rows(150)
    found = scores_of(model_of(trees), sp.csr_matrix(X), None, 1)
    seen = naive_forest.seen_rows(X, trees.feature_weights, unit_rows)
    wanted = np.stack([naive.routed_scores(trees, x, N_LABELS) for x in seen])
    assert found.toarray() == pytest.approx(wanted, abs=1e-6)
    for n_jobs in (2, 3):
        assert (found != scores_of(model_of(trees), sp.csr_matrix(X), None, n_jobs)).nnz == 0
    first = scores_of(model_of(trees), sp.csr_matrix(X), 1, 1).toarray()
    assert not np.array_equal(first, found.toarray())


@pytest.mark.parametrize("arity", [2, 4, 5])
def test_routers_of_few_of_many_features_walk_as_a_plain_walk(arity):
    # 30 features are told by bits; of 3,000, the few of a router are gone through
    trees = small_trees(arity, n_trees=20, n_features=3000)
    used = np.unique(trees.router_features)
    rng = np.random.default_rng(2)
    X = np.zeros((40, 3000), np.float32)
    X[:, used] = rng.normal(size=(40, len(used))) * (rng.random((40, len(used))) < 0.5)
    found = scores_of(model_of(trees, 3000), sp.csr_matrix(X), None, 1).toarray()
    wanted = np.stack([naive.routed_scores(trees, x, N_LABELS) for x in X])
    assert found == pytest.approx(wanted, abs=1e-6)
    assert len(np.unique(found, axis=0)) > 10


@pytest.mark.parametrize("arity", [2, 3])
@pytest.mark.parametrize("n_rows", [1, 300])
def test_numbers_in_16_bits_count_as_the_same_numbers_in_32(arity, n_rows):
    rng = np.random.default_rng(7)
    trees = random_trees(arity)
    short = replace(
        trees,
        router_weights=rng.integers(-9000, 9000, trees.router_weights.shape).astype(np.int16),
        router_scale=rng.random(len(trees.router_bias)).astype(np.float32) / 9000,
        leaf_values=np.append(rng.random(len(trees.leaf_values) - 2), [6e-8, 3e-5]).astype(np.float16),
    )
    whole = replace(
        trees, router_weights=short.whole_weights, leaf_values=short.leaf_values.astype(np.float32)
    )
    X = sp.csr_matrix(random_rows(n_rows))
    found = scores_of(model_of(short), X, None, 1)
    wanted = scores_of(model_of(whole), X, None, 1)
    assert found.nnz > 0
    assert np.array_equal(found.toarray(), wanted.toarray())


def test_routers_in_8_bits_take_all_rows():
    model = model_of(small_trees(unit_rows=True))
    for X in (np.full((3, N_FEATURES), 3e38), np.zeros((2, N_FEATURES)), np.full((1, N_FEATURES), 1e-38)):
        leaves = model.leaves(Rows(X.astype(np.float32), None, 1))
        assert np.diff(leaves.indptr).tolist() == [3] * len(X)


@pytest.mark.parametrize(
    "changed",
    [
        {"router_scale": np.empty(0, np.float32)},
        {"router_scale": np.full(18, np.nan, np.float32)},
        {"feature_weights": np.ones(3, np.float32)},
        {"feature_weights": np.full(N_FEATURES, np.inf, np.float32)},
        {"router_bias": np.zeros((18, 2), np.float32)},
        {"router_weights": np.zeros((3, 1), np.int8)},
    ],
)
def test_8_bits_that_no_walk_should_see_are_refused(changed):
    with pytest.raises(ValueError, match=r"must|bias|router_scale|feature_weights|weights"):
        _ = model_of(replace(small_trees(), **changed)).predictor


def test_only_routers_in_8_bits_have_weighted_features():
    for changed in ({"unit_rows": True}, {"feature_weights": np.ones(N_FEATURES, np.float32)}):
        with pytest.raises(ValueError, match="8 bits only"):
            _ = model_of(replace(random_trees(), **changed)).predictor


@pytest.mark.parametrize("threshold", [0.5, BEST_ONLY, -1.0])
@pytest.mark.parametrize("arity", [2, 3, 5])
def test_scores_are_those_of_a_plain_walk(arity, threshold):
    trees = random_trees(arity, threshold=threshold)
    X = random_rows()
    found = scores_of(model_of(trees), sp.csr_matrix(X), None, 1).toarray()
    wanted = np.stack([naive.routed_scores(trees, x, N_LABELS) for x in X])
    assert found == pytest.approx(wanted, abs=1e-6)


def test_margins_do_not_depend_on_how_rows_come():
    model = model_of(random_trees(n_inner=20))
    X = sp.csr_matrix(random_rows(3000))
    together = scores_of(model, X, None, 1)
    for n_jobs in (2, 3):
        other = scores_of(model, X, None, n_jobs)
        assert (together != other).nnz == 0
    single = sp.vstack([scores_of(model, X[i : i + 1], None, 1) for i in range(40)])
    assert (together[:40] != single).nnz == 0
    dense = scores_of(model, X.toarray(), None, 2)
    assert (together != dense).nnz == 0


def test_topk_is_the_best_of_the_scores_and_trees_can_be_left_out():
    model = model_of(random_trees())
    X = random_rows()
    for n_trees in (0, 1, 3):
        ids, scores = model.apply(Rows(X, n_trees, 2)).topk(3)
        table = scores_of(model, X, n_trees, 1).toarray()
        for row, (labels, values) in enumerate(zip(ids, scores, strict=True)):
            found = labels >= 0
            assert found.sum() == min(3, np.count_nonzero(table[row]))
            assert values[found] == pytest.approx(np.sort(table[row])[::-1][: found.sum()])
            assert values[found] == pytest.approx(table[row, labels[found]])


def test_leaves_are_those_that_the_walk_reaches():
    trees = random_trees(threshold=-0.5)
    leaves = model_of(trees).leaves(Rows(random_rows(), None, 2))
    assert leaves.shape == (50, len(trees.leaf_indptr) - 1)
    per_tree = np.add.reduceat(leaves.toarray(), np.arange(3) * 7, axis=1)
    assert (per_tree >= 1).all()
    assert (per_tree > 1).any()


def test_rows_without_features_and_no_rows():
    model = model_of(random_trees())
    assert model.apply(Rows(sp.csr_matrix((0, N_FEATURES), dtype=np.float32), None, 2)).topk(2)[0].shape == (
        0,
        2,
    )
    empty = sp.csr_matrix((4, N_FEATURES), dtype=np.float32)
    wanted = naive.routed_scores(model.trees, np.zeros(N_FEATURES), N_LABELS)
    assert scores_of(model, empty, None, 1).toarray() == pytest.approx(np.tile(wanted, (4, 1)), abs=1e-6)


def test_margins_below_minus_one_go_to_the_largest():
    trees = RoutedTrees.from_shape(
        n_nodes=np.array([3]),
        inner=np.array([True, False, False]),
        router_sizes=np.array([1]),
        router_steps=np.array([0], np.uint8),
        router_weights=np.array([[-9.0, -5.0]], np.float32),
        router_bias=np.zeros((1, 2), np.float32),
        threshold=0.5,
        leaf_sizes=np.array([1, 1]),
        leaf_labels=np.array([0, 1], np.uint16),
        leaf_values=np.ones(2, np.float32),
    )
    ids, _ = model_of(trees, 1, 2).apply(Rows(np.ones((1, 1), np.float32))).topk(1)
    assert ids.tolist() == [[1]]


def test_huge_values_do_not_stop_a_walk():
    model = model_of(random_trees())
    X = np.full((3, N_FEATURES), 3e38, np.float32)
    assert (model.apply(Rows(X)).topk(1)[0] >= -1).all()


ARRAYS = [
    *("tree_offsets", "child", "inner", "router_indptr", "router_steps", "router_weights"),
    *("router_bias", "leaf_indptr", "leaf_labels", "leaf_values"),
]


@pytest.mark.parametrize(
    ("name", "at", "value"),
    [
        ("tree_offsets", 1, 0),
        ("tree_offsets", 1, -5),
        ("tree_offsets", -1, 10**6),
        ("child", 0, 0),
        ("child", 0, -1),
        ("child", 0, 2**31 - 1),
        ("child", -1, 0),
        ("inner", 0, 1),
        ("inner", 0, -1),
        ("inner", -1, 0),
        ("inner", -1, -2),
        ("router_indptr", 1, 10**9),
        ("router_indptr", 0, 1),
        ("router_steps", 0, N_FEATURES),
        ("router_steps", 1, 0),
        ("router_weights", 0, np.nan),
        ("router_bias", 0, np.inf),
        ("leaf_indptr", 1, -1),
        ("leaf_labels", 0, N_LABELS),
        ("leaf_values", 0, np.inf),
    ],
)
def test_arrays_that_no_walk_should_see_are_refused(name, at, value):
    trees = random_trees()
    arrays = {key: np.array(getattr(trees, key)) for key in ARRAYS}
    arrays[name].reshape(-1)[at] = value
    with pytest.raises(ValueError, match=r"must|column|label|inner|child|leaves|rise|needs"):
        _kernels.RoutedPredictor(
            **arrays,
            router_scale=np.empty(0, np.float32),
            feature_weights=np.empty(0, np.float32),
            unit_rows=False,
            threshold=0.5,
            n_features=N_FEATURES,
            n_labels=N_LABELS,
        )


def test_rows_with_unknown_features_are_refused():
    model = model_of(random_trees())
    rows = csr_parts(sp.csr_matrix(np.ones((1, N_FEATURES + 1), np.float32)))
    with pytest.raises(ValueError, match="does not have"):
        model.predictor.leaves(*rows, 1)
