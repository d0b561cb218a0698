"""Kernels of learned re-ranking against slow twins: linear models, neighbours, joined candidates."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import naive_rerank as naive
from sparseleaf import _kernels
from sparseleaf._arrays import csr_parts
from sparseleaf._vectors import PackedLists, PackedVectors


def rows_of(n, d, seed, density=0.5):
    rng = np.random.default_rng(seed)
    X = (rng.random((n, d)) * (rng.random((n, d)) < density)).astype(np.float32)
    return X, csr_parts(sp.csr_matrix(X))


def solve(parts, d, starts, examples, sides, **given):
    return solve_both(parts, d, starts, examples, sides, [], **given)[0]


def solve_both(parts, d, starts, examples, sides, seen, **given):
    how = {
        "cost": 1.0,
        "epochs": 2000,
        "more_epochs": 2000,
        "tolerance": 1e-6,
        "w0_indptr": np.empty(0, np.int64),
        "w0_features": np.empty(0, np.int32),
        "w0_values": np.empty(0, np.float32),
        "w0_bias": np.empty(0, np.float32),
        "prune": 0.0,
        "most": 1000,
        "seed": 3,
        "n_threads": 1,
        "report": lambda done: None,
    }
    starts, seen = np.asarray(starts, np.int64), np.asarray(seen, np.int64)
    examples, sides = np.asarray(examples, np.int32), np.asarray(sides, np.int8)
    return _kernels.fit_linear(*parts, d, starts, examples, sides, seen, **how | given)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.sampled_from([0.1, 1.0, 5.0]))
def test_linear_models_minimise_the_objective(seed, cost):
    X, parts = rows_of(12, 5, seed)
    rng = np.random.default_rng(seed)
    lists = [np.sort(rng.choice(12, size, replace=False)) for size in (12, 5, 0, 1)]
    sides = [rng.choice([-1, 1], len(rows)) for rows in lists]
    starts = np.cumsum([0, *map(len, lists)])
    indptr, features, weights, bias = solve(
        parts, 5, starts, np.concatenate(lists), np.concatenate(sides), cost=cost
    )
    dense = sp.csr_matrix((weights, features, indptr), shape=(4, 5)).toarray()
    for label, (rows, side) in enumerate(zip(lists, sides, strict=True)):
        w, b = naive.fit_linear(X[rows], side, cost)
        wanted = naive.linear_objective(w, b, X[rows], side, cost)
        found = naive.linear_objective(dense[label], bias[label], X[rows], side, cost)
        assert found == pytest.approx(wanted, rel=1e-3, abs=1e-5)
        assert np.append(dense[label], bias[label]) == pytest.approx(np.append(w, b), abs=2e-2)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.sampled_from([0.1, 1.0, 5.0]))
def test_linear_models_continue_from_weights(seed, cost):
    """The passive-aggressive update minimises ½‖w − w0‖² + C Σ hinge²: shifted, it is the objective from 0."""
    X, parts = rows_of(12, 5, seed)
    rng = np.random.default_rng(seed)
    sides = rng.choice([-1, 1], 12)
    w0, b0 = np.where(rng.random((2, 5)) < 0.6, rng.normal(size=(2, 5)), 0), rng.normal(size=2)
    start = sp.csr_matrix(w0.astype(np.float32))
    indptr, features, weights, bias = solve(
        parts,
        5,
        [0, 12, 12],
        np.arange(12),
        sides,
        cost=cost,
        w0_indptr=start.indptr.astype(np.int64),
        w0_features=start.indices.astype(np.int32),
        w0_values=start.data,
        w0_bias=b0.astype(np.float32),
    )
    dense = sp.csr_matrix((weights, features, indptr), shape=(2, 5)).toarray()
    assert np.array_equal(dense[1], start.toarray()[1])  # without examples nothing changes
    assert bias[1] == np.float32(b0[1])
    w, b = naive.continue_linear(X, sides, cost, w0[0], b0[0])
    assert np.append(dense[0], bias[0]) == pytest.approx(np.append(w, b), abs=2e-2)


def test_weights_to_start_from_are_validated():
    _, parts = rows_of(12, 5, 0)
    good = {
        "w0_indptr": np.array([0, 1], np.int64),
        "w0_features": np.array([4], np.int32),
        "w0_values": np.ones(1, np.float32),
        "w0_bias": np.zeros(1, np.float32),
    }
    bad = {
        "w0_indptr": np.array([0, 2], np.int64),
        "w0_features": np.array([5], np.int32),
        "w0_values": np.array([np.nan], np.float32),
        "w0_bias": np.zeros(2, np.float32),
    }
    solve(parts, 5, [0, 12], np.arange(12), np.ones(12), **good)
    for name, value in bad.items():
        with pytest.raises(ValueError, match=r"indptr|w0"):
            solve(parts, 5, [0, 12], np.arange(12), np.ones(12), **good | {name: value})


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.integers(0, 12))
def test_linear_models_with_held_out_examples_are_those_of_both_parts(seed, n_seen):
    _, parts = rows_of(12, 5, seed)
    sides = np.random.default_rng(seed).choice([-1, 1], 12)
    before, after = solve_both(parts, 5, [0, 12], np.arange(12), sides, [n_seen])
    for (indptr, features, weights, bias), n in ((before, n_seen), (after, 12)):
        alone = solve(parts, 5, [0, n], np.arange(n), sides[:n])
        for found in ((indptr, features, weights), alone[:3]):
            assert len(found[1]) == len(found[2]) == found[0][1]
        dense, wanted = (
            sp.csr_matrix((w, f, p), shape=(1, 5)).toarray()
            for p, f, w in ((indptr, features, weights), alone[:3])
        )
        assert dense == pytest.approx(wanted, abs=1e-2)
        assert bias == pytest.approx(alone[3], abs=1e-2)


def examples_of(proposed, Y, held_out, base=1e9, per_positive=0.0, seed=0):
    proposed, Y = sp.csr_matrix(proposed), sp.csr_matrix(Y)
    return _kernels.label_examples(
        proposed.indptr.astype(np.int64), proposed.indices.astype(np.int32), Y.indptr.astype(np.int64),
        Y.indices.astype(np.int32), np.asarray(held_out, np.uint8), Y.shape[1], base, per_positive, seed
    )  # fmt: skip


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1000), st.integers(0, 9), st.integers(0, 6))
def test_examples_are_rows_with_the_label_and_false_candidates(seed, n_rows, n_labels):
    rng = np.random.default_rng(seed)
    proposed, Y = (rng.random((2, n_rows, n_labels)) < 0.4).astype(np.float32)
    held_out = rng.random(n_rows) < 0.3
    starts, examples, sides, seen = examples_of(proposed, Y, held_out)
    for label in range(n_labels):
        rows = slice(starts[label], starts[label + 1])
        found = list(zip(examples[rows].tolist(), sides[rows].tolist(), strict=True))
        wanted = naive.examples_of_label(proposed[:, label], Y[:, label], held_out)
        assert found == wanted
        has_seen = (Y[:, label] > 0) & ~held_out
        assert seen[label] == (sum(not held_out[row] for row, _ in wanted) if has_seen.any() else 0)


def test_negative_examples_are_a_sample_of_the_false_candidates():
    proposed, Y = np.ones((4000, 2), np.float32), np.zeros((4000, 2), np.float32)
    Y[:10, 0] = Y[:20, 1] = 1
    drawn = [examples_of(proposed, Y, np.zeros(4000), 100, 20, seed) for seed in (0, 0, 1)]
    for starts, _, sides, _ in drawn:
        for label, n in enumerate((10, 20)):
            own = sides[starts[label] : starts[label + 1]]
            assert (own > 0).sum() == n
            assert abs((own < 0).sum() - (100 + 20 * n)) < 100
    assert np.array_equal(drawn[0][1], drawn[1][1])
    assert not np.array_equal(drawn[0][1], drawn[2][1])


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"labels": [2]}, "no such label"),
        ({"y_indices": [-1]}, "no such label"),
        ({"held_out": [0, 0]}, "same rows"),
        ({"starts": [0, 2]}, "indptr"),
        ({"base": -1.0}, "not negative"),
    ],
)
def test_bad_candidates_of_examples_are_refused(change, match):
    given = {"starts": [0, 1], "labels": [1], "y_indptr": [0, 1], "y_indices": [0], "held_out": [0]} | change
    types = {"starts": np.int64, "labels": np.int32, "y_indptr": np.int64, "y_indices": np.int32}
    arrays = {
        name: np.asarray(value, types.get(name, np.uint8)) for name, value in given.items() if name != "base"
    }
    with pytest.raises(ValueError, match=match):
        _kernels.label_examples(**arrays, n_labels=2, base=given.get("base", 1.0), per_positive=1.0, seed=0)


def test_linear_models_report_labels_and_end_where_the_report_raises():
    _, parts = rows_of(12, 5, 0)
    starts, examples, sides = np.arange(0, 13, 3), np.arange(12), np.tile([1, -1, 1], 4)
    reports = []
    solve(parts, 5, starts, examples, sides, report=reports.append)
    assert reports[0] == 1

    def interrupt(done):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        solve(parts, 5, starts, examples, sides, report=interrupt)


def test_a_linear_model_by_hand():
    # one row x = 1 with y = 1 and a bias: the dual α minimises α²·(2 + 1/(2C))/2 − α, so α = 1/2.5 for C = 1
    parts = csr_parts(sp.csr_matrix(np.ones((1, 1), np.float32)))
    _, _, weights, bias = solve(parts, 1, [0, 1], [0], [1])
    assert weights.tolist() == pytest.approx([0.4])
    assert bias.tolist() == pytest.approx([0.4])


def test_small_weights_are_dropped_and_the_largest_kept():
    X, parts = rows_of(40, 20, 1)
    sides = np.where(X[:, 3] > 0.2, 1, -1)
    full = solve(parts, 20, [0, 40], np.arange(40), sides)
    cut = solve(parts, 20, [0, 40], np.arange(40), sides, prune=0.3)
    few = solve(parts, 20, [0, 40], np.arange(40), sides, most=4)
    assert 0 < len(cut[1]) < len(full[1])
    assert cut[1].tolist() == full[1][np.abs(full[2]) >= 0.3].tolist()
    assert sorted(np.abs(few[2])) == pytest.approx(sorted(np.abs(full[2]))[-4:])
    assert (np.diff(few[1]) > 0).all()


def test_linear_models_do_not_depend_on_threads():
    _, parts = rows_of(60, 15, 2)
    rng = np.random.default_rng(0)
    starts = np.arange(31) * 20
    examples, sides = rng.integers(0, 60, 600), rng.choice([-1, 1], 600)
    one, more = (solve(parts, 15, starts, examples, sides, epochs=5, n_threads=n) for n in (1, 4))
    assert all(np.array_equal(a, b) for a, b in zip(one, more, strict=True))


@pytest.mark.parametrize(("change", "match"), [
    ({"examples": [9]}, "no such row"), ({"sides": [0]}, "1 or -1"), ({"cost": 0.0}, "cost"),
    ({"starts": [0, 2]}, "indptr"), ({"d": 1}, "no such feature"), ({"epochs": 0}, "epochs"),
    ({"seen": [2]}, "seen: more than"), ({"seen": [0, 0]}, "seen: one entry"),
])  # fmt: skip
def test_bad_arrays_of_linear_models_are_refused(change, match):
    parts = csr_parts(sp.csr_matrix(np.ones((2, 3), np.float32)))
    given = {"d": 3, "starts": [0, 1], "examples": [0], "sides": [1], "seen": []} | change
    arrays = [given.pop(name) for name in ("d", "starts", "examples", "sides", "seen")]
    with pytest.raises(ValueError, match=match):
        solve_both(parts, *arrays, **given)


def whole_vectors(matrix):
    """Vectors that are not rounded."""
    lists = PackedLists.of(matrix)
    return PackedVectors(lists.indptr, lists.steps, lists.width, values=matrix.data)


def look_up(X, queries, k, own=None, n_threads=1):
    postings = sp.csr_matrix(X.T)
    postings.sort_indices()
    index = _kernels.PostingIndex(whole_vectors(postings).kernel)
    n = queries.shape[0]
    found, products = np.empty((n, k), np.int32), np.empty((n, k), np.float32)
    itself = np.full(n, -1, np.int32) if own is None else np.asarray(own, np.int32)
    index.nearest(*csr_parts(sp.csr_matrix(queries)), itself, found, products, n_threads)
    return found, products


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 300), st.integers(1, 9))
def test_neighbours_are_the_rows_of_largest_product(seed, n, k):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 3, (n, 6)).astype(np.float32)  # small integers: ties, and exact sums
    queries = X[: min(n, 8)]
    own = np.where(rng.random(len(queries)) < 0.5, np.arange(len(queries)), -1)
    found, products = look_up(X, queries, k, own)
    for i, x in enumerate(queries):
        rows, wanted = naive.nearest(X, x, k, own[i])
        assert found[i].tolist() == rows.tolist()
        assert products[i].tolist() == wanted.tolist()
    again = look_up(X, queries, k, own, n_threads=3)
    assert np.array_equal(found, again[0])


def test_bad_postings_are_refused():
    one = PackedVectors(np.array([0, 1]), np.zeros(1, np.uint8), 1, values=np.ones(1, np.float32))
    for change, match in (
        ({"width": 0}, "an index that does not exist"),
        ({"values": np.array([np.inf], np.float32)}, "finite"),
        ({"values": np.ones(2, np.float32)}, "same size"),
        ({"values": np.ones(1, np.int8)}, "scale: one for every vector"),
        ({"values": np.ones(1, np.int16)}, "float32 or int8"),
        ({"steps": np.zeros(1, np.int8)}, "8, 16 or 32 bits"),
        ({"indptr": np.array([0, 2])}, "indptr"),
    ):
        with pytest.raises(ValueError, match=match):
            _ = replace(one, **change).kernel
    index = _kernels.PostingIndex(one.kernel)
    out = np.empty((1, 2), np.int32), np.empty((1, 2), np.float32)
    with pytest.raises(ValueError, match="a feature that the model does not have"):
        index.nearest(*csr_parts(sp.csr_matrix(np.ones((1, 2)))), np.zeros(1, np.int32), *out, 1)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1000), st.integers(0, 5), st.integers(0, 6))
def test_joined_candidates_are_the_twins(seed, places, k):
    rng = np.random.default_rng(seed)
    lists = [np.sort(rng.choice(9, rng.integers(0, 4), replace=False)) for _ in range(7)]
    steps = np.concatenate([np.empty(0, int), *(np.diff(one, prepend=0) for one in lists)])
    theirs = PackedLists(np.cumsum([0, *map(len, lists)]), steps.astype(np.uint8), 9)
    labels = np.stack([rng.permutation(9)[:places] for _ in range(5)]).astype(np.int32)
    labels[rng.random(labels.shape) < 0.2] = -1
    scores = rng.normal(size=labels.shape).astype(np.float32)
    found = rng.integers(-1, 7, (5, k)).astype(np.int32)
    closeness = rng.random((5, k)).astype(np.float32)
    named = rng.integers(-1, 9, (5, 2)).astype(np.int32)
    for n_threads in (1, 3):
        starts, joined, flat = _kernels.join_candidates(
            labels, scores, found, closeness, theirs.kernel, named, 10, n_threads
        )
        table = flat.reshape(-1, 10)
        assert (table[:, 8:] == 0).all()
        for i in range(5):
            own = slice(starts[i], starts[i + 1])
            wanted = naive.join(labels[i], scores[i], found[i], closeness[i], lists, named[i])
            assert joined[own].tolist() == sorted(wanted)
            for label, line in zip(joined[own], table[own], strict=True):
                assert line[:8] == pytest.approx(wanted[int(label)], rel=1e-4, abs=1e-5)


def test_bad_candidates_are_refused():
    labels, scores = np.zeros((1, 1), np.int32), np.zeros((1, 1), np.float32)
    theirs = PackedLists(np.array([0, 1]), np.zeros(1, np.uint8), 1).kernel
    with pytest.raises(ValueError, match="no such row"):
        _kernels.join_candidates(labels, scores, np.ones((1, 1), np.int32), scores, theirs, labels, 8, 1)
    with pytest.raises(ValueError, match="width"):
        _kernels.join_candidates(labels, scores, labels, scores, theirs, labels, 7, 1)
    with pytest.raises(ValueError, match="found, closeness"):
        _kernels.join_candidates(labels, scores, labels, np.zeros((1, 2), np.float32), theirs, labels, 8, 1)
    with pytest.raises(ValueError, match="named"):
        _kernels.join_candidates(labels, scores, labels, scores, theirs, np.zeros((2, 1), np.int32), 8, 1)


def test_products_with_label_vectors():
    X, parts = rows_of(150, 12, 3)
    W, _ = rows_of(7, 12, 4)
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 7, 450).astype(np.int32)
    starts = np.sort(np.append(rng.integers(0, 451, 149), [0, 450]))
    row = np.repeat(np.arange(150), np.diff(starts))
    kernel = _kernels.LabelVectors(whole_vectors(sp.csr_matrix(W)).kernel)
    for n_threads in (1, 3):
        out = np.empty(450, np.float32)
        kernel.products(*parts, starts, labels, out, n_threads)
        assert out == pytest.approx((X[row] * W[labels]).sum(axis=1), rel=1e-5, abs=1e-6)
    with pytest.raises(ValueError, match="no such label"):
        kernel.products(*parts, starts, labels + 1, out, 1)
