"""LdSM's node training against a slow twin with the paper's formulas."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import naive_ldsm as naive
from sparseleaf import _kernels
from sparseleaf._arrays import csr_parts

SETTINGS = {
    "epochs": 3,
    "learning_rate": 0.1,
    "lambda_1": 2.0,
    "lambda_2": 1.0,
    "tolerance": 0.0,
    "prune": 0.0,
    "min_samples_leaf": 1,
    "standardise": False,
    "copy_entries": 1 << 24,
    "n_threads": 1,
}
NAMES = [
    *("split", "features", "weights", "bias", "rows", "row_offsets"),
    *("labels", "counts", "label_offsets", "objective", "balance", "purity"),
]


def make_node(n=40, d=12, n_labels=7, seed=0, binary=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.4) * rng.choice([0.1, 1, 20], d)
    Y = (X @ rng.normal(size=(d, n_labels)) + rng.normal(size=(n, n_labels)) > 6).astype(int)
    Y[rng.random(n) < 0.8, 0] = 1
    return ((X != 0) if binary else X).astype(np.float32), Y


def train(X, Y, rows=None, key=5, arity=2, **changes):
    trainer = _kernels.LdsmTrainer(
        *csr_parts(sp.csr_matrix(X)),
        *csr_parts(sp.csr_matrix(Y, dtype=np.float32))[:2],
        X.shape[1],
        Y.shape[1],
        arity=arity,
        **SETTINGS | changes,
    )
    rows = np.arange(len(Y), dtype=np.int32) if rows is None else rows
    nodes = trainer.train(rows, np.array([0, len(rows)], np.int64), np.array([key], np.uint64))
    return dict(zip(NAMES, nodes[0], strict=True))


def same(a, b):
    return all(np.array_equal(a[name], b[name]) for name in NAMES)


@given(
    arity=st.integers(2, 7),
    n_labels=st.integers(1, 5),
    coarse=st.booleans(),
    lambda_1=st.sampled_from([0.0, 0.7, 1.0, 2.0, 3.3]),
    lambda_2=st.sampled_from([0.0, 0.3, 1.0, 4.0]),
    seed=st.integers(0, 10_000),
)
def test_best_subset_is_the_least_of_all(arity, n_labels, coarse, lambda_1, lambda_2, seed):
    rng = np.random.default_rng(seed)
    unit = 1.0 if coarse else 2.0**-20  # coarse numbers make ties
    Q = rng.integers(0, 4 / unit, size=(n_labels + 2, arity)) * unit
    labels = rng.permutation(n_labels + 2)[:n_labels].astype(np.int32)
    R = Q.sum(axis=0)
    n = float(np.ceil(R.max()) + n_labels)
    draw = int(rng.integers(2**63))
    values = naive.subset_objectives(R, Q, labels, n, lambda_1, lambda_2)
    subset, value = _kernels.ldsm_best_subset(R, Q, labels, n, lambda_1, lambda_2, draw)
    assert value == pytest.approx(min(values.values()), rel=1e-12, abs=1e-9)
    assert values[subset] == pytest.approx(value, rel=1e-12, abs=1e-9)
    if lambda_1 in (0.0, 1.0, 2.0) and lambda_2 in (0.0, 1.0, 4.0):  # exact in floats, so ties are ties
        assert subset == naive.best_subset(R, Q, labels, n, lambda_1, lambda_2, draw)


def test_first_row_goes_to_one_child_by_the_draw():
    nothing = np.zeros(2), np.zeros((1, 2)), np.array([0], np.int32)
    found = {_kernels.ldsm_best_subset(*nothing, 1.0, 2.0, 1.0, draw)[0] for draw in range(50)}
    assert found == {1, 2}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("arity", [2, 3, 4])
def test_node_agrees_with_its_twin(arity, binary, weighted):
    X, Y = make_node(binary=binary)
    rng = np.random.default_rng(3)
    of_rows, of_labels = (rng.uniform(0.3, 3, n).astype(np.float32) for n in Y.shape)
    counted = np.outer(of_rows.astype(float), of_labels.astype(float)) if weighted else np.ones(Y.shape)
    given = {"row_weights": of_rows, "label_weights": of_labels} if weighted else {}
    node = train(X, Y, arity=arity, **given)
    twin = naive.Node(X, Y, arity, 2.0, 1.0, 0.1, key=5, weights=counted).train(3)
    assert node["objective"] == pytest.approx(twin.objectives, abs=1e-5)
    sent = twin.routes()
    assert node["bias"] == pytest.approx(twin.b, abs=1e-4)
    weights = np.zeros((X.shape[1], arity))
    weights[node["features"]] = node["weights"].reshape(-1, arity)
    assert weights == pytest.approx(twin.w, abs=1e-4)
    for j in range(arity):
        rows = node["rows"][node["row_offsets"][j] : node["row_offsets"][j + 1]]
        assert rows.tolist() == [row for row, to in enumerate(sent) if j in to]
        part = slice(node["label_offsets"][j], node["label_offsets"][j + 1])
        counts = (Y * np.rint(counted * 2**20) / 2**20)[rows].sum(axis=0)
        assert node["labels"][part].tolist() == np.flatnonzero(counts).tolist()
        assert node["counts"][part].tolist() == counts[counts > 0].tolist()


@pytest.mark.parametrize("arity", [2, 3])
def test_balance_and_purity_are_the_papers_definitions(arity):
    X, Y = make_node(n=60)
    node = train(X, Y, arity=arity)
    sent = np.zeros((len(X), arity))
    for j in range(arity):
        sent[node["rows"][node["row_offsets"][j] : node["row_offsets"][j + 1]], j] = 1
    pi = Y.sum(axis=0) / Y.sum()
    P_of_label = (Y.T @ sent) / np.maximum(1, Y.sum(axis=0))[:, None]
    P = pi @ P_of_label
    assert node["balance"] == pytest.approx(np.abs(P - P.mean()).max())
    impure = np.minimum(P_of_label, P_of_label.sum(axis=1, keepdims=True) - P_of_label)
    assert node["purity"] == pytest.approx((pi @ impure).sum() / arity)


@pytest.mark.parametrize(("arity", "lambda_2"), [(2, 1.0), (3, 1.0), (4, 2.5)])
def test_minimum_of_lemmas_1_and_2_is_reached_where_labels_are_separable(arity, lambda_2):
    lambda_1, n = 1.0 if arity == 4 else 2.0, 80 * arity
    labels = np.random.default_rng(1).permutation(np.arange(n) % arity)
    X = np.eye(arity, dtype=np.float32)[labels]
    Y = np.eye(arity, dtype=int)[labels]
    node = train(X, Y, arity=arity, epochs=30, lambda_1=lambda_1, lambda_2=lambda_2, learning_rate=0.5)
    assert node["split"]
    assert (node["balance"], node["purity"]) == (0.0, 0.0)
    sent = np.zeros((n, arity))
    for j in range(arity):
        sent[node["rows"][node["row_offsets"][j] : node["row_offsets"][j + 1]], j] = 1
    P_of_label = (Y.T @ sent) / Y.sum(axis=0)[:, None]
    reached = naive.objective(sent.mean(axis=0), P_of_label, np.full(arity, 1 / arity), lambda_1, lambda_2)
    assert reached == pytest.approx(-lambda_1 * (arity - 1))
    assert node["objective"][-1] < -0.8 * lambda_1 * (arity - 1)


def test_rows_read_in_place_give_the_same_node():
    X, Y = make_node(n=100)
    assert same(train(X, Y), train(X, Y, copy_entries=0))


def test_order_of_rows_and_key_matter_threads_do_not():
    X, Y = make_node(n=100)
    rows = np.random.default_rng(0).permutation(100).astype(np.int32)
    assert not same(train(X, Y), train(X, Y, rows))
    assert not same(train(X, Y, key=5), train(X, Y, key=6))
    trainer_rows = np.concatenate([rows, rows[:50], rows[30:]])
    offsets = np.array([0, 100, 150, 220], np.int64)
    keys = np.array([5, 9, 77], np.uint64)
    found = []
    for n_threads in (1, 3):
        trainer = _kernels.LdsmTrainer(
            *csr_parts(sp.csr_matrix(X)),
            *csr_parts(sp.csr_matrix(Y, dtype=np.float32))[:2],
            X.shape[1],
            Y.shape[1],
            arity=2,
            **SETTINGS | {"n_threads": n_threads},
        )
        first = trainer.train(trainer_rows, offsets, keys)
        again = trainer.train(trainer_rows, offsets, keys)  # memory is used again
        for one, other in zip(first, again, strict=True):
            assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
        found.append(first)
    for one, other in zip(*found, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
    assert same(dict(zip(NAMES, found[0][0], strict=True)), train(X, Y, rows, key=5))


def test_rows_without_labels_have_no_say_but_are_sent():
    X, Y = make_node(n=60)
    more = np.concatenate([X, X[:20] + 1]), np.concatenate([Y, np.zeros((20, Y.shape[1]), int)])
    alone, joined = train(X, Y), train(*more)
    assert np.array_equal(
        alone["weights"].reshape(-1, 2), joined["weights"].reshape(-1, 2)[: len(alone["features"])]
    )
    assert np.array_equal(alone["objective"], joined["objective"])
    assert set(joined["rows"]) == set(range(80))


@pytest.mark.parametrize("standardise", [False, True])
def test_nothing_to_learn_from_is_no_split(standardise):
    empty = np.zeros((5, 3), np.float32)
    labels = np.eye(5, dtype=int)
    assert not train(empty, labels, standardise=standardise)["split"]
    assert not train(empty, np.zeros((5, 2), int), standardise=standardise)["split"]
    constant = np.ones((5, 3), np.float32)
    assert not train(constant, labels, standardise=standardise)["split"]
    assert not train(np.ones((1, 3), np.float32), np.ones((1, 1), int), standardise=standardise)["split"]


@pytest.mark.parametrize("scale", [1e-30, 1e-3, 1e30])
def test_routers_are_finite_whatever_the_scale(scale):
    X, Y = make_node()
    node = train(X * np.float32(scale), Y)
    assert np.isfinite(node["weights"]).all()
    assert np.isfinite(node["objective"]).all()


def test_scale_of_a_feature_does_not_matter():
    X, Y = make_node(n=200, seed=3)
    scales = 2.0 ** np.random.default_rng(0).integers(-6, 7, X.shape[1])
    a, b = train(X, Y), train((X * scales).astype(np.float32), Y)
    assert np.array_equal(a["rows"], b["rows"])
    assert a["weights"].reshape(-1, 2) == pytest.approx(
        b["weights"].reshape(-1, 2) * scales[:, None], rel=1e-3
    )


def test_standardised_routers_are_for_the_raw_features():
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(200, 4)) * [1, 10, 0.1, 0] + [100, -5, 3, 7]).astype(np.float32)
    Y = np.stack([X[:, 1] > -5, X[:, 1] <= -5], axis=1).astype(int)
    indptr = np.arange(201, dtype=np.int64) * 4
    indices = np.tile(np.arange(4, dtype=np.int32), 200)
    y = csr_parts(sp.csr_matrix(Y, dtype=np.float32))[:2]
    changes = {"standardise": True, "epochs": 20}
    trainer = _kernels.LdsmTrainer(indptr, indices, X.ravel(), *y, 4, 2, arity=2, **SETTINGS | changes)
    rows = np.arange(200, dtype=np.int32)
    node = dict(zip(NAMES, trainer.train(rows, np.array([0, 200]), np.array([1], np.uint64))[0], strict=True))
    assert 3 not in node["features"]  # constant
    z = X[:, node["features"]] @ node["weights"].reshape(-1, 2) + node["bias"]
    assert node["purity"] < 0.05
    sent = [naive.children(row) for row in z]
    agree = np.mean([row in node["rows"][: node["row_offsets"][1]] for row in range(200) if 0 in sent[row]])
    assert agree > 0.97  # sums in another order


@pytest.mark.parametrize("prune", [0.05, 0.2, 100.0])
def test_pruned_routers_keep_the_features_that_matter(prune):
    X, Y = make_node(n=200)
    full, pruned = train(X, Y, epochs=9), train(X, Y, epochs=9, prune=prune)
    reach = np.abs(full["weights"].reshape(-1, 2)).max(axis=1) * np.abs(X[:, full["features"]]).max(axis=0)
    kept = reach >= min(prune, 0.25 * reach.max())
    assert kept.sum() > 0
    assert (prune > 0.1) == (not kept.all())
    assert np.array_equal(full["features"][kept], pruned["features"])
    assert np.array_equal(full["weights"].reshape(-1, 2)[kept], pruned["weights"].reshape(-1, 2))


def test_passes_end_when_the_objective_has_settled():
    X, Y = make_node(n=200)
    assert len(train(X, Y, epochs=50, tolerance=0.01)["objective"]) < 50
    assert len(train(X, Y, epochs=50, tolerance=0.0)["objective"]) == 50


def test_small_children_are_refused():
    X, Y = make_node(n=200, seed=1)
    Y[np.arange(200) % 3 > 0, 0] = 0  # no label has most of the rows
    node = train(X, Y, lambda_1=1.0)
    assert node["split"]
    smallest = int(np.diff(node["row_offsets"]).min())
    assert train(X, Y, lambda_1=1.0, min_samples_leaf=smallest)["split"]
    assert not train(X, Y, lambda_1=1.0, min_samples_leaf=smallest + 1)["split"]


def test_bad_arguments_are_refused():
    X, Y = make_node()
    with pytest.raises(ValueError, match="arity"):
        train(X, Y, arity=17)
    with pytest.raises(ValueError, match="rows: must be less than"):
        train(X, Y, np.array([40], np.int32))
    x, y = csr_parts(sp.csr_matrix(X)), csr_parts(sp.csr_matrix(Y, dtype=np.float32))[:2]
    with pytest.raises(ValueError, match="must be less than n_features"):
        _kernels.LdsmTrainer(*x, *y, 3, Y.shape[1], arity=2, **SETTINGS)
    with pytest.raises(ValueError, match="must be less than n_labels"):
        _kernels.LdsmTrainer(*x, *y, X.shape[1], 2, arity=2, **SETTINGS)
